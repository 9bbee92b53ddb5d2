//! The storage trait for idempotent calls, which survive a restart.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    canonical::Digest,
    clock::Timestamp,
    id::{CallId, PrincipalId, RunId, TenantId},
    store::StoreError,
};

/// The default retention of a stored answer.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// An idempotency key of a caller.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct IdempotencyKey {
    /// Tenant of the caller.
    pub tenant: TenantId,
    /// The caller.
    pub principal: PrincipalId,
    /// Hash of the key that the caller sent.
    pub key: Digest,
}

/// A request to run a call under an idempotency key.
#[derive(Debug, Clone)]
pub struct IdempotencyClaim {
    /// The key.
    pub key: IdempotencyKey,
    /// Hash of the tool and its arguments.
    pub call: Digest,
    /// The run that will hold the call's events.
    pub run: RunId,
    /// The call's id in them.
    pub call_id: CallId,
    /// Whether it may run although an earlier attempt may have run.
    pub repeatable: bool,
    /// The current time.
    pub now: Timestamp,
    /// When the key expires.
    pub until: Timestamp,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// The claimant has it now, durably.
    Taken,
    /// It belongs to another call.
    OtherCall,
    /// The call is running, in a live process.
    Running,
    /// The call has finished.
    Ended(AnswerRecord),
    /// The call has finished, and its answer was not stored.
    Spent,
    /// The process that ran the call stopped, apparently before the call finished.
    Lost {
        /// The run that holds the call's events.
        run: RunId,
        /// The call's id in them.
        call_id: CallId,
    },
}

/// The stored answer of a finished call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRecord {
    /// The run that holds the call's events.
    pub run: RunId,
    /// The answer, to the byte.
    pub body: String,
    /// When it is deleted.
    pub until: Timestamp,
}

/// Stores calls by idempotency key, and their answers, sealed against readers of the storage.
///
/// Bounds: a store limits calls and bytes, in total and per caller. A caller over its limits loses
/// its own oldest answers. If the total is exceeded, the caller with the most loses answers.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    /// Whether there is a key to seal with. Without it, calls are not stored.
    fn seals(&self) -> bool;

    /// Stores a call under its key, if the key is free.
    async fn claim(&self, claim: IdempotencyClaim) -> Result<ClaimOutcome, StoreError>;

    /// Finishes the call of `run` under `key` with its answer. `None`, or an answer over the size
    /// limit, cannot be returned again. Has no effect if the key belongs to another call.
    async fn keep(
        &self,
        key: &IdempotencyKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError>;

    /// Frees `key` of the call of `run`, which did not run. Has no effect if it belongs to another
    /// call.
    async fn release(&self, key: &IdempotencyKey, run: &RunId) -> Result<(), StoreError>;

    /// Deletes expired entries, up to a few hundred, and returns how many it deleted.
    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError>;
}
