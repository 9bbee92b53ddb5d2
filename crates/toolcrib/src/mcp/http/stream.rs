//! Messages as a stream of server-sent events.
//!
//! Invariant (I-22): the stream owns its source of messages. When the client closes the stream, the
//! body is dropped, and the call or the subscription with it.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::time::timeout;
use toolcrib_mcp::sse;

/// Interval of comments on a silent stream: below the 30 s to 60 s after which proxies and clients
/// give up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The start of a stream.
pub(super) enum StreamStart {
    Nothing,
    /// A message that already exists.
    Message(Bytes),
    /// A comment, so that the client sees immediately that the stream is open.
    Comment,
    /// Also the pause before the client opens the stream again; some give up after two short ones.
    Retry,
}

/// Builds a response that streams `messages`.
pub(super) fn respond(
    messages: impl Stream<Item = Bytes> + Send + 'static,
    first: StreamStart,
) -> Response {
    let mut response = Body::from_stream(events(messages, first)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn events(
    messages: impl Stream<Item = Bytes> + Send + 'static,
    first: StreamStart,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((messages.boxed(), first), async |(mut messages, first)| {
        let event = match first {
            StreamStart::Message(message) => sse::encode(&message).into(),
            StreamStart::Comment => Bytes::from_static(b": open\n\n"),
            StreamStart::Retry => Bytes::from_static(b"retry: 4000\n: open\n\n"),
            StreamStart::Nothing => match timeout(KEEP_ALIVE, messages.next()).await {
                Err(_silence) => Bytes::from_static(b": keep-alive\n\n"),
                Ok(Some(message)) => sse::encode(&message).into(),
                Ok(None) => return None,
            },
        };
        Some((Ok(event), (messages, StreamStart::Nothing)))
    })
}
