//! The call that a grant is for: everything that its caller sent, and what runs for it (I-102).

use serde_json::{Map, Value, json};
use toolcrib_core::{
    approval::Verdict,
    call::{CallInput, CallerInput},
};
use toolcrib_gateway::{CallReport, CallRequest, ToolRef, metrics::Surface};

use super::{ASKS, approver, asked, asking, caller};
use crate::support::{Rig, parse};

/// A call with the answers and the state of a further round.
fn round(arguments: Value, responses: Option<Value>, state: Option<&str>) -> CallInput {
    let caller = CallerInput {
        capabilities: Map::from_iter([("elicitation".to_owned(), json!({}))]),
        responses: responses.and_then(|it| it.as_object().cloned()),
        state: state.map(str::to_owned),
        is_repeated: false,
    };
    CallInput { arguments, caller: Some(caller), meta: Map::new() }
}

async fn send(rig: &Rig, input: CallInput) -> CallReport {
    let (snapshot, surface) = (rig.gateway.snapshot(), Surface::new("mcp", "Mcp"));
    let request = CallRequest::new(snapshot, surface, ToolRef::Wire("s__echo"), input);
    rig.gateway.call(&caller(), request).await
}

// I-64, I-102
#[tokio::test]
async fn a_grant_is_not_for_answers_that_its_approver_has_not_seen() {
    let rig = asking("", ASKS).await;
    let arguments = || json!({ "amount": 1, "to": "bob" });
    let id = asked(send(&rig, round(arguments(), None, None)).await.result);
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    let answers = json!({ "to": { "action": "accept", "content": { "to": "eve" } } });
    for (responses, state) in
        [(Some(answers.clone()), None), (Some(answers.clone()), Some("s")), (None, Some("s"))]
    {
        let other = asked(send(&rig, round(arguments(), responses, state)).await.result);
        assert_ne!(other, id, "another round is another call");
    }
    assert_eq!(rig.runs(), 0);
    // The approved call is the same one by any surface.
    rig.call(&caller(), "s__echo", arguments()).await.result.unwrap();
    // A round has its own approval, which shows its answers.
    let further = || round(arguments(), Some(answers.clone()), Some("s7"));
    let id = asked(send(&rig, further()).await.result);
    let shown = rig.gateway.approvals().find(&approver("bob"), &id).await.unwrap().approval;
    let shape = shown.round.unwrap();
    assert_eq!((shape.responses[0].name.as_str(), shape.state_bytes), ("to", Some(2)));
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    send(&rig, further()).await.result.unwrap();
    assert_eq!(rig.runs(), 2);
}

// I-15, I-102
#[tokio::test]
async fn a_condition_on_arguments_does_not_let_answers_pass() {
    let rules = "[source.tools.\"*\"]\nsafety_tier = \"write\"\napproval = \"conditional\"\n\
                 approval_when = { arguments = [ { pointer = \"/n\", above = 10 } ] }\n";
    let rig = asking("", rules).await;
    send(&rig, round(json!({ "n": 1 }), None, None)).await.result.unwrap();
    let answers = json!({ "n": { "action": "accept", "content": { "n": 1_000 } } });
    asked(send(&rig, round(json!({ "n": 1 }), Some(answers), None)).await.result);
    asked(send(&rig, round(json!({ "n": 1 }), None, Some("s"))).await.result);
    assert_eq!(rig.runs(), 1);
}

/// A grant is for the exact number, also where a double would round it.
#[tokio::test]
async fn a_grant_is_for_one_exact_number() {
    let rig = asking("", ASKS).await;
    let with = |number: &str| {
        let answers = format!(r#"{{ "n": {{ "content": {{ "n": {number} }} }} }}"#);
        round(json!({}), Some(serde_json::from_str(&answers).unwrap()), None)
    };
    for (asked_for, other) in [
        ("9007199254740992", "9007199254740993"),
        ("18446744073709551616", "18446744073709551617"),
        ("0.1", "0.10000000000000001"),
        ("1e-400", "0"),
    ] {
        let id = asked(send(&rig, with(asked_for)).await.result);
        rig.answer(&approver("bob"), &id, Verdict::Grant).await;
        let runs = rig.runs();
        asked(send(&rig, with(other)).await.result);
        assert_eq!(rig.runs(), runs, "{other} ran");
        send(&rig, with(asked_for)).await.result.unwrap();
        assert_eq!(rig.runs(), runs + 1);
    }
}

/// A source with one command.
fn command(program: &str, args: &str) -> String {
    format!(
        "[[source]]\nid = \"s\"\nkind = \"host-extension\"\n[source.commands.echo]\n\
         program = \"{program}\"\nargs = {args}\n"
    )
}

// I-64, I-102
#[tokio::test]
async fn a_grant_is_for_the_program_and_the_arguments_of_its_time() {
    let first = command("/bin/true", "[\"--dry-run\"]");
    let offers = Some(Ok(crate::support::offer(&["echo"])));
    let rig = crate::support::rig_with(offers, &first, toolcrib_store::MemoryCatalogs::default());
    let rig = rig.await;
    let mut ids = vec![rig.ask(json!({})).await];
    for config in [
        command("/bin/false", "[\"--dry-run\"]"),
        command("/bin/true", "[]"),
        command("/bin/true", "[\"--dry-run\"]") + "inherit = [\"HOME\"]\n",
    ] {
        rig.answer(&approver("bob"), ids.last().unwrap(), Verdict::Grant).await;
        rig.gateway.apply(parse(&config)).await.unwrap();
        rig.gateway.supply().settle(std::time::Duration::from_secs(10)).await;
        let id = rig.ask(json!({})).await;
        assert!(!ids.contains(&id), "another program needs another approval: {config}");
        ids.push(id);
    }
    // The first program again: its grant has not been used.
    rig.gateway.apply(parse(&first)).await.unwrap();
    rig.gateway.supply().settle(std::time::Duration::from_secs(10)).await;
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
}
