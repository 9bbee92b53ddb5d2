//! `[source.tools."glob"]`: the operator's settings for tools.

use globset::Glob;
use toml::Spanned;
use toolcrib_core::{
    catalog::Tenants,
    descriptor::{Approval, Egress, ReplayPolicy, SafetyTier, SourceKind},
    id::SourceId,
    scope::Scope,
};

use crate::config::{
    Classification, ToolRule,
    resolve::{Resolver, file, parse_duration, parse_quota, parse_rate},
};

impl Resolver<'_> {
    pub(super) fn rule(
        &mut self,
        id: &SourceId,
        kind: SourceKind,
        tenants: Option<&Tenants>,
        pattern: String,
        rule: Spanned<file::Tool>,
    ) -> Option<ToolRule> {
        let at = rule.span().start;
        let typed = rule.into_inner();
        let prefix = format!("source.{id}.tools.\"{pattern}\"");
        let key = |member: &str| format!("{prefix}.{member}");
        let glob = match Glob::new(&pattern) {
            Ok(glob) => glob.compile_matcher(),
            Err(error) => {
                self.complain(at, &prefix, format!("is not a glob: {}", error.kind()));
                return None;
            }
        };
        let only = match &typed.tenants {
            None => None,
            Some(only) => Some(self.narrowed(&key("tenants"), tenants, only)?),
        };
        let set = Classification {
            tenants: only,
            scopes: match &typed.scopes {
                None => None,
                Some(scopes) => Some(self.scopes(&key("scopes"), scopes, Scope::parse)?),
            },
            safety_tier: self.read(&key("safety_tier"), typed.safety_tier.as_ref(), str::parse),
            egress: self.read(&key("egress"), typed.egress.as_ref(), str::parse),
            replay_policy: self.read(
                &key("replay_policy"),
                typed.replay_policy.as_ref(),
                str::parse,
            ),
            approval: self.read(&key("approval"), typed.approval.as_ref(), str::parse),
            consent: self.consent(&key, &typed),
            rate: self.read(&key("rate"), typed.rate.as_ref(), parse_rate),
            quota: self.read(&key("quota"), typed.quota.as_ref(), parse_quota),
            burst: self.burst(&key("burst"), typed.burst.as_ref()),
            timeout: self.read(&key("timeout"), typed.timeout.as_ref(), parse_duration),
            cost_hint: self.read(&key("cost_hint"), typed.cost_hint.as_ref(), str::parse),
            latency_hint: self.read(&key("latency_hint"), typed.latency_hint.as_ref(), str::parse),
            hide: typed.hide,
        };
        if set.safety_tier == Some(SafetyTier::Exec) && kind != SourceKind::HostExtension {
            let message = "\"exec\" is only for kind \"host-extension\"; use \"write\"";
            self.complain(at, &key("safety_tier"), message);
        }
        if kind == SourceKind::HostExtension {
            self.command_rule(at, &key, &set, typed.approval_reason.as_deref());
        } else if typed.approval_reason.is_some() {
            let message = "is only for commands of a host extension";
            self.complain(at, &key("approval_reason"), message);
        }
        if set.safety_tier == Some(SafetyTier::Pure)
            && !matches!(set.egress, None | Some(Egress::None))
        {
            self.complain(at, &key("egress"), "a \"pure\" tool has no egress");
        }
        if set.replay_policy == Some(ReplayPolicy::Deterministic)
            && matches!(set.safety_tier, Some(SafetyTier::Write | SafetyTier::Exec))
        {
            let message = "a tool that changes state is not \"deterministic\"; use \"idempotent\" or \
                           \"non-deterministic\"";
            self.complain(at, &key("replay_policy"), message);
        }
        Some(ToolRule { pattern, glob, set })
    }

    /// Resolves the tenants of a rule, which must be a subset of its source's.
    fn narrowed(
        &mut self,
        key: &str,
        source: Option<&Tenants>,
        typed: &Spanned<Vec<String>>,
    ) -> Option<Tenants> {
        let at = typed.span().start;
        let narrowed = self.tenants(key, typed)?;
        let Tenants::Only(tenants) = &narrowed else { return Some(narrowed) };
        if tenants.is_empty() {
            self.complain(at, key, "is empty; write `hide = true` to leave the tools out");
        }
        if let Some(source) = source
            && let Some(other) = tenants.iter().find(|tenant| !source.admits(tenant))
        {
            let message =
                format!("a rule only narrows: `{other}` is not among the source's tenants");
            self.complain(at, key, message);
        }
        Some(narrowed)
    }

    /// Sets the tier of commands to `exec`; they require approval unless the operator gives a
    /// reason.
    fn command_rule(
        &mut self,
        at: usize,
        key: &dyn Fn(&str) -> String,
        set: &Classification,
        reason: Option<&str>,
    ) {
        if set.safety_tier.is_some_and(|tier| tier != SafetyTier::Exec) {
            let message = "a command is always of tier \"exec\"; leave `safety_tier` out";
            self.complain(at, &key("safety_tier"), message);
        }
        let asks = matches!(set.approval, None | Some(Approval::Always));
        if !asks && reason.is_none_or(|reason| reason.trim().is_empty()) {
            let message = "a command requires approval; to allow calls without it, give the reason \
                           as `approval_reason = \"…\"`";
            self.complain(at, &key("approval"), message);
        }
        if asks && reason.is_some() {
            let message = "has no effect, because the command requires approval";
            self.complain(at, &key("approval_reason"), message);
        }
    }
}
