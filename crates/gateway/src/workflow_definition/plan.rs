//! The plan of one workflow, checked as far as possible without its tools.
//!
//! Invariant: a step only depends on earlier steps of the file, so there are no cycles.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use serde_json::Value;
use toolcrib_config::parse_duration;
use toolcrib_core::arguments::ArgumentCheck;

use crate::workflow_definition::{
    definition::{Definition, ForEachDefinition, StepDefinition, WhenDefinition},
    template::{MissingValueRule, Names, Reference, Root, Template},
};

/// Steps of a workflow.
pub(super) const MAX_STEPS: usize = 100;
/// Items of one `for_each`.
pub(super) const MAX_ITEMS: usize = 1_000;
/// Concurrent calls of one `for_each`.
const MAX_PARALLEL_ITEMS: usize = 16;
/// Default of concurrent calls of one `for_each`.
const PARALLEL_ITEMS: usize = 4;
/// Attempts of one call.
const MAX_ATTEMPTS: u32 = 10;
/// Longest pause between two attempts.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Bytes of a step's id; it is part of the ids of its calls.
const MAX_STEP_ID: usize = 24;
/// Bytes of a workflow's id.
const MAX_ID: usize = 64;

/// A valid workflow, before its tools are known.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) id: String,
    pub(crate) timeout: Option<Duration>,
    pub(crate) inputs: Value,
    pub(crate) steps: Vec<Step>,
    pub(crate) outputs: Template,
}

#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) id: String,
    /// The tool's id.
    pub(crate) tool: String,
    pub(crate) arguments: Template,
    pub(crate) when: Option<StepCondition>,
    pub(crate) each: Option<Iteration>,
    pub(crate) retry: Option<Retry>,
    pub(crate) on_error: ErrorAction,
    /// Steps that must finish before this one, all of them earlier.
    pub(crate) needs: BTreeSet<usize>,
    /// The step that this one replaces if that step fails.
    pub(crate) fallback_for: Option<usize>,
}

#[derive(Debug)]
pub(crate) struct StepCondition {
    pub(crate) reference: Reference,
    pub(crate) test: Test,
}

#[derive(Debug)]
pub(crate) enum Test {
    Exists(bool),
    Equals(Value),
    Not(Value),
}

#[derive(Debug)]
pub(crate) struct Iteration {
    pub(crate) over: Reference,
    pub(crate) max: usize,
    pub(crate) parallel: usize,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Retry {
    pub(crate) attempts: u32,
    pub(crate) pause: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ErrorAction {
    /// The run fails.
    Fail,
    /// The run continues without a result.
    Continue,
    /// Another step runs instead.
    Use(usize),
}

impl Plan {
    /// Builds the plan of `definition`.
    ///
    /// # Errors
    /// Fails with every problem of the definition.
    pub(crate) fn of(definition: &Definition) -> Result<Self, Vec<String>> {
        let mut reader = Reader { problems: Vec::new() };
        let plan = reader.plan(definition);
        match plan {
            Some(plan) if reader.problems.is_empty() => Ok(plan),
            Some(_) | None => Err(reader.problems),
        }
    }
}

struct Reader {
    problems: Vec<String>,
}

impl Reader {
    fn complain(&mut self, place: &str, what: impl AsRef<str>) {
        self.problems.push(format!("{place}: {}", what.as_ref()));
    }

    fn plan(&mut self, typed: &Definition) -> Option<Plan> {
        if let Err(problem) = check_id(&typed.id, MAX_ID) {
            self.complain("id", problem);
        }
        if let Some(version) = &typed.version
            && !is_version(version)
        {
            self.complain("version", "expected three numbers such as \"1.0.0\"");
        }
        let timeout = self.duration("timeout", typed.timeout.as_deref());
        let inputs =
            typed.inputs.clone().unwrap_or_else(|| serde_json::json!({ "type": "object" }));
        self.inputs(&inputs);
        if typed.steps.is_empty() || typed.steps.len() > MAX_STEPS {
            self.complain("steps", format!("expected 1 to {MAX_STEPS} steps"));
            return None;
        }
        let ids: Vec<&str> = typed.steps.iter().map(|step| &*step.id).collect();
        let mut seen = HashMap::new();
        for (at, id) in ids.iter().enumerate() {
            if let Err(problem) = check_id(id, MAX_STEP_ID) {
                self.complain(&format!("steps[{at}].id"), problem);
            }
            if let Some(first) = seen.insert(*id, at) {
                self.complain(
                    &format!("steps[{at}].id"),
                    format!("steps[{first}] has the same id; every step needs its own"),
                );
            }
        }
        let mut steps: Vec<Step> =
            typed.steps.iter().enumerate().map(|(at, step)| self.step(&ids, at, step)).collect();
        self.stand_ins(&mut steps);
        let names = Names { steps: &ids, before: ids.len(), item: false };
        let outputs = Value::Object(typed.outputs.clone());
        let outputs = self.template(&outputs, names, "outputs");
        Some(Plan { id: typed.id.clone(), timeout, inputs, steps, outputs })
    }

    fn inputs(&mut self, schema: &Value) {
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.complain("inputs", "expected a JSON Schema with `type: object`");
        } else if let Err(error) = ArgumentCheck::compile(Some(schema)) {
            self.complain("inputs", error.to_string());
        }
    }

    fn step(&mut self, ids: &[&str], at: usize, typed: &StepDefinition) -> Step {
        let place = format!("step `{}`", typed.id.chars().take(MAX_STEP_ID).collect::<String>());
        let here = |member: &str| format!("{place}: {member}");
        let before = Names { steps: ids, before: at, item: false };
        let each =
            typed.for_each.as_ref().and_then(|each| self.each(&here("for_each"), each, before));
        let when = typed.when.as_ref().and_then(|when| self.when(&here("when"), when, before));
        let names = Names { item: typed.for_each.is_some(), ..before };
        let arguments = Value::Object(typed.arguments.clone());
        let arguments = self.template(&arguments, names, &here("arguments"));
        let retry = typed.retry.as_ref().and_then(|retry| {
            let pause = self.duration(&here("retry.pause"), retry.pause.as_deref());
            let pause = pause.unwrap_or_default();
            if !(2..=MAX_ATTEMPTS).contains(&retry.attempts) {
                let message = format!("expected 2 to {MAX_ATTEMPTS} attempts in all");
                self.complain(&here("retry.attempts"), message);
                return None;
            }
            if pause > MAX_PAUSE {
                self.complain(&here("retry.pause"), "is longer than a minute");
            }
            Some(Retry { attempts: retry.attempts, pause })
        });
        let on_error = self.on_error(&here("on_error"), ids, at, typed.on_error.as_ref());
        let mut needs = BTreeSet::new();
        for id in &typed.after {
            match ids.iter().position(|step| step == id) {
                Some(step) if step < at => {
                    needs.insert(step);
                }
                Some(_) => {
                    let message = "names a step that does not come earlier in the file";
                    self.complain(&here("after"), message);
                }
                None => self.complain(&here("after"), "names a step that does not exist"),
            }
        }
        let mut references = arguments.references();
        references.extend(each.as_ref().map(|each: &Iteration| &each.over));
        references.extend(when.as_ref().map(|when: &StepCondition| &when.reference));
        needs.extend(references.into_iter().filter_map(Reference::step));
        Step {
            id: typed.id.clone(),
            tool: typed.tool.clone(),
            arguments,
            when,
            each,
            retry,
            on_error,
            needs,
            fallback_for: None,
        }
    }

    fn each(
        &mut self,
        place: &str,
        typed: &ForEachDefinition,
        names: Names<'_>,
    ) -> Option<Iteration> {
        if !(1..=MAX_ITEMS).contains(&typed.max) {
            self.complain(&format!("{place}.max"), format!("expected 1 to {MAX_ITEMS}"));
        }
        let parallel = typed.parallel.unwrap_or(PARALLEL_ITEMS);
        if !(1..=MAX_PARALLEL_ITEMS).contains(&parallel) {
            let message = format!("expected 1 to {MAX_PARALLEL_ITEMS}");
            self.complain(&format!("{place}.parallel"), message);
        }
        let over = self.reference(&format!("{place}.ref"), &typed.reference, names)?;
        Some(Iteration { over, max: typed.max, parallel })
    }

    fn when(
        &mut self,
        place: &str,
        typed: &WhenDefinition,
        names: Names<'_>,
    ) -> Option<StepCondition> {
        let reference = self.reference(&format!("{place}.ref"), &typed.reference, names);
        let test = match (typed.exists, &typed.equals, &typed.not) {
            (Some(exists), None, None) => Test::Exists(exists),
            (None, Some(value), None) => Test::Equals(value.clone()),
            (None, None, Some(value)) => Test::Not(value.clone()),
            _ => {
                self.complain(
                    place,
                    "expected one of `exists`, `equals` and `not` in addition to `ref`",
                );
                return None;
            }
        };
        Some(StepCondition { reference: reference?, test })
    }

    fn reference(&mut self, place: &str, text: &str, names: Names<'_>) -> Option<Reference> {
        match Reference::parse(text, MissingValueRule::Fails, names) {
            Ok(reference) => Some(reference),
            Err(problem) => {
                self.complain(place, problem);
                None
            }
        }
    }

    fn on_error(
        &mut self,
        place: &str,
        ids: &[&str],
        at: usize,
        typed: Option<&Value>,
    ) -> ErrorAction {
        match typed {
            None => return ErrorAction::Fail,
            Some(Value::String(word)) if word == "fail" => return ErrorAction::Fail,
            Some(Value::String(word)) if word == "continue" => return ErrorAction::Continue,
            Some(Value::Object(members)) if members.len() == 1 => {
                if let Some(id) = members.get("use").and_then(Value::as_str) {
                    match ids.iter().position(|step| *step == id) {
                        Some(step) if step > at => return ErrorAction::Use(step),
                        Some(_) => self.complain(place, "names a step that does not come later"),
                        None => self.complain(place, "names a step that does not exist"),
                    }
                    return ErrorAction::Fail;
                }
            }
            Some(_) => {}
        }
        self.complain(place, "expected `fail`, `continue` or `{ use: STEP }`");
        ErrorAction::Fail
    }

    /// Adds the replacement of a step to the needs of every step that needs it.
    fn stand_ins(&mut self, steps: &mut [Step]) {
        for at in 0..steps.len() {
            let Some(ErrorAction::Use(other)) = steps.get(at).map(|step| step.on_error) else {
                continue;
            };
            let id = |at: usize, steps: &[Step]| {
                steps.get(at).map(|step| step.id.clone()).unwrap_or_default()
            };
            let place = format!("step `{}`: on_error", id(at, steps));
            let taken = steps.get(other).and_then(|step| step.fallback_for);
            if let Some(taken) = taken {
                let taken = id(taken, steps);
                self.complain(&place, format!("step `{taken}` uses the same step already"));
                continue;
            }
            let needs_it = |step: &Step| step.needs.contains(&at);
            if let Some(early) = steps.iter().take(other).position(needs_it) {
                let (early, other) = (id(early, steps), id(other, steps));
                self.complain(
                    &place,
                    format!("step `{early}` needs the result; move `{other}` up before it"),
                );
                continue;
            }
            for (index, step) in steps.iter_mut().enumerate() {
                if index == other {
                    step.fallback_for = Some(at);
                    step.needs.insert(at);
                } else if step.needs.contains(&at) {
                    step.needs.insert(other);
                }
            }
        }
    }

    fn template(&mut self, value: &Value, names: Names<'_>, place: &str) -> Template {
        let mut found = Vec::new();
        let template = Template::read(value, names, "", &mut |at, what| found.push((at, what)));
        for (at, what) in found {
            self.complain(&format!("{place}{at}"), what);
        }
        template
    }

    fn duration(&mut self, place: &str, typed: Option<&str>) -> Option<Duration> {
        match parse_duration(typed?) {
            Ok(duration) => Some(duration),
            Err(problem) => {
                self.complain(place, &problem);
                None
            }
        }
    }
}

impl Plan {
    /// The references to inputs, with their places.
    pub(super) fn of_inputs(&self) -> impl Iterator<Item = (String, &Reference)> {
        let of_steps = self.steps.iter().flat_map(|step| {
            let place = format!("step `{}`", step.id);
            let mut references = step.arguments.references();
            references.extend(step.each.as_ref().map(|each| &each.over));
            references.extend(step.when.as_ref().map(|when| &when.reference));
            references.into_iter().map(move |reference| (place.clone(), reference))
        });
        let of_outputs = self
            .outputs
            .references()
            .into_iter()
            .map(|reference| ("outputs".to_owned(), reference));
        of_steps.chain(of_outputs).filter(|(_, reference)| reference.root == Root::Inputs)
    }
}

fn check_id(id: &str, max: usize) -> Result<(), String> {
    let legal = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    let ends = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let good = id.len() <= max
        && id.bytes().all(legal)
        && ends(id.bytes().next())
        && ends(id.bytes().last());
    match good {
        true => Ok(()),
        false => Err(format!(
            "expected 1 to {max} characters of a-z, 0-9, `_` and `-`, starting and \
             ending with a letter or digit"
        )),
    }
}

fn is_version(text: &str) -> bool {
    let number = |part: &str| {
        !part.is_empty() && part.len() <= 9 && part.bytes().all(|b| b.is_ascii_digit())
    };
    text.split('.').count() == 3 && text.split('.').all(number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow_definition::definition;

    fn plan(steps: &str) -> Result<Plan, Vec<String>> {
        let text = format!("id: w\noutputs: {{}}\nsteps:\n{steps}");
        Plan::of(&definition::read("w.yaml", &text).unwrap())
    }

    #[test]
    fn what_a_step_refers_to_it_needs() {
        let plan = plan(
            "  - { id: a, tool: t, on_error: { use: b } }
  - { id: b, tool: t }
  - { id: c, tool: t, arguments: { x: [{ $ref: /steps/a/result/0 }] } }
  - { id: d, tool: t, after: [c], when: { ref: /steps/b/status, equals: ok } }
  - { id: e, tool: t, for_each: { ref: /steps/d/result, max: 3 }, arguments: { i: { $ref: /item } } }",
        )
        .unwrap();
        let needs = |at: usize| plan.steps[at].needs.iter().copied().collect::<Vec<_>>();
        assert!(needs(0).is_empty());
        assert_eq!(needs(1), [0], "a stand-in waits for the step to fail");
        assert_eq!(needs(2), [0, 1], "whoever needs a step needs its stand-in");
        assert_eq!(needs(3), [1, 2]);
        assert_eq!(needs(4), [3]);
        assert_eq!(plan.steps[1].fallback_for, Some(0));
    }

    #[test]
    fn every_mistake_is_told_with_its_place() {
        let long = "x".repeat(25);
        for (steps, place, word) in [
            ("  - { id: A, tool: t }", "steps[0].id", "a-z"),
            (&*format!("  - {{ id: {long}, tool: t }}"), "steps[0].id", "1 to 24"),
            ("  - { id: a, tool: t }\n  - { id: a, tool: t }", "steps[1].id", "its own"),
            (
                "  - { id: a, tool: t, arguments: { x: { $ref: /steps/a/text } } }",
                "step `a`: arguments/x",
                "earlier",
            ),
            (
                "  - { id: a, tool: t, arguments: { x: { $ref: /steps/b/text } } }\n  - { id: b, tool: t }",
                "step `a`: arguments/x",
                "does not come earlier",
            ),
            (
                "  - { id: a, tool: t, arguments: { x: { $ref: /item } } }",
                "step `a`: arguments/x",
                "for_each",
            ),
            ("  - { id: a, tool: t, after: [a] }", "step `a`: after", "earlier"),
            ("  - { id: a, tool: t, after: [z] }", "step `a`: after", "exist"),
            ("  - { id: a, tool: t, when: { ref: /inputs/x } }", "step `a`: when", "one of"),
            (
                "  - { id: a, tool: t, when: { ref: /inputs/x, exists: true, not: 1 } }",
                "step `a`: when",
                "one of",
            ),
            (
                "  - { id: a, tool: t, for_each: { ref: /inputs/x, max: 0 } }",
                "step `a`: for_each.max",
                "1 to",
            ),
            (
                "  - { id: a, tool: t, for_each: { ref: /inputs/x, max: 2000 } }",
                "step `a`: for_each.max",
                "1 to",
            ),
            (
                "  - { id: a, tool: t, for_each: { ref: /inputs/x, max: 2, parallel: 99 } }",
                "for_each.parallel",
                "1 to",
            ),
            ("  - { id: a, tool: t, retry: { attempts: 1 } }", "step `a`: retry.attempts", "2 to"),
            (
                "  - { id: a, tool: t, retry: { attempts: 2, pause: 2m } }",
                "step `a`: retry.pause",
                "minute",
            ),
            (
                "  - { id: a, tool: t, retry: { attempts: 2, pause: soon } }",
                "step `a`: retry.pause",
                "",
            ),
            ("  - { id: a, tool: t, on_error: stop }", "step `a`: on_error", "expected"),
            ("  - { id: a, tool: t, on_error: { use: a } }", "step `a`: on_error", "later"),
            ("  - { id: a, tool: t, on_error: { use: z } }", "step `a`: on_error", "exist"),
            (
                "  - { id: a, tool: t, on_error: { use: c } }\n  - { id: b, tool: t, on_error: { use: c } }\n  - { id: c, tool: t }",
                "step `b`: on_error",
                "already",
            ),
            (
                "  - { id: a, tool: t, on_error: { use: c } }\n  - { id: b, tool: t, after: [a] }\n  - { id: c, tool: t }",
                "step `a`: on_error",
                "move `c` up",
            ),
            ("  []", "steps", "1 to 100"),
        ] {
            let problems = plan(steps).unwrap_err();
            assert!(
                problems.iter().any(|problem| problem.contains(place) && problem.contains(word)),
                "{steps}: {problems:?}"
            );
        }
    }

    #[test]
    fn the_whole_is_checked_too() {
        let read = |head: &str| {
            let text = format!("{head}\nsteps: [{{ id: a, tool: t }}]\n");
            Plan::of(&definition::read("w.yaml", &text).unwrap()).unwrap_err().join("; ")
        };
        assert!(read("id: Ä\noutputs: {}").starts_with("id: "));
        assert!(read("id: w\noutputs: {}\nversion: '1'").starts_with("version: "));
        assert!(read("id: w\noutputs: {}\ntimeout: x").starts_with("timeout: "));
        assert!(read("id: w\noutputs: {}\ninputs: { type: string }").starts_with("inputs: "));
        assert!(
            read("id: w\noutputs: {}\ninputs: { type: object, minProperties: x }")
                .starts_with("inputs: ")
        );
        assert!(read("id: w\noutputs: { x: { $ref: /item } }").starts_with("outputs/x: "));
    }
}
