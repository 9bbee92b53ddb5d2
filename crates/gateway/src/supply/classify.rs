//! The rules of a source applied to one of its tools.

use toolcrib_core::{approval::Consent, catalog::Tenants, source::Discovered};

use crate::config::{Classification, SourceConfig, ToolRule};

/// The problems of rules that match no tool.
pub(crate) fn idle_rules(source: &SourceConfig, discovered: &Discovered) -> Vec<String> {
    let matches =
        |rule: &ToolRule| discovered.tools.iter().any(|tool| rule.glob.is_match(&tool.name));
    let idle = source.rules.iter().filter(|rule| !matches(rule));
    idle.map(|rule| format!("rule \"{}\" matches no tool", rule.pattern)).collect()
}

/// The classification of the tool `name`: all rules that match it, later ones over earlier ones.
pub(crate) fn classify(source: &SourceConfig, name: &str) -> Classification {
    let mut set = Classification::default();
    for rule in source.rules.iter().filter(|rule| rule.glob.is_match(name)) {
        let Classification {
            tenants,
            scopes,
            safety_tier,
            egress,
            replay_policy,
            approval,
            consent,
            rate,
            burst,
            quota,
            timeout,
            cost_hint,
            latency_hint,
            hide,
        } = rule.set.clone();
        set.tenants = tenants.or(set.tenants);
        set.scopes = scopes.or(set.scopes);
        set.safety_tier = safety_tier.or(set.safety_tier);
        set.egress = egress.or(set.egress);
        set.replay_policy = replay_policy.or(set.replay_policy);
        set.approval = approval.or(set.approval);
        set.consent = Consent {
            when: consent.when.or(set.consent.when),
            quorum: consent.quorum.or(set.consent.quorum),
            role: consent.role.or(set.consent.role),
            scope: consent.scope.or(set.consent.scope),
            by_parts: consent.by_parts || set.consent.by_parts,
        };
        set.rate = rate.or(set.rate);
        set.burst = burst.or(set.burst);
        set.quota = quota.or(set.quota);
        set.timeout = timeout.or(set.timeout);
        set.cost_hint = cost_hint.or(set.cost_hint);
        set.latency_hint = latency_hint.or(set.latency_hint);
        set.hide = hide.or(set.hide);
    }
    set
}

/// The tenants that have the tool `name` of `source`.
pub(crate) fn tenants(source: &SourceConfig, name: &str) -> Tenants {
    narrowed(source, classify(source, name).tenants.as_ref())
}

pub(super) fn narrowed(source: &SourceConfig, rule: Option<&Tenants>) -> Tenants {
    rule.map_or_else(|| source.tenants.clone(), |rule| source.tenants.common(rule))
}
