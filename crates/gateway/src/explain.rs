//! Why a call would be let through, hidden, denied or held for consent, step by step, and why a list
//! is empty.
//!
//! Nothing here decides: each step asks what the pipeline asks ([`call`](mod@crate::call)), takes
//! nothing from a limit, asks nobody for consent and runs nothing.
//!
//! Invariant (I-85): a caller that asks for itself is told what a call would tell it, and no more. A
//! tool that is another tenant's, hidden, quarantined, or denied where denials look like unknown
//! names, is answered to the byte like a name that nobody has.

mod steps;

use std::sync::Arc;

use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_core::{
    authorize::{Authorizer as _, CallContext, Denied},
    catalog::Entry,
    id::{PrincipalId, TenantId, ToolId},
    principal::Principal,
    scope::Scope,
    source::SourceState,
};

use crate::{
    Gateway, Snapshot, quota,
    record::{Miss, READ},
    scopes::RouteScope,
};

/// What a caller needs to have calls of other principals of its tenant explained.
pub const OTHERS: RouteScope = RouteScope::ExplainOthers;
/// Whoever holds it may look at quarantined tools anyway.
const SEES_PINS: &str = RouteScope::PinsApprove.as_str();
/// Whoever holds it is told how sources are doing anyway.
const SEES_SOURCES: &str = RouteScope::SourcesRead.as_str();
/// Missing scopes that are told one by one when a list is empty.
const MAX_MISSING: usize = 10;

/// Why something would happen.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// Who would call.
    pub principal: PrincipalId,
    /// In which tenant.
    pub tenant: TenantId,
    /// What it holds, roles resolved.
    pub grants: Vec<String>,
    /// The tool, where there is one to speak of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<ToolId>,
    /// How many tools its lists show; only when no tool was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// What would happen.
    pub outcome: Verdict,
    /// Why, in the order in which the gate asks.
    pub steps: Vec<Step>,
}

/// What would happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call would run; the list has tools.
    Allowed,
    /// It would run or not, depending on its arguments.
    Depends,
    /// It would run once somebody has consented.
    NeedsApproval,
    /// It would pass the gate, and its source would not answer.
    Unavailable,
    /// It would be refused; the tool is in lists.
    Denied,
    /// The tool is in no list; the list is empty.
    Hidden,
    /// There is no such tool, as far as whoever asks may know.
    Unknown,
}

/// Whom something is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    /// Everything: the rules are the operator's own.
    Operator,
    /// What a call would tell.
    Caller,
}

/// Who asks about a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requester {
    Itself,
    Another,
}

/// One step of the way.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Step {
    /// Which.
    pub step: StepName,
    /// What it comes to.
    pub result: StepResult,
    /// In words.
    pub message: String,
    /// The same for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub details: Option<Value>,
}

/// The steps, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepName {
    /// Whether the credentials hold.
    Identity,
    /// Whether there is such a tool.
    Tool,
    /// Whether it exists for the tenant.
    Tenant,
    /// Whether it is as it was approved.
    Pin,
    /// Whether its scopes are held.
    Scope,
    /// Whether policies let it pass.
    Policy,
    /// How often it may be called.
    Rate,
    /// How often in a day.
    Quota,
    /// Whether somebody has to consent.
    Approval,
    /// Whether its source answers.
    Source,
}

/// What a step comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepResult {
    /// It goes on.
    Pass,
    /// It goes on or not, depending on what is not known here.
    Depends,
    /// It goes on after somebody has consented.
    Ask,
    /// It ends.
    Stop,
}

impl Step {
    /// A step.
    pub fn new(step: StepName, result: StepResult, message: impl Into<String>) -> Self {
        Self { step, result, message: message.into(), details: None }
    }

    /// The same, with details for programs.
    #[must_use]
    pub fn with(mut self, details: Value) -> Self {
        self.details = Some(details);
        self
    }
}

impl Gateway {
    /// Why `who` could call `tool` (tool id, wire name or OTC name) or not, or why its list is what it
    /// is. Tells everything: for operators alone. With `call`, of such a call.
    pub async fn explain(
        &self,
        who: &Principal,
        tool: Option<&str>,
        call: Option<CallContext<'_>>,
    ) -> Explanation {
        let snapshot = self.snapshot();
        let Some(name) = tool else { return self.explain_list(&snapshot, who) };
        let found = snapshot.catalog.find(&who.tenant, name).map(|entry| (entry, false));
        let found = found.or_else(|| Some((snapshot.quarantined.find(&who.tenant, name)?, true)));
        match found {
            Some((entry, quarantined)) => {
                let mut steps = vec![
                    steps::offered(entry),
                    steps::tenant(who, entry, To::Operator),
                    steps::pin(entry, quarantined),
                ];
                steps.extend(self.gate_steps(&snapshot, who, entry, call, To::Operator).await);
                told(who, entry, steps)
            }
            None => {
                let located = self.refresher().locate(name);
                let outcome = match located.tool {
                    Some(_) => Verdict::Hidden,
                    None => Verdict::Unknown,
                };
                let steps = vec![steps::not_offered(&located)];
                Explanation { tool: located.tool, outcome, steps, ..base(who) }
            }
        }
    }

    /// Why `who` may call `tool` or not, or why its list is what it is, as far as it may know.
    pub async fn explain_to(&self, who: &Principal, tool: Option<&str>) -> Explanation {
        self.explain_as(who, tool, Requester::Itself).await
    }

    /// What [`explain_to`](Self::explain_to) says to `who`, for somebody who asks in its place. It has
    /// not asked, so nothing is recorded of it.
    pub async fn explain_for(&self, who: &Principal, tool: Option<&str>) -> Explanation {
        self.explain_as(who, tool, Requester::Another).await
    }

    async fn explain_as(
        &self,
        who: &Principal,
        tool: Option<&str>,
        asker: Requester,
    ) -> Explanation {
        let snapshot = self.snapshot();
        let itself = asker == Requester::Itself;
        let Some(name) = tool else { return self.explain_own_list(&snapshot, who) };
        let holds = |scope: &str| Scope::parse(scope).is_ok_and(|it| who.scopes.covers(&it));
        let known = |entry: &&Arc<Entry>| entry.tenants.admits(&who.tenant);
        let quarantined = snapshot.quarantined.find(&who.tenant, name).filter(known);
        if let Some(entry) = quarantined.filter(|_| holds(SEES_PINS)) {
            let steps = vec![steps::offered(entry), steps::pin(entry, true)];
            return told(who, entry, steps);
        }
        let entry = snapshot.catalog.find(&who.tenant, name);
        if let Some(entry) = snapshot.view(who).check(entry, name) {
            let mut steps = vec![steps::offered(entry), steps::tenant(who, entry, To::Caller)];
            steps.extend(self.gate_steps(&snapshot, who, entry, None, To::Caller).await);
            return told(who, entry, steps);
        }
        let miss = Miss {
            snapshot: Arc::clone(&snapshot),
            scopes: who.scopes.clone(),
            entry: entry.cloned(),
            call: None,
        };
        // A call of it is told its name and its scopes.
        let disclosed = miss.disclosed(who).map(|denied| {
            let entry = entry?;
            let mut steps = vec![steps::offered(entry), steps::scope(who, entry)];
            if denied == Denied::Policy {
                steps.push(steps::denied_by_policy());
            }
            Some(told(who, entry, steps))
        });
        if itself {
            self.record().missed(who, READ, miss);
        }
        disclosed.flatten().unwrap_or_else(|| unknown(who))
    }

    /// Scope, policy, limits, consent and source, for a tool that there is.
    async fn gate_steps(
        &self,
        snapshot: &Snapshot,
        who: &Principal,
        entry: &Entry,
        call: Option<CallContext<'_>>,
        to: To,
    ) -> Vec<Step> {
        let config = self.config();
        let mut steps = vec![steps::scope(who, entry)];
        let policies = snapshot.decider.policies.as_deref();
        steps.extend(policies.map(|it| steps::policy(it, who, entry, call, to)));
        steps.push(steps::rate(entry));
        let quotas = quota::quotas_of(&snapshot.gate, who, entry);
        if !quotas.is_empty() {
            let left = self.quotas().check(&quotas).await;
            let calls: Vec<u32> = quotas.iter().map(|(_, quota)| quota.calls()).collect();
            steps.push(steps::quota(&calls, left));
        }
        let arguments = call.map(|call| call.arguments);
        steps.push(steps::approval(&config.approvals, entry, arguments, to));
        let status = snapshot.sources.get(&entry.source).map(|source| source.status());
        let breaker = snapshot.breakers.get(&entry.source).map(|breaker| breaker.report());
        let state = status.as_ref().map(|status| status.state);
        steps.push(steps::source(entry, state, breaker.as_ref()));
        steps
    }

    /// What a caller's list is made of. Looks at every tool, so it is not for requests.
    fn explain_list(&self, snapshot: &Snapshot, who: &Principal) -> Explanation {
        let mut counts = steps::Counts::default();
        for entry in snapshot.catalog.entries() {
            counts.add(&snapshot.decider.authorize(who.subject(), entry));
        }
        let quarantined = snapshot.quarantined.entries().iter();
        counts.quarantined = quarantined.filter(|it| it.tenants.admits(&who.tenant)).count();
        let mut steps = counts.steps(MAX_MISSING);
        steps.push(self.sources_step(who));
        listed(who, counts.visible, steps)
    }

    fn explain_own_list(&self, snapshot: &Snapshot, who: &Principal) -> Explanation {
        let view = snapshot.catalog.view(&snapshot.decider, who.subject());
        let visible = view.entries().len();
        let (result, message) = match (who.scopes.is_empty(), visible) {
            (_, 1..) => (StepResult::Pass, "its scopes reach the tools of its lists"),
            (true, 0) => (
                StepResult::Stop,
                "it holds no scopes, so that only tools that ask for none would be listed",
            ),
            (false, 0) => (
                StepResult::Stop,
                "no tool that it may know of can be called with the scopes it holds; whoever gave \
                 it its key can tell what there is",
            ),
        };
        let mut steps = vec![Step::new(StepName::Scope, result, message)];
        if Scope::parse(SEES_SOURCES).is_ok_and(|scope| who.scopes.covers(&scope)) {
            steps.push(self.sources_step(who));
        }
        listed(who, visible, steps)
    }

    /// Which of the sources of a tenant have not told their tools or do not answer.
    fn sources_step(&self, who: &Principal) -> Step {
        let sources = self.sources_of(&who.tenant);
        let away: Vec<Value> = sources
            .iter()
            .filter(|it| it.status.state != SourceState::Ready || it.discovered_at.is_none())
            .map(|it| json!({ "id": it.id, "state": it.status.state, "told": it.discovered_at.is_some() }))
            .collect();
        let all = sources.len();
        let message = match (all, away.len()) {
            (0, _) => "no source is there for this tenant".to_owned(),
            (all, 0) => format!("all of its {all} sources answer and have told their tools"),
            (all, away) => format!(
                "{away} of its {all} sources do not answer or have not told their tools yet"
            ),
        };
        let result = match (all, away.is_empty()) {
            (0, _) => StepResult::Stop,
            (_, true) => StepResult::Pass,
            (_, false) => StepResult::Depends,
        };
        Step::new(StepName::Source, result, message).with(json!({ "away": away }))
    }
}

fn base(who: &Principal) -> Explanation {
    Explanation {
        principal: who.id.clone(),
        tenant: who.tenant.clone(),
        grants: who.scopes.iter().map(ToString::to_string).collect(),
        tool: None,
        tools: None,
        outcome: Verdict::Unknown,
        steps: Vec::new(),
    }
}

/// The one answer about everything that a caller may not know of.
fn unknown(who: &Principal) -> Explanation {
    let message = "there is no tool of this name that this caller may know of; a call is answered the \
                   same way";
    let step = Step::new(StepName::Tool, StepResult::Stop, message);
    Explanation { steps: vec![step], ..base(who) }
}

fn told(who: &Principal, entry: &Entry, steps: Vec<Step>) -> Explanation {
    let stopped = |name: StepName| {
        steps.iter().any(|step| step.step == name && step.result == StepResult::Stop)
    };
    let any = |result: StepResult| steps.iter().any(|step| step.result == result);
    use StepName::{Pin, Policy, Quota, Rate, Scope, Source, Tenant};
    let denied = steps.iter().find(|it| it.step == Policy && it.result == StepResult::Stop);
    let by_arguments = denied.is_some_and(steps::is_by_arguments);
    let outcome =
        if [Tenant, Pin, Scope].into_iter().any(stopped) || (denied.is_some() && !by_arguments) {
            Verdict::Hidden
        } else if by_arguments || [Rate, Quota].into_iter().any(stopped) {
            Verdict::Denied
        } else if stopped(Source) {
            Verdict::Unavailable
        } else if any(StepResult::Depends) {
            Verdict::Depends
        } else if any(StepResult::Ask) {
            Verdict::NeedsApproval
        } else {
            Verdict::Allowed
        };
    Explanation { tool: Some(entry.id.clone()), outcome, steps, ..base(who) }
}

fn listed(who: &Principal, visible: usize, steps: Vec<Step>) -> Explanation {
    let outcome = if visible > 0 { Verdict::Allowed } else { Verdict::Hidden };
    Explanation { tools: Some(visible), outcome, steps, ..base(who) }
}
