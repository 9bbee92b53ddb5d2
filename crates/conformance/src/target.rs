//! The context of a check: the host, the path of its protocol, and the user's options.

use std::{collections::BTreeSet, sync::Arc};

use reqwest::Method;
use serde_json::{Map, Value};

use crate::{
    http::{Host, Request, Response},
    protocol::Protocol,
    result::{CheckResult, skip_unless},
    value::{is_read_only, text},
};

/// The header of requests and responses that names the version of OpenWOP.
pub(crate) const OPENWOP_VERSION: &str = "openwop-version";

/// A protocol on the host under test.
pub struct Target {
    host: Arc<Host>,
    protocol: Protocol,
    /// The path of the protocol; empty for the root.
    path: String,
    /// The path of the explorer, whose annotations mark tools as read-only.
    explorer: String,
    options: Options,
}

/// Options of the user for all checks.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// A tool that checks may call.
    pub tool: Option<NamedTool>,
    /// A tool that checks may call and that fails.
    pub failing_tool: Option<NamedTool>,
    /// An origin whose pages the host lets read its answers.
    pub origin: Option<String>,
    /// Whether advertised behavior that cannot be observed fails instead of being skipped.
    pub require_behavior: bool,
}

/// A tool that the user names.
#[derive(Debug, Clone)]
pub struct NamedTool {
    /// Id or name, in any of the protocols.
    pub name: String,
    /// The arguments; if missing, they are derived from the schema.
    pub arguments: Option<Map<String, Value>>,
}

impl Target {
    pub(crate) fn new(
        host: Arc<Host>,
        protocol: Protocol,
        own_path: &str,
        explorer: &str,
        options: Options,
    ) -> Self {
        let path = |path: &str| path.trim_end_matches('/').to_owned();
        Self { host, protocol, path: path(own_path), explorer: path(explorer), options }
    }

    pub(crate) fn host(&self) -> &Host {
        &self.host
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// The path of the protocol; empty for the root.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Creates a `GET` request below the path of the protocol.
    pub(crate) fn get(&self, path: &str) -> Request {
        self.request(Method::GET, path)
    }

    /// Creates a `POST` request below the path of the protocol.
    pub(crate) fn post(&self, path: &str) -> Request {
        self.request(Method::POST, path)
    }

    /// Creates a request below the path of the protocol. One of OpenWOP v2 names that version.
    pub(crate) fn request(&self, method: Method, path: &str) -> Request {
        let request = self.plain_request(method, path);
        match self.protocol {
            Protocol::Openwop2 => request.header(OPENWOP_VERSION, "2.0"),
            _ => request,
        }
    }

    /// Like [`request`](Self::request), but never names a version.
    pub(crate) fn plain_request(&self, method: Method, path: &str) -> Request {
        Request::new(method, format!("{}{path}", self.path))
    }

    pub(crate) async fn send(&self, request: Request) -> CheckResult<Response> {
        self.host.send(request).await
    }

    pub(crate) async fn send_once(&self, request: Request) -> CheckResult<Response> {
        self.host.send_once(request).await
    }

    /// Sends a `GET` request with the key, once per run.
    pub(crate) async fn fetch(&self, path: &str) -> CheckResult<Response> {
        self.send_once(self.get(path).with_key()).await
    }

    /// Sends `request` with the key; skips the check if the host requires a key and there is none.
    pub(crate) async fn send_authorized(&self, request: Request) -> CheckResult<Response> {
        let response = self.send_once(request.with_key()).await?;
        self.skip_if_locked(&response)?;
        Ok(response)
    }

    /// Skips the check if `response` requires a key and there is none.
    pub(crate) fn skip_if_locked(&self, response: &Response) -> CheckResult {
        let is_locked = response.is_unauthorized() && !self.host.has_key();
        skip_unless(!is_locked, "the host requires a key: --key")
    }

    /// Skips the check if there is no key.
    pub(crate) fn require_key(&self) -> CheckResult {
        skip_unless(self.host.has_key(), "needs a key: --key")
    }

    /// Skips the check if there is no second key.
    pub(crate) fn require_second_key(&self) -> CheckResult {
        skip_unless(self.host.has_second_key(), "needs the key of another principal: --second-key")
    }

    /// Checks whether the host serves the path of `request`.
    pub(crate) async fn serves(&self, request: Request) -> bool {
        let response = self.send_once(request).await;
        response.is_ok_and(|response| !matches!(response.status(), 404 | 405 | 501))
    }

    /// Reads the names of the tools that the host's explorer marks as read-only.
    pub(crate) async fn read_only_tools(&self) -> BTreeSet<String> {
        let request = Request::new(Method::GET, format!("{}/tools", self.explorer)).with_key();
        let Ok(response) = self.send_once(request).await else { return BTreeSet::new() };
        let tools = response.value().as_array().map(Vec::as_slice).unwrap_or_default();
        let read_only = tools.iter().filter(|tool| is_read_only(tool));
        read_only.map(|tool| text(tool, "name").to_owned()).collect()
    }
}

/// Percent-encodes `id` as one segment of a path.
pub(crate) fn encode_segment(id: &str) -> String {
    let encoded = id.bytes().map(|byte| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
            char::from(byte).to_string()
        }
        byte => format!("%{byte:02X}"),
    });
    encoded.collect()
}

/// Percent-encodes every byte of `id`.
pub(crate) fn encode_every_byte(id: &str) -> String {
    id.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
