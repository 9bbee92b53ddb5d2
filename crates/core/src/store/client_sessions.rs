//! The storage trait for the state of client sessions that all servers share.
//!
//! A server can continue a session that another one opened, so the store does not list open
//! sessions. It has the closed sessions, and the cancellations that did not reach the server that
//! runs the request.

use async_trait::async_trait;

use crate::{canonical::Digest, clock::Timestamp, store_error::StoreError};

/// The identity of a client's session, the same on every server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientSession {
    /// Hash of its id.
    pub id: Digest,
    /// When it was opened.
    pub opened: Timestamp,
}

/// A change of a session that every server must know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionNotice {
    /// Its number, which is at most [`Changes::sessions`](super::Changes::sessions).
    pub number: u64,
    /// Hash of the session's id.
    pub session: Digest,
    /// JSON text of the id of a request that the client cancels; `None`: the session is closed.
    pub cancels: Option<String>,
}

/// Stores which client sessions are closed, and cancellations for other servers.
#[async_trait]
pub trait ClientSessionStore: Send + Sync + 'static {
    /// Stores durably, until `until`, that `session` is closed. Repeating it changes nothing.
    async fn end(&self, session: ClientSession, until: Timestamp) -> Result<(), StoreError>;

    /// Whether `session` is closed.
    async fn has_ended(&self, session: ClientSession) -> Result<bool, StoreError>;

    /// Announces to every server, until `until`, that the client of `session` cancels `request`
    /// (the JSON text of its id).
    async fn cancel(
        &self,
        session: ClientSession,
        request: String,
        until: Timestamp,
    ) -> Result<(), StoreError>;

    /// Returns up to 1 000 notices with numbers greater than `after`, in ascending order.
    async fn notices(&self, after: u64) -> Result<Vec<SessionNotice>, StoreError>;

    /// Deletes expired notices, and the oldest closed sessions beyond the newest `max_ended`.
    /// Sessions opened before one of these count as closed. Returns the number of deletions.
    async fn sweep(&self, now: Timestamp, max_ended: usize) -> Result<usize, StoreError>;
}
