//! Evaluates the steps of an explanation, one function for each.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use toolcrib_config::{ApprovalsConfig, policy_set::PolicySet};
use toolcrib_core::{
    approval::{self, ApprovalDecision},
    authorize::{CallContext, DenialReason},
    call::CallInput,
    catalog::{Entry, Tenants},
    credential::{AccountOf, CredentialRef, CredentialRefusal, FoundCredential, RefusalCause},
    descriptor::Approval,
    id::SourceId,
    principal::Principal,
    source::SourceState,
};

use super::step::{ExplanationReader, Step, StepName, StepResult};
use crate::{
    limits::quota::QuotaError,
    source_report::{BreakerReport, BreakerState},
    supply::ToolLocation,
};

/// The member of a policy's details for whether other arguments could pass.
const LISTED: &str = "listed";
/// The member of a connection's details for an account without the tool.
const LACKS: &str = "lacksTool";

pub(super) fn offered(entry: &Entry) -> Step {
    let message = format!("the source `{}` offers `{}`", entry.source, entry.id);
    let details = json!({
        "toolId": entry.id, "name": entry.names.wire, "otcId": entry.names.otc_id(),
        "source": entry.source,
    });
    Step::new(StepName::Tool, StepResult::Pass, message).with(details)
}

/// The step for a tool that is in no snapshot.
pub(super) fn not_offered(located: &ToolLocation) -> Step {
    let Some((tool, source)) = located.tool.as_ref().zip(located.source.as_ref()) else {
        let silent: Vec<String> = located.silent.iter().map(|id| format!("`{id}`")).collect();
        let message = match silent.is_empty() {
            true => "no source offers a tool of this name".to_owned(),
            false => format!(
                "no source offers a tool of this name; {} have not listed their tools yet",
                silent.join(", ")
            ),
        };
        return Step::new(StepName::Tool, StepResult::Stop, message);
    };
    let message = match (located.hidden, located.problems.first()) {
        (true, _) => format!("a rule of the source `{source}` hides `{tool}` (`hide = true`)"),
        (false, Some(problem)) => {
            format!("the source `{source}` has it, and it is left out: {problem}")
        }
        (false, None) => format!("the source `{source}` has `{tool}`, and it is left out"),
    };
    Step::new(StepName::Tool, StepResult::Stop, message)
}

pub(super) fn tenant(who: &Principal, entry: &Entry, to: ExplanationReader) -> Step {
    match (&entry.tenants, entry.tenants.admits(&who.tenant)) {
        (Tenants::All, _) if to == ExplanationReader::Operator => {
            Step::new(StepName::Tenant, StepResult::Pass, "it exists for every tenant")
        }
        (_, true) => {
            let message = format!("it exists for the tenant `{}`", who.tenant);
            Step::new(StepName::Tenant, StepResult::Pass, message)
        }
        (_, false) => {
            let message = format!(
                "it does not exist for the tenant `{}` (`tenants` of its source or of a rule, or another \
                 tool of the same name)",
                who.tenant
            );
            Step::new(StepName::Tenant, StepResult::Stop, message)
        }
    }
}

pub(super) fn pin(entry: &Entry, quarantined: bool) -> Step {
    match quarantined {
        false => Step::new(StepName::Pin, StepResult::Pass, "it is not quarantined"),
        true => {
            let message = format!(
                "it is quarantined: it changed since its approval, or was never approved; see \
                 `toolcrib tools diff {}`",
                entry.id
            );
            Step::new(StepName::Pin, StepResult::Stop, message)
        }
    }
}

/// The grant that covers each required scope.
pub(super) fn scope(who: &Principal, entry: &Entry) -> Step {
    let Some(required) = entry.tool.required_scopes() else {
        let message = "it has no scopes configured, so every call of it is denied";
        return Step::new(StepName::Scope, StepResult::Stop, message);
    };
    let held: Vec<(&str, Option<&str>)> = required
        .iter()
        .map(|scope| {
            let grant = who.scopes.iter().find(|grant| grant.covers(scope));
            (scope.as_str(), grant.map(|grant| grant.as_str()))
        })
        .collect();
    let details: Vec<Value> =
        held.iter().map(|(scope, grant)| json!({ "scope": scope, "grant": grant })).collect();
    let missing: Vec<&str> =
        held.iter().filter(|(_, grant)| grant.is_none()).map(|(scope, _)| *scope).collect();
    let (result, message) = if required.is_empty() {
        (StepResult::Pass, "it requires no scope".to_owned())
    } else if missing.is_empty() {
        let held = held
            .iter()
            .filter_map(|(scope, grant)| Some(format!("`{scope}` (by the grant `{}`)", (*grant)?)));
        (StepResult::Pass, format!("held: {}", held.collect::<Vec<_>>().join(", ")))
    } else {
        let missing: Vec<String> = missing.iter().map(|scope| format!("`{scope}`")).collect();
        (StepResult::Stop, format!("missing: {}", missing.join(", ")))
    };
    Step::new(StepName::Scope, result, message).with(json!({ "required": details }))
}

/// The decision of the policies about `call`, or about every call.
pub(super) fn policy(
    policies: &PolicySet,
    who: &Principal,
    entry: &Entry,
    call: Option<CallContext<'_>>,
    to: ExplanationReader,
) -> Step {
    let any = policies.judge(who.subject(), entry.resource(), None);
    let said = match call {
        Some(call) if any.allowed != Some(false) => {
            policies.judge(who.subject(), entry.resource(), Some(call))
        }
        _ => any.clone(),
    };
    let (result, message) = match said.allowed {
        Some(true) => (StepResult::Pass, "the policies permit it"),
        None => (StepResult::Depends, "the decision of the policies depends on the call"),
        Some(false) if any.allowed == Some(false) => {
            (StepResult::Stop, "the policies deny every call of it, so lists leave it out")
        }
        Some(false) => (StepResult::Stop, "the policies deny such a call"),
    };
    if to == ExplanationReader::Caller {
        // The names and the number of policies stay hidden.
        return Step::new(StepName::Policy, result, message);
    }
    let message = match (said.by.is_empty(), said.allowed) {
        (false, _) => format!("{message}: {}", said.by.join(", ")),
        (true, Some(false)) if said.errors.is_empty() => format!("{message}: no policy permits it"),
        (true, _) => message.to_owned(),
    };
    let details = json!({
        "policies": said.by, "errors": said.errors, LISTED: any.allowed != Some(false),
    });
    Step::new(StepName::Policy, result, message).with(details)
}

/// The step for a caller, which may not see the policies.
pub(super) fn denied_by_policy() -> Step {
    Step::new(StepName::Policy, StepResult::Stop, "the policies of the operator deny it")
}

/// Whether only the arguments are denied.
pub(super) fn is_by_arguments(step: &Step) -> bool {
    let listed = step.details.as_ref().and_then(|details| details.get(LISTED));
    listed.and_then(Value::as_bool).unwrap_or(false)
}

/// The rate limit of the tool. The bucket is neither read nor changed.
pub(super) fn rate(entry: &Entry) -> Step {
    let (message, details) = match entry.rate {
        None => ("its calls are not limited".to_owned(), Value::Null),
        Some(rate) => {
            let seconds = rate.period.as_secs();
            (
                format!("{} calls per {seconds} s of this principal", rate.calls),
                json!({ "calls": rate.calls, "periodSeconds": seconds, "burst": rate.burst }),
            )
        }
    };
    let step = Step::new(StepName::Rate, StepResult::Pass, message);
    if details.is_null() { step } else { step.with(details) }
}

/// The daily quotas. Reads the remaining calls without counting one.
pub(super) fn quota(calls: &[u32], left: Result<(), QuotaError>) -> Step {
    let most: Vec<String> = calls.iter().map(ToString::to_string).collect();
    let quota = format!("{} calls a day of this principal", most.join(" and "));
    let (result, message) = match left {
        Ok(()) => (StepResult::Pass, quota),
        Err(QuotaError::Exceeded { .. }) => {
            (StepResult::Stop, format!("{quota}, and they are used up for today"))
        }
        Err(QuotaError::Unavailable(_)) => {
            (StepResult::Stop, format!("{quota}, and they cannot be counted now"))
        }
    };
    Step::new(StepName::Quota, result, message).with(json!({ "callsPerDay": calls }))
}

/// The account that calls of a caller act with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UsedAccount {
    /// The one that the caller has connected.
    Own,
    /// The one of the tenant.
    Tenant,
    /// The one of the caller's token at its identity provider.
    Exchanged,
}

/// Whether the account that calls of the caller use is connected, and has the tool.
pub(super) fn connection(
    source: &SourceId,
    uses: UsedAccount,
    found: &Result<Option<FoundCredential>, CredentialRefusal>,
    lacks: bool,
    to: ExplanationReader,
) -> Step {
    let (result, message) = match (found, uses) {
        (Ok(_), _) if lacks => {
            (StepResult::Stop, "the caller's own account does not have this tool".to_owned())
        }
        (Ok(_), UsedAccount::Own) => {
            (StepResult::Pass, "calls act with the caller's own account".to_owned())
        }
        (Ok(_), UsedAccount::Tenant) => {
            (StepResult::Pass, "calls act with the account of the tenant".to_owned())
        }
        (Ok(_), UsedAccount::Exchanged) => {
            (StepResult::Pass, "the caller's token is exchanged for one of the service".to_owned())
        }
        (Err(CredentialRefusal { cause: RefusalCause::Credential(problem), .. }), _) => {
            (StepResult::Stop, problem.to_string())
        }
        (Err(_), _) => (StepResult::Stop, "the account cannot be read now".to_owned()),
    };
    let step = Step::new(StepName::Connection, result, message);
    let id = match found {
        Ok(found) => found.as_ref().map(|found| &found.id),
        Err(refusal) => refusal.id.as_ref(),
    };
    let of = match uses {
        UsedAccount::Own | UsedAccount::Exchanged => AccountOf::Principal,
        UsedAccount::Tenant => AccountOf::Tenant,
    };
    let mut details = json!({ "sourceId": source, "of": of });
    if let (true, Some(details)) = (lacks, details.as_object_mut()) {
        details.insert(LACKS.to_owned(), json!(true));
    }
    if let (ExplanationReader::Operator, Some(id), Some(details)) =
        (to, id, details.as_object_mut())
    {
        details.insert("id".to_owned(), json!(id));
    }
    step.with(details)
}

/// Whether the account of the caller does not have the tool.
pub(super) fn is_lacking(step: &Step) -> bool {
    step.details.as_ref().is_some_and(|details| details.get(LACKS).is_some())
}

/// The credential that the source of the tool requires, and whether it is there.
pub(super) fn credential(
    reference: &CredentialRef,
    found: &Result<Option<FoundCredential>, CredentialRefusal>,
    to: ExplanationReader,
) -> Step {
    let (result, problem) = match found {
        Ok(_) => (StepResult::Pass, None),
        Err(CredentialRefusal { cause: RefusalCause::Credential(problem), .. }) => {
            (StepResult::Stop, Some(problem.to_string()))
        }
        Err(_) => (StepResult::Stop, Some("the credential cannot be read now".to_owned())),
    };
    if to == ExplanationReader::Caller {
        // A call reveals no name of a credential.
        let message = problem.unwrap_or_else(|| "the tool's credential is stored".to_owned());
        return Step::new(StepName::Credential, result, message);
    }
    let name = &reference.name;
    let owner = found.as_ref().ok().and_then(Option::as_ref).map(|found| &found.owner);
    let principal = owner.map(|owner| owner.principal.as_ref());
    let message = match (problem, owner, principal) {
        (Some(problem), ..) => format!("credential `{name}`: {problem}"),
        (None, _, Some(Some(principal))) => {
            format!("calls are sent with the credential `{name}` of the principal `{principal}`")
        }
        (None, Some(owner), _) => {
            format!("calls are sent with the credential `{name}` of the tenant `{}`", owner.tenant)
        }
        (None, None, _) => format!("calls are sent with the credential `{name}`"),
    };
    let id = match found {
        Ok(found) => found.as_ref().map(|found| &found.id),
        Err(refusal) => refusal.id.as_ref(),
    };
    let kind = principal.map(|principal| if principal.is_some() { "principal" } else { "tenant" });
    let details = json!({ "name": name, "id": id, "owner": kind });
    Step::new(StepName::Credential, result, message).with(details)
}

/// Whether the call requires approval, and by whom.
pub(super) fn approval(
    config: &ApprovalsConfig,
    entry: &Entry,
    input: Option<&CallInput>,
    to: ExplanationReader,
) -> Step {
    let (declared, consent) = (entry.tool.approval, &entry.consent);
    let tier = entry.tool.safety_tier;
    let passes = |message: &str| Step::new(StepName::Approval, StepResult::Pass, message);
    match (declared, consent.by_parts) {
        (None | Some(Approval::Never), _) => return passes("no approval required"),
        (Some(_), true) => {
            return passes("each tool that it calls requests approval itself if required");
        }
        (Some(Approval::Conditional | Approval::Always), false) => {}
    }
    let asks = |input: &CallInput| {
        approval::decide(declared, consent, tier, input) == ApprovalDecision::Required
    };
    // Without conditions on arguments, all calls are alike.
    let of_arguments = declared == Some(Approval::Conditional)
        && consent
            .when
            .as_ref()
            .is_some_and(|when| !when.arguments.is_empty() && !when.tiers.contains(&tier));
    let result = match input {
        None if of_arguments => StepResult::Depends,
        None if asks(&CallInput::default()) => StepResult::Ask,
        Some(input) if asks(input) => StepResult::Ask,
        None | Some(_) => return passes("no approval required for such a call"),
    };
    if to == ExplanationReader::Caller {
        let message = match result {
            StepResult::Depends => "depending on its arguments, a person has to consent",
            _ => {
                "a person has to consent; the call is answered with the approval that it waits for"
            }
        };
        return Step::new(StepName::Approval, result, message);
    }
    let quorum = config.required_quorum(consent);
    let scope = config.required_scope(consent);
    let role = consent.role.as_ref().map(|role| format!(" and the role `{role}`"));
    let who =
        format!("{quorum} other principal(s) with the scope `{scope}`{}", role.unwrap_or_default());
    let message = match result {
        StepResult::Depends => format!("depending on its arguments, consent is needed of {who}"),
        _ => format!("consent is needed of {who}"),
    };
    let details = json!({ "quorum": quorum, "scope": scope, "role": consent.role });
    Step::new(StepName::Approval, result, message).with(details)
}

pub(super) fn source(
    entry: &Entry,
    state: Option<SourceState>,
    breaker: Option<&BreakerReport>,
) -> Step {
    let id = &entry.source;
    let open = breaker.is_some_and(|breaker| breaker.state == BreakerState::Open);
    let (result, message) = match state {
        Some(SourceState::Ready) if open => (
            StepResult::Stop,
            format!("the source `{id}` failed too often; its circuit breaker is open"),
        ),
        Some(SourceState::Ready) => (StepResult::Pass, format!("the source `{id}` answers")),
        Some(state) => (
            StepResult::Stop,
            format!(
                "the source `{id}` does not answer now ({})",
                json!(state).as_str().unwrap_or("away")
            ),
        ),
        None => (StepResult::Stop, format!("the source `{id}` is gone")),
    };
    Step::new(StepName::Source, result, message)
}

/// The decisions about the tools of a catalog for one principal.
#[derive(Default)]
pub(super) struct Counts {
    all: usize,
    foreign: usize,
    unlabelled: usize,
    by_policy: usize,
    by_account: usize,
    undecided: usize,
    missing: BTreeMap<String, usize>,
    pub(super) quarantined: usize,
    pub(super) visible: usize,
}

impl Counts {
    pub(super) fn add(&mut self, decided: &Result<(), DenialReason>) {
        self.all += 1;
        match decided {
            Ok(()) => self.visible += 1,
            Err(DenialReason::Tenant) => self.foreign += 1,
            Err(DenialReason::Unlabelled) => self.unlabelled += 1,
            Err(DenialReason::MissingScopes(missing)) => {
                // Each tool counts once.
                let first = missing.first().map(ToString::to_string).unwrap_or_default();
                *self.missing.entry(first).or_default() += 1;
            }
            Err(DenialReason::Policy | DenialReason::Arguments) => self.by_policy += 1,
            Err(DenialReason::Account) => self.by_account += 1,
            Err(DenialReason::Undecided(_)) => self.undecided += 1,
        }
    }

    /// One step per reason, whether it removed tools or not.
    pub(super) fn steps(&self, most: usize) -> Vec<Step> {
        let step = |name, left: usize, gone: usize, message: String| {
            // The step that removes the last tool stops.
            let result = if left == 0 && gone > 0 { StepResult::Stop } else { StepResult::Pass };
            Step::new(name, result, message)
        };
        let mut left = self.all;
        let tool = match left {
            0 => Step::new(StepName::Tool, StepResult::Stop, "no source offers any tool now"),
            all => Step::new(StepName::Tool, StepResult::Pass, format!("{all} tools are offered")),
        };
        left -= self.foreign;
        let message = format!("{} of them do not exist for this tenant", self.foreign);
        let tenant = step(StepName::Tenant, left, self.foreign, message);
        let message = format!("{} more are quarantined", self.quarantined);
        let pin = Step::new(StepName::Pin, StepResult::Pass, message);
        let lacking: usize = self.missing.values().sum();
        left -= lacking + self.unlabelled + self.undecided;
        let mut missing: Vec<(&String, &usize)> = self.missing.iter().collect();
        missing.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
        let words: Vec<String> = missing
            .iter()
            .take(most)
            .map(|(scope, tools)| format!("`{scope}` ({tools})"))
            .collect();
        let message = match words.is_empty() {
            true => "no scope is missing".to_owned(),
            false => format!("{lacking} require missing scopes: {}", words.join(", ")),
        };
        let details: serde_json::Map<String, Value> =
            missing.iter().map(|(scope, tools)| ((*scope).clone(), json!(tools))).collect();
        let gone = lacking + self.unlabelled + self.undecided;
        let scope = step(StepName::Scope, left, gone, message).with(json!({ "missing": details }));
        left -= self.by_policy;
        let message = format!("{} are left out by policies", self.by_policy);
        let policy = step(StepName::Policy, left, self.by_policy, message);
        let mut steps = vec![tool, tenant, pin, scope];
        if self.by_policy > 0 {
            steps.push(policy);
        }
        if self.by_account > 0 {
            left -= self.by_account;
            let message = format!("the caller's own accounts do not have {}", self.by_account);
            steps.push(step(StepName::Connection, left, self.by_account, message));
        }
        steps
    }
}
