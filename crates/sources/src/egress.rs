//! Outgoing HTTP. The only module that names an HTTP client.
//!
//! Invariant (I-35): requests go to public addresses, and to others only where the operator's
//! configuration allows it. Every address of a name is checked, and only checked addresses are
//! connected to.
//!
//! Invariant: proxy settings of the environment are ignored. This module follows redirects itself,
//! and each hop is checked like any other destination.
//!
//! Invariant: a body is read chunk by chunk and collected only up to a cap. The responses of one
//! source share a byte budget, so that one source cannot exhaust the memory of others.

mod address;
mod guard;
mod redirect;
mod resolve;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use parking_lot::Mutex;
use toolcrib_core::{
    budget::{ByteBudget, Reservation},
    call::{UpstreamError, UpstreamErrorKind},
    credential::CredentialProblem,
    egress::{EgressDecided, EgressDecision, EgressReason, EgressTrail},
    source::{HttpSpec, SecretValue},
};
use url::Url;

pub(crate) use guard::Guard;
pub(crate) use redirect::MAX_HOPS;
pub use resolve::{Resolver, SystemResolver};

use crate::credential::{self, Held};

use self::{
    guard::{Refused, Trust},
    resolve::Checked,
};

/// How long opening a connection (DNS, TCP, TLS) may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Budget in bytes for the response bodies of one source that are read at the same time: 64 calls
/// (the usual limit) with 4 MiB each (the usual largest body).
const READING: usize = 256 << 20;

/// Headers set by this module or by the connection; a configuration that sets one is invalid.
const RESERVED: [HeaderName; 6] = [
    header::ACCEPT,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::CONNECTION,
    header::TRANSFER_ENCODING,
    header::UPGRADE,
];

/// Shared by all sources: the TLS configuration with the machine's certificates, and the resolver.
pub(crate) struct Network {
    tls: rustls::ClientConfig,
    resolver: Arc<dyn Resolver>,
}

/// The [`Network`], created on first use: reading the machine's certificates takes time that a
/// start without HTTP need not spend.
pub(crate) struct SharedNetwork {
    resolver: Arc<dyn Resolver>,
    made: Mutex<Option<Arc<Network>>>,
}

/// The HTTP clients of one source, limited to the destinations its guard allows; clones share their
/// pools.
///
/// Each client pools the connections it opened. A connection to a private address, opened for a
/// permitted destination, is therefore never reused for another one.
#[derive(Clone)]
pub(crate) struct Egress {
    guard: Arc<Guard>,
    public: reqwest::Client,
    private: reqwest::Client,
    /// For the responses that are being read.
    reading: ByteBudget,
}

/// One request.
#[derive(Clone)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers that describe the request; they are sent to every redirect target.
    pub(crate) headers: HeaderMap,
    /// Headers for the origin of `url` only. An entry of `headers` takes precedence over one of
    /// these.
    pub(crate) bound: HeaderMap,
    pub(crate) body: Option<Bytes>,
    /// Attached wherever it may be sent; the first destination gets no request without it.
    pub(crate) credential: Option<Arc<Held>>,
    /// Number of redirects to follow, at most [`redirect::MAX_HOPS`].
    pub(crate) hops: usize,
    /// Whether a redirect has left the origin of the first request.
    strayed: bool,
}

/// A configured URL with its configured headers.
#[derive(Clone)]
pub(crate) struct Endpoint {
    url: Url,
    headers: HeaderMap,
}

/// A response whose body has not been read yet. Dropping it closes its stream.
pub(crate) struct Answer {
    response: reqwest::Response,
    /// Reservation for the body bytes kept in memory.
    kept: Reservation,
}

/// Why a request failed, or its response ended early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum EgressError {
    /// The guard refused the destination, either of a redirect (`sent`) or of the request itself.
    #[error("{}", refusal(*.sent))]
    Refused { sent: bool },
    /// The credential must not be sent to the destination.
    #[error("{0}")]
    Credential(CredentialProblem),
    /// The request was not sent.
    #[error("cannot connect: {0}")]
    Connect(String),
    /// The connection broke after the request was sent, or might have been sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// The body is larger than the cap.
    #[error("the body is larger than {0} bytes")]
    TooLarge(usize),
    /// The responses being read together exceed the budget of the source.
    #[error("the concurrent responses of this source are larger than {0} bytes")]
    Crowded(usize),
}

fn refusal(sent: bool) -> String {
    let after = if sent { "a redirect was not followed: " } else { "" };
    format!("{after}{Refused}")
}

// === impl SharedNetwork ===

impl SharedNetwork {
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Arc<Self> {
        Arc::new(Self { resolver, made: Mutex::new(None) })
    }

    pub(crate) fn get(&self) -> Result<Arc<Network>, String> {
        let mut made = self.made.lock();
        match &*made {
            Some(network) => Ok(Arc::clone(network)),
            None => {
                let network = Arc::new(Network::new(Arc::clone(&self.resolver))?);
                Ok(Arc::clone(made.insert(network)))
            }
        }
    }
}

// === impl Network ===

impl Network {
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Result<Self, String> {
        Ok(Self { tls: tls()?, resolver })
    }

    /// Creates the clients of a source, limited by `guard`.
    pub(crate) fn egress(&self, guard: Guard) -> Result<Egress, String> {
        let guard = Arc::new(guard);
        let public = self.client(&guard, Trust::Public)?;
        let private = self.client(&guard, Trust::Private)?;
        Ok(Egress { guard, public, private, reading: ByteBudget::new(READING) })
    }

    #[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
    fn client(&self, guard: &Arc<Guard>, trust: Trust) -> Result<reqwest::Client, String> {
        let (resolver, guard) = (Arc::clone(&self.resolver), Arc::clone(guard));
        reqwest::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            .tcp_nodelay(true)
            .tcp_keepalive(Duration::from_secs(60))
            .connect_timeout(CONNECT_TIMEOUT)
            .dns_resolver(Checked { resolver, guard, trust })
            .tls_backend_preconfigured(self.tls.clone())
            .build()
            .map_err(|error| format!("the HTTP client cannot be created: {}", causes(&error)))
    }
}

// === impl Egress ===

impl Egress {
    /// Sends one request and follows its redirects; returns once the response headers have arrived.
    /// Records the decision about each destination in `trail`.
    pub(crate) async fn send(
        &self,
        mut request: Outgoing,
        trail: &EgressTrail,
    ) -> Result<Answer, EgressError> {
        let mut left = request.hops.min(redirect::MAX_HOPS);
        let mut sent = false;
        loop {
            let answer = self.hop(&request, trail, sent).await?;
            if request.hops == 0 {
                return Ok(answer);
            }
            sent = true;
            match redirect::next(&request, answer.status(), answer.headers()) {
                Ok(None) => return Ok(answer),
                Ok(Some(_)) if left == 0 => {
                    return Err(EgressError::Broken("too many redirects".to_owned()));
                }
                Ok(Some(next)) => request = next,
                Err(error) => {
                    let to = answer.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
                    let to = to.and_then(|to| request.url.join(to).ok());
                    let reason = EgressReason::PolicyDenied;
                    trail.note(EgressDecided::denied(host(to.as_ref()), reason));
                    return Err(error);
                }
            }
            left -= 1;
        }
    }

    async fn hop(
        &self,
        request: &Outgoing,
        trail: &EgressTrail,
        sent: bool,
    ) -> Result<Answer, EgressError> {
        let destination = host(Some(&request.url));
        let refused = || {
            trail.note(EgressDecided::denied(destination.clone(), EgressReason::SsrfBlocked));
            EgressError::Refused { sent }
        };
        if redirect::has_userinfo(&request.url) {
            return Err(refused());
        }
        let client = match self.guard.judge(&request.url) {
            Ok(Trust::Public) => &self.public,
            Ok(Trust::Private) => &self.private,
            Err(Refused) => return Err(refused()),
        };
        let mut url = request.url.clone();
        let mut headers = request.bound.clone();
        for (name, value) in &request.headers {
            headers.insert(name, value.clone());
        }
        let decided = present(request, sent, &mut url, &mut headers).map_err(|denied| {
            trail.note(denied);
            EgressError::Credential(CredentialProblem::OutOfAudience)
        })?;
        let mut outgoing = reqwest::Request::new(request.method.clone(), url);
        *outgoing.headers_mut() = headers;
        *outgoing.body_mut() = request.body.clone().map(reqwest::Body::from);
        match client.execute(outgoing).await {
            Err(error) if was_refused(&error) => Err(refused()),
            outcome => {
                trail.note(decided);
                let answer = outcome?;
                if let (StatusCode::UNAUTHORIZED, Some(held)) =
                    (answer.status(), &request.credential)
                {
                    held.refused();
                }
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(EgressError::Broken("the server switched protocols".to_owned()));
                }
                Ok(Answer { response: answer, kept: self.reading.reservation() })
            }
        }
    }
}

// === impl Outgoing ===

impl Outgoing {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        let (headers, bound) = (HeaderMap::new(), HeaderMap::new());
        Self { method, url, headers, bound, body: None, credential: None, hops: 0, strayed: false }
    }
}

/// Attaches the credential of `request` to `url` and `headers`, and returns the decision about the
/// request. The first destination requires the credential. A redirect (`sent`) to another origin,
/// or to a host outside the audience, is followed without it.
fn present(
    request: &Outgoing,
    sent: bool,
    url: &mut Url,
    headers: &mut HeaderMap,
) -> Result<EgressDecided, EgressDecided> {
    let destination = host(Some(url));
    let Some(held) = &request.credential else { return Ok(EgressDecided::allowed(destination)) };
    let problem = CredentialProblem::OutOfAudience;
    let denied = credential::denied(destination.clone(), problem, Some(held.id()));
    if !request.strayed && held.attach(url, headers).is_ok() {
        let credential_id = Some(held.id().to_string());
        return Ok(EgressDecided { credential_id, ..EgressDecided::allowed(destination) });
    }
    // Even inside its audience, a credential is not forwarded to a target that an upstream chose.
    let reason = match held.may_go_to(url) {
        true => Some(EgressReason::PolicyDenied),
        false => denied.reason,
    };
    match sent && held.strip(url, headers).is_ok() {
        true => Ok(EgressDecided { decision: EgressDecision::Downgraded, reason, ..denied }),
        false => Err(EgressDecided { reason, ..denied }),
    }
}

/// Returns a TLS configuration with an explicit provider, independent of the process default.
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
        let url = parse_url("the url", &spec.url)?;
        if let Some(name) = spec
            .headers
            .keys()
            .find(|name| name.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("mcp-")))
        {
            return Err(format!("the header `{name}` is set by the protocol; remove it"));
        }
        let headers = parse_headers(&spec.headers)?;
        Ok(Self { url, headers })
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
    ) -> Outgoing {
        Outgoing {
            headers,
            bound: self.headers.clone(),
            body: body.map(Bytes::from),
            ..Outgoing::new(method, self.url.clone())
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
    if redirect::has_userinfo(&url) {
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

// === impl Answer ===

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Returns the media type in lower case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = value.and_then(|v| v.split(';').next()).unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// Returns the next chunk of the body, or `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        self.response.chunk().await.map_err(EgressError::from)
    }

    /// Sets the number of body bytes kept in memory to `bytes`.
    pub(crate) fn keep(&mut self, bytes: usize) -> Result<(), EgressError> {
        match bytes.checked_sub(self.kept.bytes()) {
            Some(more) if self.kept.grow(more) => Ok(()),
            Some(_) => Err(EgressError::Crowded(self.kept.budget().size())),
            None => {
                self.kept.shrink_to(bytes);
                Ok(())
            }
        }
    }

    /// Returns the whole body. Fails when it is larger than `max` bytes.
    pub(crate) async fn collect(mut self, max: usize) -> Result<Vec<u8>, EgressError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            if body.len() + chunk.len() > max {
                return Err(EgressError::TooLarge(max));
            }
            self.keep(body.len() + chunk.len())?;
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

impl From<EgressError> for UpstreamError {
    fn from(error: EgressError) -> Self {
        let kind = match &error {
            EgressError::Refused { sent: false } => UpstreamErrorKind::EgressRefused,
            EgressError::Refused { sent: true } => UpstreamErrorKind::RedirectRefused,
            EgressError::Credential(problem) => UpstreamErrorKind::Credential(*problem),
            EgressError::Connect(_) => UpstreamErrorKind::Unavailable,
            EgressError::Broken(_) => UpstreamErrorKind::Died,
            EgressError::TooLarge(_) | EgressError::Crowded(_) => UpstreamErrorKind::TooLarge,
        };
        Self::new(kind, error.to_string())
    }
}

/// Returns only the host of a URL.
pub(crate) fn host(url: Option<&Url>) -> String {
    url.and_then(Url::host_str).filter(|host| !host.is_empty()).unwrap_or("unknown").to_owned()
}

/// Returns whether `error` was caused by the resolver's address check.
fn was_refused(error: &reqwest::Error) -> bool {
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        if error.is::<Refused>() {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Returns the innermost cause of an error. The error's own text contains the URL, which status
/// lines must not show.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Outer layers only repeat that something failed.
        text = error.to_string();
        cause = error.source();
    }
    if text.is_empty() { "no further detail".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    mod sockets;

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
