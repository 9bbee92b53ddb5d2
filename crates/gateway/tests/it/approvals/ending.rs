//! Grants that end before they are used (I-103), and lists of approvals that others fill.

use std::time::Duration;

use serde_json::json;
use toolcrib_core::{
    approval::{ApprovalState, Verdict, VoteRefusal},
    people::People,
    principal::Principal,
};

use super::{ASKS, approver, asked, asking, caller, refused, who};
use crate::support::{Rig, parse};

async fn state(rig: &Rig, id: &toolcrib_core::id::ApprovalId) -> ApprovalState {
    rig.gateway.approvals().find(&caller(), id).await.unwrap().approval.state
}

async fn withdraw(rig: &Rig, who: &Principal, id: &toolcrib_core::id::ApprovalId) -> VoteRefusal {
    refused(rig.gateway.approvals().respond(who, id, Verdict::Withdraw, None).await)
}

// I-103
#[tokio::test]
async fn a_grant_that_was_withdrawn_lets_no_call_run() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    let bob = approver("bob");
    assert_eq!(withdraw(&rig, &bob, &id).await, VoteRefusal::NotGranted("pending"));
    rig.answer(&bob, &id, Verdict::Grant).await;
    assert_eq!(withdraw(&rig, &caller(), &id).await, VoteRefusal::Own);
    let withdrawn = rig.answer(&bob, &id, Verdict::Withdraw).await;
    assert_eq!((withdrawn.state, withdrawn.live), (ApprovalState::Withdrawn, false));
    let again = rig.ask(json!({})).await;
    assert_ne!(again, id, "the call needs a new approval");
    // Only a principal that could have given the grant can withdraw it.
    rig.answer(&bob, &again, Verdict::Grant).await;
    rig.answer(&who("olga", &["approvals:override"]), &again, Verdict::Withdraw).await;
    assert_eq!(withdraw(&rig, &bob, &again).await, VoteRefusal::NotGranted("withdrawn"));
    assert_eq!(rig.runs(), 0);
    let recorded = rig.log.recorded();
    assert!(recorded.contains(&"rejected bob withdrawn".to_owned()), "{recorded:?}");
    assert!(recorded.contains(&"rejected olga withdrawn".to_owned()), "{recorded:?}");
}

// I-103
#[tokio::test]
async fn one_consent_of_two_can_be_withdrawn_by_its_approver() {
    let rig = asking("", &format!("{ASKS}approval_quorum = 2\n")).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    let carl = approver("carl");
    assert_eq!(withdraw(&rig, &carl, &id).await, VoteRefusal::NotGranted("pending"));
    let withdrawn = rig.answer(&approver("bob"), &id, Verdict::Withdraw).await;
    assert_eq!(withdrawn.state, ApprovalState::Withdrawn);
    assert_eq!(rig.runs(), 0);
}

// I-103
#[tokio::test]
async fn a_grant_ends_with_the_key_of_its_approver() {
    let rig = asking("", ASKS).await;
    let bob = rig.by_operator("bob", &["approvals:respond"]).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&bob, &id, Verdict::Grant).await;
    let key = bob.auth.key().unwrap().clone();
    let admin = rig.by_operator("admin", &["keys:*"]).await;
    rig.gateway.revoke_key(&admin, &key).await.unwrap();
    let again = rig.ask(json!({})).await;
    assert_ne!(again, id);
    assert_eq!(state(&rig, &id).await, ApprovalState::Withdrawn);
    assert_eq!(rig.runs(), 0);
    assert!(rig.log.recorded().contains(&"rejected core.system approver".to_owned()));
    // A key that still works keeps its grant.
    let carl = rig.by_operator("carl", &["approvals:respond"]).await;
    rig.answer(&carl, &again, Verdict::Grant).await;
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
}

// I-103
#[tokio::test]
async fn a_grant_ends_when_its_approver_loses_the_scope() {
    let role = |scope: &str| format!("[[role]]\nname = \"boss\"\nscopes = [\"{scope}\"]\n");
    let rig = asking(&role("approvals:respond"), ASKS).await;
    let mut request = super::hands::request("bob", &[]);
    request.roles = vec!["boss".to_owned()];
    let bob = rig.with_key(request).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&bob, &id, Verdict::Grant).await;
    let narrower = role("tools:none") + &crate::support::one_source(ASKS);
    rig.gateway.apply(parse(&narrower)).await.unwrap();
    rig.gateway.supply().settle(Duration::from_secs(10)).await;
    assert_ne!(rig.ask(json!({})).await, id);
    assert_eq!(state(&rig, &id).await, ApprovalState::Withdrawn);
    assert_eq!(rig.runs(), 0);
}

// I-103
#[tokio::test]
async fn a_grant_under_other_terms_lets_no_call_run() {
    for stricter in [
        "approval_quorum = 2\n",
        "approval_scope = \"big:approve\"\n",
        "approval_role = \"boss\"\n",
    ] {
        let role = "[[role]]\nname = \"boss\"\nscopes = []\n";
        let rig = asking(role, ASKS).await;
        let id = rig.ask(json!({})).await;
        rig.answer(&approver("bob"), &id, Verdict::Grant).await;
        let changed = role.to_owned() + &crate::support::one_source(&format!("{ASKS}{stricter}"));
        rig.gateway.apply(parse(&changed)).await.unwrap();
        rig.gateway.supply().settle(Duration::from_secs(10)).await;
        assert_ne!(rig.ask(json!({})).await, id, "{stricter}");
        assert_eq!(rig.runs(), 0, "{stricter}");
    }
}

/// I-102: arguments that a card leaves out are counted, because the approver consents to them too.
#[tokio::test]
async fn what_is_left_out_of_a_request_is_said() {
    let settings = "[approvals]\nshow_arguments = true\n";
    let rig = asking(settings, ASKS).await;
    let mut arguments = serde_json::Map::new();
    for number in 0..64 {
        arguments.insert(format!("k{number}"), json!(1));
    }
    let shown = async |arguments: serde_json::Value| {
        let id = rig.ask(arguments).await;
        let found = rig.gateway.approvals().find(&approver("bob"), &id).await.unwrap();
        let now = rig.gateway.clock().now();
        toolcrib_gateway::approvals::to_json(
            &found.approval,
            found.input.as_deref(),
            &approver("bob"),
            &People::default(),
            now,
        )
    };
    let all = shown(json!(arguments)).await;
    assert!(all.get("moreArguments").is_none() && all.get("inputTooLarge").is_none(), "{all}");
    arguments.insert("force_delete_everything".to_owned(), json!(true));
    arguments.insert("n".repeat(200), json!("x".repeat(20_000)));
    arguments.swap_remove("k0");
    let all = shown(json!(arguments)).await;
    assert_eq!(all["moreArguments"], 1);
    assert!(all["inputTooLarge"].as_u64().unwrap() > 20_000, "{all}");
    assert!(all.get("redactedArguments").is_none());
    let long = format!("{}…", "n".repeat(128));
    let names = all["arguments"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap());
    assert!(names.into_iter().any(|name| name == long || name.starts_with("force")), "{all}");
}

/// An override needs a reason that a person can read.
#[tokio::test]
async fn a_comment_of_hidden_characters_is_no_reason() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    let olga = who("olga", &["approvals:override", "approvals:respond"]);
    for comment in ["", " \n", "\u{200b}\u{2060}", "\u{3164}\u{2800}\u{a0}", "\u{fe0f}", "\u{301}"]
    {
        let comment = Some(comment.to_owned());
        let said = rig.gateway.approvals().respond(&olga, &id, Verdict::Override, comment).await;
        assert_eq!(refused(said), VoteRefusal::Unexplained);
    }
    let blank = Some("\u{200b}".to_owned());
    let granted = rig.gateway.approvals().respond(&olga, &id, Verdict::Grant, blank).await.unwrap();
    assert_eq!(granted.votes[0].comment, None, "nothing that a person could read");
}

// I-9
#[tokio::test]
async fn a_list_has_what_its_reader_sees_behind_a_thousand_others() {
    let rules = "[source.tools.echo]\napproval = \"always\"\n[source.tools.fail]\n\
                 approval = \"always\"\napproval_scope = \"finance:approve\"\n";
    let rig = asking("", rules).await;
    let id = rig.ask(json!({})).await;
    for name in 0..11 {
        let other = who(&format!("other-{name}"), &["tools:*"]);
        for n in 0..100 {
            asked(rig.call(&other, "s__fail", json!({ "n": n })).await.result);
        }
    }
    let listed = rig.gateway.approvals().list(&approver("bob"), None, 100).await.unwrap();
    let ids: Vec<_> = listed.iter().map(|approval| &approval.id).collect();
    assert_eq!(ids, [&id]);
    let pending = Some(ApprovalState::Pending);
    let all = who("olga", &["approvals:override"]);
    assert_eq!(rig.gateway.approvals().list(&all, pending, 1_000).await.unwrap().len(), 1_000);
    assert_eq!(rig.gateway.approvals().list(&caller(), None, 5).await.unwrap().len(), 1);
}
