//! Compares each published schema with the shape in the specification, which is written out here
//! again. Both must accept the same valid documents, and reject documents with a single error.

use jsonschema::Validator;

use super::*;

struct Pair {
    name: &'static str,
    ours: Validator,
    theirs: Validator,
}

impl Pair {
    fn of(name: &'static str, theirs: Value) -> Self {
        let (_, ours) = all().into_iter().find(|(known, _)| *known == name).unwrap();
        assert_eq!(ours["$schema"], DIALECT, "{name}");
        let compiled = |schema: &Value| {
            jsonschema::options().should_validate_formats(true).build(schema).unwrap()
        };
        Self { name, ours: compiled(&ours), theirs: compiled(&theirs) }
    }

    fn accepts(&self, document: &Value) {
        assert!(
            self.theirs.is_valid(document),
            "{}: the specification refuses {document}",
            self.name
        );
        assert!(self.ours.is_valid(document), "{}: ours refuses {document}", self.name);
    }

    fn refuses(&self, document: &Value) {
        assert!(
            !self.theirs.is_valid(document),
            "{}: the specification accepts {document}",
            self.name
        );
        assert!(!self.ours.is_valid(document), "{}: ours accepts {document}", self.name);
    }

    /// Asserts that `document` is accepted. It must be rejected without a required member, with a
    /// `null` member, and (if `closed`) with an extra member. Members in `optional` may be absent.
    fn each_member(&self, document: &Value, optional: &[&str], closed: bool) {
        self.accepts(document);
        for name in document.as_object().unwrap().keys() {
            let mut less = document.clone();
            less.as_object_mut().unwrap().shift_remove(name);
            if optional.contains(&name.as_str()) {
                self.accepts(&less)
            } else {
                self.refuses(&less)
            }
            let mut null = document.clone();
            null[name] = Value::Null;
            if name != "payload" {
                self.refuses(&null);
            }
        }
        let mut more = document.clone();
        more["x-more"] = json!(1);
        if closed {
            self.refuses(&more)
        } else {
            self.accepts(&more)
        }
        for wrong in [json!([]), json!("text"), Value::Null] {
            self.refuses(&wrong);
        }
    }
}

fn with(document: &Value, member: &str, value: Value) -> Value {
    let mut document = document.clone();
    document[member] = value;
    document
}

#[test]
fn discovery_blocks_are_those_of_the_specification() {
    let flag = json!({ "type": "boolean" });
    let sources = ["node-pack", "workflow", "mcp", "connector", "host-extension"];
    let pair = Pair::of(
        "tool-catalog",
        json!({
            "type": "object", "additionalProperties": false, "required": ["supported"],
            "properties": {
                "supported": flag, "sessionLifecycle": flag, "compactView": flag,
                "sources": { "type": "array", "uniqueItems": true, "items": { "enum": sources } },
            },
        }),
    );
    let catalog = json!({ "supported": true, "sources": sources, "sessionLifecycle": true, "compactView": false });
    pair.each_member(&catalog, &["sources", "sessionLifecycle", "compactView"], true);
    pair.accepts(&with(&catalog, "sources", json!([])));
    for wrong in [json!(["mcp", "mcp"]), json!(["files"]), json!("mcp"), json!([1])] {
        pair.refuses(&with(&catalog, "sources", wrong));
    }
    pair.refuses(&with(&catalog, "supported", json!("yes")));

    let pair = Pair::of(
        "tool-hooks",
        json!({
            "type": "object", "additionalProperties": false, "required": ["supported"],
            "properties": {
                "supported": flag, "prePostEvents": flag, "perToolAuthorization": flag, "perToolRateLimit": flag,
            },
        }),
    );
    let hooks = json!({
        "supported": true, "prePostEvents": true, "perToolAuthorization": false, "perToolRateLimit": true,
    });
    pair.each_member(&hooks, &["prePostEvents", "perToolAuthorization", "perToolRateLimit"], true);
    pair.refuses(&with(&hooks, "prePostEvents", json!(1)));
}

#[test]
fn payloads_of_calls_are_those_of_the_specification() {
    let agent = json!({ "type": "string", "minLength": 3, "maxLength": 256 });
    let word = json!({ "type": "string", "minLength": 1 });
    let text = json!({ "type": "string" });
    let pair = Pair::of(
        "agent-tool-called",
        json!({
            "type": "object", "required": ["agentId", "toolName", "callId"],
            "properties": {
                "agentId": agent, "toolName": word, "callId": word, "argsHash": text, "principal": text,
                "transport": { "enum": ["mcp", "http", "native"] },
            },
        }),
    );
    let called = json!({
        "agentId": "core.system", "toolName": "mcp:files.read", "callId": "c1", "argsHash": "ab",
        "principal": "ann", "transport": "mcp",
    });
    pair.each_member(&called, &["argsHash", "principal", "transport"], false);
    for (member, wrong) in [
        ("agentId", json!("ab")),
        ("agentId", json!("x".repeat(257))),
        ("toolName", json!("")),
        ("callId", json!("")),
        ("transport", json!("grpc")),
        ("principal", json!(7)),
    ] {
        pair.refuses(&with(&called, member, wrong));
    }

    let pair = Pair::of(
        "egress-decided",
        json!({
            "type": "object", "required": ["decision", "destination"],
            "properties": {
                "decision": { "enum": ["allowed", "denied", "downgraded", "approval-required"] },
                "destination": word, "credentialId": text,
                "reason": { "enum": [
                    "ok", "out-of-audience", "expired", "ssrf-blocked", "provenance-unevaluable",
                    "scope-denied", "policy-denied",
                ] },
            },
        }),
    );
    let decided = json!({
        "decision": "denied", "destination": "h", "reason": "ssrf-blocked", "credentialId": "c",
    });
    pair.each_member(&decided, &["reason", "credentialId"], false);
    for (member, wrong) in [
        ("decision", json!("maybe")),
        ("destination", json!("")),
        ("reason", json!("because")),
        ("credentialId", json!(7)),
    ] {
        pair.refuses(&with(&decided, member, wrong));
    }

    let pair = Pair::of(
        "agent-tool-returned",
        json!({
            "type": "object", "required": ["agentId", "toolName", "callId"],
            "properties": {
                "agentId": agent, "toolName": word, "callId": word,
                "status": { "enum": ["ok", "error", "forbidden", "rate_limited"] },
                "durationMs": { "type": "integer", "minimum": 0 },
                "error": {
                    "type": "object", "required": ["code", "message"],
                    "properties": { "code": text, "message": text },
                },
            },
            "not": { "required": ["outcome", "error"] },
        }),
    );
    let returned = json!({
        "agentId": "core.system", "toolName": "mcp:files.read", "callId": "c1", "status": "error",
        "durationMs": 12, "error": { "code": "tool_execution_failed", "message": "no" },
    });
    pair.each_member(&returned, &["status", "durationMs", "error"], false);
    let open = json!({ "code": "c", "message": "m", "retriable": true });
    pair.accepts(&with(&returned, "error", open));
    for (member, wrong) in [
        ("status", json!("failed")),
        ("durationMs", json!(-1)),
        ("durationMs", json!(1.5)),
        ("error", json!({ "code": "c" })),
        ("error", json!("no")),
        ("outcome", json!({ "any": "thing" })),
    ] {
        pair.refuses(&with(&returned, member, wrong));
    }
}

#[test]
fn payloads_of_sessions_are_those_of_the_specification() {
    let text = json!({ "type": "string" });
    let pair = Pair::of(
        "tool-session-opened",
        json!({
            "type": "object", "required": ["sessionId", "toolId"],
            "properties": { "sessionId": text, "toolId": text },
        }),
    );
    let opened = json!({ "sessionId": "s1", "toolId": "mcp:files.read" });
    pair.each_member(&opened, &[], false);
    let pair = Pair::of(
        "tool-session-closed",
        json!({
            "type": "object", "required": ["sessionId", "toolId", "outcome"],
            "properties": {
                "sessionId": text, "toolId": text,
                "outcome": { "enum": ["completed", "failed", "cancelled"] },
            },
        }),
    );
    let closed = with(&opened, "outcome", json!("completed"));
    pair.each_member(&closed, &[], false);
    for wrong in ["aborted", "expired", ""] {
        pair.refuses(&with(&closed, "outcome", json!(wrong)));
    }
}

#[test]
fn the_envelope_of_events_is_that_of_the_specification() {
    let id = json!({ "type": "string", "minLength": 1, "maxLength": 128 });
    let pair = Pair::of(
        "run-event",
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["eventId", "runId", "type", "payload", "timestamp", "sequence"],
            "properties": {
                "eventId": id, "runId": id, "type": { "type": "string", "minLength": 1 }, "payload": {},
                "timestamp": { "type": "string", "format": "date-time" },
                "sequence": { "type": "integer", "minimum": 0 }, "nodeId": { "type": "string" },
                "schemaVersion": { "type": "integer", "minimum": 0 },
                "engineVersion": { "type": "string" }, "causationId": id,
            },
        }),
    );
    let event = json!({
        "eventId": "e1", "runId": "r1", "type": "run.started", "payload": {},
        "timestamp": "2026-11-20T10:00:00.120Z", "sequence": 0, "nodeId": "n", "schemaVersion": 1,
        "engineVersion": "1", "causationId": "e0",
    });
    pair.each_member(&event, &["nodeId", "schemaVersion", "engineVersion", "causationId"], true);
    for (member, wrong) in [
        ("eventId", json!("")),
        ("runId", json!("x".repeat(129))),
        ("timestamp", json!("yesterday")),
        ("sequence", json!(-1)),
        ("causationId", json!("")),
    ] {
        pair.refuses(&with(&event, member, wrong));
    }
    // This host's own event types are also checked against the schemas of their payloads.
    let mut session = with(&event, "type", json!("tool.session.opened"));
    assert!(!pair.ours.is_valid(&session));
    session["payload"] = json!({ "sessionId": "s1", "toolId": "t" });
    pair.accepts(&session);
}

#[test]
fn the_envelope_of_errors_is_that_of_the_specification() {
    let word = json!({ "type": "string", "minLength": 1 });
    let pair = Pair::of(
        "error-envelope",
        json!({
            "type": "object", "additionalProperties": false, "required": ["error", "message"],
            "properties": { "error": word, "message": word, "details": { "type": "object" } },
        }),
    );
    let envelope = json!({ "error": "not_found", "message": "no", "details": { "a": 1 } });
    pair.each_member(&envelope, &["details"], true);
    pair.refuses(&json!({ "error": { "code": "not_found", "message": "no" } }));
    for (member, wrong) in
        [("error", json!("")), ("message", json!("")), ("details", json!("more"))]
    {
        pair.refuses(&with(&envelope, member, wrong));
    }
}

#[test]
fn compact_descriptors_are_those_of_the_specification() {
    let banned =
        ["$ref", "oneOf", "allOf", "anyOf", "not", "patternProperties", "dependentSchemas"];
    let none = banned.map(|keyword| json!({ "not": { "required": [keyword] } }));
    let pair = Pair::of(
        "compact-tool-descriptor",
        json!({
            "type": "object", "additionalProperties": false,
            "required": ["toolId", "source", "safetyTier"],
            "properties": {
                "toolId": { "type": "string", "minLength": 1 },
                "source": { "enum": ["node-pack", "workflow", "mcp", "connector", "host-extension"] },
                "safetyTier": { "enum": ["pure", "read", "write", "exec"] },
                "title": { "type": "string" }, "description": { "type": "string" },
                "inputSchema": {
                    "type": "object", "required": ["type", "properties"],
                    "properties": { "type": { "const": "object" }, "properties": { "type": "object" } },
                    "allOf": none,
                },
            },
            "if": { "properties": { "safetyTier": { "const": "exec" } }, "required": ["safetyTier"] },
            "then": { "properties": { "source": { "const": "host-extension" } } },
        }),
    );
    let tool = json!({
        "toolId": "mcp:files.read", "source": "mcp", "safetyTier": "read", "title": "Read",
        "description": "Reads", "inputSchema": { "type": "object", "properties": {} },
    });
    pair.each_member(&tool, &["title", "description", "inputSchema"], true);
    pair.refuses(&with(&tool, "safetyTier", json!("exec")));
    pair.refuses(&with(&tool, "toolId", json!("")));
    pair.refuses(&with(&tool, "auth", json!({})));
    pair.refuses(&with(&tool, "inputSchema", json!({ "type": "object" })));
    for keyword in banned {
        let schema = json!({ "type": "object", "properties": {}, keyword: {} });
        pair.refuses(&with(&tool, "inputSchema", schema));
    }
    let shell = with(&with(&tool, "source", json!("host-extension")), "safetyTier", json!("exec"));
    pair.accepts(&shell);
}

/// Documents of this build match its published schemas.
#[test]
fn our_own_discovery_document_fits() {
    let catalog = Pair::of("tool-catalog", json!(true));
    let hooks = Pair::of("tool-hooks", json!(true));
    let config = toolcrib_config::Config::empty(std::path::Path::new(""));
    let document = crate::openwop::discovery::document(&config);
    let document: Value = serde_json::from_slice(&document.bytes).unwrap();
    catalog.accepts(&document["toolCatalog"]);
    hooks.accepts(&document["toolHooks"]);
}
