//! Principals that the operator declares one person (I-65).

use serde_json::json;
use toolcrib_core::{
    approval::{ApprovalState, Verdict, VoteRefusal},
    call::CallError,
    id::ApprovalId,
    principal::Principal,
};
use toolcrib_gateway::approvals::{ApprovalError, to_json};

use super::{ASKS, asked, asking, hands::request, refused, who};
use crate::support::{Rig, one_source, parse};

const ANN: &str = "[[auth.same_person]]\ntenant = \"t\"\nprincipals = [\"ann\", \"ann-token\"]\n";
const BOB: &str = "[[auth.same_person]]\ntenant = \"t\"\nprincipals = [\"bob\", \"bob-token\"]\n";
const TWO: &str = "[approvals]\nquorum = 2\n";

fn approver(name: &str) -> Principal {
    who(name, &["tools:*", "approvals:respond", "approvals:override"])
}

async fn vote(rig: &Rig, name: &str, id: &ApprovalId, verdict: Verdict) -> VoteRefusal {
    let comment = Some("why".to_owned());
    refused(rig.gateway.approvals().respond(&approver(name), id, verdict, comment).await)
}

async fn apply(rig: &Rig, settings: &str) {
    let text = format!("{settings}\n{}", one_source(ASKS));
    rig.gateway.apply(parse(&text)).await.unwrap();
}

/// I-65
#[tokio::test]
async fn a_person_does_not_consent_under_another_name() {
    let rig = asking(ANN, ASKS).await;
    let calls = [("ann", "ann-token"), ("ann-token", "ann")];
    for (number, (caller, other)) in (0..).zip(calls) {
        let called = rig.call(&approver(caller), "s__echo", json!({ "n": number })).await;
        let id = asked(called.result);
        for verdict in [Verdict::Grant, Verdict::Reject, Verdict::Override] {
            assert_eq!(vote(&rig, other, &id, verdict).await, VoteRefusal::Own);
        }
        // Lists and pages say the same.
        let found = rig.gateway.approvals().find(&approver(other), &id).await.unwrap().approval;
        let config = rig.gateway.config();
        let now = rig.gateway.clock().now();
        let shown = to_json(&found, None, &approver(other), &config.people, now);
        assert_eq!((&shown["mayRespond"], &shown["mayOverride"]), (&json!(false), &json!(false)));
        assert!(shown["whyNot"].as_str().unwrap().contains("your own request"), "{shown}");
        assert_eq!(found.votes, []);
        rig.answer(&approver("bob"), &id, Verdict::Grant).await;
        let called = rig.call(&approver(caller), "s__echo", json!({ "n": number })).await;
        called.result.unwrap();
    }
    assert_eq!(rig.runs(), 2);
}

/// I-65
#[tokio::test]
async fn a_person_is_one_of_a_quorum() {
    let rig = asking(&format!("{TWO}{BOB}"), ASKS).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    for verdict in [Verdict::Grant, Verdict::Reject, Verdict::Override] {
        assert_eq!(vote(&rig, "bob-token", &id, verdict).await, VoteRefusal::Again);
    }
    let carol = rig.answer(&approver("carol"), &id, Verdict::Grant).await;
    assert_eq!(carol.state, ApprovalState::Granted);
    // Another tenant has another person of this name.
    let text = BOB.replace("\"t\"", "\"other\"");
    let rig = asking(&format!("{TWO}{text}"), ASKS).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    let granted = rig.answer(&approver("bob-token"), &id, Verdict::Grant).await;
    assert_eq!(granted.state, ApprovalState::Granted);
}

/// I-65: the person who makes a key is behind it under each of its names.
#[tokio::test]
async fn a_key_of_a_person_has_that_hand() {
    let rig = asking(ANN, ASKS).await;
    let scopes: &[&str] = &["keys:*", "approvals:respond", "tools:*"];
    let ann = rig.by_operator("ann", scopes).await;
    let made = rig.gateway.create_key(&ann, request("made", scopes)).await.unwrap();
    let made = rig.gateway.authenticator().authenticate(made.text.expose()).unwrap();
    let called = rig.call(&approver("ann-token"), "s__echo", json!({})).await;
    let id = asked(called.result);
    let answer = rig.gateway.approvals().respond(&made, &id, Verdict::Grant, None).await;
    assert_eq!(refused(answer), VoteRefusal::SameHand);
}

/// I-103: a declaration also counts for grants that exist already.
#[tokio::test]
async fn a_grant_of_one_person_ends_with_its_declaration() {
    for (settings, voters, declared) in
        [("", &["ann-token"][..], ANN), (TWO, &["bob", "bob-token"][..], BOB)]
    {
        let rig = asking(settings, ASKS).await;
        let id = rig.ask(json!({})).await;
        for voter in voters {
            rig.answer(&approver(voter), &id, Verdict::Grant).await;
        }
        apply(&rig, &format!("{settings}{declared}")).await;
        let called = rig.call(&super::caller(), "s__echo", json!({})).await.result;
        assert!(matches!(called, Err(CallError::ApprovalRequired { .. })), "{called:?}");
        assert_eq!(rig.runs(), 0);
        let recorded = rig.log.recorded();
        assert!(recorded.contains(&"rejected core.system approver".to_owned()), "{recorded:?}");
        let ended = rig.gateway.approvals().find(&super::caller(), &id).await.unwrap().approval;
        assert_eq!(ended.state, ApprovalState::Withdrawn);
    }
    // Between different people nothing ends.
    let rig = asking(TWO, ASKS).await;
    let id = rig.ask(json!({})).await;
    for voter in ["bob", "carol"] {
        rig.answer(&approver(voter), &id, Verdict::Grant).await;
    }
    apply(&rig, &format!("{TWO}{ANN}{BOB}")).await;
    rig.call(&super::caller(), "s__echo", json!({})).await.result.unwrap();
    assert_eq!(rig.runs(), 1);
    let answer = rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, None).await;
    assert!(matches!(answer, Err(ApprovalError::Refused(_))), "{answer:?}");
}
