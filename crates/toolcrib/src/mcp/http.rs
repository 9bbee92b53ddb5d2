//! Streamable HTTP: one POST per message, answered with JSON or with a stream of events.
//!
//! A handshake opens a session; `GET` opens its stream, and `DELETE` closes it. Handshake clients
//! without a session are served like those of the stateless revision. They miss only change
//! notifications and `notifications/cancelled`. Closing the POST cancels its request in every
//! revision (I-22).

mod headers;
mod reply;
mod sessions;
mod stream;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    response::{IntoResponse as _, Response},
    routing::any,
};
use futures_util::StreamExt as _;
use http::{HeaderMap, Method, StatusCode};
use tokio_util::sync::CancellationToken;
use toolcrib_config::Config;
use toolcrib_gateway::CatalogScope;
use toolcrib_mcp::{
    message::RpcError,
    method::INITIALIZE,
    revision::{Era, MODERN},
};
use utoipa_axum::router::OpenApiRouter;

use self::{
    headers::AcceptedTypes,
    reply::{fail, invalid, no_session, not_allowed, unavailable},
    sessions::NamedSession,
    stream::StreamStart,
};
use super::{
    call::{CallAnswer, RunningCall, SURFACE, ToolCall},
    era::{self, DetectedEra, VersionHeader},
    error,
    host::{Client, Host, RequestContext},
    method::{self, Step},
    observe,
    outgoing::OutgoingMessage,
    param_headers,
    protocol::{self, InvalidMessage, Message, Notification},
    session::{Handshake, SessionHold},
};
use crate::{
    middleware::{
        Access, Caller, Credentials, MCP, MissingScopes, Mount, Paths, Payload, Refusal, Segment,
    },
    respond,
    route_set::Setup,
    serve::connection,
    state::AppState,
};

/// The URL of one toolset; [`MCP`] is the one of the whole catalog.
const TOOLSET: &str = "/mcp/{toolset}";
/// Both with a trailing slash, as some clients write them.
const PATH_WITH_SLASH: &str = "/mcp/";
const TOOLSET_WITH_SLASH: &str = "/mcp/{toolset}/";
/// How long a silent call may take until its response becomes a stream: long enough that ordinary
/// calls get a plain response, short enough that no proxy times out.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) fn mounts(config: &Config) -> Vec<Mount> {
    let access = Access::Keyed(config.mcp.auth);
    // The exact path comes first, so that the record names which of the two was requested.
    [Paths::exactly([MCP]), Paths::Under(MCP.to_owned())]
        // The page calls tools there, to answer their requests for input.
        .map(|paths| Mount {
            credentials: Credentials::PAGE,
            ..Mount::new(SURFACE, paths, access, refuse)
        })
        .into()
}

/// The routes, which are built only with a gateway. Their description is separate.
pub(super) fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let Some(gateway) = setup.gateway else { return OpenApiRouter::new() };
    let endpoint = Arc::new(Endpoint {
        host: Host::new(gateway.clone(), setup.config.mcp.clone()),
        max_body: setup.config.server.max_body_bytes,
    });
    let routes = Router::new()
        .route(MCP, any(everything))
        .route(PATH_WITH_SLASH, any(everything))
        .route(TOOLSET, any(toolset))
        .route(TOOLSET_WITH_SLASH, any(toolset));
    OpenApiRouter::from(routes.with_state(endpoint))
}

/// State of the routes.
struct Endpoint {
    host: Arc<Host>,
    max_body: usize,
}

/// Formats a refusal outside the protocol: a JSON-RPC error without an id.
fn refuse(refusal: &Refusal) -> Response {
    let status = refusal.status();
    fail(status, None, &RpcError::new(error::of_status(status), refusal.to_string()))
}

async fn everything(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(principal): Caller,
    request: Request,
) -> Response {
    let host = Arc::clone(&endpoint.host);
    dispatch(&endpoint, &Client { host, principal, within: CatalogScope::default() }, request).await
}

/// I-76
async fn toolset(
    State(endpoint): State<Arc<Endpoint>>,
    Caller(principal): Caller,
    name: Segment,
    request: Request,
) -> Response {
    let (host, within) = (Arc::clone(&endpoint.host), CatalogScope::toolset(name.as_str()));
    match host.gateway.snapshot().has(&within) {
        true => dispatch(&endpoint, &Client { host, principal, within }, request).await,
        false => fail(StatusCode::NOT_FOUND, None, &error::no_toolset()),
    }
}

/// Dispatches by method itself, because `Allow` depends on the configuration, and HEAD must not
/// open a stream.
async fn dispatch(endpoint: &Endpoint, client: &Client, request: Request) -> Response {
    let stop = connection::stopping();
    match *request.method() {
        Method::POST => receive(endpoint, client, request, stop).await,
        Method::GET => sessions::open(client, request.headers(), stop).await,
        Method::DELETE => sessions::end(client, request.headers()).await,
        _ if client.host.config.sessions => not_allowed("GET,POST,DELETE"),
        _ => not_allowed("POST"),
    }
}

async fn receive(
    endpoint: &Endpoint,
    client: &Client,
    request: Request,
    stop: CancellationToken,
) -> Response {
    if !headers::is_json(request.headers()) {
        let problem = "the Content-Type must be application/json";
        return invalid(StatusCode::UNSUPPORTED_MEDIA_TYPE, None, problem);
    }
    let (head, body) = request.into_parts();
    let body = match Payload::read(&head, body, endpoint.max_body).await {
        Ok(Payload(body)) => body,
        Err(refusal) => return refusal.into_response(),
    };
    answer(client, &head.headers, &body, stop).await.unwrap_or_else(
        |InvalidMessage { id, error }| fail(StatusCode::BAD_REQUEST, id.as_ref(), &error),
    )
}

async fn answer(
    client: &Client,
    headers: &HeaderMap,
    body: &[u8],
    stop: CancellationToken,
) -> Result<Response, InvalidMessage> {
    let host = &client.host;
    let message = protocol::parse(body)?;
    let id = message.id().cloned();
    let reject = |error| InvalidMessage { id: id.clone(), error };
    let version = headers::version(headers).map_err(reject)?;
    observe::version(version);
    let request = match message {
        Message::Request(request) => request,
        Message::Notification(notification) => {
            return accept(client, headers, version, Some(&notification)).await;
        }
        Message::Response => return accept(client, headers, version, None).await,
    };
    let strict = host.config.strict_headers;
    let detected = era::detect(&request, VersionHeader::Http { value: version, strict })?;
    let DetectedEra { era, is_mixed } = detected;
    if is_mixed {
        let client = era::client_name(&request.params).unwrap_or_default();
        if host.gateway.metrics().mixed_versions(client) {
            tracing::warn!(
                client = %error::quoted(client),
                header = version,
                body = era::revision(&request.params),
                "a client names two revisions of MCP in one request; the one in the body counts"
            );
        }
    }
    let readable = headers::readable(headers);
    let readable = readable.filter(|types| !strict || *types == AcceptedTypes::JsonAndEvents);
    let Some(readable) = readable else {
        let problem = match strict {
            true => "Accept must list application/json and text/event-stream",
            false => "Accept must allow application/json or text/event-stream",
        };
        return Ok(invalid(StatusCode::NOT_ACCEPTABLE, id.as_ref(), problem));
    };
    if era == Era::Modern {
        // A client that sends the headers of another revision does not know these.
        headers::check_request(headers, &request, !is_mixed).map_err(reject)?;
    }
    // The stateless revision has no sessions, and a handshake opens a new one.
    let is_handshake = era == Era::Legacy && request.method == INITIALIZE;
    let hold = match era {
        Era::Legacy if !is_handshake => {
            match sessions::named(client, headers).await.map_err(reject)? {
                NamedSession::Own(hold) => {
                    observe::session(&hold.session().id);
                    Some(hold)
                }
                NamedSession::None => None,
                NamedSession::Unknown => return Ok(no_session(id.as_ref())),
                NamedSession::Unavailable => return Ok(unavailable(id.as_ref())),
            }
        }
        Era::Legacy | Era::Modern => None,
    };
    let opened = match is_handshake && host.config.sessions {
        true => {
            let handshake = Handshake::read(&request.params);
            host.sessions.open(&client.principal, &client.within, handshake).await
        }
        false => None,
    };
    let context = RequestContext {
        client,
        session: hold.as_ref().map(SessionHold::session),
        notifies_changes: opened.is_some(),
        reads_structured: match &hold {
            _ if era == Era::Modern => true,
            Some(hold) => hold.session().handshake.reads_structured(),
            None => era::reads_structured(version),
        },
    };
    match method::start(context, era, request) {
        Ok(Step::Answer(body)) => {
            let response = match readable {
                AcceptedTypes::Events => {
                    stream::respond(futures_util::stream::empty(), StreamStart::Message(body))
                }
                _ => respond::json_bytes(StatusCode::OK, body),
            };
            Ok(match opened {
                Some(hold) => sessions::with_session(response, &hold.session().id),
                None => response,
            })
        }
        Ok(Step::Call(mut call)) => {
            if era == Era::Modern && !call.is_indirect {
                check_params(headers, &mut call, !is_mixed).map_err(reject)?;
            }
            Ok(run(call, readable).await)
        }
        Ok(Step::Listen(listen)) => {
            let messages = listen.messages(stop).map(OutgoingMessage::into_bytes);
            Ok(stream::respond(messages, StreamStart::Comment))
        }
        Err(error) => Ok(fail(error::status(&error, era), id.as_ref(), &error)),
    }
}

/// Accepts a message without a response: a notification, or an unexpected response.
async fn accept(
    client: &Client,
    headers: &HeaderMap,
    version: Option<&str>,
    notification: Option<&Notification>,
) -> Result<Response, InvalidMessage> {
    let reject = |error| InvalidMessage { id: None, error };
    era::check_version(version).map_err(reject)?;
    if version != Some(MODERN) {
        match sessions::named(client, headers).await.map_err(reject)? {
            NamedSession::None => {}
            NamedSession::Unknown => return Ok(no_session(None)),
            NamedSession::Unavailable => return Ok(unavailable(None)),
            NamedSession::Own(hold) => {
                if let Some(id) = notification.and_then(Notification::cancels) {
                    hold.session().cancel(&id);
                }
            }
        }
    }
    Ok(StatusCode::ACCEPTED.into_response())
}

/// Checks the headers that repeat arguments. Applies only to a tool that the caller sees: otherwise
/// the response would depend on whether a hidden tool exists (I-9).
fn check_params(headers: &HeaderMap, call: &mut ToolCall, required: bool) -> Result<(), RpcError> {
    let Some(entry) = call.find() else { return Ok(()) };
    match param_headers::of(&entry) {
        params if params.is_empty() => Ok(()),
        params => headers::check_params(headers, &params, &call.arguments, required),
    }
}

/// Runs `call`. Until this returns, dropping the future cancels the call; afterwards the stream
/// owns it.
async fn run(call: Box<ToolCall>, readable: AcceptedTypes) -> Response {
    if readable == AcceptedTypes::Events {
        return events(call.run(), StreamStart::Comment);
    }
    if readable == AcceptedTypes::Json {
        let mut running = call.without_progress().run();
        return match running.next().await {
            Some(OutgoingMessage::Answer(answer)) => whole(answer),
            Some(OutgoingMessage::Notification(_)) => Refusal::Internal.into_response(),
            None => StatusCode::ACCEPTED.into_response(),
        };
    }
    let mut running = call.run();
    match tokio::time::timeout(PATIENCE, running.next()).await {
        Ok(Some(OutgoingMessage::Answer(answer))) => whole(answer),
        Ok(Some(OutgoingMessage::Notification(first))) => {
            events(running, StreamStart::Message(first))
        }
        // Cancelled by a notification, so no response is expected.
        Ok(None) => StatusCode::ACCEPTED.into_response(),
        Err(_elapsed) => events(running, StreamStart::Comment),
    }
}

fn events(running: RunningCall, first: StreamStart) -> Response {
    let bytes =
        |message: OutgoingMessage<CallAnswer>| message.map(|answer| answer.bytes).into_bytes();
    stream::respond(running.messages().map(bytes), first)
}

fn whole(answer: CallAnswer) -> Response {
    let mut response = respond::json_bytes(answer.status, answer.bytes);
    // Reveals no more than the body: a caller that may not know of the tool gets no scopes (I-9).
    if let Some(scopes) = answer.lacks {
        response.extensions_mut().insert(MissingScopes(scopes));
    }
    response = respond::with_run(response, answer.run_id.as_ref());
    respond::with_retry_after(response, answer.retry_after)
}
