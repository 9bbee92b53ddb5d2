//! A small OpenWOP host, with a switch per fault.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use toolcrib_core::{canonical, redact::Redactor};

use super::{Asked, KEY, Reply, SECOND_KEY, faults};

faults! {
    /// What an OpenWOP host can do wrong.
    OpenwopFault {
        /// Discovery wants a key.
        DiscoveryLocked,
        /// Discovery lacks a required member.
        MemberMissing,
        /// `limits` has a member of its own.
        LimitsOpen,
        /// The families stand in a wrapper only.
        FamiliesWrapped,
        /// `toolCatalog.supported` is a text.
        CatalogAdvertText,
        /// `toolHooks` has a facet that is no boolean.
        HooksAdvertText,
        /// `mcp` without addresses.
        McpWithoutUrls,
        /// Discovery differs by key.
        DiscoveryPersonal,
        /// Discovery names a tool.
        DiscoveryNamesTools,
        /// Discovery without `Cache-Control`.
        NoCacheControl,
        /// No 304 for discovery.
        DiscoveryNever304,
        /// `/v1/openapi.json` is 3.0.
        OldOpenapi,
        /// The catalog is public.
        CatalogPublic,
        /// Unknown routes are 404 without a key.
        RoutingFirst,
        /// An unknown key is 403.
        UnknownKeyForbidden,
        /// A malformed `Authorization` is 400.
        MalformedIsBadRequest,
        /// No `WWW-Authenticate`.
        NoChallenge,
        /// Only `Bearer` with a capital letter.
        SchemeCaseMatters,
        /// Errors are nested objects.
        NestedErrors,
        /// The framework answers in plain text.
        PlainTextRefusals,
        /// A run without a workflow is accepted.
        RunsAccepted,
        /// Errors repeat the id.
        ErrorsEcho,
        /// 429 without `Retry-After`.
        LimitWithoutRetryAfter,
        /// The list is 500.
        ListFails,
        /// The list is an object.
        ListWrapped,
        /// A descriptor has a member of its own.
        DescriptorOpen,
        /// An `exec` tool from an MCP server.
        ExecFromMcp,
        /// A key in a description.
        KeyInDescription,
        /// One id twice.
        DuplicateId,
        /// A tool of a source that is not advertised.
        UnadvertisedSource,
        /// The list is not sorted.
        Unsorted,
        /// Every list has another order of members.
        Unstable,
        /// A tool by its id has another title.
        ByIdDiffers,
        /// Ids are decoded twice.
        DecodesTwice,
        /// An unknown id is 200 with an empty object.
        UnknownIsFound,
        /// Ids that are no text are 400.
        StrangeIdsBadRequest,
        /// `?source=` is ignored.
        SourceIgnored,
        /// An unknown `?source=` answers everything.
        UnknownSourceIgnored,
        /// An unknown view is 400.
        UnknownViewRefused,
        /// POST creates tools.
        Writable,
        /// 405 without `Allow`.
        NoAllow,
        /// HEAD is 405.
        NoHead,
        /// The list may be kept by everybody.
        ListCachedPublicly,
        /// The list never is 304.
        ListNever304,
        /// The compact view is there and not advertised.
        CompactUnadvertised,
        /// The compact list is an array.
        CompactBare,
        /// Compact descriptors keep `auth`.
        CompactKeepsAuth,
        /// Compact schemas keep `anyOf`, deep down.
        CompactKeepsAnyOf,
        /// The compact list lacks a tool.
        CompactLacksTool,
        /// `view=compact` ignores `source`.
        CompactIgnoresSource,
        /// One compact tool stands in an envelope.
        CompactByIdWrapped,
        /// A 404 that names scopes.
        NotFoundNamesScopes,
        /// A 404 whose message has the length of the id.
        NotFoundDiffers,
        /// A hidden tool is 403.
        HiddenIsForbidden,
        /// A hidden tool's 404 has one header more.
        HiddenHasHeader,
        /// Another principal's tools are listed and not answered.
        ListedNotReadable,
        /// 304 for anybody's `ETag`.
        ForeignEtag,
        /// Seams without credentials.
        SeamsOpen,
        /// Events with the arguments.
        ArgumentsShown,
        /// The hash is over the arguments as they came.
        HashNotCanonical,
        /// Unproven scopes pass.
        FailsOpen,
        /// A limited call has a duration.
        LimitedHasDuration,
        /// The seam's 429 has no `Retry-After`.
        SeamWithoutRetryAfter,
        /// Secrets come back.
        SecretsShown,
        /// Secrets are hashed.
        SecretsHashed,
        /// A failure looks like success.
        FailureHidden,
        /// A session closes before the return.
        ClosesEarly,
        /// A session closes as `aborted`.
        OutcomeAborted,
        /// A session's events have the result.
        SessionShowsResult,
        /// A return names no cause.
        NoCause,
        /// Events are numbered by `seq`.
        EventSeq,
        /// Events of an unknown run are one.
        UnknownRunHasEvents,
        /// `?type=` is ignored.
        TypeIgnored,
        /// Everybody reads every run.
        ForeignRunReadable,
    }
}

/// The host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    fault: Option<OpenwopFault>,
    /// Answers so far, for faults that only show after a while.
    answers: Arc<AtomicUsize>,
}

use OpenwopFault as F;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    First,
    Second,
}

const RUN: &str = "run-of-a-session";
const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";
const RUN_SESSION: &str = "/v1/host/sample/tools/session-run";

impl Host {
    pub(super) fn new(fault: Option<OpenwopFault>) -> Self {
        Self { fault, answers: Arc::default() }
    }

    fn has(&self, fault: OpenwopFault) -> bool {
        self.fault == Some(fault)
    }

    pub(super) fn answer(&self, asked: &Asked) -> Reply {
        match asked.path.as_str() {
            "/.well-known/openwop" => self.discovery(asked),
            "/v1/openapi.json" => {
                let version = if self.has(F::OldOpenapi) { "3.0.3" } else { "3.1.0" };
                Reply::json(200, &json!({ "openapi": version }))
            }
            path if path.starts_with("/v1/") => match self.who(asked) {
                Ok(who) => self.routed(asked, who),
                Err(refusal) => refusal,
            },
            _ => self.error(404, "not_found", "there is nothing here"),
        }
    }

    fn who(&self, asked: &Asked) -> Result<Who, Reply> {
        let path = asked.path.as_str();
        let is_open = (self.has(F::CatalogPublic) && path == "/v1/tools")
            || (self.has(F::SeamsOpen) && path == INVOKE);
        if is_open && asked.header("authorization").is_none() {
            return Ok(Who::First);
        }
        let scheme = asked.header("authorization").and_then(|it| it.split(' ').next());
        let token =
            asked.bearer().filter(|_| !self.has(F::SchemeCaseMatters) || scheme == Some("Bearer"));
        match token {
            Some(KEY) => return Ok(Who::First),
            Some(SECOND_KEY) => return Ok(Who::Second),
            _ => {}
        }
        let is_known = path.starts_with("/v1/tools") || path.starts_with("/v1/host/");
        if self.has(F::RoutingFirst) && !is_known {
            return Err(self.error(404, "not_found", "there is nothing here"));
        }
        if self.has(F::UnknownKeyForbidden) && token.is_some_and(|token| !token.is_empty()) {
            return Err(self.error(403, "forbidden", "not with this key"));
        }
        if self.has(F::MalformedIsBadRequest) && token.is_none() && scheme.is_some() {
            return Err(self.error(400, "validation_error", "this header makes no sense"));
        }
        let refusal = self.error(401, "unauthenticated", "a key is needed");
        Err(match self.has(F::NoChallenge) {
            true => refusal,
            false => refusal.with("www-authenticate", "Bearer"),
        })
    }

    fn routed(&self, asked: &Asked, who: Who) -> Reply {
        let path = asked.path.as_str();
        if let Some(id) = path.strip_prefix("/v1/tools/") {
            return self.tool(asked, who, id);
        }
        match path {
            "/v1/tools" => self.list(asked, who),
            "/v1/runs" if asked.method == Method::POST => match self.has(F::RunsAccepted) {
                true => Reply::json(201, &json!({ "runId": "a" })),
                false => self.error(400, "validation_error", "a workflow is needed"),
            },
            INVOKE => self.invoke(asked),
            RUN_SESSION => Reply::json(200, &json!({ "runId": RUN, "toolId": "mcp:crib.echo" })),
            path if path.starts_with("/v1/host/sample/test/runs/") => self.events(asked, who),
            _ => self.plain_or(self.error(404, "not_found", "there is nothing here")),
        }
    }

    fn discovery(&self, asked: &Asked) -> Reply {
        if self.has(F::DiscoveryLocked) && asked.bearer() != Some(KEY) {
            return self.error(401, "unauthenticated", "a key is needed");
        }
        if self.has(F::LimitWithoutRetryAfter) {
            // Only bursts are limited: whoever asks for the first time is answered.
            if self.answers.fetch_add(1, Ordering::Relaxed) > 4 {
                return self.error(429, "rate_limited", "too many requests");
            }
        }
        let mut document = json!({
            "protocolVersion": "1.0",
            "supportedEnvelopes": [],
            "schemaVersions": {},
            "limits": { "clarificationRounds": 0, "schemaRounds": 0, "envelopesPerTurn": 0 },
            "toolCatalog": {
                "supported": true, "sources": ["mcp", "host-extension", "node-pack"],
                "sessionLifecycle": true, "compactView": true,
            },
            "toolHooks": {
                "supported": true, "prePostEvents": true, "perToolAuthorization": true,
                "perToolRateLimit": true,
            },
            "mcpClient": {
                "supported": true, "transports": ["stdio"], "trustBoundary": "untrusted",
            },
        });
        match self.fault {
            Some(F::MemberMissing) => drop(members(&mut document).remove("schemaVersions")),
            Some(F::LimitsOpen) => document["limits"]["maxTools"] = json!(1),
            Some(F::FamiliesWrapped) => {
                let family = members(&mut document).remove("toolHooks").unwrap();
                document["capabilities"] = json!({ "toolHooks": family });
            }
            Some(F::CatalogAdvertText) => document["toolCatalog"]["supported"] = json!("yes"),
            Some(F::HooksAdvertText) => document["toolHooks"]["prePostEvents"] = json!("yes"),
            Some(F::McpWithoutUrls) => document["mcp"] = json!({ "supported": true }),
            Some(F::DiscoveryPersonal) if asked.bearer() == Some(KEY) => {
                document["x-host-you"] = json!("first");
            }
            Some(F::DiscoveryNamesTools) => document["x-host-tools"] = json!(["mcp:crib.echo"]),
            Some(F::CompactUnadvertised) => document["toolCatalog"]["compactView"] = json!(false),
            Some(F::UnadvertisedSource) => document["toolCatalog"]["sources"] = json!(["mcp"]),
            _ => {}
        }
        let mut reply = Reply::json(200, &document);
        if !self.has(F::NoCacheControl) {
            reply.set("cache-control", "public, max-age=300");
        }
        self.tagged(asked, reply, self.has(F::DiscoveryNever304))
    }

    fn list(&self, asked: &Asked, who: Who) -> Reply {
        match asked.method.as_str() {
            "GET" => {}
            "HEAD" if !self.has(F::NoHead) => {}
            "POST" if self.has(F::Writable) => return Reply::json(201, &json!({})),
            _ => return self.wrong_method(),
        }
        if self.has(F::ListFails) {
            return self.error(500, "internal_error", "something went wrong");
        }
        let mut tools = self.tools(who);
        match asked.parameter("source") {
            None => {}
            Some("mcp" | "node-pack" | "host-extension" | "workflow" | "connector")
                if self.has(F::SourceIgnored) => {}
            Some(source @ ("mcp" | "node-pack" | "host-extension" | "workflow" | "connector")) => {
                let keeps_all =
                    self.has(F::CompactIgnoresSource) && asked.parameter("view") == Some("compact");
                tools.retain(|tool| keeps_all || tool["source"] == source);
            }
            Some(_) if self.has(F::UnknownSourceIgnored) => {}
            Some(_) => return self.error(400, "validation_error", "`source` is one of five"),
        }
        let body = match asked.parameter("view") {
            Some("compact") => {
                let mut tools: Vec<Value> = tools.iter().map(|tool| self.compact(tool)).collect();
                if self.has(F::CompactLacksTool) {
                    tools.pop();
                }
                match self.has(F::CompactBare) {
                    true => Value::Array(tools),
                    false => json!({ "tools": tools }),
                }
            }
            Some(view) if self.has(F::UnknownViewRefused) && view != "standard" => {
                return self.error(400, "validation_error", "there is no such view");
            }
            _ if self.has(F::ListWrapped) => json!({ "tools": tools }),
            _ => Value::Array(tools),
        };
        let mut reply = Reply::json(200, &body);
        if self.has(F::Unstable) {
            let read = self.answers.fetch_add(1, Ordering::Relaxed);
            reply.body.extend(std::iter::repeat_n(b' ', read));
        }
        let control = if self.has(F::ListCachedPublicly) {
            "public, max-age=60"
        } else {
            "private, no-cache"
        };
        reply.set("cache-control", control);
        let anybody = self.has(F::ForeignEtag) && asked.header("if-none-match").is_some();
        if anybody {
            reply.status = 304;
            reply.body.clear();
            return reply;
        }
        self.tagged(asked, reply, self.has(F::ListNever304))
    }

    fn tool(&self, asked: &Asked, who: Who, segment: &str) -> Reply {
        if !matches!(asked.method.as_str(), "GET" | "HEAD") {
            return self.wrong_method();
        }
        let decoded = percent_decode_str(segment).decode_utf8();
        let Ok(mut id) = decoded.map(|id| id.into_owned()) else {
            return match self.has(F::StrangeIdsBadRequest) {
                true => self.error(400, "validation_error", "the path is no text"),
                false => self.plain_or(self.not_found(segment)),
            };
        };
        if self.has(F::DecodesTwice) {
            id = percent_decode_str(&id).decode_utf8_lossy().into_owned();
        }
        let hides = self.has(F::ListedNotReadable) && who == Who::Second;
        let found = self.tools(who).into_iter().find(|tool| tool["toolId"] == id.as_str());
        let Some(mut tool) = found.filter(|_| !hides) else {
            let exists = self.tools(Who::First).iter().any(|tool| tool["toolId"] == id.as_str());
            return match self.fault {
                Some(F::UnknownIsFound) => Reply::json(200, &json!({})),
                Some(F::HiddenIsForbidden) if exists => self.error(403, "forbidden", "not you"),
                Some(F::HiddenHasHeader) if exists => {
                    self.not_found(&id).with("cache-control", "private")
                }
                _ => self.not_found(&id),
            };
        };
        if asked.parameter("view") == Some("compact") && !self.has(F::CompactUnadvertised) {
            let compact = self.compact(&tool);
            return Reply::json(
                200,
                &match self.has(F::CompactByIdWrapped) {
                    true => json!({ "tools": [compact] }),
                    false => compact,
                },
            );
        }
        if self.has(F::ByIdDiffers) {
            tool["title"] = json!("Another");
        }
        Reply::json(200, &tool)
    }

    fn not_found(&self, id: &str) -> Reply {
        let message = match self.fault {
            Some(F::ErrorsEcho) => format!("there is no {id}"),
            Some(F::NotFoundDiffers) => format!("nothing of {} bytes", id.len()),
            _ => "no such tool".to_owned(),
        };
        let reply = self.error(404, "not_found", &message);
        match self.has(F::NotFoundNamesScopes) {
            true => reply.with(
                "www-authenticate",
                "Bearer error=\"insufficient_scope\", scope=\"tools:crib\"",
            ),
            false => reply,
        }
    }

    /// What `who` may use. The second principal lacks one tool.
    fn tools(&self, who: Who) -> Vec<Value> {
        let mut tools = vec![
            json!({
                "toolId": "mcp:crib.echo", "source": "mcp", "title": "Echo",
                "description": "Answers what it was given", "safetyTier": "read",
                "auth": { "scopes": ["tools:crib"] }, "egress": "none", "approval": "never",
                "inputSchema": {
                    "type": "object",
                    "properties": { "text": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
                },
            }),
            json!({ "toolId": "mcp:crib.hidden", "source": "mcp", "safetyTier": "write" }),
            json!({
                "toolId": "x-host-acme-shell", "source": "host-extension", "safetyTier": "exec",
                "approval": "always",
            }),
        ];
        match self.fault {
            Some(F::DescriptorOpen) => tools[0]["annotations"] = json!({ "readOnlyHint": true }),
            Some(F::ExecFromMcp) => tools[1]["safetyTier"] = json!("exec"),
            Some(F::KeyInDescription) => {
                tools[0]["description"] = json!("uses sk-0123456789abcdef0123");
            }
            Some(F::DuplicateId) => tools.insert(1, tools[0].clone()),
            Some(F::Unsorted) => tools.reverse(),
            _ => {}
        }
        if who == Who::Second {
            tools.retain(|tool| tool["toolId"] != "mcp:crib.hidden");
            if self.has(F::ForeignRunReadable) {
                // Of another tenant for sure: nothing in common.
                tools.clear();
            }
        }
        tools
    }

    fn compact(&self, tool: &Value) -> Value {
        let mut compact = tool.clone();
        for dropped in ["outputSchema", "auth", "egress", "approval", "replayPolicy"] {
            if !(dropped == "auth" && self.has(F::CompactKeepsAuth)) {
                members(&mut compact).remove(dropped);
            }
        }
        if compact.get("inputSchema").is_some() && !self.has(F::CompactKeepsAnyOf) {
            compact["inputSchema"]["properties"]["text"] = json!({ "type": ["string", "null"] });
        }
        compact
    }

    fn invoke(&self, asked: &Asked) -> Reply {
        let Some(request) = asked.json() else {
            return self.error(400, "validation_error", "the body is no JSON");
        };
        let none = json!({});
        let args = request.get("args").unwrap_or(&none);
        let redacted = Redactor::new([]).value(args);
        let hashed = if self.has(F::SecretsHashed) { args } else { &redacted };
        let hash = match self.has(F::HashNotCanonical) {
            true => canonical::Digest::of(args.to_string().as_bytes()),
            false => canonical::digest(hashed).unwrap(),
        };
        let mut called = json!({
            "argsHash": hash.to_string(), "principal": request["principal"], "transport": "native",
        });
        if self.has(F::ArgumentsShown) {
            called["inputs"] = redacted.clone();
        }
        if self.has(F::SecretsShown) {
            called["note"] = args["apiKey"].clone();
        }
        let wants = |name: &str| request.get(name) == Some(&json!(true));
        let needs_scope = request["requiredScopes"].as_array().is_some_and(|it| !it.is_empty());
        let (status, returned) = if needs_scope && !self.has(F::FailsOpen) {
            (403, json!({ "status": "forbidden" }))
        } else if wants("simulateRateLimitExhausted") {
            match self.has(F::LimitedHasDuration) {
                true => (429, json!({ "status": "rate_limited", "durationMs": 0 })),
                false => (429, json!({ "status": "rate_limited" })),
            }
        } else if wants("simulateToolError") {
            match self.has(F::FailureHidden) {
                true => (200, json!({ "status": "ok", "durationMs": 1 })),
                false => (
                    200,
                    json!({
                        "status": "error", "durationMs": 1,
                        "error": { "code": "tool_execution_failed", "message": "it did not work" },
                    }),
                ),
            }
        } else {
            (200, json!({ "status": "ok", "durationMs": 1 }))
        };
        let reply = Reply::json(status, &json!({ "toolCalled": called, "toolReturned": returned }));
        match status {
            429 if !self.has(F::SeamWithoutRetryAfter) => reply.with("retry-after", "2"),
            _ => reply,
        }
    }

    fn events(&self, asked: &Asked, who: Who) -> Reply {
        let run = asked.path.split('/').nth(6).unwrap_or_default();
        let is_owner = who == Who::First || self.has(F::ForeignRunReadable);
        let mut events = match run {
            RUN if is_owner => self.session(),
            RUN => Vec::new(),
            _ if self.has(F::UnknownRunHasEvents) => self.session(),
            _ => Vec::new(),
        };
        if let (Some(wanted), false) = (asked.parameter("type"), self.has(F::TypeIgnored)) {
            events.retain(|event| event["type"] == wanted);
        }
        Reply::json(200, &json!({ "events": events }))
    }

    fn session(&self) -> Vec<Value> {
        let session = json!({ "sessionId": "s1", "toolId": "mcp:crib.echo" });
        let mut closed = session.clone();
        let outcome = if self.has(F::OutcomeAborted) { "aborted" } else { "completed" };
        closed["outcome"] = json!(outcome);
        let call = json!({ "agentId": "core.system", "toolName": "mcp:crib.echo", "callId": "c1" });
        let mut returned = call.clone();
        returned["status"] = json!("ok");
        if self.has(F::SessionShowsResult) {
            returned["result"] = json!("what it answered");
        }
        let mut rows = vec![
            ("tool.session.opened", session, None),
            ("agent.toolCalled", call, None),
            ("agent.toolReturned", returned, Some("e1")),
            ("tool.session.closed", closed, None),
        ];
        if self.has(F::ClosesEarly) {
            rows.swap(2, 3);
        }
        let events = rows.into_iter().enumerate().map(|(at, (kind, payload, cause))| {
            let mut event = json!({
                "eventId": format!("e{at}"), "runId": RUN, "type": kind, "payload": payload,
                "timestamp": "2026-01-01T00:00:00.000Z",
            });
            let number = if self.has(F::EventSeq) { "seq" } else { "sequence" };
            event[number] = json!(at);
            if let (Some(cause), false) = (cause, self.has(F::NoCause)) {
                event["causationId"] = json!(cause);
            }
            event
        });
        events.collect()
    }

    fn tagged(&self, asked: &Asked, mut reply: Reply, never: bool) -> Reply {
        let tag = format!("\"{}\"", canonical::Digest::of(&reply.body));
        if asked.header("if-none-match") == Some(tag.as_str()) && !never {
            reply.status = 304;
            reply.body.clear();
        }
        reply.with("etag", tag)
    }

    fn wrong_method(&self) -> Reply {
        let reply = self.plain_or(self.error(405, "method_not_allowed", "only GET and HEAD"));
        match self.has(F::NoAllow) {
            true => reply,
            false => reply.with("allow", "GET, HEAD"),
        }
    }

    /// `reply`, or what a framework says that nobody asked.
    fn plain_or(&self, reply: Reply) -> Reply {
        match self.has(F::PlainTextRefusals) {
            true => Reply {
                status: reply.status,
                headers: vec![("content-type", "text/plain".to_owned())],
                body: b"no".to_vec(),
            },
            false => reply,
        }
    }

    fn error(&self, status: u16, code: &str, message: &str) -> Reply {
        let body = match self.has(F::NestedErrors) {
            true => json!({ "error": { "code": code, "message": message } }),
            false => json!({ "error": code, "message": message }),
        };
        Reply::json(status, &body)
    }
}

fn members(value: &mut Value) -> &mut serde_json::Map<String, Value> {
    value.as_object_mut().unwrap()
}
