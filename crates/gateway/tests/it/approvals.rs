//! Approval through the gate: the approvers, their permissions, and the rule that a grant is one
//! run.

mod binding;
mod ending;
mod hands;
mod parts;
mod people;
mod webhook;

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{Approval, ApprovalState, Verdict, VoteRefusal},
    call::{CallError, Outcome},
    event::EventBody,
    id::{ApprovalId, KeyId, PrincipalId},
    principal::{AuthMethod, Principal},
};
use toolcrib_gateway::approvals::ApprovalError;

use crate::support::{Rig, eventually, one_source, principal, rig_with};

const ASKS: &str = "[source.tools.\"*\"]\napproval = \"always\"\n";

async fn asking(settings: &str, rules: &str) -> Rig {
    let text = format!("{settings}\n{}", one_source(rules));
    let offers = Some(Ok(crate::support::offer(&["echo", "fail", "slow"])));
    rig_with(offers, &text, toolcrib_store::MemoryCatalogs::default()).await
}

fn who(name: &str, scopes: &[&str]) -> Principal {
    Principal { id: PrincipalId::parse(name).unwrap(), ..principal("t", scopes) }
}

fn caller() -> Principal {
    who("ann", &["tools:*"])
}

fn approver(name: &str) -> Principal {
    who(name, &["approvals:respond"])
}

/// Returns the approval that a refused call names.
fn asked(result: Result<Outcome, CallError>) -> ApprovalId {
    match result {
        Err(CallError::ApprovalRequired { pending: Some(asked), .. }) => asked.approval,
        other => panic!("{other:?}"),
    }
}

impl Rig {
    async fn ask(&self, arguments: Value) -> ApprovalId {
        asked(self.call(&caller(), "s__echo", arguments).await.result)
    }

    async fn answer(&self, who: &Principal, id: &ApprovalId, verdict: Verdict) -> Approval {
        self.gateway.approvals().respond(who, id, verdict, None).await.unwrap()
    }

    /// Waits for a pending approval and returns the newest.
    async fn pending(&self) -> ApprovalId {
        let pending = Some(ApprovalState::Pending);
        for _ in 0..1_000 {
            let found = self.gateway.approvals().list(&approver("bob"), pending, 1).await.unwrap();
            if let Some(found) = found.first() {
                return found.id.clone();
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody asks");
    }

    fn runs(&self) -> usize {
        self.source().invoked.load(Ordering::SeqCst)
    }
}

fn refused(result: Result<Approval, ApprovalError>) -> VoteRefusal {
    match result {
        Err(ApprovalError::Refused(refused)) => refused,
        other => panic!("{other:?}"),
    }
}

/// I-15, I-64: call, grant, the same call runs once; the next one and any other require a new
/// approval.
#[tokio::test]
async fn a_grant_is_one_run_of_one_call() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({"n": 1})).await;
    assert_eq!(rig.ask(json!({"n": 1})).await, id, "the same call does not ask twice");
    let other = rig.ask(json!({"n": 2})).await;
    assert_ne!(other, id);
    assert_eq!(
        rig.answer(&approver("bob"), &id, Verdict::Grant).await.state,
        ApprovalState::Granted
    );
    assert_eq!(rig.ask(json!({"n": 2})).await, other, "other arguments are another call");
    let eve = who("eve", &["tools:*"]);
    let hers = rig.call(&eve, "s__echo", json!({"n": 1})).await.result;
    assert_ne!(asked(hers), id, "another caller is another call");
    assert_eq!(rig.runs(), 0);
    let called = rig.call(&caller(), "s__echo", json!({"n": 1})).await;
    assert!(called.result.is_ok(), "{:?}", called.result);
    let used = rig.gateway.approvals().find(&caller(), &id).await.unwrap().approval;
    assert_eq!((used.state, used.used_by), (ApprovalState::Used, Some(called.call_id)));
    assert_ne!(rig.ask(json!({"n": 1})).await, id, "a second run needs a second grant");
    assert_eq!(rig.runs(), 1);
}

/// The recorded events and their causes. I-20: they contain nothing of the arguments.
#[tokio::test]
async fn the_record_tells_who_was_asked_and_who_answered() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({"text": "canary"})).await;
    let comment = Some("canary".to_owned());
    rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, comment).await.unwrap();
    rig.call(&caller(), "s__echo", json!({"text": "canary"})).await.result.unwrap();
    let recorded = [
        "asked mcp:s.echo",
        "called",
        "returned Error approval_required",
        "granted bob",
        "called",
        "returned Ok ran",
    ];
    assert_eq!(rig.log.recorded(), recorded);
    let events = rig.log.kept.events();
    let cause = |at: usize| events[at].event.causation_id.clone();
    let event = |at: usize| Some(events[at].event.event_id.clone());
    assert_eq!([cause(0), cause(1), cause(2)], [None, event(0), event(1)]);
    assert_eq!([cause(3), cause(4), cause(5)], [event(0), event(3), event(4)]);
    assert_eq!(events[3].event.run_id, events[0].event.run_id, "in the run that asked");
    let EventBody::InterruptRequested(interrupt) = &events[0].event.body else { panic!() };
    assert_eq!((interrupt.key.clone(), interrupt.timeout_ms), (id, 900_000));
    let all: Vec<_> = events.iter().map(|logged| &logged.event).collect();
    assert!(!serde_json::to_string(&all).unwrap().contains("canary"));
}

/// I-64: callers cannot approve their own calls, whatever their keys or rights.
#[tokio::test]
async fn nobody_answers_for_themselves() {
    let rig = asking("", ASKS).await;
    let everything = |auth: AuthMethod| Principal { auth, ..who("ann", &["*"]) };
    let key = |name: &str| AuthMethod::ApiKey(KeyId::parse(name).unwrap());
    let id = asked(rig.call(&everything(key("one")), "s__echo", json!({})).await.result);
    for me in [everything(key("one")), everything(key("two")), everything(AuthMethod::Operator)] {
        for verdict in [Verdict::Grant, Verdict::Reject, Verdict::Override] {
            let answer =
                rig.gateway.approvals().respond(&me, &id, verdict, Some("why".to_owned())).await;
            assert_eq!(refused(answer), VoteRefusal::Own);
        }
    }
    // The same key under another name is still the same approver.
    let renamed = Principal { auth: key("one"), ..who("bob", &["*"]) };
    let answer = rig.gateway.approvals().respond(&renamed, &id, Verdict::Grant, None).await;
    assert_eq!(refused(answer), VoteRefusal::Own);
    assert_eq!(rig.gateway.approvals().find(&renamed, &id).await.unwrap().approval.votes, []);
}

/// I-9: the approval does not exist for other tenants, and for callers that could not respond to
/// it.
#[tokio::test]
async fn only_those_who_hold_the_scope_answer() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    let foreign = principal("other", &["*"]);
    let anonymous = Principal { auth: AuthMethod::Anonymous, ..approver("anonymous") };
    for stranger in [who("eve", &["tools:*"]), foreign, anonymous] {
        let answer = rig.gateway.approvals().respond(&stranger, &id, Verdict::Grant, None).await;
        assert!(matches!(answer, Err(ApprovalError::NotFound)), "{answer:?}");
        let listed = rig.gateway.approvals().list(&stranger, None, 100).await.unwrap();
        assert_eq!(listed, []);
    }
    let overrider = who("eve", &["approvals:override"]);
    let answer = rig.gateway.approvals().respond(&overrider, &id, Verdict::Grant, None).await;
    assert_eq!(refused(answer), VoteRefusal::Scope("approvals:respond".to_owned()));
    let own = rig.gateway.approvals().list(&caller(), None, 100).await.unwrap();
    assert_eq!(own.len(), 1, "whoever asked sees it");
}

#[tokio::test]
async fn a_refusal_ends_it_until_its_time_is_over() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Reject).await;
    for _ in 0..2 {
        let again = rig.call(&caller(), "s__echo", json!({})).await.result;
        let Err(CallError::ApprovalRejected { approval, .. }) = again else { panic!("{again:?}") };
        assert_eq!(approval, id);
    }
    let late = rig.gateway.approvals().respond(&approver("carol"), &id, Verdict::Grant, None).await;
    assert_eq!(refused(late), VoteRefusal::NotPending("rejected"));
    assert_eq!(rig.runs(), 0);
    assert!(rig.log.recorded().contains(&"rejected bob rejected".to_owned()));
}

#[tokio::test]
async fn as_many_as_are_needed_have_to_consent() {
    let rig = asking("[approvals]\nquorum = 2", ASKS).await;
    let id = rig.ask(json!({})).await;
    assert_eq!(
        rig.answer(&approver("bob"), &id, Verdict::Grant).await.state,
        ApprovalState::Pending
    );
    let twice = rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, None).await;
    assert_eq!(refused(twice), VoteRefusal::Again);
    assert_eq!(rig.ask(json!({})).await, id, "one of two is not enough");
    rig.answer(&approver("carol"), &id, Verdict::Grant).await;
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
    let recorded = rig.log.recorded();
    let of = |text: &str| recorded.iter().any(|recorded| recorded == text);
    assert!(of("granted bob 1/2") && of("granted carol 2/2"), "{recorded:?}");
}

const BOSS: &str = "[[role]]\nname = \"boss\"\nscopes = []\n";

#[tokio::test]
async fn a_rule_names_role_scope_and_number() {
    let rules = "[source.tools.\"*\"]\napproval = \"always\"\napproval_quorum = 1\n\
                 approval_role = \"boss\"\napproval_scope = \"money:spend\"\n";
    let rig = asking(&format!("[approvals]\nquorum = 3\n{BOSS}"), rules).await;
    let id = rig.ask(json!({})).await;
    let usual = rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, None).await;
    assert!(matches!(usual, Err(ApprovalError::NotFound)), "{usual:?}");
    let clerk = who("carol", &["money:spend"]);
    let answer = rig.gateway.approvals().respond(&clerk, &id, Verdict::Grant, None).await;
    assert!(
        matches!(answer, Err(ApprovalError::NotFound)),
        "the scope without the role: {answer:?}"
    );
    assert!(matches!(
        rig.gateway.approvals().find(&clerk, &id).await,
        Err(ApprovalError::NotFound)
    ));
    let boss = Principal { roles: vec!["boss".to_owned()], ..clerk };
    assert_eq!(rig.answer(&boss, &id, Verdict::Grant).await.state, ApprovalState::Granted);
}

#[tokio::test]
async fn an_override_passes_over_everybody_and_says_why() {
    let rules = format!("{ASKS}approval_role = \"boss\"\napproval_quorum = 5\n");
    let rig = asking(BOSS, &rules).await;
    let id = rig.ask(json!({})).await;
    let chief = who("chief", &["approvals:override"]);
    let silent = rig.gateway.approvals().respond(&chief, &id, Verdict::Override, None).await;
    assert_eq!(refused(silent), VoteRefusal::Unexplained);
    let without = Principal { roles: vec!["boss".to_owned()], ..approver("bob") };
    let comment = || Some("the house burns".to_owned());
    let answer = rig.gateway.approvals().respond(&without, &id, Verdict::Override, comment()).await;
    assert_eq!(refused(answer), VoteRefusal::Scope("approvals:override".to_owned()));
    rig.gateway.approvals().respond(&chief, &id, Verdict::Override, comment()).await.unwrap();
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
    assert!(
        rig.log.recorded().contains(&"overridden chief".to_owned()),
        "{:?}",
        rig.log.recorded()
    );
}

/// Both the request and the grant expire.
#[tokio::test]
async fn what_nobody_answers_or_uses_ends() {
    let rig = asking("[approvals]\ntimeout = \"200ms\"", ASKS).await;
    let id = rig.ask(json!({})).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    let late = rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, None).await;
    assert_eq!(refused(late), VoteRefusal::NotPending("expired"));
    assert!(rig.log.recorded().contains(&"rejected core.system timeout".to_owned()));
    let next = rig.ask(json!({})).await;
    assert_ne!(next, id);
    rig.answer(&approver("bob"), &next, Verdict::Grant).await;
    tokio::time::sleep(Duration::from_millis(250)).await;
    assert_ne!(rig.ask(json!({})).await, next, "a grant does not wait for ever");
    assert_eq!(rig.runs(), 0);
    let by_itself = "nobody has to look for it to end";
    eventually(by_itself, || {
        rig.log
            .recorded()
            .iter()
            .filter(|recorded| *recorded == "rejected core.system timeout")
            .count()
            == 2
    })
    .await;
}

/// `argsHash` covers redacted arguments and is the same for both; a grant covers the actual ones.
#[tokio::test]
async fn another_secret_is_another_call() {
    let rig = asking("", ASKS).await;
    let with = |secret: &str| json!({"text": "x", "api_key": secret});
    let id = rig.ask(with("first-secret-of-many")).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    let other = rig.ask(with("other-secret-of-many")).await;
    assert_ne!(other, id);
    let events = rig.log.kept.events();
    let hashes = events.into_iter().filter_map(|logged| {
        let EventBody::ToolCalled(called) = logged.event.body else { return None };
        called.args_hash
    });
    let hashes: Vec<_> = hashes.collect();
    assert_eq!(hashes[0], hashes[1]);
    rig.call(&caller(), "s__echo", with("first-secret-of-many")).await.result.unwrap();
    assert_eq!(rig.runs(), 1);
}

/// I-64.
#[tokio::test]
async fn of_fifty_that_come_with_one_grant_one_runs() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    let caller = caller();
    let calls = (0..50).map(|_| rig.call(&caller, "s__echo", json!({})));
    let ended = futures_util::future::join_all(calls).await;
    assert_eq!(ended.iter().filter(|called| called.result.is_ok()).count(), 1);
    assert_eq!(rig.runs(), 1);
    let pending = Some(ApprovalState::Pending);
    let asked = rig.gateway.approvals().list(&caller, pending, 100).await.unwrap();
    assert_eq!(asked.len(), 1, "the others ask together");
}

/// The call that requests the approval uses the rate limit; the one under the grant does not use it
/// again.
#[tokio::test]
async fn a_call_is_paid_for_once() {
    let rig = asking("", &format!("{ASKS}rate = \"1/h\"\n")).await;
    let id = rig.ask(json!({})).await;
    let again = rig.call(&caller(), "s__echo", json!({})).await.result;
    assert!(matches!(again, Err(CallError::RateLimited { .. })), "asking again does: {again:?}");
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    rig.call(&caller(), "s__echo", json!({})).await.result.unwrap();
    let next = rig.call(&caller(), "s__echo", json!({})).await.result;
    assert!(matches!(next, Err(CallError::RateLimited { .. })), "{next:?}");
}

/// The wait does not count towards the tool's own deadline.
#[tokio::test]
async fn a_call_that_waits_goes_on_with_the_grant() {
    let rules = format!("{ASKS}timeout = \"50ms\"\n");
    let rig = asking("[approvals]\nwait = \"20s\"", &rules).await;
    let caller = caller();
    let waiting = rig.call(&caller, "s__echo", json!({}));
    let granting = async {
        let id = rig.pending().await;
        tokio::time::sleep(Duration::from_millis(120)).await;
        rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    };
    let (called, ()) = tokio::join!(waiting, granting);
    called.result.unwrap();
    let recorded = ["asked mcp:s.echo", "granted bob", "called", "returned Ok ran"];
    assert_eq!(rig.log.recorded(), recorded, "it is one call, in one run");
}

#[tokio::test]
async fn a_caller_that_hangs_up_waits_no_longer_and_runs_nothing() {
    let rig = asking("[approvals]\nwait = \"20s\"", ASKS).await;
    let caller = caller();
    let call = rig.call(&caller, "s__echo", json!({}));
    tokio::time::timeout(Duration::from_millis(200), call).await.unwrap_err();
    let found = rig.gateway.approvals().list(&approver("bob"), None, 100).await.unwrap();
    rig.answer(&approver("bob"), &found[0].id, Verdict::Grant).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(rig.runs(), 0);
    // The caller may retry.
    rig.call(&caller, "s__echo", json!({})).await.result.unwrap();
    assert_eq!(rig.runs(), 1);
}

/// I-15: no content of a tool's result counts as a response to a request for approval.
#[tokio::test]
async fn a_condition_decides_which_calls_ask() {
    let rules = "[source.tools.\"*\"]\nsafety_tier = \"write\"\napproval = \"conditional\"\n\
                 approval_when = { arguments = [ { pointer = \"/n\", above = 10 }, \
                 { pointer = \"/to\", matches = \"@example\\\\.com$\" } ] }\n";
    let rig = asking("", rules).await;
    for (arguments, asks) in [
        (json!({"n": 1, "to": "a@example.org"}), false),
        (json!({"n": 11, "to": "a@example.org"}), true),
        (json!({"n": 1, "to": "a@example.com"}), true),
        (json!({"n": 1}), true),
        (json!({"n": "1", "to": "a@example.org"}), true),
    ] {
        let result = rig.call(&caller(), "s__echo", arguments.clone()).await.result;
        assert_eq!(result.is_err(), asks, "{arguments}");
    }
    assert_eq!(rig.runs(), 1);
}

/// Without a record no approval is requested, and a failing log consumes no grant.
#[tokio::test]
async fn nothing_runs_when_nobody_can_be_asked() {
    let rig = asking("", ASKS).await;
    rig.log.fails.store(true, Ordering::SeqCst);
    let called = rig.call(&caller(), "s__echo", json!({})).await.result;
    assert!(matches!(called, Err(CallError::NotAccountable("approved"))), "{called:?}");
    rig.log.fails.store(false, Ordering::SeqCst);
    assert_eq!(rig.gateway.approvals().list(&caller(), None, 100).await.unwrap(), []);
    let id = rig.ask(json!({})).await;
    rig.log.fails.store(true, Ordering::SeqCst);
    let answer = rig.gateway.approvals().respond(&approver("bob"), &id, Verdict::Grant, None).await;
    assert!(matches!(answer, Err(ApprovalError::Unavailable)), "{answer:?}");
    rig.log.fails.store(false, Ordering::SeqCst);
    assert_eq!(rig.ask(json!({})).await, id);
    assert_eq!(rig.runs(), 0);
}

/// I-34.
#[tokio::test]
async fn listeners_hear_of_what_they_may_see() {
    let rig = asking("", ASKS).await;
    let bob = std::sync::Arc::new(approver("bob"));
    let eve = std::sync::Arc::new(who("eve", &["tools:*"]));
    let mut heard = rig.gateway.approvals().listen(&bob).await.unwrap();
    let mut deaf = rig.gateway.approvals().listen(&eve).await.unwrap();
    let id = rig.ask(json!({})).await;
    let news = heard.next().await.unwrap();
    assert_eq!(news.len(), 1);
    assert_eq!(news[0]["approvalId"], id.as_str());
    assert_eq!((&news[0]["state"], &news[0]["mayRespond"]), (&json!("pending"), &json!(true)));
    rig.answer(&bob, &id, Verdict::Grant).await;
    assert_eq!(heard.next().await.unwrap()[0]["state"], "granted");
    let nothing = tokio::time::timeout(Duration::from_millis(600), deaf.next()).await;
    assert!(nothing.is_err(), "{nothing:?}");
}

/// I-64: equal calls create a single request, also when they are concurrent.
#[tokio::test]
async fn calls_that_are_the_same_ask_once() {
    let rig = asking("", ASKS).await;
    let caller = caller();
    let calls = (0..20).map(|_| rig.call(&caller, "s__echo", json!({"b": 1, "a": [1, 2]})));
    let ended = futures_util::future::join_all(calls).await;
    let mut ids: Vec<_> = ended.into_iter().map(|called| asked(called.result)).collect();
    // Neither the order of members nor the notation of a number makes another call.
    ids.push(rig.ask(json!({"a": [1.0, 2], "b": 1})).await);
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_ne!(rig.ask(json!({"a": [2, 1], "b": 1})).await, ids[0]);
    let asked =
        rig.log.recorded().into_iter().filter(|recorded| recorded.starts_with("asked")).count();
    assert_eq!(asked, 2);
}

/// I-64: a crash between spending a grant and recording the call leaves the grant spent.
#[tokio::test]
async fn a_call_that_cannot_be_recorded_has_spent_its_grant_and_did_not_run() {
    let rig = asking("", ASKS).await;
    let id = rig.ask(json!({})).await;
    rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    rig.log.fails.store(true, Ordering::SeqCst);
    let called = rig.call(&caller(), "s__echo", json!({})).await.result;
    assert!(matches!(called, Err(CallError::NotAccountable(_))), "{called:?}");
    rig.log.fails.store(false, Ordering::SeqCst);
    let kept = rig.gateway.approvals().find(&caller(), &id).await.unwrap().approval;
    assert_eq!(kept.state, ApprovalState::Used);
    assert_ne!(rig.ask(json!({})).await, id);
    assert_eq!(rig.runs(), 0);
}

/// Makes a call that waits for its approval, applies `rules` meanwhile, and then grants it. The call
/// must not run; returns its error.
async fn refused_after_wait(rules: &str) -> CallError {
    let settings = "[approvals]\nwait = \"20s\"";
    let rig = asking(settings, ASKS).await;
    let caller = caller();
    let waiting = rig.call(&caller, "s__echo", json!({}));
    let meanwhile = async {
        let id = rig.pending().await;
        let changed = format!("{settings}\n{}", one_source(rules));
        rig.gateway.apply(crate::support::parse(&changed)).await.unwrap();
        rig.answer(&approver("bob"), &id, Verdict::Grant).await;
    };
    let (called, ()) = tokio::join!(waiting, meanwhile);
    assert_eq!(
        rig.factory.built.lock().iter().map(|it| it.invoked.load(Ordering::SeqCst)).sum::<usize>(),
        0
    );
    called.result.unwrap_err()
}

/// A caller that lost its rights during the wait does not run, whatever was granted.
#[tokio::test]
async fn what_was_taken_away_during_the_wait_stays_away() {
    let error = refused_after_wait(&format!("tenants = [\"u\"]\n{ASKS}")).await;
    assert!(matches!(error, CallError::NoSuchTool), "{error:?}");
}

// I-103
/// After a change of the terms, a grant under the old ones does not release the waiting call.
#[tokio::test]
async fn a_call_that_waits_does_not_run_under_the_terms_of_before() {
    let error = refused_after_wait(&format!("{ASKS}approval_quorum = 2\n")).await;
    assert!(matches!(error, CallError::ApprovalRequired { .. }), "{error:?}");
}
