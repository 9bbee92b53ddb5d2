//! The memory budget of requests: the received bytes of their bodies while they are processed, then
//! their responses until they are read.
//!
//! Invariant (I-27): the bodies of all requests together stay within one budget. Received bytes
//! count, not the announced length, so a slow sender occupies only the bytes that it has sent.
//!
//! Invariant (I-105): callers share the budget by tenant and principal. A part of it is reserved for
//! small bodies, so that small calls are answered while large ones fill the rest. Admitted senders
//! without a credential share a part of the whole, so that they cannot crowd out callers. Responses
//! already exist when they are counted: they reduce the room for new bodies, and are never refused.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use axum::{body::Body, response::Response};
use bytes::Bytes;
use http_body::{Body as _, Frame, SizeHint};
use parking_lot::Mutex;
use toolcrib_core::{
    budget::{ByteBudget, Reservation},
    principal::{AuthMethod, Principal, PrincipalKey},
    share::Shares,
};
use toolcrib_gateway::RequestCharge;

/// The largest body that may use the reserved part; ordinary calls are far smaller.
const SMALL: usize = 16 << 10;
/// The divisor of the budget that gives the part for small bodies.
const SMALL_PART: usize = 8;
/// The divisor of the budget that gives the part for senders without a credential.
const UNPROVEN_PART: usize = 4;

/// The memory budget of a process.
#[derive(Debug, Clone)]
pub(crate) struct Memory {
    large: SharedBytes,
    small: SharedBytes,
    /// Senders without a credential count here as well as in one of the others.
    unproven: ByteBudget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum BodySender {
    /// A caller with a valid credential.
    Caller(PrincipalKey),
    /// A caller that an embedding program has admitted.
    Program,
    /// An admitted sender without a credential.
    Unproven,
}

/// The share of one request. Clones refer to the same share; the last one releases it.
#[derive(Debug, Clone)]
pub(crate) struct MemoryShare(Arc<Mutex<ShareState>>);

#[derive(Debug)]
struct ShareState {
    memory: Memory,
    large: SharedReservation,
    small: SharedReservation,
    unproven: Reservation,
    /// The piece of a streamed answer in transit.
    piece: SharedReservation,
    /// The owner of the other reservations of this request.
    owner: Option<PrincipalKey>,
}

/// Bytes that are divided among callers.
#[derive(Debug, Clone)]
struct SharedBytes(Arc<Mutex<Shares>>);

/// Bytes of one caller, or without a caller, released on drop.
#[derive(Debug)]
struct SharedReservation {
    budget: SharedBytes,
    owner: Option<PrincipalKey>,
    bytes: usize,
}

/// A response body that counts until it is read.
struct CountedResponse {
    body: Body,
    hold: MemoryShare,
}

// === impl Memory ===

impl Memory {
    /// Creates a budget of `total` bytes with room for a body of `largest`.
    pub(crate) fn new(total: usize, largest: usize) -> Self {
        let small = (total / SMALL_PART).min(total.saturating_sub(largest));
        let unproven = (total / UNPROVEN_PART).max(largest.min(total));
        Self {
            large: SharedBytes::new(total - small),
            small: SharedBytes::new(small),
            unproven: ByteBudget::new(unproven),
        }
    }

    pub(crate) fn held(&self) -> usize {
        self.large.held() + self.small.held()
    }

    /// Creates an empty share for a new request.
    pub(crate) fn hold(&self) -> MemoryShare {
        MemoryShare(Arc::new(Mutex::new(ShareState::new(self.clone(), None))))
    }
}

// === impl BodySender ===

impl BodySender {
    /// Converts `principal` to a sender; `None` is a request without a caller.
    pub(crate) fn of(principal: Option<&Principal>) -> Self {
        match principal {
            Some(principal) if principal.auth != AuthMethod::Anonymous => {
                Self::Caller(PrincipalKey::of(principal))
            }
            Some(_) | None => Self::Unproven,
        }
    }
}

// === impl MemoryShare ===

impl MemoryShare {
    /// Counts `more` bytes of the body of `sender`. Returns false if there is no room; then the
    /// request does not count at all.
    pub(super) fn grow(&self, more: usize, sender: &BodySender) -> bool {
        let mut held = self.0.lock();
        let grown = held.grow(more, sender);
        if !grown {
            held.release();
        }
        grown
    }

    /// Stops counting the body.
    pub(super) fn release(&self) {
        self.0.lock().release();
    }

    /// Creates a handle for work that outlives the request: the share counts until the handle is
    /// dropped.
    pub(crate) fn charge(&self) -> Arc<dyn RequestCharge> {
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

impl RequestCharge for MemoryShare {}

// === impl ShareState ===

impl ShareState {
    fn new(memory: Memory, owner: Option<PrincipalKey>) -> Self {
        Self {
            large: memory.large.reservation(owner.clone()),
            small: memory.small.reservation(owner.clone()),
            unproven: memory.unproven.reservation(),
            piece: memory.large.reservation(owner.clone()),
            owner,
            memory,
        }
    }

    fn bytes(&self) -> usize {
        self.large.bytes + self.small.bytes
    }

    fn release(&mut self) {
        *self = Self::new(self.memory.clone(), self.owner.take());
    }

    /// Counts the request for `owner`, after it counted for no owner.
    fn set_owner(&mut self, owner: &PrincipalKey) {
        self.owner = Some(owner.clone());
        for reservation in [&mut self.large, &mut self.small, &mut self.piece] {
            reservation.owner.clone_from(&self.owner);
        }
    }

    fn grow(&mut self, more: usize, sender: &BodySender) -> bool {
        match sender {
            BodySender::Caller(owner) if self.owner.is_none() => self.set_owner(owner),
            BodySender::Caller(_) | BodySender::Program => {}
            BodySender::Unproven => {
                if !self.unproven.grow(more) {
                    return false;
                }
            }
        }
        let is_small = self.bytes().saturating_add(more) <= SMALL;
        if is_small && self.large.bytes == 0 && self.small.grow(more) {
            return true;
        }
        // The body was small until now, and counts as large as a whole.
        if !self.large.grow(more.saturating_add(self.small.bytes)) {
            return false;
        }
        self.small = self.memory.small.reservation(self.owner.clone());
        true
    }

    /// Counts `bytes` that are already in memory.
    fn add(&mut self, bytes: usize) {
        if bytes > SMALL || !self.small.grow(bytes) {
            self.large.add(bytes);
        }
    }
}

// === impl SharedBytes ===

impl SharedBytes {
    fn new(size: usize) -> Self {
        Self(Arc::new(Mutex::new(Shares::new(size))))
    }

    fn held(&self) -> usize {
        self.0.lock().used()
    }

    fn reservation(&self, owner: Option<PrincipalKey>) -> SharedReservation {
        SharedReservation { budget: self.clone(), owner, bytes: 0 }
    }
}

impl SharedReservation {
    fn grow(&mut self, more: usize) -> bool {
        let mut shares = self.budget.0.lock();
        let has_room = match &self.owner {
            Some(owner) => shares.take(owner, more),
            None => shares.take_unowned(more),
        };
        if has_room {
            self.bytes += more;
        }
        has_room
    }

    /// Adds bytes that exist already, even beyond the budget.
    fn add(&mut self, more: usize) {
        let mut shares = self.budget.0.lock();
        match &self.owner {
            Some(owner) => shares.add(owner, more),
            None => shares.add_unowned(more),
        }
        self.bytes += more;
    }
}

impl Drop for SharedReservation {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut shares = self.budget.0.lock();
        match &self.owner {
            Some(owner) => shares.give_back(owner, self.bytes),
            None => shares.give_back_unowned(self.bytes),
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
            held.piece = held.memory.large.reservation(held.owner.clone());
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

    /// A caller of tenant `t{number}`.
    fn sender(number: usize) -> BodySender {
        let tenant = format!("t{number}").parse().unwrap();
        BodySender::Caller(PrincipalKey { tenant, principal: "ann".parse().unwrap() })
    }

    // I-105
    #[test]
    fn no_tenant_takes_the_memory_of_another() {
        let memory = Memory::new(1024 * KIB, 64 * KIB);
        let bodies = |of: usize| -> Vec<_> {
            let body = || {
                let hold = memory.hold();
                hold.grow(32 * KIB, &sender(of)).then_some(hold)
            };
            std::iter::from_fn(body).collect()
        };
        let alone = bodies(0);
        assert_eq!(alone.len(), 28, "seven eighths of the whole, without that for small bodies");
        assert!(bodies(1).is_empty());
        drop(alone);
        let crowd = bodies(0);
        assert_eq!((crowd.len(), bodies(1).len()), (24, 4), "an eighth is left");
        drop(crowd);
        assert_eq!(memory.held(), 0);
    }

    // I-27
    #[test]
    fn small_bodies_have_room_while_large_ones_fill_the_rest() {
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let large: Vec<_> = std::iter::from_fn(|| {
            let hold = memory.hold();
            // In pieces, like an arriving body.
            (0..16).all(|_| hold.grow(16 * KIB, &sender(0))).then_some(hold)
        })
        .collect();
        assert_eq!(large.len(), 3, "the fourth has no room in seven eighths");
        assert_eq!(memory.held(), 768 * KIB, "and counts for nothing");
        let small: Vec<_> = std::iter::from_fn(|| {
            let hold = memory.hold();
            hold.grow(8 * KIB, &sender(0)).then_some(hold)
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
            hold.grow(64 * KIB, &BodySender::Unproven).then_some(hold)
        })
        .collect();
        assert_eq!(unproven.len(), 4);
        assert!(memory.hold().grow(64 * KIB, &sender(0)), "callers have the rest");
    }

    #[test]
    fn the_largest_body_always_has_room_in_an_empty_budget() {
        for (total, largest) in [(100, 100), (1 << 20, 1 << 20), (1 << 20, 1000)] {
            for sender in [sender(0), BodySender::Program, BodySender::Unproven] {
                let hold = Memory::new(total, largest).hold();
                assert!(hold.grow(largest, &sender), "{total} {largest} {sender:?}");
            }
        }
    }

    // I-27
    #[tokio::test]
    async fn an_answer_counts_in_place_of_the_body_until_it_is_read() {
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let hold = memory.hold();
        assert!(hold.grow(100 * KIB, &sender(0)));
        let answer = hold.count(Response::new(Body::from(vec![0; 2048 * KIB])));
        assert_eq!(memory.held(), 2048 * KIB, "more than there is");
        assert!(!memory.hold().grow(17 * KIB, &sender(0)), "keeps large bodies out");
        assert!(memory.hold().grow(KIB, &sender(0)), "and no small ones");
        let read = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        assert_eq!((read.len(), memory.held()), (2048 * KIB, 0));
    }

    // I-27
    #[tokio::test]
    async fn while_an_answer_is_streamed_the_body_and_a_piece_count() {
        use http_body_util::BodyExt as _;
        let memory = Memory::new(1024 * KIB, 256 * KIB);
        let hold = memory.hold();
        assert!(hold.grow(100 * KIB, &sender(0)));
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
