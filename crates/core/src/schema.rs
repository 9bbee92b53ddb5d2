//! A JSON Schema in object form, kept as its text.
//!
//! A catalog holds thousands of schemas and reads few of them. A tree of values takes seven times
//! the memory of its text, so schemas are parsed on use, and clones share the text.

mod inline;

use std::{
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value, value::RawValue};

pub use self::inline::inline;

/// The members of a JSON Schema (2020-12) in object form. Boolean schemas are not descriptors'
/// schemas.
pub type SchemaObject = Map<String, Value>;

/// The text of a [`SchemaObject`].
#[derive(Clone, Serialize)]
pub struct Schema(Arc<RawValue>);

/// Why an object cannot be kept as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the schema is nested deeper than {MAX_NESTING} levels")]
pub struct SchemaDepthError;

/// The deepest nesting of a schema, so that its text can be parsed again.
const MAX_NESTING: usize = 120;

impl Schema {
    /// Writes `object`.
    ///
    /// # Errors
    /// [`SchemaDepthError`]: the text could not be parsed again.
    pub fn new(object: &SchemaObject) -> Result<Self, SchemaDepthError> {
        if object.values().any(|member| is_deeper(member, MAX_NESTING - 1)) {
            return Err(SchemaDepthError);
        }
        // A map of JSON always has a text.
        serde_json::value::to_raw_value(object)
            .map(|text| Self(text.into()))
            .map_err(|_| SchemaDepthError)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        self.0.get()
    }

    /// Parses the text.
    pub fn to_object(&self) -> SchemaObject {
        // The text belongs to an object of bounded depth.
        serde_json::from_str(self.as_str()).unwrap_or_default()
    }

    /// Parses the text.
    pub fn to_value(&self) -> Value {
        Value::Object(self.to_object())
    }

    /// Whether both share one text in memory.
    pub fn is_shared_with(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Keywords whose values are data, not schemas.
pub const DATA: [&str; 5] = ["const", "default", "enum", "example", "examples"];
/// Keywords whose values are maps of schemas under any names.
pub(crate) const MAPS: [&str; 6] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];

/// Calls `visitor` with each object in `schema` that is a schema, or may be one because a reference
/// can name it. Skips maps of schemas, and data.
pub fn visit<'s>(schema: &'s Value, visitor: &mut impl FnMut(&'s SchemaObject)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| visit(item, visitor)),
        Value::Object(members) => {
            visitor(members);
            for (keyword, value) in members {
                match value {
                    _ if DATA.contains(&keyword.as_str()) => {}
                    Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                        map.values().for_each(|schema| visit(schema, visitor));
                    }
                    schema => visit(schema, visitor),
                }
            }
        }
        _ => {}
    }
}

/// Visits the same schemas as [`visit`], and may change them.
pub fn visit_mut(schema: &mut Value, visitor: &mut impl FnMut(&mut SchemaObject)) {
    match schema {
        Value::Array(items) => items.iter_mut().for_each(|item| visit_mut(item, visitor)),
        Value::Object(members) => {
            visitor(members);
            for (keyword, value) in members.iter_mut() {
                match value {
                    _ if DATA.contains(&keyword.as_str()) => {}
                    Value::Object(map) if MAPS.contains(&keyword.as_str()) => {
                        map.values_mut().for_each(|schema| visit_mut(schema, visitor));
                    }
                    schema => visit_mut(schema, visitor),
                }
            }
        }
        _ => {}
    }
}

/// The patterns of one schema, without those of its subschemas.
pub fn patterns(members: &SchemaObject) -> impl Iterator<Item = &str> {
    let pattern = members.get("pattern").and_then(Value::as_str);
    pattern.into_iter().chain(name_patterns(members))
}

/// The patterns for the names of properties of one schema.
pub(crate) fn name_patterns(members: &SchemaObject) -> impl Iterator<Item = &str> {
    let named = members.get("patternProperties").and_then(Value::as_object);
    named.into_iter().flat_map(|named| named.keys().map(String::as_str))
}

/// Whether `value` has values inside more than `levels` others.
pub fn is_deeper(value: &Value, levels: usize) -> bool {
    match value {
        Value::Array(items) if !items.is_empty() => {
            levels == 0 || items.iter().any(|item| is_deeper(item, levels - 1))
        }
        Value::Object(members) if !members.is_empty() => {
            levels == 0 || members.values().any(|member| is_deeper(member, levels - 1))
        }
        _ => false,
    }
}

impl PartialEq for Schema {
    fn eq(&self, other: &Self) -> bool {
        self.is_shared_with(other) || self.as_str() == other.as_str()
    }
}

impl Eq for Schema {}

impl Hash for Schema {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl TryFrom<&Value> for Schema {
    type Error = SchemaDepthError;

    /// Writes the members of `value`; only an object has members.
    fn try_from(value: &Value) -> Result<Self, SchemaDepthError> {
        match value {
            Value::Object(members) => Self::new(members),
            _ => Self::new(&SchemaObject::new()),
        }
    }
}

impl<'de> Deserialize<'de> for Schema {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Readers with a buffer do not support raw text.
        let object = SchemaObject::deserialize(deserializer)?;
        Self::new(&object).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn nested(levels: usize) -> Value {
        (1..levels).fold(json!({}), |inner, _| json!({ "not": inner }))
    }

    #[test]
    fn a_schema_is_what_it_was_with_its_members_in_order() {
        let value = json!({
            "type": "object",
            "properties": { "b": { "maximum": 0.1 }, "a": { "const": u64::MAX } },
        });
        let schema = Schema::try_from(&value).unwrap();
        assert_eq!(schema.as_str(), value.to_string());
        assert_eq!(schema.to_value().to_string(), value.to_string());
        assert_eq!(serde_json::to_value(&schema).unwrap().to_string(), value.to_string());
        assert_eq!(serde_json::from_value::<Schema>(value).unwrap(), schema);
    }

    #[test]
    fn every_accepted_schema_can_be_parsed_again() {
        let deepest = Schema::try_from(&nested(MAX_NESTING)).unwrap();
        assert_eq!(deepest.to_value(), nested(MAX_NESTING));
        assert_eq!(Schema::try_from(&nested(MAX_NESTING + 2)), Err(SchemaDepthError));
    }
}
