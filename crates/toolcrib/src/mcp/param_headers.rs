//! `x-mcp-header`: arguments that clients repeat in `Mcp-Param-*` headers.
//!
//! A client over HTTP drops a tool whose annotations break the rules, so a schema with a broken one
//! is shown without any. What is shown is what is checked.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_core::{
    catalog::{Entry, ListFormat},
    descriptor::SchemaObject,
};

/// The keyword.
const KEYWORD: &str = "x-mcp-header";
/// Longest header name that is accepted behind `Mcp-Param-`.
const MAX_NAME: usize = 128;

/// One argument and the header that repeats it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ParamHeader {
    /// `Mcp-Param-…`, lower case.
    pub(super) header: String,
    /// Property names from the root of the arguments.
    path: Vec<String>,
}

/// A schema whose annotations break the rules.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// What `schema` asks to be repeated.
pub(super) fn read(schema: &SchemaObject) -> Result<Vec<ParamHeader>, Broken> {
    let mut found = Vec::new();
    if schema.contains_key(KEYWORD) {
        return Err(Broken);
    }
    walk(schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found)
}

/// What `entry` asks to be repeated; worked out once and kept with the tool.
pub(super) fn of(entry: &Entry) -> Vec<ParamHeader> {
    let json = entry.wire.get(entry, &KEPT);
    if json.is_empty() {
        return Vec::new();
    }
    serde_json::from_slice(&json).unwrap_or_default()
}

/// Takes the keyword out of `schema` and of every schema inside it.
pub(super) fn strip(schema: &mut SchemaObject) {
    schema.shift_remove(KEYWORD);
    for (keyword, value) in schema {
        match Inside::of(keyword) {
            Inside::Data => {}
            Inside::Named => {
                for named in value.as_object_mut().into_iter().flat_map(Map::values_mut) {
                    strip_value(named);
                }
            }
            Inside::Schemas => strip_value(value),
        }
    }
}

impl ParamHeader {
    /// The text that the header must have; `None` when there must be no header.
    pub(super) fn expected(&self, arguments: &Value) -> Option<String> {
        let value = self.path.iter().try_fold(arguments, |value, name| value.get(name))?;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

/// Keeps what `read` found with the tool, although it is no list of anything that clients see.
static KEPT: ListFormat =
    ListFormat { key: "mcp-param-headers", open: "", close: "", item: write_found };

fn write_found(entry: &Entry, out: &mut Vec<u8>) {
    let found = entry.tool.input_schema.as_ref().map(read);
    if let Some(Ok(found)) = found
        && !found.is_empty()
    {
        out.extend(serde_json::to_vec(&found).unwrap_or_default());
    }
}

/// What the value of a schema keyword holds.
enum Inside {
    /// Instance data.
    Data,
    /// Schemas by name.
    Named,
    /// A schema, an array of schemas, or something without schemas.
    Schemas,
}

impl Inside {
    fn of(keyword: &str) -> Self {
        match keyword {
            "default" | "const" | "enum" | "examples" => Self::Data,
            "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
                Self::Named
            }
            _ => Self::Schemas,
        }
    }
}

/// `path` is the way from the root by `properties` alone, if there is one.
fn walk(
    schema: &SchemaObject,
    mut path: Option<&mut Vec<String>>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), Broken> {
    for (keyword, value) in schema {
        match (Inside::of(keyword), value) {
            (Inside::Data, _) => {}
            (Inside::Named, Value::Object(named)) => {
                for (name, inner) in named {
                    let Value::Object(inner) = inner else { continue };
                    match path.as_deref_mut().filter(|_| keyword == "properties") {
                        Some(path) => {
                            path.push(name.clone());
                            if let Some(annotation) = inner.get(KEYWORD) {
                                found.push(annotated(annotation, inner, path, found)?);
                            }
                            walk(inner, Some(path), found)?;
                            path.pop();
                        }
                        None => walk_off_path(inner, found)?,
                    }
                }
            }
            (Inside::Schemas, Value::Object(inner)) => walk_off_path(inner, found)?,
            (Inside::Schemas, Value::Array(items)) => {
                for inner in items.iter().filter_map(Value::as_object) {
                    walk_off_path(inner, found)?;
                }
            }
            (Inside::Named | Inside::Schemas, _) => {}
        }
    }
    Ok(())
}

fn walk_off_path(schema: &SchemaObject, found: &mut Vec<ParamHeader>) -> Result<(), Broken> {
    if schema.contains_key(KEYWORD) {
        return Err(Broken);
    }
    walk(schema, None, found)
}

fn annotated(
    annotation: &Value,
    schema: &SchemaObject,
    path: &[String],
    found: &[ParamHeader],
) -> Result<ParamHeader, Broken> {
    let name = annotation.as_str().ok_or(Broken)?;
    let token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let primitive = matches!(
        schema.get("type").and_then(Value::as_str),
        Some("string" | "integer" | "boolean")
    );
    let header = format!("mcp-param-{}", name.to_ascii_lowercase());
    let unique = found.iter().all(|other| other.header != header);
    let legal = (1..=MAX_NAME).contains(&name.len()) && name.bytes().all(token);
    match legal && primitive && unique {
        true => Ok(ParamHeader { header, path: path.to_vec() }),
        false => Err(Broken),
    }
}

fn strip_value(value: &mut Value) {
    match value {
        Value::Object(schema) => strip(schema),
        Value::Array(items) => items.iter_mut().for_each(strip_value),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn schema(properties: Value) -> SchemaObject {
        json!({ "type": "object", "properties": properties }).as_object().unwrap().clone()
    }

    fn text(header: &str) -> Value {
        json!({ "type": "string", "x-mcp-header": header })
    }

    #[test]
    fn good_annotations_are_found_with_their_paths() {
        let found = read(&schema(json!({
            "region": text("Region"),
            "where": { "type": "object", "properties": { "zone": text("Zone") } },
            "x-mcp-header": { "type": "string" },
            "other": { "type": "string", "default": { "x-mcp-header": "data" } },
        })))
        .unwrap();
        let headers: Vec<_> = found.iter().map(|f| f.header.as_str()).collect();
        assert_eq!(headers, ["mcp-param-region", "mcp-param-zone"]);
        let arguments = json!({ "region": "eu", "where": { "zone": 7 } });
        let texts: Vec<_> = found.iter().map(|f| f.expected(&arguments)).collect();
        assert_eq!(texts, [Some("eu".to_owned()), Some("7".to_owned())]);
        assert_eq!(found[0].expected(&json!({ "region": null })), None);
    }

    #[test]
    fn broken_annotations_are_noticed_wherever_they_stand() {
        for properties in [
            json!({ "a": text("") }),
            json!({ "a": text("two words") }),
            json!({ "a": text("line\nbreak") }),
            json!({ "a": { "type": "string", "x-mcp-header": 7 } }),
            json!({ "a": { "type": "number", "x-mcp-header": "A" } }),
            json!({ "a": { "x-mcp-header": "A" } }),
            json!({ "a": text("Same"), "b": text("sAME") }),
            json!({ "a": { "type": "array", "items": text("A") } }),
            json!({ "a": { "anyOf": [text("A")] } }),
            json!({ "a": { "$defs": { "x": text("A") } } }),
            json!({ "a": { "items": { "properties": { "b": text("A") } } } }),
        ] {
            assert_eq!(read(&schema(properties.clone())), Err(Broken), "{properties}");
        }
        let root = json!({ "type": "object", "x-mcp-header": "A" });
        assert_eq!(read(root.as_object().unwrap()), Err(Broken));
    }

    #[test]
    fn stripping_removes_the_keyword_and_nothing_else() {
        let mut stripped = schema(json!({
            "x-mcp-header": text("A"),
            "b": { "type": "array", "items": [text("B")], "default": { "x-mcp-header": 1 } },
        }));
        strip(&mut stripped);
        let expected = schema(json!({
            "x-mcp-header": { "type": "string" },
            "b": { "type": "array", "items": [{ "type": "string" }], "default": { "x-mcp-header": 1 } },
        }));
        assert_eq!(stripped, expected);
    }
}
