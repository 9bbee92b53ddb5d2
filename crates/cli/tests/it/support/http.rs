//! A caller of a server, with one method per kind of request.

use std::sync::Once;

use serde_json::{Value, json};
use toolcrib_testkit::upstream::OAuthServer;

/// A caller with or without an API key.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    http: reqwest::Client,
    url: String,
    key: Option<String>,
}

/// Status and body.
pub(crate) type Answer = (u16, Value);

impl Caller {
    pub(crate) fn new(url: &str, key: Option<&str>) -> Self {
        static PROVIDER: Once = Once::new();
        PROVIDER.call_once(|| {
            rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        });
        #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: url.to_owned(), key: key.map(str::to_owned) }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(self.http.get(format!("{}{path}", self.url))).await.unwrap()
    }

    /// Sends a request without a body, with these headers.
    pub(crate) async fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> reqwest::Response {
        let method = method.parse().unwrap();
        let mut request = self.with_key(self.http.request(method, format!("{}{path}", self.url)));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap()
    }

    /// Returns a response whose body has not been read.
    pub(crate) async fn open(&self, path: &str) -> reqwest::Response {
        self.with_key(self.http.get(format!("{}{path}", self.url))).send().await.unwrap()
    }

    /// Returns the body of a response that is not JSON.
    pub(crate) async fn text(&self, path: &str) -> String {
        let request = self.with_key(self.http.get(format!("{}{path}", self.url)));
        request.send().await.unwrap().error_for_status().unwrap().text().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(self.http.post(format!("{}{path}", self.url)).json(body)).await.unwrap()
    }

    /// Connects the account of the source that `wanted` names. `service` plays the browser's part.
    pub(crate) async fn connect(&self, service: &OAuthServer, wanted: &Value) -> Value {
        let request = |path: &str| self.http.post(format!("{}{path}", self.url));
        let begin = self.with_key(request("/v1/connections/begin").json(wanted));
        let begun = begin.send().await.unwrap();
        let cookie = begun.headers()["set-cookie"].to_str().unwrap();
        let cookie = cookie.split(';').next().unwrap().to_owned();
        let begun: Value = begun.json().await.unwrap();
        let mut body = json!(service.consent(begun["address"].as_str().unwrap()));
        body["source"] = wanted["source"].clone();
        let finish = request("/v1/connections/finish").header("cookie", cookie).json(&body);
        let (status, connected) = self.send(finish).await.unwrap();
        assert_eq!(status, 200, "{connected}");
        connected["connection"].clone()
    }

    /// Calls a tool over Open Tool Calling.
    pub(crate) async fn otc(&self, tool: &str, input: Value) -> Answer {
        self.post("/tools/call", &json!({ "request": { "tool_id": tool, "input": input } })).await
    }

    /// Calls a tool, and returns the status and the run id; `None` without a complete response.
    pub(crate) async fn recorded(&self, tool: &str, input: Value) -> Option<(u16, String)> {
        self.recorded_as(None, tool, input).await
    }

    /// As [`Self::recorded`], with a call id as idempotency key.
    pub(crate) async fn recorded_as(
        &self,
        call_id: Option<&str>,
        tool: &str,
        input: Value,
    ) -> Option<(u16, String)> {
        let mut body = json!({ "request": { "tool_id": tool, "input": input } });
        if let Some(call_id) = call_id {
            body["request"]["call_id"] = call_id.into();
        }
        let request = self.http.post(format!("{}/tools/call", self.url)).json(&body);
        let answer = self.with_key(request).send().await.ok()?;
        let status = answer.status().as_u16();
        let run = answer.headers().get("toolcrib-run-id")?.to_str().ok()?.to_owned();
        // An incomplete response counts as none.
        answer.bytes().await.ok()?;
        Some((status, run))
    }

    /// Sends a stateless MCP request, and returns the JSON-RPC response.
    pub(crate) async fn mcp(&self, method: &str, params: Value) -> Answer {
        self.try_mcp(method, params).await.unwrap()
    }

    /// As [`Self::mcp`]; `None` without a complete response.
    pub(crate) async fn try_mcp(&self, method: &str, params: Value) -> Option<Answer> {
        self.send(self.mcp_request(method, params)).await.ok()
    }

    /// Sends a stateless MCP request, and returns all messages of the response.
    pub(crate) async fn mcp_messages(&self, method: &str, params: Value) -> Vec<Value> {
        let answer = self.with_key(self.mcp_request(method, params)).send().await.unwrap();
        let text = answer.text().await.unwrap();
        let messages = text.lines().map(|line| line.strip_prefix("data: ").unwrap_or(line));
        messages.filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Opens an MCP session (2025-11-25) and returns its id.
    pub(crate) async fn open_mcp_session(&self) -> String {
        self.try_open_mcp_session().await.unwrap()
    }

    /// As [`Self::open_mcp_session`]; `None` without complete responses.
    pub(crate) async fn try_open_mcp_session(&self) -> Option<String> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {},
            "clientInfo": { "name": "test", "version": "1" },
        });
        let body = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        let answer = self.with_key(self.mcp_post(&body)).send().await.ok()?;
        let session = answer.headers().get("mcp-session-id")?.to_str().ok()?.to_owned();
        let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
        let request = self.mcp_post(&initialized).header("mcp-session-id", &session);
        self.with_key(request).send().await.ok()?.error_for_status().ok()?;
        Some(session)
    }

    /// Calls a tool in an MCP session.
    pub(crate) async fn call_in_session(&self, session: &str, tool: &str, input: Value) -> Answer {
        self.try_call_in_session(session, tool, input).await.unwrap()
    }

    /// As [`Self::call_in_session`]; `None` without a complete response.
    pub(crate) async fn try_call_in_session(
        &self,
        session: &str,
        tool: &str,
        input: Value,
    ) -> Option<Answer> {
        let params = json!({ "name": tool, "arguments": input });
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
        self.send(self.mcp_post(&body).header("mcp-session-id", session)).await.ok()
    }

    /// Sends a request or a notification in an MCP session.
    pub(crate) async fn send_in_session(&self, session: &str, body: &Value) -> Answer {
        self.send(self.mcp_post(body).header("mcp-session-id", session)).await.unwrap()
    }

    /// Ends an MCP session, and returns the status.
    pub(crate) async fn end_mcp_session(&self, session: &str) -> u16 {
        let request = self.http.delete(format!("{}/mcp", self.url));
        self.send(request.header("mcp-session-id", session)).await.unwrap().0
    }

    /// Opens the stream of an MCP session.
    pub(crate) async fn mcp_stream(&self, session: &str) -> reqwest::Response {
        let request = self.http.get(format!("{}/mcp", self.url));
        let request =
            request.header("accept", "text/event-stream").header("mcp-session-id", session);
        self.with_key(request).send().await.unwrap()
    }

    fn mcp_post(&self, body: &Value) -> reqwest::RequestBuilder {
        let request = self.http.post(format!("{}/mcp", self.url)).json(body);
        request.header("accept", "application/json, text/event-stream")
    }

    fn mcp_request(&self, method: &str, mut params: Value) -> reqwest::RequestBuilder {
        let mut meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        if let (Some(meta), Some(more)) = (meta.as_object_mut(), params["_meta"].as_object()) {
            meta.extend(more.clone());
        }
        params["_meta"] = meta;
        let name = params.get("name").and_then(Value::as_str).map(str::to_owned);
        let mut request = self
            .http
            .post(format!("{}/mcp", self.url))
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", method)
            .json(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }));
        if let Some(name) = name {
            request = request.header("mcp-name", name);
        }
        request
    }

    fn with_key(&self, request: reqwest::RequestBuilder) -> reqwest::RequestBuilder {
        match &self.key {
            Some(key) => request.bearer_auth(key),
            None => request,
        }
    }

    async fn send(&self, request: reqwest::RequestBuilder) -> reqwest::Result<Answer> {
        let answer = self.with_key(request).send().await?;
        let status = answer.status().as_u16();
        let text = answer.text().await?;
        // The last event of a stream is the answer.
        let json = text.lines().rev().find_map(|line| line.strip_prefix("data: ")).unwrap_or(&text);
        Ok((status, serde_json::from_str(json).unwrap_or(Value::Null)))
    }
}
