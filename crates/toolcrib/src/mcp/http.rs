//! Streamable HTTP: one POST per message, answered with JSON or with a stream of events.
//!
//! There are no sessions: `GET` and `DELETE`, which handshake clients send for one, are answered
//! 405, which they take as "this server has none". For the same reason a handshake client's
//! `notifications/cancelled` cannot be matched to the POST it means; it is accepted and has no
//! effect, while closing the POST cancels in every revision (I-22).

mod headers;
mod stream;

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{Request, State},
    http::request::Parts,
    response::{IntoResponse as _, Response},
    routing::post,
};
use http::{HeaderMap, StatusCode};
use toolcrib_core::principal::Principal;
use toolcrib_gateway::metrics::Surface;

use super::{
    answer,
    call::{CallAnswer, CallMessage, ToolCall},
    era::{self, Era},
    error::{self, RpcError},
    method::{self, Step},
    param_headers,
    protocol::{self, Message, Notification, Rejected},
};
use crate::{
    middleware::{Access, Caller, Mount, Paths, Payload, Refusal},
    respond,
    state::{AppState, Surfaces},
};
use headers::Readable;

/// The one URL.
const PATH: &str = "/mcp";
/// How long a call that says nothing may take until its answer becomes a stream: long enough that
/// ordinary calls are one plain answer, short enough that nothing on the way gives up.
const PATIENCE: Duration = Duration::from_secs(1);

/// Who may come in where.
pub(crate) fn mounts(surfaces: &Surfaces) -> Vec<Mount> {
    let access = Access::Keyed(surfaces.mcp.auth);
    vec![Mount::new(Surface::Mcp, Paths::exactly([PATH]), access, refuse)]
}

/// The route.
pub(crate) fn routes() -> Router<AppState> {
    Router::new().route(PATH, post(receive))
}

/// How a request that does not reach the protocol is refused: a JSON-RPC error without an id.
fn refuse(refusal: &Refusal) -> Response {
    let status = refusal.status();
    fail(status, &RpcError::new(error::of_status(status), refusal.to_string()))
}

async fn receive(
    State(state): State<AppState>,
    Caller(principal): Caller,
    request: Request,
) -> Response {
    if !headers::is_json(request.headers()) {
        let problem = "the Content-Type must be application/json";
        return fail(StatusCode::UNSUPPORTED_MEDIA_TYPE, &RpcError::invalid_request(problem));
    }
    let (Parts { headers, .. }, body) = request.into_parts();
    let body = match Payload::read(&headers, body, &state).await {
        Ok(Payload(body)) => body,
        Err(refusal) => return refusal.into_response(),
    };
    match answer(&state, &principal, &headers, &body).await {
        Ok(response) => response,
        Err(Rejected { id, error }) => {
            let body = answer::error(id.as_ref(), &error);
            respond::json_bytes(StatusCode::BAD_REQUEST, body)
        }
    }
}

async fn answer(
    state: &AppState,
    principal: &Arc<Principal>,
    headers: &HeaderMap,
    body: &[u8],
) -> Result<Response, Rejected> {
    let message = protocol::parse(body)?;
    let reject = |id, error| Rejected { id, error };
    let version =
        headers::version(headers).map_err(|error| reject(message.id().cloned(), error))?;
    let request = match message {
        Message::Request(request) => request,
        Message::Notification(Notification { .. }) | Message::Response => {
            era::check_version(version).map_err(|error| reject(None, error))?;
            return Ok(StatusCode::ACCEPTED.into_response());
        }
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
    match method::start(&state.gateway, principal, era, request) {
        Ok(Step::Answer(body)) => Ok(respond::json_bytes(StatusCode::OK, body)),
        Ok(Step::Call(call)) => {
            if era == Era::Modern {
                check_params(state, principal, headers, &call)
                    .map_err(|error| reject(Some(id), error))?;
            }
            Ok(run(call, readable).await)
        }
        Err(error) => {
            let body = answer::error(Some(&id), &error);
            Ok(respond::json_bytes(error.status(era), body))
        }
    }
}

/// Checks what the client repeats of its arguments. Only for a tool that the caller sees: for any
/// other the answer must not depend on whether there is such a tool (I-9).
fn check_params(
    state: &AppState,
    principal: &Principal,
    headers: &HeaderMap,
    call: &ToolCall,
) -> Result<(), RpcError> {
    let snapshot = state.gateway.snapshot();
    let Some(entry) = snapshot.catalog.by_wire(call.name()) else { return Ok(()) };
    let params = param_headers::of(entry);
    if params.is_empty() {
        return Ok(());
    }
    let view = state.gateway.view(principal);
    match view.entries().binary_search_by(|seen| seen.id.cmp(&entry.id)) {
        Ok(_) => headers::check_params(headers, &params, call.arguments()),
        Err(_) => Ok(()),
    }
}

/// Runs `call`. As long as this waits, dropping it drops the call; later the stream owns it.
async fn run(call: ToolCall, readable: Readable) -> Response {
    if readable == Readable::Json {
        let mut running = call.without_progress().run();
        return match running.next().await {
            Some(CallMessage::Answer(answer)) => whole(answer),
            Some(CallMessage::Progress(_)) | None => Refusal::Internal.into_response(),
        };
    }
    let mut running = call.run();
    match tokio::time::timeout(PATIENCE, running.next()).await {
        Ok(Some(CallMessage::Answer(answer))) => whole(answer),
        Ok(Some(CallMessage::Progress(first))) => stream::respond(running, Some(first)),
        Ok(None) => Refusal::Internal.into_response(),
        Err(_elapsed) => stream::respond(running, None),
    }
}

fn whole(answer: CallAnswer) -> Response {
    let mut response = respond::json_bytes(StatusCode::OK, answer.bytes);
    response = respond::with_run(response, answer.run_id.as_ref());
    if let Some(wait) = answer.retry_after {
        response = respond::with_retry_after(response, wait);
    }
    response
}

fn fail(status: StatusCode, error: &RpcError) -> Response {
    respond::json_bytes(status, answer::error(None, error))
}
