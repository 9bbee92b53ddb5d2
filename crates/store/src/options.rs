//! How a store is opened.

use toolcrib_core::credential::Secret;

use crate::seal::SealKeys;

/// How to open a store.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The meaning of an acknowledgement.
    pub durability: Durability,
    /// The password of the user in the URL, for an engine with a server.
    pub password: Option<Secret>,
    /// The keys that seal credentials and approvals. Without one, credentials cannot be stored, and
    /// approvals are stored without the displayable arguments of their calls.
    pub seal_keys: SealKeys,
    /// The keys that seal the data of workflow runs and the answers of idempotent calls. Without
    /// one, neither outlives the process.
    pub call_keys: SealKeys,
    /// Limits on idempotent calls.
    pub idempotency: IdempotencyBounds,
}

/// The meaning of an acknowledgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// The data was synced to disk and survives a power failure.
    #[default]
    Strict,
    /// As `Strict`, except for appends that only complete calls. The operating system has their
    /// events, which are synced right after. A power failure may lose the last transaction with
    /// such events, on PostgreSQL those of its last three `wal_writer_delay`: the calls are
    /// recorded as interrupted then.
    Opening,
    /// The data was handed to the operating system and survives the exit of the process. A power
    /// failure may lose the last moments; the file stays consistent.
    Relaxed,
}

/// Limits on calls and bytes, in total and per caller.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyBounds {
    /// Calls, in total and per caller.
    pub calls: (u32, u32),
    /// Bytes, in total and per caller.
    pub bytes: (u32, u32),
}

impl Default for IdempotencyBounds {
    fn default() -> Self {
        Self { calls: (262_144, 16_384), bytes: (512 << 20, 32 << 20) }
    }
}
