//! Reads request bodies, up to a size limit and within a shared memory budget. Every body is read
//! here, after its sender was authenticated or admitted without a credential.

use std::time::Duration;

use axum::{
    body::Body,
    extract::{FromRef, FromRequest, Request},
};
use bytes::{Bytes, BytesMut};
use http::{header, request::Parts};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use tokio::time::Instant;

use super::{
    Caller, Refusal,
    memory::{BodySender, MemoryShare},
};

/// The whole body. A body longer than `server.max_body` is refused.
pub(crate) struct Payload(pub(crate) Bytes);

/// The amount to read and discard after a refusal, so that a caller can finish sending and receives
/// the response instead of a broken connection.
const MAX_DRAIN: usize = 16 << 20;
const DRAIN_TIME: Duration = Duration::from_secs(5);

/// How long a refusal waits for the body of its request.
const FINISH_TIME: Duration = Duration::from_secs(1);

/// How long a sender may pause within a body, and how far it may fall behind [`MIN_RATE`].
const PAUSE: Duration = Duration::from_secs(30);

/// The minimum rate of a body, in bytes per second.
const MIN_RATE: usize = 1024;

/// `server.max_body`, as part of the state of every handler that takes a [`Payload`].
#[derive(Clone, Copy)]
pub(crate) struct BodyLimit(pub(crate) usize);

impl<S: Sync> FromRequest<S> for Payload
where
    BodyLimit: FromRef<S>,
{
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let (parts, body) = request.into_parts();
        let BodyLimit(limit) = BodyLimit::from_ref(state);
        Self::read(&parts, body, limit).await
    }
}

impl Payload {
    /// Reads at most `limit` bytes, for a handler that also needs the head and would otherwise copy
    /// it.
    pub(crate) async fn read(head: &Parts, body: Body, limit: usize) -> Result<Self, Refusal> {
        let caller = head.extensions.get::<Caller>();
        let sender = BodySender::of(caller.map(|Caller(principal)| &**principal));
        Self::read_of(head, body, limit, &sender).await
    }

    /// Like [`read`](Self::read), for a handler that authenticates the sender itself.
    pub(crate) async fn read_of(
        head: &Parts,
        body: Body,
        limit: usize,
        sender: &BodySender,
    ) -> Result<Self, Refusal> {
        let waits = head.headers.contains_key(header::EXPECT);
        match head.extensions.get::<MemoryShare>() {
            Some(hold) => {
                let reserve = |bytes| hold.grow(bytes, sender);
                let read = read(body, limit, waits, PAUSE, reserve).await;
                if read.is_err() {
                    hold.release();
                }
                read.map(Self)
            }
            // The guard has counted every request with a body.
            None if body.is_end_stream() => Ok(Self(Bytes::new())),
            None => {
                tracing::error!("a request body is not counted, so it is not read");
                Err(Refusal::Internal)
            }
        }
    }
}

/// Reads `body`; each piece needs room from `reserve`. A sender that `waits` for `100 Continue` is
/// not drained.
async fn read(
    mut body: Body,
    limit: usize,
    waits: bool,
    pause: Duration,
    reserve: impl Fn(usize) -> bool,
) -> Result<Bytes, Refusal> {
    let announced = body.size_hint().exact().map(usize::try_from);
    if let Some(Ok(0)) = announced {
        return Ok(Bytes::new());
    }
    let too_large = announced.is_some_and(|length| length.map_or(true, |length| length > limit));
    let mut refused = too_large.then_some(Refusal::TooLarge { limit });
    let mut whole = BytesMut::new();
    let start = Instant::now();
    let refusal = loop {
        if let Some(refusal) = refused {
            break refusal;
        }
        // Otherwise one byte before the end of each pause would hold a connection for days.
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
        refused = match whole.len() + data.len() {
            length if length > limit => Some(Refusal::TooLarge { limit }),
            _ if !reserve(data.len()) => Some(Refusal::Crowded),
            _ => None,
        };
        if refused.is_none() {
            whole.extend_from_slice(&data);
        }
    };
    drop(whole);
    if !waits && tokio::time::timeout(DRAIN_TIME, drain(body)).await.is_err() {
        tracing::debug!("a refused request body did not finish in time");
    }
    Err(refusal)
}

/// Waits for the body of a request that is refused by its head. Many clients send head and body
/// apart. A response before the body would close the connection, and the next request in it would get
/// no response.
pub(super) async fn finish(request: Request) {
    let waits = request.headers().contains_key(header::EXPECT);
    if !waits && !request.body().is_end_stream() {
        tokio::time::timeout(FINISH_TIME, drain(request.into_body())).await.ok();
    }
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
        let read = read(body, 100, false, Duration::from_millis(20), |_| true).await;
        assert!(matches!(read, Err(Refusal::BrokenBody)));
    }

    // I-27
    #[tokio::test]
    async fn a_body_of_single_bytes_is_given_up() {
        let bytes = stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
        });
        let pause = Duration::from_millis(100);
        let read = read(Body::from_stream(bytes), 1 << 20, false, pause, |_| true);
        let read = tokio::time::timeout(Duration::from_secs(60), read).await;
        assert!(matches!(read, Ok(Err(Refusal::BrokenBody))));
    }

    // I-27
    #[tokio::test]
    async fn a_body_without_room_is_given_up_and_drained() {
        let reserved = std::cell::Cell::new(0);
        let reserve = |bytes| {
            reserved.set(reserved.get() + bytes);
            reserved.get() <= 20
        };
        let drained = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let sent = std::sync::Arc::clone(&drained);
        let pieces = stream::iter((0..10).map(move |_| {
            sent.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok::<_, std::io::Error>(Bytes::from_static(b"12345678"))
        }));
        let read = read(Body::from_stream(pieces), 1 << 20, false, PAUSE, reserve).await;
        assert!(matches!(read, Err(Refusal::Crowded)), "{read:?}");
        assert_eq!(reserved.get(), 24, "nothing is reserved of what is thrown away");
        assert_eq!(drained.load(std::sync::atomic::Ordering::Relaxed), 10);
    }
}
