//! Calls that name themselves run once: whoever sends the same call under the same key again gets
//! the first one's answer.
//!
//! * A key belongs to a (tenant, principal) and to a *space*, which is the surface's word for what
//!   its kept answers look like. Nobody else's calls, answers or mistakes are reached with it.
//! * Equal calls at the same time run once and all get the answer. A caller that hangs up, the first
//!   one included, ends nothing: a call under a key goes on to its end or its deadline, because a
//!   caller that named its call may come back for the answer. (A call without a key ends with its
//!   caller, I-22.)
//! * What ran is kept for `[gate] idempotency_ttl`, within bounds: a principal that needs room loses its
//!   own oldest answers, and nobody loses anything to somebody who holds more. In memory always; where
//!   there is an [`IdempotencyStore`] also there, sealed, before anybody is answered. What is not found
//!   in memory is looked for there.
//! * A call is claimed in the store before it starts. One that was running when its process died is
//!   answered with [`Interrupted`](UpstreamErrorKind::Interrupted), always with the same words, and not
//!   run again, unless a second time is no harm. What the record shows not to have run may run.
//! * What did not run is not kept: refusals are answered anew, and so is a call whose answer says
//!   that it may be repeated. The surface decides, since only it knows what it answers. A tool that
//!   asked its caller for more has not come to its end, so nothing is kept of that either.
//! * A repeated call passes resolution and authorization again before it gets anything.

mod table;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::json;
use tokio::sync::watch;
use toolcrib_core::{
    authorize::{Authorizer as _, CallContext},
    budget::ByteBudget,
    call::{CallError, UpstreamError, UpstreamErrorKind},
    canonical::{self, Digest},
    catalog::Entry,
    clock::Timestamp,
    descriptor::{ReplayPolicy, SafetyTier},
    id::{CallId, RunId},
    idempotency::{Claimed, IdempotencyStore, OnceClaim, OnceKey},
    principal::Principal,
    store::StoreError,
};

use self::table::{Busy, Found, Holder, Limits, Table};
use crate::{
    Gateway, Snapshot,
    call::{CallReport, CallRequest, Ids},
    list::ToolRef,
    record,
};

pub use toolcrib_core::idempotency::KEPT_FOR;

/// Longest key, in bytes.
pub const MAX_KEY: usize = 256;

/// A caller's own name for one call.
#[derive(Debug, Clone, Copy)]
pub struct IdempotencyKey<'a> {
    /// Whose answers these are, for example `otc`. Fixed by the surface.
    pub space: &'static str,
    /// What the caller sent: 1 to [`MAX_KEY`] bytes.
    pub text: &'a str,
}

/// What a surface wants repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// The answer's body, to the byte.
    pub body: Bytes,
    /// The run of the call that gave it.
    pub run_id: RunId,
}

/// A call under a key that came to an end.
#[derive(Debug, Clone)]
pub enum Once {
    /// It ran, or was refused, for this request or for an equal one that came just before.
    Report(Arc<CallReport>),
    /// It ran earlier.
    Kept(Kept),
}

/// Why a call under a key was not made. Nothing ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OnceError {
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

/// Bytes of answers that wait to be stored. Beyond it no call under a key starts, because an answer
/// cannot be refused any more when its tool has run.
const STORING: usize = 64 << 20;

/// Calls under keys that run, and answers that are kept.
pub(crate) struct Idempotency {
    table: Mutex<Table<Waiting>>,
    /// For answers that wait to be stored.
    storing: ByteBudget,
}

/// What came of a call under a key.
type Told = Result<Once, OnceError>;

/// Where those who wait for a running call are told what came of it.
type Waiting = watch::Receiver<Option<Told>>;

impl Default for Idempotency {
    fn default() -> Self {
        let table = Mutex::new(Table::new(Limits::default()));
        Self { table, storing: ByteBudget::new(STORING) }
    }
}

impl Gateway {
    /// Runs `request` through the gate unless the same call has run under `key`. `keep` is asked what
    /// to keep of a call that ended; it sees nothing but that call, so that every answer made of it
    /// is the same.
    ///
    /// # Errors
    /// The key cannot be used for this call.
    pub async fn call_once(
        &self,
        principal: &Arc<Principal>,
        key: IdempotencyKey<'_>,
        request: CallRequest<'_>,
        keep: impl FnOnce(&CallReport) -> Option<Bytes> + Send + 'static,
    ) -> Result<Once, OnceError> {
        if key.text.is_empty() || key.text.len() > MAX_KEY {
            return Err(OnceError::Unusable);
        }
        let snapshot = self.snapshot();
        let Some((entry, call)) = identify(&snapshot, principal, &request) else {
            // The pipeline says why, and records it.
            let ids = Ids { run: record::new_id(), call: None, snapshot: Some(snapshot) };
            let called = self.call_in(ids, None, principal, request, None).await;
            return Ok(Once::Report(Arc::new(called)));
        };
        let holder: Holder = (principal.tenant.clone(), principal.id.clone());
        let text = format!("{}:{}", key.space, key.text);
        let mut waiting = match self.take(&holder, &text, call)? {
            Taken::Kept(kept) => return Ok(Once::Kept(kept)),
            Taken::Running(waiting) => waiting,
            Taken::Free(tell, waiting) => {
                let key = OnceKey {
                    tenant: principal.tenant.clone(),
                    principal: principal.id.clone(),
                    key: Digest::of(text.as_bytes()),
                };
                let ticket = Ticket { gateway: self.clone(), holder, key: text };
                let CallRequest {
                    surface,
                    within,
                    arguments,
                    progress,
                    meta,
                    input,
                    charge,
                    tool: _,
                } = request;
                let principal = Arc::clone(principal);
                let gateway = self.clone();
                self.running().spawn(async move {
                    let tool = ToolRef::Id(entry.id.as_str());
                    let request = CallRequest {
                        surface,
                        tool,
                        within,
                        arguments,
                        progress,
                        meta,
                        input,
                        charge,
                    };
                    let own = OneCall { gateway: &gateway, snapshot, key, call, entry: &entry };
                    let ran = own.run(&principal, request, keep, ticket);
                    let told = tokio::select! {
                        told = ran => told,
                        // Ending the gateway is hanging up for everybody.
                        () = gateway.ended().cancelled() => return,
                    };
                    tell.send_replace(Some(told));
                });
                waiting
            }
        };
        let told = waiting.wait_for(Option::is_some).await.ok().and_then(|told| told.clone());
        told.unwrap_or_else(|| Ok(Once::Report(lost())))
    }

    fn take(&self, holder: &Holder, key: &str, call: Digest) -> Result<Taken, OnceError> {
        let now = self.clock().monotonic_nanos();
        let mut table = self.idempotency().table.lock();
        match table.find(holder, key, call, now) {
            Found::Kept(kept) => Ok(Taken::Kept(kept)),
            Found::Running(waiting) => Ok(Taken::Running(waiting)),
            Found::OtherCall => Err(OnceError::Conflict),
            Found::Spent => Err(OnceError::Spent),
            Found::Nothing => {
                let storing = &self.idempotency().storing;
                if storing.held() >= storing.size() {
                    return Err(OnceError::Busy);
                }
                let (tell, waiting) = watch::channel(None);
                match table.begin(holder, key, call, waiting.clone()) {
                    Ok(()) => Ok(Taken::Free(tell, waiting)),
                    Err(Busy) => Err(OnceError::Busy),
                }
            }
        }
    }
}

/// What is asked for, if the caller may have it and it can be told from anything else. Tools of
/// the test seams have no name that lasts.
fn identify(
    snapshot: &Arc<Snapshot>,
    who: &Principal,
    request: &CallRequest<'_>,
) -> Option<(Arc<Entry>, Digest)> {
    if matches!(request.tool, ToolRef::Probe(_)) {
        return None;
    }
    let entry = snapshot.find(who, request.tool, &request.within, None).ok()?;
    // An answer that is kept is an answer to this call: whoever may not make it any more is not
    // given it.
    let surface = request.surface.as_str();
    let asked = CallContext { surface, arguments: &request.arguments };
    snapshot.decider.authorize_call(who.subject(), &entry, asked).ok()?;
    let mut bytes = entry.id.as_str().as_bytes().to_vec();
    bytes.push(0);
    // As sent, not redacted: two secrets are two calls.
    bytes.extend(canonical::canonical_bytes(&request.arguments).ok()?);
    // A further round is another call.
    if let Some(input) = request.input.as_ref().filter(|input| input.is_retry()) {
        bytes.push(0);
        let round = json!([input.responses, input.state]);
        bytes.extend(canonical::canonical_bytes(&round).ok()?);
    }
    Some((entry, Digest::of(&bytes)))
}

/// What a key leads to.
enum Taken {
    Kept(Kept),
    Running(Waiting),
    Free(watch::Sender<Option<Told>>, Waiting),
}

/// A call that has its key in this process.
struct OneCall<'a> {
    gateway: &'a Gateway,
    snapshot: Arc<Snapshot>,
    key: OnceKey,
    call: Digest,
    entry: &'a Arc<Entry>,
}

impl OneCall<'_> {
    /// Claims the key for good, runs the call, and keeps what is to be kept of it.
    async fn run(
        self,
        principal: &Principal,
        request: CallRequest<'_>,
        keep: impl FnOnce(&CallReport) -> Option<Bytes>,
        ticket: Ticket,
    ) -> Told {
        let Self { gateway, snapshot, key, call, entry } = self;
        let (run, call_id): (RunId, CallId) = (record::new_id(), record::new_id());
        let ttl = snapshot.gate.idempotency_ttl;
        let store = gateway.idempotency_store().filter(|store| store.seals());
        if let Some(store) = store {
            let now = gateway.clock().now();
            let claim = OnceClaim {
                key: key.clone(),
                call,
                run: run.clone(),
                call_id: call_id.clone(),
                repeatable: is_repeatable(entry),
                now,
                until: after(now, ttl),
            };
            match store.claim(claim).await {
                Ok(Claimed::Taken) => {}
                Ok(Claimed::OtherCall) => return Err(OnceError::Conflict),
                Ok(Claimed::Running) => return Err(OnceError::Running),
                Ok(Claimed::Spent) => return Err(OnceError::Spent),
                Ok(Claimed::Ended(answer)) => {
                    let kept = Kept { body: Bytes::from(answer.body), run_id: answer.run };
                    let left = (answer.until - now).to_std().unwrap_or_default();
                    ticket.end(Some(kept.clone()), left);
                    return Ok(Once::Kept(kept));
                }
                Ok(Claimed::Lost { run, call_id }) => {
                    let detail = "the process that ran it ended";
                    let error = UpstreamError::new(UpstreamErrorKind::Interrupted, detail);
                    return Ok(Once::Report(Arc::new(CallReport {
                        run_id: run,
                        call_id,
                        entry: Some(Arc::clone(entry)),
                        result: Err(CallError::Upstream(error)),
                        duration: None,
                    })));
                }
                Err(error) => {
                    tracing::error!(%error, "a call was refused because its key could not be taken");
                    let called = CallReport {
                        run_id: run,
                        call_id,
                        entry: Some(Arc::clone(entry)),
                        result: Err(CallError::NotAccountable("kept under its key")),
                        duration: None,
                    };
                    return Ok(Once::Report(Arc::new(called)));
                }
            }
        }
        let ids = Ids { run: run.clone(), call: Some(call_id), snapshot: Some(snapshot) };
        let called = Arc::new(gateway.call_in(ids, None, principal, request, None).await);
        // Who is asked for more has no answer yet that could be repeated.
        let body = if asked(&called) { None } else { keep(&called) };
        if let Some(store) = store {
            let mut waits = gateway.idempotency().storing.reservation();
            waits.add(body.as_ref().map_or(0, Bytes::len));
            let until = after(gateway.clock().now(), ttl);
            if let Err(error) = settle(store, &key, &run, body.as_ref(), until).await {
                tracing::error!(%error, call = %called.call_id, "what came of a call could not be kept under its key");
            }
        }
        // First the table, then those who wait: whoever has an answer finds it kept.
        ticket.end(body.map(|body| Kept { body, run_id: called.run_id.clone() }), ttl);
        Ok(Once::Report(called))
    }
}

/// Keeps `body` in the store, or frees the key.
async fn settle(
    store: &dyn IdempotencyStore,
    key: &OnceKey,
    run: &RunId,
    body: Option<&Bytes>,
    until: Timestamp,
) -> Result<(), StoreError> {
    match body {
        None => store.release(key, run).await,
        Some(body) => {
            let text = std::str::from_utf8(body).ok().map(str::to_owned);
            store.keep(key, run, text, until).await
        }
    }
}

/// The place of a running call in the table. Dropped without an end, the key is free again.
struct Ticket {
    gateway: Gateway,
    holder: Holder,
    key: String,
}

impl Ticket {
    fn end(self, kept: Option<Kept>, ttl: Duration) {
        if let Some(kept) = kept {
            let now = self.gateway.clock().monotonic_nanos();
            let until = now.saturating_add(u64::try_from(ttl.as_nanos()).unwrap_or(u64::MAX));
            self.gateway.idempotency().table.lock().keep(&self.holder, &self.key, kept, now, until);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.gateway.idempotency().table.lock().release(&self.holder, &self.key);
    }
}

/// Forgets old answers of the store now and then, until the gateway ends.
pub(crate) fn follow(gateway: &Gateway) {
    if gateway.idempotency_store().is_none() {
        return;
    }
    gateway.spawn_each("idempotency", SWEEP, |gateway| async move {
        let Some(store) = gateway.idempotency_store() else { return };
        loop {
            match store.sweep(gateway.clock().now()).await {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!(%error, "old answers could not be forgotten");
                    break;
                }
            }
        }
    });
}

/// Whether the answer to `called` is given again to whoever repeats the call: the tool ran, and the
/// answer does not say that it may be run once more.
pub fn is_final(called: &CallReport) -> bool {
    match &called.result {
        Ok(_) => true,
        Err(error) => called.duration.is_some() && !may_repeat(error, called.entry.as_deref()),
    }
}

/// Whether a call that got lost on its way may be made again: nobody knows whether it took effect, so
/// only where the operator says that a second time is no harm.
pub fn may_repeat(error: &CallError, entry: Option<&Entry>) -> bool {
    let lost = match error {
        CallError::Upstream(error) => {
            matches!(error.kind, UpstreamErrorKind::Died | UpstreamErrorKind::Timeout)
        }
        _ => false,
    };
    lost && entry.is_some_and(is_repeatable)
}

/// Whether a second run of the tool is no harm, as the operator says.
pub fn is_repeatable(entry: &Entry) -> bool {
    let tool = &entry.tool;
    matches!(tool.safety_tier, SafetyTier::Pure | SafetyTier::Read)
        || matches!(
            tool.replay_policy,
            Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent)
        )
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    chrono::Duration::from_std(time).map_or(Timestamp::MAX_UTC, |time| {
        now.checked_add_signed(time).unwrap_or(Timestamp::MAX_UTC)
    })
}

/// Whether the tool asked for more instead of coming to an end.
fn asked(called: &CallReport) -> bool {
    use UpstreamErrorKind::{CapabilityRequired, InputRejected, InputRequired};
    match &called.result {
        Err(CallError::Upstream(error)) => {
            matches!(error.kind, InputRequired | CapabilityRequired | InputRejected)
        }
        _ => false,
    }
}

/// The call's task is gone, which only a fault of ours explains.
fn lost() -> Arc<CallReport> {
    Arc::new(CallReport {
        run_id: record::new_id(),
        call_id: record::new_id(),
        entry: None,
        result: Err(CallError::Internal),
        duration: None,
    })
}
