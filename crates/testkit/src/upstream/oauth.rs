//! An authorization server and the MCP server that it protects, on one address.
//!
//! The browser is a client that does not follow redirects: `/authorize` consents at once for the
//! account of [`OAuthServer::sign_in`], and redirects back. Tools: `whoami` (the account of the
//! token), `admin` (the same, with the scope `admin`). `/whoami` is an HTTP operation, and `/moved`
//! redirects to it.
//!
//! Refresh tokens are valid once; a second use revokes the account's tokens, as RFC 9700 wants.
//! [`Dialect`] says how a provider differs.

mod dialect;

use std::{
    collections::{BTreeMap, HashMap},
    io::{Read as _, Write as _},
    net::SocketAddr,
    sync::Arc,
};

use axum::{
    Json, Router,
    body::{Body, Bytes, to_bytes},
    extract::{Path, Query, Request, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Redirect, Response},
    routing::{any, get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{runtime::Runtime, sync::watch};
use tower::ServiceExt as _;
use url::form_urlencoded;

pub use self::dialect::{Dialect, Wording};

/// What the server does.
#[derive(Debug, Clone)]
pub struct OAuthBehaviour {
    /// The path of the issuer, such as `/realms/a`; empty for none.
    pub issuer_path: String,
    /// The issuer in its metadata, in place of its own.
    pub other_issuer: Option<String>,
    /// The authorization endpoint in its metadata, in place of its own.
    pub other_authorization: Option<String>,
    /// The authorization servers in the metadata of the resource, in place of its own.
    pub servers: Option<Vec<String>>,
    /// Whether a 401 names the metadata of the resource.
    pub challenges: bool,
    /// Whether there is metadata of the resource at the well-known address.
    pub has_resource: bool,
    /// Whether it fetches client documents (CIMD).
    pub documents: bool,
    /// Whether it registers clients (RFC 7591).
    pub registers: bool,
    /// Whether it announces PKCE.
    pub announces_pkce: bool,
    /// Whether its responses name the issuer (RFC 9207).
    pub names_issuer: bool,
    /// Whether the MCP server has sessions (2025-11-25), or none (2026-07-28).
    pub has_sessions: bool,
    /// The account whose tokens the resource rejects; empty for none.
    pub rejects: String,
    /// The tools that lists leave out, each with its account.
    pub hides: Vec<(String, String)>,
    /// Whether the list of tools needs the scope `admin`.
    pub limits_lists: bool,
    /// The scopes that are granted to nobody.
    pub withholds: Vec<String>,
    /// Whether the scope that a call lacks is its own token.
    pub repeats_tokens: bool,
    /// The account to which lists are refused, with this status.
    pub refuses_lists: Option<(String, u16)>,
    /// The lifetime of access tokens, in seconds; 0 says none.
    pub lifetime: u64,
    /// Whether tokens are issued with a lifetime of 0, so that each call renews them.
    pub ends_at_once: bool,
    /// How the provider differs from the specifications.
    pub dialect: Dialect,
    /// The answer of the token endpoint, in place of its own.
    pub token_answer: Option<(u16, String)>,
    /// The answer for metadata, in place of its own: status, `Location`, body.
    pub metadata_answer: Option<(u16, String, String)>,
}

/// A request as it arrived.
#[derive(Debug, Clone)]
pub struct OAuthRequest {
    pub method: String,
    pub path: String,
    /// The bearer token, or empty.
    pub token: String,
    /// The account of the token, or empty.
    pub account: String,
    /// The MCP session, or empty.
    pub session: String,
    pub body: String,
}

/// A running server; dropping it ends the server and all connections.
pub struct OAuthServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    runtime: Option<Runtime>,
}

struct Shared {
    origin: String,
    state: Mutex<Server>,
    /// Whether the answers of the token endpoint wait.
    holds: watch::Sender<bool>,
    /// Whether the answers to calls wait.
    holds_calls: watch::Sender<bool>,
}

#[derive(Default)]
struct Server {
    behaviour: OAuthBehaviour,
    account: String,
    next: u64,
    requests: Vec<OAuthRequest>,
    /// All requests, whole.
    whole: Vec<String>,
    /// Secrets by client id.
    clients: HashMap<String, Option<String>>,
    codes: HashMap<String, Code>,
    access: HashMap<String, Token>,
    refresh: HashMap<String, Token>,
    /// Accounts by the tokens of callers.
    subjects: HashMap<String, String>,
    /// Accounts by session.
    sessions: HashMap<String, String>,
    /// Refresh tokens that were sent a second time.
    replays: u64,
}

#[derive(Clone)]
struct Code {
    client: String,
    redirect_uri: String,
    challenge: String,
    token: Token,
}

#[derive(Clone)]
struct Token {
    account: String,
    scopes: Vec<String>,
    resource: Option<String>,
    /// Whether a refresh token comes with it.
    is_lasting: bool,
    is_used: bool,
}

impl Default for OAuthBehaviour {
    fn default() -> Self {
        Self {
            issuer_path: String::new(),
            other_issuer: None,
            other_authorization: None,
            servers: None,
            challenges: true,
            has_resource: true,
            documents: false,
            registers: true,
            announces_pkce: true,
            names_issuer: true,
            has_sessions: false,
            rejects: String::new(),
            hides: Vec::new(),
            limits_lists: false,
            withholds: Vec::new(),
            repeats_tokens: false,
            refuses_lists: None,
            lifetime: 3_600,
            ends_at_once: false,
            dialect: Dialect::default(),
            token_answer: None,
            metadata_answer: None,
        }
    }
}

impl OAuthServer {
    /// Starts on a free port.
    pub fn start(behaviour: OAuthBehaviour) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let paths = behaviour.dialect.paths;
        let state = Server { behaviour, account: "ann".to_owned(), ..Server::default() };
        let origin = format!("http://{address}");
        let (state, holds) = (Mutex::new(state), watch::Sender::new(false));
        let holds_calls = watch::Sender::new(false);
        let shared = Arc::new(Shared { origin, state, holds, holds_calls });
        let router = Router::new()
            .route("/mcp", any(mcp))
            .route("/whoami", any(whoami))
            .route("/moved", any(moved))
            .route("/register", post(register))
            .route("/authorize", get(authorize))
            .route("/token", post(held_token))
            .route("/revoke", post(revoke))
            .route("/.well-known/{*rest}", get(metadata))
            .fallback(get(other_metadata))
            .with_state(Arc::clone(&shared));
        let keeps = Arc::clone(&shared);
        let router = Router::new().fallback(move |request: Request| {
            let (router, keeps) = (router.clone(), Arc::clone(&keeps));
            async move {
                let request = keeps.kept(request).await;
                router.oneshot(dialect::renamed(request, paths)).await
            }
        });
        let runtime = super::good::serve(listener, router);
        Self { shared, address, runtime: Some(runtime) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn issuer(&self) -> String {
        self.shared.issuer(&self.shared.state.lock().behaviour)
    }

    /// Changes the behaviour.
    pub fn behave(&self, change: impl FnOnce(&mut OAuthBehaviour)) {
        change(&mut self.shared.state.lock().behaviour);
    }

    /// Sets the account whose owner consents in the browser.
    pub fn sign_in(&self, account: &str) {
        account.clone_into(&mut self.shared.state.lock().account);
    }

    /// Opens the address of an authorization request, as a browser does, and returns the parameters
    /// of the response.
    pub fn consent(&self, address: &str) -> BTreeMap<String, String> {
        let path = address.strip_prefix(&self.shared.origin).expect("it is of this server");
        let mut stream = std::net::TcpStream::connect(self.address).unwrap();
        let host = self.address;
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let location = answer.lines().find_map(|line| line.strip_prefix("location: "));
        let location = location.expect("a redirect");
        form(location.split_once('?').expect("a query").1)
    }

    /// Makes a client known.
    pub fn add_client(&self, id: &str, secret: Option<&str>) {
        let secret = secret.map(str::to_owned);
        self.shared.state.lock().clients.insert(id.to_owned(), secret);
    }

    /// Exchanges the token `subject` of a caller for one of `account`.
    pub fn exchange(&self, subject: &str, account: &str) {
        self.shared.state.lock().subjects.insert(subject.to_owned(), account.to_owned());
    }

    /// Forgets all registered clients.
    pub fn forget_clients(&self) {
        self.shared.state.lock().clients.clear();
    }

    /// Lets the answers of the token endpoint wait from now on, or sends them.
    pub fn hold_tokens(&self, holds: bool) {
        self.shared.holds.send_replace(holds);
    }

    /// Makes the answers to calls of tools wait, or lets them go.
    pub fn hold_calls(&self, holds: bool) {
        self.shared.holds_calls.send_replace(holds);
    }

    /// Rejects the present access tokens.
    pub fn end_access_tokens(&self) {
        self.shared.state.lock().access.clear();
    }

    /// Rejects the present refresh tokens.
    pub fn end_refresh_tokens(&self) {
        self.shared.state.lock().refresh.clear();
    }

    /// Ends the sessions of the MCP server.
    pub fn end_sessions(&self) {
        self.shared.state.lock().sessions.clear();
    }

    /// Returns all requests so far with this path.
    pub fn arrived(&self, path: &str) -> Vec<OAuthRequest> {
        let state = self.shared.state.lock();
        state.requests.iter().filter(|request| request.path == path).cloned().collect()
    }

    /// Returns all requests so far, each with its address, headers and body.
    pub fn whole(&self) -> Vec<String> {
        self.shared.state.lock().whole.clone()
    }

    /// Returns the accounts of the calls of tools so far, with their sessions.
    pub fn calls(&self) -> Vec<OAuthRequest> {
        let calls = self.arrived("/mcp").into_iter();
        calls.filter(|request| request.body.contains("\"tools/call\"")).collect()
    }

    /// Returns how often a refresh token was sent that had been used.
    pub fn replays(&self) -> u64 {
        self.shared.state.lock().replays
    }

    /// Returns the number of valid access and refresh tokens of an account.
    pub fn tokens_of(&self, account: &str) -> usize {
        let state = self.shared.state.lock();
        let tokens = state.access.values().chain(state.refresh.values());
        tokens.filter(|token| token.account == account && !token.is_used).count()
    }
}

impl Drop for OAuthServer {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Shared {
    async fn kept(&self, request: Request) -> Request {
        let (parts, body) = request.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap_or_default();
        let (method, uri, headers) = (&parts.method, &parts.uri, &parts.headers);
        let text = format!("{method} {uri} {headers:?} {}", String::from_utf8_lossy(&body));
        self.state.lock().whole.push(text);
        Request::from_parts(parts, Body::from(body))
    }

    fn issuer(&self, behaviour: &OAuthBehaviour) -> String {
        format!("{}{}", self.origin, behaviour.issuer_path)
    }

    fn record(
        &self,
        method: &Method,
        path: &str,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Option<Token> {
        let text = |name: &str| {
            headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let token = text("authorization");
        let token = token.strip_prefix("Bearer ").unwrap_or_default();
        let mut state = self.state.lock();
        let known = state.access.get(token).cloned();
        let known = known.filter(|token| token.account != state.behaviour.rejects);
        state.requests.push(OAuthRequest {
            method: method.to_string(),
            path: path.to_owned(),
            token: token.to_owned(),
            account: known.as_ref().map(|token| token.account.clone()).unwrap_or_default(),
            session: text("mcp-session-id"),
            body: String::from_utf8_lossy(body).into_owned(),
        });
        known
    }

    /// The answer to a request without a valid token.
    fn challenge(&self) -> Response {
        let OAuthBehaviour { challenges: names, dialect, .. } = self.state.lock().behaviour.clone();
        let path = dialect.path_of("/mcp");
        let at = format!("{}/.well-known/oauth-protected-resource{path}", self.origin);
        let value = match names {
            true => format!("Bearer resource_metadata=\"{at}\", scope=\"read\""),
            false => "Bearer".to_owned(),
        };
        (StatusCode::UNAUTHORIZED, [(header::WWW_AUTHENTICATE, value)]).into_response()
    }
}

impl Server {
    fn new_value(&mut self, kind: &str) -> String {
        self.next += 1;
        format!("{kind}-canary-{}", self.next)
    }

    /// Returns an answer with new tokens.
    fn issue(&mut self, token: &Token, is_renewal: bool) -> Value {
        let access = self.new_value("access");
        let fresh = Token { is_used: false, ..token.clone() };
        self.access.insert(access.clone(), fresh.clone());
        let dialect = &self.behaviour.dialect;
        let mut answer = json!({
            "access_token": access, "token_type": dialect.wording.token_type(),
            "scope": token.scopes.join(dialect.wording.separator()),
        });
        if token.is_lasting && !(is_renewal && dialect.keeps_refresh_tokens) {
            let refresh = self.new_value("refresh");
            self.refresh.insert(refresh.clone(), fresh);
            answer["refresh_token"] = json!(refresh);
        }
        if self.behaviour.ends_at_once {
            answer["expires_in"] = json!(0);
        } else if self.behaviour.lifetime > 0 {
            answer["expires_in"] = json!(self.behaviour.lifetime);
        }
        let claims = json!({ "email": format!("{}@service.example", token.account) });
        let id_token = format!("e30.{}.", URL_SAFE_NO_PAD.encode(claims.to_string()));
        answer["id_token"] = json!(id_token);
        answer
    }

    fn is_client(&self, form: &BTreeMap<String, String>, headers: &HeaderMap) -> bool {
        let basic = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let basic = basic.and_then(|value| value.strip_prefix("Basic "));
        let basic = basic.and_then(|value| {
            let pair = base64::engine::general_purpose::STANDARD.decode(value).ok()?;
            let pair = String::from_utf8(pair).ok()?;
            // Both parts are encoded as in a form (RFC 6749, section 2.3.1).
            let decoded = |part: &str| {
                let mut parts = form_urlencoded::parse(part.as_bytes());
                parts.next().map(|(text, _)| text.into_owned())
            };
            let (id, secret) = pair.split_once(':')?;
            Some((decoded(id)?, decoded(secret)))
        });
        let posted = || Some((form.get("client_id")?.clone(), form.get("client_secret").cloned()));
        if basic.is_some() && self.behaviour.dialect.reads_secrets_in_forms_only {
            return false;
        }
        let Some((id, secret)) = basic.or_else(posted) else { return false };
        if self.behaviour.documents && id.starts_with("https://") {
            return secret.is_none();
        }
        self.clients.get(&id).is_some_and(|known| *known == secret)
    }
}

type App = State<Arc<Shared>>;

/// The metadata of an issuer with a path.
async fn other_metadata(state: App, uri: Uri) -> Response {
    describe(&state.0, uri.path())
}

async fn metadata(state: App, Path(rest): Path<String>) -> Response {
    describe(&state.0, &format!("/.well-known/{rest}"))
}

fn describe(shared: &Shared, path: &str) -> Response {
    shared.record(&Method::GET, path, &HeaderMap::new(), b"");
    let behaviour = shared.state.lock().behaviour.clone();
    if let Some((status, location, body)) = behaviour.metadata_answer.clone() {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, [(header::LOCATION, location)], body).into_response();
    }
    let issuer = shared.issuer(&behaviour);
    let dialect = behaviour.dialect;
    if path.starts_with("/.well-known/oauth-protected-resource") {
        let has = behaviour.has_resource || (behaviour.challenges && path.ends_with("/mcp"));
        if !has {
            return StatusCode::NOT_FOUND.into_response();
        }
        return Json(json!({
            "resource": format!("{}{}", shared.origin, dialect.path_of("/mcp")),
            "authorization_servers": behaviour.servers.unwrap_or_else(|| vec![issuer]),
            "scopes_supported": ["read", "write", "admin"],
        }))
        .into_response();
    }
    let known = format!("/.well-known/oauth-authorization-server{}", behaviour.issuer_path);
    let appended = format!("{}/.well-known/openid-configuration", behaviour.issuer_path);
    if (path != known || dialect.has_openid_metadata_only) && path != appended {
        return StatusCode::NOT_FOUND.into_response();
    }
    let origin = &shared.origin;
    let authorization = behaviour.other_authorization;
    let mut document = json!({
        "issuer": behaviour.other_issuer.unwrap_or(issuer),
        "authorization_endpoint": authorization.unwrap_or_else(|| format!("{origin}/authorize")),
        "token_endpoint": format!("{origin}/token"),
        "revocation_endpoint": format!("{origin}/revoke"),
        "response_types_supported": ["code"],
        "authorization_response_iss_parameter_supported": behaviour.names_issuer,
        "client_id_metadata_document_supported": behaviour.documents,
    });
    if behaviour.registers {
        document["registration_endpoint"] = json!(format!("{origin}/register"));
    }
    if behaviour.announces_pkce {
        document["code_challenge_methods_supported"] = json!(["S256"]);
    }
    Json(document).into_response()
}

async fn register(State(shared): App, Json(client): Json<Value>) -> Response {
    shared.record(&Method::POST, "/register", &HeaderMap::new(), client.to_string().as_bytes());
    let mut state = shared.state.lock();
    let id = state.new_value("client");
    state.clients.insert(id.clone(), None);
    let answer = json!({ "client_id": id, "token_endpoint_auth_method": "none" });
    (StatusCode::CREATED, Json(answer)).into_response()
}

async fn authorize(State(shared): App, Query(query): Query<BTreeMap<String, String>>) -> Response {
    shared.record(
        &Method::GET,
        "/authorize",
        &HeaderMap::new(),
        json!(query).to_string().as_bytes(),
    );
    let issuer = {
        let behaviour = shared.state.lock().behaviour.clone();
        behaviour.names_issuer.then(|| shared.issuer(&behaviour))
    };
    let mut state = shared.state.lock();
    let part = |name: &str| query.get(name).cloned().unwrap_or_default();
    let client = part("client_id");
    let is_document = state.behaviour.documents && client.starts_with("https://");
    if !is_document && !state.clients.contains_key(&client) {
        return (StatusCode::BAD_REQUEST, "unknown client").into_response();
    }
    assert_eq!(
        (part("response_type"), part("code_challenge_method")),
        ("code".into(), "S256".into())
    );
    let redirect_uri = part("redirect_uri");
    let dialect = state.behaviour.dialect.clone();
    let (scopes, is_lasting) = match dialect.consent(&query) {
        Ok(consented) => consented,
        Err(error) => {
            let state = part("state");
            return Redirect::to(&format!("{redirect_uri}?error={error}&state={state}"))
                .into_response();
        }
    };
    let withheld = state.behaviour.withholds.clone();
    let scopes = scopes.into_iter().filter(|scope| !withheld.contains(scope)).collect();
    let code = state.new_value("code");
    let token = Token {
        account: state.account.clone(),
        scopes,
        resource: query.get("resource").cloned(),
        is_lasting,
        is_used: false,
    };
    let challenge = part("code_challenge");
    let kept = Code { client, redirect_uri: redirect_uri.clone(), challenge, token };
    state.codes.insert(code.clone(), kept);
    let mut answer = form_urlencoded::Serializer::new(String::new());
    answer.append_pair("code", &code).append_pair("state", &part("state"));
    if let Some(issuer) = issuer {
        answer.append_pair("iss", &issuer);
    }
    Redirect::to(&format!("{redirect_uri}?{}", answer.finish())).into_response()
}

fn form(body: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(body.as_bytes()).into_owned().collect()
}

async fn held_token(app: App, headers: HeaderMap, body: String) -> Response {
    let mut holds = app.0.holds.subscribe();
    let answer = token(app, headers, body).await;
    holds.wait_for(|holds| !holds).await.ok();
    answer
}

async fn token(State(shared): App, headers: HeaderMap, body: String) -> Response {
    let form = form(&body);
    shared.record(&Method::POST, "/token", &HeaderMap::new(), json!(form).to_string().as_bytes());
    let mut state = shared.state.lock();
    let Dialect { wording, keeps_refresh_tokens, .. } = state.behaviour.dialect.clone();
    let refused = |code: &str| wording.refusal(code, &headers);
    if let Some((status, body)) = state.behaviour.token_answer.clone() {
        return (StatusCode::from_u16(status).unwrap(), body).into_response();
    }
    if !state.is_client(&form, &headers) {
        return refused("invalid_client");
    }
    let part = |name: &str| form.get(name).cloned().unwrap_or_default();
    let token = match part("grant_type").as_str() {
        "authorization_code" => {
            let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(part("code_verifier")));
            match state.codes.remove(&part("code")) {
                Some(code)
                    if code.challenge == challenge
                        && code.redirect_uri == part("redirect_uri")
                        && form.get("client_id").is_none_or(|id| *id == code.client) =>
                {
                    code.token
                }
                _ => return refused("invalid_grant"),
            }
        }
        "refresh_token" => match state.refresh.get_mut(&part("refresh_token")) {
            Some(token) if !token.is_used => {
                token.is_used = !keeps_refresh_tokens;
                token.clone()
            }
            Some(token) => {
                let account = token.account.clone();
                state.replays += 1;
                state.access.retain(|_, token| token.account != account);
                state.refresh.retain(|_, token| token.account != account);
                return refused("invalid_grant");
            }
            None => return refused("invalid_grant"),
        },
        kind @ ("urn:ietf:params:oauth:grant-type:token-exchange"
        | "urn:ietf:params:oauth:grant-type:jwt-bearer") => {
            let name = if kind.ends_with("exchange") { "subject_token" } else { "assertion" };
            let Some(account) = state.subjects.get(&part(name)).cloned() else {
                return refused("invalid_grant");
            };
            let scopes = part("scope").split_whitespace().map(str::to_owned).collect();
            Token { account, scopes, resource: None, is_lasting: false, is_used: false }
        }
        _ => return refused("unsupported_grant_type"),
    };
    if form.get("resource") != token.resource.as_ref() {
        return refused("invalid_target");
    }
    let is_renewal = part("grant_type") == "refresh_token";
    wording.success(state.issue(&token, is_renewal), &headers)
}

async fn revoke(State(shared): App, body: String) -> Response {
    let form = form(&body);
    shared.record(&Method::POST, "/revoke", &HeaderMap::new(), json!(form).to_string().as_bytes());
    let mut state = shared.state.lock();
    let token = form.get("token").cloned().unwrap_or_default();
    state.access.remove(&token);
    state.refresh.remove(&token);
    StatusCode::OK.into_response()
}

async fn whoami(State(shared): App, method: Method, headers: HeaderMap) -> Response {
    match shared.record(&method, "/whoami", &headers, b"") {
        Some(token) => Json(json!({ "account": token.account })).into_response(),
        None => shared.challenge(),
    }
}

/// Keeps the method.
async fn moved(State(shared): App, method: Method, headers: HeaderMap) -> Redirect {
    shared.record(&method, "/moved", &headers, b"");
    Redirect::temporary("/whoami")
}

async fn mcp(State(shared): App, method: Method, headers: HeaderMap, body: Bytes) -> Response {
    let Some(token) = shared.record(&method, "/mcp", &headers, &body) else {
        return shared.challenge();
    };
    let request: Value = serde_json::from_slice(&body).unwrap_or_default();
    let has_sessions = shared.state.lock().behaviour.has_sessions;
    let name = request["method"].as_str().unwrap_or_default();
    if name == "tools/call" {
        shared.holds_calls.subscribe().wait_for(|holds| !holds).await.ok();
    }
    let result = |mut result: Value| {
        if !has_sessions {
            result["resultType"] = json!("complete");
        }
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        Json(answer).into_response()
    };
    let failed = |code: i64| {
        let error = json!({ "code": code, "message": "unknown method" });
        Json(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error })).into_response()
    };
    if method == Method::GET {
        return StatusCode::METHOD_NOT_ALLOWED.into_response();
    }
    if has_sessions {
        let session = headers.get("mcp-session-id").and_then(|id| id.to_str().ok());
        if name == "initialize" {
            let mut state = shared.state.lock();
            let id = state.new_value("session");
            state.sessions.insert(id.clone(), token.account.clone());
            let mut answer = result(json!({
                "protocolVersion": "2025-11-25", "capabilities": { "tools": {} },
                "serverInfo": { "name": "protected", "version": "1" },
            }));
            answer.headers_mut().insert("mcp-session-id", id.parse().unwrap());
            return answer;
        }
        if name == "server/discover" {
            return failed(-32601);
        }
        let mut state = shared.state.lock();
        // A session belongs to the account that opened it.
        if session.and_then(|id| state.sessions.get(id)) != Some(&token.account) {
            return (StatusCode::NOT_FOUND, "no such session").into_response();
        }
        if method == Method::DELETE {
            state.sessions.remove(session.unwrap_or_default());
            return StatusCode::OK.into_response();
        }
    }
    let lacks_admin = || {
        let sent = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let sent = sent.and_then(|value| value.strip_prefix("Bearer "));
        let repeats = shared.state.lock().behaviour.repeats_tokens;
        let scope = sent.filter(|_| repeats).unwrap_or("admin");
        let value = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
        (StatusCode::FORBIDDEN, [(header::WWW_AUTHENTICATE, value)]).into_response()
    };
    let has_admin = token.scopes.iter().any(|it| it == "admin");
    let schema = json!({ "type": "object" });
    match name {
        "tools/list" if !has_admin && shared.state.lock().behaviour.limits_lists => lacks_admin(),
        "server/discover" => result(json!({
            "supportedVersions": ["2026-07-28"], "capabilities": { "tools": {} },
            "ttlMs": 0, "cacheScope": "private",
        })),
        "tools/list" => {
            let behaviour = shared.state.lock().behaviour.clone();
            if let Some((account, status)) = behaviour.refuses_lists
                && account == token.account
            {
                return StatusCode::from_u16(status).unwrap().into_response();
            }
            let mut tools = vec![
                json!({ "name": "whoami", "description": "says whose it is", "inputSchema": schema }),
                json!({ "name": "admin", "description": "needs a scope", "inputSchema": schema }),
            ];
            let hidden = |tool: &Value| {
                let mut hides = behaviour.hides.iter();
                hides.any(|(account, name)| *account == token.account && tool["name"] == *name)
            };
            tools.retain(|tool| !hidden(tool));
            result(json!({ "tools": tools, "ttlMs": 0, "cacheScope": "private" }))
        }
        "tools/call" => {
            if request["params"]["name"] == "admin" && !has_admin {
                return lacks_admin();
            }
            let content = json!([{ "type": "text", "text": token.account }]);
            result(json!({ "content": content }))
        }
        _ if request["id"].is_null() => StatusCode::ACCEPTED.into_response(),
        _ => failed(-32601),
    }
}
