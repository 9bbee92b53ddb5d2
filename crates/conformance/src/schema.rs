//! JSON Schemas: violations, and sample arguments for tools.

use serde_json::{Map, Value, json};

use crate::value::texts;

/// Finds the first violation of `schema` in `value`, with its location.
pub(crate) fn violation(schema: &Value, value: &Value) -> Option<String> {
    let Ok(validator) = jsonschema::validator_for(schema) else {
        return Some("the schema itself is invalid".to_owned());
    };
    let error = validator.iter_errors(value).next()?;
    match error.instance_path().to_string().as_str() {
        "" => Some(error.to_string()),
        pointer => Some(format!("{pointer}: {error}")),
    }
}

pub(crate) fn is_valid(schema: &Value) -> bool {
    jsonschema::validator_for(schema).is_ok()
}

pub(crate) fn required(schema: &Value) -> Vec<&str> {
    texts(schema, "required")
}

/// The properties of `schema` that have a type, each with a value of another type.
pub(crate) fn wrong_types(schema: &Value) -> Vec<(&str, Value)> {
    let other = |property: &Value| match property.get("type")?.as_str()? {
        "string" => Some(json!({ "conformance": true })),
        "number" | "integer" | "boolean" | "object" | "array" => Some(json!("a wrong type")),
        _ => None,
    };
    let all = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(name, property)| Some((name.as_str(), other(property)?))).collect()
}

/// Guesses minimal arguments that are valid against `schema`; `None` if they are not.
pub(crate) fn arguments_for(schema: &Value) -> Option<Map<String, Value>> {
    let guess = sample(schema, 0)?;
    match violation(schema, &guess) {
        None => guess.as_object().cloned(),
        Some(_) => None,
    }
}

fn sample(schema: &Value, depth: usize) -> Option<Value> {
    const MAX_DEPTH: usize = 8;
    if depth > MAX_DEPTH {
        return None;
    }
    let member = |name: &str| schema.get(name);
    if let Some(given) = member("const").or_else(|| member("default")) {
        return Some(given.clone());
    }
    let first = |name: &str| member(name)?.as_array()?.first().cloned();
    if let Some(given) = first("enum").or_else(|| first("examples")) {
        return Some(given);
    }
    let kind = match member("type") {
        Some(Value::String(kind)) => kind.as_str(),
        Some(Value::Array(kinds)) => kinds.first()?.as_str()?,
        _ if member("properties").is_some() || depth == 0 => "object",
        _ => return Some(Value::String("a".to_owned())),
    };
    Some(match kind {
        "object" => {
            let mut object = Map::new();
            for name in required(schema) {
                let inner = schema.get("properties").and_then(|all| all.get(name));
                object.insert(name.to_owned(), sample(inner.unwrap_or(&Value::Null), depth + 1)?);
            }
            Value::Object(object)
        }
        "array" => {
            let minimum = member("minItems").and_then(Value::as_u64).unwrap_or(0).min(16);
            let item = sample(member("items").unwrap_or(&Value::Null), depth + 1)?;
            (0..minimum).map(|_| item.clone()).collect()
        }
        "string" => {
            let minimum = member("minLength").and_then(Value::as_u64).unwrap_or(1).clamp(1, 64);
            "a".repeat(usize::try_from(minimum).unwrap_or(1)).into()
        }
        "integer" | "number" => member("minimum").cloned().unwrap_or_else(|| 1.into()),
        "boolean" => false.into(),
        "null" => Value::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_valid_or_missing() {
        let schema = json!({
            "type": "object",
            "required": ["a", "b", "c"],
            "properties": {
                "a": { "type": "integer", "minimum": 3 },
                "b": { "enum": ["x", "y"] },
                "c": { "type": "object", "required": ["d"], "properties": { "d": { "type": "string", "minLength": 4 } } },
                "e": { "type": "string" },
            },
        });
        let made = Value::Object(arguments_for(&schema).unwrap());
        assert_eq!(made, json!({ "a": 3, "b": "x", "c": { "d": "aaaa" } }));
        assert_eq!(arguments_for(&json!({})), Some(Map::new()));
        let odd = json!({ "type": "object", "required": ["a"], "properties": { "a": { "type": "string", "pattern": "^[0-9]{4}$" } } });
        assert_eq!(arguments_for(&odd), None);
    }
}
