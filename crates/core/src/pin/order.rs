//! Sorts the lists of a schema whose order has no meaning, for the comparison of forms.
//!
//! Many programs serialize sets, whose order differs at each start. A tool that differs only in
//! such an order is the approved tool.
//!
//! Invariant (I-51): sorting adds, removes and changes no item. Two schemas become equal only if
//! JSON Schema gives the order of their lists no meaning, or if a default or an example names the
//! same words. Unknown content is compared in its listed order.

use std::borrow::Cow;

use serde_json::Value;

use crate::{
    canonical::exact_bytes,
    schema::{MAPS, SchemaObject},
};

/// Keywords with a list of values in any order.
const SETS: [&str; 4] = ["enum", "examples", "required", "type"];
/// Keywords with a list of schemas in any order.
const ALTERNATIVES: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords with a list of schemas by position.
const TUPLES: [&str; 2] = ["items", "prefixItems"];
/// Keywords with one schema.
const SUBSCHEMAS: [&str; 12] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords with other lists and objects, which never refer to a position.
const VALUES: [&str; 5] = ["$vocabulary", "const", "default", "dependentRequired", "example"];
/// Keywords that refer to another schema.
const REFERENCES: [&str; 3] = ["$dynamicRef", "$recursiveRef", "$ref"];
/// The most nested lists of alternatives that are sorted. Each level reads its content once more,
/// and an upstream chooses the levels.
const MAX_LEVELS: usize = 8;

/// Sorts the unordered lists of `schema`.
pub(super) fn sorted(schema: &Value) -> Cow<'_, Value> {
    if !is_known(schema) {
        return Cow::Borrowed(schema);
    }
    let mut copy = schema.clone();
    sort(&mut copy, MAX_LEVELS);
    Cow::Owned(copy)
}

/// Whether `schema` cannot refer to the position of an item. An unknown keyword with a list or an
/// object can, such as `enumNames`, and so can a reference such as `#/anyOf/0`.
fn is_known(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return true };
    members.iter().all(|(keyword, value)| {
        let is_in = |keywords: &[&str]| keywords.contains(&keyword.as_str());
        match value {
            Value::Array(items) if is_in(&ALTERNATIVES) || is_in(&TUPLES) => {
                items.iter().all(is_known)
            }
            Value::Array(_) => is_in(&SETS) || is_in(&VALUES),
            Value::Object(map) if is_in(&MAPS) => map.values().all(is_known),
            Value::Object(_) if is_in(&SUBSCHEMAS) => is_known(value),
            // Of OpenAPI, and in the schemas of Pydantic.
            Value::Object(discriminator) if keyword == "discriminator" => {
                discriminator.values().all(|value| match value {
                    Value::Object(mapping) => {
                        mapping.values().all(|schema| schema.as_str().is_some_and(names_definition))
                    }
                    value => value.is_string(),
                })
            }
            Value::Object(_) => is_in(&VALUES),
            Value::String(reference) if is_in(&REFERENCES) => names_definition(reference),
            _ => true,
        }
    })
}

/// Whether a reference names the whole schema or a definition, and therefore no position.
fn names_definition(reference: &str) -> bool {
    let name =
        ["#/$defs/", "#/definitions/"].iter().find_map(|prefix| reference.strip_prefix(prefix));
    reference == "#" || name.is_some_and(|name| !name.contains(['/', '%']))
}

fn sort(schema: &mut Value, levels: usize) {
    let Value::Object(members) = schema else { return };
    let is_set = is_set(members);
    for (keyword, value) in members.iter_mut() {
        let is_in = |keywords: &[&str]| keywords.contains(&keyword.as_str());
        match value {
            Value::Object(map) if keyword == "dependentRequired" || is_in(&MAPS) => {
                for value in map.values_mut() {
                    match value {
                        // In drafts before 2019-09, `dependencies` has both.
                        Value::Array(names) if is_in(&["dependencies", "dependentRequired"]) => {
                            sort_items(names);
                        }
                        schema => sort(schema, levels),
                    }
                }
            }
            Value::Object(_) if is_in(&SUBSCHEMAS) => sort(value, levels),
            Value::Array(schemas) if is_in(&ALTERNATIVES) => {
                if let Some(levels) = levels.checked_sub(1) {
                    schemas.iter_mut().for_each(|schema| sort(schema, levels));
                    sort_items(schemas);
                }
            }
            Value::Array(schemas) if is_in(&TUPLES) => {
                schemas.iter_mut().for_each(|schema| sort(schema, levels));
            }
            Value::Array(values) if is_in(&SETS) => {
                if keyword == "examples" {
                    values.iter_mut().for_each(|value| sort_value(value, is_set));
                }
                sort_items(values);
            }
            value if keyword == "default" => sort_value(value, is_set),
            _ => {}
        }
    }
}

/// Sorts strings by their text, and other lists by the exact canonical form.
fn sort_items(items: &mut [Value]) {
    if items.iter().all(Value::is_string) {
        items.sort_unstable_by(|a, b| a.as_str().cmp(&b.as_str()));
    } else {
        items.sort_by_cached_key(exact_bytes);
    }
}

/// Whether the values of a schema are lists without repetition, if they are lists.
fn is_set(members: &SchemaObject) -> bool {
    let is_unique = |schema: &Value| schema.get("uniqueItems") == Some(&Value::Bool(true));
    let is_no_list = |schema: &Value| {
        schema.get("type").and_then(Value::as_str).is_some_and(|name| name != "array")
    };
    let mut alternatives =
        ["anyOf", "oneOf"].into_iter().filter_map(|keyword| members.get(keyword)?.as_array());
    members.get("uniqueItems") == Some(&Value::Bool(true))
        || alternatives.any(|schemas| {
            schemas.iter().any(is_unique)
                && schemas.iter().all(|schema| is_unique(schema) || is_no_list(schema))
        })
}

/// Sorts a default or an example if it is a set: a list without repetition, or the joined names of
/// one.
fn sort_value(value: &mut Value, is_set: bool) {
    match value {
        Value::Array(items) if is_set => sort_items(items),
        Value::String(text) => {
            if let Some(names) = sorted_names(text) {
                *text = names;
            }
        }
        _ => {}
    }
}

/// Sorts the names of `text`, if it is a list of different names separated by commas. `None` for a
/// sentence or a list of numbers: there the order can have a meaning.
fn sorted_names(text: &str) -> Option<String> {
    let separator = if text.contains(", ") { ", " } else { "," };
    let mut names: Vec<&str> = text.split(separator).collect();
    names.sort_unstable();
    let is_set = names.len() > 1
        && names.iter().all(|name| is_name(name))
        && names.windows(2).all(|pair| pair.first() != pair.last());
    is_set.then(|| names.join(separator))
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | '*'))
        && text
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/' | '*'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_same(one: &Value, other: &Value) -> bool {
        let bytes = |schema: &Value| exact_bytes(&sorted(schema));
        bytes(one) == bytes(other)
    }

    // I-51
    #[test]
    fn order_without_a_meaning_is_no_difference() {
        let set =
            |default: Value| json!({ "type": "array", "uniqueItems": true, "default": default });
        let optional = |default: Value| {
            let set = json!({ "type": "array", "uniqueItems": true });
            json!({ "anyOf": [set, { "type": "null" }], "default": default })
        };
        for (one, other) in [
            (json!({ "required": ["b", "a"] }), json!({ "required": ["a", "b"] })),
            (json!({ "enum": [2, "a", null] }), json!({ "enum": [null, 2, "a"] })),
            (json!({ "type": ["null", "string"] }), json!({ "type": ["string", "null"] })),
            (json!({ "examples": ["x", "y,z"] }), json!({ "examples": ["z,y", "x"] })),
            (json!({ "default": "status,summary" }), json!({ "default": "summary,status" })),
            (json!({ "default": "a:b, *all" }), json!({ "default": "*all, a:b" })),
            (set(json!(["b", "a"])), set(json!(["a", "b"]))),
            (optional(json!(["b", "a"])), optional(json!(["a", "b"]))),
            (
                json!({ "dependentRequired": { "a": ["b", "c"] } }),
                json!({ "dependentRequired": { "a": ["c", "b"] } }),
            ),
            (
                json!({ "dependencies": { "a": ["b", "c"], "d": { "enum": [1, 2] } } }),
                json!({ "dependencies": { "a": ["c", "b"], "d": { "enum": [2, 1] } } }),
            ),
            (
                json!({ "anyOf": [{ "type": "null" }, { "enum": ["b", "a"] }] }),
                json!({ "anyOf": [{ "enum": ["a", "b"] }, { "type": "null" }] }),
            ),
            (
                json!({ "oneOf": [{}, { "$ref": "#/$defs/a" }], "discriminator":
                    { "propertyName": "kind", "mapping": { "a": "#/$defs/a" } } }),
                json!({ "oneOf": [{ "$ref": "#/$defs/a" }, {}], "discriminator":
                    { "propertyName": "kind", "mapping": { "a": "#/$defs/a" } } }),
            ),
            (
                json!({ "$ref": "#/$defs/a", "$defs": { "a": { "required": ["y", "x"] } } }),
                json!({ "$ref": "#/$defs/a", "$defs": { "a": { "required": ["x", "y"] } } }),
            ),
        ] {
            let inside = |schema: &Value| json!({ "properties": { "default": { "items": { "prefixItems": [{ "not": schema }] } } } });
            assert!(is_same(&one, &other), "{one}");
            assert!(is_same(&inside(&one), &inside(&other)), "{one}");
        }
    }

    // I-51
    #[test]
    fn order_with_a_meaning_is_a_difference() {
        let list = |default: Value| json!({ "type": "array", "default": default });
        let mixed = |default: Value| {
            let set = json!({ "type": "array", "uniqueItems": true });
            json!({ "anyOf": [set, { "type": "array" }], "default": default })
        };
        let named = |names: Value| json!({ "enum": names, "enumNames": ["Keep", "Delete"] });
        let referring = |reference: &str, list: Value| json!({ "anyOf": list, "properties": { "a": { "$ref": reference } } });
        let (one, other) = (json!([{ "const": 1 }, {}]), json!([{}, { "const": 1 }]));
        for (one, other) in [
            (json!({ "prefixItems": one }), json!({ "prefixItems": other })),
            (json!({ "items": one }), json!({ "items": other })),
            (json!({ "const": ["a", "b"] }), json!({ "const": ["b", "a"] })),
            (json!({ "enum": [["a", "b"]] }), json!({ "enum": [["b", "a"]] })),
            (list(json!(["a", "b"])), list(json!(["b", "a"]))),
            (mixed(json!(["a", "b"])), mixed(json!(["b", "a"]))),
            (
                json!({ "default": { "required": ["a", "b"] } }),
                json!({ "default": { "required": ["b", "a"] } }),
            ),
            (json!({ "description": "a,b" }), json!({ "description": "b,a" })),
            (json!({ "title": "a,b" }), json!({ "title": "b,a" })),
            (json!({ "default": "0,10,200" }), json!({ "default": "10,0,200" })),
            (
                json!({ "default": "first ask, then delete" }),
                json!({ "default": "then delete, first ask" }),
            ),
            (json!({ "default": "a,b" }), json!({ "default": "a, b" })),
            (json!({ "default": "a,b,a" }), json!({ "default": "a,a,b" })),
            (json!({ "default": "a,b" }), json!({ "default": "a,c" })),
            (json!({ "enum": ["a", "a", "b"] }), json!({ "enum": ["a", "b"] })),
            (json!({ "x-list": ["a", "b"] }), json!({ "x-list": ["b", "a"] })),
            (
                json!({ "oneOf": one, "discriminator": { "mapping": { "a": "#/oneOf/0" } } }),
                json!({ "oneOf": other, "discriminator": { "mapping": { "a": "#/oneOf/0" } } }),
            ),
            // A parallel list, or a reference, counts positions.
            (named(json!(["keep", "delete"])), named(json!(["delete", "keep"]))),
            (referring("#/anyOf/0", one.clone()), referring("#/anyOf/0", other.clone())),
            (
                referring("#/$defs/a%2FanyOf/0", one.clone()),
                referring("#/$defs/a%2FanyOf/0", other.clone()),
            ),
            (referring("other#/$defs/a", one.clone()), referring("other#/$defs/a", other.clone())),
        ] {
            assert!(!is_same(&one, &other), "{one}");
            let inside = json!({ "properties": { "a": one } });
            assert!(!is_same(&inside, &json!({ "properties": { "a": other } })), "{one}");
        }
    }

    #[test]
    fn a_property_may_have_the_name_of_a_keyword() {
        let named = |keyword: &str, schemas: [Value; 2]| {
            let [one, other] = schemas;
            json!({ "properties": { keyword: { "prefixItems": [one, other] } } })
        };
        let schemas = || [json!({ "const": 1 }), json!({ "const": 2 })];
        for keyword in ["required", "enum", "anyOf", "oneOf", "default", "properties"] {
            let mut reversed = schemas();
            reversed.reverse();
            assert!(!is_same(&named(keyword, schemas()), &named(keyword, reversed)), "{keyword}");
        }
        let nested = |names: [&str; 2]| json!({ "properties": { "required": { "oneOf": names.map(|name| json!({ "const": name })) } } });
        assert!(is_same(&nested(["a", "b"]), &nested(["b", "a"])));
    }

    #[test]
    fn alternatives_within_many_others_count_as_listed() {
        let nested = |levels: usize, names: [&str; 2]| {
            let innermost = json!({ "anyOf": names.map(|name| json!({ "const": name })) });
            (1..levels).fold(innermost, |inner, _| json!({ "anyOf": [inner, { "const": 0 }] }))
        };
        assert!(is_same(&nested(MAX_LEVELS, ["a", "b"]), &nested(MAX_LEVELS, ["b", "a"])));
        assert!(!is_same(&nested(MAX_LEVELS + 1, ["a", "b"]), &nested(MAX_LEVELS + 1, ["b", "a"])));
    }
}
