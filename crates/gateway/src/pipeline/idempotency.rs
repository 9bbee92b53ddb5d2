//! Idempotent calls: the same call under the same key runs once, and a repetition gets the stored
//! answer.
//!
//! * A key belongs to a (tenant, principal), to the makers of the credential, and to a *space*, which
//!   names the format of its stored answers. It never affects calls of others.
//! * Equal calls at the same time run once and all get the answer. An idempotent call continues to
//!   its result or its deadline if its caller disconnects, because the caller may return for the
//!   answer. (A call without a key is cancelled, I-22.)
//! * Answers are stored for `[gate] idempotency_ttl`, within bounds: a principal that needs room
//!   loses its oldest answers, and never displaces answers of a principal that has fewer. They are
//!   held in memory, and with an [`IdempotencyStore`] also stored there, sealed, before the caller
//!   is answered.
//! * A call is claimed in the store before it starts. A call whose process died is answered with
//!   [`Interrupted`](UpstreamErrorKind::Interrupted), always with the same text, and only repeated
//!   if the operator allows it for the tool. If the record shows that a call has not run, it may
//!   run.
//! * Only answers of tools that ran are stored: refusals are evaluated again, and so is a call
//!   whose answer allows a repetition. An answer is not stored if the tool requested input, because
//!   the call is unfinished.
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
use self::table::{CapacityError, Limits, Lookup, Table};
pub(super) use self::{
    table::Owner,
    unsettled::{EndedCall, UnsettledCalls},
};
use super::request::CallReport;
use crate::background::Services;

pub use toolcrib_core::idempotency::KEPT_FOR;

/// Longest key, in bytes.
pub const MAX_KEY: usize = 256;

/// A caller's name for one call.
#[derive(Debug, Clone, Copy)]
pub struct ClientKey<'a> {
    /// The format of the answers, for example `otc`. Fixed by the surface.
    pub space: &'static str,
    /// The text of the caller: 1 to [`MAX_KEY`] bytes.
    pub text: &'a str,
}

/// A completed call under a key.
#[derive(Debug, Clone)]
pub enum IdempotentOutcome {
    /// It ran, or was refused, for this request or for an equal concurrent one.
    Report(Arc<CallReport>),
    /// It ran earlier.
    Kept(StoredAnswer),
}

/// Why a call under a key was not made. The tool did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdempotencyError {
    /// The key is empty or too long.
    #[error("must have 1 to 256 characters")]
    Unusable,
    /// The key has been used for another tool or other arguments.
    #[error("has been used for another call; use a new one for every call")]
    Conflict,
    /// The call was made, but its answer was too large to keep.
    #[error("has been used, and the answer was too large to be kept; the call was not repeated")]
    Spent,
    /// Too many calls of this caller are running under keys.
    #[error("cannot be taken now: too many calls are running; try again later")]
    Busy,
    /// The call is running in another process.
    #[error("is that of a call that runs now in another process; try again later")]
    Running,
}

/// How often expired answers are removed.
const SWEEP: Duration = Duration::from_secs(60);
/// How often the storing of results is retried after a failure of the store.
const RETRY: Duration = Duration::from_secs(1);

/// Bytes of answers that wait to be stored. Above this, calls under a key are refused before they
/// start, because an answer cannot be refused after its tool has run.
const STORING: usize = 64 << 20;

/// The running idempotent calls, and the stored answers.
pub(crate) struct Idempotency {
    store: Arc<dyn IdempotencyStore>,
    services: Services,
    table: Mutex<Table<ResultReceiver>>,
    /// The bytes of answers that wait to be stored.
    pub(super) storing: ByteBudget,
    pub(super) unsettled: UnsettledCalls,
}

pub(super) type IdempotentResult = Result<IdempotentOutcome, IdempotencyError>;

/// Receives the result of a running call.
pub(super) type ResultReceiver = watch::Receiver<Option<IdempotentResult>>;

pub(super) enum KeyState {
    Kept(StoredAnswer),
    Running(ResultReceiver),
    Free(watch::Sender<Option<IdempotentResult>>, ResultReceiver),
}

/// The place of a running call in the table. If it is dropped without a result, the key is free
/// again.
pub(super) struct Ticket {
    idempotency: Arc<Idempotency>,
    owner: Owner,
    key: String,
}

impl Idempotency {
    pub(crate) fn new(services: Services) -> Arc<Self> {
        let store = services.storage.idempotency();
        let table = Mutex::new(Table::new(Limits::default()));
        let (storing, unsettled) = (ByteBudget::new(STORING), UnsettledCalls::default());
        Arc::new(Self { store, services, table, storing, unsettled })
    }

    /// Until the gateway stops, removes expired answers from the store every minute, and retries
    /// the results that it did not store.
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

    /// The store, if it can seal answers.
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
                    Err(CapacityError) => Err(IdempotencyError::Busy),
                }
            }
        }
    }
}

impl Ticket {
    pub(super) fn new(idempotency: &Arc<Idempotency>, owner: Owner, key: String) -> Self {
        Self { idempotency: Arc::clone(idempotency), owner, key }
    }

    /// Completes the call and keeps its answer for `ttl`.
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

/// Whether a repeated call gets the same answer as `called`: the tool ran, and the answer does not
/// allow a repetition.
pub fn is_final(called: &CallReport) -> bool {
    match &called.result {
        Ok(_) => true,
        Err(error) => called.duration.is_some() && !may_repeat(error, called.entry.as_deref()),
    }
}

/// Whether a call without an answer may be repeated. It may have taken effect, so only if the
/// operator allows it for the tool.
pub fn may_repeat(error: &CallError, entry: Option<&Entry>) -> bool {
    use UpstreamErrorKind::{Died, Timeout};
    let lost = matches!(error, CallError::Upstream(error) if matches!(error.kind, Died | Timeout));
    lost && entry.is_some_and(is_repeatable)
}

/// Whether the operator allows repetitions of the tool.
pub fn is_repeatable(entry: &Entry) -> bool {
    let tool = &entry.tool;
    matches!(tool.safety_tier, SafetyTier::Pure | SafetyTier::Read)
        || matches!(
            tool.replay_policy,
            Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent)
        )
}

/// Whether the tool requested input instead of finishing.
pub(super) fn requests_input(called: &CallReport) -> bool {
    use UpstreamErrorKind::{CapabilityRequired, InputRequired};
    match &called.result {
        Err(CallError::NeedsInput(_)) => true,
        Err(CallError::Upstream(error)) => {
            matches!(error.kind, InputRequired | CapabilityRequired)
        }
        _ => false,
    }
}
