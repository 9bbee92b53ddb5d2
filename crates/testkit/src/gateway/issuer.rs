//! An issuer of tokens on a real socket, with real keys and selectable faults.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use aws_lc_rs::{
    encoding::AsDer as _,
    hmac,
    rand::SystemRandom,
    rsa::KeySize,
    signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
        RSA_PKCS1_SHA256, RsaKeyPair,
    },
};
use axum::{
    Router,
    extract::State,
    response::Response,
    routing::{get, post},
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use http::{StatusCode, header};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use toolcrib_core::clock::Timestamp;

/// Serves `/.well-known/openid-configuration`, `/jwks` and `/token`, and signs tokens.
pub struct TestIssuer {
    /// `http://127.0.0.1:PORT`, which is also the `iss` of its tokens.
    pub url: String,
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

struct Shared {
    url: String,
    keys: Mutex<Vec<TestKey>>,
    behaviour: Mutex<Behaviour>,
    asked: AtomicUsize,
    /// The answer of the token endpoint.
    token: Mutex<(u16, String)>,
    /// The forms that the token endpoint got.
    forms: Mutex<Vec<String>>,
    /// Members that replace those of the discovery document.
    described: Mutex<Value>,
}

/// The behaviour of `/jwks`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Behaviour {
    /// Returns the keys.
    Good,
    /// Returns status 500.
    Failing,
    /// Never responds.
    Silent,
    /// Returns more than the size limit.
    Huge,
    /// Redirects to another address.
    Redirecting(String),
    /// Discovery names this address for the keys.
    Elsewhere(String),
    /// Discovery belongs to another issuer.
    Another,
}

/// A signing key; clones share it.
#[derive(Clone)]
pub struct TestKey {
    /// Its id in the set.
    pub kid: String,
    pair: Arc<Pair>,
}

enum Pair {
    Ec(EcdsaKeyPair),
    Rsa(RsaKeyPair),
    Ed(Ed25519KeyPair),
}

// === impl TestIssuer ===

impl TestIssuer {
    /// Starts the issuer, with one elliptic key called `first`.
    pub async fn start() -> Self {
        Self::described_at("/.well-known/openid-configuration").await
    }

    /// Starts an issuer that has only the description of RFC 8414.
    pub async fn start_without_openid() -> Self {
        Self::described_at("/.well-known/oauth-authorization-server").await
    }

    async fn described_at(path: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared {
            url: url.clone(),
            keys: Mutex::new(vec![TestKey::ec("first")]),
            behaviour: Mutex::new(Behaviour::Good),
            asked: AtomicUsize::new(0),
            token: Mutex::new((500, String::new())),
            forms: Mutex::default(),
            described: Mutex::new(json!({})),
        });
        let router = Router::new()
            .route(path, get(discovery))
            .route("/jwks", get(jwks))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared));
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, shared, server }
    }

    /// Returns `[auth.jwt]` with this issuer, the audience `crib`, the tenant from a claim, and
    /// `more`.
    pub fn config(&self, more: &str) -> String {
        self.config_with_claims("tenant = \"org.id\"", more)
    }

    /// Returns the same with `roles` from the claim `https://crib/roles`.
    pub fn config_with_roles(&self, roles: &[&str], more: &str) -> String {
        let claims = "tenant = \"org.id\", roles = \"/https:~1~1crib~1roles\"";
        self.config_with_claims(claims, &format!("roles = {}\n{more}", json!(roles)))
    }

    fn config_with_claims(&self, claims: &str, more: &str) -> String {
        format!(
            "[[auth.jwt]]\nissuer = \"{}\"\naudiences = [\"crib\"]\nprincipal_prefix = \"id|\"\n\
             claims = {{ {claims} }}\n{more}\n",
            self.url
        )
    }

    /// Returns the claims of a valid token at `now`: `ann` of the tenant `acme` with the scope
    /// `files:read`.
    pub fn claims(&self, now: Timestamp) -> Value {
        json!({
            "iss": self.url,
            "aud": ["crib", "other"],
            "sub": "ann",
            "org": { "id": "acme" },
            "scope": "openid files:read",
            "exp": now.timestamp() + 300,
            "iat": now.timestamp(),
        })
    }

    /// Returns `claims`, signed with the newest key.
    pub fn sign(&self, claims: &Value) -> String {
        self.shared.keys.lock().last().unwrap().sign(claims)
    }

    /// Replaces the keys.
    pub fn rotate(&self, keys: Vec<TestKey>) {
        *self.shared.keys.lock() = keys;
    }

    /// Changes the behaviour.
    pub fn behave(&self, behaviour: Behaviour) {
        *self.shared.behaviour.lock() = behaviour;
    }

    /// Sets the answer of the token endpoint.
    pub fn answers(&self, status: u16, body: impl Into<String>) {
        *self.shared.token.lock() = (status, body.into());
    }

    /// Returns the forms that the token endpoint got.
    pub fn forms(&self) -> Vec<String> {
        self.shared.forms.lock().clone()
    }

    /// Replaces members of the discovery document.
    pub fn describes(&self, members: Value) {
        *self.shared.described.lock() = members;
    }

    /// Returns the number of requests to `/jwks`.
    pub fn requests(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }

    /// Returns the public part of the newest key, as in the set.
    pub fn public(&self) -> Value {
        self.shared.keys.lock().last().unwrap().public()
    }
}

impl Drop for TestIssuer {
    fn drop(&mut self) {
        self.server.abort();
    }
}

// === impl TestKey ===

impl TestKey {
    /// Creates a key on P-256.
    pub fn ec(kid: &str) -> Self {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap();
        Self::of(kid, Pair::Ec(pair))
    }

    /// Creates a key of 2048 bits.
    pub fn rsa(kid: &str) -> Self {
        Self::of(kid, Pair::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).unwrap()))
    }

    /// Creates a key on Curve25519.
    pub fn ed(kid: &str) -> Self {
        Self::of(kid, Pair::Ed(Ed25519KeyPair::generate().unwrap()))
    }

    fn of(kid: &str, pair: Pair) -> Self {
        Self { kid: kid.to_owned(), pair: Arc::new(pair) }
    }

    /// Returns the `alg` of its tokens.
    pub fn algorithm(&self) -> &'static str {
        match *self.pair {
            Pair::Ec(_) => "ES256",
            Pair::Rsa(_) => "RS256",
            Pair::Ed(_) => "EdDSA",
        }
    }

    /// Returns a token with `claims`.
    pub fn sign(&self, claims: &Value) -> String {
        let header = json!({ "alg": self.algorithm(), "typ": "at+jwt", "kid": self.kid });
        self.sign_as(&header.to_string(), &claims.to_string())
    }

    /// Returns a token with these texts as header and claims.
    pub fn sign_as(&self, header: &str, claims: &str) -> String {
        compact(header, claims, |message| self.signature(message))
    }

    fn signature(&self, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match &*self.pair {
            Pair::Ec(pair) => pair.sign(&random, message).unwrap().as_ref().to_vec(),
            Pair::Ed(pair) => pair.sign(message).as_ref().to_vec(),
            Pair::Rsa(pair) => {
                let mut signature = vec![0; pair.public_modulus_len()];
                pair.sign(&RSA_PKCS1_SHA256, &random, message, &mut signature).unwrap();
                signature
            }
        }
    }

    /// Returns the raw public part: a point, a key, or a `SubjectPublicKeyInfo`.
    pub fn public_bytes(&self) -> Vec<u8> {
        match &*self.pair {
            Pair::Ec(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Ed(pair) => pair.public_key().as_ref().to_vec(),
            Pair::Rsa(pair) => pair.public_key().as_der().unwrap().as_ref().to_vec(),
        }
    }

    /// Returns the public part, as in a set.
    pub fn public(&self) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        let mut key = match &*self.pair {
            Pair::Ec(pair) => {
                let point = pair.public_key().as_ref();
                let (x, y) = (text(&point[1..33]), text(&point[33..65]));
                json!({ "kty": "EC", "crv": "P-256", "x": x, "y": y })
            }
            Pair::Ed(pair) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "x": text(pair.public_key().as_ref()) })
            }
            // RSAPublicKey in DER: a sequence, the modulus with a zero before it, the exponent.
            Pair::Rsa(pair) => {
                json!({ "kty": "RSA", "n": text(&pair.public_key().as_ref()[9..265]), "e": "AQAB" })
            }
        };
        key["kid"] = json!(self.kid);
        key["use"] = json!("sig");
        key
    }
}

/// Returns a token with a signature made with `secret`.
pub fn sign_hs256(secret: &[u8], claims: &Value) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let header = r#"{"alg":"HS256","typ":"JWT"}"#;
    compact(header, &claims.to_string(), |message| hmac::sign(&key, message).as_ref().to_vec())
}

/// Returns a token with these texts, signed by `sign`.
pub fn compact(header: &str, claims: &str, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let encoded = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let message = format!("{}.{}", encoded(header), encoded(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
    format!("{message}.{signature}")
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Response {
    let behaviour = shared.behaviour.lock().clone();
    let (mut issuer, mut keys) = (shared.url.clone(), format!("{}/jwks", shared.url));
    match behaviour {
        Behaviour::Another => issuer.push_str("/other"),
        Behaviour::Elsewhere(address) => keys = address,
        _ => {}
    }
    let mut document = json!({
        "issuer": issuer,
        "jwks_uri": keys,
        "authorization_endpoint": format!("{}/authorize?fixed=1", shared.url),
        "token_endpoint": format!("{}/token", shared.url),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    });
    if let Some(members) = shared.described.lock().as_object() {
        for (name, value) in members {
            document[name] = value.clone();
        }
    }
    answer(&document.to_string())
}

async fn token(State(shared): State<Arc<Shared>>, form: String) -> Response {
    shared.forms.lock().push(form);
    let (status, body) = shared.token.lock().clone();
    Response::builder().status(status).body(axum::body::Body::from(body)).unwrap()
}

async fn jwks(State(shared): State<Arc<Shared>>) -> Response {
    shared.asked.fetch_add(1, Ordering::SeqCst);
    let behaviour = shared.behaviour.lock().clone();
    let bare = |status: StatusCode| Response::builder().status(status);
    match behaviour {
        Behaviour::Failing => {
            bare(StatusCode::INTERNAL_SERVER_ERROR).body(axum::body::Body::empty()).unwrap()
        }
        Behaviour::Silent => std::future::pending().await,
        Behaviour::Huge => answer(&format!("{{\"keys\":[],\"x\":\"{}\"}}", "x".repeat(1 << 20))),
        Behaviour::Redirecting(to) => bare(StatusCode::FOUND)
            .header(header::LOCATION, to)
            .body(axum::body::Body::empty())
            .unwrap(),
        Behaviour::Good | Behaviour::Elsewhere(_) | Behaviour::Another => {
            let keys: Vec<Value> = shared.keys.lock().iter().map(TestKey::public).collect();
            answer(&json!({ "keys": keys }).to_string())
        }
    }
}

fn answer(json: &str) -> Response {
    Response::builder()
        .header(header::CONTENT_TYPE, "application/json")
        .body(axum::body::Body::from(json.to_owned()))
        .unwrap()
}
