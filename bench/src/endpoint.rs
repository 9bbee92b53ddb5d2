//! An MCP server as a client reaches it, and its requests in both eras: in a session that a handshake
//! opens, and self-contained ones of the revision 2026-07-28.

use std::net::SocketAddr;

use anyhow::Result;
use serde_json::{Value, json};

use crate::http1::{Connection, request};
use crate::load::{ExpectedBody, Shot};

const VERSION: &str = "2026-07-28";
/// The revision of sessions.
const SESSION_VERSION: &str = "2025-11-25";

/// Where an MCP server listens, and the headers of every request.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
    pub(crate) headers: Vec<(String, String)>,
}

/// A call with a text that its answer contains.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) tool: String,
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

impl Endpoint {
    pub(crate) fn new(address: SocketAddr, headers: Vec<(String, String)>) -> Self {
        Self { address, path: "/mcp".into(), headers }
    }

    /// A shot at the list, which contains `tool`.
    pub(crate) fn list(&self, tool: &str) -> Shot {
        let request = self.self_contained("tools/list", None);
        self.shot(request, named(tool))
    }

    pub(crate) fn call(&self, call: &Call) -> Shot {
        let request = self.self_contained("tools/call", Some(call));
        self.shot(request, ExpectedBody::Text(call.answer.as_str().into()))
    }

    /// A shot at the list in a session, which all connections share.
    pub(crate) async fn session_list(&self, tool: &str) -> Result<Shot> {
        let request = self.in_session("tools/list", json!({})).await?;
        Ok(self.shot(request, named(tool)))
    }

    /// A shot at a call in a session, which all connections share.
    pub(crate) async fn session_call(&self, call: &Call) -> Result<Shot> {
        let params = json!({ "name": call.tool, "arguments": call.arguments });
        let request = self.in_session("tools/call", params).await?;
        Ok(self.shot(request, ExpectedBody::Text(call.answer.as_str().into())))
    }

    /// Formats a request of the stateless revision.
    fn self_contained(&self, method: &str, call: Option<&Call>) -> Vec<u8> {
        let mut params = json!({
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": VERSION,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": { "name": "toolcrib-bench", "version": "1" },
            },
        });
        let mut headers = vec![("mcp-protocol-version", VERSION), ("mcp-method", method)];
        if let (Some(call), Some(params)) = (call, params.as_object_mut()) {
            params.insert("name".into(), call.tool.as_str().into());
            params.insert("arguments".into(), call.arguments.clone());
            headers.push(("mcp-name", &call.tool));
        }
        self.post(&headers, &message(method, params))
    }

    /// Opens a session, and formats a request in it. A server without sessions returns no id.
    async fn in_session(&self, method: &str, params: Value) -> Result<Vec<u8>> {
        let initialize = json!({
            "protocolVersion": SESSION_VERSION,
            "capabilities": {},
            "clientInfo": { "name": "toolcrib-bench", "version": "1" },
        });
        let mut connection = Connection::open(self.address).await?;
        let opening = self.post(&[], &message("initialize", initialize));
        let answer = connection.exchange(&opening).await?;
        let body = String::from_utf8_lossy(answer.body);
        anyhow::ensure!(answer.status == 200, "no session: {}: {body}", answer.status);
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let mut headers = vec![("mcp-protocol-version", SESSION_VERSION)];
        headers.extend(session.as_deref().map(|id| ("mcp-session-id", id)));
        let initialized =
            json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string();
        connection.exchange(&self.post(&headers, &initialized)).await?;
        Ok(self.post(&headers, &message(method, params)))
    }

    fn post(&self, more: &[(&str, &str)], body: &str) -> Vec<u8> {
        let mut headers = vec![
            ("content-type", "application/json"),
            ("accept", "application/json, text/event-stream"),
        ];
        headers.extend(self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
        headers.extend(more);
        request("POST", self.address, &self.path, &headers, body)
    }

    fn shot(&self, request: Vec<u8>, expect: ExpectedBody) -> Shot {
        Shot { address: self.address, requests: [request].into(), status: 200, expect }
    }
}

fn named(tool: &str) -> ExpectedBody {
    ExpectedBody::Text(format!("\"{tool}\"").into())
}

fn message(method: &str, params: Value) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }).to_string()
}
