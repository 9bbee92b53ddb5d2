//! Streams that stand as long as both sides want them, and the end of sessions.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, header};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{event::SessionOutcome, principal::Principal};
use toolcrib_gateway::CatalogScope;
use toolcrib_mcp::{
    header::SESSION_ID,
    message::{self, RpcError},
    revision::{Era, MODERN},
};

use super::{
    fail, headers,
    stream::{self, First, Speaker},
};
use crate::{
    mcp::{
        changes::ListWatch,
        era, error,
        host::Host,
        listen::{Listen, ListenMessage},
        session::{self, Hold},
    },
    middleware::Refusal,
    respond,
};

/// A subscription on a stream.
struct Listening {
    listen: Listen,
    stop: CancellationToken,
}

impl Speaker for Listening {
    async fn next(&mut self) -> Option<Bytes> {
        self.listen.next(&self.stop).await.map(ListenMessage::into_bytes)
    }
}

/// Answers a `subscriptions/listen`; it ends in order after `stop`.
pub(super) fn listen(listen: Listen, stop: CancellationToken) -> Response {
    stream::respond(Listening { listen, stop }, First::Nothing)
}

/// The news of a session.
struct News {
    stream: session::Stream,
    watch: ListWatch,
    stop: CancellationToken,
}

impl Speaker for News {
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            () = self.stop.cancelled() => None,
            () = self.stream.over.cancelled() => None,
            changed = self.watch.changed() => {
                changed.ok().map(|()| message::tools_changed().into())
            }
        }
    }
}

/// What a request says of its session.
pub(super) enum Named {
    /// It is in none, or sessions are off.
    None,
    /// It is in this one.
    Session(Hold),
    /// It is in one that its caller does not have.
    Unknown,
}

/// The session of a request of a handshake client.
pub(super) fn named(
    host: &Host,
    principal: &Principal,
    within: &CatalogScope,
    headers: &HeaderMap,
) -> Result<Named, RpcError> {
    if !host.config.sessions {
        return Ok(Named::None);
    }
    Ok(match headers::single(headers, &SESSION_ID)? {
        None => Named::None,
        // One that was opened on another URL is unknown on this one.
        Some(id) => host
            .sessions
            .find(principal, id)
            .filter(|hold| hold.session().within == *within)
            .map_or(Named::Unknown, Named::Session),
    })
}

/// `GET`: the standalone stream of a session.
pub(super) fn open(
    host: &Arc<Host>,
    principal: &Arc<Principal>,
    within: &CatalogScope,
    headers: &HeaderMap,
    stop: CancellationToken,
) -> Response {
    let hold = match of_request(host, principal, within, headers) {
        Ok(Named::Session(hold)) => hold,
        // Without a session there is no such stream, and the revisions' word for it is 405.
        Ok(Named::None) => return not_allowed("POST"),
        Ok(Named::Unknown) => return fail(StatusCode::NOT_FOUND, &error::no_session()),
        Err(refused) => return *refused,
    };
    if !headers::reads_events(headers) {
        let problem = "Accept must list text/event-stream";
        return fail(StatusCode::NOT_ACCEPTABLE, &RpcError::invalid_request(problem));
    }
    let known = Arc::clone(&hold.session().known);
    let watch = ListWatch::new(host, principal, within, Era::Legacy, known);
    let stream = hold.session().stream();
    stream::respond(News { stream, watch, stop }, First::Comment)
}

/// `DELETE`: the end of a session.
pub(super) async fn end(
    host: &Host,
    principal: &Principal,
    within: &CatalogScope,
    headers: &HeaderMap,
) -> Response {
    let hold = match of_request(host, principal, within, headers) {
        Ok(Named::Session(hold)) => hold,
        Ok(Named::None) if !host.config.sessions => return not_allowed("POST"),
        Ok(Named::None) => {
            let problem = "Mcp-Session-Id is missing; it says which session to end";
            return fail(StatusCode::BAD_REQUEST, &RpcError::invalid_request(problem));
        }
        Ok(Named::Unknown) => return fail(StatusCode::NOT_FOUND, &error::no_session()),
        Err(refused) => return *refused,
    };
    let Some(session) = host.sessions.take(principal, hold.session().id()) else {
        return fail(StatusCode::NOT_FOUND, &error::no_session());
    };
    // In a task of its own: a client that hangs up must not leave half a record.
    let ended = tokio::spawn(async move { session.end(SessionOutcome::Completed).await });
    match ended.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(_panicked) => Refusal::Internal.into_response(),
    }
}

/// 405, with what is allowed.
pub(super) fn not_allowed(allow: &'static str) -> Response {
    let mut response = Refusal::Method.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Answers `response` in `session` from now on.
pub(super) fn with_session(mut response: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// The session of a request without a body; the stateless revision has neither.
fn of_request(
    host: &Host,
    principal: &Principal,
    within: &CatalogScope,
    headers: &HeaderMap,
) -> Result<Named, Box<Response>> {
    let refused = |error: RpcError| {
        let body = crate::mcp::answer::error(None, &error);
        Box::new(respond::json_bytes(StatusCode::BAD_REQUEST, body))
    };
    let version = headers::version(headers).map_err(refused)?;
    if version == Some(MODERN) {
        return Err(Box::new(not_allowed("POST")));
    }
    era::check_version(version).map_err(refused)?;
    named(host, principal, within, headers).map_err(refused)
}
