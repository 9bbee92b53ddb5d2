//! `x-mcp-header`: arguments that a client repeats in `Mcp-Param-*` headers.
//!
//! A client over HTTP drops a tool whose annotations break the rules. A server refuses a call whose
//! headers differ from the body. Both sides therefore read a schema with the same code.

use http::{HeaderMap, HeaderName};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::header;

/// The keyword of a schema that names the header of an argument.
pub const KEYWORD: &str = "x-mcp-header";

/// One argument and the header that repeats it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ParamHeader {
    /// `mcp-param-…`, lower case.
    pub header: String,
    /// Property names from the root of the arguments.
    path: Vec<String>,
}

/// Which rule the annotations of a schema break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnnotationError {
    /// One is not reachable from the root through `properties` alone.
    Misplaced,
    /// One is not a header name.
    Name,
    /// Two properties have the same header name.
    Repeated,
    /// One is at a property other than a string, integer or boolean.
    Type,
}

/// Finds the arguments that `schema` repeats in headers.
///
/// # Errors
/// Fails if an annotation breaks the rules.
pub fn read(schema: &Map<String, Value>) -> Result<Vec<ParamHeader>, AnnotationError> {
    let mut found = Vec::new();
    if schema.contains_key(KEYWORD) {
        return Err(AnnotationError::Misplaced);
    }
    walk(schema, Some(&mut Vec::new()), &mut found)?;
    Ok(found)
}

/// Creates the `Mcp-Param-*` headers of a call with `arguments`; empty if the annotations of
/// `schema` break the rules.
pub fn headers(schema: &Map<String, Value>, arguments: &Map<String, Value>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for param in read(schema).unwrap_or_default() {
        let value = param.text(arguments).and_then(|text| header::encode(&text));
        let name = HeaderName::try_from(&param.header);
        if let (Ok(name), Some(value)) = (name, value) {
            headers.insert(name, value);
        }
    }
    headers
}

/// Removes the keyword from `schema` and from every schema inside it.
pub fn strip(schema: &mut Map<String, Value>) {
    schema.shift_remove(KEYWORD);
    for (keyword, value) in schema {
        match (KeywordContent::of(keyword), value) {
            (KeywordContent::Data, _) => {}
            (KeywordContent::Named, Value::Object(named)) => {
                named.values_mut().for_each(strip_value)
            }
            (KeywordContent::Named | KeywordContent::Schemas, value) => strip_value(value),
        }
    }
}

impl ParamHeader {
    /// Returns the text of `arguments` that the header repeats; `None` if there must be no header.
    pub fn text(&self, arguments: &Map<String, Value>) -> Option<String> {
        let (first, rest) = self.path.split_first()?;
        let first = arguments.get(first)?;
        match rest.iter().try_fold(first, |value, name| value.get(name))? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(number.to_string()),
            Value::Bool(truth) => Some(truth.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

impl AnnotationError {
    /// The reason, for the operator.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Misplaced => "an x-mcp-header is at a place that no argument has",
            Self::Name => "an x-mcp-header is not a header name",
            Self::Repeated => "two properties have the same x-mcp-header",
            Self::Type => {
                "an x-mcp-header is at a property other than a string, integer or boolean"
            }
        }
    }
}

/// The content of a schema keyword's value.
enum KeywordContent {
    /// Instance data.
    Data,
    /// Schemas by name.
    Named,
    /// A schema, an array of schemas, or a value without schemas.
    Schemas,
}

impl KeywordContent {
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

/// `path` is the way from the root through `properties` alone, if there is one.
fn walk<'a>(
    schema: &'a Map<String, Value>,
    mut path: Option<&mut Vec<&'a str>>,
    found: &mut Vec<ParamHeader>,
) -> Result<(), AnnotationError> {
    for (keyword, value) in schema {
        match (KeywordContent::of(keyword), value) {
            (KeywordContent::Data, _) => {}
            (KeywordContent::Named, Value::Object(named)) => {
                for (name, inner) in named {
                    match (path.as_deref_mut().filter(|_| keyword == "properties"), inner) {
                        (Some(path), Value::Object(inner)) => {
                            path.push(name);
                            if let Some(annotation) = inner.get(KEYWORD) {
                                found.push(annotated(annotation, inner, path, found)?);
                            }
                            walk(inner, Some(path), found)?;
                            path.pop();
                        }
                        (_, inner) => walk_off_path(inner, found)?,
                    }
                }
            }
            (KeywordContent::Named | KeywordContent::Schemas, value) => {
                walk_off_path(value, found)?
            }
        }
    }
    Ok(())
}

fn walk_off_path(value: &Value, found: &mut Vec<ParamHeader>) -> Result<(), AnnotationError> {
    match value {
        Value::Object(schema) if schema.contains_key(KEYWORD) => Err(AnnotationError::Misplaced),
        Value::Object(schema) => walk(schema, None, found),
        Value::Array(items) => items.iter().try_for_each(|item| walk_off_path(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn annotated(
    annotation: &Value,
    schema: &Map<String, Value>,
    path: &[&str],
    found: &[ParamHeader],
) -> Result<ParamHeader, AnnotationError> {
    let name = annotation.as_str().filter(|name| !name.is_empty()).ok_or(AnnotationError::Name)?;
    let header = format!("{}{}", header::PARAM_PREFIX, name.to_ascii_lowercase());
    if HeaderName::try_from(&header).is_err() {
        return Err(AnnotationError::Name);
    }
    if found.iter().any(|other| other.header == header) {
        return Err(AnnotationError::Repeated);
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("string" | "integer" | "boolean") => {
            let path = path.iter().map(|name| (*name).to_owned()).collect();
            Ok(ParamHeader { header, path })
        }
        _ => Err(AnnotationError::Type),
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

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    fn schema(properties: Value) -> Map<String, Value> {
        object(json!({ "type": "object", "properties": properties }))
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
        let arguments = object(json!({ "region": "eu", "where": { "zone": 7 } }));
        let texts: Vec<_> = found.iter().map(|f| f.text(&arguments)).collect();
        assert_eq!(texts, [Some("eu".to_owned()), Some("7".to_owned())]);
        assert_eq!(found[0].text(&object(json!({ "region": null }))), None);
    }

    #[test]
    fn annotated_arguments_become_headers() {
        let schema = schema(json!({
            "region": text("Region"),
            "deep": { "properties": { "n": { "type": "integer", "x-mcp-header": "N" } } },
            "flag": { "type": "boolean", "x-mcp-header": "Flag" },
            "absent": text("Absent"),
            "x-mcp-header": { "type": "string", "default": { "x-mcp-header": 1 } }
        }));
        let arguments = json!({ "region": "Zürich", "deep": { "n": 7 }, "flag": false });
        let headers = headers(&schema, &object(arguments));
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
    fn broken_annotations_are_found_wherever_they_are() {
        use AnnotationError::{Misplaced, Name, Repeated, Type};
        for (properties, broken) in [
            (json!({ "a": text("") }), Name),
            (json!({ "a": text("two words") }), Name),
            (json!({ "a": text("line\nbreak") }), Name),
            (json!({ "a": { "type": "string", "x-mcp-header": 7 } }), Name),
            (json!({ "a": { "type": "number", "x-mcp-header": "A" } }), Type),
            (json!({ "a": { "x-mcp-header": "A" } }), Type),
            (json!({ "a": text("Same"), "b": text("sAME") }), Repeated),
            (json!({ "a": { "type": "array", "items": text("A") } }), Misplaced),
            (json!({ "a": { "anyOf": [text("A")] } }), Misplaced),
            (json!({ "a": { "$defs": { "x": text("A") } } }), Misplaced),
            (json!({ "a": { "items": { "properties": { "b": text("A") } } } }), Misplaced),
        ] {
            assert_eq!(read(&schema(properties.clone())), Err(broken), "{properties}");
        }
        for schema in [
            json!({ "type": "object", "x-mcp-header": "A" }),
            json!({ "oneOf": [{ "properties": { "a": text("A") } }] }),
        ] {
            assert_eq!(read(&object(schema.clone())), Err(Misplaced), "{schema}");
        }
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
