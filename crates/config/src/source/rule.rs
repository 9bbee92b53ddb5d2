//! `[source.tools."glob"]`: the operator's settings for tools.

use std::{num::NonZeroU32, time::Duration};

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::Deserialize;
use toolcrib_core::{
    approval::{Condition, Consent},
    catalog::Tenants,
    descriptor::{Approval, Egress, Hint, ReplayPolicy, SafetyTier, SourceKind},
    limit::Rate,
    quota::Quota,
    scope::Scope,
};

use crate::{
    approvals::{self, ApprovalWhen},
    places::member,
    resolver::Resolver,
    scopes::RouteScope,
    units::{self as kind, Kind as _},
};

/// A rule: labels and limits of the tools whose names match the glob. All matching rules apply in
/// order; a later one overrides an earlier one, key by key
/// ([guide](../guides/teams.md#classify-tools)).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Classification {
    /// A subset of the source's tenants; for others the tool does not exist.
    #[schemars(extend("x-default" = "those of the source"))]
    pub tenants: Option<Tenants>,
    /// Scopes that a caller needs; an empty list requires no scope.
    #[schemars(extend("x-default" = "`tools:<source>`"))]
    pub scopes: Option<Vec<Scope>>,
    /// Effect of the tool.
    #[schemars(extend("x-default" = "`write`; `exec` for commands"))]
    pub safety_tier: Option<SafetyTier>,
    /// Reach of the tool outside. Other defaults: `none` for `pure` tools, `safe-fetch` for
    /// connectors, `host-owned` for commands.
    #[schemars(extend("x-default" = "`host-mediated`"))]
    pub egress: Option<Egress>,
    /// Whether a call may be repeated.
    #[schemars(extend("default" = "non-deterministic"))]
    pub replay_policy: Option<ReplayPolicy>,
    /// Whether a person must consent.
    #[schemars(extend("x-default" = "`never`; `always` for commands"))]
    pub approval: Option<Approval>,
    /// For commands: the reason for a lower approval.
    pub approval_reason: Option<String>,
    /// Conditions of `conditional`.
    #[serde(deserialize_with = "approvals::condition")]
    #[schemars(with = "Option<ApprovalWhen>", extend("x-default" = "every call"))]
    pub approval_when: Option<Condition>,
    /// Number of consents.
    #[serde(deserialize_with = "approvals::quorum")]
    #[schemars(extend("x-default" = "that of `[approvals]`"))]
    pub approval_quorum: Option<NonZeroU32>,
    /// Role that an approver needs in addition to the scope; one of `[[role]]`.
    pub approval_role: Option<String>,
    /// Scope that an approver needs.
    #[schemars(extend("x-default" = "`respond_scope`"))]
    pub approval_scope: Option<Scope>,
    /// Calls of each principal and tool.
    #[serde(with = "kind::Rate")]
    #[schemars(extend("x-default" = "that of `[gate]`"))]
    pub rate: Option<Option<Rate>>,
    /// Calls that may come at once.
    #[schemars(extend("x-default" = "the number in `rate`"))]
    pub burst: Option<NonZeroU32>,
    /// Calls of each principal and tool per UTC day, in addition to the principal's own.
    #[serde(with = "kind::Quota")]
    #[schemars(extend("x-default" = "not set"))]
    pub quota: Option<Option<Quota>>,
    /// Deadline of a call.
    #[serde(with = "kind::Duration")]
    #[schemars(extend("x-default" = "that of `[gate]`"))]
    pub timeout: Option<Duration>,
    /// Hint for callers.
    pub cost_hint: Option<Hint>,
    /// Hint for callers.
    pub latency_hint: Option<Hint>,
    /// The tool does not exist for callers.
    #[schemars(extend("default" = false))]
    pub hide: Option<bool>,
    /// Whether the tool only calls other tools, each of which requires approval by itself.
    #[serde(skip)]
    pub by_parts: bool,
}

/// One `[source.tools."glob"]`.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolRule {
    /// The glob as typed.
    pub pattern: String,
    /// Matches the tool's own name at its source.
    pub glob: GlobMatcher,
    /// The settings for matching tools.
    pub set: Classification,
}

impl Classification {
    /// The approval settings.
    pub fn consent(&self) -> Consent {
        Consent {
            when: self.approval_when.clone(),
            quorum: self.approval_quorum,
            role: self.approval_role.clone(),
            scope: self.approval_scope.clone(),
            by_parts: self.by_parts,
        }
    }

    /// These settings, overridden by those of `later`.
    #[must_use]
    pub fn overridden_by(self, later: Self) -> Self {
        Self {
            tenants: later.tenants.or(self.tenants),
            scopes: later.scopes.or(self.scopes),
            safety_tier: later.safety_tier.or(self.safety_tier),
            egress: later.egress.or(self.egress),
            replay_policy: later.replay_policy.or(self.replay_policy),
            approval: later.approval.or(self.approval),
            approval_reason: later.approval_reason.or(self.approval_reason),
            approval_when: later.approval_when.or(self.approval_when),
            approval_quorum: later.approval_quorum.or(self.approval_quorum),
            approval_role: later.approval_role.or(self.approval_role),
            approval_scope: later.approval_scope.or(self.approval_scope),
            rate: later.rate.or(self.rate),
            burst: later.burst.or(self.burst),
            quota: later.quota.or(self.quota),
            timeout: later.timeout.or(self.timeout),
            cost_hint: later.cost_hint.or(self.cost_hint),
            latency_hint: later.latency_hint.or(self.latency_hint),
            hide: later.hide.or(self.hide),
            by_parts: later.by_parts || self.by_parts,
        }
    }
}

impl ToolRule {
    /// Creates a rule that applies `set` to tools whose name matches the glob `pattern`.
    ///
    /// # Errors
    /// Fails when `pattern` is not a valid glob.
    pub fn new(pattern: &str, set: Classification) -> Result<Self, globset::Error> {
        let glob = Glob::new(pattern)?.compile_matcher();
        Ok(Self { pattern: pattern.to_owned(), glob, set })
    }
}

impl Resolver<'_> {
    /// Resolves a rule of the source `source`, which exists for `tenants`.
    pub(super) fn rule(
        &mut self,
        source: &str,
        kind: SourceKind,
        tenants: &Tenants,
        pattern: &str,
        set: Classification,
    ) -> Option<ToolRule> {
        let table = member(&format!("{source}.tools"), pattern);
        let key = |name: &str| format!("{table}.{name}");
        if let Some(only) = &set.tenants {
            self.check(&key("tenants"), check_narrowed(only, tenants));
        }
        self.known_roles(&key("approval_role"), &set.approval_role);
        let of_server =
            |scope: &&Scope| RouteScope::named(scope.as_str()).is_some_and(RouteScope::is_named);
        if let Some(scope) = set.scopes.iter().flatten().find(of_server) {
            // A wildcard would give the tool to callers without the right.
            let message = format!("`{scope}` is a right on the server, which no tool can require");
            self.complain(&key("scopes"), &message);
        }
        let runs_commands = kind.traits().runs_commands;
        if set.safety_tier == Some(SafetyTier::Exec) && !runs_commands {
            let message = "\"exec\" is only for kind \"host-extension\"; use \"write\"";
            self.complain(&key("safety_tier"), message);
        }
        if runs_commands {
            self.command_rule(&key, &set);
        } else if set.approval_reason.is_some() {
            let message = "is only for commands of a host extension";
            self.complain(&key("approval_reason"), message);
        }
        let is_pure = set.safety_tier == Some(SafetyTier::Pure);
        if is_pure && !matches!(set.egress, None | Some(Egress::None)) {
            self.complain(&key("egress"), "a \"pure\" tool has no egress");
        }
        if set.replay_policy == Some(ReplayPolicy::Deterministic)
            && matches!(set.safety_tier, Some(SafetyTier::Write | SafetyTier::Exec))
        {
            let message = "a tool that changes state is not \"deterministic\"; use \"idempotent\" or \
                           \"non-deterministic\"";
            self.complain(&key("replay_policy"), message);
        }
        let rule = ToolRule::new(pattern, set);
        self.check(&table, rule.map_err(|error| format!("is not a glob: {}", error.kind())))
    }

    /// Checks the rule of commands: their tier is `exec`, and they require approval unless the
    /// operator gives a reason.
    fn command_rule(&mut self, key: &dyn Fn(&str) -> String, set: &Classification) {
        if set.safety_tier.is_some_and(|tier| tier != SafetyTier::Exec) {
            let message = "a command is always of tier \"exec\"; leave `safety_tier` out";
            self.complain(&key("safety_tier"), message);
        }
        let is_approved = matches!(set.approval, None | Some(Approval::Always));
        let reason = set.approval_reason.as_deref();
        if !is_approved && reason.is_none_or(|reason| reason.trim().is_empty()) {
            let message = "a command requires approval; to allow calls without it, give the reason \
                           as `approval_reason = \"…\"`";
            self.complain(&key("approval"), message);
        }
        if is_approved && reason.is_some() {
            let message = "has no effect, because the command requires approval";
            self.complain(&key("approval_reason"), message);
        }
    }
}

/// Checks the tenants of a rule, which must be a subset of its source's.
fn check_narrowed(rule: &Tenants, source: &Tenants) -> Result<(), String> {
    let Tenants::Only(tenants) = rule else { return Ok(()) };
    if tenants.is_empty() {
        return Err("is empty; write `hide = true` to leave the tools out".to_owned());
    }
    match tenants.iter().find(|tenant| !source.admits(tenant)) {
        Some(other) => {
            Err(format!("a rule only narrows: `{other}` is not among the source's tenants"))
        }
        None => Ok(()),
    }
}
