//! The nine steps of a call.
//!
//! Invariant (I-7): calls are authorized by the decision that also makes lists.
//! Invariant (I-9, I-81): work whose cost depends on the arguments starts only after the permit, and
//! a name without a visible tool takes the same path whether or not the tool exists.
//! Invariant (I-12): denied calls take no token: limits come after authorization.
//! Invariant (I-18): a call starts only after its opening event is durable.
//! Invariant (I-22): after the opening event, the call runs to its end. A caller that disconnects
//! cancels it, and the closing event is still written.
//! Invariant (I-23): every step uses the snapshot of the request. Only a call after a wait for
//! approval continues in the snapshot of its second authorization.
//! Invariant (I-111): a call recorded as interrupted by another server never reports success, and a
//! call that starts late, as after a pause of the process, is authorized again.
//! Invariant (I-94): spans observe the steps, and never delay one.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcrib_core::{
    arguments::Violation,
    authorize::{CallContext, Denied},
    call::{
        CallError, CallInput, Invocation, Operation, ProgressSink, UpstreamError, UpstreamErrorKind,
    },
    catalog::{Entry, Permit},
    descriptor::SourceKind,
    egress::EgressTrail,
    id::{AgentId, CallId, RunId},
    offer::OfferKind,
    principal::Principal,
    trace::TraceContext,
};

use super::{
    CallReport, CallRequest, Pipeline,
    dispatch::{self, Execution, StopConditions},
    session::InteractionGuard,
    target::Target,
};
use crate::{
    answer_time,
    approvals::{Approvals, wait::SurfaceInput},
    audit::{self, CallIdentity, MissedCall, RecordedEnd},
    background::Services,
    config::DeniedCalls,
    freshness::MAX_UNCONFIRMED,
    ids::new_id,
    input_forms::{InputForms, SourceInput},
    limits::quota::QuotaCharge,
    live_runs::{CallEnd, StepContext},
    metrics::{FinishedCall, Surface},
    reauthorize::reauthorize,
    snapshot::{Miss, Snapshot},
    tool_ref::{CatalogScope, ToolRef},
    trace::{self, CallSpan, TaskContext, Tracer},
};

/// A call on its way through the pipeline, without the name of its tool.
pub(super) struct Call {
    pub(super) run: RunId,
    pub(super) id: CallId,
    pub(super) surface: Surface,
    pub(super) input: InputForms,
    pub(super) progress: Option<Arc<dyn ProgressSink>>,
    pub(super) charge: Option<Arc<dyn Any + Send + Sync>>,
    /// The interaction that it belongs to.
    pub(super) guard: Option<InteractionGuard>,
    /// Its step, if it is part of a workflow.
    pub(super) step: Option<StepContext>,
    /// Its start, in monotonic nanoseconds.
    began: u64,
    /// How long it has waited for an approval, in nanoseconds.
    waited: AtomicU64,
    pub(super) span: CallSpan,
}

/// The offer that a call names.
pub(super) struct NamedOffer<'a> {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) kind: OfferKind,
    pub(super) tool: ToolRef<'a>,
    pub(super) scope: CatalogScope,
}

/// A call that its caller may make (after steps 1 and 2).
pub(super) struct AuthorizedCall {
    pub(super) target: Target,
    permit: Permit,
    identity: CallIdentity,
}

/// A call that may start (after steps 1 to 5).
struct AdmittedCall {
    /// The target, in the snapshot in which the call runs.
    target: Target,
    /// The quotas that count it; released unless the call starts.
    counted: QuotaCharge,
    /// Whether it uses a grant.
    is_granted: bool,
    hang_up: CancellationToken,
}

impl Pipeline {
    /// Makes one call. Dropping the future cancels it.
    pub(crate) async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.call_in(new_id(), None, principal, request, None).await
    }

    /// Makes one call in `run`, possibly in an interaction, possibly as a step of a workflow.
    pub(crate) async fn call_in(
        &self,
        run: RunId,
        guard: Option<InteractionGuard>,
        principal: &Principal,
        request: CallRequest<'_>,
        step: Option<StepContext>,
    ) -> CallReport {
        let began = self.services.clock.monotonic_nanos();
        let (wanted, call) = Call::new(&self.services.tracer, run, guard, request, step, began);
        match self.authorize(principal, wanted, &call).await {
            Ok(authorized) => self.proceed(principal, authorized, call).await,
            Err(error) => self.refused(principal, &call, error),
        }
    }

    /// Steps 1 and 2: resolves the tool among those visible to the caller, and authorizes the call.
    pub(super) async fn authorize(
        &self,
        principal: &Principal,
        wanted: NamedOffer<'_>,
        call: &Call,
    ) -> Result<AuthorizedCall, CallError> {
        let NamedOffer { snapshot, kind, tool, scope } = wanted;
        let span = call.span.begin_step("toolcrib.authorize");
        // 1. resolve
        let target = match Target::resolve(snapshot, kind, principal, tool, &scope) {
            Ok(target) => target,
            Err(miss) => return Err(self.miss(principal, miss, call)),
        };
        // 2. authorize
        let identity = call.identity(principal, &target.entry);
        let context = CallContext { surface: call.surface.as_str(), input: call.input.sent() };
        let snapshot = &target.snapshot;
        let generation = snapshot.catalog.generation();
        match Permit::new(&snapshot.decider, principal, &target.entry, generation, context) {
            Ok(permit) => {
                call.span.name(&target.entry);
                Ok(AuthorizedCall { target, permit, identity })
            }
            Err(denied) => {
                let error = match denied {
                    // Lists show the tool, so this denial reveals no secret.
                    Denied::Arguments => audit::forbidden(&target.entry, &denied),
                    _ if snapshot.gate.denied_calls == DeniedCalls::Forbidden => {
                        audit::forbidden(&target.entry, &denied)
                    }
                    _ => CallError::NoSuchTool,
                };
                span.fail(error.code());
                drop(span);
                Err(self.refuse(identity, call, Some(&denied), error).await)
            }
        }
    }

    /// Runs an authorized call through steps 3 to 9.
    pub(super) async fn proceed(
        &self,
        principal: &Principal,
        authorized: AuthorizedCall,
        call: Call,
    ) -> CallReport {
        let AuthorizedCall { target, permit, mut identity } = authorized;
        let entry = Some(Arc::clone(&target.entry));
        let (run, id, surface) = (call.run.clone(), call.id.clone(), call.surface);
        let span = call.span.clone();
        let began = call.began;
        let (waited, execution) = match self.admit(principal, target, &mut identity, &call).await {
            Ok(admitted) => {
                let waited = call.waited.load(Ordering::Relaxed);
                (waited, self.run(admitted, permit, identity, call).await)
            }
            Err(error) => {
                let error = self.refuse(identity, &call, None, error).await;
                (0, Execution::not_started(error))
            }
        };
        if execution.duration.is_some() {
            let took = self.services.clock.monotonic_nanos().saturating_sub(began);
            let gate = Duration::from_nanos(took.saturating_sub(waited));
            self.services.metrics.gate(gate.saturating_sub(execution.invoked));
        }
        span.end(&execution.result);
        self.finished(principal, run, id, surface, entry, execution)
    }

    /// Steps 3 to 5: limits, validation and approval. Adds the hash of the arguments and the event that
    /// approved the call to its identity.
    async fn admit(
        &self,
        principal: &Principal,
        mut target: Target,
        identity: &mut CallIdentity,
        call: &Call,
    ) -> Result<AdmittedCall, CallError> {
        // 3. limit, unless the token was taken when the approval was requested
        let gate = self.approvals.gate(principal, &target.entry, &call.input).await?;
        if !gate.is_paid() {
            let step = call.span.begin_step("toolcrib.limit");
            step.close(self.limits.take(identity).await)?;
        }
        // 4. validate
        identity.args_hash = Some(self.hash(&call.input));
        let step = call.span.begin_step("toolcrib.validate");
        prepare_check(&target.entry).await;
        let checked = validate(&target.entry, call.input.arguments());
        step.close(checked.map_err(CallError::InvalidArguments))?;
        // 5. approve; a call over its quota requests no approval, and a waiting call is not counted
        let counted = match gate.requires_approval() {
            false => Some(self.quotas.count(&target.entry, &target.quotas, false).await?),
            true => {
                self.quotas.check_call(&target.entry, &target.quotas).await?;
                None
            }
        };
        if let Some(guard) = &call.guard {
            guard.open(&target.entry.id).await?;
        }
        let hang_up =
            call.guard.as_ref().map_or_else(CancellationToken::new, InteractionGuard::hang_up);
        let parent = call.step.as_ref().map(|step| &step.parent);
        let input = SurfaceInput { surface: call.surface.as_str(), input: &call.input };
        let clock = &self.services.clock;
        let is_granted = gate.requires_approval();
        let asked = is_granted.then(|| clock.monotonic_nanos());
        let approved = self.approvals.approve(identity, principal, gate, input, parent, &hang_up);
        let approved = match asked {
            Some(_) => {
                let step = call.span.begin_step("toolcrib.approve");
                step.close(Box::pin(approved).await)?
            }
            None => approved.await?,
        };
        if let Some(asked) = asked {
            let waited = clock.monotonic_nanos().saturating_sub(asked);
            call.waited.store(waited, Ordering::Relaxed);
        }
        if let Some(snapshot) = approved {
            target = target.reloaded(snapshot, principal);
        }
        let counted = match counted {
            Some(counted) => counted,
            // The grant is spent, so the call is counted even over the quota.
            None => self.quotas.count(&target.entry, &target.quotas, true).await?,
        };
        Ok(AdmittedCall { target, counted, is_granted, hang_up })
    }

    /// Steps 6 to 9: record, run, record, respond.
    async fn run(
        &self,
        admitted: AdmittedCall,
        permit: Permit,
        identity: CallIdentity,
        call: Call,
    ) -> Execution {
        let AdmittedCall { target, counted, is_granted, hang_up } = admitted;
        let authorized_at = call.began.saturating_add(call.waited.load(Ordering::Relaxed));
        let Call { input, surface, progress, charge, guard, step, span, .. } = call;
        let SourceInput { arguments, caller, mut meta } = input.into_source();
        let attempt = span.attempt(&target.entry);
        let mut context = attempt.context().cloned();
        if is_granted {
            // Approvers do not see the rest of the trace metadata, such as `baggage` (I-102).
            meta.clear();
            context = context.map(TraceContext::without_state);
        }
        TraceContext::write_meta(context.as_ref(), &mut meta);
        let invocation = Invocation {
            call_id: identity.call.clone(),
            run_id: identity.run.clone(),
            arguments,
            timeout: target.entry.timeout,
            max_result_bytes: target.snapshot.gate.max_result_bytes,
            progress,
            meta,
            egress: EgressTrail::within(context),
            input: caller,
        };
        let egress = invocation.egress.clone();
        let operation = Operation::on(&target.entry.offer, invocation);
        let is_workflow = target.entry.tool.source == SourceKind::Workflow;
        let runnable =
            target.snapshot.workflows.get(&target.entry).filter(|_| is_workflow).cloned();
        let Target { snapshot, entry, source, breaker, .. } = target;
        // A long call must not keep the sources of an old snapshot open.
        drop(snapshot);
        let (audit, approvals) = (Arc::clone(&self.audit), Arc::clone(&self.approvals));
        let (runs, services) = (Arc::clone(&self.runs), self.services.clone());
        let cancelled = hang_up.clone();
        let completing = self.services.background.complete(async move {
            let _until_the_end = (charge, guard);
            // 6. record the start, or do not start
            let id = identity.call.clone();
            let recording = span.begin_step("toolcrib.record");
            let started = recording.close(audit.started(identity).await)?;
            let since = services.clock.monotonic_nanos().saturating_sub(authorized_at);
            if Duration::from_nanos(since) > MAX_UNCONFIRMED {
                let late = LateCall { services: &services, approvals: &approvals, surface };
                let call = operation.invocation();
                let input = CallInput {
                    arguments: Value::Object(call.arguments.clone()),
                    caller: call.input.clone(),
                    meta: call.meta.clone(),
                };
                if let Err(error) = late.check(permit.principal(), &entry, &input).await {
                    audit.finished(started, Err(&error), None, Vec::new()).await;
                    return Ok(Execution::not_started(error));
                }
            }

            // 7. run; a workflow finishes after its steps
            let parent = step.as_ref().map(|step| step.parent.clone());
            let deadline = approvals.pauses().deadline(is_workflow.then_some(&id), parent.as_ref());
            let steps = is_workflow.then(|| {
                runs.enter(&id, started.event().clone(), parent, cancelled.clone(), runnable)
            });
            let _running = services.metrics.runs(&entry.source);
            let stop = StopConditions { deadline, cancelled: &cancelled, clock: &*services.clock };
            let running = dispatch::run(source, breaker, &permit, operation, stop);
            let mut execution = match attempt.leads_elsewhere() {
                true => attempt.run(Box::pin(running)).await,
                false => running.await,
            };
            attempt.end(&execution.result);
            drop(attempt);
            if execution.duration.is_some() {
                counted.keep();
            }
            let end = match steps {
                Some(steps) => steps.recorded().await,
                None => CallEnd::Ended,
            };
            if end == CallEnd::Continues {
                return Ok(execution);
            }
            if let Some(keep) = step.and_then(|step| step.keep) {
                keep.keep(&id, execution.result.as_ref()).await;
            }

            // 8. record the result
            let result = execution.result.as_ref();
            let recording = span.begin_step("toolcrib.record");
            let end = audit.finished(started, result, execution.duration, egress.take()).await;
            drop(recording);
            if end == RecordedEnd::ClosedByAnother {
                execution.result = Err(interrupted());
            }
            span.end(&execution.result);
            Ok(execution)
        });

        // 9. respond
        let _cancel_when_dropped: DropGuard = hang_up.drop_guard();
        match completing.await {
            Ok(Ok(execution)) => execution,
            Ok(Err(not_recorded)) => Execution::not_started(not_recorded),
            Err(_panicked) => Execution::not_started(CallError::Internal),
        }
    }

    /// The hash of the arguments of `input` for the record.
    fn hash(&self, input: &InputForms) -> String {
        input.hash(&self.services.arguments_hash).to_owned()
    }

    /// The report of a call refused in steps 1 and 2.
    pub(super) fn refused(
        &self,
        principal: &Principal,
        call: &Call,
        error: CallError,
    ) -> CallReport {
        let execution = Execution::not_started(error);
        call.span.end(&execution.result);
        self.finished(principal, call.run.clone(), call.id.clone(), call.surface, None, execution)
    }

    /// Counts and logs a completed call.
    fn finished(
        &self,
        principal: &Principal,
        run_id: RunId,
        call_id: CallId,
        surface: Surface,
        entry: Option<Arc<Entry>>,
        execution: Execution,
    ) -> CallReport {
        let Execution { result, duration, .. } = execution;
        self.services.metrics.call(&FinishedCall {
            surface,
            principal,
            entry: entry.as_deref(),
            result: result.as_ref().map(|outcome| outcome.is_error),
            ran: duration,
            run: &run_id,
            now: self.services.clock.monotonic_nanos(),
        });
        let tool = entry.as_ref().map(|entry| entry.id.as_str());
        match &result {
            Err(CallError::NeedsInput(question)) => {
                let code = question.code();
                tracing::debug!(tool, call = %call_id, code, "the tool requests input from its caller");
            }
            Err(CallError::Upstream(error)) => {
                let code = error.kind.code();
                tracing::warn!(tool, call = %call_id, code, detail = %error.detail, "tool call failed");
            }
            _ => {}
        }
        CallReport { run_id, call_id, entry, result, duration }
    }

    /// Records a call of a name without a tool that `principal` may use. Returns its error.
    fn miss(&self, principal: &Principal, miss: Miss, call: &Call) -> CallError {
        let denied = miss.disclosed(principal);
        let error = match (&miss.entry, denied) {
            (Some(entry), Some(denied)) => audit::forbidden(entry, &denied),
            _ => CallError::NoSuchTool,
        };
        let cause = call.step.as_ref().map(|step| step.cause.clone());
        let missed = MissedCall { run: call.run.clone(), call: call.id.clone(), cause };
        self.audit.denials().missed(principal, audit::CALL, miss, Some(missed));
        error
    }

    /// Records a refused call, or only counts it after too many refusals of its caller. Returns its
    /// error.
    async fn refuse(
        &self,
        mut identity: CallIdentity,
        call: &Call,
        denied: Option<&Denied>,
        error: CallError,
    ) -> CallError {
        if matches!(error, CallError::NoSuchTool) {
            answer_time::note();
        }
        if !self.audit.denials().admits(&identity, denied.map_or(error.code(), Denied::reason)) {
            return error;
        }
        if let Some(guard) = &call.guard
            && let Err(error) = guard.open(&identity.entry.id).await
        {
            return error;
        }
        identity.args_hash = Some(self.hash(&call.input));
        self.audit.refused(&identity, &error, denied).await;
        error
    }
}

// === impl Call ===

impl Call {
    /// Separates the name of the tool from the rest of a request.
    pub(super) fn new<'a>(
        tracer: &Tracer,
        run: RunId,
        guard: Option<InteractionGuard>,
        request: CallRequest<'a>,
        step: Option<StepContext>,
        began: u64,
    ) -> (NamedOffer<'a>, Self) {
        let CallRequest { snapshot, surface, kind, tool, scope, input, progress, charge } = request;
        let id = step.as_ref().map_or_else(new_id, |step| step.call.clone());
        trace::note_run(&run);
        let parent = TaskContext::current_trace();
        let parent = parent.or_else(|| Some(tracer.join(TraceContext::from_meta(&input.meta)?)));
        let span = CallSpan::begin(tracer, parent, surface);
        span.set("toolcrib.run", &run);
        span.set("gen_ai.tool.call.id", &id);
        let call = Self {
            run,
            id,
            surface,
            input: input.into(),
            progress,
            charge,
            guard,
            step,
            began,
            waited: AtomicU64::new(0),
            span,
        };
        (NamedOffer { snapshot, kind, tool, scope }, call)
    }

    fn identity(&self, principal: &Principal, entry: &Arc<Entry>) -> CallIdentity {
        self.span.set("toolcrib.tenant", &principal.tenant);
        self.span.set("toolcrib.principal", &principal.id);
        CallIdentity {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            agent: AgentId::system(),
            run: self.run.clone(),
            call: self.id.clone(),
            args_hash: None,
            entry: Arc::clone(entry),
            cause: self.step.as_ref().map(|step| step.cause.clone()),
        }
    }
}

/// A call that starts after the confirmation of its caller has expired, as after a pause of this
/// process.
struct LateCall<'a> {
    services: &'a Services,
    approvals: &'a Approvals,
    surface: Surface,
}

// === impl LateCall ===

impl LateCall<'_> {
    /// Checks that the caller may still make the call, and that it was not closed by another server
    /// as a call of a dead process (I-111).
    async fn check(
        &self,
        principal: &Principal,
        entry: &Entry,
        input: &CallInput,
    ) -> Result<(), CallError> {
        let context = CallContext { surface: self.surface.as_str(), input };
        let Approvals { authenticator, snapshots, .. } = self.approvals;
        reauthorize(authenticator, snapshots, principal, entry, context).await?;
        match self.services.storage.is_alive().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(CallError::NotAccountable("recorded")),
            Err(error) => {
                tracing::error!(%error, "a call was refused because its record may already be closed");
                Err(CallError::NotAccountable("recorded"))
            }
        }
    }
}

/// The error of a call of this process that another server has recorded as interrupted. A
/// repetition under the same idempotency key gets the same error.
pub(super) fn interrupted() -> CallError {
    let detail = "the process that ran it stopped";
    CallError::Upstream(UpstreamError::new(UpstreamErrorKind::Interrupted, detail))
}

/// Compiles a large schema before its first use, on a thread that delays no other requests.
async fn prepare_check(entry: &Arc<Entry>) {
    if entry.arguments.is_prepared() {
        return;
    }
    let entry = Arc::clone(entry);
    let prepared = tokio::task::spawn_blocking(move || entry.arguments.prepare());
    if let Err(error) = prepared.await {
        tracing::error!(%error, "a schema could not be compiled"); // the check tries again
    }
}

/// Checks that the arguments are an object that fits the schema.
///
/// # Errors
/// Fails with every violation.
fn validate(entry: &Entry, value: &Value) -> Result<(), Vec<Violation>> {
    let mut violations = entry.arguments.check(value).err().unwrap_or_default();
    if violations.is_empty() && !value.is_object() {
        let message = "the arguments must be a JSON object";
        violations.push(Violation::new("", message, "type"));
    }
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}
