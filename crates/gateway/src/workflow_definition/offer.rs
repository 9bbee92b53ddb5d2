//! Selects the workflows that a snapshot offers. This is done for each snapshot, because tools
//! change.
//!
//! Invariant (I-7): a workflow requires every scope of its steps, exists only for tenants that have
//! all of their tools, and is at least as strict as each of them in tier, egress, replay policy and
//! approval.
//! Invariant (I-14): a tool of tier `exec` cannot be a step, because a workflow cannot have that
//! tier.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use toolcrib_config::{Classification, GateConfig, SourceConfig};
use toolcrib_core::{
    arguments::Validators,
    canonical::{self, Digest},
    catalog::{Catalog, Entry, Tenants},
    descriptor::{Approval, Auth, Egress, ReplayPolicy, SafetyTier},
    id::{SourceId, ToolId},
    names,
    schema::Schema,
    scope::Scope,
    source::DiscoveredOffer,
};

use crate::{
    assembly::{
        assemble::{Assembler, EntryWithNotes},
        classify,
        listed::OfferList,
    },
    workflow_definition::{
        compat::{self, Schemas},
        files,
        plan::{Plan, Step},
    },
};

/// Levels of workflows inside workflows.
const MAX_NESTING: usize = 4;

/// A valid workflow.
pub(crate) struct Flow {
    tool: DiscoveredOffer,
    file: String,
    version: Option<String>,
    id: ToolId,
    plan: Arc<Plan>,
}

/// A workflow whose tools are in the snapshot.
pub(crate) struct RunnableWorkflow {
    pub(crate) plan: Arc<Plan>,
    pub(crate) digest: Option<Digest>,
}

/// The workflows of a snapshot, by source and tool: tools of different tenants can have one id.
#[derive(Default)]
pub(crate) struct SnapshotWorkflows(pub(crate) HashMap<(SourceId, ToolId), Arc<RunnableWorkflow>>);

impl SnapshotWorkflows {
    pub(crate) fn get(&self, entry: &Entry) -> Option<&Arc<RunnableWorkflow>> {
        self.0.get(&(entry.source.clone(), entry.id.clone()))
    }
}

/// The offered workflows of all sources.
#[derive(Default)]
pub(crate) struct WorkflowOffers {
    pub(crate) entries: Vec<Arc<Entry>>,
    pub(crate) runnable: HashMap<(SourceId, ToolId), Arc<RunnableWorkflow>>,
    /// Problems by source, for the operator.
    pub(crate) problems: HashMap<SourceId, Vec<String>>,
}

/// The workflows of one source and its rules.
pub(crate) struct Flows<'a> {
    pub(crate) config: &'a Arc<SourceConfig>,
    pub(crate) flows: &'a [Arc<Flow>],
}

/// The valid workflows in `listed`, and the problems of the others.
pub(crate) fn flows(source: &SourceConfig, listed: &OfferList) -> (Vec<Arc<Flow>>, Vec<String>) {
    let (mut flows, mut problems) = (Vec::new(), listed.problems.clone());
    for tool in listed.discovered() {
        if classify::classify(source, &tool.name).hide == Some(true) {
            continue;
        }
        match flow(source, &tool) {
            Ok(flow) => flows.push(Arc::new(flow)),
            Err(found) => {
                let file = files::file_of(&tool.raw);
                problems.extend(found.into_iter().map(|problem| format!("{file}: {problem}")));
            }
        }
    }
    problems.extend(classify::idle_rules(source, listed));
    (flows, problems)
}

fn flow(source: &SourceConfig, tool: &DiscoveredOffer) -> Result<Flow, Vec<String>> {
    let definition = files::definition_of(&tool.raw)
        .ok_or_else(|| vec!["was stored by another version; it is read again".to_owned()])?;
    let plan = Plan::of(&definition)?;
    let problems = compat::check_inputs(&plan);
    if !problems.is_empty() {
        return Err(problems);
    }
    let id = names::tool_id(source.kind, &source.spec.id, &plan.id)
        .map_err(|error| vec![error.to_string()])?;
    let file = files::file_of(&tool.raw).to_owned();
    // The digest covers the definition without the file name: a renamed file is the same workflow.
    let raw = tool.raw.get("definition").cloned().unwrap_or_default();
    let tool = DiscoveredOffer { raw, ..tool.clone() };
    Ok(Flow { tool, file, version: definition.version, id, plan: Arc::new(plan) })
}

/// The workflows of `sources` whose tools are in `catalog`.
pub(crate) fn offer(
    sources: &[Flows<'_>],
    gate: &GateConfig,
    validators: &Arc<Validators>,
    catalog: &Catalog,
) -> WorkflowOffers {
    let all = sources.iter().flat_map(|source| {
        source.flows.iter().map(|flow| Candidate {
            source: source.config,
            tenants: classify::tenants(source.config, &flow.plan.id),
            flow,
        })
    });
    let flows: Vec<_> = all.collect();
    let mut by_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (at, candidate) in flows.iter().enumerate() {
        by_id.entry(candidate.flow.id.as_str()).or_default().push(at);
    }
    let mut offering =
        OfferBuilder { gate, validators, catalog, flows: &flows, by_id, done: HashMap::new() };
    let mut offered = WorkflowOffers::default();
    for (at, Candidate { source, flow, .. }) in flows.iter().enumerate() {
        let id = &source.spec.id;
        match offering.resolve(at, &mut Vec::new()) {
            Ok(made) => {
                let runnable =
                    RunnableWorkflow { plan: Arc::clone(&flow.plan), digest: made.entry.digest };
                offered.runnable.insert((id.clone(), flow.id.clone()), Arc::new(runnable));
                let notes = offered.problems.entry(id.clone()).or_default();
                notes.extend(made.notes.iter().map(|note| format!("{}: {note}", flow.file)));
                offered.entries.push(made.entry);
            }
            Err(problems) => {
                let listed = offered.problems.entry(id.clone()).or_default();
                listed.extend(
                    problems.iter().map(|problem| {
                        format!("{}: the workflow is left out: {problem}", flow.file)
                    }),
                );
            }
        }
    }
    offered
}

/// The digest of everything that the steps of a workflow run, workflows inside it included.
fn program(tools: &[Arc<Entry>]) -> Digest {
    let mut text = String::new();
    for tool in tools {
        let digests =
            [tool.digest, tool.program].map(|digest| digest.map(|digest| digest.to_string()));
        text.push_str(&format!("{} {digests:?}\n", tool.id));
    }
    Digest::of(text.as_bytes())
}

/// A workflow to offer if its steps are offered.
struct Candidate<'a> {
    source: &'a Arc<SourceConfig>,
    tenants: Tenants,
    flow: &'a Flow,
}

struct OfferBuilder<'a> {
    gate: &'a GateConfig,
    validators: &'a Arc<Validators>,
    catalog: &'a Catalog,
    flows: &'a [Candidate<'a>],
    /// Positions by tool id; different tenants can share an id.
    by_id: HashMap<&'a str, Vec<usize>>,
    done: HashMap<usize, Result<BuiltWorkflow, Vec<String>>>,
}

#[derive(Clone)]
struct BuiltWorkflow {
    entry: Arc<Entry>,
    notes: Vec<String>,
    /// Nested levels of workflows inside it.
    nesting: usize,
}

impl<'a> OfferBuilder<'a> {
    /// Resolves the workflow at position `at`.
    fn resolve(
        &mut self,
        at: usize,
        under_way: &mut Vec<usize>,
    ) -> Result<BuiltWorkflow, Vec<String>> {
        let Some(candidate) = self.flows.get(at) else {
            return Err(vec!["does not exist".to_owned()]);
        };
        if let Some(done) = self.done.get(&at) {
            return done.clone();
        }
        if under_way.contains(&at) {
            return Err(vec!["runs itself, by way of its steps".to_owned()]);
        }
        under_way.push(at);
        let made = self.make(candidate, under_way);
        under_way.pop();
        self.done.insert(at, made.clone());
        made
    }

    fn make(
        &mut self,
        candidate: &Candidate<'_>,
        under_way: &mut Vec<usize>,
    ) -> Result<BuiltWorkflow, Vec<String>> {
        let Candidate { source, tenants: own, flow } = candidate;
        let mut problems = Vec::new();
        let mut tools: Vec<Arc<Entry>> = Vec::new();
        let mut nesting = 0;
        for step in &flow.plan.steps {
            match self.tool(step, own, under_way) {
                Ok((tool, inside)) => {
                    nesting = nesting.max(inside);
                    tools.push(tool);
                }
                Err(problem) => problems.push(format!("step `{}`: {problem}", step.id)),
            }
        }
        if nesting >= MAX_NESTING {
            problems.push(format!("workflows call each other more than {MAX_NESTING} deep"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let schema = |schema: &Option<Schema>| schema.as_ref().map(Schema::to_value);
        let outputs =
            flow.plan.steps.iter().zip(&tools).map(|(step, tool)| {
                compat::output_of(step, schema(&tool.tool.output_schema).as_ref())
            });
        let schemas = Schemas { inputs: &flow.plan.inputs, outputs: outputs.collect() };
        for (step, tool) in flow.plan.steps.iter().zip(&tools) {
            let input = schema(&tool.tool.input_schema);
            let found = compat::check_step(step, &tool.arguments, input.as_ref(), &schemas);
            problems.extend(found.into_iter().map(|(place, problem)| {
                format!("step `{}`: arguments{place}: {problem}", step.id)
            }));
            problems.extend(check_retry(step, tool));
        }
        let (set, tenants, mut notes) = match demands(source, flow, &tools) {
            Ok(demands) => demands,
            Err(problem) => {
                problems.push(problem);
                return Err(problems);
            }
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let tool = DiscoveredOffer {
            output_schema: Some(compat::answer_schema(&flow.plan, &schemas)),
            ..flow.tool.clone()
        };
        let version = flow.version.as_deref();
        let assembler = Assembler::new(source, self.gate, self.validators);
        let EntryWithNotes { mut entry, notes: more } =
            assembler.entry(version, &tool, None, set).map_err(|problem| vec![problem])?;
        notes.extend(more);
        entry.tenants = tenants;
        entry.digest = Some(Digest::of(&canonical::exact_bytes(&flow.tool.raw)));
        entry.program = Some(program(&tools));
        Ok(BuiltWorkflow { entry: Arc::new(entry), notes, nesting: nesting + 1 })
    }

    fn tool(
        &mut self,
        step: &Step,
        own: &Tenants,
        under_way: &mut Vec<usize>,
    ) -> Result<(Arc<Entry>, usize), String> {
        let id = &*step.tool;
        // A tool outside the workflow's tenants cannot be the step.
        let shared = |tenants: &Tenants| !tenants.common(own).is_empty();
        let mut tools = self.catalog.all_by_id(id);
        tools.retain(|entry| shared(&entry.tenants));
        let mut flows = self.by_id.get(id).cloned().unwrap_or_default();
        flows.retain(|at| self.flows.get(*at).is_some_and(|flow| shared(&flow.tenants)));
        let (entry, nesting) = match (&tools[..], &flows[..]) {
            ([entry], []) => (Arc::clone(entry), 0),
            ([], [at]) => {
                let made = self.resolve(*at, under_way).map_err(|problems| {
                    let why = problems.first().map_or("", String::as_str);
                    format!("`{id}` cannot be used: {why}")
                })?;
                (made.entry, made.nesting)
            }
            ([], []) => return Err(self.unknown(id, own)),
            _ => {
                return Err(format!(
                    "`{id}` is not the same tool for all tenants of the workflow; say with \
                     `tenants` of its source for which of them it is"
                ));
            }
        };
        if entry.tool.safety_tier == SafetyTier::Exec {
            return Err(format!(
                "`{id}` is of tier \"exec\", which a workflow cannot be; call it by itself"
            ));
        }
        Ok((entry, nesting))
    }

    fn unknown(&self, name: &str, own: &Tenants) -> String {
        let mut found = self.catalog.find_all(name).into_iter();
        match found.find(|entry| !entry.tenants.common(own).is_empty()) {
            Some(entry) => format!("a step names its tool by id; use `{}` here", entry.id),
            None => format!(
                "there is no tool `{}` now; `toolcrib tools list` shows the ids",
                name.chars().take(256).collect::<String>()
            ),
        }
    }
}

/// A call with an effect is not retried.
fn check_retry(step: &Step, tool: &Entry) -> Option<String> {
    let repeatable = matches!(
        tool.tool.replay_policy,
        Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent)
    );
    (step.retry.is_some() && !repeatable).then(|| {
        format!(
            "step `{}`: retry: `{}` is not known to be safe to repeat; if it is, say `replay_policy \
             = \"idempotent\"` in the rules of its source",
            step.id, tool.id
        )
    })
}

/// The requirements of a workflow, and its tenants.
fn demands(
    source: &SourceConfig,
    flow: &Flow,
    tools: &[Arc<Entry>],
) -> Result<(Classification, Tenants, Vec<String>), String> {
    let mut set = classify::classify(source, &flow.plan.id);
    let mut notes = Vec::new();
    let mut scopes: Vec<Scope> = match set.scopes.take() {
        Some(scopes) => scopes,
        None => vec![source.default_scope()?],
    };
    let mut held: BTreeSet<String> = scopes.iter().map(ToString::to_string).collect();
    let mut tenants = classify::tenants(source, &flow.plan.id);
    let (mut tier, mut egress) = (SafetyTier::Pure, Egress::None);
    let (mut replay, mut approval) = (ReplayPolicy::Deterministic, Approval::Never);
    for tool in tools {
        let Some(Auth { scopes: Some(required), .. }) = &tool.tool.auth else {
            return Err(format!("`{}` has no scopes configured, so its calls are denied", tool.id));
        };
        let fresh = required.iter().filter(|scope| held.insert(scope.to_string()));
        scopes.extend(fresh.cloned());
        tenants = tenants.common(&tool.tenants);
        tier = tier.max(tool.tool.safety_tier);
        egress = egress.max(tool.tool.egress.unwrap_or(Egress::HostOwned));
        replay = replay.max(tool.tool.replay_policy.unwrap_or(ReplayPolicy::NonDeterministic));
        approval = approval.max(tool.tool.approval.unwrap_or(Approval::Never));
    }
    if tenants.is_empty() {
        return Err("there is no tenant for which all of its tools exist".to_owned());
    }
    if let Some(said) = set.safety_tier.filter(|said| *said < tier) {
        notes.push(format!("its safety_tier is \"{tier}\", that of its steps, not \"{said}\""));
    }
    set.scopes = Some(scopes);
    set.safety_tier = Some(set.safety_tier.unwrap_or(tier).max(tier));
    set.egress = Some(set.egress.unwrap_or(egress).max(egress));
    set.replay_policy = Some(set.replay_policy.unwrap_or(replay).max(replay));
    // Steps that require approval request it with their arguments.
    set.by_parts = set.approval.is_none_or(|own| own == Approval::Never);
    set.approval = Some(set.approval.unwrap_or(approval).max(approval));
    set.timeout = set.timeout.or(flow.plan.timeout);
    Ok((set, tenants, notes))
}
