//! An MCP server that requires a credential and repeats it in every text that it sends, with a
//! token endpoint (`/token`). Modern era, stateless.
//!
//! Tools: `echo` (text and structured content), `fail` (isError), `refuse` (a JSON-RPC error),
//! `progress` (one report, then the result), `ask` (an elicitation), `break` (HTTP status 500).
//!
//! `/api/…` is plain HTTP: it returns the presented credentials, or redirects to the parameter
//! `to`.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU16, AtomicUsize, Ordering},
    },
};

use axum::{
    Router,
    body::Body,
    extract::{OriginalUri, State},
    http::{HeaderMap, StatusCode, header},
    response::Response,
    routing::{any, post},
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// A running server; ends when dropped.
pub struct EchoServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

/// A received request.
#[derive(Debug, Clone)]
pub struct EchoedRequest {
    /// Path and query.
    pub target: String,
    /// Header names are lower case.
    pub headers: HashMap<String, String>,
    /// The body, unchanged.
    pub body: String,
}

#[derive(Default)]
struct Shared {
    accepted: Mutex<Vec<String>>,
    arrived: Mutex<Vec<EchoedRequest>>,
    /// Token endpoint: the refresh token that it accepts next.
    refresh: Mutex<String>,
    client_secret: Mutex<String>,
    issued: AtomicUsize,
    deny: AtomicU16,
}

impl EchoServer {
    /// Starts on a free port. Accepts requests that present one of `accepted`: in a header, in the
    /// query, or as the password of basic authentication.
    pub fn start(accepted: &[&str]) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        shared.accepted.lock().extend(accepted.iter().map(|token| (*token).to_owned()));
        let router = Router::new()
            .route("/mcp", any(serve))
            .route("/token", post(token))
            .route("/api/{*rest}", any(api))
            .with_state(Arc::clone(&shared));
        let runtime = super::good::serve(listener, router);
        Self { shared, address, runtime: Some(runtime) }
    }

    /// Returns the address of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// Makes the token endpoint accept this refresh token, then the one it returned for it, from
    /// clients with `client_secret`.
    pub fn exchange(&self, refresh: &str, client_secret: &str) {
        refresh.clone_into(&mut self.shared.refresh.lock());
        client_secret.clone_into(&mut self.shared.client_secret.lock());
    }

    /// Makes the token endpoint respond with this status; 0 restores its normal responses.
    pub fn deny_tokens(&self, status: u16) {
        self.shared.deny.store(status, Ordering::SeqCst);
    }

    /// Accepts only `accepted` and tokens that are issued from now on.
    pub fn accept_only(&self, accepted: &[&str]) {
        *self.shared.accepted.lock() = accepted.iter().map(|token| (*token).to_owned()).collect();
    }

    /// Returns all requests that arrived at `path`.
    pub fn arrived(&self, path: &str) -> Vec<EchoedRequest> {
        let at = |arrived: &&EchoedRequest| arrived.target.split('?').next() == Some(path);
        self.shared.arrived.lock().iter().filter(at).cloned().collect()
    }

    /// Returns the tool calls that arrived.
    pub fn calls(&self) -> Vec<EchoedRequest> {
        let mut arrived = self.arrived("/mcp");
        arrived.retain(|request| request.body.contains("\"tools/call\""));
        arrived
    }
}

impl Drop for EchoServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn note(shared: &Shared, target: &str, headers: &HeaderMap, body: &Bytes) -> EchoedRequest {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
    let body = String::from_utf8_lossy(body).into_owned();
    let arrived = EchoedRequest { target: target.to_owned(), headers, body };
    shared.arrived.lock().push(arrived.clone());
    arrived
}

/// Returns all presented credentials, raw and decoded.
fn presented(arrived: &EchoedRequest) -> String {
    let mut credentials: Vec<String> = ["authorization", "x-key"]
        .iter()
        .filter_map(|name| arrived.headers.get(*name).cloned())
        .collect();
    if let Some((_, query)) = arrived.target.split_once('?') {
        credentials.push(query.to_owned());
        let plain = percent_encoding::percent_decode_str(query).decode_utf8_lossy().into_owned();
        credentials.push(plain.replace('+', " "));
    }
    let basic = arrived.headers.get("authorization").and_then(|value| value.strip_prefix("Basic "));
    if let Some(pair) = basic.and_then(|pair| STANDARD.decode(pair).ok()) {
        credentials.push(String::from_utf8_lossy(&pair).into_owned());
    }
    credentials.join(" ")
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let arrived = note(&shared, &uri.to_string(), &headers, &body);
    let credentials = presented(&arrived);
    let known =
        shared.accepted.lock().iter().any(|accepted| credentials.contains(accepted.as_str()));
    if !known {
        return plain(StatusCode::UNAUTHORIZED, format!("not accepted: {credentials}"));
    }
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let id = &request["id"];
    if id.is_null() {
        return plain(StatusCode::ACCEPTED, String::new());
    }
    let error = |code: i64| {
        json!({ "jsonrpc": "2.0", "id": id,
            "error": { "code": code, "message": format!("refused: {credentials}"), "data": credentials } })
    };
    let result = |mut result: Value| {
        result["resultType"] = "complete".into();
        result["_meta"] = json!({ "io.modelcontextprotocol/serverInfo":
            { "name": credentials, "version": credentials } });
        json!({ "jsonrpc": "2.0", "id": id, "result": result })
    };
    let escaped: String = credentials.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    let text = json!([{ "type": "text", "text": format!("you are {credentials}") }]);
    let answer = match request["method"].as_str().unwrap_or_default() {
        "server/discover" => result(json!({ "supportedVersions": ["2026-07-28"],
            "capabilities": { "tools": {} }, "instructions": credentials, "ttlMs": 0, "cacheScope": "private" })),
        "tools/list" => {
            result(json!({ "tools": tools(&credentials), "ttlMs": 0, "cacheScope": "private" }))
        }
        "tools/call" => match request["params"]["name"].as_str().unwrap_or_default() {
            "fail" => result(json!({ "content": text, "isError": true })),
            // Like a server that shows its recent requests.
            "log" => {
                let all: Vec<_> = shared.arrived.lock().iter().map(presented).collect();
                result(json!({ "content": [{ "type": "text", "text": all.join(" | ") }] }))
            }
            "refuse" => error(-32602),
            "break" => return plain(StatusCode::INTERNAL_SERVER_ERROR, credentials),
            "ask" => json!({ "jsonrpc": "2.0", "id": id, "result": {
                "resultType": "input_required", "requestState": credentials,
                "inputRequests": { "a": { "method": "elicitation/create", "params": {
                    "mode": "form", "message": credentials,
                    "requestedSchema": { "type": "object", "properties": {} } } } } } }),
            "progress" => {
                let token = &request["params"]["_meta"]["progressToken"];
                let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                    "params": { "progressToken": token, "progress": 1, "message": credentials } });
                let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
                    "params": { "level": "error", "data": credentials } });
                let last = result(json!({ "content": text }));
                let events =
                    [progress, log, last].map(|message| format!("data: {message}\n\n")).concat();
                return answered("text/event-stream", events);
            }
            _ => {
                let structured = json!({ "said": credentials, (credentials.clone()): 1 });
                let mut whole =
                    result(json!({ "content": text, "structuredContent": structured })).to_string();
                // Repeated in an unusual spelling.
                whole = whole.replacen("you are ", &format!("you are {escaped} "), 1);
                return answered("application/json", whole);
            }
        },
        _ => error(-32601),
    };
    answered("application/json", answer.to_string())
}

async fn api(
    State(shared): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let arrived = note(&shared, &uri.to_string(), &headers, &body);
    let credentials = presented(&arrived);
    let query = arrived.target.split_once('?').map(|(_, query)| query).unwrap_or_default();
    if let Some(to) = query.split('&').find_map(|pair| pair.strip_prefix("to=")) {
        let to = percent_encoding::percent_decode_str(to).decode_utf8_lossy().into_owned();
        let mut redirect = plain(StatusCode::TEMPORARY_REDIRECT, String::new());
        redirect.headers_mut().insert(header::LOCATION, to.parse().unwrap());
        return redirect;
    }
    let status =
        match shared.accepted.lock().iter().any(|token| credentials.contains(token.as_str())) {
            true => StatusCode::OK,
            false => StatusCode::UNAUTHORIZED,
        };
    json_body(status, &json!({ "said": credentials }))
}

fn tools(credentials: &str) -> Vec<Value> {
    let tool = |name: &&str| {
        json!({ "name": name, "title": credentials, "description": format!("{name}: {credentials}"),
            "annotations": { "title": credentials },
            "inputSchema": { "type": "object", "properties": {
                "a": { "type": "string", "description": credentials, "default": credentials } } },
            "outputSchema": { "type": "object", "description": credentials } })
    };
    ["echo", "fail", "log", "refuse", "progress", "ask", "break"].iter().map(tool).collect()
}

async fn token(
    State(shared): State<Arc<Shared>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let arrived = note(&shared, &uri.to_string(), &headers, &body);
    let form: HashMap<String, String> = arrived
        .body
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let deny = shared.deny.load(Ordering::SeqCst);
    if deny != 0 {
        let body = json!({ "error": "invalid_grant", "error_description": arrived.body });
        return json_body(StatusCode::from_u16(deny).unwrap(), &body);
    }
    let secret = shared.client_secret.lock().clone();
    let field = |name: &str| form.get(name).map(String::as_str).unwrap_or_default();
    let proven = presented(&arrived).contains(&secret) || field("client_secret") == secret;
    let refused = |code: &str| json_body(StatusCode::BAD_REQUEST, &json!({ "error": code }));
    if !proven {
        return refused("invalid_client");
    }
    let n = shared.issued.fetch_add(1, Ordering::SeqCst) + 1;
    let access = format!("access-canary-{n}");
    let mut granted = json!({ "access_token": access, "token_type": "Bearer", "expires_in": 3600 });
    if field("grant_type") == "refresh_token" {
        let mut refresh = shared.refresh.lock();
        if field("refresh_token") != *refresh {
            return refused("invalid_grant");
        }
        // Each refresh token is valid once.
        *refresh = format!("refresh-canary-{n}");
        granted["refresh_token"] = refresh.clone().into();
    }
    // Parallel requests should overlap.
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    shared.accepted.lock().push(access);
    json_body(StatusCode::OK, &granted)
}

fn json_body(status: StatusCode, body: &Value) -> Response {
    let mut response = answered("application/json", body.to_string());
    *response.status_mut() = status;
    response
}

fn answered(media_type: &str, body: String) -> Response {
    Response::builder().header(header::CONTENT_TYPE, media_type).body(Body::from(body)).unwrap()
}

fn plain(status: StatusCode, body: String) -> Response {
    let mut response = answered("text/plain", body);
    *response.status_mut() = status;
    response
}
