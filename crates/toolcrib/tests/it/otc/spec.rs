//! The protocol's own schemas, applied to responses of a server.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::Reply;

/// Validates `value` against a definition of `spec.json`.
pub(super) fn valid(definition: &str, value: &Value) {
    let mut schema: Value = serde_json::from_str(include_str!("spec.json")).unwrap();
    schema["$ref"] = json!(format!("#/$defs/{definition}"));
    let validator = jsonschema::options().offline().build(&schema).unwrap();
    let problems: Vec<String> =
        validator.iter_errors(value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(problems.is_empty(), "no {definition}: {problems:#?}\n{value:#}");
}

/// Checks that `reply` has `status`, and a valid body for it.
pub(super) fn answers(reply: &Reply, status: u16) -> Value {
    assert_eq!(reply.status, status, "{}", reply.text());
    assert_eq!(reply.header("content-type"), "application/json");
    let body = reply.json();
    match (status, body.get("$schema")) {
        (200, None) => valid("Result", &body),
        (200, Some(_)) if body.get("tools").is_some() => valid("OtcList", &body),
        (200, Some(_)) if body.get("items").is_some() => valid("OxpList", &body),
        (200, Some(_)) => valid("Reply", &body),
        (422, _) => valid("ValidationError", &body),
        _ => valid("ServerError", &body),
    }
    body
}

/// The schema can fail: it corrects the mistakes of the published document.
#[test]
fn the_schema_distinguishes_valid_from_invalid() {
    let tool = json!({
        "id": "A.b@1.0.0", "name": "a__b", "description": "", "version": "1.0.0",
        "input_schema": { "parameters": { "properties": { "x": { "description": "x" } } } },
        "output_schema": null,
    });
    valid("OtcTool", &tool);
    valid("Result", &json!({ "call_id": "1", "success": true, "value": null, "duration": 0.5 }));
    let bad = |definition: &str, value: Value| {
        assert!(std::panic::catch_unwind(|| valid(definition, &value)).is_err(), "{value}");
    };
    for (member, value) in [
        ("id", json!("A.b@1.0")),
        ("id", json!("A.b")),
        ("name", json!("a b")),
        ("version", json!("1.0")),
        ("annotations", json!({})),
        ("input_schema", json!({})),
        ("input_schema", json!({ "parameters": { "properties": { "x": {} } } })),
        ("input_schema", json!({ "parameters": { "$defs": {} } })),
        ("requirements", json!({})),
        ("requirements", json!({ "authorization": [{}] })),
    ] {
        let mut wrong = tool.clone();
        wrong[member] = value;
        bad("OtcTool", wrong);
    }
    bad("Result", json!({ "call_id": "1", "success": false }));
    bad(
        "Result",
        json!({ "call_id": "1", "success": false, "error": { "message": "x" }, "value": 1 }),
    );
    bad("Result", json!({ "call_id": "1", "success": true, "error": { "message": "x" } }));
    bad("Reply", json!({ "result": { "call_id": "1", "success": true } }));
    bad("ServerError", json!({ "message": "x" }));
}
