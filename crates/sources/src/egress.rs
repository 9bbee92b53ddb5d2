//! Outgoing HTTP. The only place that names an HTTP client.
//!
//! Invariant: only the URL the operator configured is contacted: no proxy from the environment, no
//! redirect is followed.
//! Invariant: a body is read chunk by chunk, and collected only up to a cap.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use toolcrib_core::source::HttpSpec;
use url::Url;

/// How long opening a connection (DNS, TCP, TLS) may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Headers that are ours or the connection's; a configuration that sets one is refused.
const RESERVED: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// One pooled client; clones share the pool.
#[derive(Clone)]
pub(crate) struct Egress {
    client: reqwest::Client,
}

/// A configured URL with its configured headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
}

/// An answer whose body has not been read yet. Dropping it closes its stream.
pub(crate) struct Answer(reqwest::Response);

/// Why there is no answer, or no more of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressError {
    /// The request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke after the request was sent, or may have been.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The body is larger than the cap.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
}

// === impl Egress ===

impl Egress {
    #[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
    pub(crate) fn new() -> Result<Self, String> {
        let client = reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .connect_timeout(CONNECT_TIMEOUT)
            .tls_backend_preconfigured(tls()?)
            .build()
            .map_err(|error| format!("the HTTP client cannot be made: {}", causes(&error)))?;
        Ok(Self { client })
    }

    /// Sends one request; returns when the head of the answer is there.
    pub(crate) async fn send(
        &self,
        method: Method,
        endpoint: &Endpoint,
        mut headers: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> Result<Answer, EgressError> {
        for (name, value) in &endpoint.headers {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        let mut request = reqwest::Request::new(method, endpoint.url.clone());
        *request.headers_mut() = headers;
        *request.body_mut() = body.map(reqwest::Body::from);
        self.client.execute(request).await.map(Answer).map_err(EgressError::from)
    }
}

/// TLS with the provider named here, whatever the process has installed as its default.
fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let mut config = match rustls_platform_verifier::Verifier::new(provider) {
        Ok(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth(),
        Err(error) => {
            // A machine without certificates can still reach `http` upstreams; `https` ones fail
            // closed, since nothing is trusted.
            tracing::warn!(%error, "no certificate authorities found; https sources will not connect");
            builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

// === impl Endpoint ===

impl Endpoint {
    pub(crate) fn new(spec: &HttpSpec) -> Result<Self, String> {
        let url =
            Url::parse(&spec.url).map_err(|error| format!("the url is not a URL: {error}"))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("the url must start with http:// or https://".to_owned());
        }
        if url.host_str().is_none_or(str::is_empty) {
            return Err("the url names no host".to_owned());
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("the url carries credentials; use `headers` instead".to_owned());
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &spec.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| "a header's name has characters that no header name has".to_owned())?;
            if RESERVED.contains(&name) || name.as_str().starts_with("mcp-") {
                return Err(format!("the header `{name}` is set by the protocol; remove it"));
            }
            let mut value = HeaderValue::from_str(value.0.expose()).map_err(|_| {
                format!("the value of the header `{name}` has characters that no header has")
            })?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        Ok(Self { url, headers })
    }
}

// === impl Answer ===

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.0.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.0.headers()
    }

    /// The media type, lower case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = value.and_then(|v| v.split(';').next()).unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        self.0.chunk().await.map_err(EgressError::from)
    }

    /// The whole body, unless it is larger than `max`.
    pub(crate) async fn collect(mut self, max: usize) -> Result<Vec<u8>, EgressError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > max {
                return Err(EgressError::TooLarge(max));
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

// === impl EgressError ===

impl From<reqwest::Error> for EgressError {
    fn from(error: reqwest::Error) -> Self {
        let text = causes(&error);
        if error.is_connect() { Self::Connect(text) } else { Self::Broken(text) }
    }
}

/// What lies beneath an error. Its own text names the URL, which status lines must not show.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Only the innermost says what happened; the layers above repeat that something did.
        text = error.to_string();
        cause = error.source();
    }
    if text.is_empty() { "no further detail".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use toolcrib_core::{credential::Secret, source::SecretValue};

    use super::*;

    fn problem(url: &str, header: Option<(&str, &str)>) -> Option<String> {
        let headers: BTreeMap<_, _> = header
            .map(|(name, value)| (name.to_owned(), SecretValue(Secret::new(value.to_owned()))))
            .into_iter()
            .collect();
        Endpoint::new(&HttpSpec { url: url.to_owned(), headers }).err()
    }

    #[test]
    fn endpoints_that_can_never_work_are_refused_without_repeating_secrets() {
        assert_eq!(problem("http://127.0.0.1:1/mcp", Some(("Authorization", "Bearer x"))), None);
        for (url, header) in [
            ("not a url", None),
            ("ftp://host/", None),
            ("http://user:secret@host/", None),
            ("http://host/", Some(("bad name", "x"))),
            ("http://host/", Some(("x-key", "se\ncret"))),
            ("http://host/", Some(("Mcp-Session-Id", "secret"))),
            ("http://host/", Some(("Content-Type", "secret"))),
        ] {
            let problem = problem(url, header).expect(url);
            assert!(!problem.contains("secret"), "{problem}");
        }
    }
}
