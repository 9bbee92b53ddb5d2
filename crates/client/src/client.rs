//! The client of one host: its requests, and the version of their responses.

use std::time::Duration;

use reqwest::{
    Response, StatusCode,
    header::{ACCEPT, AUTHORIZATION, HeaderMap, HeaderValue},
    redirect,
};
use serde_json::Value;
use toolcrib_core::credential::Secret;
use url::Url;

use crate::{
    error::Error,
    generation::{Generation, OPENWOP_VERSION, Versions, answered},
};

/// The size limit of a response, in bytes.
const MAX_ANSWER: usize = 64 << 20;
const CONNECT_LIMIT: Duration = Duration::from_secs(10);
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// Public, and at the same path in all generations.
const DISCOVERY: &str = "/.well-known/openwop";

/// A client of one host.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    /// The address of the host, without a trailing slash.
    base: String,
    key: Option<HeaderValue>,
    generation: Generation,
}

// === impl Client ===

impl Client {
    /// Creates a client of the host at `base` that presents `key`.
    ///
    /// # Errors
    /// Fails if `base` is not an `http` or `https` address, if it holds a password, or if `key`
    /// contains characters that are invalid in a header.
    pub fn new(base: &str, key: Option<Secret>) -> Result<Self, Error> {
        // No TLS backend is chosen at compile time. An error only means that one is already
        // installed.
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
        Ok(Self { http, base, key: key.transpose()?, generation: Generation::default() })
    }

    /// Selects `generation`; a new client speaks [`V1`](Generation::V1).
    #[must_use]
    pub fn with_generation(self, generation: Generation) -> Self {
        Self { generation, ..self }
    }

    /// Selects the newest generation that both this client and the host speak.
    ///
    /// # Errors
    /// Fails like [`versions`](Self::versions), and if they share no generation.
    pub async fn negotiate(self) -> Result<Self, Error> {
        let versions = self.versions().await?;
        match versions.newest_shared() {
            Some(generation) => Ok(self.with_generation(generation)),
            None => Err(Error::NoSharedVersion { listed: versions.listed }),
        }
    }

    /// The generation that the client speaks.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns the versions that the host lists in its discovery document. The key is not sent.
    ///
    /// # Errors
    /// Fails if the host is unreachable, refuses, or has no discovery document with versions.
    pub async fn versions(&self) -> Result<Versions, Error> {
        // Without a requested version, a host may send any of its documents; all of them list the
        // same versions.
        let response = send(self.request(DISCOVERY, &[])?).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let body = bounded(response).await?;
        let document = serde_json::from_slice(&body).unwrap_or(Value::Null);
        match status {
            StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED => Err(Error::NoDiscovery),
            status if status.is_success() => Versions::of(&document).ok_or(Error::NotDiscovery),
            status => Err(Error::refused(self.generation, status, &headers, &document)),
        }
    }

    /// Reads the JSON at `path` of the client's generation; `None` if the host does not have it.
    pub(crate) async fn read(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<Value>, Error> {
        let generation = self.generation;
        let mut request = self.request(&format!("{}{path}", generation.prefix()), query)?;
        if let Some(version) = generation.header() {
            request = request.header(OPENWOP_VERSION, version);
        }
        if let Some(key) = &self.key {
            request = request.header(AUTHORIZATION, key);
        }
        let response = send(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        let is_missing = means_missing(generation, status);
        // Other statuses may be of a proxy, which knows no versions; they are errors anyway.
        if is_missing || status.is_success() {
            check_version(generation, &headers)?;
        }
        let body = bounded(response).await?;
        match status {
            _ if is_missing => Ok(None),
            status if status.is_success() => {
                serde_json::from_slice(&body).map(Some).map_err(|_| Error::NotJson)
            }
            status => {
                let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
                Err(Error::refused(generation, status, &headers, &body))
            }
        }
    }

    /// Creates a request without credentials.
    fn request(
        &self,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<reqwest::RequestBuilder, Error> {
        let mut url = Url::parse(&format!("{}{path}", self.base)).map_err(|_| Error::Address)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(self.http.get(url).timeout(ANSWER_LIMIT).header(ACCEPT, "application/json"))
    }
}

/// Whether `status` reports a missing catalog or tool. 501 does so only in v1.
fn means_missing(generation: Generation, status: StatusCode) -> bool {
    match generation {
        Generation::V1 => matches!(status, StatusCode::NOT_FOUND | StatusCode::NOT_IMPLEMENTED),
        Generation::V2 => status == StatusCode::NOT_FOUND,
    }
}

/// Checks that a response follows `generation`. Responses of v1 need not name it.
///
/// # Errors
/// Fails if a response of v2 has another version, or no version.
fn check_version(generation: Generation, headers: &HeaderMap) -> Result<(), Error> {
    match generation {
        Generation::V1 => Ok(()),
        Generation::V2 => match answered(headers) {
            Some(version) if Generation::of(version) == Some(generation) => Ok(()),
            answered => Err(Error::VersionIgnored { requested: generation, answered }),
        },
    }
}

async fn send(request: reqwest::RequestBuilder) -> Result<Response, Error> {
    request.send().await.map_err(unreachable)
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

/// Removes the address: the caller knows it, and it may be a secret.
fn unreachable(error: reqwest::Error) -> Error {
    Error::Unreachable(error.without_url())
}
