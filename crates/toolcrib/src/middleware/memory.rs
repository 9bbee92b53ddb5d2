//! The memory budget of requests: the received bytes of their bodies while they are processed, then
//! their responses until they are read.
//!
//! Invariant (I-27): the bodies of all requests together stay within one budget. Received bytes
//! count, not the announced length, so a slow sender occupies only the bytes that it has sent.
//!
//! A part of the budget is reserved for small bodies, so that small calls are answered while large
//! ones fill the rest. Admitted senders without a credential share a part of the whole, so that
//! they cannot crowd out callers. Responses already exist when they are counted: they reduce the
//! room for new bodies, and are never refused.

use std::{
    any::Any,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use toolcrib_core::budget::{ByteBudget, Reservation};

/// The largest body that may use the reserved part; ordinary calls are far smaller.
const SMALL: usize = 16 << 10;
/// The divisor of the budget that gives the part for small bodies.
const SMALL_PART: usize = 8;
/// The divisor of the budget that gives the part for senders without a credential.
const UNPROVEN_PART: usize = 4;

/// The memory budget of a process.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    large: ByteBudget,
    small: ByteBudget,
    /// Senders without a credential count here as well as in one of the others.
    unproven: ByteBudget,
}

/// The share of one request. Clones refer to the same share; the last one releases it.
#[derive(Debug, Clone)]
pub(crate) struct MemoryShare(Arc<Mutex<ShareState>>);

#[derive(Debug)]
struct ShareState {
    memory: Memory,
    large: Reservation,
    small: Reservation,
    unproven: Reservation,
    /// The piece of a streamed answer that is being read.
    piece: Reservation,
}

/// A response body that counts until it is read.
struct CountedResponse {
    body: Body,
    hold: MemoryShare,
}

// === impl Memory ===

impl Memory {
    /// Creates a budget of `total` bytes that has room for a body of `largest`.
    pub(crate) fn new(total: usize, largest: usize) -> Self {
        let small = (total / SMALL_PART).min(total.saturating_sub(largest));
        let unproven = (total / UNPROVEN_PART).max(largest.min(total));
        Self {
            large: ByteBudget::new(total - small),
            small: ByteBudget::new(small),
            unproven: ByteBudget::new(unproven),
        }
    }

    /// Returns the number of bytes in use.
    pub(crate) fn held(&self) -> usize {
        self.large.held() + self.small.held()
    }

    /// Returns an empty share for a new request.
    pub(crate) fn hold(&self) -> MemoryShare {
        MemoryShare(Arc::new(Mutex::new(ShareState::new(self.clone()))))
    }
}

// === impl MemoryShare ===

impl MemoryShare {
    /// Counts `more` bytes of the body; `proven` is whether the sender has a valid credential.
    /// Returns false when there is no room; the request then counts for nothing.
    pub(super) fn grow(&self, more: usize, proven: bool) -> bool {
        let mut held = self.0.lock();
        let grown = held.grow(more, proven);
        if !grown {
            held.release();
        }
        grown
    }

    /// Stops counting the body.
    pub(super) fn release(&self) {
        self.0.lock().release();
    }

    /// Returns a handle for work that outlives the request: the share counts until the handle is
    /// dropped.
    pub(crate) fn charge(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::new(self.clone())
    }

    /// Counts `response` until it is read, if the request had a body. A complete response replaces
    /// the body in the count; a streamed response is counted in addition to the body.
    pub(super) fn count(self, response: Response) -> Response {
        {
            let mut held = self.0.lock();
            if held.bytes() == 0 {
                return response;
            }
            if let Some(whole) = response.body().size_hint().exact() {
                held.release();
                held.add(usize::try_from(whole).unwrap_or(usize::MAX));
            }
        }
        response.map(|body| Body::new(CountedResponse { body, hold: self }))
    }
}

// === impl ShareState ===

impl ShareState {
    fn new(memory: Memory) -> Self {
        Self {
            large: memory.large.reservation(),
            small: memory.small.reservation(),
            unproven: memory.unproven.reservation(),
            piece: memory.large.reservation(),
            memory,
        }
    }

    fn bytes(&self) -> usize {
        self.large.bytes() + self.small.bytes()
    }

    fn release(&mut self) {
        *self = Self::new(self.memory.clone());
    }

    fn grow(&mut self, more: usize, proven: bool) -> bool {
        if !proven && !self.unproven.grow(more) {
            return false;
        }
        let is_small = self.bytes().saturating_add(more) <= SMALL;
        if is_small && self.large.bytes() == 0 && self.small.grow(more) {
            return true;
        }
        // The body was small until now, and counts as large as a whole.
        if !self.large.grow(more.saturating_add(self.small.bytes())) {
            return false;
        }
        self.small = self.memory.small.reservation();
        true
    }

    /// Counts `bytes` that are already in memory.
    fn add(&mut self, bytes: usize) {
        if bytes > SMALL || !self.small.grow(bytes) {
            self.large.add(bytes);
        }
    }
}

// === impl CountedResponse ===

impl http_body::Body for CountedResponse {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let is_whole = self.body.size_hint().exact().is_some();
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if !is_whole {
            let data = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            let bytes = data.map_or(0, Bytes::len);
            let mut held = self.hold.0.lock();
            // The previous piece has been read.
            held.piece = held.memory.large.reservation();
            held.piece.add(bytes);
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: usize = 1 << 10;

    // I-27
    #[test]
    fn small_bodies_have_room_while_large_ones_fill_the_rest() {
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let large: Vec<_> = std::iter::from_fn(|| {
            let hold = memory.hold();
            // In pieces, like an arriving body.
            (0..16).all(|_| hold.grow(16 * KIB, true)).then_some(hold)
        })
        .collect();
        assert_eq!(large.len(), 3, "the fourth has no room in seven eighths");
        assert_eq!(memory.held(), 768 * KIB, "and counts for nothing");
        let small: Vec<_> = std::iter::from_fn(|| {
            let hold = memory.hold();
            hold.grow(8 * KIB, true).then_some(hold)
        })
        .collect();
        assert_eq!(small.len(), 32, "all of what is left");
        drop((large, small));
        assert_eq!(memory.held(), 0);
    }

    // I-27
    #[test]
    fn senders_without_a_credential_have_a_part_of_the_whole() {
        let memory = Memory::new(1024 * KIB, 64 * KIB);
        let unproven: Vec<_> = std::iter::from_fn(|| {
            let hold = memory.hold();
            hold.grow(64 * KIB, false).then_some(hold)
        })
        .collect();
        assert_eq!(unproven.len(), 4);
        assert!(memory.hold().grow(64 * KIB, true), "callers have the rest");
    }

    #[test]
    fn the_largest_body_always_has_room_in_an_empty_budget() {
        for (total, largest) in [(100, 100), (1 << 20, 1 << 20), (1 << 20, 1000)] {
            for proven in [true, false] {
                let hold = Memory::new(total, largest).hold();
                assert!(hold.grow(largest, proven), "{total} {largest} {proven}");
            }
        }
    }

    // I-27
    #[tokio::test]
    async fn an_answer_counts_in_place_of_the_body_until_it_is_read() {
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let hold = memory.hold();
        assert!(hold.grow(100 * KIB, true));
        let answer = hold.count(Response::new(Body::from(vec![0; 2048 * KIB])));
        assert_eq!(memory.held(), 2048 * KIB, "more than there is");
        assert!(!memory.hold().grow(17 * KIB, true), "keeps large bodies out");
        assert!(memory.hold().grow(KIB, true), "and no small ones");
        let read = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!((read.len(), memory.held()), (2048 * KIB, 0));
    }

    // I-27
    #[tokio::test]
    async fn while_an_answer_is_streamed_the_body_and_a_piece_count() {
        use http_body_util::BodyExt as _;
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let hold = memory.hold();
        assert!(hold.grow(100 * KIB, true));
        let pieces = [30, 50].map(|size| Ok::<_, std::io::Error>(Bytes::from(vec![0; size * KIB])));
        let body = Body::from_stream(futures_util::stream::iter(pieces));
        let mut answer = hold.count(Response::new(body)).into_body();
        for held in [130, 150] {
            answer.frame().await.unwrap().unwrap();
            assert_eq!(memory.held(), held * KIB);
        }
        drop(answer);
        assert_eq!(memory.held(), 0);
    }
}
