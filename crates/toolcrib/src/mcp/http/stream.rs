//! Messages as a stream of server-sent events.
//!
//! Invariant (I-22): the stream owns what speaks on it. When the client closes the stream, the body
//! is dropped, and the call or the subscription with it.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::time::timeout;
use toolcrib_mcp::sse;

use crate::mcp::call::{CallMessage, RunningCall};

/// Silence after which a comment keeps the connection alive: below the 30 s to 60 s at which
/// proxies and clients give up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// What has messages for a client, one after the other.
pub(super) trait Speaker: Send + 'static {
    /// The next message; `None` when there are no more. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Option<Bytes>> + Send;
}

impl Speaker for RunningCall {
    async fn next(&mut self) -> Option<Bytes> {
        Some(match RunningCall::next(self).await? {
            CallMessage::Progress(message) => message,
            CallMessage::Answer(answer) => answer.bytes,
        })
    }
}

/// What a stream begins with.
pub(super) enum First {
    /// Nothing.
    Nothing,
    /// A message that is there already.
    Message(Bytes),
    /// A comment, so that the client sees at once that the stream is open.
    Comment,
}

/// Answers with the messages of `speaker`.
pub(super) fn respond(speaker: impl Speaker, first: First) -> Response {
    let mut response = Body::from_stream(events(speaker, first)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn events(speaker: impl Speaker, first: First) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((speaker, first), async |(mut speaker, first)| {
        let event = match first {
            First::Message(message) => sse::encode(&message).into(),
            First::Comment => Bytes::from_static(b": open\n\n"),
            First::Nothing => match timeout(KEEP_ALIVE, speaker.next()).await {
                Err(_silence) => Bytes::from_static(b": keep-alive\n\n"),
                Ok(Some(message)) => sse::encode(&message).into(),
                Ok(None) => return None,
            },
        };
        Some((Ok(event), (speaker, First::Nothing)))
    })
}
