//! The sessions of requests: how they are named, their long-lived streams, and their end.

use std::sync::Arc;

use axum::response::{IntoResponse as _, Response};
use futures_util::StreamExt as _;
use http::{HeaderMap, HeaderValue, StatusCode};
use tokio_util::sync::CancellationToken;
use toolcrib_mcp::{
    header::SESSION_ID,
    message::RpcError,
    revision::{Era, MODERN},
};

use super::{
    headers,
    reply::{fail, invalid, no_session, not_allowed, unavailable},
    stream::{self, StreamStart},
};
use crate::{
    mcp::{
        changes::ListWatch, connected::ConnectedPrompts, era, host::Client, session::SessionHold,
    },
    middleware::Refusal,
};

/// The session of a request.
pub(super) enum NamedSession {
    /// The request names no session, or sessions are off.
    None,
    /// A session of the caller.
    Own(SessionHold),
    /// A session unknown to the caller.
    Unknown,
    /// The store is unavailable.
    Unavailable,
}

/// Finds the session of a request of a handshake client.
pub(super) async fn named(client: &Client, headers: &HeaderMap) -> Result<NamedSession, RpcError> {
    let Client { host, principal, within } = client;
    if !host.config.sessions {
        return Ok(NamedSession::None);
    }
    let Some(id) = headers::single(headers, &SESSION_ID)? else { return Ok(NamedSession::None) };
    Ok(match host.sessions.find(principal, within, id).await {
        Ok(Some(hold)) => NamedSession::Own(hold),
        Ok(None) => NamedSession::Unknown,
        Err(error) => {
            tracing::warn!(%error, "the session of a client cannot be continued");
            NamedSession::Unavailable
        }
    })
}

/// `GET`: opens the standalone stream of a session.
pub(super) async fn open(
    client: &Client,
    headers: &HeaderMap,
    stop: CancellationToken,
) -> Response {
    let hold = match of_request(client, headers).await {
        Ok(Some(hold)) if hold.session().has_room() => hold,
        // Without a session, no such stream exists; the revisions require a 405.
        Ok(_) => return not_allowed("POST"),
        Err(refused) => return *refused,
    };
    if !headers::reads_events(headers) {
        let problem = "Accept must list text/event-stream";
        return invalid(StatusCode::NOT_ACCEPTABLE, None, problem);
    }
    let known = Arc::clone(&hold.session().known);
    let stream = hold.session().stream();
    let connected = ConnectedPrompts::new(client, hold.session());
    let watch = ListWatch::new(client, Era::Legacy, known);
    let messages = watch.notifications(connected, stream.over.clone(), stop).map(move |message| {
        // Keeps the session alive.
        let _stream = &stream;
        message
    });
    stream::respond(messages, StreamStart::Retry)
}

/// `DELETE`: closes a session.
pub(super) async fn end(client: &Client, headers: &HeaderMap) -> Response {
    let Client { host, principal, .. } = client;
    let hold = match of_request(client, headers).await {
        Ok(Some(hold)) => hold,
        Ok(None) if !host.config.sessions => return not_allowed("POST"),
        Ok(None) => {
            let problem = "the header Mcp-Session-Id is missing; it names the session to end";
            return invalid(StatusCode::BAD_REQUEST, None, problem);
        }
        Err(refused) => return *refused,
    };
    let (host, principal) = (Arc::clone(host), Arc::clone(principal));
    // In a separate task: a client that disconnects must not leave an incomplete record.
    let ended = tokio::spawn(async move { host.sessions.end(&principal, hold.session()).await });
    match ended.await {
        Ok(Ok(())) => StatusCode::NO_CONTENT.into_response(),
        Ok(Err(error)) => {
            tracing::warn!(%error, "the session of a client could not be closed");
            unavailable(None)
        }
        Err(_panicked) => Refusal::Internal.into_response(),
    }
}

/// Adds the session id to `response`.
pub(super) fn with_session(mut response: Response, id: &str) -> Response {
    if let Ok(id) = HeaderValue::from_str(id) {
        response.headers_mut().insert(SESSION_ID, id);
    }
    response
}

/// Finds the session of a request without a body. The stateless revision has no such requests.
async fn of_request(
    client: &Client,
    headers: &HeaderMap,
) -> Result<Option<SessionHold>, Box<Response>> {
    let refused = |error: RpcError| Box::new(fail(StatusCode::BAD_REQUEST, None, &error));
    let version = headers::version(headers).map_err(refused)?;
    if version == Some(MODERN) {
        return Err(Box::new(not_allowed("POST")));
    }
    era::check_version(version).map_err(refused)?;
    match named(client, headers).await.map_err(refused)? {
        NamedSession::None => Ok(None),
        NamedSession::Own(hold) => Ok(Some(hold)),
        NamedSession::Unknown => Err(Box::new(no_session(None))),
        NamedSession::Unavailable => Err(Box::new(unavailable(None))),
    }
}
