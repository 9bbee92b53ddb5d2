//! Requests to the host under test and its responses.
//!
//! Invariant: a key is sent only to the host that the user named, redirects are not followed, and
//! no report contains a key.

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
    Method,
    header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use serde_json::{Value, json};
use toolcrib_core::credential::Secret;
use url::Url;

use crate::{CheckResult, fail, require, schema, value::duplicate};

/// Size limit of a response body.
const MAX_BODY: usize = 16 << 20;
/// How many characters of a body a report contains.
const SHOWN: usize = 4096;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(30);
/// Limit of requests in one run over all protocols; it stops a check that loops.
const MAX_REQUESTS: usize = 2000;
/// Headers whose value is a credential.
const CREDENTIAL_HEADERS: [&str; 5] =
    ["authorization", "x-api-key", "otc-api-key", "oxp-api-key", "cookie"];
const MASK: &str = "***";
/// A bearer token that no host has issued.
pub(crate) const UNKNOWN_TOKEN: &str = "conformance_not_a_real_key_12345";

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

/// The API keys for the host.
#[derive(Debug, Default)]
pub struct HostKeys {
    pub first: Option<Secret>,
    /// The key of another principal.
    pub second: Option<Secret>,
}

/// A request to the host.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    method: Method,
    /// Path and query, relative to the base URL; sent without further encoding.
    path: String,
    headers: Vec<(HeaderName, String)>,
    body: Option<Vec<u8>>,
    key: KeyChoice,
    /// Returns whether enough of the response body was received; without it, all of it is read.
    is_enough: Option<fn(&[u8]) -> bool>,
}

/// The key that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyChoice {
    None,
    First,
    Second,
}

/// A request and the response to it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The request with masked credentials.
    request: Request,
    /// 0 if there was no response.
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    json: Option<Value>,
    /// The keys to mask in reports.
    keys: Vec<Secret>,
}

/// A response, with its request for the report.
pub(crate) type Response = Arc<Exchange>;

// === impl Host ===

impl Host {
    /// Creates a client of the host at `base`.
    pub fn new(base: &Url, keys: HostKeys) -> Result<Self, reqwest::Error> {
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
            http: builder.build()?,
            base: base.as_str().trim_end_matches('/').to_owned(),
            is_loopback,
            keys,
            cached: Mutex::default(),
            sent: AtomicUsize::new(0),
        })
    }

    /// Returns the base URL without a trailing slash.
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

    /// Returns `text` with all keys masked.
    pub(crate) fn masked(&self, text: &str) -> String {
        masked(text, self.keys.all())
    }
}

impl HostKeys {
    fn get(&self, choice: KeyChoice) -> Option<&Secret> {
        match choice {
            KeyChoice::None => None,
            KeyChoice::First => self.first.as_ref(),
            KeyChoice::Second => self.second.as_ref(),
        }
    }

    fn all(&self) -> impl Iterator<Item = &Secret> {
        [&self.first, &self.second].into_iter().flatten()
    }
}

// === impl Request ===

impl Request {
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let (headers, body, key) = (Vec::new(), None, KeyChoice::None);
        Self { method, path: path.into(), headers, body, key, is_enough: None }
    }

    /// Adds the first key, if there is one.
    #[must_use]
    pub(crate) fn with_key(self) -> Self {
        Self { key: KeyChoice::First, ..self }
    }

    #[must_use]
    pub(crate) fn with_second_key(self) -> Self {
        Self { key: KeyChoice::Second, ..self }
    }

    /// Adds a bearer token that no host has issued.
    #[must_use]
    pub(crate) fn with_unknown_key(self) -> Self {
        self.header("authorization", format!("Bearer {UNKNOWN_TOKEN}"))
    }

    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((HeaderName::from_static(name), value.into()));
        self
    }

    /// Sets the body without a content type.
    #[must_use]
    pub(crate) fn body(self, body: impl Into<Vec<u8>>) -> Self {
        Self { body: Some(body.into()), ..self }
    }

    /// Sets a body of the content type `application/json`; `text` may be invalid JSON.
    #[must_use]
    pub(crate) fn json_text(self, text: impl Into<Vec<u8>>) -> Self {
        self.header("content-type", "application/json").body(text)
    }

    #[must_use]
    pub(crate) fn json(self, body: &Value) -> Self {
        self.json_text(body.to_string())
    }

    /// Reads the response body only until `is_enough`, and then closes the connection.
    #[must_use]
    pub(crate) fn read_until(self, is_enough: fn(&[u8]) -> bool) -> Self {
        Self { is_enough: Some(is_enough), ..self }
    }

    /// Removes credentials for the report.
    fn masked(mut self, keys: &HostKeys) -> Self {
        for (name, value) in &mut self.headers {
            if CREDENTIAL_HEADERS.contains(&name.as_str()) {
                let scheme = value.split_once(' ').map(|(scheme, _)| format!("{scheme} "));
                *value = format!("{}{MASK}", scheme.unwrap_or_default());
            }
        }
        if keys.get(self.key).is_none() {
            self.key = KeyChoice::None;
        }
        self
    }
}

// === impl Exchange ===

impl Exchange {
    pub(crate) fn status(&self) -> u16 {
        self.status
    }

    /// Returns the first header called `name`, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// Returns the first header called `name`; empty if it is missing or not text.
    pub(crate) fn header_text(&self, name: &str) -> &str {
        self.header(name).unwrap_or_default()
    }

    /// Returns all headers except those that differ between equal responses.
    pub(crate) fn stable_headers(&self) -> Vec<(String, String)> {
        const UNSTABLE: [&str; 6] =
            ["date", "age", "x-request-id", "request-id", "traceparent", "server-timing"];
        let stable = self.headers.iter().filter(|(name, _)| !UNSTABLE.contains(&name.as_str()));
        let mut stable: Vec<(String, String)> = stable
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        stable.sort();
        stable
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Returns the body as JSON, or `null` if it is not JSON.
    pub(crate) fn value(&self) -> &Value {
        self.json.as_ref().unwrap_or(&Value::Null)
    }

    /// Returns the body as JSON; fails the check if it is not JSON.
    pub(crate) fn json(self: &Arc<Self>) -> CheckResult<&Value> {
        match &self.json {
            Some(json) => Ok(json),
            None => fail("a JSON body", "a body that is not JSON", &[self]),
        }
    }

    /// Returns the content type in lower case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let content_type = self.header_text("content-type").to_ascii_lowercase();
        content_type.split(';').next().unwrap_or_default().trim().to_owned()
    }

    pub(crate) fn has_json_type(&self) -> bool {
        let media_type = self.media_type();
        media_type == "application/json" || media_type.ends_with("+json")
    }

    /// Returns whether the host rejects the credentials of the request, or requires some.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    pub(crate) fn is_client_error(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// Fails the check unless `holds`.
    pub(crate) fn expect(
        self: &Arc<Self>,
        holds: bool,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) -> CheckResult {
        require(holds, expected, seen, &[self])
    }

    /// Fails the check unless the status is one of `expected`.
    pub(crate) fn expect_status(self: &Arc<Self>, expected: &[u16]) -> CheckResult {
        let names: Vec<String> = expected.iter().map(u16::to_string).collect();
        self.expect(
            expected.contains(&self.status),
            format!("status {}", names.join(" or ")),
            format!("status {}", self.status),
        )
    }

    /// Fails the check unless the status is from 400 to 499.
    pub(crate) fn expect_client_error(self: &Arc<Self>) -> CheckResult {
        let seen = format!("status {}", self.status);
        self.expect(self.is_client_error(), "a status from 400 to 499", seen)
    }

    /// Fails the check unless the content type is JSON.
    pub(crate) fn expect_json_type(self: &Arc<Self>) -> CheckResult {
        let seen = self.header("content-type").map(|kind| format!("content type `{kind}`"));
        let seen = seen.unwrap_or_else(|| "no content type".to_owned());
        self.expect(self.has_json_type(), "content type `application/json`", seen)
    }

    /// Fails the check unless `value`, a part of the body, is valid against `schema`.
    pub(crate) fn expect_valid(
        self: &Arc<Self>,
        value: &Value,
        schema: &Value,
        expected: impl Into<String>,
    ) -> CheckResult {
        match schema::violation(schema, value) {
            None => Ok(()),
            Some(violation) => fail(expected, violation, &[self]),
        }
    }

    /// Fails the check unless `names` are unique.
    pub(crate) fn expect_unique<'a>(
        self: &Arc<Self>,
        names: impl Iterator<Item = &'a str>,
        expected: &str,
    ) -> CheckResult {
        let duplicate = duplicate(names);
        let seen = format!("`{}` twice", duplicate.unwrap_or_default());
        self.expect(duplicate.is_none(), expected, seen)
    }

    /// Fails the check with the first problem that `problem` finds in one of `tools`.
    pub(crate) fn expect_no_problem(
        self: &Arc<Self>,
        tools: &[Value],
        name: fn(&Value) -> &str,
        expected: &str,
        problem: impl Fn(&Value) -> Option<String>,
    ) -> CheckResult {
        match tools.iter().find_map(|tool| Some((name(tool), problem(tool)?))) {
            Some((name, problem)) => fail(expected, format!("`{name}`: {problem}"), &[self]),
            None => Ok(()),
        }
    }

    /// Fails the check unless the response has the challenge `WWW-Authenticate: Bearer`.
    pub(crate) fn expect_bearer_challenge(self: &Arc<Self>) -> CheckResult {
        let challenge = self.header("www-authenticate");
        let is_bearer =
            |text: &str| text.split([' ', ',']).any(|word| word.eq_ignore_ascii_case("bearer"));
        let expected = "`WWW-Authenticate: Bearer`";
        self.expect(challenge.is_some_and(is_bearer), expected, challenge.unwrap_or("none"))
    }

    /// Fails the check unless `details.retryAfterMs` agrees with `Retry-After`.
    pub(crate) fn expect_same_delay(self: &Arc<Self>, seconds: u64, millis: u64) -> CheckResult {
        let agrees = millis.abs_diff(seconds.saturating_mul(1000)) <= 1500;
        let seen = format!("{seconds} s and {millis} ms");
        self.expect(agrees, "`retryAfterMs` within 1.5 s of `Retry-After`", seen)
    }

    /// Fails the check unless the response is equal to `other` as far as a caller can see.
    pub(crate) fn expect_indistinguishable(self: &Arc<Self>, other: &Response) -> CheckResult {
        let seen = if self.status != other.status {
            format!("status {} and {}", self.status, other.status)
        } else if self.body != other.body {
            "different bodies".to_owned()
        } else if self.stable_headers() != other.stable_headers() {
            "different headers".to_owned()
        } else {
            return Ok(());
        };
        fail("two indistinguishable responses", seen, &[self, other])
    }

    /// Returns the exchange for programs.
    pub(crate) fn to_json(&self) -> Value {
        let body = self.request.body.as_deref().map(|body| self.shown(body));
        json!({
            "request": {
                "line": self.request_line(), "headers": self.request_headers(), "body": body,
            },
            "response": match self.status {
                0 => Value::Null,
                status => json!({
                    "status": status,
                    "headers": self.response_headers(),
                    "body": self.shown(&self.body),
                }),
            },
        })
    }

    /// Returns the exchange for people.
    pub(crate) fn to_text(&self) -> String {
        let mut lines = Vec::new();
        let mut add = |mark: &str, text: &str| {
            lines.extend(text.lines().map(|line| format!("{mark} {line}\n")));
        };
        add(">", &self.request_line());
        self.request_headers().iter().for_each(|header| add(">", header));
        if let Some(body) = &self.request.body {
            add(">", &self.shown(body));
        }
        if self.status != 0 {
            add("<", &format!("status {}", self.status));
            self.response_headers().iter().for_each(|header| add("<", header));
            add("<", &self.shown(&self.body));
        }
        lines.concat()
    }

    fn request_line(&self) -> String {
        self.masked(&format!("{} {}", self.request.method, self.request.path))
    }

    fn request_headers(&self) -> Vec<String> {
        let key = match self.request.key {
            KeyChoice::None => None,
            KeyChoice::First => Some(format!("authorization: Bearer {MASK} (key)")),
            KeyChoice::Second => Some(format!("authorization: Bearer {MASK} (second key)")),
        };
        let headers = self.request.headers.iter().map(|(name, value)| format!("{name}: {value}"));
        key.into_iter().chain(headers).collect()
    }

    fn response_headers(&self) -> Vec<String> {
        let line = |(name, value): (&HeaderName, &HeaderValue)| {
            self.masked(&format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
        };
        self.headers.iter().map(line).collect()
    }

    /// Returns the start of `body` with masked keys.
    fn shown(&self, body: &[u8]) -> String {
        let text = self.masked(&String::from_utf8_lossy(body));
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => {
                format!("{}… ({} bytes)", text.get(..end).unwrap_or_default(), body.len())
            }
            None => text,
        }
    }

    fn masked(&self, text: &str) -> String {
        masked(text, &self.keys)
    }
}

fn masked<'a>(text: &str, keys: impl IntoIterator<Item = &'a Secret>) -> String {
    keys.into_iter().fold(text.to_owned(), |text, key| text.replace(key.expose(), MASK))
}

/// Returns the innermost cause of `error`, without the URL, which the user knows.
fn root_cause(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut cause: &dyn std::error::Error = &error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
