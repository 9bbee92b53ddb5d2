//! Idempotent calls: the same call under the same key runs once, and gets the first answer again.
//!
//! * A key belongs to a (tenant, principal) and to a *space*, which names the format of its stored
//!   answers. Calls of other principals are out of its reach.
//! * Equal calls at the same time run once and all get the answer. An idempotent call continues to its
//!   end or its deadline when its caller disconnects, because the caller may come back for the answer.
//!   (A call without a key ends with its caller, I-22.)
//! * Answers are stored for `[gate] idempotency_ttl`, within bounds: a principal that needs room loses
//!   its own oldest answers, and no principal loses an answer to one that holds more. They are held in
//!   memory, and with an [`IdempotencyStore`] also stored there, sealed, before the caller is answered.
//! * A call is claimed in the store before it starts. A call whose process died is answered with
//!   [`Interrupted`](UpstreamErrorKind::Interrupted), always in the same words, and not repeated unless
//!   the operator says that its tool may be repeated. A call that the record shows not to have run may
//!   run.
//! * Only answers of tools that ran are stored: refusals are answered anew, and so is a call whose answer
//!   says that it may be repeated. A tool that requested input has not ended, so nothing is stored.
//! * A repeated call is resolved and authorized again before it gets the stored answer.

mod table;
mod unsettled;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use toolcrib_core::{
    budget::ByteBudget,
    call::{CallError, UpstreamErrorKind},
    canonical::Digest,
    catalog::Entry,
    descriptor::{ReplayPolicy, SafetyTier},
    idempotency::IdempotencyStore,
};

pub use self::table::StoredAnswer;
use self::table::{Busy, Limits, Lookup, Table};
pub(super) use self::{
    table::Owner,
    unsettled::{EndedCall, Unsettled},
};
use super::request::CallReport;
use crate::background::Services;

pub use toolcrib_core::idempotency::KEPT_FOR;

/// Longest key, in bytes.
pub const MAX_KEY: usize = 256;

/// A caller's own name for one call.
#[derive(Debug, Clone, Copy)]
pub struct ClientKey<'a> {
    /// Whose answers these are, for example `otc`. Fixed by the surface.
    pub space: &'static str,
    /// What the caller sent: 1 to [`MAX_KEY`] bytes.
    pub text: &'a str,
}

/// A call under a key that came to an end.
#[derive(Debug, Clone)]
pub enum IdempotentOutcome {
    /// It ran, or was refused, for this request or for an equal one that came just before.
    Report(Arc<CallReport>),
    /// It ran earlier.
    Kept(StoredAnswer),
}

/// Why a call under a key was not made. Nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdempotencyError {
    /// Empty or too long.
    #[error("must have 1 to 256 characters")]
    Unusable,
    /// The key has been used for another tool or other arguments.
    #[error("has been used for another call; use a new one for every call")]
    Conflict,
    /// The call was made, but its answer was too large to be kept.
    #[error("has been used, and the answer was too large to be kept; the call was not repeated")]
    Spent,
    /// Too many calls of this caller run under keys.
    #[error("cannot be taken now: too many calls are running; try again later")]
    Busy,
    /// The call runs in another process.
    #[error("is that of a call that runs now in another process; try again later")]
    Running,
}

/// How often old answers are looked for.
const SWEEP: Duration = Duration::from_secs(60);
/// How often ends that the store did not take are stored again.
const RETRY: Duration = Duration::from_secs(1);

/// Bytes of answers that wait to be stored. Beyond it no call under a key starts, because an answer
/// cannot be refused any more when its tool has run.
const STORING: usize = 64 << 20;

/// The idempotent calls that run, and the stored answers.
pub(crate) struct Idempotency {
    store: Arc<dyn IdempotencyStore>,
    services: Services,
    table: Mutex<Table<ResultReceiver>>,
    /// The bytes of answers that wait to be stored.
    pub(super) storing: ByteBudget,
    pub(super) unsettled: Unsettled,
}

/// The end of an idempotent call.
pub(super) type IdempotentResult = Result<IdempotentOutcome, IdempotencyError>;

/// Receives the end of a running call.
pub(super) type ResultReceiver = watch::Receiver<Option<IdempotentResult>>;

/// The state of a key.
pub(super) enum KeyState {
    Kept(StoredAnswer),
    Running(ResultReceiver),
    Free(watch::Sender<Option<IdempotentResult>>, ResultReceiver),
}

/// The place of a running call in the table. Dropped without an end, the key is free again.
pub(super) struct Ticket {
    idempotency: Arc<Idempotency>,
    owner: Owner,
    key: String,
}

impl Idempotency {
    pub(crate) fn new(services: Services) -> Arc<Self> {
        let store = services.storage.idempotency();
        let table = Mutex::new(Table::new(Limits::default()));
        let (storing, unsettled) = (ByteBudget::new(STORING), Unsettled::default());
        Arc::new(Self { store, services, table, storing, unsettled })
    }

    /// Removes expired answers from the store every minute, and settles calls that it did not take,
    /// until the gateway ends.
    pub(crate) fn start(&self) {
        let (store, unsettled) = (Arc::clone(&self.store), self.unsettled.clone());
        self.services.background.every("idempotency/ends", RETRY, move || {
            let (store, unsettled) = (Arc::clone(&store), unsettled.clone());
            async move { unsettled.retry(&*store).await }
        });
        let (store, clock) = (Arc::clone(&self.store), Arc::clone(&self.services.clock));
        self.services.background.every("idempotency", SWEEP, move || {
            let (store, clock) = (Arc::clone(&store), Arc::clone(&clock));
            async move {
                loop {
                    match store.sweep(clock.now()).await {
                        Ok(0) => return,
                        Ok(_) => {}
                        Err(error) => {
                            return tracing::warn!(%error, "expired answers could not be removed");
                        }
                    }
                }
            }
        });
    }

    /// The store, if it can keep answers sealed.
    pub(super) fn sealed_store(&self) -> Option<&dyn IdempotencyStore> {
        Some(&*self.store).filter(|store| store.seals())
    }

    /// Looks up `key` for the call with the digest `call`, and takes the key if it is free.
    pub(super) fn take(
        &self,
        owner: &Owner,
        key: &str,
        call: Digest,
    ) -> Result<KeyState, IdempotencyError> {
        let now = self.services.clock.monotonic_nanos();
        let mut table = self.table.lock();
        match table.find(owner, key, call, now) {
            Lookup::Kept(kept) => Ok(KeyState::Kept(kept)),
            Lookup::Running(waiting) => Ok(KeyState::Running(waiting)),
            Lookup::OtherCall => Err(IdempotencyError::Conflict),
            Lookup::Spent => Err(IdempotencyError::Spent),
            Lookup::Nothing => {
                if self.storing.held() >= self.storing.size() {
                    return Err(IdempotencyError::Busy);
                }
                let (ended, waiting) = watch::channel(None);
                match table.begin(owner, key, call, waiting.clone()) {
                    Ok(()) => Ok(KeyState::Free(ended, waiting)),
                    Err(Busy) => Err(IdempotencyError::Busy),
                }
            }
        }
    }
}

impl Ticket {
    pub(super) fn new(idempotency: &Arc<Idempotency>, owner: Owner, key: String) -> Self {
        Self { idempotency: Arc::clone(idempotency), owner, key }
    }

    /// Ends the call and holds its answer for `ttl`.
    pub(super) fn end(self, kept: Option<StoredAnswer>, ttl: Duration) {
        if let Some(kept) = kept {
            let now = self.idempotency.services.clock.monotonic_nanos();
            let until = now.saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX));
            let mut table = self.idempotency.table.lock();
            table.keep(&self.owner, &self.key, kept, now, until);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.idempotency.table.lock().release(&self.owner, &self.key);
    }
}

/// Whether a repeated call gets the answer to `called` again: the tool ran, and the answer does not say
/// that the call may be repeated.
pub fn is_final(called: &CallReport) -> bool {
    match &called.result {
        Ok(_) => true,
        Err(error) => called.duration.is_some() && !may_repeat(error, called.entry.as_deref()),
    }
}

/// Whether a call without an answer may be repeated. It may have taken effect, so only where the
/// operator says that the tool may be repeated.
pub fn may_repeat(error: &CallError, entry: Option<&Entry>) -> bool {
    use UpstreamErrorKind::{Died, Timeout};
    let lost = matches!(error, CallError::Upstream(error) if matches!(error.kind, Died | Timeout));
    lost && entry.is_some_and(is_repeatable)
}

/// Whether the operator says that the tool may be repeated.
pub fn is_repeatable(entry: &Entry) -> bool {
    let tool = &entry.tool;
    matches!(tool.safety_tier, SafetyTier::Pure | SafetyTier::Read)
        || matches!(
            tool.replay_policy,
            Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent)
        )
}

/// Whether the tool requested input instead of ending.
pub(super) fn requests_input(called: &CallReport) -> bool {
    use UpstreamErrorKind::{CapabilityRequired, InputRejected, InputRequired};
    let Err(CallError::Upstream(error)) = &called.result else { return false };
    matches!(error.kind, InputRequired | CapabilityRequired | InputRejected)
}
