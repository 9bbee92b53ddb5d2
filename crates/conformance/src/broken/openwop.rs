//! A small OpenWOP host with a switch per fault.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use serde_json::{Value, json};
use toolcrib_core::{canonical, redact::Redactor};

use super::{
    host::{HttpRequest, KEY, Principal, Reply, faults},
    openwop_catalog::{Catalog, conditional, members, tag_of},
};

faults! {
    /// Faults of an OpenWOP host.
    OpenwopFault {
        /// Discovery requires a key.
        DiscoveryLocked = "discovery.public",
        /// Discovery has no `schemaVersions`.
        MemberMissing = "discovery.members",
        /// `limits` has an unknown member.
        LimitsOpen = "discovery.limits",
        /// A family is not at the root.
        FamiliesWrapped = "discovery.families-at-root",
        /// `toolCatalog.supported` is a string.
        CatalogAdvertText = "discovery.tool-catalog",
        /// A facet of `toolHooks` is a string.
        HooksAdvertText = "discovery.tool-hooks",
        /// `mcp` has no URLs.
        McpWithoutUrls = "discovery.other-families",
        /// Discovery depends on the key.
        DiscoveryPersonal = "discovery.same-for-everyone",
        /// Discovery contains the id of a tool.
        DiscoveryNamesTools = "discovery.reveals-no-tools",
        /// Discovery has no `Cache-Control`.
        NoCacheControl = "discovery.cache-control",
        /// Discovery never returns 304.
        DiscoveryNever304 = "discovery.etag",
        /// `/v1/openapi.json` has version 3.0.
        OldOpenapi = "discovery.openapi",
        /// The catalog is public.
        CatalogPublic = "auth.required",
        /// Unknown routes return 404 without a key.
        RoutingFirst = "auth.before-routing",
        /// Answers an unknown key with 403.
        UnknownKeyForbidden = "auth.unknown-key",
        /// Answers a malformed `Authorization` with 400.
        MalformedIsBadRequest = "auth.malformed",
        /// A 401 has no `WWW-Authenticate`.
        NoChallenge = "auth.challenge",
        /// The scheme `bearer` is rejected.
        SchemeCaseMatters = "auth.scheme-case",
        /// Errors are nested objects.
        NestedErrors = "errors.envelope",
        /// Errors of the framework are plain text.
        PlainTextRefusals = "errors.json",
        /// A run without a workflow is accepted.
        RunsAccepted = "errors.unknown-run",
        /// Errors repeat the id.
        ErrorsEcho = "errors.no-echo",
        /// A 429 has no `Retry-After`.
        LimitWithoutRetryAfter = "errors.rate-limit",
        /// The list fails with 500.
        ListFails = "catalog.list",
        /// The list is an object.
        ListWrapped = "catalog.bare-array",
        /// A descriptor has an unknown member.
        DescriptorOpen = "catalog.descriptors",
        /// A tool of an MCP server has the tier `exec`.
        ExecFromMcp = "catalog.exec",
        /// A description contains a key.
        KeyInDescription = "catalog.no-secrets",
        /// One id occurs twice.
        DuplicateId = "catalog.unique-ids",
        /// A tool has an unadvertised source.
        UnadvertisedSource = "catalog.sources",
        /// The list is not sorted.
        Unsorted = "catalog.sorted",
        /// Every list has other bytes.
        Unstable = "catalog.stable",
        /// A descriptor has another title than in the list.
        ByIdDiffers = "catalog.by-id",
        /// Ids are decoded twice.
        DecodesTwice = "catalog.id-encoding",
        /// Answers an unknown id with 200.
        UnknownIsFound = "catalog.unknown-id",
        /// Rejects an id in invalid UTF-8 with 400.
        StrangeIdsBadRequest = "catalog.malformed-ids",
        /// `?source=` is ignored.
        SourceIgnored = "catalog.source-filter",
        /// An unknown `?source=` is ignored.
        UnknownSourceIgnored = "catalog.unknown-source",
        /// Answers an unknown view with 400.
        UnknownViewRefused = "catalog.unknown-view",
        /// POST creates tools.
        Writable = "catalog.read-only",
        /// A 405 has no `Allow`.
        NoAllow = "catalog.allow",
        /// Answers HEAD with 405.
        NoHead = "catalog.head",
        /// Shared caches may store the list.
        ListCachedPublicly = "catalog.private",
        /// The list never returns 304.
        ListNever304 = "catalog.conditional",
        /// The compact view works although it is not advertised.
        CompactUnadvertised = "compact.unadvertised",
        /// The compact list is an array.
        CompactBare = "compact.list",
        /// Compact descriptors have `auth`.
        CompactKeepsAuth = "compact.descriptors",
        /// Compact schemas have a nested `anyOf`.
        CompactKeepsAnyOf = "compact.keywords",
        /// The compact list omits a tool.
        CompactLacksTool = "compact.same-tools",
        /// `view=compact` ignores `source`.
        CompactIgnoresSource = "compact.with-source",
        /// A compact descriptor is in an envelope.
        CompactByIdWrapped = "compact.by-id",
        /// A 404 names scopes.
        NotFoundNamesScopes = "disclosure.no-hints",
        /// The message of a 404 depends on the id.
        NotFoundDiffers = "disclosure.same-404",
        /// Answers a hidden tool with 403.
        HiddenIsForbidden = "disclosure.hidden",
        /// The 404 of a hidden tool has another header.
        HiddenHasHeader = "disclosure.hidden",
        /// The second principal cannot read its listed tools.
        ListedNotReadable = "disclosure.listed-is-readable",
        /// Answers every `ETag` with 304.
        ForeignEtag = "disclosure.etag",
        /// Test routes require no credentials.
        SeamsOpen = "seams.authenticated",
        /// Events contain the arguments.
        ArgumentsShown = "hooks.content-free",
        /// The hash is of the arguments as received.
        HashNotCanonical = "hooks.args-hash",
        /// Missing scopes are ignored.
        FailsOpen = "hooks.fail-closed",
        /// A limited call has a duration.
        LimitedHasDuration = "hooks.rate-limited",
        /// The 429 of the seam has no `Retry-After`.
        SeamWithoutRetryAfter = "hooks.rate-limit-headers",
        /// Responses contain secrets.
        SecretsShown = "hooks.redaction",
        /// The hash includes secrets.
        SecretsHashed = "hooks.redacted-before-hash",
        /// A failure looks like a success.
        FailureHidden = "hooks.failure-honesty",
        /// A session closes before the return.
        ClosesEarly = "sessions.order",
        /// A session closes as `aborted`.
        OutcomeAborted = "sessions.outcome",
        /// Session events contain the result.
        SessionShowsResult = "sessions.content-free",
        /// A return has no cause.
        NoCause = "sessions.pairs",
        /// Events have `seq` instead of `sequence`.
        EventSeq = "sessions.envelope",
        /// An unknown run has events.
        UnknownRunHasEvents = "seams.unknown-run",
        /// `?type=` is ignored.
        TypeIgnored = "seams.filter",
        /// Every principal can read every run.
        ForeignRunReadable = "seams.foreign-run",
    }
}

#[derive(Debug)]
pub(super) struct Host {
    fault: Option<OpenwopFault>,
    /// Replies so far, for faults that depend on repetition.
    replies: AtomicUsize,
}

use OpenwopFault as F;

const RUN: &str = "run-of-a-session";
const INVOKE: &str = "/v1/host/sample/toolhooks/invoke";
const RUN_SESSION: &str = "/v1/host/sample/tools/session-run";

impl super::host::Host for Host {
    fn answer(&self, req: &HttpRequest) -> Reply {
        match req.path.as_str() {
            "/.well-known/openwop" => self.discovery(req),
            "/v1/openapi.json" => {
                let version = if self.has(F::OldOpenapi) { "3.0.3" } else { "3.1.0" };
                Reply::json(200, &json!({ "openapi": version }))
            }
            path if path.starts_with("/v1/") => match self.routed_principal(req) {
                Ok(principal) => self.route(req, principal),
                Err(refusal) => refusal,
            },
            _ => self.error(404, "not_found", "not found"),
        }
    }
}

impl Host {
    pub(super) fn new(fault: Option<OpenwopFault>) -> Self {
        Self { fault, replies: AtomicUsize::new(0) }
    }

    fn has(&self, fault: OpenwopFault) -> bool {
        self.fault == Some(fault)
    }

    fn routed_principal(&self, req: &HttpRequest) -> Result<Principal, Reply> {
        let path = req.path.as_str();
        let is_open = (self.has(F::CatalogPublic) && path == "/v1/tools")
            || (self.has(F::SeamsOpen) && path == INVOKE);
        self.principal(req, is_open).map_err(|refusal| {
            let is_known = path.starts_with("/v1/tools") || path.starts_with("/v1/host/");
            match self.has(F::RoutingFirst) && !is_known {
                true => self.error(404, "not_found", "not found"),
                false => refusal,
            }
        })
    }

    fn route(&self, req: &HttpRequest, principal: Principal) -> Reply {
        let path = req.path.as_str();
        if let Some(id) = path.strip_prefix("/v1/tools/") {
            return match req.method.as_str() {
                "GET" | "HEAD" => self.tool(req, principal, id),
                _ => self.wrong_method(),
            };
        }
        match path {
            "/v1/tools" => self.list(req, principal),
            "/v1/runs" if req.method == Method::POST => match self.has(F::RunsAccepted) {
                true => Reply::json(201, &json!({ "runId": "a" })),
                false => self.error(400, "validation_error", "a workflow is required"),
            },
            INVOKE => self.invoke(req),
            RUN_SESSION => Reply::json(200, &json!({ "runId": RUN, "toolId": "mcp:crib.echo" })),
            path if path.starts_with("/v1/host/sample/test/runs/") => self.events(req, principal),
            _ => self.framework_error(self.error(404, "not_found", "not found")),
        }
    }

    fn discovery(&self, req: &HttpRequest) -> Reply {
        if self.has(F::DiscoveryLocked) && req.bearer() != Some(KEY) {
            return self.error(401, "unauthenticated", "a key is required");
        }
        if self.has(F::LimitWithoutRetryAfter) {
            // Only bursts are limited.
            if self.replies.fetch_add(1, Ordering::Relaxed) > 4 {
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
            Some(F::DiscoveryPersonal) if req.bearer() == Some(KEY) => {
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
        let tag = tag_of(&reply);
        conditional(req, reply, tag, self.has(F::DiscoveryNever304))
    }

    fn list(&self, req: &HttpRequest, principal: Principal) -> Reply {
        match req.method.as_str() {
            "GET" => {}
            "HEAD" if !self.has(F::NoHead) => {}
            "POST" if self.has(F::Writable) => return Reply::json(201, &json!({})),
            _ => return self.wrong_method(),
        }
        let mut tools = self.tools(principal);
        if self.has(F::ForeignRunReadable) && principal == Principal::Second {
            // Two tenants share no tools.
            tools.clear();
        }
        match req.parameter("source") {
            None => {}
            Some("mcp" | "node-pack" | "host-extension" | "workflow" | "connector")
                if self.has(F::SourceIgnored) => {}
            Some(source @ ("mcp" | "node-pack" | "host-extension" | "workflow" | "connector")) => {
                let keeps_all =
                    self.has(F::CompactIgnoresSource) && req.parameter("view") == Some("compact");
                tools.retain(|tool| keeps_all || tool["source"] == source);
            }
            Some(_) if self.has(F::UnknownSourceIgnored) => {}
            Some(_) => return self.error(400, "validation_error", "unknown source"),
        }
        self.list_of(req, tools)
    }

    fn invoke(&self, req: &HttpRequest) -> Reply {
        let Some(request) = req.json() else {
            return self.error(400, "validation_error", "the body is not JSON");
        };
        let none = json!({});
        let args = request.get("args").unwrap_or(&none);
        let redacted = Redactor::new([]).value(args);
        let hashed = if self.has(F::SecretsHashed) { args } else { &redacted };
        let hash = match self.has(F::HashNotCanonical) {
            true => canonical::Digest::of(args.to_string().as_bytes()),
            false => canonical::digest(hashed),
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
        let has = |name: &str| request.get(name) == Some(&json!(true));
        let needs_scope =
            request["requiredScopes"].as_array().is_some_and(|scopes| !scopes.is_empty());
        let (status, returned) = if needs_scope && !self.has(F::FailsOpen) {
            (403, json!({ "status": "forbidden" }))
        } else if has("simulateRateLimitExhausted") {
            match self.has(F::LimitedHasDuration) {
                true => (429, json!({ "status": "rate_limited", "durationMs": 0 })),
                false => (429, json!({ "status": "rate_limited" })),
            }
        } else if has("simulateToolError") {
            match self.has(F::FailureHidden) {
                true => (200, json!({ "status": "ok", "durationMs": 1 })),
                false => (
                    200,
                    json!({
                        "status": "error", "durationMs": 1,
                        "error": { "code": "tool_execution_failed", "message": "the tool failed" },
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

    fn events(&self, req: &HttpRequest, principal: Principal) -> Reply {
        let run = req.path.split('/').nth(6).unwrap_or_default();
        let is_owner = principal == Principal::First || self.has(F::ForeignRunReadable);
        let mut events = match run {
            RUN if is_owner => self.session(),
            RUN => Vec::new(),
            _ if self.has(F::UnknownRunHasEvents) => self.session(),
            _ => Vec::new(),
        };
        if let (Some(wanted), false) = (req.parameter("type"), self.has(F::TypeIgnored)) {
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
            returned["result"] = json!("the result");
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

    fn wrong_method(&self) -> Reply {
        let reply =
            self.framework_error(self.error(405, "method_not_allowed", "only GET and HEAD"));
        match self.has(F::NoAllow) {
            true => reply,
            false => reply.with("allow", "GET, HEAD"),
        }
    }
}

impl Catalog for Host {
    fn failed_check(&self) -> Option<&'static str> {
        self.fault.map(F::check)
    }

    fn replies(&self) -> &AtomicUsize {
        &self.replies
    }

    fn all_tools(&self) -> Vec<Value> {
        let mut tools = vec![
            json!({
                "toolId": "mcp:crib.echo", "source": "mcp", "title": "Echo",
                "description": "Returns its input", "safetyTier": "read",
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
        if self.has(F::DescriptorOpen) {
            tools[0]["annotations"] = json!({ "readOnlyHint": true });
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

    fn error(&self, status: u16, code: &str, message: &str) -> Reply {
        let body = match self.has(F::NestedErrors) {
            true => json!({ "error": { "code": code, "message": message } }),
            false => json!({ "error": code, "message": message }),
        };
        Reply::json(status, &body)
    }

    fn revealed(&self, id: &str) -> Reply {
        match self.has(F::HiddenHasHeader) {
            true => self.not_found(id).with("cache-control", "private"),
            false => self.error(403, "forbidden", "not you"),
        }
    }
}
