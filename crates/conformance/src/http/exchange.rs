//! Requests to the host under test, and its responses.
//!
//! Invariant: no report contains a key.

use std::sync::Arc;

use reqwest::{
    Method,
    header::{HeaderMap, HeaderName, HeaderValue},
};
use serde_json::{Value, json};
use toolcrib_core::credential::Secret;

/// How many characters of a body a report contains.
const SHOWN: usize = 4096;
/// Headers whose value is a credential.
const CREDENTIAL_HEADERS: [&str; 5] =
    ["authorization", "x-api-key", "otc-api-key", "oxp-api-key", "cookie"];
const MASK: &str = "***";
/// A bearer token that no host has issued.
pub(crate) const UNKNOWN_TOKEN: &str = "conformance_not_a_real_key_12345";

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
    pub(super) method: Method,
    /// Path and query, relative to the base URL; sent without further encoding.
    pub(super) path: String,
    pub(super) headers: Vec<(HeaderName, String)>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) key: KeyChoice,
    /// Whether enough of the response body was received; without it, all of it is read.
    pub(super) is_enough: Option<fn(&[u8]) -> bool>,
}

/// The key that a request carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum KeyChoice {
    None,
    First,
    Second,
}

/// A request and the response to it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// The request with masked credentials.
    pub(super) request: Request,
    /// 0 if there was no response.
    pub(super) status: u16,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    pub(super) json: Option<Value>,
    /// The keys to mask in reports.
    pub(super) keys: Vec<Secret>,
}

/// A response, with its request for the report.
pub(crate) type Response = Arc<Exchange>;

impl HostKeys {
    pub(super) fn get(&self, choice: KeyChoice) -> Option<&Secret> {
        match choice {
            KeyChoice::None => None,
            KeyChoice::First => self.first.as_ref(),
            KeyChoice::Second => self.second.as_ref(),
        }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Secret> {
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
    pub(super) fn masked(mut self, keys: &HostKeys) -> Self {
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

    /// The first header called `name`, if it is text.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// The first header called `name`; empty if it is missing or not text.
    pub(crate) fn header_text(&self, name: &str) -> &str {
        self.header(name).unwrap_or_default()
    }

    /// All headers except those that differ between equal responses.
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

    /// The body as JSON; `null` if it is not JSON.
    pub(crate) fn value(&self) -> &Value {
        self.json.as_ref().unwrap_or(&Value::Null)
    }

    /// The content type in lower case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let content_type = self.header_text("content-type").to_ascii_lowercase();
        content_type.split(';').next().unwrap_or_default().trim().to_owned()
    }

    pub(crate) fn has_json_type(&self) -> bool {
        let media_type = self.media_type();
        media_type == "application/json" || media_type.ends_with("+json")
    }

    /// Whether the host rejects the credentials of the request, or requires some.
    pub(crate) fn is_unauthorized(&self) -> bool {
        matches!(self.status, 401 | 403)
    }

    pub(crate) fn is_client_error(&self) -> bool {
        (400..500).contains(&self.status)
    }

    /// Formats the exchange for programs.
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

    /// Formats the exchange for people.
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

    /// Converts the start of `body` to text with masked keys.
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

pub(super) fn masked<'a>(text: &str, keys: impl IntoIterator<Item = &'a Secret>) -> String {
    keys.into_iter().fold(text.to_owned(), |text, key| text.replace(key.expose(), MASK))
}
