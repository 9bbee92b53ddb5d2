//! Calls that name themselves run once: whoever sends the same call under the same key again gets
//! the first one's answer.
//!
//! * A key belongs to a (tenant, principal) and to a *space*, which is the surface's word for what
//!   its kept answers look like. Nobody else's calls, answers or mistakes are reached with it.
//! * Equal calls at the same time run once and all get the answer. A caller that hangs up, the first
//!   one included, ends nothing: a call under a key goes on to its end or its deadline, because a
//!   caller that named its call may come back for the answer. (A call without a key ends with its
//!   caller, I-22.)
//! * What ran is kept for [`KEPT_FOR`], in memory only, and within bounds: a principal that needs room
//!   loses its own oldest answers, and nobody loses anything to somebody who holds more.
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
    call::{CallError, UpstreamErrorKind},
    canonical::{self, Digest},
    id::{RunId, ToolId},
    principal::Principal,
};

use self::table::{Busy, Found, Holder, Limits, Table};
use crate::{
    Gateway,
    call::{CallRequest, Called},
    list::ToolRef,
    record,
};

/// How long an answer is kept.
pub const KEPT_FOR: Duration = Duration::from_secs(24 * 60 * 60);

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
    Called(Arc<Called>),
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
}

/// Calls under keys that run, and answers that are kept.
pub(crate) struct Idempotency(Mutex<Table<Waiting>>);

/// Where those who wait for a running call are told what came of it.
type Waiting = watch::Receiver<Option<Arc<Called>>>;

impl Default for Idempotency {
    fn default() -> Self {
        Self(Mutex::new(Table::new(Limits::default())))
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
        keep: impl FnOnce(&Called) -> Option<Bytes> + Send + 'static,
    ) -> Result<Once, OnceError> {
        if key.text.is_empty() || key.text.len() > MAX_KEY {
            return Err(OnceError::Unusable);
        }
        let Some((tool, fingerprint)) = self.identify(principal, &request) else {
            // The pipeline says why, and records it.
            return Ok(Once::Called(Arc::new(self.call(principal, request).await)));
        };
        let holder: Holder = (principal.tenant.clone(), principal.id.clone());
        let key = format!("{}:{}", key.space, key.text);
        let mut waiting = match self.take(&holder, &key, fingerprint)? {
            Taken::Kept(kept) => return Ok(Once::Kept(kept)),
            Taken::Running(waiting) => waiting,
            Taken::Free(tell, waiting) => {
                let ticket = Ticket { gateway: self.clone(), holder, key };
                let CallRequest { surface, within, arguments, progress, meta, input, tool: _ } =
                    request;
                let principal = Arc::clone(principal);
                let gateway = self.clone();
                self.running().spawn(async move {
                    let tool = ToolRef::Id(tool.as_str());
                    let request =
                        CallRequest { surface, tool, within, arguments, progress, meta, input };
                    let call = gateway.call(&principal, request);
                    let called = tokio::select! {
                        called = call => Arc::new(called),
                        // Ending the gateway is hanging up for everybody.
                        () = gateway.ended().cancelled() => return,
                    };
                    // Who is asked for more has no answer yet that could be repeated.
                    let body = if asked(&called) { None } else { keep(&called) };
                    // First the table, then those who wait: whoever has an answer finds it kept.
                    ticket.end(body.map(|body| Kept { body, run_id: called.run_id.clone() }));
                    tell.send_replace(Some(called));
                });
                waiting
            }
        };
        let called = waiting.wait_for(Option::is_some).await.ok().and_then(|called| called.clone());
        Ok(Once::Called(called.unwrap_or_else(lost)))
    }

    /// What is asked for, if the caller may have it and it can be told from anything else. Tools of
    /// the test seams have no name that lasts.
    fn identify(&self, who: &Principal, request: &CallRequest<'_>) -> Option<(ToolId, Digest)> {
        if matches!(request.tool, ToolRef::Probe(_)) {
            return None;
        }
        let snapshot = self.snapshot();
        let entry = request.tool.resolve(&snapshot.catalog)?;
        self.authorizer().authorize(who.subject(), entry).ok()?;
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
        Some((entry.id.clone(), Digest::of(&bytes)))
    }

    fn take(&self, holder: &Holder, key: &str, call: Digest) -> Result<Taken, OnceError> {
        let now = self.clock().monotonic_nanos();
        let mut table = self.idempotency().0.lock();
        match table.find(holder, key, call, now) {
            Found::Kept(kept) => Ok(Taken::Kept(kept)),
            Found::Running(waiting) => Ok(Taken::Running(waiting)),
            Found::OtherCall => Err(OnceError::Conflict),
            Found::Spent => Err(OnceError::Spent),
            Found::Nothing => {
                let (tell, waiting) = watch::channel(None);
                match table.begin(holder, key, call, waiting.clone()) {
                    Ok(()) => Ok(Taken::Free(tell, waiting)),
                    Err(Busy) => Err(OnceError::Busy),
                }
            }
        }
    }
}

/// What a key leads to.
enum Taken {
    Kept(Kept),
    Running(Waiting),
    Free(watch::Sender<Option<Arc<Called>>>, Waiting),
}

/// The place of a running call in the table. Dropped without an end, the key is free again.
struct Ticket {
    gateway: Gateway,
    holder: Holder,
    key: String,
}

impl Ticket {
    fn end(self, kept: Option<Kept>) {
        if let Some(kept) = kept {
            let now = self.gateway.clock().monotonic_nanos();
            self.gateway.idempotency().0.lock().keep(&self.holder, &self.key, kept, now);
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.gateway.idempotency().0.lock().release(&self.holder, &self.key);
    }
}

/// Whether the tool asked for more instead of coming to an end.
fn asked(called: &Called) -> bool {
    use UpstreamErrorKind::{CapabilityRequired, InputRejected, InputRequired};
    match &called.result {
        Err(CallError::Upstream(error)) => {
            matches!(error.kind, InputRequired | CapabilityRequired | InputRejected)
        }
        _ => false,
    }
}

/// The call's task is gone, which only a fault of ours explains.
fn lost() -> Arc<Called> {
    Arc::new(Called {
        run_id: record::new_id(),
        call_id: record::new_id(),
        entry: None,
        result: Err(CallError::Internal),
        duration: None,
    })
}
