//! A call as a stream of server-sent events.
//!
//! Invariant (I-22): the stream owns the call. When the client closes the stream, the body is
//! dropped, and the call with it.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::Body,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use futures_util::{Stream, stream};
use tokio::time::timeout;

use crate::mcp::call::{CallMessage, RunningCall};

/// Silence after which a comment keeps the connection alive: below the 30 s to 60 s at which
/// proxies and clients give up.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Answers with the messages of `call`, after `first` if there was one already.
pub(super) fn respond(call: RunningCall, first: Option<Bytes>) -> Response {
    let mut response = Body::from_stream(events(call, first)).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

fn events(
    call: RunningCall,
    first: Option<Bytes>,
) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((call, first), async |(mut call, first)| {
        let event = match first {
            Some(message) => event(&message),
            None => match timeout(KEEP_ALIVE, call.next()).await {
                Err(_silence) => Bytes::from_static(b": keep-alive\n\n"),
                Ok(Some(CallMessage::Progress(message))) => event(&message),
                Ok(Some(CallMessage::Answer(answer))) => event(&answer.bytes),
                Ok(None) => return None,
            },
        };
        Some((Ok(event), (call, None)))
    })
}

/// `message`, which has no line break in it, as one event.
fn event(message: &[u8]) -> Bytes {
    let mut event = Vec::with_capacity(message.len() + 8);
    event.extend_from_slice(b"data: ");
    event.extend_from_slice(message);
    event.extend_from_slice(b"\n\n");
    event.into()
}
