//! Runs the steps of a run, each as soon as its dependencies have finished.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use futures_util::{
    StreamExt as _,
    stream::{self, FuturesUnordered},
};
use serde_json::{Map, Value};
use toolcrib_core::{
    call::{CallInput, Progress},
    canonical,
    descriptor::ReplayPolicy,
    id::CallId,
    trace::{Name, SpanKind, SpanName},
};

use super::{
    failure::{self, Failure, StepOutcome},
    past::EarlierCall,
    resume,
    run::Run,
};
use crate::{
    ids::new_id,
    live_runs::StepContext,
    metrics::Surface,
    pipeline::CallRequest,
    tool_ref::ToolRef,
    trace,
    workflow_definition::{
        plan::{ErrorAction, Iteration, Step, StepCondition, Test},
        template::Scope,
        value::{Status, StepValue},
    },
};

/// Concurrent branches; further ones wait.
const MAX_BRANCHES: usize = 16;
/// Approximate limit on the results of one run, in bytes.
const MAX_WEIGHT: usize = 32 << 20;
/// Unfinished calls of one step by crashed processes, after which the run is given up.
const MAX_CALLS: usize = 100;

type Values = Vec<Option<Arc<StepValue>>>;

impl Run {
    /// Runs every step and returns the outputs.
    pub(super) async fn drive(&self) -> Result<Value, Failure> {
        let steps = &self.plan.steps;
        let mut values: Values = vec![None; steps.len()];
        let mut waiting: BTreeSet<usize> = (0..steps.len()).collect();
        let mut weight = 0_usize;
        let ended_steps = AtomicUsize::new(0);
        let mut running = FuturesUnordered::new();
        loop {
            let has_ended = |at: &usize| values.get(*at).is_some_and(Option::is_some);
            let ready = steps
                .iter()
                .enumerate()
                .filter(|(at, step)| waiting.contains(at) && step.needs.iter().all(has_ended));
            let room = MAX_BRANCHES.saturating_sub(running.len());
            let ready: Vec<_> = ready.take(room).collect();
            for (at, step) in ready {
                waiting.remove(&at);
                let seen = values.clone();
                running.push(async move { (at, step, self.step(step, &seen).await) });
            }
            let Some((at, step, ended)) = running.next().await else { break };
            let value = match (ended, step.on_error) {
                (Ok(value), _) => value,
                (Err(failure), ErrorAction::Fail) => return Err(failure.of_step(&step.id)),
                (Err(_), ErrorAction::Continue | ErrorAction::Use(_)) => {
                    StepValue::nothing(Status::Failed)
                }
            };
            weight = weight.saturating_add(value.weight());
            if weight > MAX_WEIGHT {
                return Err(Failure::new("results_too_large", "the steps' results are too large"));
            }
            self.report(step, value.status, ended_steps.fetch_add(1, Ordering::Relaxed) + 1);
            put(&mut values, at, step, value);
        }
        let scope = Scope { inputs: &self.inputs, steps: &values, item: None };
        Ok(self.plan.outputs.fill(scope)?.unwrap_or_default())
    }

    fn report(&self, step: &Step, status: Status, ended: usize) {
        if let Some(progress) = &self.progress {
            progress.report(Progress {
                progress: ended.into(),
                total: Some(self.plan.steps.len().into()),
                message: Some(format!("{}: {}", step.id, status.as_str())),
            });
        }
    }

    async fn step(&self, step: &Step, values: &Values) -> StepOutcome {
        let failed = |at: usize| {
            let value = values.get(at).and_then(Option::as_ref);
            value.is_some_and(|value| value.status == Status::Failed)
        };
        let scope = Scope { inputs: &self.inputs, steps: values, item: None };
        let unneeded = step.fallback_for.is_some_and(|other| !failed(other));
        if unneeded || step.when.as_ref().is_some_and(|when| !holds(when, scope)) {
            return Ok(StepValue::nothing(Status::Skipped));
        }
        match &step.each {
            None => self.one(step, scope).await,
            Some(each) => self.each(step, each, scope).await,
        }
    }

    async fn each(&self, step: &Step, each: &Iteration, scope: Scope<'_>) -> StepOutcome {
        let nothing =
            || Failure::new("unresolved_reference", "`for_each` has no array to iterate over");
        let items = match each.over.find(scope).ok_or_else(nothing)? {
            Value::Array(items) => items,
            _ => {
                return Err(Failure::new(
                    "type_mismatch",
                    "`for_each` refers to a value other than an array",
                ));
            }
        };
        if items.len() > each.max {
            let message = format!("there are more than {} items", each.max);
            return Err(Failure::new("too_many_items", message));
        }
        let mut calls = Vec::new();
        for (index, item) in items.iter().enumerate() {
            calls.push(self.one(step, Scope { item: Some((index, item)), ..scope }));
        }
        let mut calls = stream::iter(calls).buffered(each.parallel);
        let (mut values, mut weight) = (Vec::new(), 0_usize);
        while let Some(ended) = calls.next().await {
            let value = match (ended, step.on_error) {
                (Ok(value), _) => value,
                (Err(_), ErrorAction::Continue) => StepValue::nothing(Status::Failed),
                (Err(failure), ErrorAction::Fail | ErrorAction::Use(_)) => return Err(failure),
            };
            weight = weight.saturating_add(value.weight());
            if weight > MAX_WEIGHT {
                return Err(Failure::new("results_too_large", "the items' results are too large"));
            }
            values.push(value);
        }
        Ok(StepValue::of_items(values))
    }

    /// One call of a step, with retries if they are allowed.
    async fn one(&self, step: &Step, scope: Scope<'_>) -> StepOutcome {
        let arguments = step.arguments.fill(scope)?.unwrap_or_else(|| Value::Object(Map::new()));
        let item = scope.item.map(|(index, _)| index);
        let attempts = step.retry.map_or(1, |retry| retry.attempts);
        let mut tried = 0;
        for call in 1..=MAX_CALLS {
            let id = self.call_id(step, item, call);
            let ended = match self.past.of(&id) {
                Some(EarlierCall::Kept(kept)) => kept,
                Some(EarlierCall::Child(child)) => {
                    let keep = self.keep.clone();
                    Box::pin(resume::resume(&self.workflows, *child, &self.past.history, keep))
                        .await
                }
                // It was refused before it started.
                Some(EarlierCall::Refused) => continue,
                Some(EarlierCall::Interrupted) if self.may_repeat(step) => continue,
                Some(EarlierCall::Interrupted) => return Err(Failure::interrupted()),
                None => self.call(step, id, arguments.clone()).await,
            };
            tried += 1;
            match (ended, step.retry) {
                (Ok(value), _) => return Ok(value),
                (Err(failure), Some(retry))
                    if failure.again && tried < attempts && self.may_repeat(step) =>
                {
                    tokio::time::sleep(retry.pause).await;
                }
                (Err(failure), _) => return Err(failure),
            }
        }
        Err(Failure::interrupted())
    }

    /// One attempt of a step.
    async fn call(&self, step: &Step, id: CallId, arguments: Value) -> StepOutcome {
        let parent = trace::TaskContext::current_trace();
        let span = self.workflows.services.tracer.span(parent, SpanKind::Internal, || {
            SpanName::of("toolcrib.step", Name::chosen_here(step.id.as_ref()))
        });
        let ended = span.run(self.call_within(step, id, arguments)).await;
        if ended.is_err() {
            span.fail("step_failed");
        }
        ended
    }

    async fn call_within(&self, step: &Step, id: CallId, arguments: Value) -> StepOutcome {
        let renewed = self.workflows.authenticator.renew(&self.principal).await;
        let principal =
            renewed.map_err(|error| Failure::new("unauthenticated", error.to_string()))?;
        let part = StepContext {
            call: id,
            parent: self.call.clone(),
            cause: self.cause.clone(),
            keep: self.keep.clone(),
        };
        let input = CallInput { arguments, caller: None, meta: self.meta.clone() };
        let request = CallRequest::new(
            self.workflows.snapshots.load(),
            Surface::WORKFLOW,
            ToolRef::Id(&step.tool),
            input,
        );
        let caller = &self.workflows.caller;
        let called = caller.call(&self.interaction, &principal, request, part).await;
        failure::ended(called.result.as_ref())
    }

    /// Whether calling the step's tool twice has the effect of one call, according to the current
    /// catalog.
    fn may_repeat(&self, step: &Step) -> bool {
        let snapshot = self.workflows.snapshots.load();
        snapshot.catalog.by_id(&self.principal.tenant, &step.tool).is_some_and(|entry| {
            let policy = entry.tool.replay_policy;
            matches!(policy, Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent))
        })
    }

    /// The id of call number `call` of a step, equal in every process that continues the run.
    fn call_id(&self, step: &Step, item: Option<usize>, call: usize) -> CallId {
        let mut text = format!("{}.{}", self.call, step.id);
        if let Some(item) = item {
            text += &format!(".{item}");
        }
        if call > 1 {
            text += &format!("~{call}");
        }
        // Deep inside other workflows, the id would become too long.
        let short = || CallId::parse(canonical::Digest::of(text.as_bytes()).to_string());
        CallId::parse(&text).or_else(|_| short()).unwrap_or_else(|_| new_id())
    }
}

/// Stores the value of a step, also as the value of the step that it replaces.
fn put(values: &mut Values, at: usize, step: &Step, value: StepValue) {
    if let Some(other) = step.fallback_for
        && value.status == Status::Ok
        && let Some(place) = values.get_mut(other)
    {
        *place = Some(Arc::new(StepValue { status: Status::Failed, ..value.clone() }));
    }
    if let Some(place) = values.get_mut(at) {
        *place = Some(Arc::new(value));
    }
}

fn holds(when: &StepCondition, scope: Scope<'_>) -> bool {
    let found = when.reference.find(scope);
    match &when.test {
        Test::Exists(expected) => found.is_some() == *expected,
        Test::Equals(value) => found.as_ref() == Some(value),
        Test::Not(value) => found.as_ref() != Some(value),
    }
}
