//! How a request is put in each era, and which eras a server speaks.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use base64::Engine as _;
use serde_json::{Map, Value, json};

use super::{HANDSHAKE, STATELESS, message};
use crate::conformance::{Ask, Got, Site, Verdict, fail, skip};

pub(super) const VERSION_HEADER: &str = "mcp-protocol-version";
pub(super) const METHOD_HEADER: &str = "mcp-method";
pub(super) const NAME_HEADER: &str = "mcp-name";
pub(super) const SESSION_HEADER: &str = "mcp-session-id";

pub(super) const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
pub(super) const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const CLIENT_KEY: &str = "io.modelcontextprotocol/clientInfo";
pub(super) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";

/// What a client reads.
pub(super) const BOTH: &str = "application/json, text/event-stream";

/// Who we say we are.
pub(super) fn client() -> Value {
    json!({ "name": "toolcrib-conformance", "version": env!("CARGO_PKG_VERSION") })
}

/// The era of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Wire {
    /// Every request says what it is.
    Stateless,
    /// After a handshake that settled `version`, and opened `session` if the server has any.
    Handshake { version: String, session: Option<String> },
}

/// A request, or a notification.
#[derive(Debug, Clone)]
pub(super) struct Rpc {
    wire: Wire,
    method: String,
    params: Map<String, Value>,
    /// `null` makes it a notification.
    id: Value,
    /// Headers that are other than they should be; none: left out.
    said: Vec<(&'static str, Option<String>)>,
    /// Members of `_meta` that are other than they should be; none: left out.
    meta: Vec<(&'static str, Option<Value>)>,
}

impl Wire {
    /// A request of this era.
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
            // The same question has the same id, so that it is asked once.
            id: json!(hasher.finish() >> 33),
            said: Vec::new(),
            meta: Vec::new(),
        }
    }

    /// A notification of this era.
    pub(super) fn notification(&self, method: &str, params: Value) -> Rpc {
        Rpc { id: Value::Null, ..self.request(method, params) }
    }

    pub(super) fn is_stateless(&self) -> bool {
        *self == Self::Stateless
    }

    /// The settled version, if there was a handshake.
    pub(super) fn version(&self) -> &str {
        match self {
            Self::Stateless => STATELESS,
            Self::Handshake { version, .. } => version,
        }
    }

    /// The session, if there is one.
    pub(super) fn session(&self) -> Option<&str> {
        match self {
            Self::Stateless => None,
            Self::Handshake { session, .. } => session.as_deref(),
        }
    }
}

impl Rpc {
    /// With another id.
    pub(super) fn id(mut self, id: Value) -> Self {
        self.id = id;
        self
    }

    /// Once more, under an id of its own.
    pub(super) fn again(mut self) -> Self {
        let id = self.id.as_u64().unwrap_or_default();
        self.id = json!(id.wrapping_add(1));
        self
    }

    /// With the header `name` as `value`.
    pub(super) fn says(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.said.push((name, Some(value.into())));
        self
    }

    /// Without the header `name`.
    pub(super) fn silent(mut self, name: &'static str) -> Self {
        self.said.push((name, None));
        self
    }

    /// With `key` of its `_meta` as `value`, or without it.
    pub(super) fn meta(mut self, key: &'static str, value: Option<Value>) -> Self {
        self.meta.push((key, value));
        self
    }

    /// As it is sent; who asks is still to be said.
    pub(super) fn ask(&self, site: &Site) -> Ask {
        let body = self.body().to_string();
        self.headers(site.post("")).body(body)
    }

    /// Its headers alone, over `body`.
    pub(super) fn ask_with(&self, site: &Site, body: impl Into<Vec<u8>>) -> Ask {
        self.headers(site.post("")).body(body)
    }

    /// The answer for the first key; the same question is asked once.
    pub(super) async fn send(&self, site: &Site) -> Verdict<Got> {
        site.once(self.ask(site).by_first()).await
    }

    pub(super) fn body(&self) -> Value {
        let mut params = self.params.clone();
        if self.wire.is_stateless() {
            let mut meta = Map::new();
            meta.insert(VERSION_KEY.to_owned(), json!(STATELESS));
            meta.insert(CAPABILITIES_KEY.to_owned(), json!({}));
            meta.insert(CLIENT_KEY.to_owned(), client());
            for (key, value) in &self.meta {
                match value {
                    Some(value) => meta.insert((*key).to_owned(), value.clone()),
                    None => meta.remove(*key),
                };
            }
            params.insert("_meta".to_owned(), Value::Object(meta));
        }
        let mut body = json!({ "jsonrpc": "2.0", "method": self.method, "params": params });
        if let (false, Some(body)) = (self.id.is_null(), body.as_object_mut()) {
            body.insert("id".to_owned(), self.id.clone());
        }
        body
    }

    fn headers(&self, ask: Ask) -> Ask {
        let mut headers: Vec<(&'static str, String)> =
            vec![("content-type", "application/json".to_owned()), ("accept", BOTH.to_owned())];
        match &self.wire {
            Wire::Stateless => {
                headers.push((VERSION_HEADER, STATELESS.to_owned()));
                headers.push((METHOD_HEADER, self.method.clone()));
                let target = ["name", "uri"].iter().find_map(|key| self.params.get(*key)?.as_str());
                headers.extend(target.map(|target| (NAME_HEADER, as_header(target))));
            }
            Wire::Handshake { version, session } => {
                // Older revisions know no such header, and a handshake has yet to settle it.
                let is_later = self.method != "initialize";
                if is_later && version.as_str() >= "2025-06-18" {
                    headers.push((VERSION_HEADER, version.clone()));
                }
                headers.extend(session.clone().map(|session| (SESSION_HEADER, session)));
            }
        }
        for (name, value) in &self.said {
            headers.retain(|(known, _)| known != name);
            headers.extend(value.clone().map(|value| (*name, value)));
        }
        let ask = headers.into_iter().fold(ask, |ask, (name, value)| ask.header(name, value));
        ask.until(message::has_answer)
    }
}

/// `text` as the value of a header that repeats it.
fn as_header(text: &str) -> String {
    let is_plain = text.bytes().all(|byte| (0x21..=0x7e).contains(&byte));
    match is_plain && !text.starts_with("=?base64?") {
        true => text.to_owned(),
        false => encoded(text),
    }
}

/// `text` in base64, as headers carry it.
pub(super) fn encoded(text: &str) -> String {
    format!("=?base64?{}?=", base64::engine::general_purpose::STANDARD.encode(text))
}

/// `server/discover`.
pub(super) fn discover() -> Rpc {
    Wire::Stateless.request("server/discover", json!({}))
}

/// `initialize`, asking for `version`.
pub(super) fn initialize(version: &str) -> Rpc {
    let wire = Wire::Handshake { version: version.to_owned(), session: None };
    let params = json!({ "protocolVersion": version, "capabilities": {}, "clientInfo": client() });
    wire.request("initialize", params)
}

/// The stateless revision, if the server speaks it.
pub(super) async fn stateless(site: &Site) -> Verdict<Wire> {
    if speaks_stateless(site).await? {
        return Ok(Wire::Stateless);
    }
    open(site, &discover().send(site).await?)?;
    skip(format!("the server does not speak {STATELESS}"))
}

/// A session that the whole run uses, if the server speaks a revision with a handshake.
pub(super) async fn handshake(site: &Site) -> Verdict<Wire> {
    let got = initialize(HANDSHAKE[0]).send(site).await?;
    let Some(wire) = settled(&got) else {
        open(site, &got)?;
        return skip("the server speaks no revision with a handshake");
    };
    wire.notification("notifications/initialized", json!({})).send(site).await?;
    Ok(wire)
}

/// Every era that the server speaks; at least one.
pub(super) async fn wires(site: &Site) -> Verdict<Vec<Wire>> {
    let mut wires = Vec::new();
    if speaks_stateless(site).await? {
        wires.push(Wire::Stateless);
    }
    let initialized = initialize(HANDSHAKE[0]).send(site).await?;
    if settled(&initialized).is_some() {
        wires.push(handshake(site).await?);
    }
    if !wires.is_empty() {
        return Ok(wires);
    }
    let discovered = discover().send(site).await?;
    open(site, &discovered)?;
    open(site, &initialized)?;
    let seen = format!("{}; {}", message::what(&discovered), message::what(&initialized));
    fail("a result of `server/discover` or `initialize`", seen, &[&discovered, &initialized])
}

/// The era in which a server is looked at when it does not matter in which.
pub(super) async fn any(site: &Site) -> Verdict<Wire> {
    match wires(site).await?.into_iter().next() {
        Some(wire) => Ok(wire),
        None => skip("the server speaks no era that is known here"),
    }
}

/// What the server says that it offers.
pub(super) async fn capabilities(site: &Site, wire: &Wire) -> Verdict<Value> {
    let got = match wire {
        Wire::Stateless => discover().send(site).await?,
        Wire::Handshake { .. } => initialize(HANDSHAKE[0]).send(site).await?,
    };
    let answer = message::of(&got).unwrap_or_default();
    Ok(answer.pointer("/result/capabilities").cloned().unwrap_or_default())
}

/// The session that the answer to an `initialize` opens.
pub(super) fn settled(got: &Got) -> Option<Wire> {
    let answer = message::of(got)?;
    let result = answer.get("result")?;
    let version = result.get("protocolVersion").and_then(Value::as_str).unwrap_or(HANDSHAKE[0]);
    let session = got.header(SESSION_HEADER).map(str::to_owned);
    Some(Wire::Handshake { version: version.to_owned(), session })
}

async fn speaks_stateless(site: &Site) -> Verdict<bool> {
    // A server that speaks it and answers the first one otherwise fails the check of that.
    for rpc in [discover(), Wire::Stateless.request("tools/list", json!({}))] {
        let got = rpc.send(site).await?;
        let answer = message::of(&got).unwrap_or_default();
        let is_modern = match answer.get("result") {
            Some(result) => {
                result.get("resultType").is_some() || result.get("supportedVersions").is_some()
            }
            None => matches!(message::code(&got), Some(-32021 | -32020)),
        };
        if is_modern {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Skips when `got` says that a key is needed, and there is none.
fn open(site: &Site, got: &Got) -> Verdict {
    match got.status() {
        401 | 403 if !site.host().has_key() => skip("the server wants a key: --key"),
        _ => Ok(()),
    }
}
