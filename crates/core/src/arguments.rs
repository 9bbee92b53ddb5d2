//! Input schemas, compiled once, and every way a value breaks them.
//!
//! Schemas come from upstreams and are hostile input: no reference is ever fetched, patterns run in
//! linear time, and what a schema can cost is bounded before it is compiled (`bounds`) and again
//! for each value. `format` is an annotation, as 2020-12 has it, so that a call is not refused over
//! a matter on which upstreams disagree.

use std::fmt::{self, Write as _};

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind as Kind};
use serde_json::Value;

use crate::pointer;

mod bounds;

/// One way in which a value breaks a schema.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// RFC 6901 pointer into the arguments; for a missing property, to where it should be.
    pub pointer: String,
    /// What is wrong, without repeating the caller's values.
    pub message: String,
    /// What is wrong in the validator's own words; may quote the caller's values, so it may only be
    /// given back to the caller itself (explorer `validate`).
    #[serde(skip)]
    pub verbatim: String,
    /// The schema keyword, for example `required`.
    pub keyword: String,
}

/// Why a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SchemaError(pub String);

/// A compiled input schema.
#[derive(Debug)]
pub struct ArgumentCheck(Compiled);

#[derive(Debug)]
enum Compiled {
    /// No schema, or one that says nothing.
    Anything,
    /// `{"type": "object"}` and nothing else that matters.
    AnyObject,
    Schema(Box<(Validator, bounds::Weight)>),
}

/// Violations reported; a caller can act on the first few, and each may take a kilobyte.
const MAX_VIOLATIONS: usize = 100;

/// Bytes of a message: enough for a sentence with a short enumeration in it.
const MAX_MESSAGE: usize = 400;

/// Bytes of one compiled pattern, and of its cache of states: `^[A-Za-z0-9_-]{1,256}$` takes 30 KB.
const MAX_PATTERN_BYTES: usize = 256 << 10;

/// Members that say nothing about which values are valid.
const ANNOTATIONS: &[&str] =
    &["$schema", "$id", "$comment", "title", "description", "examples", "default"];

impl ArgumentCheck {
    /// Accepts every value.
    pub fn anything() -> Self {
        Self(Compiled::Anything)
    }

    /// Compiles `schema`; none accepts everything. Never fetches a reference.
    pub fn compile(schema: Option<&Value>) -> Result<Self, SchemaError> {
        let Some(schema) = schema else { return Ok(Self::anything()) };
        if let Some(trivial) = trivial(schema) {
            return Ok(Self(trivial));
        }
        let weight = bounds::weigh(schema)?;
        let patterns =
            PatternOptions::regex().size_limit(MAX_PATTERN_BYTES).dfa_size_limit(MAX_PATTERN_BYTES);
        let validator = jsonschema::options()
            .offline()
            .with_pattern_options(patterns)
            .should_validate_formats(false)
            .build(schema)
            .map_err(|error| {
                let place = error.instance_path().as_str();
                let place = if place.is_empty() { "its root" } else { place };
                SchemaError(short(format_args!(
                    "the schema is not usable at {place}: {}",
                    error.masked()
                )))
            })?;
        Ok(Self(Compiled::Schema(Box::new((validator, weight)))))
    }

    /// The violations, in the order of the arguments; at most a hundred. For a value so large that
    /// finding all of them would be slow, only the first that was found.
    pub fn check(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        let (validator, weight) = match &self.0 {
            Compiled::Anything => return Ok(()),
            Compiled::AnyObject if arguments.is_object() => return Ok(()),
            Compiled::AnyObject => return Err(vec![not_an_object()]),
            Compiled::Schema(compiled) => (&compiled.0, &compiled.1),
        };
        let size = bounds::Size::of(arguments);
        if !weight.allows(&size) {
            return Err(vec![too_deep()]);
        }
        if validator.is_valid(arguments) {
            return Ok(());
        }
        let mut violations = Vec::new();
        if !weight.explains(&size) {
            violations.push(not_explained());
        } else if weight.explains_fully(&size) {
            for error in validator.iter_errors(arguments) {
                if violations.len() >= MAX_VIOLATIONS {
                    break;
                }
                push_violations(arguments, &error, &mut violations);
            }
        } else if let Err(error) = validator.validate(arguments) {
            push_violations(arguments, &error, &mut violations);
        }
        violations.truncate(MAX_VIOLATIONS);
        violations.sort_by_cached_key(|violation| position(arguments, &violation.pointer));
        if violations.is_empty() {
            violations.push(not_explained()); // never valid because nothing could be said
        }
        Err(violations)
    }
}

fn trivial(schema: &Value) -> Option<Compiled> {
    if schema.as_bool() == Some(true) {
        return Some(Compiled::Anything);
    }
    let mut compiled = Compiled::Anything;
    for (keyword, value) in schema.as_object()? {
        match (keyword.as_str(), value) {
            ("type", Value::String(name)) if name == "object" => compiled = Compiled::AnyObject,
            ("properties", Value::Object(properties)) if properties.is_empty() => {}
            ("required", Value::Array(names)) if names.is_empty() => {}
            ("additionalProperties", Value::Bool(true)) => {}
            (name, _) if ANNOTATIONS.contains(&name) => {}
            _ => return None,
        }
    }
    Some(compiled)
}

// === violations ===

fn not_an_object() -> Violation {
    let message = "the value is not of type \"object\"".to_owned();
    Violation {
        pointer: String::new(),
        verbatim: message.clone(),
        message,
        keyword: "type".to_owned(),
    }
}

fn too_deep() -> Violation {
    let message = "the arguments are nested too deeply for this schema".to_owned();
    Violation {
        pointer: String::new(),
        verbatim: message.clone(),
        message,
        keyword: "maxDepth".to_owned(),
    }
}

fn not_explained() -> Violation {
    let message = "the arguments do not fit the schema; they are too large to say where".to_owned();
    Violation {
        pointer: String::new(),
        verbatim: message.clone(),
        message,
        keyword: "schema".to_owned(),
    }
}

/// What `error` says, as one violation, or as one for each property that is too many.
fn push_violations(arguments: &Value, error: &ValidationError<'_>, out: &mut Vec<Violation>) {
    let at = error.instance_path().as_str();
    let violation = |pointer: String, message: String| Violation {
        pointer,
        message,
        verbatim: short(format_args!("{error}")),
        keyword: error.kind().keyword().to_owned(),
    };
    match error.kind() {
        Kind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            out.push(violation(
                at.to_owned() + &pointer::step(name),
                short(format_args!("{property} is a required property")),
            ));
        }
        Kind::AdditionalProperties { unexpected } | Kind::UnevaluatedProperties { unexpected } => {
            out.extend(
                unexpected.iter().take(MAX_VIOLATIONS).map(|name| unexpected_property(error, name)),
            );
        }
        // `"additionalProperties": false` without `properties`, which the validator treats as a
        // false schema for the first member, seen from the object.
        Kind::FalseSchema if first_member(arguments, at) == Some(error.instance().as_ref()) => {
            let members = arguments.pointer(at).and_then(Value::as_object);
            let names = members.into_iter().flat_map(|members| members.keys());
            out.extend(names.take(MAX_VIOLATIONS).map(|name| unexpected_property(error, name)));
        }
        // The "value" that the inner error is about is the property's name.
        Kind::PropertyNames { error: inner } => out.push(violation(
            at.to_owned() + &inner.instance().as_str().map(pointer::step).unwrap_or_default(),
            short(format_args!("{}", inner.masked_with("the property's name"))),
        )),
        Kind::FalseSchema => {
            out.push(violation(at.to_owned(), "no value is allowed here".to_owned()))
        }
        Kind::FromUtf8 { .. } => {
            out.push(violation(at.to_owned(), "the decoded value is not UTF-8".to_owned()));
        }
        Kind::RegexEngineFailure { .. } | Kind::BacktrackLimitExceeded { .. } => {
            out.push(violation(at.to_owned(), "the pattern could not be applied".to_owned()));
        }
        _ => out.push(violation(
            at.to_owned(),
            short(format_args!("{}", error.masked_with("the value"))),
        )),
    }
}

fn unexpected_property(error: &ValidationError<'_>, name: &str) -> Violation {
    let keyword = match error.kind() {
        Kind::UnevaluatedProperties { .. } => "unevaluatedProperties",
        _ => "additionalProperties",
    };
    Violation {
        pointer: error.instance_path().as_str().to_owned() + &pointer::step(name),
        message: "the property is not allowed".to_owned(),
        verbatim: short(format_args!("property {name:?} is not allowed")),
        keyword: keyword.to_owned(),
    }
}

fn first_member<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    document.pointer(pointer)?.as_object()?.values().next()
}

/// Where `pointer` stands in `document`: indices of members, the end of its object for a missing one.
fn position(document: &Value, pointer: &str) -> Vec<usize> {
    let mut place = Vec::new();
    let mut here = Some(document);
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        let (index, next) = match here {
            Some(Value::Object(members)) => {
                (members.keys().position(|key| *key == token), members.get(&token))
            }
            Some(Value::Array(items)) => {
                let index = token.parse().ok();
                (index, index.and_then(|index: usize| items.get(index)))
            }
            _ => (None, None),
        };
        place.push(index.unwrap_or(usize::MAX));
        here = next;
    }
    place
}

/// `text`, cut where it gets long. Cuts while it is written, because a validator's message may quote
/// a megabyte.
fn short(text: fmt::Arguments<'_>) -> String {
    struct Cut(String);
    impl fmt::Write for Cut {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            let room = MAX_MESSAGE.saturating_sub(self.0.len());
            if text.len() <= room {
                self.0.push_str(text);
                return Ok(());
            }
            self.0.push_str(text.get(..text.floor_char_boundary(room)).unwrap_or_default());
            self.0.push('…');
            Err(fmt::Error)
        }
    }
    let mut cut = Cut(String::new());
    match cut.write_fmt(text) {
        Ok(()) | Err(fmt::Error) => cut.0, // the error says that it is full
    }
}

#[cfg(test)]
mod tests;
