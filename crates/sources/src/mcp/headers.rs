//! What a request of the 2026-07-28 era repeats of its body in HTTP headers.

use std::collections::HashSet;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value};

pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// The member of a property's schema that asks for its argument as a header.
const ANNOTATION: &str = "x-mcp-header";
const PARAM_PREFIX: &str = "mcp-param-";
const SENTINEL: (&str, &str) = ("=?base64?", "?=");
/// Schemas nested deeper than this are not searched for annotations.
const MAX_DEPTH: usize = 64;

/// `text` as a header's value: as it is if it can travel so, else as `=?base64?…?=`.
pub(crate) fn value(text: &str) -> Option<HeaderValue> {
    let plain = text.bytes().all(|byte| matches!(byte, 0x20..=0x7e));
    let at_edge = text.starts_with([' ', '\t']) || text.ends_with([' ', '\t']);
    let like_sentinel = text.starts_with(SENTINEL.0) && text.ends_with(SENTINEL.1);
    if plain && !at_edge && !like_sentinel {
        return HeaderValue::from_str(text).ok();
    }
    let (open, close) = SENTINEL;
    HeaderValue::from_str(&format!("{open}{}{close}", BASE64_STANDARD.encode(text))).ok()
}

/// The `Mcp-Param-*` headers that `schema` asks for, for these `arguments`.
pub(crate) fn params(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for annotated in annotated(schema) {
        let argument = annotated.path.split_first().and_then(|(first, rest)| {
            rest.iter().try_fold(arguments.get(*first)?, |value, key| value.get(key))
        });
        let text = match argument {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Bool(flag)) => flag.to_string(),
            Some(Value::Number(number)) => number.to_string(),
            Some(Value::Null | Value::Array(_) | Value::Object(_)) | None => continue,
        };
        let name = annotated.header.as_str().and_then(param_name);
        if let (Some(name), Some(value)) = (name, value(&text)) {
            headers.insert(name, value);
        }
    }
    headers
}

/// What is wrong with the annotations of `schema`. A tool whose annotations are wrong must not be
/// offered by an HTTP client.
pub(crate) fn problem(schema: &Map<String, Value>) -> Option<&'static str> {
    let annotated = annotated(schema);
    if count(&Value::Object(schema.clone()), MAX_DEPTH) != annotated.len() {
        return Some("an x-mcp-header stands where no argument can be found for it");
    }
    let mut names = HashSet::new();
    for property in annotated {
        let Some(name) = property.header.as_str().and_then(param_name) else {
            return Some("an x-mcp-header is not a header name");
        };
        if !names.insert(name) {
            return Some("two properties have the same x-mcp-header");
        }
        let kind = property.schema.get("type").and_then(Value::as_str);
        if !matches!(kind, Some("string" | "integer" | "boolean")) {
            return Some(
                "an x-mcp-header stands at a property that is no string, integer or boolean",
            );
        }
    }
    None
}

fn param_name(header: &str) -> Option<HeaderName> {
    if header.is_empty() {
        return None;
    }
    HeaderName::try_from(format!("{PARAM_PREFIX}{header}")).ok()
}

/// A property that is reached from the root through `properties` alone and asks for a header.
struct Annotated<'a> {
    path: Vec<&'a str>,
    schema: &'a Map<String, Value>,
    header: &'a Value,
}

fn annotated(schema: &Map<String, Value>) -> Vec<Annotated<'_>> {
    fn collect<'a>(
        schema: &'a Map<String, Value>,
        path: &mut Vec<&'a str>,
        found: &mut Vec<Annotated<'a>>,
    ) {
        let properties = schema.get("properties").and_then(Value::as_object);
        if path.len() >= MAX_DEPTH {
            return;
        }
        for (name, schema) in properties.into_iter().flatten() {
            let Some(schema) = schema.as_object() else { continue };
            path.push(name);
            if let Some(header) = schema.get(ANNOTATION) {
                found.push(Annotated { path: path.clone(), schema, header });
            }
            collect(schema, path, found);
            path.pop();
        }
    }
    let mut found = Vec::new();
    collect(schema, &mut Vec::new(), &mut found);
    found
}

/// How many annotations there are anywhere in a schema. Names of properties and instance data are
/// not annotations.
fn count(schema: &Value, depth: usize) -> usize {
    let Some(deeper) = depth.checked_sub(1) else { return 0 };
    match schema {
        Value::Array(items) => items.iter().map(|item| count(item, deeper)).sum(),
        Value::Object(members) => members
            .iter()
            .map(|(key, value)| match (key.as_str(), value) {
                (ANNOTATION, _) => 1,
                ("default" | "const" | "enum" | "examples", _) => 0,
                (
                    "properties" | "patternProperties" | "$defs" | "definitions"
                    | "dependentSchemas",
                    Value::Object(schemas),
                ) => schemas.values().map(|schema| count(schema, deeper)).sum(),
                (_, value) => count(value, deeper),
            })
            .sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().cloned().unwrap()
    }

    #[test]
    fn values_that_are_not_plain_travel_as_base64() {
        for (text, expected) in [
            ("eu-west 1", "eu-west 1"),
            ("", ""),
            (" x", "=?base64?IHg=?="),
            ("x\t", "=?base64?eAk=?="),
            ("Zürich", "=?base64?WsO8cmljaA==?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            assert_eq!(value(text).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = object(json!({
            "type": "object",
            "properties": {
                "region": { "type": "string", "x-mcp-header": "Region" },
                "deep": { "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
                "flag": { "type": "boolean", "x-mcp-header": "Flag" },
                "absent": { "type": "string", "x-mcp-header": "Absent" },
                "x-mcp-header": { "type": "string", "default": { "x-mcp-header": 1 } }
            }
        }));
        assert_eq!(problem(&schema), None);
        let arguments = object(json!({ "region": "Zürich", "deep": { "n": 7 }, "flag": false }));
        let headers = params(&schema, &arguments);
        let mut seen: Vec<_> =
            headers.iter().map(|(k, v)| format!("{k}: {}", v.to_str().unwrap())).collect();
        seen.sort();
        assert_eq!(
            seen,
            [
                "mcp-param-flag: false",
                "mcp-param-n: 7",
                "mcp-param-region: =?base64?WsO8cmljaA==?="
            ]
        );
    }

    #[test]
    fn wrong_annotations_are_found() {
        for schema in [
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "" } } }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": "no space" } } }),
            json!({ "properties": { "a": { "type": "string", "x-mcp-header": 7 } } }),
            json!({ "properties": { "a": { "type": "number", "x-mcp-header": "A" } } }),
            json!({ "properties": {
                "a": { "type": "string", "x-mcp-header": "A" },
                "b": { "type": "string", "x-mcp-header": "a" } } }),
            json!({ "properties": { "a": { "items": { "type": "string", "x-mcp-header": "A" } } } }),
            json!({ "oneOf": [{ "properties": { "a": { "type": "string", "x-mcp-header": "A" } } }] }),
            json!({ "x-mcp-header": "Root" }),
        ] {
            assert!(problem(&object(schema.clone())).is_some(), "{schema}");
        }
    }
}
