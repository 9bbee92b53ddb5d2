//! Proposes rules for tools, derived from their names, hints and descriptions.
//!
//! Invariant (I-13): proposals never change a tool. A person decides whether to write them into the
//! configuration.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcrib_config::{
    SourceConfig,
    edit::{Change, EditAction},
};
use toolcrib_core::{
    id::{SourceId, TenantId},
    scope::Scope,
    source::DiscoveredOffer,
};

use super::Supply;
use crate::assembly::{classify::classify, listed::OfferList};

/// Tools of one rule; further tools are in further rules, to keep each one readable.
const MAX_TOOLS: usize = 40;
/// The most rules that are proposed for one source.
const MAX_RULES: usize = 20;

/// Words of tools that only read.
const READS: &[&str] = &[
    "count", "describe", "fetch", "find", "get", "inspect", "list", "lookup", "query", "read",
    "search", "show", "stat", "view",
];
/// Words of tools that change something.
const CHANGES: &[&str] = &[
    "add", "append", "apply", "assign", "cancel", "close", "commit", "copy", "create", "deploy",
    "edit", "exec", "execute", "import", "insert", "install", "invoke", "merge", "move", "patch",
    "pay", "post", "publish", "push", "put", "rename", "replace", "restart", "run", "save", "send",
    "set", "start", "stop", "submit", "transfer", "update", "upload", "write",
];
/// Words of tools whose effect cannot be undone.
const DESTROYS: &[&str] = &[
    "delete",
    "destroy",
    "drop",
    "erase",
    "format",
    "kill",
    "purge",
    "remove",
    "reset",
    "revoke",
    "terminate",
    "truncate",
    "uninstall",
    "wipe",
];
/// Phrases of descriptions of such tools, in lower case.
const IRREVERSIBLE: &[&str] =
    &["cannot be undone", "can't be undone", "irreversibl", "permanently delete"];

/// The effect that a tool claims in its own words, which are untrusted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Statement {
    /// It only reads.
    Reads,
    /// It changes something.
    Changes,
    /// It changes something that cannot be restored.
    Destroys,
    /// The words are inconclusive.
    Unknown,
}

/// A rule that matches the words of some tools.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RuleProposal {
    /// The source.
    #[schemars(with = "String")]
    pub source: SourceId,
    /// The source's own names of the tools.
    pub tools: Vec<String>,
    /// Why, in words.
    pub reason: String,
    /// The change of the configuration file.
    pub change: Change,
}

impl Supply {
    /// Proposes rules for the tools that no rule covers, of all sources or of those of `tenant`.
    pub fn proposed_rules(&self, tenant: Option<&TenantId>) -> Vec<RuleProposal> {
        let sources: Vec<_> = {
            let slots = self.slots.lock();
            let known = slots
                .slots
                .iter()
                .filter(|slot| tenant.is_none_or(|tenant| slot.config.tenants.admits(tenant)));
            known.filter_map(|slot| Some((slot.config.clone(), slot.listed.clone()?))).collect()
        };
        let proposals =
            sources.iter().flat_map(|(config, listed)| proposals(config, listed, tenant));
        proposals.collect()
    }
}

/// Proposes rules for the tools in `listed` that no rule of `source` covers.
pub(super) fn proposals(
    source: &SourceConfig,
    listed: &OfferList,
    tenant: Option<&TenantId>,
) -> Vec<RuleProposal> {
    if !source.kind.traits().has_proposals {
        return Vec::new();
    }
    let (mut reading, mut destroying) = (Vec::new(), Vec::new());
    for tool in listed.discovered() {
        let set = classify(source, &tool.name);
        let is_known = tenant
            .is_none_or(|tenant| set.tenants.as_ref().is_none_or(|tenants| tenants.admits(tenant)));
        if set.hide == Some(true) || !is_known {
            continue;
        }
        let (approval, tier) = (set.approval, set.safety_tier);
        match statement(&tool) {
            // Any setting, even `never`, is the operator's decision.
            Statement::Destroys if approval.is_none() => destroying.push(tool.name),
            Statement::Reads if tier.is_none() => reading.push(tool.name),
            _ => {}
        }
    }
    let destroying = rules(
        source,
        destroying,
        &json!({ "approval": "always" }),
        "Their names, hints or descriptions say that they delete or reset something. Each call \
         would require the approval of a person.",
    );
    let reading = rules(
        source,
        reading,
        &json!({ "safety_tier": "read" }),
        "Their names or hints say that they only read. They would be shown as reading tools; who \
         may use them stays the same.",
    );
    destroying.into_iter().chain(reading).take(MAX_RULES).collect()
}

/// The effect that the words of `tool` claim. If a hint contradicts the name, the name counts.
pub(super) fn statement(tool: &DiscoveredOffer) -> Statement {
    let words = words(&tool.name);
    let has = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let hint = |name: &str| tool.annotations.as_ref()?.get(name)?.as_bool();
    let description = tool.description.as_deref().unwrap_or_default().to_lowercase();
    if has(DESTROYS)
        || hint("destructiveHint") == Some(true) && hint("readOnlyHint") != Some(true)
        || IRREVERSIBLE.iter().any(|phrase| description.contains(phrase))
    {
        return Statement::Destroys;
    }
    if has(CHANGES) || hint("readOnlyHint") == Some(false) {
        return Statement::Changes;
    }
    let begins = words.first().is_some_and(|word| READS.contains(&word.as_str()));
    match hint("readOnlyHint") {
        Some(true) => Statement::Reads,
        Some(false) | None if begins => Statement::Reads,
        Some(false) | None => Statement::Unknown,
    }
}

/// The words of a name in snake, kebab or camel case, in lower case.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_after_lower = false;
    for c in name.chars() {
        if !c.is_alphanumeric() || c.is_uppercase() && is_after_lower {
            words.push(String::new());
        }
        if c.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(c.to_lowercase());
        }
        is_after_lower = c.is_lowercase() || c.is_numeric();
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The changes after which `tools` of `source` require only `scope`.
pub(crate) fn own_scope_rules(
    source: &SourceConfig,
    tools: Vec<String>,
    scope: &Scope,
) -> Vec<Change> {
    let proposals = rules(source, tools, &json!({ "scopes": [scope] }), "");
    proposals.into_iter().map(|proposal| proposal.change).collect()
}

fn rules(
    source: &SourceConfig,
    mut tools: Vec<String>,
    settings: &Value,
    reason: &str,
) -> Vec<RuleProposal> {
    tools.sort();
    tools.dedup();
    let rule = |tools: &[String]| {
        let name = pattern(tools);
        let is_known = source.rules.iter().any(|rule| rule.pattern == name);
        RuleProposal {
            source: source.spec.id.clone(),
            tools: tools.to_vec(),
            reason: reason.to_owned(),
            change: Change::of_rule(
                if is_known { EditAction::Set } else { EditAction::Add },
                &source.spec.id,
                &name,
                settings.as_object().cloned().unwrap_or_else(Map::new),
            ),
        }
    };
    tools.chunks(MAX_TOOLS).map(rule).collect()
}

/// A glob that matches exactly these names, so that later tools are not covered unseen.
fn pattern(tools: &[String]) -> String {
    let escaped = |name: &String| globset::escape(name).replace(',', "[,]");
    match tools {
        [one] => globset::escape(one),
        several => {
            let names: Vec<String> = several.iter().map(escaped).collect();
            format!("{{{}}}", names.join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tool(name: &str, description: &str, annotations: Value) -> DiscoveredOffer {
        DiscoveredOffer {
            name: name.to_owned(),
            description: Some(description.to_owned()),
            annotations: Some(annotations),
            raw: json!({}),
            ..DiscoveredOffer::default()
        }
    }

    #[test]
    fn the_words_of_a_tool_say_what_it_does() {
        use Statement::{Changes, Destroys, Reads, Unknown};
        for (name, hints, expected) in [
            ("list_files", json!({}), Reads),
            ("getUser", json!({}), Reads),
            ("list_deleted_items", json!({}), Reads),
            ("weather", json!({ "readOnlyHint": true }), Reads),
            ("weather", json!({}), Unknown),
            ("delete_file", json!({ "readOnlyHint": true }), Destroys),
            ("fileDelete", json!({}), Destroys),
            ("archive", json!({ "destructiveHint": true }), Destroys),
            ("archive", json!({ "readOnlyHint": true, "destructiveHint": true }), Reads),
            ("get_and_update", json!({ "readOnlyHint": true }), Changes),
            ("weather", json!({ "readOnlyHint": false }), Changes),
            ("weather", json!({ "readOnlyHint": "yes" }), Unknown),
            ("", json!({}), Unknown),
        ] {
            assert_eq!(statement(&tool(name, "", hints)), expected, "{name}");
        }
        let text = "This Cannot Be Undone.";
        assert_eq!(statement(&tool("archive", text, json!({}))), Destroys);
    }

    #[test]
    fn a_pattern_matches_its_names_and_no_other() {
        for names in [
            vec!["read_file"],
            vec!["a*", "b?"],
            vec!["x,y", "{z}", "[q]"],
            vec!["one", "two", "three"],
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            let glob = globset::Glob::new(&pattern(&names)).unwrap().compile_matcher();
            for name in &names {
                assert!(glob.is_match(name), "{name} in {names:?}");
            }
            for other in ["read_files", "ab", "x", "y", "z", "q", "one,two"] {
                assert!(!glob.is_match(other), "{other} in {names:?}");
            }
        }
    }
}
