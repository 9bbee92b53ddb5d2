//! A small client of the OpenWOP tool catalog (RFC 0078, RFC 0112), for any host.
//!
//! ```no_run
//! # async fn example() -> Result<(), toolcrib_client::Error> {
//! use toolcrib_client::{Client, Secret};
//!
//! let client = Client::new("https://tools.example.com", Some(Secret::new("key".to_owned())))?;
//! for tool in client.tools().list().await?.unwrap_or_default() {
//!     println!("{} ({})", tool.tool_id, tool.safety_tier);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Invariant: lists are accepted in both of their shapes, the bare array and `{"tools": […]}`.
//! Invariant: a host without a catalog gives `None`, never an error, and so does an unknown tool.
//! Invariant: the key is sent only to the configured address. Redirects are not followed, and
//! responses are bounded.

mod error;
mod read;

use std::time::Duration;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderValue},
    redirect,
};
use serde_json::Value;
use url::Url;

pub use error::{Error, Refusal};
pub use read::{compact_tool, listed, tool};
pub use toolcrib_core::{
    compact::CompactToolDescriptor as CompactTool,
    credential::Secret,
    descriptor::{SourceKind, ToolDescriptor},
};

/// The largest response that is read, in bytes.
const MAX_ANSWER: usize = 64 << 20;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// The characters of a path segment that need no escape.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// A client of one host.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// Without a trailing slash.
    base: String,
    key: Option<HeaderValue>,
}

/// The tools of a host.
#[derive(Debug, Clone)]
pub struct Tools<'a> {
    client: &'a Client,
    source: Option<SourceKind>,
    /// Parameters that are specific to toolcrib; other hosts ignore them.
    more: Vec<(&'static str, String)>,
}

// === impl Client ===

impl Client {
    /// Creates a client of the host at `base` that presents `key`.
    ///
    /// # Errors
    /// Fails when `base` is not an `http` or `https` address, when it holds a password, or when
    /// `key` contains characters that are invalid in a header.
    pub fn new(base: &str, key: Option<Secret>) -> Result<Self, Error> {
        // No TLS backend is chosen at compile time. An error only means that one is installed
        // already.
        rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
        #[expect(clippy::disallowed_methods, reason = "a client of a host, not of an upstream")]
        let builder = reqwest::Client::builder();
        let http = builder
            .redirect(redirect::Policy::none())
            .connect_timeout(CONNECT_LIMIT)
            .user_agent(concat!("toolcrib-client/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Error::Unreachable)?;
        Self::with_http(http, base, key)
    }

    /// Creates a client with the given HTTP client, which must not follow redirects.
    ///
    /// # Errors
    /// Fails like [`new`](Self::new).
    pub fn with_http(
        http: reqwest::Client,
        base: &str,
        key: Option<Secret>,
    ) -> Result<Self, Error> {
        let url = Url::parse(base).map_err(|_| Error::Address)?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let is_base = url.query().is_none() && url.fragment().is_none();
        if !matches!(url.scheme(), "http" | "https") || !is_plain || !is_base {
            return Err(Error::Address);
        }
        let key = key.map(|key| {
            let mut value = HeaderValue::from_str(&format!("Bearer {}", key.expose()))
                .map_err(|_| Error::Key)?;
            value.set_sensitive(true);
            Ok(value)
        });
        let base = url.as_str().trim_end_matches('/').to_owned();
        Ok(Self { http, base, key: key.transpose()? })
    }

    /// Returns a request for the tools of the host.
    pub fn tools(&self) -> Tools<'_> {
        Tools { client: self, source: None, more: Vec::new() }
    }

    /// Returns the JSON at `path`; `None` when the host has none.
    async fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Option<Value>, Error> {
        let mut url = Url::parse(&format!("{}{path}", self.base)).map_err(|_| Error::Address)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request =
            self.http.get(url).timeout(ANSWER_LIMIT).header(ACCEPT, "application/json");
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = bounded(response).await?;
        match status {
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Ok(None),
            status if status.is_success() => {
                serde_json::from_slice(&body).map(Some).map_err(|_| Error::NotJson)
            }
            status => {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                Err(Error::Refused(Box::new(Refusal::new(status.as_u16(), &body))))
            }
        }
    }
}

// === impl Tools ===

impl Tools<'_> {
    /// Selects the tools of this kind of source.
    #[must_use]
    pub fn of(mut self, source: SourceKind) -> Self {
        self.source = Some(source);
        self
    }

    /// Selects the tools of this toolset, on a toolcrib host.
    #[must_use]
    pub fn within(mut self, toolset: &str) -> Self {
        self.more.push(("toolset", toolset.to_owned()));
        self
    }

    /// Selects tools that match `words`, best first, at most `limit` (1 to 100), on a toolcrib
    /// host.
    #[must_use]
    pub fn search(mut self, words: &str, limit: u16) -> Self {
        self.more.push(("q", words.to_owned()));
        self.more.push(("limit", limit.to_string()));
        self
    }

    /// Returns the tools that the key may use; `None` when the host has no catalog.
    ///
    /// # Errors
    /// Fails when the host is unreachable, refuses, or returns anything else.
    pub async fn list(&self) -> Result<Option<Vec<ToolDescriptor>>, Error> {
        self.read(None, tool).await
    }

    /// Returns the tools in the compact view; `None` when the host has no catalog.
    ///
    /// A host without that view returns the standard one, of which only the compact part is kept.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn list_compact(&self) -> Result<Option<Vec<CompactTool>>, Error> {
        self.read(Some("compact"), compact_tool).await
    }

    /// Returns the tool called `id`; `None` when it does not exist or the key may not use it.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn get(&self, id: &str) -> Result<Option<ToolDescriptor>, Error> {
        let found = self.client.get(&path_of(id), &[]).await?;
        found.map(|value| tool(&value)).transpose()
    }

    /// Returns the tool called `id` in the compact view.
    ///
    /// # Errors
    /// Fails like [`list`](Self::list).
    pub async fn get_compact(&self, id: &str) -> Result<Option<CompactTool>, Error> {
        let found = self.client.get(&path_of(id), &[("view", "compact")]).await?;
        found.map(|value| compact_tool(&value)).transpose()
    }

    async fn read<T>(
        &self,
        view: Option<&str>,
        one: impl Fn(&Value) -> Result<T, Error>,
    ) -> Result<Option<Vec<T>>, Error> {
        let source = self.source.map(SourceKind::as_str).map(|source| ("source", source));
        let more = self.more.iter().map(|(name, value)| (*name, value.as_str()));
        let query: Vec<(&str, &str)> =
            source.into_iter().chain(view.map(|view| ("view", view))).chain(more).collect();
        let Some(body) = self.client.get("/v1/tools", &query).await? else { return Ok(None) };
        let tools = listed(&body).ok_or(Error::NotAList)?;
        tools.iter().map(one).collect::<Result<_, _>>().map(Some)
    }
}

fn path_of(id: &str) -> String {
    format!("/v1/tools/{}", utf8_percent_encode(id, PLAIN))
}

async fn bounded(mut response: Response) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(unreachable)? {
        if bytes.len() + chunk.len() > MAX_ANSWER {
            return Err(Error::TooLarge);
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

/// Removes the address, which the caller knows and which may be a secret.
fn unreachable(error: reqwest::Error) -> Error {
    Error::Unreachable(error.without_url())
}
