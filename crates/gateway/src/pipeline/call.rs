//! The ten steps of a call.
//!
//! Invariant (I-7): calls are authorized by the decision that also makes lists.
//! Invariant (I-9, I-81): work whose cost depends on the arguments starts only after the permit, and
//! a name without a visible tool takes the same path whether or not the tool exists.
//! Invariant (I-12): denied calls take no token: limits come after authorization, and after the check
//! that the account of a call is connected.
//! Invariant (I-18): a call starts only after its opening event is durable.
//! Invariant (I-22): after the opening event, the call runs to its end. A caller that disconnects
//! cancels it, and the closing event is still written.
//! Invariant (I-23): every step uses the snapshot of the request. Only a call after a wait for
//! approval continues in the snapshot of its second authorization.
//! Invariant (I-111): a call recorded as interrupted by another server never reports success, and a
//! call that starts late, as after a pause of the process, is authorized again.
//! Invariant (I-94): spans observe the steps, and never delay one.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio_util::sync::{CancellationToken, DropGuard};
use toolcrib_config::DeniedCalls;
use toolcrib_core::{
    arguments::Violation,
    authorize::{CallContext, DenialReason},
    call::{CallError, Invocation, Operation, ProgressSink},
    catalog::{Entry, Permit},
    credential::ResolvedCredential,
    egress::EgressTrail,
    id::{AgentId, CallId, RunId},
    offer::OfferKind,
    principal::Principal,
    trace::TraceContext,
};

use super::{
    CallReport, CallRequest, Pipeline,
    dispatch::Execution,
    late::LateCheck,
    recorded_run::{Attempt, RecordedRun},
    request::{FoundTool, RequestCharge},
    session::InteractionGuard,
    target::Target,
};
use crate::{
    answer_time,
    approvals::{UsedGrant, wait::SurfaceInput},
    audit::{self, CallIdentity, MissedCall},
    ids::new_id,
    input_forms::{InputForms, SourceInput},
    limits::quota::{Enforcement, QuotaCharge},
    live_runs::StepContext,
    metrics::{FinishedCall, Surface},
    snapshot::{Miss, Snapshot},
    tool_ref::{CatalogScope, ToolRef},
    trace::{self, ActiveSpan, CallSpan, TaskContext, Tracer},
};

/// A call on its way through the pipeline, without the name of its tool.
pub(super) struct Call {
    pub(super) run: RunId,
    pub(super) id: CallId,
    pub(super) surface: Surface,
    pub(super) input: InputForms,
    pub(super) progress: Option<Arc<dyn ProgressSink>>,
    pub(super) charge: Option<Arc<dyn RequestCharge>>,
    /// The interaction that it belongs to.
    pub(super) guard: Option<InteractionGuard>,
    /// Its step, if it is part of a workflow.
    pub(super) step: Option<StepContext>,
    /// Its start, in monotonic nanoseconds.
    began: u64,
    /// How long it has waited for an approval, in nanoseconds.
    pub(super) waited: AtomicU64,
    /// How long its credential took, in nanoseconds.
    pub(super) resolving: AtomicU64,
    /// The decisions about its destination before it starts.
    pub(super) egress: EgressTrail,
    pub(super) span: CallSpan,
}

/// The offer that a call names.
pub(super) struct NamedOffer<'a> {
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) kind: OfferKind,
    pub(super) tool: ToolRef<'a>,
    pub(super) scope: CatalogScope,
    /// The result of the lookup, if the surface has made it.
    pub(super) found: Option<FoundTool>,
}

/// A call that its caller may make (after steps 1 and 2).
pub(super) struct AuthorizedCall {
    pub(super) target: Target,
    permit: Permit,
    identity: CallIdentity,
}

/// A call, and who makes it.
#[derive(Clone, Copy)]
pub(super) struct Caller<'a> {
    pub(super) principal: &'a Principal,
    pub(super) call: &'a Call,
    pub(super) cancellation: &'a CancellationToken,
}

/// The parts of a call that a source receives or that find the source.
pub(super) struct SendableCall {
    pub(super) target: Target,
    pub(super) credential: Option<Arc<ResolvedCredential>>,
}

/// A call that may start (after steps 1 to 6).
struct AdmittedCall {
    /// The target, in the snapshot in which the call runs.
    target: Target,
    /// The quotas that count it; released unless the call starts.
    quota_charge: QuotaCharge,
    credential: Option<Arc<ResolvedCredential>>,
    /// The grant that it has used.
    grant: Option<UsedGrant>,
    cancellation: CancellationToken,
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
        let (named_offer, call) =
            Call::new(&self.services.tracer, run, guard, request, step, began);
        match self.authorize(principal, named_offer, &call).await {
            Ok(authorized) => self.proceed(principal, authorized, call).await,
            Err(error) => self.refused(principal, &call, error),
        }
    }

    /// Steps 1 and 2: resolves the tool among those visible to the caller, and authorizes the call.
    pub(super) async fn authorize(
        &self,
        principal: &Principal,
        named_offer: NamedOffer<'_>,
        call: &Call,
    ) -> Result<AuthorizedCall, CallError> {
        let NamedOffer { snapshot, kind, tool, scope, found } = named_offer;
        let span = call.span.begin_step("toolcrib.authorize");
        // 1. resolve
        let found = found
            .map_or_else(|| snapshot.find_offer(kind, principal, tool, &scope), |found| found.0);
        let target = match found {
            Ok(entry) => Target::new(snapshot, principal, entry),
            Err(miss) => return Err(self.miss(principal, miss, call)),
        };
        // 2. authorize
        let identity = call.identity(principal, &target.entry);
        let context = CallContext { surface: call.surface.as_str(), input: call.input.sent() };
        let snapshot = &target.snapshot;
        let generation = snapshot.catalog.generation();
        let decider = snapshot.decider_for(target.entry.offer.kind(), principal);
        match Permit::new(&decider, principal, &target.entry, generation, context) {
            Ok(permit) => {
                call.span.name(&target.entry);
                Ok(AuthorizedCall { target, permit, identity })
            }
            Err(denied) => {
                let error = match denied {
                    // Lists show the tool, so this denial reveals no secret.
                    DenialReason::Arguments => audit::forbidden(&target.entry, &denied),
                    _ if snapshot.gate.denied_calls == DeniedCalls::Forbidden => {
                        audit::forbidden(&target.entry, &denied)
                    }
                    _ => CallError::NoSuchTool,
                };
                span.fail(error.code());
                drop(span);
                Err(self.refuse(principal, identity, call, Some(&denied), error).await)
            }
        }
    }

    /// Runs an authorized call through steps 3 to 10.
    pub(super) async fn proceed(
        &self,
        principal: &Principal,
        authorized: AuthorizedCall,
        call: Call,
    ) -> CallReport {
        let AuthorizedCall { target, permit, mut identity } = authorized;
        let entry = Arc::clone(&target.entry);
        let account = target.account().cloned();
        let (run, id, surface) = (call.run.clone(), call.id.clone(), call.surface);
        let span = call.span.clone();
        let began = call.began;
        let (waited, execution) = match self.admit(principal, target, &mut identity, &call).await {
            Ok(admitted) => {
                let resolving = call.resolving.load(Ordering::Relaxed);
                let waited = call.waited.load(Ordering::Relaxed).saturating_add(resolving);
                let used = admitted.credential.as_ref().map(|used| used.credential.id.clone());
                if let (Some(_), Some(used)) = (&account, &used) {
                    self.connections.note_used(used);
                }
                let execution = self.run(admitted, permit, identity, call).await;
                let execution = match &account {
                    None => execution,
                    Some(account) => {
                        let used = used.as_ref();
                        Box::pin(self.reconnected(principal, &entry, account, used, execution))
                            .await
                    }
                };
                (waited, execution)
            }
            Err(error) => {
                let error = self.refuse(principal, identity, &call, None, error).await;
                (0, Execution::not_started(error))
            }
        };
        if execution.duration.is_some() {
            let took = self.services.clock.monotonic_nanos().saturating_sub(began);
            let gate = Duration::from_nanos(took.saturating_sub(waited));
            self.services.metrics.gate(gate.saturating_sub(execution.invoked));
        }
        span.end(&execution.result);
        self.finished(principal, run, id, surface, Some(entry), execution)
    }

    /// Steps 3 to 6: limits, validation, credential and approval. Adds the hash of the arguments and
    /// the event that approved the call to its identity.
    async fn admit(
        &self,
        principal: &Principal,
        mut target: Target,
        identity: &mut CallIdentity,
        call: &Call,
    ) -> Result<AdmittedCall, CallError> {
        // An account is connected before the call takes a token, or an approval is requested.
        if target.account().is_some() {
            Box::pin(self.check_connection(principal, &target, call)).await?;
        }
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
        // 5. resolve the credential, so that no approval is requested for a call that cannot be sent
        let cancellation =
            call.guard.as_ref().map_or_else(CancellationToken::new, InteractionGuard::cancellation);
        let caller = Caller { principal, call, cancellation: &cancellation };
        let mut credential = self.credential(caller, &target).await?;
        // 6. approve; a call over its quota requests no approval, and a waiting call is not counted
        let required = gate.required().cloned();
        let quota_charge = match required.is_some() {
            false => Some(self.count(&target, Enforcement::Refuse).await?),
            true => {
                target.check_reachable()?;
                self.quotas.check_call(&target.entry, &target.quotas).await?;
                None
            }
        };
        if let Some(guard) = &call.guard {
            guard.open(&target.entry.id).await?;
        }
        let parent = call.step.as_ref().map(|step| &step.parent);
        let input = SurfaceInput { surface: call.surface.as_str(), input: &call.input };
        let pending = self.approvals.begin(identity, principal, gate, input, parent)?;
        let mut grant = None;
        if let (Some(pending), Some(required)) = (pending, required) {
            let sendable = SendableCall { target, credential };
            let approving = self.approve(caller, sendable, identity, pending);
            let approval;
            (SendableCall { target, credential }, approval) = Box::pin(approving).await?;
            grant = Some(UsedGrant { required, approval });
        }
        let quota_charge = match quota_charge {
            Some(quota_charge) => quota_charge,
            // The grant is spent, so the call is counted even over the quota.
            None => self.count(&target, Enforcement::CountOnly).await?,
        };
        Ok(AdmittedCall { target, quota_charge, credential, grant, cancellation })
    }

    /// Steps 7 to 10: record, run, record, respond.
    async fn run(
        &self,
        admitted: AdmittedCall,
        permit: Permit,
        identity: CallIdentity,
        call: Call,
    ) -> Execution {
        let AdmittedCall { target, quota_charge, credential, grant, cancellation } = admitted;
        let authorized_at = call.began.saturating_add(call.waited.load(Ordering::Relaxed));
        let Call { input, surface, progress, charge, guard, step, span, .. } = call;
        let attempt_span = span.attempt(&target.entry);
        let SourceInput { arguments, caller, mut meta } = input.into_source();
        let context = trace_for_source(&attempt_span, &mut meta, grant.is_some());
        let runnable = target.runnable();
        let Target { snapshot, entry, source, breaker, need, .. } = target;
        let late = Arc::new(LateCheck {
            services: self.services.clone(),
            approvals: Arc::clone(&self.approvals),
            permit,
            grant,
            need,
            surface,
            authorized_at,
            refused: Mutex::default(),
        });
        let invocation = Invocation {
            call_id: identity.call.clone(),
            run_id: identity.run.clone(),
            arguments,
            timeout: entry.timeout,
            max_result_bytes: snapshot.gate.max_result_bytes,
            progress,
            meta,
            egress: EgressTrail::in_trace(context),
            input: caller,
            credential,
            recheck: Some(Arc::clone(&late) as _),
        };
        let operation = Operation::on(&entry.offer, invocation);
        // A long call must not keep the sources of an old snapshot open.
        drop(snapshot);
        let run = RecordedRun {
            services: self.services.clone(),
            audit: Arc::clone(&self.audit),
            approvals: Arc::clone(&self.approvals),
            runs: Arc::clone(&self.runs),
            entry,
            source,
            breaker,
            runnable,
            late,
            step,
            span,
            cancelled: cancellation.clone(),
            charge,
            guard,
        };
        let attempt = Attempt { operation, span: attempt_span, quota_charge };
        // 7. to 9.
        let completing = self.services.background.complete(run.complete(identity, attempt));
        // 10. respond
        let _cancel_when_dropped: DropGuard = cancellation.drop_guard();
        match completing.await {
            Ok(Ok(execution)) => execution,
            Ok(Err(not_recorded)) => Execution::not_started(not_recorded),
            Err(_panicked) => Execution::not_started(CallError::Internal),
        }
    }

    async fn count(
        &self,
        target: &Target,
        enforcement: Enforcement,
    ) -> Result<QuotaCharge, CallError> {
        self.quotas.count(&target.entry, &target.quotas, enforcement).await
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
        let actors = principal.auth.actors().to_vec();
        let missed = MissedCall { actors, run: call.run.clone(), call: call.id.clone(), cause };
        self.audit.denials().missed(principal, audit::CALL, miss, Some(missed));
        error
    }

    /// Records a refused call, or only counts it after too many refusals of its caller. Returns its
    /// error.
    async fn refuse(
        &self,
        principal: &Principal,
        mut identity: CallIdentity,
        call: &Call,
        denied: Option<&DenialReason>,
        error: CallError,
    ) -> CallError {
        if matches!(error, CallError::NoSuchTool) {
            answer_time::note();
        }
        if !self
            .audit
            .denials()
            .admits(&identity, denied.map_or(error.code(), DenialReason::reason))
        {
            return error;
        }
        if let Some(guard) = &call.guard
            && let Err(error) = guard.open(&identity.entry.id).await
        {
            return error;
        }
        identity.args_hash = Some(self.hash(&call.input));
        self.audit.refused(&identity, &error, denied, call.egress.take()).await;
        // Links come after the record, and not beyond the number of recorded refusals.
        match error {
            CallError::ConnectionRequired(_) => {
                Box::pin(self.connections.with_link(principal, error)).await
            }
            error => error,
        }
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
        let CallRequest { snapshot, surface, kind, tool, scope, found, input, progress, charge } =
            request;
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
            resolving: AtomicU64::new(0),
            egress: EgressTrail::default(),
            span,
        };
        (NamedOffer { snapshot, kind, tool, scope, found }, call)
    }

    fn identity(&self, principal: &Principal, entry: &Arc<Entry>) -> CallIdentity {
        self.span.set("toolcrib.tenant", &principal.tenant);
        self.span.set("toolcrib.principal", &principal.id);
        CallIdentity {
            tenant: principal.tenant.clone(),
            principal: principal.id.clone(),
            actors: principal.auth.actors().to_vec(),
            agent: AgentId::system(),
            run: self.run.clone(),
            call: self.id.clone(),
            args_hash: None,
            entry: Arc::clone(entry),
            cause: self.step.as_ref().map(|step| step.cause.clone()),
        }
    }
}

/// Writes the trace context of a call into the metadata for its source, and returns it.
fn trace_for_source(
    attempt: &ActiveSpan,
    meta: &mut Map<String, Value>,
    is_granted: bool,
) -> Option<TraceContext> {
    let mut context = attempt.context().cloned();
    if is_granted {
        // Approvers do not see the rest of the trace metadata, such as `baggage` (I-102).
        meta.clear();
        context = context.map(TraceContext::without_state);
    }
    TraceContext::write_meta(context.as_ref(), meta);
    context
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
