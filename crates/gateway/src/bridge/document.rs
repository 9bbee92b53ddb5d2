//! The documents of clients, as they are kept in memory.

use toolcrib_oauth::server::{client::ClientDescription, error::Refused};

/// The document of a client, or why there is none.
pub(super) struct KnownDocument {
    pub(super) found: Result<ClientDescription, Refused>,
    /// Monotonic nanoseconds.
    pub(super) until: u64,
}
