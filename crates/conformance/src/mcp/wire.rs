//! Requests in each era, and the eras that a server supports.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::{
    common::{HANDSHAKE, STATELESS, WITH_VERSION_HEADER},
    message,
};
use crate::{
    CheckResult, Target, fail,
    http::{Request, Response},
    skip,
    value::{text, with},
};

pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
pub(super) const METHOD_HEADER: &str = "mcp-method";
pub(super) const NAME_HEADER: &str = "mcp-name";
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// The content types that a client accepts.
pub(super) const ACCEPTED: &str = "application/json, text/event-stream";

fn client_info() -> Value {
    json!({ "name": "toolcrib-conformance", "version": env!("CARGO_PKG_VERSION") })
}

/// The era of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wire {
    /// Every request describes itself.
    Stateless,
    /// After a handshake that negotiated `version` and optionally opened `session`.
    Handshake { version: String, session: Option<String> },
}

/// A JSON-RPC request or notification.
#[derive(Debug, Clone)]
pub(super) struct Rpc {
    wire: Wire,
    method: String,
    params: Map<String, Value>,
    /// `null` for a notification.
    id: Value,
    /// Headers with an unusual value, or removed.
    headers: Vec<(&'static str, Option<String>)>,
    /// Members of `_meta` with an unusual value, or removed.
    meta: Vec<(&'static str, Option<Value>)>,
}

impl Wire {
    pub(super) fn request(&self, method: &str, params: Value) -> Rpc {
        let mut hasher = DefaultHasher::new();
        (method, params.to_string()).hash(&mut hasher);
        let params = match params {
            Value::Object(params) => params,
            _ => Map::new(),
        };
        Rpc {
            wire: self.clone(),
            method: method.to_owned(),
            params,
            // Equal requests have equal ids, so that each is sent only once.
            id: json!(hasher.finish() >> 33),
            headers: Vec::new(),
            meta: Vec::new(),
        }
    }

    pub(super) fn notification(&self, method: &str, params: Value) -> Rpc {
        self.request(method, params).id(Value::Null)
    }

    pub(super) fn is_stateless(&self) -> bool {
        *self == Self::Stateless
    }

    pub(super) fn version(&self) -> &str {
        match self {
            Self::Stateless => STATELESS,
            Self::Handshake { version, .. } => version,
        }
    }

    pub(super) fn session(&self) -> Option<&str> {
        match self {
            Self::Stateless => None,
            Self::Handshake { session, .. } => session.as_deref(),
        }
    }

    /// The headers of every request after the handshake.
    pub(super) fn session_headers(&self) -> impl Iterator<Item = (&'static str, String)> {
        let has_version = !self.is_stateless() && self.version() >= WITH_VERSION_HEADER;
        let version = has_version.then(|| (VERSION_HEADER, self.version().to_owned()));
        let session = self.session().map(|session| (SESSION_HEADER, session.to_owned()));
        version.into_iter().chain(session)
    }
}

impl Rpc {
    pub(super) fn id(self, id: Value) -> Self {
        Self { id, ..self }
    }

    /// Changes the id, so that the request is sent again.
    pub(super) fn again(self) -> Self {
        let id = self.id.as_u64().unwrap_or_default();
        self.id(json!(id.wrapping_add(1)))
    }

    pub(super) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, Some(value.into())));
        self
    }

    pub(super) fn without_header(mut self, name: &'static str) -> Self {
        self.headers.push((name, None));
        self
    }

    /// Sets or removes `key` of `_meta`.
    pub(super) fn meta(mut self, key: &'static str, value: Option<Value>) -> Self {
        self.meta.push((key, value));
        self
    }

    /// Creates the HTTP request, without credentials.
    pub(super) fn request(&self, target: &Target) -> Request {
        self.request_with(target, self.body().to_string())
    }

    /// Creates an HTTP request with the headers of this message and another body.
    pub(super) fn request_with(&self, target: &Target, body: impl Into<Vec<u8>>) -> Request {
        let request = target.post("").body(body).read_until(message::has_reply);
        self.headers()
            .into_iter()
            .fold(request, |request, (name, value)| request.header(name, value))
    }

    /// Sends the message with the key, once per run.
    pub(super) async fn send(&self, target: &Target) -> CheckResult<Response> {
        target.send_once(self.request(target).with_key()).await
    }

    pub(super) fn body(&self) -> Value {
        let mut params = Value::Object(self.params.clone());
        if self.wire.is_stateless() {
            let mut meta = Map::new();
            meta.insert(VERSION_KEY.to_owned(), json!(STATELESS));
            meta.insert(CAPABILITIES_KEY.to_owned(), json!({}));
            meta.insert(CLIENT_KEY.to_owned(), client_info());
            for (key, value) in &self.meta {
                match value {
                    Some(value) => meta.insert((*key).to_owned(), value.clone()),
                    None => meta.remove(*key),
                };
            }
            params = with(params, "_meta", meta);
        }
        let body = json!({ "jsonrpc": "2.0", "method": self.method, "params": params });
        if self.id.is_null() { body } else { with(body, "id", self.id.clone()) }
    }

    fn headers(&self) -> Vec<(&'static str, String)> {
        let mut headers: Vec<(&'static str, String)> =
            vec![("content-type", "application/json".to_owned()), ("accept", ACCEPTED.to_owned())];
        if self.wire.is_stateless() {
            headers.push((VERSION_HEADER, STATELESS.to_owned()));
            headers.push((METHOD_HEADER, self.method.clone()));
            let name = ["name", "uri"].iter().find_map(|key| self.params.get(*key)?.as_str());
            headers.extend(name.map(|name| (NAME_HEADER, header_value(name))));
        } else if self.method != "initialize" {
            headers.extend(self.wire.session_headers());
        }
        for (name, value) in &self.headers {
            headers.retain(|(known, _)| known != name);
            headers.extend(value.clone().map(|value| (*name, value)));
        }
        headers
    }
}

/// Encodes `text` for the header that repeats it, in base64 if necessary.
fn header_value(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    match is_plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => base64_value(text),
    }
}

/// Encodes `text` in the base64 form of header values.
pub(super) fn base64_value(text: &str) -> String {
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
}

/// Creates a `server/discover` request.
pub(super) fn discover() -> Rpc {
    Wire::Stateless.request("server/discover", json!({}))
}

/// Creates an `initialize` request for `version`.
pub(super) fn initialize(version: &str) -> Rpc {
    let wire = Wire::Handshake { version: version.to_owned(), session: None };
    let params =
        json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client_info() });
    wire.request("initialize", params)
}

/// The stateless era; skips the check if the server does not support it.
pub(super) async fn stateless(target: &Target) -> CheckResult<Wire> {
    if is_stateless_supported(target).await? {
        return Ok(Wire::Stateless);
    }
    target.skip_if_locked(&discover().send(target).await?)?;
    skip(format!("the server does not support {STATELESS}"))
}

/// The session of the run; skips the check if the server supports no handshake.
pub(super) async fn handshake(target: &Target) -> CheckResult<Wire> {
    let response = initialize(HANDSHAKE[0]).send(target).await?;
    let Some(wire) = negotiated(&response) else {
        target.skip_if_locked(&response)?;
        return skip("the server supports no revision with a handshake");
    };
    wire.notification("notifications/initialized", json!({})).send(target).await?;
    Ok(wire)
}

/// Detects every era that the server supports; at least one.
pub(super) async fn wires(target: &Target) -> CheckResult<Vec<Wire>> {
    let mut wires = Vec::new();
    if is_stateless_supported(target).await? {
        wires.push(Wire::Stateless);
    }
    let initialized = initialize(HANDSHAKE[0]).send(target).await?;
    if negotiated(&initialized).is_some() {
        wires.push(handshake(target).await?);
    }
    if !wires.is_empty() {
        return Ok(wires);
    }
    let discovered = discover().send(target).await?;
    target.skip_if_locked(&discovered)?;
    target.skip_if_locked(&initialized)?;
    let seen = format!("{}; {}", message::summary(&discovered), message::summary(&initialized));
    fail("a result of `server/discover` or `initialize`", seen, &[&discovered, &initialized])
}

/// The first era that the server supports.
pub(super) async fn any(target: &Target) -> CheckResult<Wire> {
    match wires(target).await?.into_iter().next() {
        Some(wire) => Ok(wire),
        None => skip("the server supports no known era"),
    }
}

/// Reads the capabilities of the server.
pub(super) async fn capabilities(target: &Target, wire: &Wire) -> CheckResult<Value> {
    let rpc = if wire.is_stateless() { discover() } else { initialize(HANDSHAKE[0]) };
    Ok(message::reply_part(&rpc.send(target).await?, "/result/capabilities"))
}

/// The session that the response to an `initialize` opens.
pub(super) fn negotiated(response: &Response) -> Option<Wire> {
    let reply = message::reply(response)?;
    let version = match text(reply.get("result")?, "protocolVersion") {
        "" => HANDSHAKE[0],
        version => version,
    };
    let session = response.header(SESSION_HEADER).map(str::to_owned);
    Some(Wire::Handshake { version: version.to_owned(), session })
}

async fn is_stateless_supported(target: &Target) -> CheckResult<bool> {
    // `mcp.discover.answered` fails if only the second request shows it.
    for rpc in [discover(), Wire::Stateless.request("tools/list", json!({}))] {
        let response = rpc.send(target).await?;
        let result = message::reply_part(&response, "/result");
        let is_supported = match result.is_null() {
            false => ["resultType", "supportedVersions"]
                .iter()
                .any(|member| result.get(member).is_some()),
            true => matches!(message::code(&response), Some(-32021 | -32020)),
        };
        if is_supported {
            return Ok(true);
        }
    }
    Ok(false)
}
