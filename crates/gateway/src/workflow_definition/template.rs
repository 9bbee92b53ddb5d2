//! Templates: JSON values with references. There is no expression language:
//!
//! * `{ "$ref": "/steps/find/result/items/0" }` is replaced by the value at that path, which may be
//!   missing with `default` or `optional`;
//! * `{ "$text": ["Hello ", { "$ref": "/inputs/name" }] }` joins texts, numbers and booleans;
//! * `{ "$literal": … }` is replaced by its unprocessed value;
//! * every other value is used unchanged.

use serde_json::{Map, Value};

use crate::workflow_definition::value::{Status, StepValue};

/// A value with references.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Template {
    /// A value without references.
    Literal(Value),
    Reference(Reference),
    Text(Vec<Template>),
    Array(Vec<Template>),
    Object(Vec<(String, Template)>),
}

/// The target of a reference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Reference {
    pub(crate) root: Root,
    /// RFC 6901, from the root.
    pub(crate) pointer: String,
    pub(crate) absent: MissingValueRule,
    /// As it was typed.
    pub(crate) typed: String,
}

/// The start of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    Inputs,
    /// The result of a step, by its place.
    Result(usize),
    /// Its text.
    Text(usize),
    /// `ok`, `failed` or `skipped`.
    Status(usize),
    /// The item of `for_each`.
    Item,
    /// Its place.
    Index,
}

/// The value of a reference without a target.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum MissingValueRule {
    /// The step fails.
    Fails,
    /// The member is left out.
    Omitted,
    /// This value is used instead.
    Default(Value),
}

/// The targets of references at a place.
#[derive(Clone, Copy)]
pub(crate) struct Names<'a> {
    /// Ids of all steps, in order.
    pub(crate) steps: &'a [&'a str],
    /// Only steps before this one may be targets.
    pub(crate) before: usize,
    /// Whether there is an item.
    pub(crate) item: bool,
}

/// The values for references.
#[derive(Clone, Copy)]
pub(crate) struct Scope<'a> {
    pub(crate) inputs: &'a Value,
    pub(crate) steps: &'a [Option<std::sync::Arc<StepValue>>],
    pub(crate) item: Option<(usize, &'a Value)>,
}

/// A reference without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnresolvedReference(pub(crate) String);

/// Nesting of a template.
const MAX_DEPTH: usize = 32;

// === reading ===

/// Reports a place and its problem.
pub(super) type ProblemSink<'a> = dyn FnMut(String, String) + 'a;

impl Template {
    /// Reads `value` at `place`. An invalid part is reported and read as null.
    pub(crate) fn read(
        value: &Value,
        names: Names<'_>,
        place: &str,
        complain: &mut ProblemSink<'_>,
    ) -> Self {
        Self::read_at(value, names, place, complain, 0)
    }

    fn read_at(
        value: &Value,
        names: Names<'_>,
        place: &str,
        complain: &mut ProblemSink<'_>,
        depth: usize,
    ) -> Self {
        if depth > MAX_DEPTH {
            complain(place.to_owned(), "is nested too deeply".to_owned());
            return Self::Literal(Value::Null);
        }
        match value {
            Value::Object(members) => {
                Self::read_object(value, members, names, place, complain, depth)
            }
            Value::Array(items) => {
                let items = items.iter().enumerate().map(|(index, item)| {
                    let place = format!("{place}/{index}");
                    Self::read_at(item, names, &place, complain, depth + 1)
                });
                let items: Vec<Self> = items.collect();
                match items.iter().all(Self::is_literal) {
                    true => Self::Literal(value.clone()),
                    false => Self::Array(items),
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                Self::Literal(value.clone())
            }
        }
    }

    fn read_object(
        value: &Value,
        members: &Map<String, Value>,
        names: Names<'_>,
        place: &str,
        complain: &mut ProblemSink<'_>,
        depth: usize,
    ) -> Self {
        let nothing = || Self::Literal(Value::Null);
        if let Some(literal) = members.get("$literal") {
            if members.len() > 1 {
                complain(place.to_owned(), "`$literal` must be the only member".to_owned());
            }
            // A nested object would be processed.
            return Self::Literal(literal.clone());
        }
        if let Some(parts) = members.get("$text") {
            let Some(parts) = parts.as_array().filter(|_| members.len() == 1) else {
                let message = "`$text` must be the only member, a list of texts and references";
                complain(place.to_owned(), message.to_owned());
                return nothing();
            };
            let parts = parts.iter().enumerate().map(|(index, part)| {
                let place = format!("{place}/$text/{index}");
                let template = Self::read_at(part, names, &place, complain, depth + 1);
                if let Self::Literal(Value::Array(_) | Value::Object(_))
                | Self::Array(_)
                | Self::Object(_) = template
                {
                    complain(place, "is not a text, a number or a reference".to_owned());
                }
                template
            });
            return Self::Text(parts.collect());
        }
        if members.contains_key("$ref") {
            return match Reference::read(members, names) {
                Ok(reference) => Self::Reference(reference),
                Err(message) => {
                    complain(place.to_owned(), message);
                    nothing()
                }
            };
        }
        let members: Vec<(String, Self)> = members
            .iter()
            .map(|(name, member)| {
                let place = format!("{place}/{name}");
                (name.clone(), Self::read_at(member, names, &place, complain, depth + 1))
            })
            .collect();
        let plain = |(name, member): &(String, Self)| match member {
            Self::Literal(read) => value.get(name) == Some(read),
            _ => false,
        };
        match members.iter().all(plain) {
            true => Self::Literal(value.clone()),
            false => Self::Object(members),
        }
    }

    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    pub(crate) fn references(&self) -> Vec<&Reference> {
        match self {
            Self::Literal(_) => Vec::new(),
            Self::Reference(reference) => vec![reference],
            Self::Text(parts) | Self::Array(parts) => {
                parts.iter().flat_map(Self::references).collect()
            }
            Self::Object(members) => {
                members.iter().flat_map(|(_, member)| member.references()).collect()
            }
        }
    }
}

impl Reference {
    fn read(members: &Map<String, Value>, names: Names<'_>) -> Result<Self, String> {
        let mut absent = MissingValueRule::Fails;
        let mut typed = None;
        for (name, value) in members {
            match (name.as_str(), value) {
                ("$ref", Value::String(text)) => typed = Some(text),
                ("default", value) => absent = MissingValueRule::Default(value.clone()),
                ("optional", Value::Bool(true)) => absent = MissingValueRule::Omitted,
                ("optional", Value::Bool(false)) => {}
                _ => {
                    return Err("a reference is { $ref: \"/inputs/…\" }, and only `default` or \
                                `optional: true` in addition; { $literal: … } keeps a value \
                                unchanged"
                        .to_owned());
                }
            }
        }
        if members.contains_key("default") && members.get("optional") == Some(&Value::Bool(true)) {
            return Err("a reference has a `default` or is `optional`, not both".to_owned());
        }
        Self::parse(typed.map_or("", String::as_str), absent, names)
    }

    /// Reads the text of a reference.
    pub(crate) fn parse(
        text: &str,
        absent: MissingValueRule,
        names: Names<'_>,
    ) -> Result<Self, String> {
        let step = |rest: &str| -> Result<(Root, String), String> {
            let (id, rest) = rest.split_once('/').unwrap_or((rest, ""));
            let Some(at) = names.steps.iter().position(|step| *step == id) else {
                return Err("refers to a step that does not exist".to_owned());
            };
            if at >= names.before {
                return Err(format!(
                    "refers to step `{id}`, which does not come earlier in the file; move it up"
                ));
            }
            let (part, rest) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
            let pointer = rest.map(|rest| format!("/{rest}")).unwrap_or_default();
            match (part, pointer.is_empty()) {
                ("result", _) => Ok((Root::Result(at), pointer)),
                ("text", true) => Ok((Root::Text(at), pointer)),
                ("status", true) => Ok((Root::Status(at), pointer)),
                _ => Err(format!(
                    "a step has /steps/{id}/result and its members, /steps/{id}/text and \
                     /steps/{id}/status"
                )),
            }
        };
        let within = |rest: &str| match rest {
            "" => Some(String::new()),
            rest if rest.starts_with('/') => Some(rest.to_owned()),
            _ => None,
        };
        let (root, pointer) = if let Some(rest) = text.strip_prefix("/steps/") {
            step(rest)?
        } else if let Some(pointer) = text.strip_prefix("/inputs").and_then(within) {
            (Root::Inputs, pointer)
        } else if let Some(pointer) = text.strip_prefix("/item").and_then(within) {
            (Root::Item, pointer)
        } else if text == "/index" {
            (Root::Index, String::new())
        } else {
            return Err("a reference starts with /inputs, /steps/STEP/result or, in a step with \
                        `for_each`, /item or /index"
                .to_owned());
        };
        if matches!(root, Root::Item | Root::Index) && !names.item {
            return Err(
                "there is an /item only in the arguments of a step with `for_each`".to_owned()
            );
        }
        let escapes = pointer.split('~').skip(1).all(|rest| rest.starts_with(['0', '1']));
        if !escapes {
            return Err("`~` is written as `~0` and `/` in a name as `~1`".to_owned());
        }
        Ok(Self { root, pointer, absent, typed: text.to_owned() })
    }

    /// The step that it depends on.
    pub(crate) fn step(&self) -> Option<usize> {
        match self.root {
            Root::Result(step) | Root::Text(step) | Root::Status(step) => Some(step),
            Root::Inputs | Root::Item | Root::Index => None,
        }
    }

    /// The value at the target.
    pub(crate) fn find(&self, scope: Scope<'_>) -> Option<Value> {
        let value = |step: usize| scope.steps.get(step).and_then(Option::as_deref);
        match self.root {
            Root::Inputs => scope.inputs.pointer(&self.pointer).cloned(),
            Root::Result(step) => value(step)?.result.as_ref()?.pointer(&self.pointer).cloned(),
            Root::Text(step) => {
                let value = value(step)?;
                value.result.as_ref().map(|_| Value::String(value.text.clone()))
            }
            Root::Status(step) => {
                let status = value(step).map_or(Status::Skipped, |value| value.status);
                Some(Value::String(status.as_str().to_owned()))
            }
            Root::Item => scope.item?.1.pointer(&self.pointer).cloned(),
            Root::Index => Some(Value::from(scope.item?.0)),
        }
    }

    fn resolve(&self, scope: Scope<'_>) -> Result<Option<Value>, UnresolvedReference> {
        match (self.find(scope), &self.absent) {
            (Some(value), _) => Ok(Some(value)),
            (None, MissingValueRule::Default(value)) => Ok(Some(value.clone())),
            (None, MissingValueRule::Omitted) => Ok(None),
            (None, MissingValueRule::Fails) => Err(UnresolvedReference(self.typed.clone())),
        }
    }
}

// === filling in ===

impl Template {
    /// Fills in the values; `None` if it is one optional reference without a value.
    pub(crate) fn fill(&self, scope: Scope<'_>) -> Result<Option<Value>, UnresolvedReference> {
        Ok(Some(match self {
            Self::Literal(value) => value.clone(),
            Self::Reference(reference) => return reference.resolve(scope),
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part.fill(scope)? {
                        Some(Value::String(part)) => text.push_str(&part),
                        Some(Value::Null) | None => {}
                        Some(other) => text.push_str(&other.to_string()),
                    }
                }
                Value::String(text)
            }
            Self::Array(items) => {
                let items = items.iter().filter_map(|item| item.fill(scope).transpose());
                Value::Array(items.collect::<Result<_, _>>()?)
            }
            Self::Object(members) => {
                let mut object = Map::new();
                for (name, member) in members {
                    if let Some(value) = member.fill(scope)? {
                        object.insert(name.clone(), value);
                    }
                }
                Value::Object(object)
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;

    const NAMES: Names<'static> = Names { steps: &["find", "later"], before: 1, item: true };

    fn read(value: Value) -> Result<Template, Vec<(String, String)>> {
        let mut problems = Vec::new();
        let template = Template::read(&value, NAMES, "", &mut |place, what| {
            problems.push((place, what));
        });
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }

    fn filled(value: Value) -> Result<Option<Value>, UnresolvedReference> {
        let step = StepValue {
            status: Status::Ok,
            result: Some(json!({ "items": [{ "a/b": 7 }], "none": null })),
            text: "said".to_owned(),
        };
        let item = json!({ "name": "ann" });
        read(value).unwrap().fill(Scope {
            inputs: &json!({ "n": 3, "word": "x" }),
            steps: &[Some(Arc::new(step)), None],
            item: Some((4, &item)),
        })
    }

    #[test]
    fn references_are_filled_in_where_they_stand() {
        let value = json!({
            "plain": { "deep": [1, null, "two"] },
            "whole": { "$ref": "/inputs" },
            "one": { "$ref": "/steps/find/result/items/0/a~1b" },
            "null": { "$ref": "/steps/find/result/none" },
            "text": { "$text": ["n=", { "$ref": "/inputs/n" }, ", ", { "$ref": "/item/name" }] },
            "list": [{ "$ref": "/index" }, { "$ref": "/steps/find/status" }],
            "said": { "$ref": "/steps/find/text" },
            "gone": { "$ref": "/inputs/nothing", "optional": true },
            "given": { "$ref": "/inputs/nothing", "default": { "$ref": "not looked at" } },
            "kept": { "$literal": { "$ref": "#/definitions/a" } },
        });
        assert_eq!(
            filled(value).unwrap().unwrap(),
            json!({
                "plain": { "deep": [1, null, "two"] },
                "whole": { "n": 3, "word": "x" },
                "one": 7,
                "null": null,
                "text": "n=3, ann",
                "list": [4, "ok"],
                "said": "said",
                "given": { "$ref": "not looked at" },
                "kept": { "$ref": "#/definitions/a" },
            })
        );
        let nothing = json!([{ "$ref": "/inputs/nothing" }]);
        assert_eq!(filled(nothing).unwrap_err(), UnresolvedReference("/inputs/nothing".to_owned()));
    }

    #[test]
    fn what_is_no_reference_is_refused_at_its_place() {
        let deep = (0..40).fold(json!(1), |value, _| json!([value]));
        for (value, place, word) in [
            (json!({ "a": { "$ref": 3 } }), "/a", "a reference is"),
            (json!({ "a": [{ "$ref": "inputs/x" }] }), "/a/0", "starts with"),
            (json!({ "$ref": "/inputsx" }), "", "starts with"),
            (json!({ "$ref": "/steps/nobody/result" }), "", "does not exist"),
            (json!({ "$ref": "/steps/later/result" }), "", "does not come earlier"),
            (json!({ "$ref": "/steps/find" }), "", "/steps/find/result"),
            (json!({ "$ref": "/steps/find/text/3" }), "", "/steps/find/result"),
            (json!({ "$ref": "/inputs/a~2" }), "", "~0"),
            (json!({ "$ref": "/inputs/a", "else": 1 }), "", "a reference is"),
            (json!({ "$ref": "/inputs/a", "default": 1, "optional": true }), "", "not both"),
            (json!({ "$text": "x" }), "", "a list"),
            (json!({ "$text": ["x", {}] }), "/$text/1", "not a text"),
            (json!({ "$literal": 1, "a": 2 }), "", "must be the only member"),
            (deep, &*"/0".repeat(33), "deeply"),
        ] {
            let problems = read(value).unwrap_err();
            assert_eq!(problems[0].0, place, "{problems:?}");
            assert!(problems[0].1.contains(word), "{problems:?}");
        }
    }
}
