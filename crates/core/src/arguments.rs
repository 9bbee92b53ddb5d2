//! Input schemas, and every way a value breaks them.
//!
//! Schemas come from upstreams and are hostile input. No reference is ever fetched, and patterns
//! run in linear time. The cost of a schema is bounded before it is compiled (`bounds`) and again
//! for each value. `format` is an annotation, as in 2020-12, because upstreams disagree about it.
//!
//! A compiled schema takes ten times the memory of its text, and most tools of a large catalog are
//! never called. So a catalog compiles each schema once to check it, and again on the first call;
//! the [`Validators`] in use are kept up to a number of bytes.

use std::sync::Arc;

use jsonschema::{ValidationError, error::ValidationErrorKind as Kind};
use serde_json::Value;

use crate::{pointer, schema::Schema};

mod bounds;
mod compiled;
mod patterns;
mod validators;

use self::compiled::{CompiledSchema, compile, short};
pub use self::{bounds::SchemaError, validators::Validators};

/// One way in which a value breaks a schema.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Violation {
    /// RFC 6901 pointer into the arguments; for a missing property, to its expected place. Its
    /// names come from the caller, so a long pointer is cut and gets a final `…`.
    pub pointer: String,
    /// The problem, without the caller's values.
    pub message: String,
    /// The problem in the validator's own words. It may quote the caller's values, so it may only
    /// be returned to the caller itself (explorer `validate`).
    #[serde(skip)]
    pub verbatim: String,
    /// The schema keyword, for example `required`.
    pub keyword: String,
}

/// An input schema that can be compiled.
#[derive(Debug, Clone)]
pub struct ArgumentCheck(Check);

#[derive(Debug, Clone)]
enum Check {
    /// No schema, or one without constraints.
    Anything,
    /// `{"type": "object"}` without other constraints.
    AnyObject,
    /// Compiled for as long as the check exists.
    Compiled(Arc<CompiledSchema>),
    /// Compiled on first use.
    Kept(Arc<validators::LazySchema>),
}

/// The most violations reported. A caller can act on the first few, and each may take a kilobyte.
const MAX_VIOLATIONS: usize = 100;

/// The most characters of a pointer, which contains names that the caller chose.
const MAX_POINTER: usize = 256;

/// The message of a violation that costs too much to locate.
const NOT_EXPLAINED: &str =
    "the arguments do not fit the schema; they are too large to locate the violations";
/// Members that do not constrain values.
const ANNOTATIONS: &[&str] =
    &["$schema", "$id", "$comment", "title", "description", "examples", "default"];

impl Violation {
    /// Creates a violation of `keyword` at `pointer`, whose `message` repeats no values. Cuts a
    /// long pointer.
    pub fn new(pointer: &str, message: impl Into<String>, keyword: &str) -> Self {
        let message = message.into();
        Self {
            pointer: shown(pointer),
            verbatim: message.clone(),
            message,
            keyword: keyword.to_owned(),
        }
    }
}

impl ArgumentCheck {
    /// Creates a check that accepts every value.
    pub fn anything() -> Self {
        Self(Check::Anything)
    }

    /// Compiles `schema`; `None` accepts everything. Never fetches a reference. Patterns that do not
    /// run in linear time are not checked.
    pub fn compile(schema: Option<&Value>) -> Result<Self, SchemaError> {
        let Some(schema) = schema else { return Ok(Self::anything()) };
        if let Some(trivial) = trivial(schema) {
            return Ok(Self(trivial));
        }
        Ok(Self(Check::Compiled(Arc::new(compile(schema)?))))
    }

    /// Checks that `schema` can be compiled, and keeps its text. Its first use compiles it again,
    /// and `validators` keep the result while it is used. Also returns the patterns that are not
    /// checked, because they do not run in linear time.
    ///
    /// # Errors
    /// The same as [`compile`](Self::compile).
    pub fn compile_on_use(
        schema: &Value,
        text: &Schema,
        validators: &Arc<Validators>,
    ) -> Result<(Self, Vec<String>), SchemaError> {
        if let Some(trivial) = trivial(schema) {
            return Ok((Self(trivial), Vec::new()));
        }
        let CompiledSchema { unchecked, .. } = compile(schema)?;
        Ok((Self(Check::Kept(Arc::new(validators.keep(text.clone())))), unchecked))
    }

    /// Whether a check can start without compiling a large schema first. Compiling takes
    /// milliseconds, and up to a tenth of a second for the largest accepted schemas.
    pub fn is_prepared(&self) -> bool {
        match &self.0 {
            Check::Kept(kept) => kept.is_prepared(),
            Check::Anything | Check::AnyObject | Check::Compiled(_) => true,
        }
    }

    /// Compiles the schema if it is not compiled yet. Blocks the thread.
    pub fn prepare(&self) {
        if let Check::Kept(kept) = &self.0 {
            // An error is returned by the check.
            kept.compiled().ok();
        }
    }

    /// Returns at most a hundred violations, in the order of the arguments. For a value so large
    /// that finding all would be slow, returns only the first one found. If some are left out, a
    /// last violation with an empty pointer and no keyword says so.
    pub fn check(&self, arguments: &Value) -> Result<(), Vec<Violation>> {
        let one = |message: &str, keyword: &str| Err(vec![Violation::new("", message, keyword)]);
        let compiled = match &self.0 {
            Check::Anything => return Ok(()),
            Check::AnyObject if arguments.is_object() => return Ok(()),
            Check::AnyObject => return one("the value is not of type \"object\"", "type"),
            Check::Compiled(compiled) => Arc::clone(compiled),
            Check::Kept(kept) => match kept.compiled() {
                Ok(compiled) => compiled,
                // It could be compiled before. A check that fails to compile is a violation.
                Err(error) => return one(&error.0, "schema"),
            },
        };
        let CompiledSchema { validator, weight, .. } = &*compiled;
        let size = bounds::Size::of(arguments);
        if !weight.allows(&size) {
            let message = "the arguments are nested too deeply for this schema";
            return one(message, "maxDepth");
        }
        if !weight.affords(&size) {
            let message = "there are too many arguments for this schema, which looks for unevaluated \
                           members among many alternatives";
            return one(message, "unevaluatedProperties");
        }
        if validator.is_valid(arguments) {
            return Ok(());
        }
        if !weight.explains(&size) {
            return one(NOT_EXPLAINED, "schema");
        }
        let mut report = Report { arguments, found: Vec::new() };
        let mut left_out = None;
        if weight.explains_fully(&size) {
            for error in validator.iter_errors(arguments) {
                if report.is_full() {
                    break;
                }
                report.push_all(&error);
            }
            if report.is_full() {
                left_out = Some(format!("there are more than these {MAX_VIOLATIONS} violations"));
            }
        } else if let Err(error) = validator.validate(arguments) {
            report.push_all(&error);
            left_out =
                Some("there may be more; the arguments are too large to list all".to_owned());
        }
        let mut violations = report.sorted();
        if violations.is_empty() {
            return one(NOT_EXPLAINED, "schema"); // an unexplained violation is still a violation
        }
        if let Some(message) = left_out {
            violations.push(Violation::new("", message, ""));
        }
        Err(violations)
    }
}

fn trivial(schema: &Value) -> Option<Check> {
    if schema.as_bool() == Some(true) {
        return Some(Check::Anything);
    }
    let mut check = Check::Anything;
    for (keyword, value) in schema.as_object()? {
        match (keyword.as_str(), value) {
            ("type", Value::String(name)) if name == "object" => check = Check::AnyObject,
            ("properties", Value::Object(properties)) if properties.is_empty() => {}
            ("required", Value::Array(names)) if names.is_empty() => {}
            ("additionalProperties", Value::Bool(true)) => {}
            (name, _) if ANNOTATIONS.contains(&name) => {}
            _ => return None,
        }
    }
    Some(check)
}

// === violations ===

/// The violations found so far, each with its position in the arguments, because a shortened
/// pointer does not give it.
struct Report<'a> {
    arguments: &'a Value,
    found: Vec<(Vec<usize>, Violation)>,
}

impl Report<'_> {
    /// Whether there are more violations than are reported.
    fn is_full(&self) -> bool {
        self.found.len() > MAX_VIOLATIONS
    }

    fn sorted(mut self) -> Vec<Violation> {
        self.found.truncate(MAX_VIOLATIONS);
        self.found.sort_by(|(one, _), (other, _)| one.cmp(other));
        self.found.into_iter().map(|(_, violation)| violation).collect()
    }

    /// Adds the violations of `error`: one, or one for each unexpected property.
    fn push_all(&mut self, error: &ValidationError<'_>) {
        let at = error.instance_path().as_str();
        match error.kind() {
            Kind::Required { property } => {
                let name = property.as_str().unwrap_or_default();
                let message = short(format_args!("{property} is a required property"));
                self.push(error, &(at.to_owned() + &pointer::step(name)), message);
            }
            Kind::AdditionalProperties { unexpected }
            | Kind::UnevaluatedProperties { unexpected } => {
                self.push_unexpected(error, unexpected.iter());
            }
            // `"additionalProperties": false` without `properties`: the validator reports it as a
            // false schema for the first member, at the object.
            Kind::FalseSchema
                if first_member(self.arguments, at) == Some(error.instance().as_ref()) =>
            {
                let members = self.arguments.pointer(at).and_then(Value::as_object);
                self.push_unexpected(error, members.into_iter().flat_map(|members| members.keys()));
            }
            // The "value" in the inner error is the property's name.
            Kind::PropertyNames { error: inner } => {
                let name = inner.instance().as_str().map(pointer::step).unwrap_or_default();
                let message = short(format_args!("{}", inner.masked_with("the property's name")));
                self.push(error, &(at.to_owned() + &name), message);
            }
            Kind::FalseSchema => self.push(error, at, "no value is allowed here".to_owned()),
            Kind::FromUtf8 { .. } => {
                self.push(error, at, "the decoded value is not UTF-8".to_owned());
            }
            Kind::RegexEngineFailure { .. } | Kind::BacktrackLimitExceeded { .. } => {
                self.push(error, at, "the pattern could not be applied".to_owned());
            }
            _ => {
                let message = short(format_args!("{}", error.masked_with("the value")));
                self.push(error, at, message);
            }
        }
    }

    fn push(&mut self, error: &ValidationError<'_>, pointer: &str, message: String) {
        let violation = Violation {
            verbatim: short(format_args!("{error}")),
            ..Violation::new(pointer, message, error.kind().keyword())
        };
        self.found.push((position(self.arguments, pointer), violation));
    }

    fn push_unexpected<'n>(
        &mut self,
        error: &ValidationError<'_>,
        names: impl Iterator<Item = &'n String>,
    ) {
        let keyword = match error.kind() {
            Kind::UnevaluatedProperties { .. } => "unevaluatedProperties",
            _ => "additionalProperties",
        };
        // One more than is reported, to detect that there are more.
        for name in names.take(MAX_VIOLATIONS + 1) {
            let pointer = error.instance_path().as_str().to_owned() + &pointer::step(name);
            let violation = Violation {
                verbatim: short(format_args!("property {name:?} is not allowed")),
                ..Violation::new(&pointer, "the property is not allowed", keyword)
            };
            self.found.push((position(self.arguments, &pointer), violation));
        }
    }
}

/// Shortens a long `pointer`, but never inside an escape.
fn shown(pointer: &str) -> String {
    match pointer.char_indices().nth(MAX_POINTER) {
        None => pointer.to_owned(),
        Some((end, _)) => {
            let kept = pointer.get(..end).unwrap_or_default();
            kept.strip_suffix('~').unwrap_or(kept).to_owned() + "…"
        }
    }
}

fn first_member<'a>(document: &'a Value, pointer: &str) -> Option<&'a Value> {
    document.pointer(pointer)?.as_object()?.values().next()
}

/// The position of `pointer` in `document`: indices of members, and the end of its object for a
/// missing one.
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

#[cfg(test)]
mod tests;
