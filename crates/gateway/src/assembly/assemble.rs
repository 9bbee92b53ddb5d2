//! Builds catalog entries from the tools of a source and the rules of its configuration.
//!
//! Invariant (I-13): tier, egress, replay policy, approval and scopes come from rules alone, never
//! from the claims of an upstream.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet},
    hash::{Hash, Hasher},
    sync::Arc,
};

use serde_json::Value;
use toolcrib_config::{Classification, GateConfig, PinMode, SourceConfig};
use toolcrib_core::{
    arguments::{ArgumentCheck, SchemaError, Validators},
    catalog::{Entry, WireCache},
    descriptor::{Auth, Egress, ReplayPolicy, SafetyTier, SourceKind, ToolDescriptor},
    limit::Rate,
    names,
    schema::Schema,
    source::DiscoveredOffer,
    text,
};

use crate::{
    assembly::pinned::{self, SourcePins, Verdict},
    assembly::{
        classify::{classify, idle_rules, narrowed},
        listed::{ListedOffer, OfferList},
        schemas,
    },
};

/// The entries of one source, and the problems of its tools and rules.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    /// The entries to offer.
    pub(crate) entries: Vec<Arc<Entry>>,
    /// The problems, for the operator.
    pub(crate) problems: Vec<String>,
    /// The entries that are left out until their current form is approved.
    pub(crate) quarantined: Vec<Arc<Entry>>,
    /// The tools of all these entries.
    pub(crate) made: EntryCache,
}

/// The entries of the tools of one source, kept for the next assembly.
#[derive(Debug, Default)]
pub(crate) struct EntryCache {
    /// The other inputs of the entries, in addition to their tools.
    basis: Option<Basis>,
    entries: Vec<CachedEntry>,
}

#[derive(Debug)]
struct CachedEntry {
    tool: Arc<ListedOffer>,
    entry: Arc<Entry>,
    notes: Arc<[String]>,
}

/// An entry, and the differences from the listed tool.
#[derive(Debug)]
pub(crate) struct EntryWithNotes {
    pub(crate) entry: Entry,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone)]
struct Basis {
    source: Arc<SourceConfig>,
    gate: GateConfig,
    version: Option<String>,
    rates: BTreeMap<String, Rate>,
}

/// The inputs for the entries of one source.
pub(crate) struct Assembler<'a> {
    pub(crate) source: &'a Arc<SourceConfig>,
    gate: &'a GateConfig,
    validators: &'a Arc<Validators>,
    checked: RefCell<SchemaCache>,
}

/// The checked schemas of a list; equal schemas are kept once.
#[derive(Default)]
struct SchemaCache {
    inputs: HashMap<SchemaAddress, CompiledInput>,
    /// The output schemas that callers see unchanged.
    outputs: HashSet<SchemaAddress>,
}

/// A text, compared by its address: equal texts at two addresses count as different.
struct SchemaAddress(Schema);

/// The compiled check of an input schema, and the patterns that it leaves out.
type CompiledInput = (ArgumentCheck, Vec<String>);

/// Tools with a separate problem about their pins.
const MAX_PIN_PROBLEMS: usize = 20;

/// Longest title and description that are passed on, in characters.
const MAX_TITLE: usize = 200;
const MAX_DESCRIPTION: usize = 8_192;
/// Longest part of a pattern that a problem shows, in characters.
const MAX_PATTERN: usize = 80;

impl<'a> Assembler<'a> {
    pub(crate) fn new(
        source: &'a Arc<SourceConfig>,
        gate: &'a GateConfig,
        validators: &'a Arc<Validators>,
    ) -> Self {
        Self { source, gate, validators, checked: RefCell::default() }
    }

    /// Builds entries from `listed`, the rules of the source and the pins of its tools. Reuses the
    /// entries of `before` whose tools and rules are the same.
    pub(crate) fn assemble(
        &self,
        listed: &OfferList,
        pins: Option<&SourcePins>,
        before: &EntryCache,
    ) -> Assembly {
        let source = self.source;
        let mut assembled = Assembly { problems: listed.problems.clone(), ..Assembly::default() };
        let known = before.known(self, listed);
        let mut unfit = Vec::new();
        for tool in &listed.offers {
            let (entry, notes) = match known.get(&Arc::as_ptr(tool)) {
                Some(made) => (Arc::clone(&made.entry), Arc::clone(&made.notes)),
                None => match self.listed_entry(listed, tool) {
                    None => continue,
                    Some(Ok(EntryWithNotes { entry, notes })) => (Arc::new(entry), notes.into()),
                    Some(Err(problem)) => {
                        let (kind, name) = (tool.kind, &tool.name);
                        let problem = format!("{kind} {name:?} is left out: {problem}");
                        assembled.problems.push(problem);
                        continue;
                    }
                },
            };
            let (kind, name) = (tool.kind, &tool.name);
            let about = notes.iter().map(|note| format!("{kind} {name:?}: {note}"));
            assembled.problems.extend(about);
            let (tool, made) = (Arc::clone(tool), Arc::clone(&entry));
            let book = pins.map(|pins| &pins.book);
            let verdict = pinned::verdict(source, book, &tool.key(), tool.digest);
            assembled.made.entries.push(CachedEntry { tool, entry: made, notes });
            if verdict != Verdict::Approved {
                unfit.push((Arc::clone(&entry), verdict));
                if source.pins.mode == PinMode::Enforce {
                    assembled.quarantined.push(entry);
                    continue;
                }
            }
            assembled.entries.push(entry);
        }
        assembled.made.basis = Some(Basis::of(self, listed));
        assembled.problems.extend(pin_problems(source, pins, &unfit));
        assembled.problems.extend(idle_rules(source, listed));
        assembled
    }

    /// The entry of `tool`; `None` if a rule hides it.
    fn listed_entry(
        &self,
        listed: &OfferList,
        tool: &ListedOffer,
    ) -> Option<Result<EntryWithNotes, String>> {
        let mut set = classify(self.source, &tool.name);
        if set.hide == Some(true) {
            return None;
        }
        if let (None, Some(wish)) = (set.rate, listed.rates.get(&tool.name)) {
            set.rate = Some(Some(self.gate.rate.map_or(*wish, |usual| usual.slower(*wish))));
        }
        let discovered = tool.discovered()?;
        let made = self.entry(listed.version.as_deref(), &discovered, Some(tool), set);
        let pinned = (self.source.pins.mode == PinMode::Enforce).then_some(tool.digest);
        Some(made.map(|EntryWithNotes { entry, notes }| EntryWithNotes {
            entry: Entry { digest: Some(tool.digest), pinned, ..entry },
            notes,
        }))
    }
}

impl EntryCache {
    /// The entries that `assembler` would build again unchanged, by the address of their tool.
    fn known(
        &self,
        assembler: &Assembler<'_>,
        listed: &OfferList,
    ) -> HashMap<*const ListedOffer, &CachedEntry> {
        let same = self.basis.as_ref().is_some_and(|basis| basis.is_of(assembler, listed));
        let entries = self.entries.iter().filter(|_| same);
        entries.map(|made| (Arc::as_ptr(&made.tool), made)).collect()
    }
}

impl Basis {
    fn of(assembler: &Assembler<'_>, listed: &OfferList) -> Self {
        Self {
            source: Arc::clone(assembler.source),
            gate: assembler.gate.clone(),
            version: listed.version.clone(),
            rates: listed.rates.clone(),
        }
    }

    fn is_of(&self, assembler: &Assembler<'_>, listed: &OfferList) -> bool {
        Arc::ptr_eq(&self.source, assembler.source)
            && self.gate == *assembler.gate
            && self.version == listed.version
            && self.rates == listed.rates
    }
}

fn pin_problems(
    source: &SourceConfig,
    pins: Option<&SourcePins>,
    unfit: &[(Arc<Entry>, Verdict)],
) -> Vec<String> {
    let fate = match source.pins.mode {
        PinMode::Enforce => "is quarantined",
        PinMode::Warn | PinMode::Off => "is offered although",
    };
    if unfit.iter().any(|(_, verdict)| *verdict == Verdict::Unknown) {
        return vec![format!(
            "its pins cannot be read, so its {} tools are unverified; \
             each of them {}",
            unfit.len(),
            if source.pins.mode == PinMode::Enforce { fate } else { "is offered" },
        )];
    }
    let shown = unfit.iter().take(MAX_PIN_PROBLEMS).map(|(entry, verdict)| {
        let id = &entry.id;
        let enforced = source.pins.mode == PinMode::Enforce;
        let colon = if enforced { ":" } else { "" };
        let see = format!("see `toolcrib tools diff {id}`");
        if *verdict == Verdict::New {
            return format!("{id} {fate}{colon} it was never approved; {see}");
        }
        let change = pins.map(|pins| pins.change(&entry.key(), id, enforced));
        let (change, remedy) = change.unwrap_or((pinned::SOMEWHERE, None));
        let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        format!("{id} {fate}{colon} {change} since it was approved; {see}{remedy}")
    });
    let more = unfit.len().saturating_sub(MAX_PIN_PROBLEMS);
    let more =
        (more > 0).then(|| format!("and {more} more tools differ from their approved forms"));
    shown.chain(more).collect()
}

impl Assembler<'_> {
    /// Builds the entry of `tool`; `listed` is its stored form.
    pub(crate) fn entry(
        &self,
        version: Option<&str>,
        tool: &DiscoveredOffer,
        listed: Option<&ListedOffer>,
        set: Classification,
    ) -> Result<EntryWithNotes, String> {
        let Self { source, gate, .. } = *self;
        let id = names::offer_id(tool.offer.kind(), source.kind, &source.spec.id, &tool.name)
            .map_err(|error| error.to_string())?;
        if source.kind.traits().has_protocol_ids && names::promises_exec(&tool.name) {
            return Err(
                "its name promises to run commands, which only a host extension may do; rename it"
                    .to_owned(),
            );
        }
        let mut notes = Vec::new();
        let input = tool.input_schema.as_ref().map(text::cleaned);
        if input.as_deref().is_some_and(schemas::refuses_objects) {
            return Err("its input schema accepts no object, and arguments are one".to_owned());
        }
        let input_schema = kept(input.as_ref(), listed.and_then(|listed| listed.input.as_ref()))?;
        // Compiled from the schema that callers see, so both agree. Only properties with a
        // default may be missing: many upstreams list them as required anyway.
        let relaxed = input.as_deref().filter(|_| source.kind.traits().defaults_are_optional);
        let relaxed = relaxed.and_then(schemas::without_defaulted);
        let relaxed_text = relaxed.as_ref().map(written).transpose()?.flatten();
        let checked = relaxed.as_ref().or(input.as_deref());
        let arguments = match (checked, relaxed_text.as_ref().or(input_schema.as_ref())) {
            (Some(input), Some(text)) => self.compile_on_use(input, text),
            (input, _) => ArgumentCheck::compile(input).map(|check| (check, Vec::new())),
        };
        let (arguments, unchecked) =
            arguments.map_err(|error| format!("its input schema cannot be used: {error}"))?;
        notes.extend(unchecked.iter().map(|pattern| {
            let pattern: String = pattern.chars().take(MAX_PATTERN).collect();
            format!("arguments are not checked against the pattern {pattern:?} of its input schema")
        }));
        let output = tool.output_schema.as_ref().map(text::cleaned);
        let output = self.output(output, listed.and_then(|listed| listed.output.as_ref()));
        let output_schema = output.unwrap_or_else(|problem| {
            notes.push(format!("its output schema is left out: {problem}"));
            None
        });
        if tool.description.as_deref().is_some_and(|text| is_longer(text, MAX_DESCRIPTION)) {
            notes.push(format!("its description is cut after {MAX_DESCRIPTION} characters"));
        }
        let scopes = match set.scopes {
            Some(ref scopes) => scopes.clone(),
            None => vec![source.default_scope()?],
        };
        let usual = source.spec.upstream.usual();
        let tier = set.safety_tier.unwrap_or(usual.tier);
        let pure = tier == SafetyTier::Pure;
        let mut descriptor = ToolDescriptor::new(id.as_str(), source.kind, tier);
        descriptor.title = tool.title.as_deref().map(|text| clean(text, MAX_TITLE));
        descriptor.description =
            tool.description.as_deref().map(|text| clean(text, MAX_DESCRIPTION));
        descriptor.input_schema = input_schema;
        descriptor.output_schema = output_schema;
        descriptor.auth = Some(Auth {
            scopes: Some(scopes),
            credential_ref: source.spec.credential.as_ref().map(|_| true),
        });
        descriptor.egress = Some(set.egress.unwrap_or(match pure {
            true => Egress::None,
            false => usual.egress,
        }));
        descriptor.approval = Some(set.approval.unwrap_or(usual.approval));
        descriptor.replay_policy =
            Some(set.replay_policy.unwrap_or(ReplayPolicy::NonDeterministic));
        descriptor.cost_hint = set.cost_hint;
        descriptor.latency_hint = set.latency_hint;
        descriptor.check().map_err(|error| error.to_string())?;
        let local = local_name(source.kind, tool);
        let entry = Entry {
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
            annotations: tool
                .annotations
                .as_ref()
                .map(|annotations| text::cleaned(annotations).into_owned()),
            consent: set.consent(),
            arguments,
            digest: None,
            program: source.spec.upstream.program(&tool.name),
            pinned: None,
            wire: WireCache::default(),
            offer: tool.offer.clone(),
            tool: descriptor,
        };
        Ok(EntryWithNotes { entry, notes })
    }
}

impl Assembler<'_> {
    /// Compiles the check of `schema`, whose text is `text`, or reuses an equal one.
    fn compile_on_use(&self, schema: &Value, text: &Schema) -> Result<CompiledInput, SchemaError> {
        let one = SchemaAddress(text.clone());
        let mut checked = self.checked.borrow_mut();
        if let Some(known) = checked.inputs.get(&one) {
            return Ok(known.clone());
        }
        let compiled = ArgumentCheck::compile_on_use(schema, text, self.validators)?;
        checked.inputs.insert(one, compiled.clone());
        Ok(compiled)
    }

    /// An output schema as callers see it. The error is the reason to leave it out.
    fn output(
        &self,
        schema: Option<Cow<'_, Value>>,
        listed: Option<&Schema>,
    ) -> Result<Option<Schema>, String> {
        let Some(schema) = schema else { return Ok(None) };
        let as_listed = listed.filter(|_| matches!(schema, Cow::Borrowed(_)));
        let one = as_listed.cloned().map(SchemaAddress);
        if let Some(one) = one.as_ref().filter(|one| self.checked.borrow().outputs.contains(one)) {
            return Ok(Some(one.0.clone()));
        }
        let output = schemas::output(schema)?;
        if let (Cow::Borrowed(_), Some(one)) = (&output, one) {
            self.checked.borrow_mut().outputs.insert(one);
        }
        kept(Some(&output), listed)
    }
}

impl PartialEq for SchemaAddress {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_shared_with(&other.0)
    }
}

impl Eq for SchemaAddress {}

impl Hash for SchemaAddress {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.as_str().as_ptr().hash(state);
    }
}

/// The text of a schema in object form: the listed text if the schema is unchanged.
fn kept(
    schema: Option<&Cow<'_, Value>>,
    listed: Option<&Schema>,
) -> Result<Option<Schema>, String> {
    match (schema, listed) {
        (Some(Cow::Borrowed(_)), Some(listed)) => Ok(Some(listed.clone())),
        (schema, _) => schema.map_or(Ok(None), |schema| written(schema)),
    }
}

fn written(schema: &Value) -> Result<Option<Schema>, String> {
    let Value::Object(members) = schema else { return Ok(None) };
    Schema::new(members).map(Some).map_err(|error| error.to_string())
}

/// The name of a tool within its source. The type id of a node repeats the name of its pack, the source.
fn local_name(kind: SourceKind, tool: &DiscoveredOffer) -> &str {
    let pack = tool.raw.get("pack").and_then(Value::as_str).filter(|_| kind.traits().repeats_pack);
    let rest = pack.and_then(|pack| tool.name.strip_prefix(pack)?.strip_prefix('.'));
    rest.filter(|rest| !rest.is_empty()).unwrap_or(&tool.name)
}

/// Cleans untrusted text for people and models: no hidden characters, at most `max` characters.
fn clean(text: &str, max: usize) -> String {
    text.chars().filter(|c| *c != '\r' && !text::is_hidden(*c)).take(max).collect()
}

fn is_longer(text: &str, max: usize) -> bool {
    text.chars().nth(max).is_some()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;
    use toolcrib_config::{self as config, NoSecrets};
    use toolcrib_core::descriptor::Approval;

    use toolcrib_core::source::{Discovered, FormedOffer};

    use super::*;

    fn assemble(source: SourceConfig, gate: &GateConfig, discovered: Discovered) -> Assembly {
        let (source, validators) = (Arc::new(source), Arc::default());
        let assembler = Assembler::new(&source, gate, &validators);
        assembler.assemble(&OfferList::new(discovered, None).0, None, &EntryCache::default())
    }

    fn formed(tools: impl IntoIterator<Item = DiscoveredOffer>) -> Vec<FormedOffer> {
        tools.into_iter().map(FormedOffer::from).collect()
    }

    fn source(tools: &str) -> (SourceConfig, GateConfig) {
        let text = format!(
            "[[source]]\nid = \"files\"\nkind = \"mcp\"\ncommand = [\"x\"]\npins = \"off\"\n{tools}"
        );
        let config = config::parse("test.toml", &text, Path::new("/"), &NoSecrets).unwrap();
        (config.sources[0].clone(), config.gate)
    }

    fn tool(name: &str, annotations: Value) -> DiscoveredOffer {
        DiscoveredOffer {
            name: name.to_owned(),
            description: Some("does\u{202e} it\u{200b}".to_owned()),
            input_schema: Some(json!({"type": "object"})),
            annotations: Some(annotations),
            raw: json!({"name": name}),
            ..DiscoveredOffer::default()
        }
    }

    fn assembled(rules: &str, names: &[&str]) -> Assembly {
        let (source, gate) = source(rules);
        let hints = json!({"readOnlyHint": true, "destructiveHint": false});
        let tools = names.iter().map(|name| tool(name, hints.clone()));
        assemble(source, &gate, Discovered { offers: formed(tools), ..Discovered::default() })
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
        let found =
            Discovered { offers: formed(tools), rates: rates.into(), ..Discovered::default() };
        let made = assemble(source, &gate, found);
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
        let made =
            assemble(source, &gate, Discovered { offers: formed(tools), ..Discovered::default() });
        assert_eq!(made.entries.len(), 1);
        assert!(made.problems[0].starts_with("tool \"bad\" is left out"), "{:?}", made.problems);
    }

    #[test]
    fn a_tool_that_did_not_change_keeps_its_entry_and_shares_its_schemas() {
        let (source, gate) = source("");
        let (source, validators) = (Arc::new(source), Arc::default());
        let assembler = Assembler::new(&source, &gate, &validators);
        let schema = json!({ "type": "object", "required": ["a"] });
        let described = |input: &Value| {
            let tool = tool("changing", json!({}));
            let changing = DiscoveredOffer { input_schema: Some(input.clone()), ..tool.clone() };
            let name = "same".to_owned();
            let same = DiscoveredOffer { name, output_schema: Some(schema.clone()), ..tool };
            Discovered { offers: formed([changing, same]), ..Discovered::default() }
        };
        let hidden = json!({ "type": "object", "title": "a\u{200b}" });
        let (first, _) = OfferList::new(described(&schema), None);
        let (second, _) = OfferList::new(described(&hidden), Some(&first));
        let before = assembler.assemble(&first, None, &EntryCache::default());
        let after = assembler.assemble(&second, None, &before.made);
        let [one, other] = [&before, &after].map(|assembly| &assembly.entries);
        assert!(!Arc::ptr_eq(&one[0], &other[0]));
        assert!(Arc::ptr_eq(&one[1], &other[1]));
        let shared = |text: &Option<Schema>, listed: &Option<Schema>| {
            text.as_ref().unwrap().is_shared_with(listed.as_ref().unwrap())
        };
        assert!(shared(&one[0].tool.input_schema, &first.offers[0].input));
        assert!(shared(&one[1].tool.output_schema, &first.offers[1].output));
        // Callers see it without the hidden character, so it is another text.
        assert!(!shared(&other[0].tool.input_schema, &second.offers[0].input));
        let source = Arc::new(SourceConfig::clone(&source));
        let assembler = Assembler::new(&source, &gate, &validators);
        let reloaded = assembler.assemble(&second, None, &after.made);
        assert!(!Arc::ptr_eq(&reloaded.entries[1], &other[1]), "rules may have changed");
    }
}
