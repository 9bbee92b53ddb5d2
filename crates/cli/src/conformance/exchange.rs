//! Requests to the host under test, and what came back.
//!
//! Invariant: a key goes to the host the user named, redirects are not followed, and no report
//! shows a key.

use std::{
    collections::HashMap,
    fmt::Write as _,
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

use super::{Verdict, fail};

/// Longest answer that is read.
const MAX_ANSWER: usize = 16 << 20;
/// How much of a body a report shows.
const SHOWN: usize = 4096;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Requests in one run, over all protocols; a guard against a check that goes wild.
const MAX_REQUESTS: usize = 2000;
/// Headers whose value is a credential.
const CREDENTIALS: [&str; 5] =
    ["authorization", "x-api-key", "otc-api-key", "oxp-api-key", "cookie"];
const MASK: &str = "***";

/// The host under test.
pub(crate) struct Host {
    http: reqwest::Client,
    base: String,
    keys: HostKeys,
    /// Answers to what was asked with [`Host::once`].
    known: Mutex<HashMap<String, Got>>,
    sent: AtomicUsize,
}

/// The keys that the user gave.
#[derive(Debug, Default)]
pub(crate) struct HostKeys {
    pub(crate) first: Option<Secret>,
    pub(crate) second: Option<Secret>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    method: Method,
    /// From the address of the host, with its query, as it is to be sent.
    path: String,
    headers: Vec<(HeaderName, String)>,
    body: Option<Vec<u8>>,
    who: Who,
    /// Says of what has come of the body whether it is enough; none: all of it is read.
    until: Option<fn(&[u8]) -> bool>,
}

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Who {
    Nobody,
    First,
    Second,
}

/// A request and its answer.
#[derive(Debug)]
pub(crate) struct Exchange {
    asked: Asked,
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
    json: Option<Value>,
    /// Never shown.
    keys: Vec<Secret>,
}

/// What was asked, without credentials.
#[derive(Debug)]
struct Asked {
    method: Method,
    path: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

/// A request and its answer, kept for the report.
pub(crate) type Got = Arc<Exchange>;

// === impl Host ===

impl Host {
    /// The host at `base`.
    pub(crate) fn new(base: &Url, keys: HostKeys) -> anyhow::Result<Self> {
        #[expect(
            clippy::disallowed_methods,
            reason = "a client of the host under test, not of an upstream"
        )]
        let mut builder = reqwest::Client::builder()
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .timeout(ANSWER_LIMIT)
            .user_agent(concat!("toolcrib-conformance/", env!("CARGO_PKG_VERSION")));
        if crate::client::is_loopback(base) {
            builder = builder.no_proxy();
        }
        Ok(Self {
            http: builder.build()?,
            base: base.as_str().trim_end_matches('/').to_owned(),
            keys,
            known: Mutex::default(),
            sent: AtomicUsize::new(0),
        })
    }

    /// Its address, without a slash at the end.
    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn has_key(&self) -> bool {
        self.keys.first.is_some()
    }

    pub(crate) fn has_second_key(&self) -> bool {
        self.keys.second.is_some()
    }

    /// The first key as it is, for checks of other ways to present it.
    pub(crate) fn key_text(&self) -> Option<&str> {
        self.keys.first.as_ref().map(Secret::expose)
    }

    /// Whether something listens there at all; otherwise why not.
    pub(crate) async fn reach(&self) -> Result<(), String> {
        let request = self.http.get(&self.base);
        match request.send().await {
            Err(error) if error.is_connect() || error.is_timeout() => Err(why(error)),
            // A broken answer is for the checks to judge.
            _ => Ok(()),
        }
    }

    /// As [`send`](Self::send); the same question is asked only once.
    pub(crate) async fn once(&self, ask: Ask) -> Verdict<Got> {
        let name = format!("{ask:?}");
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(got) = known().get(&name) {
            return Ok(Arc::clone(got));
        }
        let got = self.send(ask).await?;
        known().insert(name, Arc::clone(&got));
        Ok(got)
    }

    /// Asks; no answer at all is a failure.
    pub(crate) async fn send(&self, ask: Ask) -> Verdict<Got> {
        let asked = ask.clone().asked(self.keys.first.is_some());
        let unanswered = |why: String| {
            let exchange = self.exchange(ask.clone().asked(false), 0, HeaderMap::new(), Vec::new());
            fail("an answer", why, &[&Arc::new(exchange)])
        };
        if self.sent.fetch_add(1, Ordering::Relaxed) >= MAX_REQUESTS {
            return unanswered(format!("more than {MAX_REQUESTS} requests were needed"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &ask.headers {
            match HeaderValue::from_str(value) {
                Ok(value) => headers.append(name, value),
                Err(_) => return unanswered(format!("`{name}` cannot carry the key")),
            };
        }
        let key = match ask.who {
            Who::Nobody => None,
            Who::First => self.keys.first.as_ref(),
            Who::Second => self.keys.second.as_ref(),
        };
        if let Some(key) = key {
            match HeaderValue::from_str(&format!("Bearer {}", key.expose())) {
                Ok(mut value) => {
                    value.set_sensitive(true);
                    headers.insert(AUTHORIZATION, value);
                }
                Err(_) => return unanswered("the key has characters that no key has".to_owned()),
            }
        }
        let Ok(url) = Url::parse(&format!("{}{}", self.base, ask.path)) else {
            return unanswered("the path makes no address".to_owned());
        };
        let mut request = self.http.request(ask.method.clone(), url).headers(headers);
        if let Some(body) = ask.body.clone() {
            request = request.body(body);
        }
        let mut response = match request.send().await {
            Ok(response) => response,
            Err(error) => return unanswered(format!("no answer: {}", why(error))),
        };
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let mut body = BytesMut::new();
        let is_enough = |body: &[u8]| ask.until.is_some_and(|enough| enough(body));
        while !is_enough(&body) {
            match response.chunk().await {
                Ok(None) => break,
                Ok(Some(chunk)) if body.len() + chunk.len() <= MAX_ANSWER => {
                    body.extend_from_slice(&chunk);
                }
                Ok(Some(_)) => return unanswered("an answer larger than 16 MiB".to_owned()),
                Err(error) => return unanswered(format!("the answer broke off: {}", why(error))),
            }
        }
        Ok(Arc::new(self.exchange(asked, status, headers, body.to_vec())))
    }

    fn exchange(&self, asked: Asked, status: u16, headers: HeaderMap, body: Vec<u8>) -> Exchange {
        let json = serde_json::from_slice(&body).ok();
        let keys = [&self.keys.first, &self.keys.second].into_iter().flatten().cloned().collect();
        Exchange { asked, status, headers, body, json, keys }
    }

    /// `text` without the keys.
    pub(crate) fn masked(&self, text: &str) -> String {
        masked(text, [&self.keys.first, &self.keys.second].into_iter().flatten())
    }
}

// === impl Ask ===

impl Ask {
    /// A request with `method` to `path`, which is sent as it stands.
    pub(crate) fn new(method: Method, path: impl Into<String>) -> Self {
        let path = path.into();
        Self { method, path, headers: Vec::new(), body: None, who: Who::Nobody, until: None }
    }

    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    /// With the first key, if there is one.
    #[must_use]
    pub(crate) fn by_first(mut self) -> Self {
        self.who = Who::First;
        self
    }

    /// With the second key.
    #[must_use]
    pub(crate) fn by_second(mut self) -> Self {
        self.who = Who::Second;
        self
    }

    /// With one more header.
    #[must_use]
    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((HeaderName::from_static(name), value.into()));
        self
    }

    /// With `body` as it is and no content type.
    #[must_use]
    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// With `body` as JSON.
    #[must_use]
    pub(crate) fn json(self, body: &Value) -> Self {
        self.header("content-type", "application/json").body(body.to_string())
    }

    /// Reads of the answer's body only until `enough` of it has come, and then hangs up.
    #[must_use]
    pub(crate) fn until(mut self, enough: fn(&[u8]) -> bool) -> Self {
        self.until = Some(enough);
        self
    }

    fn asked(self, key_sent: bool) -> Asked {
        let mut headers: Vec<(String, String)> = Vec::new();
        if self.who != Who::Nobody && key_sent {
            let which = if self.who == Who::Second { "second key" } else { "key" };
            headers.push(("authorization".to_owned(), format!("Bearer {MASK} ({which})")));
        }
        for (name, value) in self.headers {
            let value = match CREDENTIALS.contains(&name.as_str()) {
                true => credential(&value),
                false => value,
            };
            headers.push((name.to_string(), value));
        }
        Asked { method: self.method, path: self.path, headers, body: self.body }
    }
}

/// A credential as a report shows it: its scheme alone.
fn credential(value: &str) -> String {
    match value.split_once(' ') {
        Some((scheme, _)) => format!("{scheme} {MASK}"),
        None => MASK.to_owned(),
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

    /// Names and values of all headers but those that differ from answer to answer anyway.
    pub(crate) fn lasting_headers(&self) -> Vec<(String, String)> {
        const PASSING: [&str; 6] =
            ["date", "age", "x-request-id", "request-id", "traceparent", "server-timing"];
        let mut lasting: Vec<(String, String)> = self
            .headers
            .iter()
            .filter(|(name, _)| !PASSING.contains(&name.as_str()))
            .map(|(name, value)| {
                (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned())
            })
            .collect();
        lasting.sort();
        lasting
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON, or `null`.
    pub(crate) fn value(&self) -> &Value {
        self.json.as_ref().unwrap_or(&Value::Null)
    }

    /// The body as JSON.
    pub(crate) fn json(self: &Arc<Self>) -> Verdict<&Value> {
        match &self.json {
            Some(json) => Ok(json),
            None => fail("a JSON body", "a body that is not JSON", &[self]),
        }
    }

    /// Whether the content type says JSON.
    pub(crate) fn says_json(&self) -> bool {
        let kind = self.header("content-type").unwrap_or_default().to_ascii_lowercase();
        let kind = kind.split(';').next().unwrap_or_default().trim();
        kind == "application/json" || kind.ends_with("+json")
    }

    /// Fails unless `holds`.
    pub(crate) fn expect(
        self: &Arc<Self>,
        holds: bool,
        expected: impl Into<String>,
        seen: impl Into<String>,
    ) -> Verdict {
        match holds {
            true => Ok(()),
            false => fail(expected, seen, &[self]),
        }
    }

    /// Fails unless the status is one of `wanted`.
    pub(crate) fn expect_status(self: &Arc<Self>, wanted: &[u16]) -> Verdict {
        let names: Vec<String> = wanted.iter().map(u16::to_string).collect();
        self.expect(
            wanted.contains(&self.status),
            format!("status {}", names.join(" or ")),
            format!("status {}", self.status),
        )
    }

    /// As a report shows it.
    pub(crate) fn shown(&self) -> Value {
        let header = |(name, value): &(String, String)| json!(format!("{name}: {value}"));
        let answered: Vec<Value> = self
            .headers
            .iter()
            .map(|(name, value)| {
                let value = String::from_utf8_lossy(value.as_bytes());
                json!(self.masked(&format!("{name}: {value}")))
            })
            .collect();
        json!({
            "request": {
                "line": self.masked(&format!("{} {}", self.asked.method, self.asked.path)),
                "headers": self.asked.headers.iter().map(header).collect::<Vec<_>>(),
                "body": self.asked.body.as_deref().map(|body| self.cut(body)),
            },
            "response": match self.status {
                0 => Value::Null,
                status => json!({
                    "status": status, "headers": answered, "body": self.cut(&self.body),
                }),
            },
        })
    }

    /// As a report shows it to people.
    pub(crate) fn told(&self) -> String {
        let mut text = String::new();
        let mut line = |mark: &str, part: &str| {
            part.lines().for_each(|part| {
                // Writing to a string cannot fail.
                writeln!(text, "{mark} {part}").ok();
            });
        };
        line(">", &self.masked(&format!("{} {}", self.asked.method, self.asked.path)));
        for (name, value) in &self.asked.headers {
            line(">", &format!("{name}: {value}"));
        }
        if let Some(body) = &self.asked.body {
            line(">", &self.cut(body));
        }
        if self.status != 0 {
            line("<", &format!("status {}", self.status));
            for (name, value) in &self.headers {
                let value = String::from_utf8_lossy(value.as_bytes());
                line("<", &self.masked(&format!("{name}: {value}")));
            }
            line("<", &self.cut(&self.body));
        }
        text
    }

    fn cut(&self, body: &[u8]) -> String {
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

/// What went wrong, without the address, which the user knows.
fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}
