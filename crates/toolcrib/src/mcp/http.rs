//! Streamable HTTP: one POST per message, answered with JSON or with a stream of events.
//!
//! A handshake opens a session; `GET` opens its stream, and `DELETE` ends it. Handshake clients
//! without a session are served like those of the stateless revision. They miss only change
//! notifications and `notifications/cancelled`. Closing the POST cancels its request in every
//! revision (I-22).

mod headers;
mod standing;
mod stream;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
    routing::any,
};
use http::{HeaderMap, Method, StatusCode, header};
use tokio_util::sync::CancellationToken;
use toolcrib_core::principal::Principal;
use toolcrib_gateway::{CatalogScope, ToolRef, config::Config, metrics::Surface};
use toolcrib_mcp::{
    message::RpcError,
    method::INITIALIZE,
    revision::{Era, MODERN},
};
use utoipa_axum::router::OpenApiRouter;

use super::{
    answer,
    call::{CallAnswer, CallMessage, ToolCall},
    consent, era, error,
    host::{Host, RequestContext},
    method::{self, Step},
    param_headers,
    protocol::{self, Id, Message, Notification, Rejected},
    session::Hold,
};
use crate::{
    dialect::Setup,
    middleware::{Access, Caller, Challenge, Mount, Paths, Payload, Refusal, Segment},
    respond,
    serve::Stopping,
    state::AppState,
};
use headers::Readable;
use standing::Named;
use stream::First;

/// The URL of the whole catalog; the URLs of toolsets are below it.
const PATH: &str = "/mcp";
/// The URL of one toolset.
const TOOLSET: &str = "/mcp/{toolset}";
/// How long a silent call may take until its response becomes a stream: long enough that ordinary
/// calls get a plain response, short enough that no proxy times out.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns its mounts.
pub(super) fn mounts(config: &Config) -> Vec<Mount> {
    let access = Access::Keyed(config.mcp.auth);
    // The exact path comes first, so that the record names which of the two was requested.
    [Paths::exactly([PATH]), Paths::Under(PATH.to_owned())]
        .map(|paths| Mount::new(Surface::Mcp, paths, access, refuse))
        .into()
}

/// Returns the routes, which are built only with a gateway. Their description is separate.
pub(super) fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let Some(gateway) = setup.gateway else { return OpenApiRouter::new() };
    let endpoint = Arc::new(Endpoint {
        host: Host::new(gateway.clone(), setup.config.mcp.clone()),
        max_body: setup.config.server.max_body_bytes,
        challenge: Challenge::of(setup.config.resource.as_ref()),
    });
    let routes = Router::new().route(PATH, any(everything)).route(TOOLSET, any(toolset));
    OpenApiRouter::from(routes.with_state(endpoint))
}

/// State of the routes.
struct Endpoint {
    host: Arc<Host>,
    max_body: usize,
    challenge: Challenge,
}

/// Formats a refusal outside the protocol: a JSON-RPC error without an id.
fn refuse(refusal: &Refusal) -> Response {
    let status = refusal.status();
    fail(status, &RpcError::new(error::of_status(status), refusal.to_string()))
}

async fn everything(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(principal): Caller,
    request: Request,
) -> Response {
    dispatch(&endpoint, principal, &CatalogScope::default(), request).await
}

/// I-76
async fn toolset(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(principal): Caller,
    name: Segment,
    request: Request,
) -> Response {
    let within = CatalogScope::toolset(name.as_str());
    match endpoint.host.gateway.snapshot().has(&within) {
        true => dispatch(&endpoint, principal, &within, request).await,
        false => fail(StatusCode::NOT_FOUND, &error::no_toolset()),
    }
}

/// Dispatches by method itself, because `Allow` depends on the configuration, and HEAD must not
/// open a stream.
async fn dispatch(
    endpoint: &Endpoint,
    principal: Arc<Principal>,
    within: &CatalogScope,
    request: Request,
) -> Response {
    let stop = request.extensions().get().map(|Stopping(stop)| stop.clone()).unwrap_or_default();
    match *request.method() {
        Method::POST => receive(endpoint, &principal, within, request, stop).await,
        Method::GET => standing::open(&endpoint.host, &principal, within, request.headers(), stop),
        Method::DELETE => {
            standing::end(&endpoint.host, &principal, within, request.headers()).await
        }
        _ if endpoint.host.config.sessions => standing::not_allowed("GET,POST,DELETE"),
        _ => standing::not_allowed("POST"),
    }
}

async fn receive(
    endpoint: &Endpoint,
    principal: &Arc<Principal>,
    within: &CatalogScope,
    request: Request,
    stop: CancellationToken,
) -> Response {
    if !headers::is_json(request.headers()) {
        let problem = "the Content-Type must be application/json";
        return fail(StatusCode::UNSUPPORTED_MEDIA_TYPE, &RpcError::invalid_request(problem));
    }
    let (head, body) = request.into_parts();
    let body = match Payload::read(&head, body, endpoint.max_body).await {
        Ok(Payload(body)) => body,
        Err(refusal) => return refusal.into_response(),
    };
    match answer(endpoint, principal, within, &head.headers, &body, stop).await {
        Ok(response) => response,
        Err(Rejected { id, error }) => {
            let body = answer::error(id.as_ref(), &error);
            respond::json_bytes(StatusCode::BAD_REQUEST, body)
        }
    }
}

async fn answer(
    endpoint: &Endpoint,
    principal: &Arc<Principal>,
    within: &CatalogScope,
    headers: &HeaderMap,
    body: &[u8],
    stop: CancellationToken,
) -> Result<Response, Rejected> {
    let host = &endpoint.host;
    let message = protocol::parse(body)?;
    let reject = |id, error| Rejected { id, error };
    let version =
        headers::version(headers).map_err(|error| reject(message.id().cloned(), error))?;
    let request = match message {
        Message::Request(request) => request,
        Message::Notification(notification) => {
            return notice(endpoint, principal, within, headers, version, Some(&notification));
        }
        Message::Response => return notice(endpoint, principal, within, headers, version, None),
    };
    let era = era::detect(&request, Some(version))?;
    let Some(readable) = headers::readable(headers, era) else {
        let problem = "Accept must list application/json and text/event-stream";
        let body = answer::error(Some(&request.id), &RpcError::invalid_request(problem));
        return Ok(respond::json_bytes(StatusCode::NOT_ACCEPTABLE, body));
    };
    let id = request.id.clone();
    if era == Era::Modern {
        headers::check_request(headers, &request)
            .map_err(|error| reject(Some(id.clone()), error))?;
    }
    // The stateless revision has no sessions, and a handshake opens a new one.
    let shakes = era == Era::Legacy && request.method == INITIALIZE;
    let hold = match era {
        Era::Legacy if !shakes => match standing::named(host, principal, within, headers)
            .map_err(|error| reject(Some(id.clone()), error))?
        {
            Named::Session(hold) => Some(hold),
            Named::None => None,
            Named::Unknown => return Ok(no_session(Some(&id))),
        },
        Era::Legacy | Era::Modern => None,
    };
    let opened =
        (shakes && host.config.sessions).then(|| host.sessions.open(principal, within)).flatten();
    if let Some(session) = &opened {
        session.set_opens(consent::opens_by_handshake(&request.params));
    }
    let context = RequestContext {
        host,
        principal,
        within,
        session: hold.as_ref().map(Hold::session),
        tells_changes: opened.is_some(),
    };
    match method::start(context, era, request) {
        Ok(Step::Answer(body)) => {
            let response = respond::json_bytes(StatusCode::OK, body);
            Ok(match opened {
                Some(session) => standing::with_session(response, session.id()),
                None => response,
            })
        }
        Ok(Step::Call(call)) => {
            if era == Era::Modern && !call.is_indirect() {
                check_params(principal, within, headers, &call)
                    .map_err(|error| reject(Some(id), error))?;
            }
            Ok(run(endpoint, call, readable).await)
        }
        Ok(Step::Listen(listen)) => Ok(standing::listen(*listen, stop)),
        Err(error) => {
            let body = answer::error(Some(&id), &error);
            Ok(respond::json_bytes(error::status(&error, era), body))
        }
    }
}

/// Accepts a message without a response: a notification, or an unexpected response.
fn notice(
    endpoint: &Endpoint,
    principal: &Principal,
    within: &CatalogScope,
    headers: &HeaderMap,
    version: Option<&str>,
    notification: Option<&Notification>,
) -> Result<Response, Rejected> {
    let reject = |error| Rejected { id: None, error };
    era::check_version(version).map_err(reject)?;
    if version != Some(MODERN) {
        match standing::named(&endpoint.host, principal, within, headers).map_err(reject)? {
            Named::None => {}
            Named::Unknown => return Ok(no_session(None)),
            Named::Session(hold) => {
                if let Some(id) = notification.and_then(Notification::cancels) {
                    hold.session().cancel(&id);
                }
            }
        }
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

fn no_session(id: Option<&Id>) -> Response {
    respond::json_bytes(StatusCode::NOT_FOUND, answer::error(id, &error::no_session()))
}

/// Checks the headers that repeat arguments. Applies only to a tool that the caller sees: otherwise
/// the response would depend on whether a hidden tool exists (I-9).
fn check_params(
    principal: &Principal,
    within: &CatalogScope,
    headers: &HeaderMap,
    call: &ToolCall,
) -> Result<(), RpcError> {
    let tool = ToolRef::Wire(call.name());
    let Ok(entry) = call.snapshot().find(principal, tool, within) else { return Ok(()) };
    match param_headers::of(&entry) {
        params if params.is_empty() => Ok(()),
        params => headers::check_params(headers, &params, call.arguments()),
    }
}

/// Runs `call`. Until this returns, dropping the future cancels the call; afterwards the stream
/// owns it.
async fn run(endpoint: &Endpoint, call: Box<ToolCall>, readable: Readable) -> Response {
    if readable == Readable::Json {
        let mut running = call.without_progress().run();
        return match running.next().await {
            Some(CallMessage::Answer(answer)) => whole(endpoint, answer),
            Some(CallMessage::Progress(_)) => Refusal::Internal.into_response(),
            None => StatusCode::ACCEPTED.into_response(),
        };
    }
    let mut running = call.run();
    match tokio::time::timeout(PATIENCE, running.next()).await {
        Ok(Some(CallMessage::Answer(answer))) => whole(endpoint, answer),
        Ok(Some(CallMessage::Progress(first))) => stream::respond(running, First::Message(first)),
        // Cancelled by a notification, so no response is expected.
        Ok(None) => StatusCode::ACCEPTED.into_response(),
        Err(_elapsed) => stream::respond(running, First::Nothing),
    }
}

fn whole(endpoint: &Endpoint, answer: CallAnswer) -> Response {
    let mut response = respond::json_bytes(answer.status, answer.bytes);
    // Reveals no more than the body: a caller that may not know of the tool gets no scopes (I-9).
    if let Some(challenge) = answer.lacks.and_then(|scopes| endpoint.challenge.scopes(&scopes)) {
        *response.status_mut() = StatusCode::FORBIDDEN;
        response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    }
    response = respond::with_run(response, answer.run_id.as_ref());
    if let Some(wait) = answer.retry_after {
        response = respond::with_retry_after(response, wait);
    }
    response
}

fn fail(status: StatusCode, error: &RpcError) -> Response {
    respond::json_bytes(status, answer::error(None, error))
}
