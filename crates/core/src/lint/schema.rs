//! Lint rules for schemas: their texts and values, and the subset that every model provider
//! understands (RFC 0030, Tier 1).

use serde_json::{Map, Value};

use super::{
    finding::{Findings, Severity},
    text,
};
use crate::{
    compact::is_plain_keyword, descriptor::SchemaObject, pointer::step, redact::is_secret_key,
};

/// The most schemas visited in one schema.
const MAX_NODES: usize = 2_000;
/// The deepest nesting of schemas.
const MAX_DEPTH: usize = 64;
/// Tier 1: levels of objects and arrays.
const PORTABLE_DEPTH: usize = 5;
/// Tier 1: properties in all.
const PORTABLE_PROPERTIES: usize = 100;

/// Keywords of Tier 1.
const PORTABLE: [&str; 13] = [
    "$schema",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "propertyOrdering",
    "items",
    "enum",
    "const",
    "title",
    "description",
    "default",
    "anyOf",
];

/// Keywords whose members or values are schemas.
const SCHEMAS: [&str; 18] = [
    "properties",
    "patternProperties",
    "$defs",
    "definitions",
    "dependentSchemas",
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "contains",
    "propertyNames",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];

/// Checks for hidden text, secrets and missing descriptions.
pub(super) fn check(pointer: &str, schema: &SchemaObject, found: &mut Findings<'_>) {
    walk(pointer, schema, &mut |pointer, schema, depth| {
        for keyword in ["title", "description", "$comment"] {
            if let Some(Value::String(words)) = schema.get(keyword) {
                text::one(&format!("{pointer}/{keyword}"), words, found);
            }
        }
        for keyword in ["default", "examples", "enum", "const"] {
            if let Some(value) = schema.get(keyword) {
                values(&format!("{pointer}/{keyword}"), value, 0, found);
            }
        }
        let Some(Value::Object(properties)) = schema.get("properties") else { return };
        for (name, property) in properties {
            let at = format!("{pointer}/properties{}", step(name));
            text::one(&at, name, found);
            let Value::Object(property) = property else { continue };
            let set = property
                .get("default")
                .and_then(Value::as_str)
                .is_some_and(|value| !value.is_empty());
            if set && is_secret_key(name) {
                found.push(
                    &format!("{at}/default"),
                    "secret/default",
                    Severity::Error,
                    "a property named like a secret has a default",
                    "remove the default; a secret belongs in a credential",
                );
            }
            if depth == 0 && pointer == "/inputSchema" && !says_something(property) {
                found.push(
                    &at,
                    "text/missing",
                    Severity::Advice,
                    "the argument has no description",
                    "describe the meaning of the argument and its expected form",
                );
            }
        }
    });
}

/// Whether the argument is documented; a reference counts as documentation.
fn says_something(property: &Map<String, Value>) -> bool {
    let has_text = |keyword: &str| {
        property.get(keyword).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty())
    };
    has_text("description") || has_text("title") || property.contains_key("$ref")
}

fn values(pointer: &str, value: &Value, depth: usize, found: &mut Findings<'_>) {
    match value {
        Value::String(words) => text::secret(pointer, words, found),
        Value::Array(items) if depth < 8 => {
            for (index, item) in items.iter().enumerate().take(MAX_NODES) {
                values(&format!("{pointer}/{index}"), item, depth + 1, found);
            }
        }
        Value::Object(members) if depth < 8 => {
            for (name, member) in members.iter().take(MAX_NODES) {
                values(&format!("{pointer}{}", step(name)), member, depth + 1, found);
            }
        }
        _ => {}
    }
}

/// Whether model providers accept a property with this name.
fn is_accepted_name(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=64).contains(&name.len()) && name.bytes().all(is_legal)
}

/// Checks for features of `schema` that some model provider does not understand.
pub(super) fn portable(pointer: &str, schema: &SchemaObject, found: &mut Findings<'_>) {
    const ADVICE: &str = "leave it out, or say it in the description, for models that take only \
         the portable subset";
    let mut properties = 0;
    if schema.get("type").is_none_or(|kind| kind != "object") {
        let message = "the `type` of the root is not `object`";
        found.push(pointer, "tier1/root", Severity::Advice, message, "set `type` to \"object\"");
    }
    walk(pointer, schema, &mut |pointer, schema, depth| {
        for keyword in schema.keys() {
            let known = PORTABLE.contains(&keyword.as_str()) || keyword.starts_with("x-");
            let misplaced = keyword == "anyOf" && depth == 0;
            // Definitions and references are reported at their place of use, once.
            if (!known || misplaced) && !matches!(keyword.as_str(), "$defs" | "definitions") {
                let message = match is_standard(keyword) {
                    true => format!("`{keyword}` is not understood by every model provider"),
                    false => "a keyword is not understood by every model provider".to_owned(),
                };
                let at = format!("{pointer}{}", step(keyword));
                found.push(&at, "tier1/keyword", Severity::Advice, message, ADVICE);
            }
        }
        if schema.get("items").is_some_and(Value::is_array) {
            let message = "a list of `items` is not understood by every model provider";
            let at = format!("{pointer}/items");
            found.push(&at, "tier1/keyword", Severity::Advice, message, ADVICE);
        }
        if let Some(Value::Object(members)) = schema.get("properties") {
            properties += members.len();
            if !members.keys().all(|name| is_accepted_name(name)) {
                found.push(
                    &format!("{pointer}/properties"),
                    "schema/property-name",
                    Severity::Warning,
                    "a property has a name that model providers refuse, together with the whole request",
                    "have the server use at most 64 letters, digits, `_`, `.` and `-`",
                );
            }
            let required: Vec<&str> = schema
                .get("required")
                .and_then(Value::as_array)
                .map(|names| names.iter().filter_map(Value::as_str).collect())
                .unwrap_or_default();
            if members.keys().any(|name| !required.contains(&name.as_str())) {
                found.push(
                    &format!("{pointer}/required"),
                    "tier1/required",
                    Severity::Advice,
                    "not every property is required",
                    "require all, and let optional ones be `null`",
                );
            }
            if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
                found.push(
                    &format!("{pointer}/additionalProperties"),
                    "tier1/open",
                    Severity::Advice,
                    "the object takes properties that it does not name",
                    "set `additionalProperties` to false",
                );
            }
        }
        if depth == PORTABLE_DEPTH + 1 {
            let message = format!("more than {PORTABLE_DEPTH} levels");
            found.push(pointer, "tier1/depth", Severity::Advice, message, "reduce the nesting");
        }
    });
    if properties > PORTABLE_PROPERTIES {
        let message = format!("{properties} properties, more than {PORTABLE_PROPERTIES}");
        found.push(pointer, "tier1/size", Severity::Advice, message, "split the tool");
    }
}

/// Whether `keyword` belongs to JSON Schema and may be named: others are the tool's own text.
fn is_standard(keyword: &str) -> bool {
    PORTABLE.contains(&keyword) || SCHEMAS.contains(&keyword) || is_plain_keyword(keyword)
}

/// Visits every object schema in `schema`, itself first, with its pointer and level.
fn walk(pointer: &str, schema: &SchemaObject, visit: &mut dyn FnMut(&str, &SchemaObject, usize)) {
    let mut left = MAX_NODES;
    let mut waiting: Vec<(String, &SchemaObject, usize)> = vec![(pointer.to_owned(), schema, 0)];
    while let Some((pointer, schema, depth)) = waiting.pop() {
        if left == 0 {
            return;
        }
        left -= 1;
        visit(&pointer, schema, depth);
        if depth >= MAX_DEPTH {
            continue;
        }
        for keyword in SCHEMAS {
            let Some(value) = schema.get(keyword) else { continue };
            let at = format!("{pointer}{}", step(keyword));
            let named = matches!(
                keyword,
                "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas"
            );
            match value {
                Value::Object(members) if named => {
                    for (name, member) in members.iter().take(left) {
                        if let Value::Object(member) = member {
                            waiting.push((format!("{at}{}", step(name)), member, depth + 1));
                        }
                    }
                }
                Value::Object(member) => waiting.push((at, member, depth + 1)),
                Value::Array(members) => {
                    for (index, member) in members.iter().enumerate().take(left) {
                        if let Value::Object(member) = member {
                            waiting.push((format!("{at}/{index}"), member, depth + 1));
                        }
                    }
                }
                _ => {}
            }
        }
    }
}
