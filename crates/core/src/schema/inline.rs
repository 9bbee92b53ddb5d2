//! Replaces the local references of a schema by the schemas that they name.
//!
//! Invariant: the result accepts every value that the original accepts. A schema that contains
//! itself, and schemas beyond the limits, are left open, and their description says so.

use serde_json::{Map, Value, json};

use super::{DATA, MAPS, SchemaObject};
use crate::pointer;

/// The most bytes of schemas that replace references. Nested references can multiply a schema
/// without limit.
const MAX_INSERTED: usize = 64 << 10;
/// The deepest nesting of the result, well below what parsers accept.
const MAX_DEPTH: usize = 80;
/// Keywords that hold schemas for references.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords next to a reference that restrict no value, so that they can belong to its schema.
const ANNOTATIONS: [&str; 10] = [
    "$comment",
    "$id",
    "$schema",
    "default",
    "deprecated",
    "description",
    "examples",
    "readOnly",
    "title",
    "writeOnly",
];

/// Replaces local `$ref` in `schema` and removes `$defs`. A schema that refers to anchors or to a
/// missing place needs its definitions, and is returned unchanged.
pub fn inline(schema: &SchemaObject) -> SchemaObject {
    let root = Value::Object(schema.clone());
    let mut inliner = Inliner { root: &root, path: Vec::new(), inserted: 0, has_unknown: false };
    let inlined = inliner.object(schema, 0);
    if inliner.has_unknown { schema.clone() } else { inlined }
}

struct Inliner<'s> {
    root: &'s Value,
    /// The references that are being replaced, the outermost first.
    path: Vec<String>,
    inserted: usize,
    /// Whether a reference needs the definitions.
    has_unknown: bool,
}

impl Inliner<'_> {
    fn schema(&mut self, schema: &Value, depth: usize) -> Value {
        match schema {
            Value::Object(members) => Value::Object(self.object(members, depth)),
            Value::Array(items) => items.iter().map(|item| self.schema(item, depth + 1)).collect(),
            other => other.clone(),
        }
    }

    fn object(&mut self, members: &SchemaObject, depth: usize) -> SchemaObject {
        if depth > MAX_DEPTH {
            return open("left open, because it is nested too deeply", None);
        }
        let (mut own, mut reference) = (Map::new(), None);
        for (keyword, value) in members {
            let kept = match (keyword.as_str(), value) {
                (word, Value::Object(_)) if DEFINITIONS.contains(&word) => continue,
                ("$ref", Value::String(text)) => {
                    reference = Some(text);
                    continue;
                }
                ("$dynamicRef" | "$recursiveRef", _) => {
                    self.has_unknown = true;
                    value.clone()
                }
                (word, _) if DATA.contains(&word) => value.clone(),
                (word, Value::Object(map)) if MAPS.contains(&word) => {
                    let named = map.iter();
                    named
                        .map(|(name, inner)| (name.clone(), self.schema(inner, depth + 2)))
                        .collect()
                }
                _ => self.schema(value, depth + 1),
            };
            own.insert(keyword.clone(), kept);
        }
        match reference {
            Some(reference) => self.referenced(reference, own, depth),
            None => own,
        }
    }

    /// The schema that `reference` names, restricted by `own`, the other keywords.
    fn referenced(&mut self, reference: &str, mut own: SchemaObject, depth: usize) -> SchemaObject {
        let Some(place) = reference.strip_prefix('#') else {
            // It refers to another document.
            own.insert("$ref".to_owned(), json!(reference));
            return own;
        };
        let Some(target) = pointer::find(self.root, place) else {
            self.has_unknown = true;
            return own;
        };
        let name = place.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("the whole");
        if self.inserted <= MAX_INSERTED {
            self.inserted += target.to_string().len();
        }
        let schema = if place.is_empty() || self.path.iter().any(|outer| outer == place) {
            open(&format!("as `{name}`, which contains it"), Some(target))
        } else if self.inserted > MAX_INSERTED {
            open(&format!("`{name}`, left open, because the schema is too long"), Some(target))
        } else {
            self.path.push(place.to_owned());
            let inlined = self.schema(target, depth);
            self.path.pop();
            match inlined {
                Value::Object(members) => members,
                Value::Bool(false) => SchemaObject::from_iter([("not".to_owned(), json!({}))]),
                _ => SchemaObject::new(),
            }
        };
        joined(schema, own)
    }
}

/// Creates a schema that restricts only the type, to that of `target`.
fn open(note: &str, target: Option<&Value>) -> SchemaObject {
    let mut schema = SchemaObject::new();
    if let Some(Value::String(kind)) = target.and_then(|members| members.get("type")) {
        schema.insert("type".to_owned(), json!(kind));
    }
    schema.insert("description".to_owned(), json!(note));
    schema
}

fn joined(schema: SchemaObject, mut own: SchemaObject) -> SchemaObject {
    if own.keys().all(|keyword| ANNOTATIONS.contains(&keyword.as_str())) {
        let mut schema = schema;
        schema.extend(own);
        return schema;
    }
    // Keywords such as `additionalProperties` see only their neighbours, so they stay apart.
    match own.get_mut("allOf") {
        Some(Value::Array(all)) => all.push(Value::Object(schema)),
        _ => drop(own.insert("allOf".to_owned(), json!([schema]))),
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlined(schema: Value) -> Value {
        Value::Object(inline(schema.as_object().unwrap()))
    }

    #[test]
    fn references_are_replaced_and_definitions_go() {
        let schema = json!({
            "type": "object",
            "properties": {
                "from": { "$ref": "#/$defs/Place", "description": "Where it starts" },
                "stops": { "type": "array", "items": { "$ref": "#/$defs/Place" } },
                // A property, not a reference.
                "$ref": { "const": { "$ref": "#/$defs/Place" } },
            },
            "$defs": {
                "Place": { "type": "object", "description": "A place",
                    "properties": { "zip": { "$ref": "#/$defs/a~1b" } } },
                "a/b": { "type": "string", "minLength": 3 },
                "unused": { "$ref": "#/$defs/Place" },
            },
        });
        let zip = json!({ "zip": { "type": "string", "minLength": 3 } });
        assert_eq!(
            inlined(schema),
            json!({
                "type": "object",
                "properties": {
                    "from": { "type": "object", "description": "Where it starts", "properties": zip },
                    "stops": { "type": "array", "items":
                        { "type": "object", "description": "A place", "properties": zip } },
                    "$ref": { "const": { "$ref": "#/$defs/Place" } },
                },
            })
        );
        let whole = json!({ "$schema": "s", "$ref": "#/definitions/A",
            "definitions": { "A": { "type": "object" } } });
        assert_eq!(inlined(whole), json!({ "type": "object", "$schema": "s" }));
    }

    #[test]
    fn keywords_next_to_a_reference_still_restrict() {
        let schema = json!({
            "properties": { "a": { "$ref": "#/$defs/A", "additionalProperties": false } },
            "$defs": { "A": { "required": ["x"] } },
        });
        let both = json!({ "additionalProperties": false, "allOf": [{ "required": ["x"] }] });
        assert_eq!(inlined(schema)["properties"]["a"], both);
    }

    #[test]
    fn a_schema_that_contains_itself_is_left_open() {
        let schema = json!({
            "properties": { "tree": { "$ref": "#/$defs/Node" }, "again": { "$ref": "#" } },
            "$defs": { "Node": { "type": "object",
                "properties": { "child": { "$ref": "#/$defs/Node" } } } },
        });
        let shown = inlined(schema);
        assert_eq!(
            shown["properties"]["tree"]["properties"]["child"],
            json!({ "type": "object", "description": "as `Node`, which contains it" })
        );
        assert_eq!(
            shown["properties"]["again"],
            json!({ "description": "as `the whole`, which contains it" })
        );
        assert!(!shown.to_string().contains("$ref"));
    }

    #[test]
    fn references_that_multiply_stay_within_the_limits() {
        let mut definitions = Map::new();
        for n in 0..60 {
            let next = json!({ "$ref": format!("#/$defs/d{}", n + 1) });
            definitions.insert(format!("d{n}"), json!({ "properties": { "a": next, "b": next } }));
        }
        definitions.insert("d60".to_owned(), json!({ "type": "string" }));
        let shown = inlined(json!({ "$ref": "#/$defs/d0", "$defs": definitions })).to_string();
        assert!(shown.len() < 4 * MAX_INSERTED, "{}", shown.len());
        assert!(shown.contains("left open, because "), "{shown}");
        assert!(serde_json::from_str::<Value>(&shown).is_ok());
    }

    #[test]
    fn what_cannot_be_replaced_keeps_its_definitions() {
        for reference in ["#anchor", "#/$defs/missing"] {
            let schema = json!({ "items": { "$ref": reference }, "$defs": { "A": {} } });
            assert_eq!(inlined(schema.clone()), schema);
        }
        let elsewhere = json!({ "items": { "$ref": "https://example.com/a.json" } });
        assert_eq!(inlined(elsewhere.clone()), elsewhere);
    }
}
