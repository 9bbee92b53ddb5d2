//! Reading a request body, up to a limit.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::Refusal;
use crate::state::AppState;

/// The whole body. Longer than `server.max_body` is a refusal.
pub(crate) struct Payload(pub(crate) Bytes);

/// What is read and thrown away after a refusal, so that a caller that is still sending gets to see
/// the answer instead of a broken connection.
const MAX_DRAIN: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// How long a sender may pause within a body, and how far it may fall behind [`MIN_RATE`].
const PAUSE: Duration = Duration::from_secs(30);

/// Bytes of a body that have to arrive each second.
const MIN_RATE: usize = 1024;

impl FromRequest<AppState> for Payload {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        Self::read(&parts.headers, body, state.surfaces.server.max_body_bytes).await
    }
}

impl Payload {
    /// At most `limit` bytes, for a handler that needs the headers as well and would otherwise have
    /// to copy them.
    pub(crate) async fn read(
        headers: &HeaderMap,
        body: Body,
        limit: usize,
    ) -> Result<Self, Refusal> {
        let waits = headers.contains_key(header::EXPECT);
        read(body, limit, waits, PAUSE).await.map(Self)
    }
}

/// Reads `body`; a sender that `waits` for a go-ahead is not drained.
async fn read(
    mut body: Body,
    limit: usize,
    waits: bool,
    pause: Duration,
) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().exact().map(usize::try_from);
    if let Some(Ok(0)) = announced {
        return Ok(Bytes::new());
    }
    let mut refused = announced.is_some_and(|length| length.map_or(true, |length| length > limit));
    let mut whole = BytesMut::new();
    let start = Instant::now();
    while !refused {
        // Otherwise a byte before the end of each pause would hold a connection for days.
        let due = Duration::from_secs(u64::try_from(whole.len() / MIN_RATE).unwrap_or(u64::MAX));
        let latest = (start + pause + due).min(Instant::now() + pause);
        let Ok(frame) = tokio::time::timeout_at(latest, body.frame()).await else {
            return Err(Refusal::BrokenBody);
        };
        let data = match frame {
            None => return Ok(whole.freeze()),
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            Some(Err(_)) => return Err(Refusal::BrokenBody),
        };
        refused = whole.len() + data.len() > limit;
        whole.extend_from_slice(&data);
    }
    drop(whole);
    if !waits && tokio::time::timeout(DRAIN_TIME, drain(body)).await.is_err() {
        tracing::debug!("an oversized request body did not end in time");
    }
    Err(Refusal::TooLarge { limit })
}

async fn drain(mut body: Body) {
    let mut left = MAX_DRAIN;
    while let Some(Ok(frame)) = body.frame().await {
        let length = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(length) {
            Some(rest) => left = rest,
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::{StreamExt as _, stream};

    use super::*;

    // I-27
    #[tokio::test]
    async fn a_body_that_does_not_go_on_is_given_up() {
        let start = stream::iter([Ok::<_, std::io::Error>(Bytes::from_static(b"{"))]);
        let body = Body::from_stream(start.chain(stream::pending()));
        let read = read(body, 100, false, Duration::from_millis(20)).await;
        assert!(matches!(read, Err(Refusal::BrokenBody)));
    }

    // I-27
    #[tokio::test]
    async fn a_body_of_single_bytes_is_given_up() {
        let bytes = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        let read = read(Body::from_stream(bytes), 1 << 20, false, Duration::from_millis(100));
        let read = tokio::time::timeout(Duration::from_secs(60), read).await;
        assert!(matches!(read, Ok(Err(Refusal::BrokenBody))));
    }
}
