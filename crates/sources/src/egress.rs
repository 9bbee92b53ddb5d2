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
mod connect;
mod content;
mod error;
mod guard;
mod outgoing;
mod redirect;
mod resolve;
mod retry_after;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use parking_lot::Mutex;
use toolcrib_core::{
    budget::{ByteBudget, Reservation},
    clock::Timestamp,
    credential::{CredentialProblem, denied},
    egress::{EgressDecided, EgressDecision, EgressReason, EgressTrail},
};
use url::{Host, Url};

pub use self::resolve::{Resolver, SystemResolver};
use self::{
    connect::HttpClients,
    content::Content,
    error::was_refused,
    guard::{GuardRefusal, Trust},
    outgoing::has_userinfo,
    resolve::GuardedResolver,
};
pub(crate) use self::{
    content::Flaw,
    error::EgressError,
    guard::Guard,
    outgoing::{
        CONNECTION_HEADERS, Endpoint, MAX_HOPS, OutgoingRequest, host, parse_headers, parse_url,
    },
};
use crate::credential::SendableCredential;

/// Budget in bytes for the response bodies of one source that are read at the same time: 64 calls
/// (the usual limit) with 4 MiB each (the usual largest body).
const READING: usize = 256 << 20;

/// How long a name may take to be resolved when no request waits for it.
const RESOLVE_TIME: Duration = Duration::from_secs(2);

/// The default `User-Agent`; the configured headers of a source can replace it. Some services
/// refuse requests without one.
const USER_AGENT: HeaderValue =
    HeaderValue::from_static(concat!("toolcrib/", env!("CARGO_PKG_VERSION")));

/// Shared by all sources: the resolver, and the TLS configuration with the machine's certificates.
/// It is created on first use: reading the certificates takes time that a start without HTTP need
/// not spend.
pub(crate) struct Network {
    resolver: Arc<dyn Resolver>,
    tls: Mutex<Option<rustls::ClientConfig>>,
}

/// The HTTP clients of one source, limited to the destinations its guard allows; clones share their
/// pools.
///
/// Each client pools the connections it opened. A connection to a private address, opened for a
/// permitted destination, is therefore never reused for another one.
#[derive(Clone)]
pub(crate) struct Egress {
    guard: Arc<Guard>,
    resolver: Arc<dyn Resolver>,
    public: Arc<HttpClients>,
    private: Arc<HttpClients>,
    /// The budget of bytes for the responses that are being read.
    reading: ByteBudget,
}

/// A response whose body has not been read yet. Dropping it closes its stream.
pub(crate) struct Answer {
    response: Response<Incoming>,
    content: Content,
    /// Whether a redirect led to it.
    is_redirected: bool,
    /// Reservation for the body bytes kept in memory.
    kept: Reservation,
}

/// The part of a body that could be read.
pub(crate) struct Body {
    pub(crate) bytes: Vec<u8>,
    /// The problem of the body, if any.
    pub(crate) flaw: Option<Flaw>,
}

// === impl Network ===

impl Network {
    pub(crate) fn new(resolver: Arc<dyn Resolver>) -> Arc<Self> {
        Arc::new(Self { resolver, tls: Mutex::new(None) })
    }

    fn tls(&self) -> Result<rustls::ClientConfig, String> {
        let mut created = self.tls.lock();
        match &*created {
            Some(tls) => Ok(tls.clone()),
            None => Ok(created.insert(tls()?).clone()),
        }
    }

    /// Creates the clients of a source, limited by `guard`.
    pub(crate) fn egress(&self, guard: Guard) -> Result<Egress, String> {
        let guard = Arc::new(guard);
        let public = Arc::new(self.clients(&guard, Trust::Public)?);
        let private = Arc::new(self.clients(&guard, Trust::Private)?);
        let resolver = Arc::clone(&self.resolver);
        Ok(Egress { guard, resolver, public, private, reading: ByteBudget::new(READING) })
    }

    fn clients(&self, guard: &Arc<Guard>, trust: Trust) -> Result<HttpClients, String> {
        let (resolver, guard) = (Arc::clone(&self.resolver), Arc::clone(guard));
        Ok(HttpClients::new(GuardedResolver { resolver, guard, trust }, self.tls()?))
    }
}

// === impl Egress ===

impl Egress {
    /// Whether the operator listed the host of `url` in `allow`.
    pub(crate) fn lists(&self, url: &Url) -> bool {
        self.guard.lists(url)
    }

    /// Whether requests to `url` are refused, as far as its name can be resolved now.
    pub(crate) async fn refuses(&self, url: &Url) -> bool {
        let Ok(trust) = self.guard.judge(url) else { return true };
        let Some(Host::Domain(name)) = url.host() else { return false };
        let resolved = tokio::time::timeout(RESOLVE_TIME, self.resolver.resolve(name)).await;
        resolved.is_ok_and(|found| {
            found.is_ok_and(|addresses| self.guard.check(trust, &addresses).is_err())
        })
    }

    /// Sends one request and follows its redirects; returns once the response headers have arrived.
    /// Records the decision about each destination in `trail`.
    pub(crate) async fn send(
        &self,
        mut request: OutgoingRequest,
        trail: &EgressTrail,
    ) -> Result<Answer, EgressError> {
        let mut left = request.hops.min(MAX_HOPS);
        let mut sent = false;
        loop {
            let answer = self.hop(&mut request, trail, sent).await;
            let mut answer =
                if sent { answer.map_err(EgressError::after_redirect)? } else { answer? };
            answer.is_redirected = sent;
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
        request: &mut OutgoingRequest,
        trail: &EgressTrail,
        sent: bool,
    ) -> Result<Answer, EgressError> {
        let destination = host(Some(&request.url));
        let refused = || {
            trail.note(EgressDecided::denied(destination.clone(), EgressReason::SsrfBlocked));
            EgressError::Refused { sent }
        };
        if has_userinfo(&request.url) {
            return Err(refused());
        }
        let client = match self.guard.judge(&request.url) {
            Ok(Trust::Public) => self.public.here(),
            Ok(Trust::Private) => self.private.here(),
            Err(GuardRefusal) => return Err(refused()),
        };
        let mut headers = match request.hops {
            // The last hop: the headers are not needed again.
            0 => std::mem::take(&mut request.headers),
            _ => request.headers.clone(),
        };
        for (name, value) in &request.bound {
            headers.entry(name).or_insert_with(|| value.clone());
        }
        if let Some(trace) = trail.trace() {
            outgoing::continue_trace(trace, &mut headers);
        }
        let (decided, uri) = match &request.credential {
            None => (EgressDecided::allowed(destination.clone()), uri(request)?),
            Some(held) => {
                let mut url = request.url.clone();
                let decided = present(held, request.strayed, sent, &mut url, &mut headers);
                let decided = decided.map_err(|denied| {
                    trail.note(denied);
                    EgressError::Credential(CredentialProblem::OutOfAudience)
                })?;
                (decided, uri_of(&url)?)
            }
        };
        headers.entry(header::ACCEPT).or_insert(HeaderValue::from_static("*/*"));
        headers.entry(header::USER_AGENT).or_insert(USER_AGENT);
        headers.entry(header::ACCEPT_ENCODING).or_insert(content::ACCEPTED);
        let mut outgoing = Request::new(Full::new(request.body.clone().unwrap_or_default()));
        *outgoing.method_mut() = request.method.clone();
        *outgoing.uri_mut() = uri;
        *outgoing.headers_mut() = headers;
        match client.request(outgoing).await {
            Err(error) if was_refused(&error) => Err(refused()),
            outcome => {
                trail.note(decided);
                let answer = outcome?;
                if let (StatusCode::UNAUTHORIZED, Some(credential)) =
                    (answer.status(), &request.credential)
                {
                    credential.refused();
                }
                if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
                    return Err(EgressError::Broken("the server switched protocols".to_owned()));
                }
                let content = Content::of(answer.headers());
                let kept = self.reading.reservation();
                Ok(Answer { response: answer, content, is_redirected: false, kept })
            }
        }
    }
}

/// Returns the address of `request` in the client's type.
fn uri(request: &OutgoingRequest) -> Result<Uri, EgressError> {
    request.uri.clone().map_or_else(|| uri_of(&request.url), Ok)
}

fn uri_of(url: &Url) -> Result<Uri, EgressError> {
    Uri::try_from(url.as_str())
        .map_err(|error| EgressError::Connect(format!("the URL cannot be requested: {error}")))
}

/// Attaches a credential to `url` and `headers`, and decides about the request. The first
/// destination requires the credential. A redirect (`sent`) to another origin, or to a host outside
/// the audience, is followed without it.
fn present(
    held: &SendableCredential,
    strayed: bool,
    sent: bool,
    url: &mut Url,
    headers: &mut HeaderMap,
) -> Result<EgressDecided, EgressDecided> {
    let destination = host(Some(url));
    let problem = CredentialProblem::OutOfAudience;
    let refusal = denied(destination.clone(), problem, Some(held.id()));
    if !strayed && held.attach(url, headers).is_ok() {
        let credential_id = Some(held.id().to_string());
        return Ok(EgressDecided { credential_id, ..EgressDecided::allowed(destination) });
    }
    // Even inside its audience, a credential is not forwarded to a target that an upstream chose.
    let reason = match held.may_go_to(url) {
        true => Some(EgressReason::PolicyDenied),
        false => refusal.reason,
    };
    match sent && held.strip(url, headers).is_ok() {
        true => Ok(EgressDecided { decision: EgressDecision::Downgraded, reason, ..refusal }),
        false => Err(EgressDecided { reason, ..refusal }),
    }
}

/// Creates a TLS configuration with an explicit provider, independent of the process default.
fn tls() -> Result<rustls::ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| format!("TLS cannot be set up: {error}"))?;
    Ok(match rustls_platform_verifier::Verifier::new(provider) {
        Ok(verifier) => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth(),
        Err(error) => {
            // A machine without certificates can still reach `http` upstreams; `https` ones fail
            // closed, because no authority is trusted.
            tracing::warn!(%error, "no certificate authorities found; https sources will not connect");
            builder.with_root_certificates(rustls::RootCertStore::empty()).with_no_client_auth()
        }
    })
}

// === impl Answer ===

impl Answer {
    pub(crate) fn status(&self) -> StatusCode {
        self.response.status()
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        self.response.headers()
    }

    /// Whether a redirect led to it: the first request may have had its effect.
    pub(crate) fn is_redirected(&self) -> bool {
        self.is_redirected
    }

    /// Returns the media type in lower case, without parameters.
    pub(crate) fn media_type(&self) -> String {
        let value = self.headers().get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok());
        let essence = value.and_then(|v| v.split(';').next()).unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// How long to wait before a retry, if a busy service says so.
    pub(crate) fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        retry_after::retry_after(self.status(), self.headers(), now)
    }

    /// The problem of the part of the body that was read.
    pub(crate) fn flaw(&self) -> Option<Flaw> {
        self.content.flaw()
    }

    /// Reads the next chunk of the body; `None` at its end. Fails at the place where a compressed
    /// body is damaged.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, EgressError> {
        loop {
            if let Some(piece) = self.content.next() {
                return Ok(Some(piece));
            }
            if self.content.flaw() == Some(Flaw::Damaged) {
                return Err(EgressError::Broken("the compressed body is damaged".to_owned()));
            }
            match self.response.frame().await {
                // Trailers are left out.
                Some(frame) => {
                    if let Ok(data) = frame?.into_data() {
                        self.content.put(data);
                    }
                }
                None => match self.content.finish() {
                    Some(last) => return Ok(Some(last)),
                    None if self.content.flaw() == Some(Flaw::Damaged) => {}
                    None => return Ok(None),
                },
            }
        }
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

    /// Reads the whole body. Fails if it is larger than `max` bytes.
    pub(crate) async fn collect(mut self, max: usize) -> Result<Vec<u8>, EgressError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk().await? {
            self.append(&mut body, &chunk, max)?;
        }
        Ok(body)
    }

    /// Reads as much of the body as possible: the request has had its effect, even if the answer is
    /// damaged. Fails if the body is larger than `max` bytes.
    pub(crate) async fn read(mut self, max: usize) -> Result<Body, EgressError> {
        let mut bytes = Vec::new();
        let flaw = loop {
            match self.chunk().await {
                Ok(Some(chunk)) => self.append(&mut bytes, &chunk, max)?,
                Ok(None) => break self.flaw(),
                Err(_) => {
                    let is_damaged = self.flaw() == Some(Flaw::Damaged);
                    let last = self.content.finish().unwrap_or_default();
                    self.append(&mut bytes, &last, max)?;
                    break Some(if is_damaged { Flaw::Damaged } else { Flaw::Incomplete });
                }
            }
        };
        // Valid text is not compressed, even if the header declares a coding.
        let is_text = || std::str::from_utf8(&bytes).is_ok();
        let flaw = flaw.filter(|flaw| *flaw != Flaw::UnknownCoding || !is_text());
        Ok(Body { bytes, flaw })
    }

    /// Reads the first bytes of the body of a refusal, at most `max`. Errors only shorten it,
    /// because the status alone is sufficient.
    pub(crate) async fn beginning(mut self, max: usize) -> Vec<u8> {
        let mut body = Vec::new();
        while let Ok(Some(mut chunk)) = self.chunk().await {
            chunk.truncate(max - body.len());
            if self.append(&mut body, &chunk, max).is_err() || body.len() == max {
                break;
            }
        }
        body
    }

    fn append(&mut self, body: &mut Vec<u8>, chunk: &[u8], max: usize) -> Result<(), EgressError> {
        let size = body.len() + chunk.len();
        if size > max {
            return Err(EgressError::TooLarge(max));
        }
        self.keep(size)?;
        body.extend_from_slice(chunk);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    mod sockets;
}
