//! The compact view: no banned keyword at any depth, and the arguments it accepts are the original's.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    compact::{BANNED, reduce},
    json::parse_strict,
};

/// Where schemas stand in a schema; says which banned keyword it finds.
fn banned(schema: &Value) -> Option<&str> {
    let members = schema.as_object()?;
    members.iter().find_map(|(keyword, value)| {
        if BANNED.contains(&keyword.as_str()) {
            return Some(keyword.as_str());
        }
        match keyword.as_str() {
            "properties" => value.as_object()?.values().find_map(banned),
            "items"
            | "prefixItems"
            | "additionalProperties"
            | "additionalItems"
            | "contains"
            | "propertyNames"
            | "if"
            | "then"
            | "else" => match value {
                Value::Array(schemas) => schemas.iter().find_map(banned),
                schema => banned(schema),
            },
            _ => None,
        }
    })
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(Value::Object(schema)) = parse_strict(bytes) else { return };
    let Ok(compact) = reduce(&schema) else { return };
    let compact = Value::Object(compact);
    assert_eq!(banned(&compact), None, "{compact}");
    assert_eq!(compact["type"], "object");
    assert!(compact["properties"].is_object());
    let Ok(original) = jsonschema::validator_for(&Value::Object(schema)) else { return };
    let reduced = jsonschema::validator_for(&compact).expect("it is a schema");
    let names: Vec<&String> =
        compact["properties"].as_object().into_iter().flat_map(Map::keys).collect();
    let values =
        [json!(null), json!(1), json!("a"), json!([]), json!({}), json!({ "a": 1 }), json!(2.5)];
    let mut samples = vec![json!({}), json!({ "unknown": 1 })];
    for name in names.iter().take(4) {
        samples.extend(values.iter().map(|value| json!({ name.as_str(): value })));
    }
    for sample in samples {
        assert_eq!(original.is_valid(&sample), reduced.is_valid(&sample), "{sample} by {compact}");
    }
});
