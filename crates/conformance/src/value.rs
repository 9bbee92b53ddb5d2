//! Access to members of JSON documents.

use std::collections::BTreeSet;

use serde_json::Value;

/// The text `name` of `object`; empty if it is missing or not a text.
pub(crate) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The items of the array `name` of `object`; empty if it is missing or not an array.
pub(crate) fn array<'a>(object: &'a Value, name: &str) -> &'a [Value] {
    object.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

pub(crate) fn texts<'a>(object: &'a Value, name: &str) -> Vec<&'a str> {
    array(object, name).iter().filter_map(Value::as_str).collect()
}

/// Sets the member `name` of `object`.
pub(crate) fn with(mut object: Value, name: &str, value: impl Into<Value>) -> Value {
    if let Some(members) = object.as_object_mut() {
        members.insert(name.to_owned(), value.into());
    }
    object
}

/// Finds the first text that occurs a second time.
pub(crate) fn duplicate<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    texts.find(|text| !seen.insert(*text))
}

/// The JSON type of `value` with its article.
pub(crate) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Whether the explorer or MCP annotations of `tool` mark it as read-only.
pub(crate) fn is_read_only(tool: &Value) -> bool {
    let has =
        |hint: &str| tool.pointer(&format!("/annotations/{hint}")) == Some(&Value::Bool(true));
    has("readOnlyHint") && !has("destructiveHint")
}
