//! Merging two schemas that both apply into one.

use serde_json::{Map, Value};

use super::{MAX_DEPTH, irreducible::CompactError};
use crate::descriptor::SchemaObject;

/// Keywords that have a meaning only together: taken from one schema, or equal in both.
const GROUPS: [&[&str]; 2] =
    [&["contains", "minContains", "maxContains"], &["prefixItems", "items", "additionalItems"]];

/// Creates the schema that accepts the values that both accept. Both must be reduced already.
pub(super) fn merge(
    mut one: SchemaObject,
    mut two: SchemaObject,
    depth: usize,
) -> Result<SchemaObject, CompactError> {
    if depth > MAX_DEPTH {
        return Err(CompactError::TooLarge);
    }
    objects(&mut one, &mut two, depth)?;
    for group in GROUPS {
        let has = |schema: &SchemaObject| group.iter().any(|keyword| schema.contains_key(*keyword));
        if has(&one) && has(&two) {
            for keyword in group {
                if one.get(*keyword) != two.get(*keyword) {
                    return Err(CompactError::conflict(keyword));
                }
            }
        }
    }
    for (keyword, theirs) in two {
        let Some(ours) = one.get_mut(&keyword) else {
            one.insert(keyword, theirs);
            continue;
        };
        if *ours == theirs {
            continue;
        }
        match keyword.as_str() {
            // The outer schema is nearer to the place of use.
            "description" | "default" => {}
            "type" => *ours = types(ours, &theirs).ok_or_else(|| CompactError::conflict("type"))?,
            "required" => {
                *ours = union(ours, &theirs).ok_or_else(|| CompactError::conflict("required"))?
            }
            "minimum" | "exclusiveMinimum" | "minLength" | "minItems" | "minProperties" => {
                keep_tighter(ours, theirs, &keyword, std::cmp::Ordering::Greater)?;
            }
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => {
                keep_tighter(ours, theirs, &keyword, std::cmp::Ordering::Less)?;
            }
            "propertyNames" => {
                *ours = both(std::mem::take(ours), theirs, depth)?;
            }
            "uniqueItems" => *ours = Value::Bool(true),
            _ => return Err(CompactError::conflict(&keyword)),
        }
    }
    Ok(one)
}

/// Creates the schema that accepts `schema` or `null`; `None` if a type cannot express it.
pub(super) fn nullable(mut schema: SchemaObject) -> Option<SchemaObject> {
    let types = match schema.get("type")? {
        Value::String(kind) if kind != "null" => {
            vec![Value::from(kind.as_str()), Value::from("null")]
        }
        Value::Array(kinds) if !kinds.iter().any(|kind| kind == "null") => {
            kinds.iter().cloned().chain([Value::from("null")]).collect()
        }
        _ => return None,
    };
    if let Some(value) = schema.remove("const") {
        let values = vec![value, Value::Null];
        // With an `enum` there would be two lists of values that both apply.
        if schema.insert("enum".to_owned(), Value::Array(values)).is_some() {
            return None;
        }
    } else if let Some(values) = schema.get_mut("enum") {
        let values = values.as_array_mut()?;
        if !values.contains(&Value::Null) {
            values.push(Value::Null);
        }
    }
    schema.insert("type".to_owned(), Value::Array(types));
    Some(schema)
}

/// Whether `schema` accepts everything.
pub(super) fn is_always_true(schema: &Value) -> bool {
    match schema {
        Value::Bool(accepts) => *accepts,
        Value::Object(members) => members.is_empty(),
        _ => false,
    }
}

/// Merges `properties` and `additionalProperties`, which depend on each other, into `one`.
fn objects(
    one: &mut SchemaObject,
    two: &mut SchemaObject,
    depth: usize,
) -> Result<(), CompactError> {
    let closed = |schema: &SchemaObject| {
        schema.get("additionalProperties").is_some_and(|rest| !is_always_true(rest))
    };
    let has = |schema: &SchemaObject| {
        schema.contains_key("properties") || schema.contains_key("additionalProperties")
    };
    if !has(one) || !has(two) {
        return Ok(());
    }
    let any_closed = closed(one) || closed(two);
    let mut ours = taken(one, "properties")?;
    let theirs = taken(two, "properties")?;
    let same = ours.len() == theirs.len() && theirs.keys().all(|name| ours.contains_key(name));
    if any_closed && !same {
        return Err(CompactError::conflict("additionalProperties"));
    }
    for (name, schema) in theirs {
        let merged = match ours.remove(&name) {
            None => schema,
            Some(own) => both(own, schema, depth)?,
        };
        ours.insert(name, merged);
    }
    one.insert("properties".to_owned(), Value::Object(ours));
    match (one.remove("additionalProperties"), two.remove("additionalProperties")) {
        (Some(own), Some(other)) => {
            one.insert("additionalProperties".to_owned(), both(own, other, depth)?);
        }
        (Some(rest), None) | (None, Some(rest)) => {
            one.insert("additionalProperties".to_owned(), rest);
        }
        (None, None) => {}
    }
    Ok(())
}

fn taken(schema: &mut SchemaObject, keyword: &str) -> Result<Map<String, Value>, CompactError> {
    match schema.shift_remove(keyword) {
        None => Ok(Map::new()),
        Some(Value::Object(members)) => Ok(members),
        Some(_) => Err(CompactError::conflict(keyword)),
    }
}

fn both(one: Value, two: Value, depth: usize) -> Result<Value, CompactError> {
    match (one, two) {
        (Value::Bool(false), _) | (_, Value::Bool(false)) => Ok(Value::Bool(false)),
        (Value::Bool(true), other) | (other, Value::Bool(true)) => Ok(other),
        (Value::Object(one), Value::Object(two)) => merge(one, two, depth + 1).map(Value::Object),
        _ => Err(CompactError::conflict("properties")),
    }
}

/// The types that both allow; `None` without a common type.
fn types(one: &Value, two: &Value) -> Option<Value> {
    let (one, two) = (type_list(one)?, type_list(two)?);
    let mut shared: Vec<&str> = Vec::new();
    for kind in &one {
        // An integer is a number.
        let kind = match *kind {
            "number" if !two.contains(&"number") && two.contains(&"integer") => "integer",
            "integer" if two.contains(&"number") => "integer",
            kind if two.contains(&kind) => kind,
            _ => continue,
        };
        if !shared.contains(&kind) {
            shared.push(kind);
        }
    }
    match shared.as_slice() {
        [] => None,
        [only] => Some(Value::from(*only)),
        several => Some(Value::from(several.to_vec())),
    }
}

fn type_list(types: &Value) -> Option<Vec<&str>> {
    match types {
        Value::String(kind) => Some(vec![kind]),
        Value::Array(kinds) => kinds.iter().map(Value::as_str).collect(),
        _ => None,
    }
}

fn union(one: &Value, two: &Value) -> Option<Value> {
    let mut all = one.as_array()?.clone();
    for name in two.as_array()? {
        if !all.contains(name) {
            all.push(name.clone());
        }
    }
    Some(Value::Array(all))
}

fn keep_tighter(
    ours: &mut Value,
    theirs: Value,
    keyword: &str,
    tighter: std::cmp::Ordering,
) -> Result<(), CompactError> {
    // Only integers are compared: two doubles could be equal where the numbers are not.
    let order = match (ours.as_i64(), theirs.as_i64()) {
        (Some(ours), Some(theirs)) => theirs.cmp(&ours),
        _ => return Err(CompactError::conflict(keyword)),
    };
    if order == tighter {
        *ours = theirs;
    }
    Ok(())
}
