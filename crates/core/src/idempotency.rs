//! The seam to what is kept of calls that name themselves, beyond the end of a process.

use std::time::Duration;

use async_trait::async_trait;

use crate::{
    canonical::Digest,
    clock::Timestamp,
    id::{CallId, PrincipalId, RunId, TenantId},
    store::StoreError,
};

/// How long an answer is kept unless the operator says otherwise.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

/// A caller's own name for one call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OnceKey {
    /// Tenant of the caller.
    pub tenant: TenantId,
    /// The caller.
    pub principal: PrincipalId,
    /// Hash of what the caller said.
    pub key: Digest,
}

/// A call that wants to run under a key.
#[derive(Debug, Clone)]
pub struct OnceClaim {
    /// The key.
    pub key: OnceKey,
    /// What is called, with which arguments.
    pub call: Digest,
    /// The run that will hold its events.
    pub run: RunId,
    /// Its identity in them.
    pub call_id: CallId,
    /// Whether it may run although an earlier one may have run.
    pub repeatable: bool,
    /// Now.
    pub now: Timestamp,
    /// When the key is free again.
    pub until: Timestamp,
}

/// What a key leads to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claimed {
    /// It is the claimant's now, durably.
    Taken,
    /// It stands for another call.
    OtherCall,
    /// The call runs, in a process that lives.
    Running,
    /// The call has ended.
    Ended(KeptAnswer),
    /// The call has ended, and its answer cannot be given again.
    Spent,
    /// The process that ran the call ended before the call did, as far as anybody knows.
    Lost {
        /// The run that holds its events.
        run: RunId,
        /// Its identity in them.
        call_id: CallId,
    },
}

/// The answer of a call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptAnswer {
    /// The run that holds its events.
    pub run: RunId,
    /// What is answered, to the byte.
    pub body: String,
    /// When it is forgotten.
    pub until: Timestamp,
}

/// Keeps calls under keys, and their answers, unreadable for whoever has the store alone.
///
/// Bounds: an engine keeps so many calls and so many bytes, in all and for each caller. A caller over
/// its bounds loses its own oldest answers; when all together are over theirs, whoever holds most does.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    /// Whether there is a key to seal with. Without one nothing is kept.
    fn seals(&self) -> bool;

    /// Puts a call under its key, if nothing stands there.
    async fn claim(&self, claim: OnceClaim) -> Result<Claimed, StoreError>;

    /// Ends the call of `run` under `key` with what is answered; `None`, and an answer that is too
    /// large, is one that cannot be given again. Without effect when another call stands there.
    async fn keep(
        &self,
        key: &OnceKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError>;

    /// Frees `key` of the call of `run`, which did not run. Without effect when another stands there.
    async fn release(&self, key: &OnceKey, run: &RunId) -> Result<(), StoreError>;

    /// Forgets what is too old, up to a few hundred; how many there were.
    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError>;
}
