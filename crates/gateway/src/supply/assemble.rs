//! Builds catalog entries from the tools of a source and the rules of its configuration.
//!
//! Invariant (I-13): tier, egress, replay policy, approval and scopes come from rules alone, never
//! from the claims of an upstream.

use std::sync::Arc;

use serde_json::Value;
use toolcrib_core::{
    arguments::ArgumentCheck,
    catalog::{Entry, WireCache},
    descriptor::{Auth, Egress, ReplayPolicy, SafetyTier, SourceKind, ToolDescriptor},
    id::ToolId,
    names,
    pin::{PinBook, PinForm},
    source::{Discovered, DiscoveredTool},
    text,
};

use super::{
    classify::{classify, idle_rules, narrowed},
    pins::{self, Verdict},
};
use crate::config::{Classification, GateConfig, PinMode, SourceConfig};

/// The entries of one source, and the problems of its tools and rules.
#[derive(Debug, Default)]
pub struct Assembled {
    /// The entries to offer.
    pub entries: Vec<Arc<Entry>>,
    /// The problems, for the operator.
    pub problems: Vec<String>,
    /// The entries that are left out until their current form is approved.
    pub quarantined: Vec<Arc<Entry>>,
}

/// Tools of which it is said one by one that their pins do not fit.
const MAX_PIN_PROBLEMS: usize = 20;

/// Longest title and description that are passed on, in characters.
const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 8_192;

/// Turns `discovered` into entries under the rules of `source` and the pins of its tools.
pub fn assemble(
    source: &SourceConfig,
    gate: &GateConfig,
    discovered: &Discovered,
    book: Option<&PinBook>,
) -> Assembled {
    let problems = discovered.problems.clone();
    let mut assembled = Assembled { entries: Vec::new(), problems, quarantined: Vec::new() };
    let mut unfit = Vec::new();
    for tool in &discovered.tools {
        let mut set = classify(source, &tool.name);
        if set.hide == Some(true) {
            continue;
        }
        if let (None, Some(wish)) = (set.rate, discovered.rates.get(&tool.name)) {
            set.rate = Some(Some(gate.rate.map_or(*wish, |usual| usual.slower(*wish))));
        }
        match entry(source, gate, discovered.version.as_deref(), tool, set) {
            Ok(entry) => {
                let digest = PinForm::of(tool).digest;
                let entry = Arc::new(Entry { digest: Some(digest), ..entry });
                let verdict = pins::verdict(source, book, &tool.name, digest);
                if verdict != Verdict::Approved {
                    unfit.push((entry.id.clone(), verdict));
                    if source.pins.mode == PinMode::Enforce {
                        assembled.quarantined.push(entry);
                        continue;
                    }
                }
                assembled.entries.push(entry);
            }
            Err(problem) => {
                assembled.problems.push(format!("tool {:?} is left out: {problem}", tool.name));
            }
        }
    }
    assembled.problems.extend(pin_problems(source, &unfit));
    assembled.problems.extend(idle_rules(source, discovered));
    assembled
}

fn pin_problems(source: &SourceConfig, unfit: &[(ToolId, Verdict)]) -> Vec<String> {
    let fate = match source.pins.mode {
        PinMode::Enforce => "is quarantined",
        PinMode::Warn | PinMode::Off => "is offered although",
    };
    if unfit.iter().any(|(_, verdict)| *verdict == Verdict::Unknown) {
        return vec![format!(
            "its pins cannot be read, so that nobody knows what was approved of its {} tools; \
             each of them {}",
            unfit.len(),
            if source.pins.mode == PinMode::Enforce { fate } else { "is offered" },
        )];
    }
    let shown = unfit.iter().take(MAX_PIN_PROBLEMS).map(|(id, verdict)| {
        let colon = if source.pins.mode == PinMode::Enforce { ":" } else { "" };
        let why = match verdict {
            Verdict::New => "nobody has approved it",
            _ => "it has changed since it was approved",
        };
        format!("{id} {fate}{colon} {why}; see `toolcrib tools diff {id}`")
    });
    let more = unfit.len().saturating_sub(MAX_PIN_PROBLEMS);
    let more = (more > 0).then(|| format!("and {more} more tools are not as they were approved"));
    shown.chain(more).collect()
}

pub(crate) fn entry(
    source: &SourceConfig,
    gate: &GateConfig,
    version: Option<&str>,
    tool: &DiscoveredTool,
    set: Classification,
) -> Result<Entry, String> {
    let id = names::tool_id(source.kind, &source.spec.id, &tool.name).map_err(|e| e.to_string())?;
    if is_protocol(source.kind) && names::promises_exec(&tool.name) {
        return Err(
            "its name promises to run commands, which only a host extension may do; rename it"
                .to_owned(),
        );
    }
    let input_schema = clean_value(tool.input_schema.as_ref());
    // Compiled from the schema that callers see, so that it is also the checked one.
    let arguments = ArgumentCheck::compile(input_schema.as_ref())
        .map_err(|error| format!("its input schema cannot be used: {error}"))?;
    let scopes = match set.scopes {
        Some(ref scopes) => scopes.clone(),
        None => vec![source.default_scope()?],
    };
    let usual = source.spec.upstream.usual();
    let tier = set.safety_tier.unwrap_or(usual.tier);
    let pure = tier == SafetyTier::Pure;
    let mut descriptor = ToolDescriptor::new(id.as_str(), source.kind, tier);
    descriptor.title = tool.title.as_deref().map(|text| clean(text, MAX_TITLE));
    descriptor.description = tool.description.as_deref().map(|text| clean(text, MAX_DESCRIPTION));
    let object = |schema: Option<Value>| match schema {
        Some(Value::Object(members)) => Some(members),
        _ => None,
    };
    descriptor.input_schema = object(input_schema);
    descriptor.output_schema = object(clean_value(tool.output_schema.as_ref()));
    descriptor.auth = Some(Auth {
        scopes: Some(scopes),
        credential_ref: source.spec.credential.as_ref().map(|_| true),
    });
    descriptor.egress = Some(set.egress.unwrap_or(match pure {
        true => Egress::None,
        false => usual.egress,
    }));
    descriptor.approval = Some(set.approval.unwrap_or(usual.approval));
    descriptor.replay_policy = Some(set.replay_policy.unwrap_or(ReplayPolicy::NonDeterministic));
    descriptor.cost_hint = set.cost_hint;
    descriptor.latency_hint = set.latency_hint;
    descriptor.check().map_err(|error| error.to_string())?;
    let local = local_name(source.kind, tool);
    Ok(Entry {
        names: names::names(&source.spec.id, local, version).styled(source.names, local),
        id,
        source: source.spec.id.clone(),
        upstream_name: tool.name.clone(),
        tenants: narrowed(source, set.tenants.as_ref()),
        transport: source.spec.upstream.transport(),
        quota: set.quota.flatten(),
        rate: set.rate.unwrap_or(gate.rate).map(|rate| match set.burst {
            Some(burst) => rate.with_burst(burst),
            None => rate,
        }),
        timeout: set.timeout.unwrap_or(gate.timeout),
        annotations: clean_value(tool.annotations.as_ref()),
        consent: set.consent(),
        arguments,
        digest: None,
        wire: WireCache::default(),
        tool: descriptor,
    })
}

/// Whether the tools of a kind have ids under the prefix of the protocol (RFC 0069).
fn is_protocol(kind: SourceKind) -> bool {
    match kind {
        SourceKind::NodePack | SourceKind::Workflow => true,
        SourceKind::Mcp | SourceKind::Connector | SourceKind::HostExtension => false,
    }
}

/// The name of a tool within its source. The type id of a node repeats the name of its pack, which
/// is the source.
fn local_name(kind: SourceKind, tool: &DiscoveredTool) -> &str {
    let pack =
        tool.raw.get("pack").and_then(Value::as_str).filter(|_| kind == SourceKind::NodePack);
    let rest = pack.and_then(|pack| tool.name.strip_prefix(pack)?.strip_prefix('.'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(&tool.name)
}

/// Untrusted text for people and models: nothing that is not seen, at most `max` characters.
fn clean(text: &str, max: usize) -> String {
    text.chars().filter(|c| *c != '\r' && !text::is_hidden(*c)).take(max).collect()
}

/// A schema or annotations without invisible characters.
fn clean_value(value: Option<&Value>) -> Option<Value> {
    let mut value = value?.clone();
    text::clean(&mut value);
    Some(value)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use toolcrib_core::descriptor::Approval;

    use super::*;
    use crate::config::{self, NoSecrets};

    fn source(tools: &str) -> (SourceConfig, GateConfig) {
        let text = format!(
            "[[source]]\nid = \"files\"\nkind = \"mcp\"\ncommand = [\"x\"]\npins = \"off\"\n{tools}"
        );
        let config = config::parse("test.toml", &text, Path::new("/"), &NoSecrets).unwrap();
        (config.sources[0].clone(), config.gate)
    }

    fn tool(name: &str, annotations: Value) -> DiscoveredTool {
        DiscoveredTool {
            name: name.to_owned(),
            title: None,
            description: Some("does\u{202e} it\u{200b}".to_owned()),
            input_schema: Some(json!({"type": "object"})),
            output_schema: None,
            annotations: Some(annotations),
            raw: json!({"name": name}),
        }
    }

    fn assembled(rules: &str, names: &[&str]) -> Assembled {
        let (source, gate) = source(rules);
        let hints = json!({"readOnlyHint": true, "destructiveHint": false});
        let tools = names.iter().map(|name| tool(name, hints.clone())).collect();
        assemble(&source, &gate, &Discovered { tools, ..Discovered::default() }, None)
    }

    /// I-13: an upstream that calls itself read-only is still unclassified.
    #[test]
    fn an_unclassified_tool_gets_the_cautious_defaults() {
        let made = assembled("", &["read_file"]);
        let tool = &made.entries[0].tool;
        assert_eq!(tool.tool_id, "mcp:files.read_file");
        assert_eq!(tool.safety_tier, SafetyTier::Write);
        assert_eq!(tool.egress, Some(Egress::HostMediated));
        assert_eq!(tool.replay_policy, Some(ReplayPolicy::NonDeterministic));
        let scopes = tool.auth.as_ref().unwrap().scopes.as_ref().unwrap();
        assert_eq!(serde_json::to_value(scopes).unwrap(), json!(["tools:files"]));
        assert_eq!(tool.description.as_deref(), Some("does it"));
    }

    #[test]
    fn later_rules_override_earlier_ones_member_by_member() {
        let rules = r#"
            [source.tools."*"]
            scopes = ["files:read"]
            safety_tier = "read"
            [source.tools."write_*"]
            scopes = ["files:write"]
            approval = "always"
            rate = "30/m"
            [source.tools."secret_*"]
            hide = true
            [source.tools."nothing_*"]
            safety_tier = "pure"
        "#;
        let made = assembled(rules, &["read_file", "write_file", "secret_file"]);
        let write = &made.entries[1];
        assert_eq!(made.entries.len(), 2, "hidden tools are left out");
        assert_eq!(made.entries[0].tool.approval, Some(Approval::Never));
        assert_eq!(write.tool.approval, Some(Approval::Always));
        assert_eq!(write.tool.safety_tier, SafetyTier::Read, "inherited from the first rule");
        assert_eq!(write.rate.unwrap().calls.get(), 30);
        assert_eq!(made.problems, ["rule \"nothing_*\" matches no tool"]);
    }

    #[test]
    fn a_tool_is_called_no_more_often_than_it_wants_unless_the_operator_says_so() {
        let (source, gate) = source("[source.tools.ruled]\nrate = \"100/s\"\n");
        let tools = ["ruled", "slow", "fast", "plain"].map(|name| tool(name, json!({}))).to_vec();
        let rates = [("ruled", "1/h"), ("slow", "1/h"), ("fast", "1000/s")]
            .map(|(name, rate)| (name.to_owned(), rate.parse().unwrap()));
        let found = Discovered { tools, rates: rates.into(), ..Discovered::default() };
        let made = assemble(&source, &gate, &found, None);
        let rate = |at: usize| made.entries[at].rate.unwrap();
        assert_eq!(rate(0), "100/s".parse().unwrap());
        assert_eq!(rate(1), "1/h".parse().unwrap());
        assert_eq!([Some(rate(2)), Some(rate(3))], [gate.rate; 2]);
    }

    #[test]
    fn a_tool_with_an_unusable_schema_is_left_out_and_reported() {
        let (source, gate) = source("");
        let mut bad = tool("bad", json!({}));
        bad.input_schema = Some(json!({"type": "no-such-type"}));
        let tools = vec![bad, tool("good", json!({}))];
        let made = assemble(&source, &gate, &Discovered { tools, ..Discovered::default() }, None);
        assert_eq!(made.entries.len(), 1);
        assert!(made.problems[0].starts_with("tool \"bad\" is left out"), "{:?}", made.problems);
    }
}
