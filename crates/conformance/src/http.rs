//! The host under test.
//!
//! Invariant: a key is sent only to the host that the user named, and redirects are not followed.

mod exchange;
mod expect;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::BytesMut;
use reqwest::{
    header::{AUTHORIZATION, HeaderMap, HeaderValue},
    redirect,
};
use toolcrib_core::{credential::Secret, egress::is_loopback};
use url::Url;

pub use exchange::HostKeys;
pub(crate) use exchange::{Request, Response, UNKNOWN_TOKEN};

use crate::result::{CheckResult, fail};
use exchange::{Exchange, masked};

/// Size limit of a response body.
const MAX_BODY: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of requests in one run over all protocols; it stops a check that loops.
const MAX_REQUESTS: usize = 2000;
/// The host under test.
pub struct Host {
    http: reqwest::Client,
    base: String,
    is_loopback: bool,
    keys: HostKeys,
    /// Responses to the requests of [`Host::send_once`].
    cached: Mutex<HashMap<String, Response>>,
    sent: AtomicUsize,
}

// === impl Host ===

impl Host {
    /// Creates a client of the host at `base`.
    pub fn new(base: &Url, keys: HostKeys) -> Result<Self, reqwest::Error> {
        Self::with_options(base, keys, |builder| builder)
    }

    /// Creates a client with more options, such as the authorities that it trusts.
    pub fn with_options(
        base: &Url,
        keys: HostKeys,
        options: impl FnOnce(reqwest::ClientBuilder) -> reqwest::ClientBuilder,
    ) -> Result<Self, reqwest::Error> {
        let is_loopback = is_loopback(base);
        #[expect(
            clippy::disallowed_methods,
            reason = "a client of the host under test, not of an upstream"
        )]
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_TIMEOUT)
            .timeout(TIMEOUT)
            .user_agent(concat!("toolcrib-conformance/", env!("CARGO_PKG_VERSION")));
        if is_loopback {
            builder = builder.no_proxy();
        }
        Ok(Self {
            http: options(builder).build()?,
            base: base.as_str().trim_end_matches('/').to_owned(),
            is_loopback,
            keys,
            cached: Mutex::default(),
            sent: AtomicUsize::new(0),
        })
    }

    /// The base URL without a trailing slash.
    pub fn base(&self) -> &str {
        &self.base
    }

    pub fn is_loopback(&self) -> bool {
        self.is_loopback
    }

    /// Fails with the reason if no connection to the host is possible.
    pub async fn connect(&self) -> Result<(), String> {
        match self.http.get(&self.base).send().await {
            Err(error) if error.is_connect() || error.is_timeout() => Err(root_cause(error)),
            // The checks judge an invalid response.
            _ => Ok(()),
        }
    }

    pub(crate) fn has_key(&self) -> bool {
        self.keys.first.is_some()
    }

    pub(crate) fn has_second_key(&self) -> bool {
        self.keys.second.is_some()
    }

    /// Returns the first key, for checks that send it in other ways.
    pub(crate) fn key_text(&self) -> Option<&str> {
        self.keys.first.as_ref().map(Secret::expose)
    }

    /// Like [`send`](Self::send), but sends equal requests only once per run.
    pub(crate) async fn send_once(&self, request: Request) -> CheckResult<Response> {
        let name = format!("{request:?}");
        let cached = || self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(response) = cached().get(&name) {
            return Ok(Arc::clone(response));
        }
        let response = self.send(request).await?;
        cached().insert(name, Arc::clone(&response));
        Ok(response)
    }

    /// Sends `request`; fails the check if there is no response.
    pub(crate) async fn send(&self, request: Request) -> CheckResult<Response> {
        let (status, headers, body, error) = match self.exchange(&request).await {
            Ok((status, headers, body)) => (status, headers, body, None),
            Err(error) => (0, HeaderMap::new(), Vec::new(), Some(error)),
        };
        let response = Arc::new(Exchange {
            request: request.masked(&self.keys),
            status,
            headers,
            json: serde_json::from_slice(&body).ok(),
            body,
            keys: self.keys.all().cloned().collect(),
        });
        match error {
            None => Ok(response),
            Some(error) => fail("a response", error, &[&response]),
        }
    }

    async fn exchange(&self, request: &Request) -> Result<(u16, HeaderMap, Vec<u8>), String> {
        if self.sent.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            return Err(format!("the run exceeds {MAX_REQUESTS} requests"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &request.headers {
            let value = HeaderValue::from_str(value);
            let value =
                value.map_err(|_| format!("the value of `{name}` is not a valid header"))?;
            headers.append(name, value);
        }
        if let Some(key) = self.keys.get(request.key) {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| "the API key contains invalid characters".to_owned())?;
            value.set_sensitive(true);
            headers.insert(AUTHORIZATION, value);
        }
        let url = Url::parse(&format!("{}{}", self.base, request.path));
        let url = url.map_err(|_| "the path does not form a URL".to_owned())?;
        let mut builder = self.http.request(request.method.clone(), url).headers(headers);
        if let Some(body) = request.body.clone() {
            builder = builder.body(body);
        }
        let no_response = |error| format!("no response: {}", root_cause(error));
        let mut response = builder.send().await.map_err(no_response)?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let incomplete = |error| format!("an incomplete response: {}", root_cause(error));
        let mut body = BytesMut::new();
        while !request.is_enough.is_some_and(|is_enough| is_enough(&body)) {
            let Some(chunk) = response.chunk().await.map_err(incomplete)? else { break };
            if body.len() + chunk.len() > MAX_BODY {
                return Err("a response larger than 16 MiB".to_owned());
            }
            body.extend_from_slice(&chunk);
        }
        Ok((status, headers, body.to_vec()))
    }

    /// Masks all keys in `text`.
    pub(crate) fn masked(&self, text: &str) -> String {
        masked(text, self.keys.all())
    }
}

/// The innermost cause of `error`, without the URL, which the user knows.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}
