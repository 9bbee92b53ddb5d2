//! The published JSON Schemas of this host's documents, written so that readers can apply them to
//! any host.
//!
//! They are generated from the types that are serialised. A member that the specification makes
//! optional stays optional here, even if this host always writes it. So the schemas accept the same
//! documents as the specification.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_core::{
    compact::CompactToolDescriptor,
    descriptor::{self, SourceKind},
    egress::EgressDecided,
    event::{AuthorizationDecided, ToolCalled, ToolReturned, ToolSessionClosed, ToolSessionOpened},
};
use toolcrib_gateway::explain::Explanation;
use utoipa::openapi::{Array, Ref, schema::ArrayBuilder};

use crate::v1::error::ErrorEnvelope;

/// The tool catalog of this host, in the discovery document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ToolCatalogFamily {
    /// Whether the host has a tool catalog.
    pub(crate) supported: bool,
    /// The kinds of sources whose tools are in the catalog; by default all that the host implements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sources: Option<Vec<SourceKind>>,
    /// Whether interactions of several calls are bracketed by session events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) session_lifecycle: Option<bool>,
    /// Whether `view=compact` is supported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) compact_view: Option<bool>,
}

/// The checks and events around every tool call, in the discovery document.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(crate) struct ToolHooksFamily {
    /// Whether the host has tool hooks.
    pub(crate) supported: bool,
    /// Whether every call has an event before and after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) pre_post_events: Option<bool>,
    /// Whether the scopes of a tool are checked before it runs. A failed check denies the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_tool_authorization: Option<bool>,
    /// Whether calls are limited per principal and tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) per_tool_rate_limit: Option<bool>,
}

/// All schemas with their names, `NAME.schema.json`.
pub(crate) fn all() -> Vec<(&'static str, Value)> {
    vec![
        ("tool-descriptor", descriptor::json_schema()),
        ("compact-tool-descriptor", CompactToolDescriptor::json_schema()),
        ("tool-catalog", titled::<ToolCatalogFamily>("ToolCatalog", &["supported"])),
        ("tool-hooks", titled::<ToolHooksFamily>("ToolHooks", &["supported"])),
        ("run-event", run_event()),
        ("agent-tool-called", called()),
        ("agent-tool-returned", returned()),
        ("egress-decided", egress()),
        ("tool-session-opened", opened()),
        ("tool-session-closed", closed()),
        ("error-envelope", error_envelope()),
    ]
}

const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Derives the schema of `T`, with only the members of `required` required.
fn titled<T: JsonSchema>(title: &str, required: &[&str]) -> Value {
    let mut settings = SchemaSettings::draft2020_12();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    strict_about_null(&mut schema);
    let mut whole = json!({ "$schema": DIALECT, "title": title });
    if let (Some(whole), Value::Object(schema)) = (whole.as_object_mut(), schema) {
        for (keyword, value) in schema {
            if keyword != "$schema" && keyword != "title" {
                whole.insert(keyword, value);
            }
        }
        whole.insert("required".to_owned(), json!(required));
    }
    whole
}

/// Removes `null` from optional members: an absent member is never `null` on the wire.
fn strict_about_null(schema: &mut Value) {
    let Some(members) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    for member in members.values_mut().filter_map(Value::as_object_mut) {
        if let Some(Value::Array(kinds)) = member.get("type") {
            let kinds: Vec<Value> = kinds.iter().filter(|kind| *kind != "null").cloned().collect();
            let kinds = match kinds.as_slice() {
                [only] => only.clone(),
                _ => Value::Array(kinds),
            };
            member.insert("type".to_owned(), kinds);
        }
        let alternatives = member.get("anyOf").and_then(Value::as_array).cloned();
        if let Some([Value::Object(one), null]) = alternatives.as_deref()
            && null.get("type").is_some_and(|kind| kind == "null")
        {
            member.shift_remove("anyOf");
            for (keyword, value) in one {
                member.entry(keyword.clone()).or_insert_with(|| value.clone());
            }
        }
        if member.get("items").is_some() {
            member.insert("uniqueItems".to_owned(), Value::Bool(true));
        }
    }
}

/// Adds the keywords of `more` to the member `name` of `schema`.
fn narrow(schema: &mut Value, name: &str, more: &Value) {
    let member = schema
        .get_mut("properties")
        .and_then(|members| members.get_mut(name))
        .and_then(Value::as_object_mut);
    if let (Some(member), Some(more)) = (member, more.as_object()) {
        member.extend(more.iter().map(|(keyword, value)| (keyword.clone(), value.clone())));
    }
}

/// Derives the schema of a payload about a call, with the limits of its ids.
fn call_payload<T: JsonSchema>(title: &str) -> Value {
    let mut schema = titled::<T>(title, &["agentId", "toolName", "callId"]);
    narrow(&mut schema, "agentId", &json!({ "minLength": 3, "maxLength": 256 }));
    narrow(&mut schema, "toolName", &json!({ "minLength": 1 }));
    narrow(&mut schema, "callId", &json!({ "minLength": 1 }));
    schema
}

fn called() -> Value {
    call_payload::<ToolCalled>("AgentToolCalled")
}

fn returned() -> Value {
    let mut schema = call_payload::<ToolReturned>("AgentToolReturned");
    narrow(&mut schema, "durationMs", &json!({ "minimum": 0 }));
    if let Some(members) = schema.as_object_mut() {
        members.insert("not".to_owned(), json!({ "required": ["outcome", "error"] }));
    }
    schema
}

fn egress() -> Value {
    let mut schema = titled::<EgressDecided>("EgressDecided", &["decision", "destination"]);
    narrow(&mut schema, "destination", &json!({ "minLength": 1 }));
    schema
}

fn opened() -> Value {
    titled::<ToolSessionOpened>("ToolSessionOpened", &["sessionId", "toolId"])
}

fn closed() -> Value {
    titled::<ToolSessionClosed>("ToolSessionClosed", &["sessionId", "toolId", "outcome"])
}

/// The closed schema of an event. The payloads of event types that this host does not write are
/// unrestricted.
fn run_event() -> Value {
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let count = json!({ "type": "integer", "minimum": 0 });
    let decided = titled::<AuthorizationDecided>(
        "AuthorizationDecided",
        &["principal", "action", "resource", "allowed"],
    );
    let payloads: Vec<Value> = [
        ("agent.toolCalled", called()),
        ("agent.toolReturned", returned()),
        ("authorization.decided", decided),
        ("egress.decided", egress()),
        ("tool.session.opened", opened()),
        ("tool.session.closed", closed()),
    ]
    .into_iter()
    .map(|(kind, payload)| {
        json!({
            "if": { "properties": { "type": { "const": kind } }, "required": ["type"] },
            "then": { "properties": { "payload": without_dialect(payload) } },
        })
    })
    .collect();
    json!({
        "$schema": DIALECT,
        "title": "RunEvent",
        "description": "One event of a run (RFC 0064 §B). Closed; carries no arguments and no results.",
        "type": "object",
        "additionalProperties": false,
        "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
        "properties": {
            "eventId": id,
            "runId": id,
            "type": { "type": "string", "minLength": 1 },
            "payload": {},
            "timestamp": { "type": "string", "format": "date-time" },
            "sequence": count,
            "nodeId": { "type": "string" },
            "schemaVersion": count,
            "engineVersion": { "type": "string" },
            "causationId": id,
        },
        "allOf": payloads,
    })
}

fn error_envelope() -> Value {
    let mut schema = titled::<ErrorEnvelope>("ErrorEnvelope", &["error", "message"]);
    narrow(&mut schema, "error", &json!({ "minLength": 1 }));
    narrow(&mut schema, "message", &json!({ "minLength": 1 }));
    narrow(&mut schema, "details", &json!({ "type": "object" }));
    schema
}

/// The schemas of types in crates without utoipa, as components of the OpenAPI document.
pub(crate) fn components() -> Value {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let envelope = |name: &str| {
        json!({
            "type": "object",
            "required": ["tools"],
            "properties": { "tools": { "type": "array", "items": reference(name) } },
        })
    };
    let explanation = ["principal", "tenant", "grants", "outcome", "steps"];
    json!({
        "ToolDescriptor": without_dialect(descriptor::json_schema()),
        "CompactToolDescriptor": without_dialect(CompactToolDescriptor::json_schema()),
        "RunEvent": without_dialect(run_event()),
        "Explanation": without_dialect(titled::<Explanation>("Explanation", &explanation)),
        "ToolsEnvelope": envelope("ToolDescriptor"),
        "CompactTools": envelope("CompactToolDescriptor"),
        "CatalogList": { "anyOf": [
            { "type": "array", "items": reference("ToolDescriptor") },
            reference("ToolsEnvelope"),
            reference("CompactTools"),
        ] },
        "CatalogTool": {
            "anyOf": [reference("ToolDescriptor"), reference("CompactToolDescriptor")],
        },
    })
}

/// A reference to the schema of an event.
pub(crate) fn run_event_reference() -> Ref {
    Ref::from_schema_name("RunEvent")
}

/// The schema of a list of events.
pub(crate) fn run_events() -> Array {
    ArrayBuilder::new().items(run_event_reference()).build()
}

/// Removes the dialect and the id, which a schema inside another document must not have.
fn without_dialect(mut schema: Value) -> Value {
    if let Some(schema) = schema.as_object_mut() {
        schema.shift_remove("$id");
        schema.shift_remove("$schema");
    }
    schema
}

#[cfg(test)]
mod tests;
