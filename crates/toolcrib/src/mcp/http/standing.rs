//! Long-lived streams of subscriptions and sessions, and the end of sessions.

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

/// A subscription whose messages go to an HTTP stream.
struct Listening {
    listen: Listen,
    stop: CancellationToken,
}

impl Speaker for Listening {
    async fn next(&mut self) -> Option<Bytes> {
        self.listen.next(&self.stop).await.map(ListenMessage::into_bytes)
    }
}

/// Responds to a `subscriptions/listen`; the stream closes properly after `stop`.
pub(super) fn listen(listen: Listen, stop: CancellationToken) -> Response {
    stream::respond(Listening { listen, stop }, First::Nothing)
}

/// The notifications of a session.
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

/// The session of a request.
pub(super) enum Named {
    /// The request names none, or sessions are off.
    None,
    /// A session of the caller.
    Session(Hold),
    /// A session that the caller does not have.
    Unknown,
}

/// Finds the session of a request of a handshake client.
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
        // A session that was opened on another URL is unknown here.
        Some(id) => host
            .sessions
            .find(principal, id)
            .filter(|hold| hold.session().within == *within)
            .map_or(Named::Unknown, Named::Session),
    })
}

/// `GET`: opens the standalone stream of a session.
pub(super) fn open(
    host: &Arc<Host>,
    principal: &Arc<Principal>,
    within: &CatalogScope,
    headers: &HeaderMap,
    stop: CancellationToken,
) -> Response {
    let hold = match of_request(host, principal, within, headers) {
        Ok(Named::Session(hold)) => hold,
        // Without a session there is no such stream; the revisions require a 405.
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

/// `DELETE`: ends a session.
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
            let problem = "Mcp-Session-Id is missing; send the id of the session to end";
            return fail(StatusCode::BAD_REQUEST, &RpcError::invalid_request(problem));
        }
        Ok(Named::Unknown) => return fail(StatusCode::NOT_FOUND, &error::no_session()),
        Err(refused) => return *refused,
    };
    let Some(session) = host.sessions.take(principal, hold.session().id()) else {
        return fail(StatusCode::NOT_FOUND, &error::no_session());
    };
    // In a separate task: a client that disconnects must not leave an incomplete record.
    let ended = tokio::spawn(async move { session.end(SessionOutcome::Completed).await });
    match ended.await {
        Ok(()) => StatusCode::NO_CONTENT.into_response(),
        Err(_panicked) => Refusal::Internal.into_response(),
    }
}

/// Returns a 405 with the header `Allow`.
pub(super) fn not_allowed(allow: &'static str) -> Response {
    let mut response = Refusal::Method.into_response();
    response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allow));
    response
}

/// Adds the session id to `response`.
pub(super) fn with_session(mut response: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Finds the session of a request without a body. The stateless revision has no such requests.
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
