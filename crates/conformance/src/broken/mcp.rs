//! A small MCP server over streamable HTTP, with a switch per fault.

mod faults;
mod tools;

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use base64::Engine as _;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::host::{HttpRequest, KEY, Principal, Reply, SECOND_KEY};

pub use faults::McpFault;
use faults::McpFault as F;

/// The revisions that a host supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpEras {
    /// The stateless one and those with a handshake.
    Both,
    /// Only the stateless one.
    Stateless,
    /// Only those with a handshake.
    Handshake,
}

#[derive(Debug)]
pub(super) struct Host {
    eras: McpEras,
    fault: Option<F>,
    /// Replies so far, for faults that depend on repetition and for session ids.
    replies: AtomicUsize,
    /// The owner of each session.
    sessions: Mutex<HashMap<String, Principal>>,
}

struct Rpc {
    id: Value,
    method: String,
    params: Map<String, Value>,
}

/// An error: status, code and data.
type Error = (u16, i64, Value);

const STATELESS: &str = "2026-07-28";
const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const METADATA: &str = "/.well-known/oauth-protected-resource";

impl super::host::Host for Host {
    fn answer(&self, req: &HttpRequest) -> Reply {
        let host = req.header("host").unwrap_or_default();
        if !host.starts_with("127.0.0.1") && !self.has(F::HostIgnored) {
            return error(&Value::Null, (421, -32600, Value::Null));
        }
        match req.path.as_str() {
            "/" | "/mcp" => {}
            METADATA => return self.metadata(host),
            _ => return Reply::json(404, &json!({ "message": "not found" })),
        }
        let origin = req.header("origin").unwrap_or("http://127.0.0.1");
        if !origin.starts_with("http://127.0.0.1") && !self.has(F::OriginIgnored) {
            return error(&Value::Null, (403, -32600, Value::Null));
        }
        let principal = match self.principal(req) {
            Ok(principal) => principal,
            Err(status) => return self.unauthorized(host, status),
        };
        match req.method {
            Method::POST => self.post(req, principal),
            Method::GET => self.get(req, principal),
            Method::DELETE => self.delete(req, principal),
            _ => error(&Value::Null, (405, -32600, Value::Null)).with("allow", "GET,POST,DELETE"),
        }
    }
}

impl Host {
    pub(super) fn new(eras: McpEras, fault: Option<F>) -> Self {
        Self { eras, fault, replies: AtomicUsize::new(0), sessions: Mutex::default() }
    }

    fn has(&self, fault: F) -> bool {
        self.fault == Some(fault)
    }

    fn principal(&self, req: &HttpRequest) -> Result<Principal, u16> {
        let session = req.header("mcp-session-id").unwrap_or_default();
        match req.bearer() {
            Some(KEY) => Ok(Principal::First),
            Some(SECOND_KEY) => Ok(Principal::Second),
            Some(_) if self.has(F::UnknownKeyForbidden) => Err(403),
            Some(_) => Err(401),
            None if self.has(F::SessionIsCredential) => {
                self.sessions.lock().get(session).copied().ok_or(401)
            }
            None if self.has(F::AnonymousForbidden) => Err(403),
            None => Err(401),
        }
    }

    fn unauthorized(&self, host: &str, status: u16) -> Reply {
        let reply = error(&Value::Null, (status, -31401, Value::Null));
        match self.has(F::NoChallenge) {
            true => reply,
            false => {
                let scope = match self.has(F::ChallengeWithoutScope) {
                    true => "",
                    false => ", scope=\"mcp\"",
                };
                let challenge =
                    format!("Bearer resource_metadata=\"http://{host}{METADATA}\"{scope}");
                reply.with("www-authenticate", challenge)
            }
        }
    }

    fn metadata(&self, host: &str) -> Reply {
        let servers: &[&str] =
            if self.has(F::MetadataWithoutServers) { &[] } else { &["https://login.example"] };
        let path = if self.has(F::MetadataOfAnother) { "/other" } else { "" };
        let resource = format!("http://{host}{path}");
        let scopes = ["mcp"];
        Reply::json(
            200,
            &json!({ "resource": resource, "authorization_servers": servers,
                "scopes_supported": scopes }),
        )
    }

    fn get(&self, req: &HttpRequest, principal: Principal) -> Reply {
        if self.has(F::GetIsJson) {
            return Reply::json(200, &json!({}));
        }
        if self.eras == McpEras::Stateless {
            return error(&Value::Null, (405, -32600, Value::Null)).with("allow", "POST");
        }
        match self.session(req, principal) {
            Ok(()) => stream(": hello\n\n".to_owned()),
            Err(refusal) => error(&Value::Null, refusal),
        }
    }

    fn delete(&self, req: &HttpRequest, principal: Principal) -> Reply {
        if self.eras == McpEras::Stateless {
            return error(&Value::Null, (405, -32600, Value::Null)).with("allow", "POST");
        }
        if let Err(refusal) = self.session(req, principal) {
            return error(&Value::Null, refusal);
        }
        if !self.has(F::DeleteForgotten) {
            self.sessions.lock().remove(req.header("mcp-session-id").unwrap_or_default());
        }
        Reply { status: 204, headers: Vec::new(), body: Vec::new() }
    }

    fn post(&self, req: &HttpRequest, principal: Principal) -> Reply {
        let kind = req.header("content-type").unwrap_or_default();
        if kind != "application/json" && !self.has(F::ContentTypeIgnored) {
            return error(&Value::Null, (415, -32600, Value::Null));
        }
        let accept = req.header("accept").unwrap_or_default();
        let reads = accept.contains("application/json") || accept.contains("text/event-stream");
        if !reads && !self.has(F::AcceptIgnored) {
            return error(&Value::Null, (406, -32600, Value::Null));
        }
        if !accept.contains("text/event-stream") && self.has(F::EventsRequired) {
            return error(&Value::Null, (400, -32600, Value::Null));
        }
        let Some(body) = req.json() else {
            let status = if self.has(F::NotJsonServerError) { 500 } else { 400 };
            return error(&Value::Null, (status, -32700, Value::Null));
        };
        if body.is_array() && self.has(F::BatchAnswered) {
            return Reply::json(200, &json!([]));
        }
        let Some(mut rpc) = parse(&body) else {
            let code = if self.has(F::NotRequestParseError) { -32700 } else { -32600 };
            return error(&Value::Null, (400, code, Value::Null));
        };
        if rpc.id.is_null() {
            return match self.has(F::NotificationAnswered) {
                true => Reply::json(200, &json!({})),
                false => Reply { status: 202, headers: Vec::new(), body: Vec::new() },
            };
        }
        if self.has(F::IdIsText) {
            rpc.id = json!(rpc.id.as_str().map_or_else(|| rpc.id.to_string(), str::to_owned));
        }
        let mut reply = self.request(req, principal, &rpc);
        if self.has(F::AnswerIsPlain) {
            reply.set("content-type", "text/plain");
        }
        reply
    }

    fn request(&self, req: &HttpRequest, principal: Principal, rpc: &Rpc) -> Reply {
        let meta = rpc.params.get("_meta").unwrap_or(&Value::Null);
        let version = meta.get("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
        let is_stateless = version.is_some()
            || rpc.method == "server/discover"
            || req.header("mcp-protocol-version") == Some(STATELESS);
        match (is_stateless, self.eras) {
            (true, McpEras::Both | McpEras::Stateless) | (false, McpEras::Stateless) => {
                match self.check(req, rpc, meta, version).and_then(|()| self.stateless(rpc)) {
                    Ok(reply) => reply,
                    Err(refusal) => error(&rpc.id, refusal),
                }
            }
            _ => self.handshake(req, principal, rpc),
        }
    }

    /// Validates the headers and `_meta` of a request of the stateless revision.
    fn check(
        &self,
        req: &HttpRequest,
        rpc: &Rpc,
        meta: &Value,
        version: Option<&str>,
    ) -> Result<(), Error> {
        let mismatch = Err((400, -32020, Value::Null));
        let invalid = Err((400, -32602, Value::Null));
        let Some(version) = version else {
            return if self.has(F::MetaVersionOptional) { Ok(()) } else { invalid };
        };
        match req.header("mcp-protocol-version") {
            Some(value) if value == version => {}
            Some(_) if self.has(F::VersionMismatchMiscoded) => {
                return Err((400, -32600, Value::Null));
            }
            None if self.has(F::VersionHeaderOptional) => {}
            _ => return mismatch,
        }
        if version != STATELESS && !self.has(F::UnknownVersionServed) {
            let data = match self.has(F::SupportedMissing) {
                true => Value::Null,
                false => json!({ "supported": self.versions(), "requested": version }),
            };
            return Err((400, -32022, data));
        }
        let lacks = |key: &str| meta.get(format!("io.modelcontextprotocol/{key}")).is_none();
        if lacks("clientCapabilities") && !self.has(F::MetaCapabilitiesOptional)
            || lacks("clientInfo") && self.has(F::ClientInfoNeeded)
        {
            return invalid;
        }
        match req.header("mcp-method") {
            Some(value) if value == rpc.method || self.has(F::MethodHeaderIgnored) => {}
            None if self.has(F::MethodHeaderOptional) => {}
            _ => return mismatch,
        }
        let name = rpc.params.get("name").and_then(Value::as_str);
        if let (Some(name), "tools/call") = (name, rpc.method.as_str()) {
            match req.header("mcp-name") {
                Some(value) if self.decoded(value) == name || self.has(F::NameHeaderIgnored) => {}
                None if self.has(F::NameHeaderOptional) => {}
                _ => return mismatch,
            }
        }
        match req.header("mcp-session-id").is_some() && self.has(F::StraySession) {
            true => Err((404, -32600, Value::Null)),
            false => Ok(()),
        }
    }

    fn decoded(&self, value: &str) -> String {
        let coded = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
        match coded {
            Some(coded) if !self.has(F::NameNotDecoded) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(coded).unwrap();
                String::from_utf8(bytes).unwrap()
            }
            _ => value.to_owned(),
        }
    }

    fn stateless(&self, rpc: &Rpc) -> Result<Reply, Error> {
        let number = self.replies.fetch_add(1, Ordering::Relaxed);
        let mut result = match rpc.method.as_str() {
            "server/discover" if !self.has(F::NoDiscovery) => self.discovery(),
            "tools/list" => {
                let mut result = self.list(&rpc.params, number)?;
                if !self.has(F::ListUncached) {
                    result["ttlMs"] = json!(0);
                    result["cacheScope"] = json!("private");
                }
                result
            }
            "tools/call" => self.call(&rpc.params, true)?,
            "subscriptions/listen" => return Ok(self.subscribe(rpc)),
            "ping" if self.has(F::PingRemains) => json!({}),
            "prompts/list" if self.has(F::PromptsUndeclared) => json!({ "prompts": [] }),
            _ => return Err(self.no_method(404)),
        };
        if result.get("resultType").is_none() && !self.is_faulty_list(rpc, F::NoResultType) {
            result["resultType"] = json!("complete");
        }
        let is_anonymous = match rpc.method.as_str() {
            "server/discover" => self.has(F::DiscoveryAnonymous),
            _ => self.is_faulty_list(rpc, F::ListAnonymous),
        };
        if !is_anonymous {
            let server = json!({ "name": "broken", "version": "1.0.0" });
            result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": server });
        }
        Ok(result_reply(rpc, &result))
    }

    /// Whether the reply is a list and the host has `fault`.
    fn is_faulty_list(&self, rpc: &Rpc, fault: F) -> bool {
        rpc.method == "tools/list" && self.has(fault)
    }

    fn discovery(&self) -> Value {
        let mut result = json!({
            "supportedVersions": self.versions(),
            "capabilities": self.capabilities(),
        });
        match self.fault {
            Some(F::DiscoveryShape) => result["supportedVersions"] = json!(STATELESS),
            Some(F::OwnVersionMissing) => result["supportedVersions"] = json!([HANDSHAKE[0]]),
            _ => {}
        }
        if !self.has(F::DiscoveryUncached) {
            result["ttlMs"] = json!(1000);
            result["cacheScope"] = json!("public");
        }
        result
    }

    fn versions(&self) -> Vec<&'static str> {
        let older: &[&str] = if self.eras == McpEras::Both { &HANDSHAKE } else { &[] };
        [&[STATELESS], older].concat()
    }

    fn capabilities(&self) -> Value {
        match self.has(F::ToolsUndeclared) {
            true => json!({}),
            false => json!({ "tools": { "listChanged": true } }),
        }
    }

    fn subscribe(&self, rpc: &Rpc) -> Reply {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": rpc.id });
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": { "notifications": { "toolsListChanged": true }, "_meta": meta },
        });
        let change = json!({
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": { "_meta": meta },
        });
        let first = if self.has(F::NotAcknowledged) { change } else { acknowledged };
        stream(format!("data: {first}\n\n"))
    }

    fn no_method(&self, status: u16) -> Error {
        match self.fault {
            Some(F::UnknownMethodInvalid) => (status, -32600, Value::Null),
            Some(F::UnknownMethodOk) => (200, -32601, Value::Null),
            _ => (status, -32601, Value::Null),
        }
    }

    fn handshake(&self, req: &HttpRequest, principal: Principal, rpc: &Rpc) -> Reply {
        if rpc.method == "initialize" && self.eras != McpEras::Stateless {
            return self.initialize(principal, rpc);
        }
        let result = self.session(req, principal).and_then(|()| {
            let version = req.header("mcp-protocol-version");
            let is_known = match version {
                Some(version) => HANDSHAKE.contains(&version) || self.has(F::SessionVersionIgnored),
                None => !self.has(F::SessionVersionNeeded),
            };
            if !is_known {
                return Err((400, -32600, Value::Null));
            }
            match rpc.method.as_str() {
                "ping" if self.has(F::PingHasResult) => Ok(json!({ "pong": true })),
                "ping" => Ok(json!({})),
                "tools/list" => {
                    self.list(&rpc.params, self.replies.fetch_add(1, Ordering::Relaxed))
                }
                "tools/call" => self.call(&rpc.params, false),
                "prompts/list" if self.has(F::PromptsUndeclared) => Ok(json!({ "prompts": [] })),
                _ => Err(self.no_method(200)),
            }
        });
        match result {
            Ok(result) => result_reply(rpc, &result),
            Err(refusal) => error(&rpc.id, refusal),
        }
    }

    fn initialize(&self, principal: Principal, rpc: &Rpc) -> Reply {
        let requested =
            rpc.params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let version = match self.fault {
            Some(F::VersionFixed) => "2025-06-18",
            Some(F::UnknownVersionEchoed) => requested,
            _ if HANDSHAKE.contains(&requested) => requested,
            _ => HANDSHAKE[0],
        };
        let mut result = json!({
            "protocolVersion": version,
            "capabilities": self.capabilities(),
        });
        if !self.has(F::InitializeBare) {
            result["serverInfo"] = json!({ "name": "broken", "version": "1.0.0" });
        }
        let number = self.replies.fetch_add(1, Ordering::Relaxed);
        let id = match self.fault {
            Some(F::SessionWithBlank) => format!("session {number}"),
            Some(F::SessionShared) => "session".to_owned(),
            _ => format!("session-{number}"),
        };
        self.sessions.lock().insert(id.clone(), principal);
        result_reply(rpc, &result).with("mcp-session-id", id)
    }

    /// Fails unless the request is in a session of `principal`.
    fn session(&self, req: &HttpRequest, principal: Principal) -> Result<(), Error> {
        let Some(id) = req.header("mcp-session-id") else {
            let status = if self.has(F::NoSessionServerError) { 500 } else { 400 };
            return Err((status, -32600, Value::Null));
        };
        let owner = self.sessions.lock().get(id).copied();
        match owner {
            Some(owner) if owner == principal || self.has(F::SessionForAll) => Ok(()),
            _ if self.has(F::UnknownSessionBadRequest) => Err((400, -32600, Value::Null)),
            _ => Err((404, -32600, Value::Null)),
        }
    }
}

/// Parses a request or a notification.
fn parse(body: &Value) -> Option<Rpc> {
    let id = body.get("id").cloned().unwrap_or_default();
    let is_valid = body.get("jsonrpc")? == "2.0" && (body.get("id").is_none() || !id.is_null());
    let method = body.get("method")?.as_str().filter(|_| is_valid)?.to_owned();
    let params = body.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    Some(Rpc { id, method, params })
}

/// Builds the result of a call as an event stream, and any other result as JSON.
fn result_reply(rpc: &Rpc, result: &Value) -> Reply {
    let message = json!({ "jsonrpc": "2.0", "id": rpc.id, "result": result });
    match rpc.method.as_str() {
        "tools/call" => stream(format!("id: 0\ndata:\n\nevent: message\ndata: {message}\n\n")),
        _ => Reply::json(200, &message),
    }
}

fn error(id: &Value, (status, code, data): Error) -> Reply {
    let mut message = json!({ "jsonrpc": "2.0", "error": { "code": code, "message": "no" } });
    if !id.is_null() {
        message["id"] = id.clone();
    }
    if !data.is_null() {
        message["error"]["data"] = data;
    }
    Reply::json(status, &message)
}

fn stream(body: String) -> Reply {
    let headers = vec![("content-type", "text/event-stream".to_owned())];
    Reply { status: 200, headers, body: body.into_bytes() }
}
