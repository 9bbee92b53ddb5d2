//! Workflows: their offered tools and their runs.

use std::sync::{Arc, atomic::Ordering};

use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_core::{
    call::{CallError, Outcome, Progress, ProgressSink},
    descriptor::{Egress, ReplayPolicy, SafetyTier},
    event::EventBody,
    id::RunId,
    principal::{AuthMethod, Principal},
    store::{RunQuery, RunRecord, RunState},
};
use toolcrib_gateway::{CallReport, CallRequest, CatalogScope, ToolRef, metrics::Surface};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Rig, eventually, offer, principal, rig_with};

const ALL: &[&str] = &["*"];
const TOOLS: &[&str] = &["echo", "fail", "down", "dies", "hang", "slow", "flaky", "strict"];

/// A gateway with source `s` of [`TOOLS`] under `rules`, and `flows` as source `w`.
struct Bench {
    rig: Rig,
    _directory: TempDir,
}

async fn bench(rules: &str, of_flows: &str, flows: &[&str]) -> Bench {
    let directory = tempfile::tempdir().unwrap();
    for (at, flow) in flows.iter().enumerate() {
        std::fs::write(directory.path().join(format!("f{at}.yaml")), flow).unwrap();
    }
    let files = directory.path().join("*.yaml");
    let text = format!(
        "[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\n{rules}\n\
         [[source]]\nid = \"w\"\nkind = \"workflow\"\nfiles = [{files:?}]\n{of_flows}"
    );
    let rig = rig_with(Some(Ok(offer(TOOLS))), &text, MemoryCatalogs::default()).await;
    Bench { rig, _directory: directory }
}

impl Bench {
    async fn call(&self, caller: &Principal, id: &str, arguments: Value) -> CallReport {
        let tool = format!("openwop:workflow.{id}");
        let request = CallRequest::new(
            self.rig.gateway.snapshot(),
            Surface::CLI,
            ToolRef::Id(&tool),
            arguments,
        );
        self.rig.gateway.call(caller, request).await
    }

    /// Returns the outputs of the workflow `id`, or its error text.
    async fn run(&self, id: &str, arguments: Value) -> Result<Value, String> {
        let called = self.call(&principal("t", ALL), id, arguments).await;
        outputs(&called.result.unwrap())
    }

    fn problems(&self) -> Vec<String> {
        let reports = self.rig.gateway.supply().reports();
        reports.into_iter().find(|it| it.id.as_str() == "w").unwrap().problems
    }

    async fn runs(&self) -> Vec<RunRecord> {
        self.rig.gateway.workflows().runs(RunQuery::default()).await.unwrap()
    }

    /// Returns tool and outcome of every event of `run`.
    async fn recorded(&self, run: &RunId) -> Vec<String> {
        let events = self.rig.log.events_of(run).await;
        events.iter().map(|event| crate::support::recorded(&event.body)).collect()
    }
}

fn outputs(outcome: &Outcome) -> Result<Value, String> {
    match &outcome.structured {
        Some(outputs) => Ok(serde_json::from_str(outputs.get()).unwrap()),
        None => {
            let blocks: Value = serde_json::from_str(outcome.content.get()).unwrap();
            Err(blocks[0]["text"].as_str().unwrap().to_owned())
        }
    }
}

const CHAIN: &str = "
id: chain
inputs: { type: object, properties: { text: { type: string } }, required: [text] }
steps:
  - { id: one, tool: 'mcp:s.echo', arguments: { text: { $ref: /inputs/text }, n: 1 } }
  - { id: two, tool: 'mcp:s.echo', arguments: { text: { $ref: /steps/one/result/text } } }
outputs: { said: { $ref: /steps/two/result/text }, n: { $ref: /steps/one/result/n } }
";

// I-64, I-102
/// A grant for a workflow is bound to its definition (the digest) and to what its steps run (the
/// program), those of a workflow inside it included.
#[tokio::test]
async fn what_a_workflow_inside_runs_is_part_of_what_a_workflow_runs() {
    let outer = "
id: outer
inputs: { type: object }
steps: [ { id: only, tool: 'openwop:workflow.inner', arguments: {} } ]
outputs: {}
";
    let inner = |step: &str| {
        format!("id: inner\ninputs: {{ type: object }}\nsteps: [ {step} ]\noutputs: {{}}\n")
    };
    let mut forms = Vec::new();
    for step in [
        "{ id: a, tool: 'mcp:s.echo', arguments: { n: 1 } }",
        "{ id: a, tool: 'mcp:s.echo', arguments: { n: 2 } }",
        "{ id: a, tool: 'mcp:s.slow', arguments: { n: 1 } }",
    ] {
        let bench = bench("", "", &[outer, &inner(step)]).await;
        let snapshot = bench.rig.gateway.snapshot();
        let caller = principal("t", ALL);
        let tool = ToolRef::Id("openwop:workflow.outer");
        let entry = snapshot.find(&caller, tool, &CatalogScope::default());
        let entry = entry.unwrap_or_else(|_| panic!("{:?}", bench.problems()));
        forms.push((entry.digest.unwrap(), entry.program.unwrap()));
    }
    assert!(forms.iter().all(|(digest, _)| *digest == forms[0].0), "outer is the same");
    assert!(forms[0].1 != forms[1].1 && forms[1].1 != forms[2].1 && forms[0].1 != forms[2].1);
}

/// I-7, I-32, I-49: each step is a call by the caller with its own pair of events, in one run,
/// inside a session.
#[tokio::test]
async fn the_steps_of_a_run_are_recorded_in_it() {
    let bench = bench("", "", &[CHAIN]).await;
    let caller = principal("t", ALL);
    let called = bench.call(&caller, "chain", json!({ "text": "x" })).await;
    assert_eq!(outputs(&called.result.unwrap()), Ok(json!({ "said": "x", "n": 1 })));
    let events = bench.rig.log.events_of(&called.run_id).await;
    let recorded: Vec<_> =
        events.iter().map(|event| crate::support::recorded(&event.body)).collect();
    assert_eq!(
        recorded,
        [
            "called",
            "opened mcp:s.echo",
            "called",
            "returned Ok ran",
            "called",
            "returned Ok ran",
            "closed mcp:s.echo Completed",
            "returned Ok ran",
        ]
    );
    let names: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::ToolCalled(call) => Some((&*call.tool_name, call.call_id.to_string())),
            _ => None,
        })
        .collect();
    let id = called.call_id.to_string();
    assert_eq!(names[0], ("openwop:workflow.chain", id.clone()));
    assert_eq!(names[1], ("mcp:s.echo", format!("{id}.one")));
    assert_eq!(names[2], ("mcp:s.echo", format!("{id}.two")));
    for at in [2, 4] {
        assert_eq!(events[at].causation_id.as_ref(), Some(&events[0].event_id));
    }
    let runs = bench.runs().await;
    assert_eq!(runs.len(), 1);
    assert_eq!((runs[0].state, runs[0].durable), (RunState::Completed, false));
    assert_eq!(runs[0].run_id, called.run_id);
}

/// I-7: a workflow requires the rights for every tool in it, and has the strictest of their labels.
#[tokio::test]
async fn a_workflow_asks_for_what_its_steps_ask_for() {
    let rules = "[source.tools.\"*\"]\nscopes = [\"a\"]\nsafety_tier = \"read\"\n\
                 replay_policy = \"idempotent\"\nrate = \"100/m\"\n\
                 [source.tools.strict]\nscopes = [\"b\"]\nsafety_tier = \"write\"";
    let both = "
id: both
steps:
  - { id: one, tool: 'mcp:s.echo' }
  - { id: two, tool: 'mcp:s.strict', arguments: { text: x, n: 1 } }
outputs: { n: { $ref: /steps/two/result/n } }
";
    let said = "[source.tools.both]\nsafety_tier = \"pure\"\nscopes = [\"c\"]";
    let bench = bench(rules, said, &[both]).await;
    for scopes in [&["a", "b"][..], &["a", "c"], &["b", "c"]] {
        let caller = principal("t", scopes);
        let id = "openwop:workflow.both".to_owned();
        assert!(!bench.rig.listed(&caller).contains(&id), "{scopes:?}");
        let refused = bench.call(&caller, "both", json!({})).await.result.unwrap_err();
        assert!(matches!(refused, CallError::Forbidden { .. }));
    }
    assert_eq!(bench.rig.source().invoked.load(Ordering::SeqCst), 0);
    let caller = principal("t", &["a", "b", "c"]);
    let called = bench.call(&caller, "both", json!({})).await;
    assert_eq!(outputs(&called.result.unwrap()), Ok(json!({ "n": 1 })));
    let tool = &called.entry.unwrap().tool;
    assert_eq!(tool.safety_tier, SafetyTier::Write, "what is said cannot lower it");
    assert_eq!(tool.egress, Some(Egress::HostMediated));
    assert_eq!(tool.replay_policy, Some(ReplayPolicy::Idempotent));
    assert!(
        bench.problems().iter().any(|it| it.contains("not \"pure\"")),
        "{:?}",
        bench.problems()
    );
}

#[tokio::test]
async fn what_cannot_run_is_left_out_with_a_reason() {
    let one =
        |id: &str, step: &str| format!("id: {id}\nsteps: [{{ id: a, {step} }}]\noutputs: {{}}\n");
    let flows = [
        one("unknown", "tool: 'mcp:s.nobody'"),
        one("wire", "tool: s__echo"),
        one("typed", "tool: 'mcp:s.echo', arguments: { n: many }"),
        one("missing", "tool: 'mcp:s.strict', arguments: { n: 1 }"),
        one("retried", "tool: 'mcp:s.echo', retry: { attempts: 2 }"),
        one("self", "tool: 'openwop:workflow.self'"),
        one("ping", "tool: 'openwop:workflow.pong'"),
        one("pong", "tool: 'openwop:workflow.ping'"),
        "id: forward\noutputs: {}\nsteps:\n  - { id: a, tool: 'mcp:s.echo', after: [b] }\n  - { id: b, tool: 'mcp:s.echo' }".to_owned(),
        "id: input\noutputs: {}\nsteps: [{ id: a, tool: 'mcp:s.echo', arguments: { n: { $ref: /inputs/n } } }]".to_owned(),
        "id: [".to_owned(),
        "id: fit\ninputs: { type: object, properties: { word: { type: string } }, required: [word] }\nsteps: [{ id: a, tool: 'mcp:s.echo', arguments: { n: { $ref: /inputs/word } } }]\noutputs: {}".to_owned(),
    ];
    let flows: Vec<&str> = flows.iter().map(String::as_str).collect();
    let bench = bench("", "", &flows).await;
    let listed = bench.rig.listed(&principal("t", ALL));
    assert!(listed.iter().all(|id| id.starts_with("mcp:")), "{listed:?}");
    let problems = bench.problems();
    for (file, words) in [
        ("f0", "there is no tool `mcp:s.nobody`"),
        ("f1", "use `mcp:s.echo` here"),
        ("f2", "/n"),
        ("f3", "text"),
        ("f4", "replay_policy"),
        ("f5", "runs itself"),
        ("f6", "runs itself"),
        ("f7", "cannot be used"),
        ("f8", "after: names a step that does not come earlier"),
        ("f9", "/inputs/n is not declared"),
        ("f10", "line"),
        ("f11", "arguments/n: would be string, and the tool takes integer"),
    ] {
        let file = format!("{file}.yaml: ");
        let recorded = problems.iter().any(|it| it.starts_with(&file) && it.contains(words));
        assert!(recorded, "{file} {words}: {problems:#?}");
    }
}

/// A workflow appears and disappears with the tools of its steps.
#[tokio::test]
async fn workflows_follow_the_catalog() {
    let bench = bench("", "", &[CHAIN]).await;
    let caller = principal("t", ALL);
    let there = || bench.rig.listed(&caller).iter().any(|it| it == "openwop:workflow.chain");
    assert!(there());
    bench.rig.source().offer(&["fail"]);
    eventually("it is gone", || !there()).await;
    assert!(bench.problems()[0].contains("there is no tool `mcp:s.echo`"));
    bench.rig.source().offer(&["echo"]);
    eventually("it is back", there).await;
    assert!(bench.problems().is_empty());
}

#[tokio::test]
async fn conditions_lists_and_failures_are_followed() {
    let flow = "
id: all
inputs:
  type: object
  properties: { list: { type: array, items: { type: integer } }, word: { type: string } }
  required: [list]
steps:
  - { id: skipped, tool: 'mcp:s.echo', when: { ref: /inputs/word, equals: go } }
  - id: each
    tool: 'mcp:s.echo'
    for_each: { ref: /inputs/list, max: 3, parallel: 2 }
    arguments: { n: { $ref: /item }, text: { $text: ['#', { $ref: /index }] } }
  - { id: broken, tool: 'mcp:s.fail', on_error: continue }
  - { id: first, tool: 'mcp:s.dies', on_error: { use: second } }
  - { id: second, tool: 'mcp:s.echo', arguments: { text: instead } }
  - { id: spare, tool: 'mcp:s.fail', on_error: continue, when: { ref: /steps/each/status, not: ok } }
outputs:
  each: { $ref: /steps/each/result }
  first: { $ref: /steps/first/result/text }
  skipped: { $ref: /steps/skipped/result, default: none }
  states: [{ $ref: /steps/skipped/status }, { $ref: /steps/each/status },
           { $ref: /steps/broken/status }, { $ref: /steps/first/status },
           { $ref: /steps/second/status }, { $ref: /steps/spare/status }]
";
    let bench = bench("", "", &[flow]).await;
    let outputs = bench.run("all", json!({ "list": [5, 6, 7] })).await.unwrap();
    assert_eq!(
        outputs,
        json!({
            "each": [{ "n": 5, "text": "#0" }, { "n": 6, "text": "#1" }, { "n": 7, "text": "#2" }],
            "first": "instead",
            "skipped": "none",
            "states": ["skipped", "ok", "failed", "failed", "ok", "skipped"],
        })
    );
    let go = bench.run("all", json!({ "list": [], "word": "go" })).await.unwrap();
    assert_eq!(go["skipped"], json!({}));
    let many = bench.run("all", json!({ "list": [1, 2, 3, 4] })).await.unwrap_err();
    assert_eq!(many, "step `each` failed: there are more than 3 items");
}

#[tokio::test]
async fn a_step_that_fails_ends_the_run_in_words() {
    let flow = |id: &str, tool: &str| {
        format!(
            "id: {id}\nsteps: [{{ id: a, tool: 'mcp:s.{tool}' }}, {{ id: b, tool: 'mcp:s.echo', after: [a] }}]\noutputs: {{}}\n"
        )
    };
    let (broken, down) = (flow("broken", "fail"), flow("down", "down"));
    let bench = bench("[source.tools.fail]\nrate = \"1/h\"", "", &[&broken, &down]).await;
    let caller = principal("t", ALL);
    let called = bench.call(&caller, "broken", json!({})).await;
    let said = outputs(&called.result.unwrap()).unwrap_err();
    assert_eq!(said, "step `a` failed: it went wrong");
    assert_eq!(
        bench.recorded(&called.run_id).await[4..],
        ["closed mcp:s.fail Failed", "returned Error tool_execution_failed ran"].map(str::to_owned)
    );
    let limited = bench.run("broken", json!({})).await.unwrap_err();
    assert!(limited.contains("too many calls of this tool"), "{limited}");
    let down = bench.run("down", json!({})).await.unwrap_err();
    assert!(down.starts_with("step `a` failed: the tool's source is not available"), "{down}");
    let codes: Vec<_> = bench.runs().await.into_iter().map(|run| run.code.unwrap()).collect();
    assert_eq!(codes, ["upstream_unavailable", "rate_limited", "tool_execution_failed"]);
}

#[tokio::test]
async fn what_may_be_repeated_is_tried_again() {
    let flow = "
id: again
steps: [{ id: a, tool: 'mcp:s.flaky', retry: { attempts: 3, pause: 1ms } }]
outputs: { state: { $ref: /steps/a/status } }
";
    let rules = "[source.tools.flaky]\nreplay_policy = \"idempotent\"";
    let bench = bench(rules, "", &[flow]).await;
    let called = bench.call(&principal("t", ALL), "again", json!({})).await;
    assert_eq!(outputs(&called.result.unwrap()), Ok(json!({ "state": "ok" })));
    assert_eq!(bench.rig.source().invoked.load(Ordering::SeqCst), 3);
    let returned = bench.recorded(&called.run_id).await;
    assert_eq!(returned.iter().filter(|it| it.contains("upstream_died")).count(), 2);
}

/// Independent branches run at the same time: each waits for the other here.
#[tokio::test]
async fn branches_run_at_once_and_a_failure_ends_the_others() {
    let flow = "
id: branches
steps:
  - { id: left, tool: 'mcp:s.hang' }
  - { id: right, tool: 'mcp:s.slow' }
  - { id: end, tool: 'mcp:s.fail', after: [right] }
outputs: {}
";
    let bench = bench("", "", &[flow]).await;
    let called = bench.call(&principal("t", ALL), "branches", json!({})).await;
    let said = outputs(&called.result.unwrap()).unwrap_err();
    assert_eq!(said, "step `end` failed: it went wrong");
    assert_eq!(bench.rig.source().dropped.load(Ordering::SeqCst), 1, "the branch was cancelled");
    let recorded = bench.recorded(&called.run_id).await;
    let calls = recorded.iter().filter(|it| *it == "called").count();
    let returned = recorded.iter().filter(|it| it.starts_with("returned")).count();
    assert_eq!((calls, returned), (4, 4), "{recorded:?}");
    assert!(
        recorded.last().unwrap().starts_with("returned"),
        "its own end comes last: {recorded:?}"
    );
}

/// I-22: the record of a cancelled run is complete, whatever cancels it.
#[tokio::test]
async fn a_run_can_be_cancelled() {
    let flow = "id: waits\nsteps: [{ id: a, tool: 'mcp:s.hang' }]\noutputs: {}\n";
    let bench = Arc::new(bench("", "", &[flow]).await);
    let source = bench.rig.source();
    let ended = |count: usize| {
        let source = Arc::clone(&source);
        move || source.invoked.load(Ordering::SeqCst) == count
    };
    // By a principal with the permission.
    let waiting = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.call(&principal("t", ALL), "waits", json!({})).await }
    });
    eventually("the step runs", ended(1)).await;
    let run = bench.runs().await.remove(0);
    let gateway = &bench.rig.gateway;
    let stranger = principal("u", ALL).tenant;
    assert_eq!(gateway.workflows().cancel(&stranger, &run.run_id).await.unwrap(), 0);
    assert_eq!(gateway.workflows().cancel(&run.tenant, &run.run_id).await.unwrap(), 1);
    let called = waiting.await.unwrap();
    assert!(matches!(called.result, Err(CallError::Cancelled)), "{:?}", called.result);
    let expected = [
        "called",
        "opened mcp:s.hang",
        "called",
        "returned Error cancelled ran",
        "closed mcp:s.hang Cancelled",
        "returned Error cancelled ran",
    ];
    assert_eq!(bench.recorded(&called.run_id).await, expected);
    assert_eq!(gateway.workflows().cancel(&run.tenant, &run.run_id).await.unwrap(), 0);
    // By a caller that disconnects.
    let waiting = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.call(&principal("t", ALL), "waits", json!({})).await }
    });
    eventually("the step runs", ended(2)).await;
    waiting.abort();
    let over = || bench.rig.log.recorded().len() == 2 * expected.len();
    eventually("it is recorded", over).await;
    let runs = bench.runs().await;
    assert_eq!(bench.recorded(&runs[0].run_id).await, expected);
    assert!(runs.iter().all(|run| run.state == RunState::Cancelled), "{runs:?}");
}

#[tokio::test]
async fn a_run_that_takes_too_long_fails() {
    let flow = "id: long\ntimeout: 20ms\nsteps: [{ id: a, tool: 'mcp:s.hang' }]\noutputs: {}\n";
    let bench = bench("", "", &[flow]).await;
    let called = bench.call(&principal("t", ALL), "long", json!({})).await;
    let ended = match &called.result {
        Ok(outcome) => outputs(outcome).unwrap_err(),
        Err(error) => error.code().to_owned(),
    };
    assert!(ended.contains("time"), "{ended}");
    let run = bench.runs().await.remove(0);
    assert_eq!((run.state, run.code.as_deref()), (RunState::Failed, Some("upstream_timeout")));
}

/// Closing a gateway ends its runs in order.
#[tokio::test]
async fn a_gateway_that_closes_ends_its_runs() {
    let flow = "id: waits\nsteps: [{ id: a, tool: 'mcp:s.hang' }]\noutputs: {}\n";
    let bench = Arc::new(bench("", "", &[flow]).await);
    let waiting = tokio::spawn({
        let bench = Arc::clone(&bench);
        async move { bench.call(&principal("t", ALL), "waits", json!({})).await }
    });
    let source = bench.rig.source();
    eventually("the step runs", || source.invoked.load(Ordering::SeqCst) == 1).await;
    bench.rig.gateway.close().await;
    let said = outputs(&waiting.await.unwrap().result.unwrap()).unwrap_err();
    assert!(said.contains("the process stopped"), "{said}");
    let run = bench.runs().await.remove(0);
    assert_eq!((run.state, run.code.as_deref()), (RunState::Failed, Some("interrupted")));
    let recorded = bench.recorded(&run.run_id).await;
    assert_eq!(recorded.len(), 6, "{recorded:?}");
}

/// The next process continues only runs that were cut off, and not one that has failed by itself.
#[tokio::test]
async fn a_durable_run_that_fails_while_its_gateway_ends_has_ended() {
    let flow = "id: fails\nsteps: [{ id: a, tool: 'mcp:s.fail' }]\noutputs: {}\n";
    let bench = bench("", "durable = true\n", &[flow]).await;
    // Runs of the operator are not durable. Callers without a key may not call the step.
    let caller = Principal { auth: AuthMethod::Anonymous, ..principal("t", ALL) };
    bench.rig.gateway.begin_end();
    let called = bench.call(&caller, "fails", json!({})).await;
    outputs(&called.result.unwrap()).unwrap_err();
    let run = bench.runs().await.remove(0);
    assert_eq!((run.durable, run.state), (true, RunState::Failed));
    let recorded = bench.recorded(&run.run_id).await;
    assert_eq!(recorded, ["called", "returned Error tool_execution_failed ran"]);
}

/// A workflow as a step is one more call, in the same run.
#[tokio::test]
async fn workflows_can_be_steps() {
    let outer = "
id: outer
steps:
  - { id: inner, tool: 'openwop:workflow.chain', arguments: { text: deep } }
outputs: { said: { $ref: /steps/inner/result/said } }
";
    let bench = bench("", "", &[outer, CHAIN]).await;
    let called = bench.call(&principal("t", ALL), "outer", json!({})).await;
    assert_eq!(outputs(&called.result.unwrap()), Ok(json!({ "said": "deep" })));
    let runs = bench.runs().await;
    let inner = runs.iter().find(|run| run.tool_id.as_str().ends_with("chain")).unwrap();
    assert_eq!(inner.parent.as_ref(), Some(&called.call_id));
    assert_eq!(inner.run_id, called.run_id);
    assert_eq!(bench.recorded(&called.run_id).await.len(), 12);
}

#[derive(Default)]
struct Heard(Mutex<Vec<Progress>>);

impl ProgressSink for Heard {
    fn report(&self, progress: Progress) {
        self.0.lock().push(progress);
    }
}

#[tokio::test]
async fn the_caller_hears_of_each_step() {
    let bench = bench("", "", &[CHAIN]).await;
    let heard = Arc::new(Heard::default());
    let caller = principal("t", ALL);
    let tool = ToolRef::Id("openwop:workflow.chain");
    let request = CallRequest {
        progress: Some(Arc::clone(&heard) as Arc<dyn ProgressSink>),
        ..CallRequest::new(
            bench.rig.gateway.snapshot(),
            Surface::new("mcp", "Mcp"),
            tool,
            json!({ "text": "x" }),
        )
    };
    bench.rig.gateway.call(&caller, request).await.result.unwrap();
    let heard: Vec<_> = heard
        .0
        .lock()
        .iter()
        .map(|it| {
            (
                it.progress.to_string(),
                it.total.clone().unwrap().to_string(),
                it.message.clone().unwrap(),
            )
        })
        .collect();
    let expected = [("1", "2", "one: ok"), ("2", "2", "two: ok")];
    assert_eq!(heard, expected.map(|(a, b, c)| (a.to_owned(), b.to_owned(), c.to_owned())));
}

// I-91
#[tokio::test]
async fn a_gateway_with_workflows_is_gone_with_its_last_handle() {
    let bench = bench("", "", &[CHAIN]).await;
    let source = Arc::downgrade(&bench.rig.source());
    drop(bench);
    eventually("nothing holds the source", || source.strong_count() == 0).await;
}
