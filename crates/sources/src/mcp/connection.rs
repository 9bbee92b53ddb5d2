//! One negotiated connection, whatever carries it.

use std::sync::Arc;

use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value};
use tokio::sync::Notify;
use toolcrib_core::{
    call::{Invocation, UpstreamError, UpstreamErrorKind},
    egress::EgressTrail,
};
use toolcrib_mcp::{message, method, param_header};

use super::{
    era::{self, Era, Session},
    http::Http,
    message::{CallParams, ListParams, Reply},
    peer::Interest,
    stdio::Stdio,
};
use crate::process::stderr::Probe;

/// One request, before it has an id.
pub(crate) struct Call<'a> {
    pub(crate) method: &'static str,
    pub(crate) era: &'a Era,
    /// The tool of the request, for routers between this client and the upstream.
    pub(crate) name: Option<&'a str>,
    pub(crate) headers: HeaderMap,
    pub(crate) interest: Interest,
    /// Whether a dropped request is cancelled at the upstream.
    pub(crate) cancellable: bool,
    /// Records which host was reached.
    pub(crate) egress: EgressTrail,
    pub(crate) encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
}

impl<'a> Call<'a> {
    /// Creates a request without a name, headers or progress.
    pub(crate) fn plain(
        method: &'static str,
        era: &'a Era,
        encode: &'a (dyn Fn(u64) -> Vec<u8> + Send + Sync),
    ) -> Self {
        let (headers, interest) = (HeaderMap::new(), Interest::default());
        let egress = EgressTrail::default();
        Self { method, era, name: None, headers, interest, cancellable: false, egress, encode }
    }
}

/// The transport of a connection.
pub(crate) enum Wire {
    Stdio(Stdio),
    Http(Arc<Http>),
}

/// Why a request has no reply.
#[derive(Debug)]
pub(crate) enum Failure {
    Upstream(UpstreamError),
    /// The upstream does not know the session; it did not read the request.
    SessionExpired,
    /// HTTP 401 or 403.
    Credentials(StatusCode),
}

/// Why there is no connection, in a line for the operator.
#[derive(Debug)]
pub(crate) struct ConnectError {
    pub(crate) reason: String,
}

/// A connection that requests can be sent on.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    pub(crate) session: Session,
    pub(crate) list_changed: Arc<Notify>,
    renewing: tokio::sync::Mutex<()>,
}

// === impl Wire ===

impl Wire {
    pub(crate) async fn request(&self, call: &Call<'_>) -> Result<Reply, Failure> {
        match self {
            Self::Stdio(stdio) => Ok(stdio.request(call).await?),
            Self::Http(http) => http.request(call).await,
        }
    }

    pub(crate) async fn notify(&self, era: &Era, message: Vec<u8>) -> Result<(), Failure> {
        match self {
            Self::Stdio(stdio) => Ok(stdio.notify(message).await?),
            Self::Http(http) => http.notify(era, message).await,
        }
    }

    /// Ends the probe of the era: the stderr of a child during the probe is kept or dropped.
    pub(crate) fn probe_ended(&self, end: Probe) {
        if let Self::Stdio(stdio) = self {
            stdio.probe_ended(end);
        }
    }

    /// Uses the result of the handshake from now on.
    pub(crate) fn enter(&self, era: &Era) {
        if let (Self::Http(http), Era::Legacy(version)) = (self, era) {
            http.set_version(version);
        }
    }
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(wire: Wire, session: Session, list_changed: Arc<Notify>) -> Self {
        Self { wire, session, list_changed, renewing: tokio::sync::Mutex::default() }
    }

    /// Whether calls repeat annotated arguments in HTTP headers.
    pub(crate) fn repeats_arguments_in_headers(&self) -> bool {
        matches!(self.wire, Wire::Http(_)) && self.session.era.is_modern()
    }

    /// Requests one page of the tool list.
    pub(crate) async fn list_tools(&self, cursor: Option<&str>) -> Result<Reply, UpstreamError> {
        let era = &self.session.era;
        let encode = |id| {
            let nothing = Map::new();
            let meta = era.meta(&nothing, None);
            message::request(id, method::LIST_TOOLS, &ListParams { cursor, meta })
        };
        let call = Call { cancellable: true, ..Call::plain(method::LIST_TOOLS, era, &encode) };
        self.request(&call).await
    }

    /// Calls a tool by its upstream name. `schema` is the tool's input schema.
    pub(crate) async fn call_tool(
        &self,
        name: &str,
        schema: Option<&Map<String, Value>>,
        invocation: &Invocation,
    ) -> Result<Reply, UpstreamError> {
        let era = &self.session.era;
        let arguments = &invocation.arguments;
        // The handshake era has no such members.
        let input = invocation.input.as_ref().filter(|_| era.is_modern());
        let responses = input.and_then(|input| input.responses.as_ref());
        let state = input.and_then(|input| input.state.as_deref());
        let encode = |id| {
            let meta = era.meta(&invocation.meta, Some(id)).declaring(input);
            let params = CallParams { name, arguments, responses, state, meta };
            message::request(id, method::CALL_TOOL, &params)
        };
        let headers = match schema {
            Some(schema) if self.repeats_arguments_in_headers() => {
                param_header::headers(schema, arguments)
            }
            _ => HeaderMap::new(),
        };
        let call = Call {
            name: Some(name),
            headers,
            interest: Interest { progress: invocation.progress.clone(), acknowledged: None },
            cancellable: true,
            egress: invocation.egress.clone(),
            ..Call::plain(method::CALL_TOOL, era, &encode)
        };
        self.request(&call).await
    }

    /// Sends a request, and repeats it with a new session if the old one has expired.
    pub(crate) async fn request(&self, call: &Call<'_>) -> Result<Reply, UpstreamError> {
        let before = match &self.wire {
            Wire::Http(http) => Some((http, http.session())),
            Wire::Stdio(_) => None,
        };
        let failure = match self.wire.request(call).await {
            Ok(reply) => return Ok(reply),
            Err(failure) => failure,
        };
        let (Failure::SessionExpired, Some((http, expired))) = (&failure, before) else {
            return Err(failure.into());
        };
        let one_at_a_time = self.renewing.lock().await;
        if http.session() == expired {
            if let Err(error) = era::initialize(&self.wire).await {
                http.end(&error.reason);
                let detail =
                    format!("the session expired and no new one could be had: {}", error.reason);
                return Err(UpstreamError::new(UpstreamErrorKind::Unavailable, detail));
            }
            // An upstream that lost the session may have other tools, too.
            self.list_changed.notify_one();
        }
        drop(one_at_a_time);
        Ok(self.wire.request(call).await?)
    }
}

// === impl Failure ===

impl Failure {
    /// Whether another era would fail as well.
    pub(crate) fn is_final(&self) -> bool {
        match self {
            Self::Upstream(error) => matches!(
                error.kind,
                UpstreamErrorKind::Unavailable | UpstreamErrorKind::Credential(_)
            ),
            Self::Credentials(_) => true,
            Self::SessionExpired => false,
        }
    }
}

impl From<UpstreamError> for Failure {
    fn from(error: UpstreamError) -> Self {
        Self::Upstream(error)
    }
}

impl From<Failure> for UpstreamError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Upstream(error) => error,
            Failure::SessionExpired => {
                Self::new(UpstreamErrorKind::Refused, "the session expired again at once")
            }
            Failure::Credentials(status) => {
                Self::new(UpstreamErrorKind::Refused, credentials_refused(status))
            }
        }
    }
}

/// Describes 401 or 403 for the operator.
pub(crate) fn credentials_refused(status: StatusCode) -> String {
    format!("upstream refused our credentials ({})", status.as_u16())
}

// === impl ConnectError ===

impl ConnectError {
    pub(crate) fn new(reason: &str) -> Self {
        Self { reason: reason.to_owned() }
    }
}

impl From<Failure> for ConnectError {
    fn from(failure: Failure) -> Self {
        // The details of failures are made here, not quoted from the upstream.
        Self { reason: UpstreamError::from(failure).detail }
    }
}
