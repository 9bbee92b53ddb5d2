//! A small MCP server over streamable HTTP, with a switch per fault.

mod faults;
mod tools;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use base64::Engine as _;
use http::Method;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use super::{Asked, KEY, Reply, SECOND_KEY};

pub use faults::McpFault;
use faults::McpFault as F;

/// Which revisions a host speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpEras {
    /// The stateless one, and those with a handshake.
    Both,
    /// The stateless one alone.
    Stateless,
    /// Those with a handshake alone.
    Handshake,
}

/// The host.
#[derive(Debug, Clone)]
pub(super) struct Host {
    eras: McpEras,
    fault: Option<F>,
    /// Answers so far, for faults that only show after a while, and for names of sessions.
    answers: Arc<AtomicUsize>,
    /// Whose they are.
    sessions: Arc<Mutex<HashMap<String, Who>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Who {
    First,
    Second,
}

/// A request that has been read.
struct Rpc {
    id: Value,
    method: String,
    params: Map<String, Value>,
}

/// A refusal: status, code, data.
type Refused = (u16, i64, Value);

const STATELESS: &str = "2026-07-28";
const HANDSHAKE: [&str; 3] = ["2025-11-25", "2025-06-18", "2025-03-26"];
const METADATA: &str = "/.well-known/oauth-protected-resource";

impl Host {
    pub(super) fn new(eras: McpEras, fault: Option<F>) -> Self {
        Self { eras, fault, answers: Arc::default(), sessions: Arc::default() }
    }

    fn has(&self, fault: F) -> bool {
        self.fault == Some(fault)
    }

    pub(super) fn answer(&self, asked: &Asked) -> Reply {
        let host = asked.header("host").unwrap_or_default();
        if !host.starts_with("127.0.0.1") && !self.has(F::HostIgnored) {
            return error(&Value::Null, (421, -32600, Value::Null));
        }
        match asked.path.as_str() {
            "/" | "/mcp" => {}
            METADATA => return self.metadata(host),
            _ => return Reply::json(404, &json!({ "message": "nothing is here" })),
        }
        let origin = asked.header("origin").unwrap_or("http://127.0.0.1");
        if !origin.starts_with("http://127.0.0.1") && !self.has(F::OriginIgnored) {
            return error(&Value::Null, (403, -32600, Value::Null));
        }
        let who = match self.who(asked) {
            Ok(who) => who,
            Err(status) => return self.stranger(host, status),
        };
        match asked.method {
            Method::POST => self.post(asked, who),
            Method::GET => self.get(asked, who),
            Method::DELETE => self.delete(asked, who),
            _ => error(&Value::Null, (405, -32600, Value::Null)).with("allow", "GET,POST,DELETE"),
        }
    }

    fn who(&self, asked: &Asked) -> Result<Who, u16> {
        let session = asked.header("mcp-session-id").unwrap_or_default();
        match asked.bearer() {
            Some(KEY) => Ok(Who::First),
            Some(SECOND_KEY) => Ok(Who::Second),
            Some(_) if self.has(F::UnknownKeyForbidden) => Err(403),
            Some(_) => Err(401),
            None if self.has(F::SessionIsCredential) => {
                self.sessions.lock().get(session).copied().ok_or(401)
            }
            None if self.has(F::NobodyForbidden) => Err(403),
            None => Err(401),
        }
    }

    fn stranger(&self, host: &str, status: u16) -> Reply {
        let reply = error(&Value::Null, (status, -31401, Value::Null));
        match self.has(F::NoChallenge) {
            true => reply,
            false => {
                let said = format!("Bearer resource_metadata=\"http://{host}{METADATA}\"");
                reply.with("www-authenticate", said)
            }
        }
    }

    fn metadata(&self, host: &str) -> Reply {
        let servers: &[&str] =
            if self.has(F::MetadataWithoutServers) { &[] } else { &["https://login.example"] };
        let resource = format!("http://{host}/mcp");
        Reply::json(200, &json!({ "resource": resource, "authorization_servers": servers }))
    }

    fn get(&self, asked: &Asked, who: Who) -> Reply {
        if self.has(F::GetIsJson) {
            return Reply::json(200, &json!({}));
        }
        if self.eras == McpEras::Stateless {
            return error(&Value::Null, (405, -32600, Value::Null)).with("allow", "POST");
        }
        match self.session(asked, who) {
            Ok(()) => stream(": hello\n\n".to_owned()),
            Err(refused) => error(&Value::Null, refused),
        }
    }

    fn delete(&self, asked: &Asked, who: Who) -> Reply {
        if self.eras == McpEras::Stateless {
            return error(&Value::Null, (405, -32600, Value::Null)).with("allow", "POST");
        }
        if let Err(refused) = self.session(asked, who) {
            return error(&Value::Null, refused);
        }
        if !self.has(F::DeleteForgotten) {
            self.sessions.lock().remove(asked.header("mcp-session-id").unwrap_or_default());
        }
        Reply { status: 204, headers: Vec::new(), body: Vec::new() }
    }

    fn post(&self, asked: &Asked, who: Who) -> Reply {
        let kind = asked.header("content-type").unwrap_or_default();
        if kind != "application/json" && !self.has(F::ContentTypeIgnored) {
            return error(&Value::Null, (415, -32600, Value::Null));
        }
        let accept = asked.header("accept").unwrap_or_default();
        let reads = accept.contains("application/json") || accept.contains("text/event-stream");
        if !reads && !self.has(F::AcceptIgnored) {
            return error(&Value::Null, (406, -32600, Value::Null));
        }
        let Some(body) = asked.json() else {
            let status = if self.has(F::NotJsonServerError) { 500 } else { 400 };
            return error(&Value::Null, (status, -32700, Value::Null));
        };
        if body.is_array() && self.has(F::BatchAnswered) {
            return Reply::json(200, &json!([]));
        }
        let Some(mut rpc) = read(&body) else {
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
        let mut reply = self.request(asked, who, &rpc);
        if self.has(F::AnswerIsPlain) {
            reply.set("content-type", "text/plain");
        }
        reply
    }

    fn request(&self, asked: &Asked, who: Who, rpc: &Rpc) -> Reply {
        let meta = rpc.params.get("_meta").unwrap_or(&Value::Null);
        let version = meta.get("io.modelcontextprotocol/protocolVersion").and_then(Value::as_str);
        let is_stateless = version.is_some()
            || rpc.method == "server/discover"
            || asked.header("mcp-protocol-version") == Some(STATELESS);
        match (is_stateless, self.eras) {
            (true, McpEras::Both | McpEras::Stateless) | (false, McpEras::Stateless) => {
                match self.check(asked, rpc, meta, version).and_then(|()| self.stateless(rpc)) {
                    Ok(reply) => reply,
                    Err(refused) => error(&rpc.id, refused),
                }
            }
            _ => self.handshake(asked, who, rpc),
        }
    }

    /// Whether a request of the stateless revision says everything that it must.
    fn check(
        &self,
        asked: &Asked,
        rpc: &Rpc,
        meta: &Value,
        version: Option<&str>,
    ) -> Result<(), Refused> {
        let mismatch = Err((400, -32020, Value::Null));
        let invalid = Err((400, -32602, Value::Null));
        let Some(version) = version else {
            return if self.has(F::MetaVersionOptional) { Ok(()) } else { invalid };
        };
        match asked.header("mcp-protocol-version") {
            Some(said) if said == version || self.has(F::VersionHeaderIgnored) => {}
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
        match asked.header("mcp-method") {
            Some(said) if said == rpc.method || self.has(F::MethodHeaderIgnored) => {}
            None if self.has(F::MethodHeaderOptional) => {}
            _ => return mismatch,
        }
        let name = rpc.params.get("name").and_then(Value::as_str);
        if let (Some(name), "tools/call") = (name, rpc.method.as_str()) {
            match asked.header("mcp-name") {
                Some(said) if self.decoded(said) == name || self.has(F::NameHeaderIgnored) => {}
                None if self.has(F::NameHeaderOptional) => {}
                _ => return mismatch,
            }
        }
        match asked.header("mcp-session-id").is_some() && self.has(F::StraySession) {
            true => Err((404, -32600, Value::Null)),
            false => Ok(()),
        }
    }

    fn decoded(&self, said: &str) -> String {
        let coded = said.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="));
        match coded {
            Some(coded) if !self.has(F::NameNotDecoded) => {
                let bytes = base64::engine::general_purpose::STANDARD.decode(coded).unwrap();
                String::from_utf8(bytes).unwrap()
            }
            _ => said.to_owned(),
        }
    }

    fn stateless(&self, rpc: &Rpc) -> Result<Reply, Refused> {
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
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
            "subscriptions/listen" => return Ok(self.listen(rpc)),
            "ping" if self.has(F::PingRemains) => json!({}),
            "prompts/list" if self.has(F::PromptsUndeclared) => json!({ "prompts": [] }),
            _ => return Err(self.no_method(404)),
        };
        if result.get("resultType").is_none() && !self.silent(rpc, F::NoResultType) {
            result["resultType"] = json!("complete");
        }
        let is_anonymous = match rpc.method.as_str() {
            "server/discover" => self.has(F::DiscoveryAnonymous),
            _ => self.silent(rpc, F::ListAnonymous),
        };
        if !is_anonymous {
            let server = json!({ "name": "broken", "version": "1.0.0" });
            result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo": server });
        }
        Ok(answered(rpc, &result))
    }

    /// Whether a list lacks what `fault` takes away.
    fn silent(&self, rpc: &Rpc, fault: F) -> bool {
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

    fn listen(&self, rpc: &Rpc) -> Reply {
        let meta = json!({ "io.modelcontextprotocol/subscriptionId": rpc.id });
        let acknowledged = json!({
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": { "notifications": { "toolsListChanged": true }, "_meta": meta },
        });
        let news = json!({
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": { "_meta": meta },
        });
        let first = if self.has(F::NotAcknowledged) { news } else { acknowledged };
        stream(format!("data: {first}\n\n"))
    }

    fn no_method(&self, status: u16) -> Refused {
        match self.fault {
            Some(F::UnknownMethodInvalid) => (status, -32600, Value::Null),
            Some(F::UnknownMethodOk) => (200, -32601, Value::Null),
            _ => (status, -32601, Value::Null),
        }
    }

    fn handshake(&self, asked: &Asked, who: Who, rpc: &Rpc) -> Reply {
        if rpc.method == "initialize" && self.eras != McpEras::Stateless {
            return self.initialize(who, rpc);
        }
        let result = self.session(asked, who).and_then(|()| {
            let said = asked.header("mcp-protocol-version");
            let is_known = match said {
                Some(said) => HANDSHAKE.contains(&said) || self.has(F::SessionVersionIgnored),
                None => !self.has(F::SessionVersionNeeded),
            };
            if !is_known {
                return Err((400, -32600, Value::Null));
            }
            match rpc.method.as_str() {
                "ping" if self.has(F::PingHasResult) => Ok(json!({ "pong": true })),
                "ping" => Ok(json!({})),
                "tools/list" => {
                    self.list(&rpc.params, self.answers.fetch_add(1, Ordering::Relaxed))
                }
                "tools/call" => self.call(&rpc.params, false),
                "prompts/list" if self.has(F::PromptsUndeclared) => Ok(json!({ "prompts": [] })),
                _ => Err(self.no_method(200)),
            }
        });
        match result {
            Ok(result) => answered(rpc, &result),
            Err(refused) => error(&rpc.id, refused),
        }
    }

    fn initialize(&self, who: Who, rpc: &Rpc) -> Reply {
        let asked = rpc.params.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
        let settled = match self.fault {
            Some(F::VersionFixed) => "2025-06-18",
            Some(F::UnknownVersionEchoed) => asked,
            _ if HANDSHAKE.contains(&asked) => asked,
            _ => HANDSHAKE[0],
        };
        let mut result = json!({
            "protocolVersion": settled,
            "capabilities": self.capabilities(),
        });
        if !self.has(F::InitializeBare) {
            result["serverInfo"] = json!({ "name": "broken", "version": "1.0.0" });
        }
        let number = self.answers.fetch_add(1, Ordering::Relaxed);
        let id = match self.fault {
            Some(F::SessionWithBlank) => format!("session {number}"),
            Some(F::SessionShared) => "session".to_owned(),
            _ => format!("session-{number}"),
        };
        self.sessions.lock().insert(id.clone(), who);
        answered(rpc, &result).with("mcp-session-id", id)
    }

    /// Whether the request is in a session of `who`.
    fn session(&self, asked: &Asked, who: Who) -> Result<(), Refused> {
        let Some(id) = asked.header("mcp-session-id") else {
            let status = if self.has(F::NoSessionServerError) { 500 } else { 400 };
            return Err((status, -32600, Value::Null));
        };
        let owner = self.sessions.lock().get(id).copied();
        match owner {
            Some(owner) if owner == who || self.has(F::SessionForAll) => Ok(()),
            _ if self.has(F::UnknownSessionBadRequest) => Err((400, -32600, Value::Null)),
            _ => Err((404, -32600, Value::Null)),
        }
    }
}

/// `body` as a request or a notification.
fn read(body: &Value) -> Option<Rpc> {
    let id = body.get("id").cloned().unwrap_or_default();
    let is_legal = body.get("jsonrpc")? == "2.0" && (body.get("id").is_none() || !id.is_null());
    let method = body.get("method")?.as_str().filter(|_| is_legal)?.to_owned();
    let params = body.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    Some(Rpc { id, method, params })
}

/// Calls are answered as a stream, everything else as JSON.
fn answered(rpc: &Rpc, result: &Value) -> Reply {
    let message = json!({ "jsonrpc": "2.0", "id": rpc.id, "result": result });
    match rpc.method.as_str() {
        "tools/call" => stream(format!("id: 0\ndata:\n\nevent: message\ndata: {message}\n\n")),
        _ => Reply::json(200, &message),
    }
}

fn error(id: &Value, (status, code, data): Refused) -> Reply {
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
