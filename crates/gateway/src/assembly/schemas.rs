//! The schemas of a tool that callers see.
//!
//! Invariant: a schema never breaks the list of other tools. Clients compile the output schemas of
//! all tools when they list them, and give up all tools if one schema fails. The official client
//! for TypeScript does so with Ajv, whose rules are stricter than those of JSON Schema.

use std::borrow::Cow;

use regress::{Flags, Regex};
use serde_json::Value;
use toolcrib_core::{
    arguments::ArgumentCheck,
    schema::{self, SchemaObject},
};

/// The most subschemas to read to decide whether a schema accepts objects. Beyond that it counts as
/// accepting: references can multiply without limit.
const MAX_READ: usize = 256;
/// The most bytes of a pattern that callers compile.
const MAX_PATTERN: usize = 1_000;

/// The output schema as callers see it.
///
/// # Errors
/// The reason why some client cannot compile it.
pub(super) fn output(mut schema: Cow<'_, Value>) -> Result<Cow<'_, Value>, String> {
    // A client rejects a second schema with the same `$id`, even of another source.
    if schema.get("$id").is_some()
        && let Value::Object(members) = schema.to_mut()
    {
        members.shift_remove("$id");
    }
    ArgumentCheck::compile(Some(&schema)).map_err(|error| error.to_string())?;
    let mut is_stray = false;
    schema::visit(&schema, &mut |members| is_stray |= has_stray_nullable(members));
    if is_stray {
        schema::visit_mut(schema.to_mut(), &mut |members| {
            if has_stray_nullable(members) {
                members.shift_remove("nullable");
            }
        });
    }
    let mut problem = None;
    schema::visit(&schema, &mut |members| {
        problem = problem.take().or_else(|| compiles(members).err());
        if problem.is_none() && leads_in_a_circle(members, &schema) {
            problem =
                Some("the schema is not usable by clients: a `$ref` leads to itself".to_owned());
        }
    });
    problem.map_or(Ok(schema), Err)
}

/// Fails if Ajv, with the options of the official client, rejects a subschema.
fn compiles(members: &SchemaObject) -> Result<(), String> {
    let refused = |why: &str| Err(format!("the schema is not usable by clients: {why}"));
    if members.get("$id").is_some_and(Value::is_string) {
        return refused("a part of it has its own \"$id\"");
    }
    if members.get("id").is_some_and(Value::is_string) {
        return refused("it has the keyword \"id\" of draft 4");
    }
    if members.get("enum").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        return refused("it has an empty enumeration");
    }
    match schema::patterns(members).find(|pattern| !is_ecmascript(pattern)) {
        Some(pattern) => refused(&format!("{pattern:?} is not a regular expression of JavaScript")),
        None => Ok(()),
    }
}

/// Whether a chain of references is circular, which is an endless loop in Ajv.
fn leads_in_a_circle(members: &SchemaObject, root: &Value) -> bool {
    let mut seen: Vec<&str> = Vec::new();
    let mut next = Some(members);
    while let Some(reference) = next.and_then(|schema| schema.get("$ref")).and_then(Value::as_str) {
        if seen.len() == MAX_READ || seen.contains(&reference) {
            return true;
        }
        seen.push(reference);
        let target = reference.strip_prefix('#').and_then(|pointer| root.pointer(pointer));
        next = target.and_then(Value::as_object);
    }
    false
}

/// Whether Ajv rejects `nullable` here: without `type`, or if it contradicts it. JSON Schema
/// ignores it.
fn has_stray_nullable(members: &SchemaObject) -> bool {
    let Some(nullable) = members.get("nullable") else { return false };
    let allows_null = match members.get("type") {
        Some(Value::Array(types)) => types.iter().any(|name| name == "null"),
        Some(one) => one == "null",
        None => true,
    };
    let is_typed = members.contains_key("type");
    !is_typed || allows_null && *nullable == Value::Bool(false)
}

fn is_ecmascript(pattern: &str) -> bool {
    let flags = Flags { unicode: true, ..Flags::default() };
    pattern.len() <= MAX_PATTERN && Regex::with_flags(pattern, flags).is_ok()
}

/// An input schema that does not require properties with a default; `None` if `schema` is already
/// like this. Only the object itself and objects in it are read; `$ref`, `not`, `if` and
/// alternatives are not followed.
pub(super) fn without_defaulted(schema: &Value) -> Option<Value> {
    requires_defaulted(schema).then(|| {
        let mut relaxed = schema.clone();
        relax(&mut relaxed);
        relaxed
    })
}

/// Whether a property of `members` has a default.
fn has_default(members: &SchemaObject, name: &Value) -> bool {
    let properties = members.get("properties");
    let property = properties.and_then(|properties| properties.get(name.as_str()?));
    property.is_some_and(|property| property.get("default").is_some())
}

fn requires_defaulted(schema: &Value) -> bool {
    let Value::Object(members) = schema else { return false };
    let required = members.get("required").and_then(Value::as_array);
    let properties = members.get("properties").and_then(Value::as_object);
    required.into_iter().flatten().any(|name| has_default(members, name))
        || properties.into_iter().flat_map(|properties| properties.values()).any(requires_defaulted)
        || members.get("items").is_some_and(requires_defaulted)
}

fn relax(schema: &mut Value) {
    let Value::Object(members) = schema else { return };
    if let Some(Value::Array(mut required)) = members.remove("required") {
        required.retain(|name| !has_default(members, name));
        members.insert("required".to_owned(), Value::Array(required));
    }
    if let Some(Value::Object(properties)) = members.get_mut("properties") {
        properties.values_mut().for_each(relax);
    }
    if let Some(items) = members.get_mut("items") {
        relax(items);
    }
}

/// Whether `schema` rejects every object, so that valid arguments do not exist.
pub(super) fn refuses_objects(schema: &Value) -> bool {
    let mut left = MAX_READ;
    refuses(schema, schema, &mut left)
}

fn refuses(schema: &Value, root: &Value, left: &mut usize) -> bool {
    match left.checked_sub(1) {
        Some(rest) => *left = rest,
        None => return false,
    }
    let Value::Object(members) = schema else { return *schema == Value::Bool(false) };
    let list = |keyword: &str| members.get(keyword).and_then(Value::as_array);
    let wrong_type = match members.get("type") {
        Some(Value::String(name)) => name != "object",
        Some(Value::Array(names)) => names.iter().all(|name| name != "object"),
        _ => false,
    };
    let reference = members
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.strip_prefix('#'));
    wrong_type
        || members.get("not").is_some_and(accepts_objects)
        || members.get("const").is_some_and(|value| !value.is_object())
        || list("enum").is_some_and(|values| !values.iter().any(Value::is_object))
        || list("allOf").is_some_and(|all| all.iter().any(|each| refuses(each, root, left)))
        || ["anyOf", "oneOf"].into_iter().filter_map(list).any(|alternatives| {
            !alternatives.is_empty() && alternatives.iter().all(|each| refuses(each, root, left))
        })
        || reference
            .and_then(|pointer| root.pointer(pointer))
            .is_some_and(|target| refuses(target, root, left))
}

/// Whether `schema` accepts every object because its only keyword, if any, is the type.
fn accepts_objects(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => {
            members.iter().all(|(keyword, value)| keyword == "type" && *value == "object")
        }
        schema => *schema == Value::Bool(true),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_that_some_client_cannot_compile_is_not_passed_on() {
        let property = |schema: Value| json!({ "type": "object", "properties": { "a": schema } });
        for (schema, why) in [
            (json!({ "$ref": "#/$defs/gone" }), "`#/$defs/gone` leads to nothing"),
            (json!({ "$ref": "#gone" }), "`#gone` leads to nothing"),
            (
                json!({ "$ref": "https://json-schema.org/draft/2020-12/schema" }),
                "`https://json-schema.org/draft/2020-12/schema` leads outside the schema",
            ),
            (json!({ "$ref": "#/properties/a" }), "leads to itself"),
            (
                json!({ "properties": { "b": { "$ref": "#/properties/a/properties/c" },
                    "c": { "$ref": "#/properties/a/properties/b" } } }),
                "leads to itself",
            ),
            (json!({ "type": "money" }), "/properties/a/type"),
            (json!({ "$id": "a", "type": "string" }), "its own"),
            (json!({ "id": "a", "type": "string" }), "draft 4"),
            (json!({ "enum": [] }), "enumeration"),
            (json!({ "type": "string", "pattern": "(?i)yes" }), "(?i)yes"),
            (json!({ "type": "string", "pattern": "[" }), "\"[\""),
            (json!({ "patternProperties": { "a\\-b": {} } }), "a\\\\-b"),
        ] {
            let problem = output(Cow::Owned(property(schema.clone()))).unwrap_err();
            assert!(problem.contains(why), "{schema}: {problem}");
        }
        for schema in [
            json!({ "type": "string", "nullable": true }),
            json!({ "type": "string", "pattern": "^(?!x)(?<y>a)\\k<y>[\\w\\-]+$" }),
            // A property may have any name.
            json!({ "properties": { "id": { "type": "string" }, "$id": {}, "enum": {} } }),
            json!({ "const": { "id": "a", "nullable": true, "enum": [] } }),
        ] {
            assert!(output(Cow::Owned(property(schema.clone()))).is_ok(), "{schema}");
        }
        // Neither takes long, although each is a kilobyte that repeats itself a million times.
        for pattern in ["((((a{1000}){1000}){1000}){1000}){1000}", "(?:(?:a?){500}){500}b"] {
            output(Cow::Owned(property(json!({ "type": "string", "pattern": pattern })))).ok();
        }
        for (nullable, clean) in [
            (json!({ "nullable": true }), json!({})),
            (
                json!({ "type": ["null", "string"], "nullable": false }),
                json!({ "type": ["null", "string"] }),
            ),
            (
                json!({ "type": "string", "nullable": true }),
                json!({ "type": "string", "nullable": true }),
            ),
        ] {
            assert_eq!(output(Cow::Owned(property(nullable))), Ok(Cow::Owned(property(clean))));
        }
        let named = json!({ "$id": "https://example.com/a", "type": "object" });
        assert_eq!(output(Cow::Borrowed(&named)).as_deref(), Ok(&json!({ "type": "object" })));
    }

    #[test]
    fn a_property_with_a_default_is_not_required() {
        let schema = json!({
            "type": "object",
            "properties": {
                "scale": { "type": "string", "default": "css" },
                "file": { "type": "string" },
                "options": {
                    "type": "object",
                    "properties": { "deep": { "default": null } },
                    "required": ["deep"],
                },
                "list": { "items": { "properties": { "a": { "default": 1 } }, "required": ["a"] } },
            },
            "required": ["scale", "file", "options"],
            "not": { "properties": { "file": { "default": 1 } }, "required": ["file"] },
        });
        let relaxed = without_defaulted(&schema).unwrap();
        assert_eq!(relaxed["required"], json!(["file", "options"]));
        assert_eq!(relaxed["properties"]["options"]["required"], json!([]));
        assert_eq!(relaxed["properties"]["list"]["items"]["required"], json!([]));
        assert_eq!(relaxed["not"], schema["not"]);
        assert_eq!(without_defaulted(&relaxed), None);
    }

    #[test]
    fn a_schema_without_objects_is_noticed_through_references_and_alternatives() {
        for schema in [
            json!(false),
            json!({ "type": "string" }),
            json!({ "type": ["string", "null"] }),
            json!({ "const": 5 }),
            json!({ "enum": ["a", null] }),
            json!({ "not": { "type": "object" } }),
            json!({ "not": {} }),
            json!({ "allOf": [{}, { "type": "array" }] }),
            json!({ "anyOf": [{ "type": "array" }, { "enum": [1] }] }),
            json!({ "$ref": "#/$defs/a", "$defs": { "a": { "type": "number" } } }),
        ] {
            assert!(refuses_objects(&schema), "{schema}");
        }
        for schema in [
            json!(true),
            json!({}),
            json!({ "type": ["null", "object"] }),
            json!({ "oneOf": [{ "type": "array" }, { "type": "object" }] }),
            json!({ "not": { "type": "object", "required": ["a"] } }),
            json!({ "enum": [1, {}] }),
            json!({ "$ref": "#" }),
            json!({ "anyOf": [] }),
            json!({ "allOf": vec![json!({ "$ref": "#" }); 50] }),
            json!({ "anyOf": vec![json!({ "$ref": "#" }); 50] }),
        ] {
            assert!(!refuses_objects(&schema), "{schema}");
        }
    }
}
