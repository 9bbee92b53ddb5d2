//! The schemas of v2, written from its text and not from the program.

use serde_json::{Value, json};

/// Fails with all violations of `schema` by `instance`.
#[track_caller]
pub(super) fn check(schema: &Value, instance: &Value) {
    let problems = problems(schema, instance);
    assert!(problems.is_empty(), "{problems:#?}\n{instance:#}");
}

/// Returns all violations of `schema` by `instance`.
pub(super) fn problems(schema: &Value, instance: &Value) -> Vec<String> {
    let validator = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    let errors = validator.iter_errors(instance);
    errors.map(|error| format!("{} at {}", error, error.instance_path())).collect()
}

fn closed(members: Value, required: &[&str]) -> Value {
    json!({
        "type": "object", "additionalProperties": false,
        "required": required, "properties": members,
    })
}

const RUN: &str = "^(anon:)?[A-Za-z0-9._~-]{1,128}/[A-Za-z0-9._~-]{16,128}$";
const TENANT: &str = "^(anon:)?[A-Za-z0-9._~-]{1,128}$";
const EVENT: &str = "^[A-Za-z0-9._~-]{16,128}$";
const AUTHORED: &str = "^[A-Za-z0-9._~:-]{1,128}$";

fn pattern(pattern: &str) -> Value {
    json!({ "type": "string", "pattern": pattern })
}

pub(super) fn tool() -> Value {
    let text = json!({ "type": "string" });
    let level = json!({ "enum": ["low", "medium", "high"] });
    let flag = json!({ "type": "boolean" });
    let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
    let mut tool = closed(
        json!({
            "toolId": { "type": "string", "minLength": 1 },
            "source": { "enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"] },
            "title": text, "description": text,
            "inputSchema": { "type": "object" }, "outputSchema": { "type": "object" },
            "annotations": closed(
                json!({
                    "readOnlyHint": flag, "destructiveHint": flag,
                    "idempotentHint": flag, "openWorldHint": flag,
                }),
                &hints,
            ),
            "auth": closed(
                json!({
                    "scopes": { "type": "array", "items": text, "uniqueItems": true },
                    "credentialRef": flag,
                }),
                &[],
            ),
            "egress": { "enum": ["none", "safe-fetch", "host-mediated", "host-owned"] },
            "approval": { "enum": ["never", "conditional", "always"] },
            "replayPolicy": { "enum": ["deterministic", "idempotent", "non-deterministic"] },
            "safetyTier": { "enum": ["pure", "read", "write", "exec"] },
            "costHint": level, "latencyHint": level,
        }),
        &["toolId", "source", "safetyTier"],
    );
    let rule = |hint: &str, when: Value| {
        let is = |value: bool| {
            let hints = json!({ "properties": { hint: { "const": value } } });
            json!({ "properties": { "annotations": hints } })
        };
        json!({ "if": when, "then": is(true), "else": is(false) })
    };
    let member = |name: &str, values: Value| json!({ "required": [name], "properties": { name: { "enum": values } } });
    tool["allOf"] = json!([
        {
            "if": member("safetyTier", json!(["exec"])),
            "then": { "properties": { "source": { "const": "host-extension" } } },
        },
        rule("readOnlyHint", member("safetyTier", json!(["pure", "read"]))),
        rule("destructiveHint", member("safetyTier", json!(["write", "exec"]))),
        rule("idempotentHint", member("replayPolicy", json!(["deterministic", "idempotent"]))),
        rule("openWorldHint", json!({ "not": member("egress", json!(["none"])) })),
    ]);
    tool
}

pub(super) fn tools() -> Value {
    json!({ "type": "array", "items": tool() })
}

pub(super) fn compact_tool() -> Value {
    let arguments = closed(
        json!({ "type": { "const": "object" }, "properties": { "type": "object" } }),
        &["type", "properties"],
    );
    closed(
        json!({
            "toolId": { "type": "string", "minLength": 1 }, "source": { "type": "string" },
            "safetyTier": { "type": "string" }, "title": { "type": "string" },
            "description": { "type": "string" }, "inputSchema": arguments,
        }),
        &["toolId", "source", "safetyTier"],
    )
}

pub(super) fn compact_tools() -> Value {
    closed(json!({ "tools": { "type": "array", "items": compact_tool() } }), &["tools"])
}

fn subject() -> Value {
    let mut subject = closed(
        json!({
            "issuer": { "type": "string", "pattern": "^\\S+$", "maxLength": 1024 },
            "subjectId": pattern("^[^\\s/]{1,256}$"),
            "tenant": pattern(TENANT),
            "lane": { "enum": [
                "api-key", "oauth2", "oidc", "mtls", "saml", "scim", "ldap", "workload", "session",
                "anonymous",
            ] },
            "kind": { "enum": ["user", "agent", "anonymous", "workload"] },
        }),
        &["issuer", "subjectId", "tenant", "lane", "kind"],
    );
    subject["not"] = json!({ "properties": { "lane": { "enum": ["saml", "scim"] } } });
    subject
}

pub(super) fn run() -> Value {
    let owner =
        closed(json!({ "tenant": pattern(TENANT), "subject": subject() }), &["tenant", "subject"]);
    let text = json!({ "type": "string", "minLength": 1 });
    let time = json!({ "type": "string", "format": "date-time" });
    closed(
        json!({
            "runId": pattern(RUN), "workflowId": pattern(AUTHORED),
            "status": { "enum": [
                "pending", "running", "paused", "waiting-approval", "waiting-input",
                "waiting-external", "completed", "failed", "cancelling", "cancelled",
            ] },
            "owner": owner, "eventLogSchemaVersion": { "type": "integer", "minimum": 2 },
            "startedAt": time, "completedAt": time,
            "error": closed(json!({ "code": text, "message": text }), &["code", "message"]),
        }),
        &["runId", "workflowId", "status", "owner", "eventLogSchemaVersion"],
    )
}

pub(super) fn runs() -> Value {
    let cursor = json!({ "type": "string", "minLength": 1, "maxLength": 2048 });
    let runs = json!({ "type": "array", "items": run() });
    closed(json!({ "runs": runs, "nextCursor": cursor }), &["runs"])
}

pub(super) fn cancelled() -> Value {
    let status = json!({ "enum": ["cancelling", "cancelled"] });
    closed(json!({ "runId": pattern(RUN), "status": status }), &["runId", "status"])
}

/// The description of the routes, as far as every OpenAPI document has the same form.
pub(super) fn description() -> Value {
    json!({
        "type": "object",
        "required": ["openapi", "info", "paths", "components"],
        "properties": {
            "openapi": pattern("^3\\.1\\.\\d+$"),
            "info": { "type": "object", "required": ["title", "version"] },
            "paths": { "type": "object", "minProperties": 1 },
        },
    })
}

pub(super) fn discovery() -> Value {
    let version = pattern("^(0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)$");
    let flag = json!({ "type": "boolean" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let family = |facets: Value, required: &[&str]| {
        let mut members = json!({
            "status": { "enum": ["stable", "experimental", "deprecated"] },
            "since": version,
            "until": pattern("^((0|[1-9][0-9]*)\\.(0|[1-9][0-9]*)|\\d{4}-\\d{2}-\\d{2})$"),
            "witness": { "enum": [
                "witnessable-unaided", "witnessable-gated", "seam-gated", "claims-check",
                "negative-existence",
            ] },
        });
        let facets = facets.as_object().unwrap().clone();
        members.as_object_mut().unwrap().extend(facets);
        let required = [&["status", "since", "witness"], required].concat();
        let mut family = closed(members, &required);
        family["if"] = json!({ "properties": { "status": { "const": "stable" } } });
        family["then"] = json!({ "not": { "required": ["until"] } });
        family["else"] = json!({ "required": ["until"] });
        family
    };
    let sources = ["node-pack", "workflow", "mcp", "connector", "host-extension"];
    let text = json!({ "type": "string" });
    closed(
        json!({
            "protocolVersion": version,
            "protocolVersions": { "type": "array", "minItems": 1, "uniqueItems": true, "items": version },
            "preferredVersion": version,
            "implementation": closed(json!({ "name": text, "version": text, "vendor": text }), &[]),
            "eventLogSchemaVersion": { "type": "integer", "minimum": 2 },
            "limits": family(
                json!({
                    "clarificationRounds": count, "schemaRounds": count, "envelopesPerTurn": count,
                    "maxRequestBodyBytes": { "type": "integer", "minimum": 1 },
                }),
                &["clarificationRounds", "schemaRounds", "envelopesPerTurn"],
            ),
            "runList": family(
                json!({
                    "maxPageSize": { "type": "integer", "minimum": 1, "maximum": 1000 },
                    "filters": { "type": "array", "items": { "enum": ["workflowId", "status"] } },
                }),
                &["maxPageSize"],
            ),
            "toolCatalog": family(
                json!({
                    "sources": { "type": "array", "uniqueItems": true, "items": { "enum": sources } },
                    "sessionLifecycle": flag, "compactView": flag,
                }),
                &[],
            ),
            "toolHooks": family(
                json!({
                    "prePostEvents": flag, "perToolAuthorization": flag, "perToolRateLimit": flag,
                }),
                &[],
            ),
        }),
        &["protocolVersions", "preferredVersion"],
    )
}

/// The envelope of an event with the payloads of the events that a call leaves.
pub(super) fn event() -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let open = |members: Value, required: &[&str]| {
        let mut payload = closed(members, required);
        payload["patternProperties"] = json!({ "^(openwop-|x-|vendor\\.)": {} });
        payload
    };
    let error = open(json!({ "code": text, "message": text }), &["code", "message"]);
    let called = open(
        json!({
            "agentId": pattern(AUTHORED), "toolName": text, "callId": text,
            "argsHash": { "type": "string" }, "principal": { "type": "string" },
            "transport": { "enum": ["mcp", "http", "native"] },
        }),
        &["agentId", "toolName", "callId"],
    );
    let returned = open(
        json!({
            "agentId": pattern(AUTHORED), "toolName": text, "callId": text, "error": error,
            "status": { "enum": ["ok", "error", "forbidden", "rate_limited"] },
            "durationMs": { "type": "integer", "minimum": 0 },
        }),
        &["agentId", "toolName", "callId"],
    );
    let decided = closed(
        json!({
            "principal": text, "action": text, "resource": text,
            "allowed": { "type": "boolean" }, "reason": { "type": "string" },
        }),
        &["principal", "action", "resource", "allowed"],
    );
    let approval = closed(
        json!({
            "artifactId": text, "artifactType": text, "title": text,
            "actions": {
                "type": "array", "minItems": 1, "uniqueItems": true,
                "items": { "enum": ["accept", "reject", "refine", "edit-accept", "ask"] },
            },
            "description": { "type": "string" },
            "requiredApprovals": { "type": "integer", "minimum": 1 },
        }),
        &["artifactId", "artifactType", "title", "actions"],
    );
    let interrupt = closed(
        json!({
            "kind": { "const": "approval" }, "key": { "type": "string", "maxLength": 256 },
            "timeoutMs": { "type": "integer", "minimum": 0 }, "data": approval,
        }),
        &["kind", "key", "data"],
    );
    let resolved = open(
        json!({
            "nodeId": pattern(AUTHORED), "interruptId": pattern(RUN), "kind": { "const": "approval" },
            "reason": { "type": "string", "minLength": 1, "maxLength": 64 },
            "resolvedBy": subject(),
            "decision": { "enum": ["granted", "rejected", "overridden"] },
        }),
        &["nodeId", "interruptId"],
    );
    let session = json!({ "sessionId": text, "toolId": text });
    let mut ended = session.clone();
    ended["outcome"] = json!({ "enum": ["completed", "failed", "cancelled"] });
    let payloads = [
        ("agent.tool-called", called),
        ("agent.tool-returned", returned),
        ("authorization.decided", decided),
        ("interrupt.requested", interrupt),
        ("approval.granted", resolved.clone()),
        ("approval.rejected", resolved.clone()),
        ("approval.overridden", resolved),
        ("tool.session-opened", open(session, &["sessionId", "toolId"])),
        ("tool.session-closed", open(ended, &["sessionId", "toolId", "outcome"])),
    ];
    let names: Vec<&str> = payloads.iter().map(|(name, _)| *name).collect();
    let rules: Vec<Value> = payloads
        .iter()
        .map(|(name, payload)| {
            json!({
                "if": { "properties": { "type": { "const": name } } },
                "then": { "properties": { "payload": payload } },
            })
        })
        .collect();
    let mut event = closed(
        json!({
            "eventId": pattern(EVENT), "runId": pattern(RUN), "type": { "enum": names },
            "payload": { "type": "object" },
            "timestamp": { "type": "string", "format": "date-time" },
            "sequence": { "type": "integer", "minimum": 0 },
            "schemaVersion": { "type": "integer", "minimum": 1 },
            "causationId": pattern(EVENT),
        }),
        &["eventId", "payload", "runId", "schemaVersion", "sequence", "timestamp", "type"],
    );
    event["allOf"] = json!(rules);
    event
}

/// The registered codes that concern these routes. A code has one status.
const CODES: [(u16, &[&str]); 14] = [
    (400, &["validation_error", "protocol_version_mismatch", "unsupported_stream_mode"]),
    (401, &["unauthenticated", "credential_revoked", "key_revoked", "audience_mismatch"]),
    (403, &["forbidden", "run_forbidden", "id_tenant_mismatch", "egress_denied"]),
    (404, &["not_found"]),
    (406, &["protocol_version_unsupported"]),
    (409, &["idempotency_key_mismatch", "run_terminal"]),
    (413, &["payload_too_large"]),
    (415, &["unsupported_media_type"]),
    (422, &["capability_required", "approval_rejected"]),
    (426, &["client_version_unsupported"]),
    (429, &["rate_limited"]),
    (500, &["internal_error"]),
    (502, &["upstream_unavailable", "mcp_error"]),
    (503, &["service_unavailable"]),
];

/// The envelope of an error with a code of `status`.
pub(super) fn error(status: u16) -> Value {
    let codes = CODES.iter().find(|(of, _)| *of == status).map(|(_, codes)| *codes);
    let mut details = json!({
        "type": "object",
        "not": { "anyOf": [
            { "required": ["retryAfter"] },
            { "required": ["retryAfterMs"] },
            { "required": ["retryAfterSeconds"] },
        ] },
    });
    let mut required = vec!["error", "message"];
    if status == 406 {
        details["required"] = json!(["protocolVersions"]);
        details["properties"] = json!({ "protocolVersions": { "const": ["1.0", "2.0"] } });
        required.push("details");
    }
    closed(
        json!({
            "error": { "enum": codes.unwrap_or_default() },
            "message": { "type": "string", "minLength": 1 },
            "details": details,
        }),
        &required,
    )
}
