//! Explains step by step why a call would run, be denied or require approval, or why a list is
//! empty.
//!
//! An explanation has no effect: each step evaluates the check of the pipeline without taking a
//! token, requesting an approval or running a tool.
//!
//! Invariant (I-85): an explanation reveals to a caller only the information that its call would
//! reveal. A tool of another tenant, a hidden or quarantined one, and one whose denial looks like
//! an unknown name get exactly the response for an unknown name. A tool that only the caller's own
//! account lacks is explained: lists show it to callers without an account.

mod step;
mod steps;

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    authorize::{Authorizer as _, CallContext, DenialReason},
    catalog::Entry,
    credential::{AccountOf, CredentialNeed},
    id::{PrincipalId, TenantId, ToolId},
    principal::{ClientWay, Principal},
    source::SourceState,
};

pub use self::step::{Step, StepName, StepResult};
use self::{step::ExplanationReader, steps::UsedAccount};
use crate::{
    audit::READ,
    gateway::Gateway,
    limits::quota,
    own_lists::OwnTools,
    snapshot::{Miss, Snapshot},
};

/// The scope for explanations of calls by other principals of the tenant.
pub const OTHERS: RouteScope = RouteScope::ExplainOthers;
/// A caller with this scope may list quarantined tools anyway.
const SEES_PINS: RouteScope = RouteScope::PinsApprove;
/// A caller with this scope may read the state of sources anyway.
const SEES_SOURCES: RouteScope = RouteScope::SourcesRead;
/// The number of missing scopes that an explanation of an empty list names.
const MAX_MISSING: usize = 10;

/// Why a call would run or not.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The caller.
    #[schemars(with = "String")]
    pub principal: PrincipalId,
    /// Its tenant.
    #[schemars(with = "String")]
    pub tenant: TenantId,
    /// How it came in: `key`, `token`, `client`, `anonymous` or `operator`.
    pub auth: &'static str,
    /// The id of the client that acts for it, if it came with an access token of this server.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub client_id: Option<String>,
    /// How that client got its access.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_by: Option<ClientWay>,
    /// Who acts for it, as the claim `act` of its token says; the present actor first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub actors: Vec<PrincipalId>,
    /// Its grants, with roles resolved.
    pub grants: Vec<String>,
    /// The tool, if one was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub tool: Option<ToolId>,
    /// How many tools its lists show; only without a named tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<usize>,
    /// The outcome.
    pub outcome: Verdict,
    /// The results of the steps, in the order of the pipeline.
    pub steps: Vec<Step>,
}

/// The outcome of a call or a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The call would run; the list has tools.
    Allowed,
    /// Its arguments decide whether it would run.
    Depends,
    /// It would run after an approval.
    NeedsApproval,
    /// It would be permitted, but its source is unavailable, or its credential or account.
    Unavailable,
    /// It would be denied; lists show the tool.
    Denied,
    /// Lists do not show the tool; the list is empty.
    Hidden,
    /// The caller can see no tool of this name.
    Unknown,
}

/// The requester of an explanation about a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Requester {
    Itself,
    Another,
}

impl Gateway {
    /// Explains whether `who` could call `tool` (tool id, wire name or OTC name), or which tools
    /// its list contains. Reveals everything, so it is for operators alone. With `call`, explains
    /// that call.
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
                    steps::tenant(who, entry, ExplanationReader::Operator),
                    steps::pin(entry, quarantined),
                ];
                steps.extend(
                    self.gate_steps(&snapshot, who, entry, call, ExplanationReader::Operator).await,
                );
                explained(who, entry, steps)
            }
            None => {
                let located = self.supply().locate(name);
                let outcome = match located.tool {
                    Some(_) => Verdict::Hidden,
                    None => Verdict::Unknown,
                };
                let steps = vec![steps::not_offered(&located)];
                Explanation { tool: located.tool, outcome, steps, ..base(who) }
            }
        }
    }

    /// Explains whether `who` may call `tool`, or which tools its list contains, as far as `who`
    /// may know.
    pub async fn explain_to(&self, who: &Principal, tool: Option<&str>) -> Explanation {
        self.explain_as(who, tool, Requester::Itself).await
    }

    /// As [`explain_to`](Self::explain_to), at the request of another principal. `who` made no
    /// request, so its record stays unchanged.
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
        let known = |entry: &&Arc<Entry>| entry.tenants.admits(&who.tenant);
        let quarantined = snapshot.quarantined.find(&who.tenant, name).filter(known);
        if let Some(entry) = quarantined.filter(|_| SEES_PINS.is_held_by(who)) {
            let steps = vec![steps::offered(entry), steps::pin(entry, true)];
            return explained(who, entry, steps);
        }
        let entry = snapshot.catalog.find(&who.tenant, name);
        if let Some(entry) = snapshot.shared_view(who).check(entry, name) {
            let mut steps =
                vec![steps::offered(entry), steps::tenant(who, entry, ExplanationReader::Caller)];
            steps.extend(
                self.gate_steps(&snapshot, who, entry, None, ExplanationReader::Caller).await,
            );
            return explained(who, entry, steps);
        }
        let miss = Miss {
            snapshot: Arc::clone(&snapshot),
            scopes: who.scopes.clone(),
            own: None,
            entry: entry.cloned(),
        };
        // A call would reveal the name and the scopes.
        let disclosed = miss.disclosed(who).map(|denied| {
            let entry = entry?;
            let mut steps = vec![steps::offered(entry), steps::scope(who, entry)];
            if denied == DenialReason::Policy {
                steps.push(steps::denied_by_policy());
            }
            Some(explained(who, entry, steps))
        });
        if itself {
            self.audit().denials().missed(who, READ, miss, None);
        }
        disclosed.flatten().unwrap_or_else(|| unknown(who))
    }

    /// The steps scope, policy, connection, limits, credential, approval and source of an existing
    /// tool.
    async fn gate_steps(
        &self,
        snapshot: &Snapshot,
        who: &Principal,
        entry: &Entry,
        call: Option<CallContext<'_>>,
        to: ExplanationReader,
    ) -> Vec<Step> {
        let config = self.config();
        let mut steps = vec![steps::scope(who, entry)];
        let policies = snapshot.decider.policies.as_deref();
        steps.extend(policies.map(|policies| steps::policy(policies, who, entry, call, to)));
        steps.extend(self.connection_step(snapshot, who, entry, to).await);
        steps.push(steps::rate(entry));
        let quotas = quota::quotas_of(&snapshot.gate, who, entry);
        if !quotas.is_empty() {
            let left = self.quotas().check(&quotas).await;
            let calls: Vec<u32> = quotas.iter().map(|(_, quota)| quota.calls()).collect();
            steps.push(steps::quota(&calls, left));
        }
        steps.extend(self.credential_step(snapshot, who, entry, to).await);
        let input = call.map(|call| call.input);
        steps.push(steps::approval(&config.approvals, entry, input, to));
        let status = snapshot.sources.get(&entry.source).map(|source| source.status());
        let breaker = snapshot.breakers.get(&entry.source).map(|breaker| breaker.report());
        let state = status.as_ref().map(|status| status.state);
        steps.push(steps::source(entry, state, breaker.as_ref()));
        steps
    }

    /// Whether the account of a call by `who` is connected, if the source uses accounts.
    async fn connection_step(
        &self,
        snapshot: &Snapshot,
        who: &Principal,
        entry: &Entry,
        to: ExplanationReader,
    ) -> Option<Step> {
        let need = snapshot.sources.get(&entry.source)?.credential_for(entry);
        let CredentialNeed::Account { source, account, .. } = &need else { return None };
        let credentials = &self.inner.pipeline.credentials;
        let found = credentials.find(&need, who.credential_caller()).await;
        let lacks = |own: &OwnTools| !own.has(entry.resource());
        let lacks = found.is_ok() && snapshot.own.known(who).as_deref().is_some_and(lacks);
        let uses = match account.of {
            _ if account.exchange.is_some() && who.presented().is_some() => UsedAccount::Exchanged,
            AccountOf::Principal => UsedAccount::Own,
            AccountOf::Tenant => UsedAccount::Tenant,
        };
        Some(steps::connection(source, uses, &found, lacks, to))
    }

    /// The credential of a call by `who`, if the source of the tool requires one.
    async fn credential_step(
        &self,
        snapshot: &Snapshot,
        who: &Principal,
        entry: &Entry,
        to: ExplanationReader,
    ) -> Option<Step> {
        let need = snapshot.sources.get(&entry.source)?.credential_for(entry);
        let CredentialNeed::Stored { reference, .. } = &need else { return None };
        let credentials = &self.inner.pipeline.credentials;
        let found = credentials.find(&need, who.credential_caller()).await;
        Some(steps::credential(reference, &found, to))
    }

    /// Explains a caller's list. Reads every tool, so it is for commands instead of requests.
    fn explain_list(&self, snapshot: &Snapshot, who: &Principal) -> Explanation {
        let mut counts = steps::Counts::default();
        let decider = snapshot.explained_decider(who);
        for entry in snapshot.catalog.entries() {
            counts.add(&decider.authorize(who.subject(), entry.resource()));
        }
        let quarantined = snapshot.quarantined.entries().iter();
        counts.quarantined = quarantined.filter(|entry| entry.tenants.admits(&who.tenant)).count();
        let mut steps = counts.steps(MAX_MISSING);
        steps.push(self.sources_step(who));
        listed(who, counts.visible, steps)
    }

    fn explain_own_list(&self, snapshot: &Snapshot, who: &Principal) -> Explanation {
        let view = snapshot.catalog.view(&snapshot.explained_decider(who), who.subject());
        let visible = view.entries().len();
        let (result, message) = match (who.scopes.is_empty(), visible) {
            (_, 0) if !snapshot.shared_view(who).entries().is_empty() => {
                (StepResult::Stop, "its own accounts have none of the tools that its scopes reach")
            }
            (_, 1..) => (StepResult::Pass, "its scopes reach the tools of its lists"),
            (true, 0) => (
                StepResult::Stop,
                "it holds no scopes, so its lists only show tools that require no scope",
            ),
            (false, 0) => (
                StepResult::Stop,
                "its scopes permit no visible tool; request scopes from the creator of its key",
            ),
        };
        let mut steps = vec![Step::new(StepName::Scope, result, message)];
        if SEES_SOURCES.is_held_by(who) {
            steps.push(self.sources_step(who));
        }
        listed(who, visible, steps)
    }

    /// The sources of a tenant that have not listed their tools or are unavailable.
    fn sources_step(&self, who: &Principal) -> Step {
        let sources = self.supply().reports_for(&who.tenant);
        let away: Vec<Value> = sources
            .iter()
            .filter(|source| {
                source.status.state != SourceState::Ready || source.discovered_at.is_none()
            })
            .map(|source| {
                json!({
                    "id": source.id,
                    "state": source.status.state,
                    "listed": source.discovered_at.is_some(),
                })
            })
            .collect();
        let all = sources.len();
        let message = match (all, away.len()) {
            (0, _) => "this tenant has no source".to_owned(),
            (all, 0) => format!("all of its {all} sources answer and have listed their tools"),
            (all, away) => format!(
                "{away} of its {all} sources do not answer or have not listed their tools yet"
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
        auth: who.auth.word(),
        client_id: who.auth.client().map(|client| client.id.clone()),
        client_by: who.auth.client().map(|client| client.by),
        actors: who.auth.actors().to_vec(),
        grants: who.scopes.iter().map(ToString::to_string).collect(),
        tool: None,
        tools: None,
        outcome: Verdict::Unknown,
        steps: Vec::new(),
    }
}

/// The response about everything that a caller may not see.
fn unknown(who: &Principal) -> Explanation {
    let message = "this caller can see no tool of this name; a call gets the same response";
    let step = Step::new(StepName::Tool, StepResult::Stop, message);
    Explanation { steps: vec![step], ..base(who) }
}

fn explained(who: &Principal, entry: &Entry, steps: Vec<Step>) -> Explanation {
    let stopped = |name: StepName| {
        steps.iter().any(|step| step.step == name && step.result == StepResult::Stop)
    };
    let any = |result: StepResult| steps.iter().any(|step| step.result == result);
    use StepName::{Connection, Credential, Pin, Policy, Quota, Rate, Scope, Source, Tenant};
    let denied = steps.iter().find(|step| step.step == Policy && step.result == StepResult::Stop);
    let by_arguments = denied.is_some_and(steps::is_by_arguments);
    let outcome = if [Tenant, Pin, Scope].into_iter().any(stopped)
        || (denied.is_some() && !by_arguments)
        || steps.iter().any(steps::is_lacking)
    {
        Verdict::Hidden
    } else if by_arguments || [Rate, Quota].into_iter().any(stopped) {
        Verdict::Denied
    } else if [Connection, Credential, Source].into_iter().any(stopped) {
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
