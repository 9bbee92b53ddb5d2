//! The gate: the one pipeline that every call passes, whatever surface it came by.
//!
//! Invariant (I-7): authorization is the decision that also makes lists.
//! Invariant (I-9, I-81): nothing whose cost depends on the arguments runs before the permit, and a name
//! that leads to no tool that the caller sees takes the same path whether or not there is such a tool.
//! Invariant (I-12): denied calls take nothing from the bucket, so limits come after authorization.
//! Invariant (I-18): nothing runs before its opening event is durable.
//! Invariant (I-22): from the opening event on, the call has a task of its own; a caller that hangs
//! up cancels it, and the closing event is still written.

use std::{any::Any, num::NonZeroU32, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcrib_core::{
    arguments::Violation,
    authorize::{CallContext, Denied, Permit},
    call::{CallError, CallerInput, Invocation, Outcome, ProgressSink},
    canonical::CanonicalError,
    catalog::Entry,
    descriptor::SourceKind,
    egress::EgressTrail,
    id::{AgentId, CallId, RunId},
    limit::{LimitError, LimitKey},
    principal::Principal,
};

use crate::{
    Gateway, Snapshot,
    approvals::CallInput,
    config::DeniedCalls,
    dispatch::{self, Execution},
    list::{CatalogScope, ToolRef},
    metrics::{Limit, Surface},
    miss,
    quota::QuotaError,
    record::{self, CallIdentity, Miss, MissedCall},
    session::InteractionGuard,
    workflow::StepContext,
};

/// One call as a surface understood it.
pub struct CallRequest<'a> {
    /// The surface, for metrics.
    pub surface: Surface,
    /// The tool.
    pub tool: ToolRef<'a>,
    /// Where the tool is looked for.
    pub within: CatalogScope,
    /// The arguments; anything but an object is a violation.
    pub arguments: Value,
    /// Where progress goes, when somebody listens.
    pub progress: Option<Arc<dyn ProgressSink>>,
    /// Members of the caller's `_meta` that may travel upstream.
    pub meta: Map<String, Value>,
    /// What a caller brings that can be asked for more; `None` is one that cannot.
    pub input: Option<CallerInput>,
    /// Whatever counts the memory that the request takes: dropped when the call has ended, also when
    /// the call outlives the request.
    pub charge: Option<Arc<dyn Any + Send + Sync>>,
}

impl<'a> CallRequest<'a> {
    /// A call without progress, of a caller that cannot be asked for more.
    pub fn new(surface: Surface, tool: ToolRef<'a>, arguments: Value) -> Self {
        Self {
            surface,
            tool,
            within: CatalogScope::default(),
            arguments,
            progress: None,
            meta: Map::new(),
            input: None,
            charge: None,
        }
    }
}

/// Where a call stands in the record.
pub(crate) struct Ids {
    /// The run that holds its events.
    pub(crate) run: RunId,
    /// Its identity in them, where it has one before it is made.
    pub(crate) call: Option<CallId>,
    /// What the request has been looked at in already (I-23).
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl From<RunId> for Ids {
    fn from(run: RunId) -> Self {
        Self { run, call: None, snapshot: None }
    }
}

/// A call that ended, well or not.
#[derive(Debug)]
pub struct CallReport {
    /// The run that holds its events.
    pub run_id: RunId,
    /// Its identity in those events.
    pub call_id: CallId,
    /// The tool, when there was one that the caller may know of.
    pub entry: Option<Arc<Entry>>,
    /// What it answered.
    pub result: Result<Outcome, CallError>,
    /// How long the tool ran; `None` when it never started.
    pub duration: Option<Duration>,
}

impl Gateway {
    /// Runs one call through the gate. Dropping the future cancels the call.
    pub async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.call_in(record::new_id::<RunId>(), None, principal, request, None).await
    }

    /// Runs one call in a run, as part of an interaction or alone, and as a step of a workflow
    /// or by itself.
    pub(crate) async fn call_in(
        &self,
        ids: impl Into<Ids>,
        bracket: Option<InteractionGuard>,
        principal: &Principal,
        request: CallRequest<'_>,
        part: Option<StepContext>,
    ) -> CallReport {
        let ids = ids.into();
        let call = part.as_ref().map(|part| part.call.clone()).or(ids.call);
        let surface = request.surface;
        let mut called = CallReport {
            run_id: ids.run,
            call_id: call.unwrap_or_else(record::new_id),
            entry: None,
            result: Err(CallError::Internal),
            duration: None,
        };
        let snapshot = ids.snapshot.unwrap_or_else(|| self.snapshot());
        called.result = self.pass(snapshot, bracket, principal, request, part, &mut called).await;
        let result = called.result.as_ref().map(|outcome| outcome.is_error);
        self.metrics().call(surface, result, called.duration);
        if let Err(CallError::Upstream(error)) = &called.result {
            let tool = called.entry.as_ref().map(|entry| entry.id.as_str());
            match error.ask {
                Some(_) => {
                    tracing::debug!(tool, call = %called.call_id, code = error.kind.code(), "the tool asks its caller")
                }
                None => {
                    tracing::warn!(tool, call = %called.call_id, code = error.kind.code(), detail = %error.detail, "tool call failed")
                }
            }
        }
        called
    }

    /// The nine steps.
    async fn pass(
        &self,
        snapshot: Arc<Snapshot>,
        bracket: Option<InteractionGuard>,
        principal: &Principal,
        request: CallRequest<'_>,
        part: Option<StepContext>,
        called: &mut CallReport,
    ) -> Result<Outcome, CallError> {
        // 1. resolve in what the caller sees; nothing else exists for it
        let cause = part.as_ref().map(|part| part.cause.clone());
        let (run, call) = (called.run_id.clone(), called.call_id.clone());
        let missed = MissedCall { run, call, cause: cause.clone() };
        let found = snapshot.find(principal, request.tool, &request.within, Some(missed));
        let entry = match found {
            Ok(entry) => entry,
            Err(miss) => return Err(self.miss(principal, miss)),
        };
        let call = CallIdentity {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            agent: AgentId::system(),
            run: called.run_id.clone(),
            call: called.call_id.clone(),
            args_hash: None,
            entry: Arc::clone(&entry),
            cause,
        };

        // 2. authorize
        let asked =
            CallContext { surface: request.surface.as_str(), arguments: &request.arguments };
        let generation = snapshot.catalog.generation();
        let permit = Permit::new(&snapshot.decider, principal, &entry, generation, asked);
        let permit = match permit {
            Ok(permit) => permit,
            Err(denied) => {
                let refusal = Refused { call, reason: Some(denied.reason()), bracket: None };
                let error = match denied {
                    Denied::Arguments => record::forbidden(&entry, &denied),
                    // Lists show the tool, so this authorizer decides calls by something else.
                    _ if snapshot.gate.denied_calls == DeniedCalls::Forbidden => {
                        record::forbidden(&entry, &denied)
                    }
                    _ => CallError::NoSuchTool,
                };
                return self.refuse(refusal, Some(&request.arguments), error).await;
            }
        };
        called.entry = Some(Arc::clone(&entry));
        let refused = |call| Refused { call, reason: None, bracket: bracket.as_ref() };

        // 3. limit, unless the call that asked for the grant of this one has paid for it
        let gate = match self.gate(principal, &entry, &request.arguments).await {
            Ok(gate) => gate,
            Err(error) => {
                return self.refuse(refused(call), Some(&request.arguments), error).await;
            }
        };
        if !gate.is_paid()
            && let Err(error) = self.limit(&call).await
        {
            return self.refuse(refused(call), Some(&request.arguments), error).await;
        }

        // 4. validate
        let hash = record::args_hash(&request.arguments);
        let call = CallIdentity { args_hash: hash.as_ref().ok().cloned(), ..call };
        let arguments = match checked(&entry, request.arguments, hash.err()) {
            Ok(arguments) => arguments,
            Err(violations) => {
                let error = CallError::InvalidArguments(violations);
                return self.refuse(refused(call), None, error).await;
            }
        };

        // 5. approve; who is over its quota is not asked for consent, and what waits for it is not counted
        let quotas = request.tool.quotas(&snapshot, principal, &entry);
        let counted = match gate.asks() {
            false => self.quotas().take(&quotas, true).await.map(Some),
            true => self.quotas().check(&quotas).await.map(|()| None),
        };
        let counted = match counted {
            Ok(counted) => counted,
            Err(error) => {
                let error = self.over_quota(&call, error);
                return self.refuse(refused(call), None, error).await;
            }
        };
        if let Some(bracket) = &bracket {
            bracket.open(&entry.id).await?;
        }
        let hang_up =
            bracket.as_ref().map_or_else(CancellationToken::new, InteractionGuard::hang_up);
        let parent = part.as_ref().map(|part| &part.parent);
        let sent = CallInput { surface: request.surface.as_str(), arguments: &arguments };
        let approved = self.approve(call, principal, gate, sent, parent, &hang_up).await;
        let call = match approved {
            Ok(call) => call,
            Err((call, error)) => return self.refuse(refused(call), None, error).await,
        };
        // A grant is spent, so this one runs even if others were faster.
        let counted = match counted {
            Some(counted) => counted,
            None => match self.quotas().take(&quotas, false).await {
                Ok(counted) => counted,
                Err(error) => {
                    let error = self.over_quota(&call, error);
                    return self.refuse(refused(call), None, error).await;
                }
            },
        };

        let invocation = Invocation {
            call_id: called.call_id.clone(),
            run_id: called.run_id.clone(),
            arguments,
            timeout: entry.timeout,
            max_result_bytes: snapshot.gate.max_result_bytes,
            progress: request.progress,
            meta: request.meta,
            egress: EgressTrail::default(),
            input: request.input,
        };
        let egress = invocation.egress.clone();
        // A call that waited for consent runs in the world as it is now.
        let now = self.snapshot();
        let source = request.tool.source(&now, &entry);
        let breaker = request.tool.breaker(&now, &entry);
        let running_at = entry.source.clone();
        let calls_others = entry.tool.source == SourceKind::Workflow;
        let gateway = self.clone();
        let cancelled = hang_up.clone();
        let charge = request.charge;
        let detached = self.running().spawn(async move {
            let _held_until_the_end = charge;
            // The interaction goes on until the closing event is stored.
            let _part_of_it = bracket;

            // 6. record that it starts, or do not start
            let id = call.call.clone();
            let started = gateway.record().started(call).await?;

            // 7. run; what calls others in turn ends after them
            let parent = part.as_ref().map(|part| part.parent.clone());
            let pauses = gateway.approval_gate().pauses();
            let deadline = pauses.deadline(calls_others.then_some(&id), parent.as_ref());
            let steps = calls_others.then(|| {
                gateway.runs().enter(&id, started.event().clone(), parent, cancelled.clone())
            });
            let _running = gateway.metrics().runs(&running_at);
            let ends = dispatch::StopConditions {
                deadline,
                cancelled: &cancelled,
                clock: gateway.clock(),
            };
            let ran = dispatch::run(source, breaker, &permit, invocation, ends).await;

            if ran.duration.is_some() {
                counted.keep();
            }
            if let Some(steps) = steps {
                steps.recorded().await;
            }
            if let Some(keep) = part.and_then(|part| part.keep) {
                keep.keep(&id, ran.result.as_ref()).await;
            }

            // 8. record how it ended
            gateway
                .record()
                .finished(started, ran.result.as_ref(), ran.duration, egress.take())
                .await;
            Ok(ran)
        });

        // 9. answer
        let _cancel_when_dropped: DropGuard = hang_up.drop_guard();
        match detached.await {
            Ok(Ok(Execution { result, duration })) => {
                called.duration = duration;
                result
            }
            Ok(Err(not_recorded)) => Err(not_recorded),
            Err(_panicked) => Err(CallError::Internal),
        }
    }

    /// Answers a name that leads to no tool that `principal` sees, and has it recorded.
    fn miss(&self, principal: &Principal, miss: Miss) -> CallError {
        let denied = miss.disclosed(principal);
        let error = match (&miss.entry, denied) {
            (Some(entry), Some(denied)) => record::forbidden(entry, &denied),
            _ => CallError::NoSuchTool,
        };
        self.record().missed(principal, record::CALL, miss);
        error
    }

    pub(crate) async fn limit(&self, call: &CallIdentity) -> Result<(), CallError> {
        let entry = &call.entry;
        let Some(rate) = entry.rate else { return Ok(()) };
        let key = LimitKey { tenant: &call.tenant, principal: &call.principal, tool: &entry.id };
        match self.limiter().take(key, rate).await {
            Ok(()) => Ok(()),
            Err(LimitError::Exceeded { retry_after }) => {
                self.metrics().refused(&entry.source, Limit::Rate);
                let (tool, limit) = (entry.id.clone(), NonZeroU32::get(rate.calls));
                Err(CallError::RateLimited { tool, retry_after, limit, daily: false })
            }
            Err(LimitError::Unavailable(error)) => {
                tracing::error!(%error, "a call was refused because it could not be limited");
                Err(CallError::NotAccountable("limited"))
            }
        }
    }

    fn over_quota(&self, call: &CallIdentity, error: QuotaError) -> CallError {
        let entry = &call.entry;
        match error {
            QuotaError::Exceeded { limit, retry_after } => {
                self.metrics().refused(&entry.source, Limit::Quota);
                CallError::RateLimited { tool: entry.id.clone(), retry_after, limit, daily: true }
            }
            QuotaError::Unavailable(error) => {
                tracing::error!(%error, "a call was refused because it could not be counted");
                CallError::NotAccountable("counted")
            }
        }
    }

    /// Gives `error` back, and records the call that does not start, unless its caller has been refused
    /// so often that this is only counted. `arguments` are those that have no hash yet.
    async fn refuse(
        &self,
        refused: Refused<'_>,
        arguments: Option<&Value>,
        error: CallError,
    ) -> Result<Outcome, CallError> {
        let Refused { mut call, reason, bracket } = refused;
        if matches!(error, CallError::NoSuchTool) {
            miss::note();
        }
        if !self.record().admits(&call, reason.unwrap_or(error.code())) {
            return Err(error);
        }
        if let Some(bracket) = bracket {
            bracket.open(&call.entry.id).await?;
        }
        if let Some(arguments) = arguments {
            call.args_hash = record::args_hash(arguments).ok();
        }
        self.record().refused(&call, &error, reason).await;
        Err(error)
    }
}

/// A call that is refused although its caller sees the tool.
struct Refused<'a> {
    call: CallIdentity,
    /// Why, where it is a denial.
    reason: Option<&'static str>,
    /// Its part in its interaction, if it belongs there.
    bracket: Option<&'a InteractionGuard>,
}

/// The arguments as an object that fits the schema and has a canonical form, or every violation.
fn checked(
    entry: &Entry,
    arguments: Value,
    inexact: Option<CanonicalError>,
) -> Result<Map<String, Value>, Vec<Violation>> {
    let mut violations = entry.arguments.check(&arguments).err().unwrap_or_default();
    if let Some(CanonicalError::IntegerOutOfRange { pointer }) = inexact {
        let message =
            "is an integer outside ±(2^53-1), which has no exact form; send it as a string";
        violations.push(Violation::new(&pointer, message, "type"));
    }
    match arguments {
        Value::Object(arguments) if violations.is_empty() => Ok(arguments),
        Value::Object(_) => Err(violations),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            if violations.is_empty() {
                let message = "the arguments must be a JSON object";
                violations.push(Violation::new("", message, "type"));
            }
            Err(violations)
        }
    }
}
