//! A small host of OpenWOP v2 with a switch per fault. It lists a version 1 as well, and has as much
//! of it as the checks of version 2 compare with.

use std::sync::atomic::{AtomicUsize, Ordering};

use http::Method;
use percent_encoding::percent_decode_str;
use serde_json::{Value, json};

use super::{
    host::{HttpRequest, KEY, Principal, Reply, faults},
    openwop_catalog::{Catalog, conditional, members, tag_of},
};

faults! {
    /// Faults of a host of OpenWOP v2.
    Openwop2Fault {
        /// Version 2 is preferred, although version 1 is listed.
        PrefersSecond = "versions.listed",
        /// The document of version 1 lists other versions.
        FormsDisagree = "versions.same-list",
        /// There is one document for both versions.
        OneForm = "versions.two-forms",
        /// Errors do not name their version.
        ErrorsUnnamed = "versions.named",
        /// Answers below `/v1` do not name their version.
        FirstUnnamed = "versions.named-by-v1",
        /// A later minor version is refused.
        MinorSelects = "versions.major",
        /// An unlisted version gets version 2.
        AnyVersionServed = "versions.unlisted",
        /// Credentials are checked before the version.
        KeyFirst = "versions.before-auth",
        /// A header that is not a version is ignored.
        MalformedIgnored = "versions.malformed",
        /// Version 2 gets the answer of version 1 below `/v1`.
        MismatchServed = "versions.mismatch",
        /// `/tools` without the header belongs to another protocol.
        ToolsNeedHeader = "versions.default-tools",
        /// `/runs` without the header belongs to another protocol.
        RunsNeedHeader = "versions.default",
        /// `/openapi.json` exists only below `/v1`.
        DescriptionMissing = "versions.path-space",
        /// Old clients are refused, although no minimum is advertised.
        OldClientRefused = "versions.client-version",
        /// No response has a `Vary`.
        NoVary = "versions.vary",
        /// Discovery requires a key.
        DiscoveryLocked = "discovery.public",
        /// The root has an unknown member.
        RootOpen = "discovery.closed",
        /// `implementation` has an unknown member.
        ImplementationOpen = "discovery.metadata",
        /// A record has `supported`.
        RecordSupported = "discovery.records",
        /// `toolCatalog` is stable.
        CatalogStable = "discovery.maturity",
        /// A facet is a string.
        FacetText = "discovery.facets",
        /// `mcp` has no revisions.
        McpWithoutRevisions = "discovery.mcp",
        /// Discovery depends on the key.
        DiscoveryPersonal = "discovery.same-for-everyone",
        /// Discovery contains the id of a tool.
        DiscoveryNamesTools = "discovery.reveals-no-tools",
        /// Discovery has no `Cache-Control`.
        NoCacheControl = "discovery.cache-control",
        /// Discovery never returns 304.
        DiscoveryNever304 = "discovery.etag",
        /// Both documents have one `ETag`.
        SharedEtag = "discovery.etag-per-version",
        /// The catalog is public.
        CatalogPublic = "auth.required",
        /// Answers an unknown key with 403.
        UnknownKeyForbidden = "auth.unknown-key",
        /// Answers a malformed `Authorization` with 400.
        MalformedIsBadRequest = "auth.malformed",
        /// A 401 has no `WWW-Authenticate`.
        NoChallenge = "auth.challenge",
        /// The scheme `bearer` is rejected.
        SchemeCaseMatters = "auth.scheme-case",
        /// Errors have an unknown member.
        ErrorsOpen = "errors.envelope",
        /// Unknown tools have an unregistered code.
        CodeUnregistered = "errors.codes",
        /// Errors of the framework are plain text.
        PlainTextRefusals = "errors.framework",
        /// Errors repeat the id.
        ErrorsEcho = "errors.no-echo",
        /// A 429 repeats the delay in its details.
        DelayInDetails = "errors.rate-limit",
        /// The list fails with 500.
        ListFails = "catalog.list",
        /// The list is an object.
        ListWrapped = "catalog.bare-array",
        /// A descriptor has an unknown member.
        DescriptorOpen = "catalog.descriptors",
        /// The hints are those of the server, not of the descriptor.
        HintsOfServer = "catalog.hints",
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
        /// Answers an unknown view with 400.
        UnknownViewRefused = "catalog.unknown-view",
        /// POST creates tools.
        Writable = "catalog.read-only",
        /// Answers HEAD with 404.
        NoHead = "catalog.head",
        /// A request with a body is refused.
        BodyRefused = "catalog.body-ignored",
        /// Shared caches may store the list.
        ListCachedPublicly = "catalog.private",
        /// The list never returns 304.
        ListNever304 = "catalog.conditional",
        /// The compact list is an array.
        CompactBare = "compact.list",
        /// Compact schemas have `required`, as in version 1.
        CompactSchemaOpen = "compact.descriptors",
        /// Compact schemas have a nested `anyOf`.
        CompactKeepsAnyOf = "compact.keywords",
        /// The compact list omits a tool.
        CompactLacksTool = "compact.same-tools",
        /// A compact descriptor is in an envelope.
        CompactByIdWrapped = "compact.by-id",
        /// A 404 names scopes.
        NotFoundNamesScopes = "disclosure.no-hints",
        /// The message of a 404 depends on the id.
        NotFoundDiffers = "disclosure.same-404",
        /// Answers a hidden tool with 403.
        HiddenIsForbidden = "disclosure.hidden",
        /// The second principal cannot read its listed tools.
        ListedNotReadable = "disclosure.listed-is-readable",
        /// Answers every `ETag` with 304.
        ForeignEtag = "disclosure.etag",
        /// The list of runs has an unknown member.
        RunListOpen = "runs.list",
        /// A cursor is ignored.
        CursorIgnored = "runs.page",
        /// The `/` in the id of a run cannot be escaped with `~`.
        RunEscapesUnread = "runs.by-id",
        /// The events of an unknown run are empty.
        UnknownRunIsEmpty = "runs.unknown",
        /// A finished run can be cancelled.
        EndedIsCancelled = "runs.cancel-ended",
        /// The events are no stream.
        StreamOfText = "events.stream",
        /// Events have an unknown member.
        EventOpen = "events.envelope",
        /// Events have the names of version 1.
        NamesOfFirst = "events.names",
        /// Events contain the arguments.
        ArgumentsShown = "events.content-free",
        /// `Last-Event-ID` is ignored.
        ResumeIgnored = "events.resume",
        /// An unknown mode is ignored.
        ModeIgnored = "events.mode",
        /// `OpenWOP-Version` is not allowed across origins.
        PreflightRefused = "cors.preflight",
        /// No header is exposed to other origins.
        NothingExposed = "cors.exposed",
    }
}

use Openwop2Fault as F;

/// The origin that the host grants access to.
pub const ORIGIN: &str = "https://page.example";

const TENANT: &str = "acme";
const RUN_IDS: [&str; 2] = ["run-0000-0000-0002", "run-0000-0000-0001"];

#[derive(Debug)]
pub(super) struct Host {
    fault: Option<Openwop2Fault>,
    /// Replies so far, for faults that depend on repetition.
    replies: AtomicUsize,
}

/// The version that a request names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RequestedVersion {
    None,
    First,
    Second,
    Other,
    Malformed,
}

impl super::host::Host for Host {
    fn answer(&self, req: &HttpRequest) -> Reply {
        if req.method == Method::OPTIONS {
            return self.preflight();
        }
        let mut reply = self.versioned_answer(req);
        if !self.has(F::NoVary) {
            reply.set("vary", "OpenWOP-Version, Authorization");
        }
        if !self.has(F::NothingExposed) {
            reply.set("access-control-expose-headers", "OpenWOP-Version, ETag, Retry-After");
        }
        reply
    }
}

impl Host {
    pub(super) fn new(fault: Option<Openwop2Fault>) -> Self {
        Self { fault, replies: AtomicUsize::new(0) }
    }

    fn has(&self, fault: Openwop2Fault) -> bool {
        self.fault == Some(fault)
    }

    fn preflight(&self) -> Reply {
        let version = if self.has(F::PreflightRefused) { "" } else { ", OpenWOP-Version" };
        let allowed = format!("Authorization, OpenWOP-Client-Version{version}");
        Reply { status: 204, headers: Vec::new(), body: Vec::new() }
            .with("access-control-allow-origin", ORIGIN)
            .with("access-control-allow-methods", "GET")
            .with("access-control-allow-headers", allowed)
    }

    fn versioned_answer(&self, req: &HttpRequest) -> Reply {
        let is_first = req.path.starts_with("/v1/");
        let reply = if is_first { self.first(req) } else { self.second(req) };
        let is_foreign = reply.headers.iter().any(|(name, _)| *name == "x-other-protocol");
        let is_unnamed = match is_first {
            true => self.has(F::FirstUnnamed),
            false => self.has(F::ErrorsUnnamed) && reply.status >= 400,
        };
        if is_foreign
            || is_unnamed
            || reply.headers.iter().any(|(name, _)| *name == "openwop-version")
        {
            return reply;
        }
        reply.with("openwop-version", if is_first { "1.0" } else { "2.0" })
    }

    fn named(&self, req: &HttpRequest) -> RequestedVersion {
        let values: Vec<_> = req.headers.get_all("openwop-version").iter().collect();
        let text = match values[..] {
            [] => return RequestedVersion::None,
            [value] => value.to_str().unwrap(),
            _ => "",
        };
        let numbers = text.split('.').map(str::parse::<u32>).collect::<Result<Vec<_>, _>>();
        match numbers.as_deref() {
            Ok([1] | [1, _]) => RequestedVersion::First,
            Ok([2, minor]) if *minor > 0 && self.has(F::MinorSelects) => RequestedVersion::Other,
            Ok([2] | [2, _]) => RequestedVersion::Second,
            Ok([_] | [_, _]) if self.has(F::AnyVersionServed) => RequestedVersion::Second,
            Ok([_] | [_, _]) => RequestedVersion::Other,
            _ if self.has(F::MalformedIgnored) => RequestedVersion::None,
            _ => RequestedVersion::Malformed,
        }
    }

    /// Answers below `/v1`.
    fn first(&self, req: &HttpRequest) -> Reply {
        if self.named(req) == RequestedVersion::Second && !self.has(F::MismatchServed) {
            return self.error(400, "protocol_version_mismatch", "this path is of version 1");
        }
        match (self.principal(req, false), req.path.as_str()) {
            (_, "/v1/openapi.json") => Reply::json(200, &json!({ "openapi": "3.1.0" })),
            (Err(refusal), _) => refusal,
            (Ok(_), "/v1/tools") => Reply::json(200, &json!([])),
            (Ok(_), _) => self.error(404, "not_found", "not found"),
        }
    }

    /// Answers at paths without a version.
    fn second(&self, req: &HttpRequest) -> Reply {
        let named = self.named(req);
        let is_other = (self.has(F::ToolsNeedHeader) && req.path == "/tools")
            || (self.has(F::RunsNeedHeader) && req.path.starts_with("/runs"));
        if named == RequestedVersion::None && is_other {
            return Reply::json(200, &json!({ "other": [] })).with("x-other-protocol", "1");
        }
        let is_public = matches!(req.path.as_str(), "/.well-known/openwop" | "/openapi.json");
        let is_open = self.has(F::CatalogPublic) && req.path == "/tools";
        let principal = self.principal(req, is_open);
        if let (Err(refusal), true, false) = (&principal, self.has(F::KeyFirst), is_public) {
            return refusal.clone();
        }
        match named {
            RequestedVersion::Malformed => {
                return self.error(400, "validation_error", "the header names no version");
            }
            RequestedVersion::Other => {
                let details = json!({ "protocolVersions": ["1.0", "2.0"] });
                let message = "this version is not listed";
                return self.detailed(406, "protocol_version_unsupported", message, &details);
            }
            RequestedVersion::None | RequestedVersion::First | RequestedVersion::Second => {}
        }
        if self.has(F::OldClientRefused) && req.header("openwop-client-version").is_some() {
            return self.error(426, "client_version_unsupported", "the client is too old");
        }
        if req.path == "/.well-known/openwop" {
            return self.discovery(req, named);
        }
        if req.path == "/openapi.json" && !self.has(F::DescriptionMissing) {
            return Reply::json(200, &json!({ "openapi": "3.1.0" }));
        }
        match principal {
            Ok(principal) => self.route(req, principal),
            Err(refusal) => refusal,
        }
    }

    fn discovery(&self, req: &HttpRequest, named: RequestedVersion) -> Reply {
        if self.has(F::DiscoveryLocked) && req.bearer() != Some(KEY) {
            return self.error(401, "unauthenticated", "a key is required");
        }
        // Only bursts are limited.
        if self.has(F::DelayInDetails) && self.replies.fetch_add(1, Ordering::Relaxed) > 4 {
            let details = json!({ "retryAfterMs": 2000 });
            let reply = self.detailed(429, "rate_limited", "too many requests", &details);
            return reply.with("retry-after", "2");
        }
        let is_first = matches!(named, RequestedVersion::None | RequestedVersion::First)
            && !self.has(F::OneForm);
        let document = if is_first { self.first_document() } else { self.document(req) };
        let mut reply = Reply::json(200, &document);
        if !self.has(F::NoCacheControl) {
            reply.set("cache-control", "public, max-age=300");
        }
        let tag = match self.has(F::SharedEtag) {
            true => "\"discovery\"".to_owned(),
            false => tag_of(&reply),
        };
        let version = if is_first { "1.0" } else { "2.0" };
        conditional(req, reply, tag, self.has(F::DiscoveryNever304))
            .with("openwop-version", version)
    }

    fn first_document(&self) -> Value {
        let versions =
            if self.has(F::FormsDisagree) { json!(["1.0"]) } else { json!(["1.0", "2.0"]) };
        let preferred = if self.has(F::PrefersSecond) { "2.0" } else { "1.0" };
        json!({
            "protocolVersion": "1.0", "protocolVersions": versions, "preferredVersion": preferred,
            "toolCatalog": { "supported": true },
        })
    }

    fn document(&self, req: &HttpRequest) -> Value {
        let record = json!({
            "status": "experimental", "since": "2.0", "until": "2.1",
            "witness": "witnessable-gated",
        });
        let (mut catalog, mut hooks) = (record.clone(), record.clone());
        catalog["sources"] = json!(["mcp", "host-extension"]);
        catalog["compactView"] = json!(true);
        hooks["prePostEvents"] = json!(true);
        let mut document = json!({
            "protocolVersion": "1.0", "protocolVersions": ["1.0", "2.0"],
            "preferredVersion": "1.0", "implementation": { "name": "broken" },
            "toolCatalog": catalog, "toolHooks": hooks,
        });
        match self.fault {
            Some(F::PrefersSecond) => document["preferredVersion"] = json!("2.0"),
            Some(F::RootOpen) => document["supportedTransports"] = json!(["rest"]),
            Some(F::ImplementationOpen) => document["implementation"]["commit"] = json!("a"),
            Some(F::RecordSupported) => document["toolHooks"]["supported"] = json!(true),
            Some(F::CatalogStable) => {
                document["toolCatalog"]["status"] = json!("stable");
                members(&mut document["toolCatalog"]).remove("until");
            }
            Some(F::FacetText) => document["toolHooks"]["prePostEvents"] = json!("yes"),
            Some(F::McpWithoutRevisions) => document["mcp"] = record,
            Some(F::DiscoveryPersonal) if req.bearer() == Some(KEY) => {
                document["extensions"] = json!({ "you": "first" });
            }
            Some(F::DiscoveryNamesTools) => document["fixtures"] = json!(["mcp:crib.echo"]),
            Some(F::UnadvertisedSource) => document["toolCatalog"]["sources"] = json!(["mcp"]),
            _ => {}
        }
        document
    }

    fn route(&self, req: &HttpRequest, principal: Principal) -> Reply {
        let is_read = req.method == Method::GET
            || (req.method == Method::HEAD && !(self.has(F::NoHead) && req.path == "/tools"));
        match req.path.as_str() {
            "/tools" if self.has(F::Writable) && req.method == Method::POST => {
                Reply::json(201, &json!({}))
            }
            "/tools" if is_read => self.list(req, principal),
            "/runs" if is_read => self.runs(req),
            path => match (path.strip_prefix("/tools/"), path.strip_prefix("/runs/")) {
                (Some(id), _) if is_read => self.tool(req, principal, id),
                (_, Some(rest)) => self.run(req, rest),
                _ => self.framework_error(self.not_found("")),
            },
        }
    }

    fn list(&self, req: &HttpRequest, principal: Principal) -> Reply {
        if self.has(F::BodyRefused) && !req.body.is_empty() {
            return self.error(400, "validation_error", "unexpected body");
        }
        self.list_of(req, self.tools(principal))
    }

    fn runs(&self, req: &HttpRequest) -> Reply {
        let start = req.parameter("cursor").filter(|_| !self.has(F::CursorIgnored));
        let start = start.map_or(0, |cursor| cursor.parse::<usize>().unwrap());
        let limit = req.parameter("limit").map_or(100, |limit| limit.parse::<usize>().unwrap());
        let page: Vec<Value> = RUN_IDS.iter().skip(start).take(limit).map(|id| run(id)).collect();
        let end = start + page.len();
        let mut list = json!({ "runs": page });
        if end < RUN_IDS.len() {
            list["nextCursor"] = json!(end.to_string());
        }
        if self.has(F::RunListOpen) {
            list["total"] = json!(RUN_IDS.len());
        }
        Reply::json(200, &list)
    }

    fn run(&self, req: &HttpRequest, rest: &str) -> Reply {
        let (segment, action) = rest.split_once('/').unwrap_or((rest, ""));
        let mut id = percent_decode_str(segment).decode_utf8_lossy().into_owned();
        if !self.has(F::RunEscapesUnread) {
            id = id.replace("~2F", "/");
        }
        let own = id.strip_prefix(TENANT).and_then(|rest| rest.strip_prefix('/'));
        let known = own.filter(|own| RUN_IDS.contains(own));
        match (known, action, req.method.as_str()) {
            (None, "events", _) if self.has(F::UnknownRunIsEmpty) => {
                Reply::json(200, &json!("")).with("content-type", "text/event-stream")
            }
            (Some(own), "", "GET") => Reply::json(200, &run(own)),
            (Some(own), "events", "GET") => self.events(req, own),
            (Some(own), "cancel", "POST") => match self.has(F::EndedIsCancelled) {
                true => {
                    let id = format!("{TENANT}/{own}");
                    Reply::json(200, &json!({ "runId": id, "status": "cancelling" }))
                }
                false => self.error(409, "run_terminal", "the run is already finished"),
            },
            _ => self.not_found(&id),
        }
    }

    fn events(&self, req: &HttpRequest, own: &str) -> Reply {
        let mode = req.parameter("streamMode").unwrap_or("updates");
        if !matches!(mode, "updates" | "debug") && !self.has(F::ModeIgnored) {
            return self.error(400, "unsupported_stream_mode", "unknown mode");
        }
        let after = req.header("last-event-id").filter(|_| !self.has(F::ResumeIgnored));
        let next = after.map_or(0, |after| after.parse::<usize>().unwrap() + 1);
        let names = match self.has(F::NamesOfFirst) {
            true => ["agent.toolCalled", "agent.toolReturned"],
            false => ["agent.tool-called", "agent.tool-returned"],
        };
        let frames = names.iter().enumerate().skip(next).map(|(at, name)| {
            let mut event = json!({
                "eventId": format!("event-0000-0000-{at}"), "runId": format!("{TENANT}/{own}"),
                "type": name, "timestamp": "2026-01-01T00:00:00.000Z", "sequence": at,
                "schemaVersion": 1,
                "payload": { "agentId": "core.system", "toolName": "crib.echo", "callId": "c1" },
            });
            match self.fault {
                Some(F::EventOpen) => event["position"] = json!(at),
                Some(F::ArgumentsShown) => event["payload"]["inputs"] = json!({}),
                _ => {}
            }
            format!("id: {at}\nevent: {name}\ndata: {event}\n\n")
        });
        let media_type = if self.has(F::StreamOfText) { "text/plain" } else { "text/event-stream" };
        Reply { status: 200, headers: Vec::new(), body: frames.collect::<String>().into_bytes() }
            .with("content-type", media_type)
    }

    fn detailed(&self, status: u16, code: &str, message: &str, details: &Value) -> Reply {
        let mut body = json!({ "error": code, "message": message });
        if !details.is_null() {
            body["details"] = details.clone();
        }
        if self.has(F::ErrorsOpen) {
            body["status"] = json!(status);
        }
        Reply::json(status, &body)
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
        let hints = |read_only: bool, idempotent: bool, open: bool| {
            json!({
                "readOnlyHint": read_only, "destructiveHint": !read_only,
                "idempotentHint": idempotent, "openWorldHint": open,
            })
        };
        let mut tools = vec![
            json!({
                "toolId": "mcp:crib.echo", "source": "mcp", "title": "Echo",
                "description": "Returns its input", "safetyTier": "read", "egress": "none",
                "replayPolicy": "idempotent", "auth": { "scopes": ["tools:crib"] },
                "annotations": hints(true, true, false),
                "inputSchema": {
                    "type": "object", "required": ["text"],
                    "properties": { "text": { "anyOf": [{ "type": "string" }, { "type": "null" }] } },
                },
            }),
            json!({
                "toolId": "mcp:crib.hidden", "source": "mcp", "safetyTier": "write",
                "annotations": hints(false, false, true),
            }),
            json!({
                "toolId": "x-host-acme-shell", "source": "host-extension", "safetyTier": "exec",
                "approval": "always", "annotations": hints(false, false, true),
            }),
        ];
        match self.fault {
            Some(F::DescriptorOpen) => tools[0]["annotations"]["title"] = json!("Echo"),
            Some(F::HintsOfServer) => tools[1]["annotations"]["readOnlyHint"] = json!(true),
            _ => {}
        }
        tools
    }

    fn compact(&self, tool: &Value) -> Value {
        let mut compact = tool.clone();
        for dropped in ["annotations", "auth", "egress", "approval", "replayPolicy"] {
            members(&mut compact).remove(dropped);
        }
        if let Some(schema) = compact.get_mut("inputSchema") {
            if !self.has(F::CompactKeepsAnyOf) {
                schema["properties"]["text"] = json!({ "type": ["string", "null"] });
            }
            if !self.has(F::CompactSchemaOpen) {
                members(schema).remove("required");
            }
        }
        compact
    }

    fn error(&self, status: u16, code: &str, message: &str) -> Reply {
        self.detailed(status, code, message, &Value::Null)
    }
}

/// The snapshot of a completed run.
fn run(id: &str) -> Value {
    let subject = json!({
        "issuer": "broken-host", "subjectId": "first", "tenant": TENANT, "lane": "api-key",
        "kind": "user",
    });
    json!({
        "runId": format!("{TENANT}/{id}"), "workflowId": "crib.flow", "status": "completed",
        "owner": { "tenant": TENANT, "subject": subject }, "eventLogSchemaVersion": 3,
        "startedAt": "2026-01-01T00:00:00.000Z", "completedAt": "2026-01-01T00:00:01.000Z",
    })
}
