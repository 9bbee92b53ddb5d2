//! An identity provider on a real socket, which registers no clients: authorization codes with PKCE
//! and a nonce, a client with a secret, and refresh tokens that are valid once. It also serves the
//! document of a client.
//!
//! The browser is a client that does not follow redirects: `/authorize` signs in the person of
//! [`TestProvider::sign_in`] at once.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use axum::{
    Json, Router,
    extract::{RawQuery, State},
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use base64::{
    Engine as _,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use chrono::Utc;
use http::{HeaderMap, StatusCode, Uri, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};
use url::form_urlencoded;

use super::TestKey;

/// The provider; dropping it ends it.
pub struct TestProvider {
    /// `http://127.0.0.1:PORT`, which is also the `iss` of its tokens.
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    url: String,
    key: TestKey,
    state: Mutex<Present>,
    /// Whether the answers of the token endpoint wait.
    holds: watch::Sender<bool>,
}

#[derive(Default)]
struct Present {
    person: String,
    left: HashSet<String>,
    is_down: bool,
    next: u64,
    codes: HashMap<String, Sent>,
    /// The person of each refresh token, and whether it was used.
    refresh: HashMap<String, (String, bool)>,
    /// The queries of authorization requests and the forms of token requests.
    requests: Vec<BTreeMap<String, String>>,
    replays: u64,
    /// Members that replace those of ID tokens.
    claims: Value,
    /// Members that replace those of the client's document.
    document: Value,
    /// The status of answers to requests for the document, in place of the document.
    document_status: Option<u16>,
    /// Requests for the document, at both of its addresses.
    fetches: usize,
    /// The answer to renewals, in place of its own.
    renewal: Option<Value>,
}

/// An authorization request.
struct Sent {
    person: String,
    query: BTreeMap<String, String>,
}

// === impl TestProvider ===

impl TestProvider {
    /// The client that the operator registered.
    pub const CLIENT: &str = "crib-client";
    /// Its secret.
    pub const SECRET: &str = "provider-secret-canary";
    /// The address of the gateway, as the provider and clients know it.
    pub const PUBLIC: &str = "https://crib.example";

    /// Starts on a free port, with the person `ann`.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state = Present { person: "ann".to_owned(), ..Present::default() };
        let shared = Arc::new(Shared {
            url: url.clone(),
            key: TestKey::ec("p"),
            state: Mutex::new(state),
            holds: watch::Sender::new(false),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/jwks", get(jwks))
            .route("/authorize", get(authorize))
            .route("/token", post(token))
            .route("/client.json", get(document))
            .route("/moved.json", get(document))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, server }
    }

    /// Returns the configuration of a gateway with this provider, which needs the secret
    /// `PROVIDER`. `more` belongs to `[auth.bridge]`.
    pub fn config(&self, more: &str) -> String {
        let (url, public, client) = (&self.url, Self::PUBLIC, Self::CLIENT);
        format!(
            "[server]\npublic_url = \"{public}\"\n\
             [[auth.jwt]]\nissuer = \"{url}\"\naudiences = [\"{public}\"]\n\
             principal_prefix = \"id|\"\ntenant = \"acme\"\n\
             [auth.bridge]\nissuer = \"{url}\"\nclient_id = \"{client}\"\n\
             client_secret = {{ env = \"PROVIDER\" }}\nscopes = [\"offline_access\"]\n{more}\n"
        )
    }

    /// The id of the client whose document this server has.
    pub fn document_id(&self) -> String {
        format!("{}/client.json", self.url)
    }

    /// Sets the person who signs in.
    pub fn sign_in(&self, person: &str) {
        person.clone_into(&mut self.shared.state.lock().person);
    }

    /// Refuses a person from now on.
    pub fn leave(&self, person: &str) {
        self.shared.state.lock().left.insert(person.to_owned());
    }

    /// Answers token requests with status 503, or again as usual.
    pub fn set_down(&self, is_down: bool) {
        self.shared.state.lock().is_down = is_down;
    }

    /// Makes the answers of the token endpoint wait after it has done its work, or lets them go.
    pub fn hold_tokens(&self, holds: bool) {
        self.shared.holds.send_replace(holds);
    }

    /// Answers renewals with `answer`, or again with its own tokens.
    pub fn answer_renewals(&self, answer: Option<Value>) {
        self.shared.state.lock().renewal = answer;
    }

    /// Replaces members of ID tokens.
    pub fn claim(&self, members: Value) {
        self.shared.state.lock().claims = members;
    }

    /// Replaces members of the client's document.
    pub fn describe(&self, members: Value) {
        self.shared.state.lock().document = members;
    }

    /// Answers requests for the client's document with `status` and the address `/moved.json`,
    /// which has the document, or again with the document itself.
    pub fn answer_documents(&self, status: Option<u16>) {
        self.shared.state.lock().document_status = status;
    }

    /// Returns how often the client's document was requested, at `/moved.json` too.
    pub fn fetches(&self) -> usize {
        self.shared.state.lock().fetches
    }

    /// Returns the parameters of all requests so far.
    pub fn requests(&self) -> Vec<BTreeMap<String, String>> {
        self.shared.state.lock().requests.clone()
    }

    /// Returns how often a refresh token was sent that had been used.
    pub fn replays(&self) -> u64 {
        self.shared.state.lock().replays
    }

    /// Returns a token with this `typ` and these claims, signed by the provider.
    pub fn sign(&self, kind: &str, claims: &Value) -> String {
        let key = &self.shared.key;
        let header = json!({ "alg": key.algorithm(), "typ": kind, "kid": key.kid });
        key.sign_as(&header.to_string(), &claims.to_string())
    }
}

impl Drop for TestProvider {
    fn drop(&mut self) {
        self.server.abort();
    }
}

// === impl Present ===

impl Present {
    fn fresh(&mut self, what: &str) -> String {
        self.next += 1;
        format!("provider-{what}-canary-{}", self.next)
    }
}

impl Shared {
    /// The answer with an ID token and the next refresh token.
    fn answer(&self, state: &mut Present, person: &str, nonce: Option<&String>) -> Response {
        let now = Utc::now().timestamp();
        let mut claims = json!({
            "iss": self.url, "aud": TestProvider::CLIENT, "sub": person, "scope": "files:read",
            "hd": "acme.example", "iat": now - 60, "exp": now + 3_600,
        });
        if let Some(nonce) = nonce {
            claims["nonce"] = json!(nonce);
        }
        replace(&mut claims, &state.claims);
        let refresh = state.fresh("refresh");
        state.refresh.insert(refresh.clone(), (person.to_owned(), false));
        let access = state.fresh("access");
        Json(json!({
            "token_type": "Bearer", "access_token": access, "expires_in": 300,
            "id_token": self.key.sign(&claims), "refresh_token": refresh,
        }))
        .into_response()
    }
}

fn replace(value: &mut Value, members: &Value) {
    for (name, member) in members.as_object().into_iter().flatten() {
        value[name] = member.clone();
    }
}

fn pairs(text: &str) -> BTreeMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

fn refused(code: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": code }))).into_response()
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let url = &shared.url;
    Json(json!({
        "issuer": url,
        "jwks_uri": format!("{url}/jwks"),
        "authorization_endpoint": format!("{url}/authorize"),
        "token_endpoint": format!("{url}/token"),
        "authorization_response_iss_parameter_supported": true,
    }))
}

async fn jwks(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(json!({ "keys": [shared.key.public()] }))
}

async fn document(State(shared): State<Arc<Shared>>, uri: Uri) -> Response {
    let mut state = shared.state.lock();
    state.fetches += 1;
    if let Some(status) = state.document_status.filter(|_| uri.path() == "/client.json") {
        let status = StatusCode::from_u16(status).unwrap();
        return (status, [(header::LOCATION, "/moved.json")]).into_response();
    }
    let mut document = json!({
        "client_id": format!("{}/client.json", shared.url),
        "client_name": "An <app>",
        "redirect_uris": ["http://127.0.0.1/cb"],
        "token_endpoint_auth_method": "none",
    });
    replace(&mut document, &state.document);
    Json(document).into_response()
}

async fn authorize(State(shared): State<Arc<Shared>>, RawQuery(query): RawQuery) -> Redirect {
    let query = pairs(&query.unwrap());
    let mut state = shared.state.lock();
    state.requests.push(query.clone());
    let code = state.fresh("code");
    let mut back = url::Url::parse(&query["redirect_uri"]).unwrap();
    back.query_pairs_mut()
        .append_pair("code", &code)
        .append_pair("state", &query["state"])
        .append_pair("iss", &shared.url);
    let person = state.person.clone();
    state.codes.insert(code, Sent { person, query });
    Redirect::to(back.as_str())
}

async fn token(State(shared): State<Arc<Shared>>, headers: HeaderMap, form: String) -> Response {
    let answer = token_answer(&shared, &headers, &form);
    shared.holds.subscribe().wait_for(|holds| !holds).await.unwrap();
    answer
}

fn token_answer(shared: &Shared, headers: &HeaderMap, form: &str) -> Response {
    let form = pairs(form);
    let mut state = shared.state.lock();
    state.requests.push(form.clone());
    if state.is_down {
        return StatusCode::SERVICE_UNAVAILABLE.into_response();
    }
    let pair = format!("{}:{}", TestProvider::CLIENT, TestProvider::SECRET);
    let expected = format!("Basic {}", STANDARD.encode(pair));
    if headers.get(header::AUTHORIZATION).is_none_or(|sent| *sent != expected) {
        return refused("invalid_client");
    }
    if let Some(token) = form.get("refresh_token") {
        let Some((person, is_used)) = state.refresh.get_mut(token) else {
            return refused("invalid_grant");
        };
        let person = person.clone();
        if std::mem::replace(is_used, true) {
            state.replays += 1;
            return refused("invalid_grant");
        }
        return match (state.left.contains(&person), &state.renewal) {
            (true, _) => refused("invalid_grant"),
            (false, Some(answer)) => Json(answer.clone()).into_response(),
            (false, None) => shared.answer(&mut state, &person, None),
        };
    }
    let Some(sent) = form.get("code").and_then(|code| state.codes.remove(code)) else {
        return refused("invalid_grant");
    };
    let challenge = URL_SAFE_NO_PAD.encode(Sha256::digest(&form["code_verifier"]));
    let is_same = sent.query["code_challenge"] == challenge
        && sent.query["redirect_uri"] == form["redirect_uri"]
        && sent.query["code_challenge_method"] == "S256";
    match is_same && !state.left.contains(&sent.person) {
        true => shared.answer(&mut state, &sent.person, sent.query.get("nonce")),
        false => refused("invalid_grant"),
    }
}
