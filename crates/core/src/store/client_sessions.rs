//! The storage trait for what every server must know of the sessions of clients.
//!
//! A server that did not open a session can continue it, so the store has no list of open sessions. It
//! has the ended ones, and the requests to cancel that did not arrive where the request runs.

use async_trait::async_trait;

use crate::{canonical::Digest, clock::Timestamp, store_error::StoreError};

/// The identity of a client's session for every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSession {
    /// Hash of its id.
    pub id: Digest,
    /// When it was opened.
    pub opened: Timestamp,
}

/// What every server must know of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNotice {
    /// Its number, which is at most [`Changes::sessions`](super::Changes::sessions).
    pub number: u64,
    /// Hash of the session's id.
    pub session: Digest,
    /// JSON text of the id of a request that its client cancels; `None`: the session has ended.
    pub cancels: Option<String>,
}

/// Stores the ends of client sessions, and cancellations for other servers.
#[async_trait]
pub trait ClientSessionStore: Send + Sync + 'static {
    /// Stores the end of `session` durably, until `until`. A second end changes nothing.
    async fn end(&self, session: ClientSession, until: Timestamp) -> Result<(), StoreError>;

    /// Returns whether `session` has ended.
    async fn has_ended(&self, session: ClientSession) -> Result<bool, StoreError>;

    /// Announces to every server, until `until`, that the client of `session` cancels `request`, which
    /// is the JSON text of its id.
    async fn cancel(
        &self,
        session: ClientSession,
        request: String,
        until: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns up to a thousand notices after the number `after`, in their order.
    async fn notices(&self, after: u64) -> Result<Vec<SessionNotice>, StoreError>;

    /// Deletes expired notices, and the oldest ends beyond the newest `max_ended`. Sessions that were
    /// opened before one of those count as ended. Returns how many were deleted.
    async fn sweep(&self, now: Timestamp, max_ended: usize) -> Result<usize, StoreError>;
}
