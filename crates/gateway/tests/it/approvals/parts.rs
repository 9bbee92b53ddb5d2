//! Approval of workflow steps and of calls in interactions.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_core::{
    approval::{ApprovalState, Verdict},
    call::CallError,
    event::SessionOutcome,
    id::ApprovalId,
};
use toolcrib_gateway::{CallReport, CallRequest, ToolRef, metrics::Surface};
use toolcrib_store::MemoryCatalogs;

use super::{ASKS, approver, asked, asking, caller, who};
use crate::support::{Rig, offer, rig_with};

const FLOW: &str = "
id: f
steps:
  - { id: first, tool: 'mcp:s.slow', arguments: { n: 1 } }
  - { id: second, tool: 'mcp:s.echo', arguments: { text: hi }, after: [first] }
outputs: { said: { $ref: /steps/second/result/text } }
";
const OUTER: &str = "
id: g
steps:
  - { id: inner, tool: 'openwop:workflow.f' }
outputs: {}
";

/// `s.echo` requires approval; the other steps do not.
async fn flows(settings: &str, of_flows: &str) -> (Rig, TempDir) {
    let directory = tempfile::tempdir().unwrap();
    for (name, text) in [("f", FLOW), ("g", OUTER)] {
        std::fs::write(directory.path().join(format!("{name}.yaml")), text).unwrap();
    }
    let files = directory.path().join("*.yaml");
    let text = format!(
        "{settings}\n[[source]]\nid = \"s\"\nkind = \"mcp\"\ncommand = [\"x\"]\n\
         [source.tools.echo]\napproval = \"always\"\n\
         [[source]]\nid = \"w\"\nkind = \"workflow\"\nfiles = [{files:?}]\n{of_flows}"
    );
    let rig = rig_with(Some(Ok(offer(&["echo", "slow"]))), &text, MemoryCatalogs::default()).await;
    (rig, directory)
}

async fn run(rig: &Rig, flow: &str) -> CallReport {
    let tool = format!("openwop:workflow.{flow}");
    let request =
        CallRequest::new(rig.gateway.snapshot(), Surface::CLI, ToolRef::Id(&tool), json!({}));
    rig.gateway.call(&who("ann", &["*"]), request).await
}

fn runs(rig: &Rig) -> usize {
    let built = rig.factory.built.lock();
    built.iter().map(|source| source.invoked.load(Ordering::SeqCst)).sum()
}

async fn grant(rig: &Rig, id: &ApprovalId) {
    rig.gateway.approvals().respond(&approver("bob"), id, Verdict::Grant, None).await.unwrap();
}

/// I-64: a step requests approval with its own arguments; the restarted workflow passes it once.
#[tokio::test]
async fn a_step_asks_by_itself() {
    let (rig, _directory) = flows("", "").await;
    let refused = run(&rig, "f").await.result.unwrap();
    assert!(refused.is_error);
    let said = serde_json::to_string(&refused.content).unwrap();
    let id = rig.pending().await;
    assert!(said.contains("second") && said.contains(id.as_str()), "{said}");
    let approval = rig.gateway.approvals().find(&approver("bob"), &id).await.unwrap().approval;
    assert_eq!(approval.tool_id.as_str(), "mcp:s.echo");
    assert_eq!(runs(&rig), 1, "the first step");
    grant(&rig, &id).await;
    assert!(!run(&rig, "f").await.result.unwrap().is_error);
    assert_eq!(runs(&rig), 3);
    assert!(run(&rig, "f").await.result.unwrap().is_error, "the next one needs another grant");
    // The same call outside the workflow is the same call.
    let id = rig.pending().await;
    let outside = rig.call(&who("ann", &["*"]), "s__echo", json!({ "text": "hi" })).await;
    assert_eq!(asked(outside.result), id);
}

/// I-64: the wait counts neither towards the deadline of the step nor towards those of its
/// workflows.
#[tokio::test]
async fn a_step_that_waits_takes_none_of_the_time_of_its_workflows() {
    let times = "[source.tools.\"*\"]\ntimeout = \"1500ms\"\n";
    let (rig, _directory) = flows("[approvals]\nwait = \"30s\"", times).await;
    for flow in ["f", "g"] {
        let meanwhile = async {
            let id = rig.pending().await;
            tokio::time::sleep(Duration::from_millis(1_800)).await;
            grant(&rig, &id).await;
        };
        let (called, ()) = tokio::join!(run(&rig, flow), meanwhile);
        let outcome = called.result.unwrap();
        assert!(!outcome.is_error, "{flow}: {outcome:?}");
    }
    assert_eq!(runs(&rig), 4);
}

/// When its caller disconnects, a workflow requests no more approvals, and its step does not run.
#[tokio::test]
async fn a_step_that_waits_ends_with_its_workflow() {
    let (rig, _directory) = flows("[approvals]\nwait = \"30s\"", "").await;
    let called = tokio::time::timeout(Duration::from_millis(500), run(&rig, "f")).await;
    called.unwrap_err();
    let id = rig.pending().await;
    grant(&rig, &id).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(runs(&rig), 1);
    let kept = rig.gateway.approvals().find(&approver("bob"), &id).await.unwrap().approval;
    assert_eq!(kept.state, ApprovalState::Granted, "the grant is still there");
}

/// I-32, I-64: in an interaction the request and the run under the grant belong to its run, and
/// closing it ends the wait.
#[tokio::test]
async fn a_call_of_an_interaction_asks_and_comes_back() {
    let rig = asking("", ASKS).await;
    let caller = caller();
    let interaction = rig.gateway.interaction(&caller).unwrap();
    let call = async |arguments: Value| {
        let request = CallRequest::new(
            rig.gateway.snapshot(),
            Surface::new("mcp", "Mcp"),
            ToolRef::Wire("s__echo"),
            arguments,
        );
        interaction.call(&caller, request).await
    };
    let id = asked(call(json!({})).await.result);
    grant(&rig, &id).await;
    let called = call(json!({})).await;
    called.result.unwrap();
    assert_eq!(called.run_id, *interaction.run_id());
    assert_ne!(asked(call(json!({})).await.result), id);
    interaction.close(SessionOutcome::Completed).await;
    let recorded = rig.log.recorded();
    assert_eq!(
        recorded,
        [
            "opened mcp:s.echo",
            "asked mcp:s.echo",
            "called",
            "returned Error approval_required",
            "granted bob",
            "called",
            "returned Ok ran",
            "asked mcp:s.echo",
            "called",
            "returned Error approval_required",
            "closed mcp:s.echo Completed",
        ]
    );
    assert_eq!(rig.runs(), 1);
}

#[tokio::test]
async fn an_interaction_that_closes_ends_the_wait() {
    let rig = asking("[approvals]\nwait = \"30s\"", ASKS).await;
    let caller = caller();
    let interaction = rig.gateway.interaction(&caller).unwrap();
    let request = CallRequest::new(
        rig.gateway.snapshot(),
        Surface::new("mcp", "Mcp"),
        ToolRef::Wire("s__echo"),
        json!({}),
    );
    let closing = async {
        let id = rig.pending().await;
        interaction.close(SessionOutcome::Failed).await;
        grant(&rig, &id).await;
    };
    let (called, ()) = tokio::join!(interaction.call(&caller, request), closing);
    assert!(matches!(called.result, Err(CallError::Cancelled)), "{:?}", called.result);
    assert_eq!(rig.runs(), 0);
}
