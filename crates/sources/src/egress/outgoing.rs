//! Requests, and the configured addresses and headers that they are made of.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, header};
use toolcrib_core::{
    source::{HttpSpec, SecretValue},
    trace::{TRACEPARENT, TRACESTATE, TraceContext},
};
use url::Url;

use crate::credential::SendableCredential;

/// Largest number of redirects that one request follows.
pub(crate) const MAX_HOPS: usize = 5;

/// Headers set by the connection, and headers that authenticate a request. Neither arguments nor
/// the code of a pack can set them.
pub(crate) const CONNECTION_HEADERS: [&str; 10] = [
    "authorization",
    "connection",
    "content-length",
    "cookie",
    "expect",
    "host",
    "proxy-authorization",
    "te",
    "transfer-encoding",
    "upgrade",
];
/// Headers set by this module or by the connection; a configuration that sets one is invalid.
const RESERVED: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

#[derive(Clone)]
pub(crate) struct OutgoingRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// `url` in the client's type, if already converted.
    pub(super) uri: Option<Uri>,
    /// Headers that describe the request; they are sent to every redirect target.
    pub(crate) headers: HeaderMap,
    /// Headers for the origin of `url` only. An entry of `headers` takes precedence over one of
    /// these.
    pub(crate) bound: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// Attached to each request that may carry it. Without it, no request is sent to the first
    /// destination.
    pub(crate) credential: Option<Arc<SendableCredential>>,
    /// Number of redirects to follow, at most [`MAX_HOPS`].
    pub(crate) hops: usize,
    /// Whether a redirect has left the origin of the first request.
    pub(super) strayed: bool,
}

/// A configured URL with its configured headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    uri: Option<Uri>,
    headers: HeaderMap,
}

// === impl OutgoingRequest ===

impl OutgoingRequest {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        let (headers, bound) = (HeaderMap::new(), HeaderMap::new());
        Self {
            method,
            url,
            uri: None,
            headers,
            bound,
            body: None,
            credential: None,
            hops: 0,
            strayed: false,
        }
    }
}

// === impl Endpoint ===

impl Endpoint {
    pub(crate) fn new(spec: &HttpSpec) -> Result<Self, String> {
        let url = parse_url("the url", &spec.url)?;
        if let Some(name) = spec
            .headers
            .keys()
            .find(|name| name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("mcp-")))
        {
            return Err(format!("the header `{name}` is set by the protocol; remove it"));
        }
        let headers = parse_headers(&spec.headers)?;
        Ok(Self { uri: Uri::try_from(url.as_str()).ok(), url, headers })
    }

    pub(crate) fn url(&self) -> &Url {
        &self.url
    }

    /// Creates a request to the endpoint that follows no redirects.
    pub(crate) fn request(
        &self,
        method: Method,
        headers: HeaderMap,
        body: Option<Vec<u8>>,
    ) -> OutgoingRequest {
        OutgoingRequest {
            uri: self.uri.clone(),
            headers,
            bound: self.headers.clone(),
            body: body.map(Bytes::from),
            ..OutgoingRequest::new(method, self.url.clone())
        }
    }
}

/// Parses a configured address; `what` names it in errors.
pub(crate) fn parse_url(what: &str, text: &str) -> Result<Url, String> {
    let url = Url::parse(text).map_err(|error| format!("{what} is not a URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("{what} must start with http:// or https://"));
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(format!("{what} names no host"));
    }
    if has_userinfo(&url) {
        return Err(format!("{what} carries credentials; use `headers` instead"));
    }
    Ok(url)
}

/// Parses configured headers.
pub(crate) fn parse_headers(typed: &BTreeMap<String, SecretValue>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in typed {
        let name = HeaderName::from_bytes(name.as_bytes())
            .map_err(|_| "a header name contains invalid characters".to_owned())?;
        if RESERVED.contains(&name) {
            return Err(format!("the header `{name}` is set by the protocol; remove it"));
        }
        let mut value = HeaderValue::from_str(value.0.expose())
            .map_err(|_| format!("the value of the header `{name}` contains invalid characters"))?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    Ok(headers)
}

/// Adds the headers of `trace`, unless arguments set them.
pub(super) fn continue_trace(trace: &TraceContext, headers: &mut HeaderMap) {
    let value = |text: &str| HeaderValue::from_str(text).ok();
    let Some(parent) = value(&trace.traceparent()) else { return };
    if headers.contains_key(TRACEPARENT) {
        return;
    }
    headers.insert(TRACEPARENT, parent);
    if let Some(state) = trace.state().and_then(value) {
        headers.insert(TRACESTATE, state);
    }
}

/// Returns the host of a URL, or `unknown`.
pub(crate) fn host(url: Option<&Url>) -> String {
    url.and_then(Url::host_str).filter(|host| !host.is_empty()).unwrap_or("unknown").to_owned()
}

pub(super) fn has_userinfo(url: &Url) -> bool {
    !url.username().is_empty() || url.password().is_some()
}

#[cfg(test)]
mod tests {
    use toolcrib_core::{credential::Secret, egress::AllowList};

    use super::*;

    fn problem(url: &str, header: Option<(&str, &str)>) -> Option<String> {
        let headers: BTreeMap<_, _> = header
            .map(|(name, value)| (name.to_owned(), SecretValue(Secret::new(value.to_owned()))))
            .into_iter()
            .collect();
        Endpoint::new(&HttpSpec { url: url.to_owned(), headers, allow: AllowList::default() }).err()
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
