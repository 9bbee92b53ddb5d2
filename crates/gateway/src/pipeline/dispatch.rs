//! Runs one operation: with deadline, cancellation, size limit and caught panics.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{CallError, Invocation, Operation, Outcome, Reply, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    source::Source,
    text,
};

use crate::{approvals::pause::Deadline, breaker::Breaker};

/// The result of an admitted call.
pub(crate) struct Execution {
    /// The result of the tool, or the error.
    pub(crate) result: Result<Outcome, CallError>,
    /// How long the tool ran; `None` if it never started.
    pub(crate) duration: Option<Duration>,
    /// Time spent in the source, including failed attempts.
    pub(crate) invoked: Duration,
}

impl Execution {
    /// The result of a call that never started.
    pub(super) fn not_started(error: CallError) -> Self {
        Self { result: Err(error), duration: None, invoked: Duration::ZERO }
    }
}

/// The conditions that stop a call early.
pub(crate) struct StopConditions<'a> {
    /// Its deadline, which pauses while one of its steps waits for approval.
    pub(crate) deadline: Deadline<'a>,
    /// Fires when the caller disconnects.
    pub(crate) cancelled: &'a CancellationToken,
    pub(crate) clock: &'a dyn Clock,
}

/// The error of a call whose source is not running.
pub(super) fn not_running() -> CallError {
    let kind = UpstreamErrorKind::Unavailable;
    CallError::Upstream(UpstreamError::new(kind, "the source is not running"))
}

/// Runs `operation` at `source` until it finishes or one of the conditions stops it. Dropping the
/// source's future cancels the call at the upstream.
pub(crate) async fn run(
    source: Option<&dyn Source>,
    breaker: Option<&Arc<Breaker>>,
    permit: &Permit,
    operation: Operation,
    stop: StopConditions<'_>,
) -> Execution {
    let StopConditions { deadline, cancelled, clock } = stop;
    let Some(source) = source else {
        return Execution::not_started(not_running());
    };
    if cancelled.is_cancelled() {
        return Execution::not_started(CallError::Cancelled);
    }
    let breaker_guard =
        match breaker.map(|breaker| breaker.enter(permit.principal(), source)).transpose() {
            Ok(breaker_guard) => breaker_guard,
            Err(wait) => {
                let detail = "not sent: the source failed again and again";
                let error = UpstreamError::new(UpstreamErrorKind::Unavailable, detail);
                return Execution::not_started(CallError::Upstream(error.retry_after(wait)));
            }
        };
    let Invocation { timeout, max_result_bytes: max_bytes, .. } = *operation.invocation();
    let started = clock.monotonic_nanos();
    let served = std::panic::AssertUnwindSafe(source.serve(permit, operation)).catch_unwind();
    let result = tokio::select! {
        biased;
        () = cancelled.cancelled() => Err(CallError::Cancelled),
        served = deadline.with_timeout(timeout, served) => match served {
            Some(Ok(Ok(Reply::Done(outcome)))) => {
                outcome.check_size(max_bytes).map(|()| outcome).map_err(CallError::Upstream)
            }
            Some(Ok(Ok(Reply::NeedsInput(question)))) => {
                Err(CallError::NeedsInput(Box::new(question)))
            }
            Some(Ok(Err(error))) => Err(CallError::Upstream(error)),
            Some(Err(_panic)) => Err(CallError::Internal),
            None => Err(CallError::Upstream(UpstreamError::new(
                UpstreamErrorKind::Timeout,
                format!("no answer within {}", text::duration(timeout)),
            ))),
        },
    };
    if let Some(breaker_guard) = breaker_guard {
        breaker_guard.end(result.as_ref());
    }
    let ran = Duration::from_nanos(clock.monotonic_nanos().saturating_sub(started));
    let never_started = matches!(&result, Err(CallError::Upstream(error)) if !error.kind.started());
    Execution { result, duration: (!never_started).then_some(ran), invoked: ran }
}
