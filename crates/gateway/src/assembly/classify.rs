//! Applies the rules of a source to one of its tools.

use toolcrib_config::{Classification, SourceConfig, ToolRule};
use toolcrib_core::catalog::Tenants;

use crate::assembly::listed::OfferList;

/// The problems of rules that match no tool.
pub(crate) fn idle_rules(source: &SourceConfig, listed: &OfferList) -> Vec<String> {
    let patterns = idle_patterns(source, listed);
    patterns.map(|pattern| format!("rule \"{pattern}\" matches no tool")).collect()
}

/// The patterns of rules that match no tool.
pub(crate) fn idle_patterns<'a>(
    source: &'a SourceConfig,
    listed: &OfferList,
) -> impl Iterator<Item = &'a str> {
    let matches = |rule: &ToolRule| listed.offers.iter().any(|tool| rule.glob.is_match(&tool.name));
    source.rules.iter().filter(move |rule| !matches(rule)).map(|rule| rule.pattern.as_str())
}

/// The classification of the tool `name`: later matching rules override earlier ones.
pub(crate) fn classify(source: &SourceConfig, name: &str) -> Classification {
    let rules = source.rules.iter().filter(|rule| rule.glob.is_match(name));
    rules.fold(Classification::default(), |set, rule| set.overridden_by(rule.set.clone()))
}

/// The tenants that have the tool `name` of `source`.
pub(crate) fn tenants(source: &SourceConfig, name: &str) -> Tenants {
    narrowed(source, classify(source, name).tenants.as_ref())
}

pub(crate) fn narrowed(source: &SourceConfig, rule: Option<&Tenants>) -> Tenants {
    rule.map_or_else(|| source.tenants.clone(), |rule| source.tenants.common(rule))
}
