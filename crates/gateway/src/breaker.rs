//! Circuit breakers: after repeated failures of a source, its calls fail immediately for a while
//! instead of waiting in vain.
//!
//! Invariant (I-74): failures that may be due to the arguments of one caller block the source only
//! for that caller; `circuit` has the rules.

mod circuit;
use std::{
    hash::{BuildHasher as _, RandomState},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use toolcrib_config::BreakerConfig;
use toolcrib_core::{
    call::{CallError, Outcome, UpstreamErrorKind},
    clock::{Clock, Timestamp},
    id::{SourceId, TenantId},
    principal::{Principal, PrincipalKey},
    source::{Source, SourceState},
};

use self::circuit::{Admission, Changes, Circuit, State, Terms, Verdict};
use crate::{
    metrics::{Limit, Metrics},
    source_report::{BreakerReport, BreakerState},
};

/// The longest time that a source can require without calls.
const MAX_WAIT: Duration = Duration::from_secs(10 * 60);

/// The breaker of one source.
pub(crate) struct Breaker {
    source: SourceId,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    hasher: RandomState,
    inner: Mutex<Inner>,
    callers: Mutex<Callers>,
}

/// Whether calls of one or of several tenants were admitted, since the source was built.
#[derive(Debug, Default)]
enum Callers {
    #[default]
    Nobody,
    Tenant(TenantId),
    Several,
}

struct Inner {
    config: Option<BreakerConfig>,
    circuit: Circuit,
    /// The last time it opened, and how often it has.
    opened_at: Option<Timestamp>,
    opened: u64,
}

/// An admitted call. If it is dropped without a result, it has no effect on the breaker.
pub(crate) struct BreakerGuard {
    breaker: Arc<Breaker>,
    caller: PrincipalKey,
    entered: Option<Admission>,
}

fn terms(config: &BreakerConfig) -> Terms {
    let BreakerConfig { failures, window, open, .. } = *config;
    Terms { failures, window: nanos(window), open: nanos(open) }
}

impl Breaker {
    pub(crate) fn new(
        source: SourceId,
        config: Option<BreakerConfig>,
        clock: Arc<dyn Clock>,
        metrics: Arc<Metrics>,
    ) -> Arc<Self> {
        metrics.breaker(&source, BreakerState::Closed, false);
        metrics.begin(&source);
        let circuit = Circuit::new();
        let inner = Mutex::new(Inner { config, circuit, opened_at: None, opened: 0 });
        let callers = Mutex::default();
        Arc::new(Self { source, clock, metrics, hasher: RandomState::new(), inner, callers })
    }

    /// Whether a tenant other than `tenant` has called the source since it was built.
    pub(crate) fn serves_others(&self, tenant: &TenantId) -> bool {
        match &*self.callers.lock() {
            Callers::Nobody => false,
            Callers::Tenant(only) => only != tenant,
            Callers::Several => true,
        }
    }

    fn note_caller(&self, tenant: &TenantId) {
        let mut callers = self.callers.lock();
        match &*callers {
            Callers::Nobody => *callers = Callers::Tenant(tenant.clone()),
            Callers::Tenant(only) if only != tenant => *callers = Callers::Several,
            Callers::Tenant(_) | Callers::Several => {}
        }
    }

    /// Applies other settings; a change resets the breaker to closed.
    pub(crate) fn configure(&self, config: Option<BreakerConfig>) {
        let mut inner = self.inner.lock();
        if inner.config != config {
            inner.config = config;
            inner.circuit = Circuit::new();
            self.metrics.breaker(&self.source, BreakerState::Closed, false);
        }
    }

    /// Admits a call of `source`, or returns the time to wait.
    pub(crate) fn enter(
        self: &Arc<Self>,
        caller: &Principal,
        source: &dyn Source,
    ) -> Result<BreakerGuard, Duration> {
        self.note_caller(&caller.tenant);
        let mut inner = self.inner.lock();
        let id = PrincipalKey::of(caller);
        let Some(config) = inner.config else {
            return Ok(BreakerGuard { breaker: Arc::clone(self), caller: id, entered: None });
        };
        let now = self.clock.monotonic_nanos();
        if let (State::Open(until), Some(opened)) = (inner.circuit.shared(), inner.opened_at)
            && until > now
        {
            let status = source.status();
            if status.state == SourceState::Ready && status.since > opened {
                inner.circuit.came_back(now);
            }
        }
        let who = self.hasher.hash_one((&caller.tenant, &caller.id));
        let before = inner.circuit.shared();
        let entered = inner.circuit.enter(who, now, terms(&config)).map_err(|wait| {
            self.metrics.refused(&self.source, Limit::Breaker);
            Duration::from_nanos(wait)
        })?;
        let after = inner.circuit.shared();
        if after != before {
            self.tell(&mut inner, after);
        }
        Ok(BreakerGuard { breaker: Arc::clone(self), caller: id, entered: Some(entered) })
    }

    pub(crate) fn report(&self) -> BreakerReport {
        let inner = self.inner.lock();
        let now = self.clock.monotonic_nanos();
        let shared = inner.circuit.shared();
        let wait = match shared {
            State::Open(until) => Some(until.saturating_sub(now)),
            State::Closed | State::Probing(_) => None,
        };
        BreakerReport {
            state: if inner.config.is_some() { state(shared) } else { BreakerState::Off },
            failures: inner.circuit.failures(),
            opened: inner.opened,
            open_to_callers: inner.circuit.callers_open(),
            retry_after_ms: wait.map(|wait| wait.div_ceil(1_000_000)),
        }
    }

    /// `wait` is the `Retry-After` of the source.
    fn leave(
        &self,
        caller: &PrincipalKey,
        entered: Admission,
        verdict: Verdict,
        wait: Option<Duration>,
    ) {
        let mut inner = self.inner.lock();
        let Some(config) = inner.config else { return };
        let now = self.clock.monotonic_nanos();
        let mut terms = terms(&config);
        terms.open = terms.open.max(wait.map_or(0, |wait| nanos(wait.min(MAX_WAIT))));
        let Changes { shared, caller: own } = inner.circuit.leave(entered, verdict, now, terms);
        if let Some(shared) = shared {
            self.tell(&mut inner, shared);
        }
        match own {
            Some(true) => {
                tracing::warn!(source = %self.source, tenant = %caller.tenant, principal = %caller.principal, "calls of this principal are not sent to the source for a while: they failed again and again");
            }
            Some(false) => {
                tracing::info!(source = %self.source, tenant = %caller.tenant, principal = %caller.principal, "calls of this principal are sent to the source again");
            }
            None => {}
        }
    }

    /// Reports that the circuit of all callers is now `shared`.
    fn tell(&self, inner: &mut Inner, shared: State) {
        let source = &self.source;
        let mut opened = false;
        match shared {
            // The probe had no verdict; the next call is a probe.
            State::Open(until) if until <= self.clock.monotonic_nanos() => {}
            State::Open(_) => {
                opened = true;
                inner.opened_at = Some(self.clock.now());
                inner.opened += 1;
                tracing::warn!(%source, "calls are not sent to the source for a while: it failed again and again");
            }
            State::Probing(_) => {
                tracing::info!(%source, "one call is sent to the source to see whether it is back");
            }
            State::Closed => tracing::info!(%source, "calls are sent to the source again"),
        }
        self.metrics.breaker(source, state(shared), opened);
    }
}

impl BreakerGuard {
    /// Reports `result` as the result of the call.
    pub(crate) fn end(mut self, result: Result<&Outcome, &CallError>) {
        if let Some(entered) = self.entered.take() {
            let wait = result.ok().and_then(|outcome| outcome.retry_after);
            self.breaker.leave(&self.caller, entered, verdict(result), wait);
        }
    }
}

impl Drop for BreakerGuard {
    fn drop(&mut self) {
        if let Some(entered) = self.entered.take() {
            self.breaker.leave(&self.caller, entered, Verdict::Silent, None);
        }
    }
}

/// The meaning of `result` for the state of the source. A failure that the tool reports, a cancelled call
/// and a call that was not sent because of a credential or the egress guard do not count against it.
fn verdict(result: Result<&Outcome, &CallError>) -> Verdict {
    use UpstreamErrorKind as Kind;
    match result {
        // It rejected the call, and said when to retry.
        Ok(Outcome { retry_after: Some(_), .. }) => Verdict::Fails,
        Ok(_) | Err(CallError::NeedsInput(_)) => Verdict::Answers,
        Err(CallError::Upstream(error)) => match error.kind {
            Kind::Unavailable => Verdict::Away,
            Kind::Died | Kind::Timeout | Kind::Protocol => Verdict::Fails,
            Kind::Refused
            | Kind::TooLarge
            | Kind::RedirectRefused
            | Kind::InputRequired
            | Kind::CapabilityRequired => Verdict::Answers,
            Kind::Changed | Kind::Credential(_) | Kind::EgressRefused | Kind::Interrupted => {
                Verdict::Silent
            }
        },
        Err(_) => Verdict::Silent,
    }
}

fn state(shared: State) -> BreakerState {
    match shared {
        State::Closed => BreakerState::Closed,
        State::Open(_) => BreakerState::Open,
        State::Probing(_) => BreakerState::HalfOpen,
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
