//! `GET /openapi.json`: the description of these routes, and the schemas that no Rust type derives.

use axum::{extract::State, response::Response};
use http::HeaderMap;
use serde_json::{Value, json};
use toolcrib_core::descriptor::{self, SafetyTier, SourceKind};

use crate::{protocol_version, respond, state::AppState};

/// Returns this description.
#[utoipa::path(
    get,
    path = "/openapi.json",
    operation_id = "getOpenApiSpec",
    security(()),
    responses((status = 200, description = "The description of these routes", body = Object))
)]
pub(super) async fn description(State(state): State<AppState>, headers: HeaderMap) -> Response {
    respond::tagged(&headers, &state.description, "application/json", protocol_version::PUBLIC)
}

/// The schemas of tools and runs, as components of the OpenAPI document.
pub(super) fn components() -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let list = |name: &str| json!({ "type": "array", "items": reference(name) });
    json!({ "components": { "schemas": {
        "ToolDescriptorV2": tool_descriptor(),
        "CompactToolDescriptorV2": compact_descriptor(),
        "ToolV2": {
            "anyOf": [reference("ToolDescriptorV2"), reference("CompactToolDescriptorV2")],
        },
        "ToolListV2": { "anyOf": [
            list("ToolDescriptorV2"),
            closed(json!({ "tools": list("CompactToolDescriptorV2") }), &["tools"]),
        ] },
        "RunSnapshotV2": run_snapshot(),
        "RunListV2": closed(
            json!({
                "runs": list("RunSnapshotV2"),
                "nextCursor": { "type": "string", "minLength": 1, "maxLength": 2048 },
            }),
            &["runs"],
        ),
        "RunCancelledV2": closed(
            json!({
                "runId": { "type": "string", "pattern": RUN_ID },
                "status": { "enum": ["cancelling", "cancelled"] },
            }),
            &["runId", "status"],
        ),
    } } })
}

const RUN_ID: &str = "^(anon:)?[A-Za-z0-9._~-]{1,128}/[A-Za-z0-9._~-]{16,128}$";

/// The descriptor of v1 with the hints of RFC 0204, and the rules by which they are derived.
fn tool_descriptor() -> Value {
    let mut schema = descriptor::json_schema();
    let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let boolean = |hint: &&str| ((*hint).to_owned(), json!({ "type": "boolean" }));
    let members: serde_json::Map<_, _> = hints.iter().map(boolean).collect();
    let rule = |hint: &str, members: Value, required: &[&str]| {
        let hinted = |value: bool| json!({ "properties": { "annotations": { "properties": { hint: { "const": value } } } } });
        json!({
            "if": { "properties": members, "required": required },
            "then": hinted(true),
            "else": hinted(false),
        })
    };
    let tier = |tiers: [&str; 2]| json!({ "safetyTier": { "enum": tiers } });
    let idempotent = json!({ "replayPolicy": { "enum": ["deterministic", "idempotent"] } });
    let rules = json!([
        { "allOf": schema.get("allOf").cloned().unwrap_or_else(|| json!([true])) },
        rule("readOnlyHint", tier(["pure", "read"]), &["safetyTier"]),
        rule("destructiveHint", tier(["write", "exec"]), &["safetyTier"]),
        rule("idempotentHint", idempotent, &["replayPolicy"]),
        rule("openWorldHint", json!({ "egress": { "not": { "const": "none" } } }), &[]),
    ]);
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$schema");
        schema.shift_remove("$id");
        schema.insert("allOf".to_owned(), rules);
        if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
            properties.insert("annotations".to_owned(), closed(members.into(), &hints));
        }
    }
    schema
}

/// The compact descriptor: its schema of the arguments has two members, and at no depth the
/// keywords that combine schemas.
fn compact_descriptor() -> Value {
    let sources: Vec<_> = SourceKind::ALL.iter().map(|kind| kind.as_str()).collect();
    let tiers: Vec<_> = SafetyTier::ALL.iter().map(|tier| tier.as_str()).collect();
    let arguments = json!({ "type": { "const": "object" }, "properties": { "type": "object" } });
    closed(
        json!({
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": sources },
            "safetyTier": { "enum": tiers },
            "title": { "type": "string" },
            "description": { "type": "string" },
            "inputSchema": closed(arguments, &["type", "properties"]),
        }),
        &["toolId", "source", "safetyTier"],
    )
}

fn run_snapshot() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let time = json!({ "type": "string", "format": "date-time" });
    let tenant = json!({ "type": "string", "pattern": "^(anon:)?[A-Za-z0-9._~-]{1,128}$" });
    let subject = json!({
        "issuer": text,
        "subjectId": { "type": "string", "pattern": "^[^\\s/]{1,256}$" },
        "tenant": tenant,
        "lane": { "const": "api-key" },
        "kind": { "const": "user" },
    });
    let subject = closed(subject, &["issuer", "subjectId", "tenant", "lane", "kind"]);
    closed(
        json!({
            "runId": { "type": "string", "pattern": RUN_ID },
            "workflowId": { "type": "string", "pattern": "^[A-Za-z0-9._~:-]{1,128}$" },
            "status": { "enum": ["running", "completed", "failed", "cancelled"] },
            "owner": closed(
                json!({ "tenant": tenant, "subject": subject }),
                &["tenant", "subject"],
            ),
            "eventLogSchemaVersion": { "type": "integer", "minimum": 2 },
            "startedAt": time,
            "completedAt": time,
            "error": closed(json!({ "code": text, "message": text }), &["code", "message"]),
        }),
        &["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"],
    )
}

/// The schema of an object with exactly these members.
fn closed(members: Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": required,
        "properties": members,
    })
}
