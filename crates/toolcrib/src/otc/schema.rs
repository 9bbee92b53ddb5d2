//! Self-contained schemas: local references are replaced by their targets, definitions are removed,
//! and every parameter has a description. Arguments are still validated against the original.

use serde_json::{Map, Value, json};

/// Maximum number of schema objects in one tool. References can multiply (each of ten levels naming
/// the next one ten times), and upstreams are untrusted.
const MAX_SCHEMAS: usize = 10_000;

/// Keywords whose value is a map from names to schemas.
const NAMED: &[&str] = &["properties", "patternProperties", "dependentSchemas", "dependencies"];
/// Keywords whose value is a schema or a list of schemas.
const NESTED: &[&str] = &[
    "items",
    "prefixItems",
    "additionalItems",
    "unevaluatedItems",
    "contains",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "contentSchema",
    "allOf",
    "anyOf",
    "oneOf",
    "not",
    "if",
    "then",
    "else",
];
/// Keywords without a meaning after references are replaced.
const DROPPED: &[&str] =
    &["$defs", "definitions", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$id", "id"];

/// Returns `root` without references. References that are circular, dangling or external become
/// `{}`, which accepts everything.
pub(super) fn self_contained(root: &Map<String, Value>) -> Value {
    let document = Value::Object(root.clone());
    Inliner { document: &document, left: MAX_SCHEMAS, inside: vec![""] }.object(root)
}

struct Inliner<'a> {
    document: &'a Value,
    left: usize,
    /// The references that are currently being replaced.
    inside: Vec<&'a str>,
}

impl<'a> Inliner<'a> {
    fn schema(&mut self, schema: &'a Value) -> Value {
        match schema {
            Value::Object(object) => self.object(object),
            Value::Array(list) => list.iter().map(|schema| self.schema(schema)).collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
        }
    }

    fn object(&mut self, object: &'a Map<String, Value>) -> Value {
        match self.left.checked_sub(1) {
            Some(left) => self.left = left,
            None => return json!({}),
        }
        let reference = ["$ref", "$dynamicRef", "$recursiveRef"]
            .iter()
            .find_map(|keyword| object.get(*keyword))
            .and_then(Value::as_str);
        let mut own = Map::new();
        for (keyword, value) in object {
            let keyword = keyword.as_str();
            if DROPPED.contains(&keyword) && (keyword != "id" || value.is_string())
                || matches!(keyword, "$ref" | "$dynamicRef" | "$recursiveRef")
            {
                continue;
            }
            let value = match value {
                Value::Object(named) if NAMED.contains(&keyword) => named
                    .iter()
                    .map(|(name, schema)| (name.clone(), self.schema(schema)))
                    .collect::<Map<_, _>>()
                    .into(),
                _ if NESTED.contains(&keyword) => self.schema(value),
                _ => value.clone(),
            };
            own.insert(keyword.to_owned(), value);
        }
        match reference {
            None => Value::Object(own),
            Some(reference) => beside(self.resolve(reference), own),
        }
    }

    fn resolve(&mut self, reference: &'a str) -> Value {
        let Some(pointer) = reference.strip_prefix('#') else { return json!({}) };
        if self.inside.contains(&pointer) {
            return json!({});
        }
        let decoded = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy();
        let target = match decoded.is_empty() || decoded.starts_with('/') {
            true => self.document.pointer(&decoded),
            false => anchored(self.document, &decoded),
        };
        let Some(target) = target else { return json!({}) };
        self.inside.push(pointer);
        let schema = self.schema(target);
        self.inside.pop();
        schema
    }
}

/// Finds the schema in `value` with the anchor `anchor`.
fn anchored<'a>(value: &'a Value, anchor: &str) -> Option<&'a Value> {
    let mut left = MAX_SCHEMAS;
    let mut next = vec![value];
    while let Some(value) = next.pop() {
        left = left.checked_sub(1)?;
        match value {
            Value::Object(members) => {
                let named = ["$anchor", "$dynamicAnchor"]
                    .iter()
                    .any(|keyword| members.get(*keyword).and_then(Value::as_str) == Some(anchor));
                if named {
                    return Some(value);
                }
                next.extend(members.values());
            }
            Value::Array(items) => next.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

/// Merges the target of a reference with the reference's sibling keywords. Both apply (2020-12), so
/// the target moves into `allOf` where a keyword would be lost.
fn beside(target: Value, own: Map<String, Value>) -> Value {
    if own.is_empty() {
        return target;
    }
    match target {
        Value::Object(mut target) => {
            let says = |keyword: &str| {
                matches!(keyword, "title" | "description" | "default" | "examples" | "deprecated")
            };
            if own.keys().all(|keyword| says(keyword) || !target.contains_key(keyword)) {
                target.extend(own);
                return Value::Object(target);
            }
            let mut own = own;
            match own.get_mut("allOf") {
                Some(Value::Array(all)) => all.push(Value::Object(target)),
                _ => {
                    own.insert("allOf".to_owned(), Value::Array(vec![Value::Object(target)]));
                }
            }
            Value::Object(own)
        }
        other => other,
    }
}

/// Adds a description to every parameter: its title or its name by default.
pub(super) fn described(mut parameters: Value) -> Value {
    describe(&mut parameters);
    parameters
}

fn describe(schema: &mut Value) {
    let Value::Object(schema) = schema else { return };
    for (keyword, value) in schema {
        match (keyword.as_str(), value) {
            ("properties", Value::Object(named)) => {
                for (name, schema) in named {
                    parameter(name, schema);
                }
            }
            // These describe the same parameters.
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all.iter_mut().for_each(describe),
            ("if" | "then" | "else", one) => describe(one),
            _ => {}
        }
    }
}

fn parameter(name: &str, schema: &mut Value) {
    match schema {
        Value::Bool(true) => *schema = json!({}),
        Value::Bool(false) => *schema = json!({ "not": {} }),
        _ => {}
    }
    let Value::Object(schema) = schema else { return };
    let empty = |text: Option<&Value>| {
        text.and_then(Value::as_str).is_none_or(|text| text.trim().is_empty())
    };
    if empty(schema.get("description")) {
        let title = schema.get("title").filter(|title| !empty(Some(title)));
        let text = title.cloned().unwrap_or_else(|| Value::String(name.to_owned()));
        schema.insert("description".to_owned(), text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlined(schema: Value) -> Value {
        self_contained(schema.as_object().unwrap())
    }

    #[test]
    fn local_references_are_replaced_and_definitions_gone() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": { "$ref": "#/$defs/name", "description": "mine" },
                "b": { "type": "array", "items": { "$ref": "#/properties/a" } },
                "c": { "$ref": "#/$defs/name", "maxLength": 3 },
            },
            "$defs": { "name": { "type": "string", "maxLength": 9, "description": "theirs" } },
        });
        assert_eq!(
            inlined(schema),
            json!({
                "type": "object",
                "properties": {
                    "a": { "type": "string", "maxLength": 9, "description": "mine" },
                    "b": { "type": "array",
                           "items": { "type": "string", "maxLength": 9, "description": "mine" } },
                    "c": { "maxLength": 3,
                           "allOf": [{ "type": "string", "maxLength": 9, "description": "theirs" }] },
                },
            })
        );
    }

    #[test]
    fn what_refers_to_itself_or_elsewhere_accepts_everything() {
        let schema = json!({
            "properties": {
                "tree": { "$ref": "#/definitions/node" },
                "all": { "$ref": "#" },
                "gone": { "$ref": "#/$defs/none" },
                "far": { "$ref": "https://schemas.example/a.json" },
                "named": { "$ref": "#leaf" },
                "unnamed": { "$ref": "#nothing" },
            },
            "dependencies": { "far": { "$ref": "#leaf" }, "gone": ["far"] },
            "definitions": {
                "node": { "properties": { "next": { "$ref": "#/definitions/node" } } },
                "leaf": { "$anchor": "leaf", "type": "string" },
            },
        });
        assert_eq!(
            inlined(schema),
            json!({ "properties": {
                "tree": { "properties": { "next": {} } }, "all": {}, "gone": {}, "far": {},
                "named": { "type": "string" }, "unnamed": {},
            }, "dependencies": { "far": { "type": "string" }, "gone": ["far"] } })
        );
    }

    /// Parameters may be called like keywords, and values may look like references.
    #[test]
    fn names_and_values_are_not_keywords() {
        let schema = json!({
            "properties": {
                "$ref": { "type": "string" },
                "$defs": { "const": { "$ref": "#/nowhere" } },
                "id": { "enum": [{ "$defs": 1 }], "default": { "$ref": "x" } },
            },
        });
        assert_eq!(inlined(schema.clone()), schema);
    }

    /// I-27: twenty levels of two references each are a million schemas.
    #[test]
    fn multiplying_references_stay_bounded() {
        let mut defs = Map::new();
        for level in 0..20 {
            let next = json!({ "$ref": format!("#/$defs/l{}", level + 1) });
            defs.insert(format!("l{level}"), json!({ "anyOf": [next, next] }));
        }
        let schema = json!({ "$ref": "#/$defs/l0", "$defs": defs });
        assert!(inlined(schema).to_string().len() < 1_000_000);
    }

    #[test]
    fn every_parameter_is_described() {
        let made = described(json!({ "properties": {
            "a": { "type": "string" }, "b": { "title": "Bee" }, "c": { "description": "kept" },
            "d": true, "e": false,
        } }));
        assert_eq!(
            made["properties"],
            json!({
                "a": { "type": "string", "description": "a" },
                "b": { "title": "Bee", "description": "Bee" },
                "c": { "description": "kept" },
                "d": { "description": "d" },
                "e": { "not": {}, "description": "e" },
            })
        );
        let made = described(json!({
            "anyOf": [{ "properties": { "f": {} } }, { "properties": { "g": { "title": " " } } }],
            "items": { "properties": { "no": {} } },
        }));
        assert_eq!(made["anyOf"][0]["properties"]["f"]["description"], "f");
        assert_eq!(made["anyOf"][1]["properties"]["g"]["description"], "g");
        assert_eq!(made["items"]["properties"]["no"], json!({}), "not a parameter");
    }
}
