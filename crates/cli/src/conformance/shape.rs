//! Shapes of documents: JSON Schemas and values that fit them.

use serde_json::{Map, Value};

/// What is wrong with `value` by `schema`, where and why; `None` when it fits.
pub(super) fn violation(schema: &Value, value: &Value) -> Option<String> {
    // The schemas of the checks are constants; one that does not compile fails every host.
    let validator = match jsonschema::validator_for(schema) {
        Ok(validator) => validator,
        Err(_) => return Some("the schema itself makes no sense".to_owned()),
    };
    let error = validator.iter_errors(value).next()?;
    Some(at(&error.instance_path().to_string(), &error.to_string()))
}

/// Whether `schema` can be used at all.
pub(super) fn compiles(schema: &Value) -> bool {
    jsonschema::validator_for(schema).is_ok()
}

/// Smallest arguments that `schema` accepts, as far as can be told; `None` when no guess fits.
pub(super) fn arguments_for(schema: &Value) -> Option<Map<String, Value>> {
    let guess = sample(schema, 0)?;
    match violation(schema, &guess) {
        None => guess.as_object().cloned(),
        Some(_) => None,
    }
}

fn at(pointer: &str, message: &str) -> String {
    match pointer {
        "" => message.to_owned(),
        pointer => format!("{pointer}: {message}"),
    }
}

fn sample(schema: &Value, depth: usize) -> Option<Value> {
    const DEEPEST: usize = 8;
    if depth > DEEPEST {
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
            let required = member("required").and_then(Value::as_array);
            let mut object = Map::new();
            for name in required.into_iter().flatten().filter_map(Value::as_str) {
                let inner = schema.get("properties").and_then(|all| all.get(name));
                object.insert(name.to_owned(), sample(inner.unwrap_or(&Value::Null), depth + 1)?);
            }
            Value::Object(object)
        }
        "array" => {
            let least = member("minItems").and_then(Value::as_u64).unwrap_or(0).min(16);
            let item = sample(member("items").unwrap_or(&Value::Null), depth + 1)?;
            (0..least).map(|_| item.clone()).collect()
        }
        "string" => {
            let least = member("minLength").and_then(Value::as_u64).unwrap_or(1).clamp(1, 64);
            "a".repeat(usize::try_from(least).unwrap_or(1)).into()
        }
        "integer" | "number" => member("minimum").cloned().unwrap_or_else(|| 1.into()),
        "boolean" => false.into(),
        "null" => Value::Null,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_fit_or_there_are_none() {
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
