//! The errors of a store.

/// Why the store failed. `Display` is for the operator.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Disk full, locked, gone, shut down.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// The stored data is malformed.
    #[error("the store contains unreadable data: {0}")]
    Corrupt(String),
    /// It was written by a newer version.
    #[error(
        "the store was written by a newer version (schema {found}, this program knows {known})"
    )]
    TooNew {
        /// Version found.
        found: u32,
        /// Newest version known.
        known: u32,
    },
    /// Another server has closed the calls of this one, which it regards as dead.
    #[error(
        "the database did not hear of this server for 30 seconds, and another one has closed its \
         calls; restart it"
    )]
    TakenOver,
    /// The item to insert exists already.
    #[error("already exists: {0}")]
    Conflict(String),
    /// The store cannot be copied, or cannot be the copy.
    #[error("{0}")]
    Unsuitable(String),
}
