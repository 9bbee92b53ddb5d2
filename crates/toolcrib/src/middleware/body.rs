//! Reading a request body, up to a limit.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use http::header;
use http_body::Body as _;
use http_body_util::BodyExt as _;

use super::Refusal;
use crate::state::AppState;

/// The whole body. Longer than `server.max_body` is a refusal.
pub(crate) struct Payload(pub(crate) Bytes);

/// What is read and thrown away after a refusal, so that a caller that is still sending gets to see
/// the answer instead of a broken connection.
const MAX_DRAIN: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

impl FromRequest<AppState> for Payload {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &AppState) -> Result<Self, Refusal> {
        let waits = request.headers().contains_key(header::EXPECT);
        read(request.into_body(), state.surfaces.server.max_body_bytes, waits).await.map(Self)
    }
}

/// Reads `body`; a sender that `waits` for a go-ahead is not drained.
async fn read(mut body: Body, limit: usize, waits: bool) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().exact().map(usize::try_from);
    if let Some(Ok(0)) = announced {
        return Ok(Bytes::new());
    }
    let mut refused = announced.is_some_and(|length| length.map_or(true, |length| length > limit));
    let mut whole = BytesMut::new();
    while !refused {
        let data = match body.frame().await {
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
