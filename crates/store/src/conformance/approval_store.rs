//! The requirements of [`ApprovalStore`].

use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalState, ApprovalStore, Argument, Fingerprint, OpenOutcome,
        Verdict, Vote, store::MAX_PENDING,
    },
    clock::Timestamp,
    event::{EventLog, EventQuery, NewEvent},
    id::{ApprovalId, CallId, TenantId},
    scope::Scope,
};

use super::moment;

/// Returns a request by `ann` in `whose`, at `at`.
pub fn approval(whose: &str, name: &str, at: i64) -> Approval {
    Approval {
        id: name.parse().unwrap(),
        tenant: tenant(whose),
        principal: "ann".parse().unwrap(),
        key: Some("key-1".parse().unwrap()),
        makers: vec!["ops".parse().unwrap()],
        tool_id: "mcp:files.write".parse().unwrap(),
        tool_digest: Some("ab".repeat(32)),
        fingerprint: Fingerprint(format!("print-{name}")),
        run_id: format!("run-{name}").parse().unwrap(),
        event_id: format!("event-{name}").parse().unwrap(),
        outcome_id: None,
        state: ApprovalState::Pending,
        live: true,
        quorum: 1,
        role: Some("boss".to_owned()),
        scope: Scope::parse("approvals:respond").unwrap(),
        votes: Vec::new(),
        arguments: vec![Argument { name: "path".to_owned(), kind: "string".to_owned(), bytes: 9 }],
        created_at: moment(at),
        expires_at: moment(at + 1_000),
        decided_at: None,
        used_by: None,
        revision: 0,
        change: 0,
    }
}

fn tenant(name: &str) -> TenantId {
    TenantId::parse(name).unwrap()
}

fn id(name: &str) -> ApprovalId {
    ApprovalId::parse(name).unwrap()
}

fn event_of(approval: &Approval) -> NewEvent {
    NewEvent {
        event_id: approval.event_id.clone(),
        tenant: approval.tenant.clone(),
        run_id: approval.run_id.clone(),
        body: approval.requested(),
        timestamp: approval.created_at,
        causation_id: None,
    }
}

async fn open_request(
    engine: &(impl ApprovalStore, impl EventLog),
    approval: Approval,
) -> Approval {
    let event = event_of(&approval);
    match engine.0.open(approval, None, event).await.unwrap() {
        OpenOutcome::Opened(approval) => *approval,
        other => unreachable!("{other:?}"),
    }
}

/// Two calls share a fingerprint only when all parts are equal.
pub async fn a_fingerprint_is_of_all_its_parts(engine: &(impl ApprovalStore, impl EventLog)) {
    let parts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let one = engine.0.fingerprint(parts(&["a", "bc"])).await.unwrap();
    assert_eq!(one, engine.0.fingerprint(parts(&["a", "bc"])).await.unwrap());
    assert_eq!(one.0.len(), 64);
    for other in [&["ab", "c"][..], &["a", "bd"], &["abc"], &["a", "bc", ""]] {
        assert_ne!(one, engine.0.fingerprint(parts(other)).await.unwrap(), "{other:?}");
    }
}

/// A stored approval is returned unchanged, and only to its own tenant.
pub async fn an_approval_comes_back_as_it_was_asked_for(
    engine: &(impl ApprovalStore, impl EventLog),
) {
    let opened = open_request(engine, approval("acme", "a", 1)).await;
    assert_eq!(opened, Approval { change: opened.change, ..approval("acme", "a", 1) });
    let (found, shown) = engine.0.find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!((found, shown), (opened.clone(), None));
    assert_eq!(engine.0.find(&tenant("other"), &id("a")).await.unwrap(), None);
    let live = engine.0.live(&tenant("acme"), &opened.fingerprint).await.unwrap();
    assert_eq!(live.as_ref(), Some(&opened));
    assert_eq!(engine.0.live(&tenant("other"), &opened.fingerprint).await.unwrap(), None);
}

/// While one request for a call is in force there is no second one.
pub async fn the_same_call_asks_once(engine: &(impl ApprovalStore, impl EventLog)) {
    let first = open_request(engine, approval("acme", "a", 1)).await;
    let again = |name: &str| Approval {
        fingerprint: first.fingerprint.clone(),
        ..approval("acme", name, 2)
    };
    let event = event_of(&again("b"));
    let known = engine.0.open(again("b"), None, event).await.unwrap();
    assert_eq!(known, OpenOutcome::Existing(Box::new(first.clone())));
    assert_eq!(engine.1.read(EventQuery::default()).await.unwrap().len(), 1);
    // The same call in another tenant is a different call.
    let others = Approval { tenant: tenant("other"), ..again("c") };
    open_request(engine, Approval { event_id: "event-c".parse().unwrap(), ..others }).await;
    let over = Approval { live: false, state: ApprovalState::Expired, ..first.clone() };
    assert!(engine.0.change(over, Vec::new()).await.unwrap());
    open_request(engine, again("b")).await;
}

/// A change based on an old revision is refused.
pub async fn only_the_last_revision_is_replaced(engine: &(impl ApprovalStore, impl EventLog)) {
    let opened = open_request(engine, approval("acme", "a", 1)).await;
    let before = engine.0.epoch().await.unwrap();
    let mut granted = opened.clone();
    granted.state = ApprovalState::Granted;
    granted.votes.push(Vote {
        principal: "bob".parse().unwrap(),
        key: None,
        makers: Vec::new(),
        verdict: Verdict::Grant,
        comment: Some("fine".to_owned()),
        at: moment(5),
    });
    assert!(engine.0.change(granted.clone(), Vec::new()).await.unwrap());
    assert!(!engine.0.change(granted.clone(), Vec::new()).await.unwrap());
    let (found, _) = engine.0.find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    let change = engine.0.epoch().await.unwrap();
    assert!(change > before);
    assert_eq!(found, Approval { revision: 1, change: found.change, ..granted.clone() });
    assert!(found.change > opened.change);
    let unknown = Approval { id: id("nobody"), ..granted };
    assert!(!engine.0.change(unknown, Vec::new()).await.unwrap());
}

/// Changes that come too late change and record nothing.
pub async fn of_many_that_spend_a_grant_one_does(engine: &(impl ApprovalStore, impl EventLog)) {
    let opened = open_request(engine, approval("acme", "a", 1)).await;
    let granted = Approval { state: ApprovalState::Granted, ..opened };
    assert!(engine.0.change(granted, Vec::new()).await.unwrap());
    let (granted, _) = engine.0.find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    let spend = |number: usize| {
        let mut mine = granted.clone();
        async move {
            assert!(mine.spend(&CallId::parse(format!("call-{number}")).unwrap(), moment(2)));
            let event =
                NewEvent { event_id: format!("e{number}").parse().unwrap(), ..event_of(&mine) };
            engine.0.change(mine, vec![event]).await.unwrap()
        }
    };
    let spent = futures_util::future::join_all((0..50).map(spend)).await;
    assert_eq!(spent.into_iter().filter(|spent| *spent).count(), 1);
    let (used, _) = engine.0.find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!((used.state, used.live), (ApprovalState::Used, false));
    assert_eq!(engine.0.live(&tenant("acme"), &used.fingerprint).await.unwrap(), None);
    assert_eq!(engine.1.read(EventQuery::default()).await.unwrap().len(), 2);
}

/// A request and its event are stored together or not at all.
pub async fn a_request_and_its_event_are_stored_together(
    engine: &(impl ApprovalStore, impl EventLog),
) {
    let opened = open_request(engine, approval("acme", "a", 1)).await;
    // An event with that id exists already.
    let other = Approval { event_id: opened.event_id.clone(), ..approval("acme", "b", 2) };
    let event = event_of(&other);
    engine.0.open(other, None, event.clone()).await.unwrap_err();
    assert_eq!(engine.0.find(&tenant("acme"), &id("b")).await.unwrap(), None);
    let over = Approval { state: ApprovalState::Rejected, ..opened.clone() };
    engine.0.change(over, vec![event]).await.unwrap_err();
    let (found, _) = engine.0.find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!(found, opened);
    let events = engine.1.read(EventQuery::default()).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event.body, opened.requested());
}

/// Every member of a query narrows the result.
pub async fn approvals_are_selected(engine: &(impl ApprovalStore, impl EventLog)) {
    for (whose, name, at) in [("acme", "a", 1), ("acme", "b", 2), ("other", "c", 3)] {
        open_request(engine, approval(whose, name, at)).await;
    }
    let (b, _) = engine.0.find(&tenant("acme"), &id("b")).await.unwrap().unwrap();
    let after = engine.0.epoch().await.unwrap();
    let rejected = Approval { state: ApprovalState::Rejected, ..b };
    assert!(engine.0.change(rejected, Vec::new()).await.unwrap());
    let all = ApprovalQuery::default;
    let at = |millis: i64| -> Option<Timestamp> { Some(moment(millis)) };
    for (query, expected) in [
        (all(), &["c", "b", "a"][..]),
        (ApprovalQuery { limit: 2, ..all() }, &["c", "b"]),
        (ApprovalQuery { tenant: Some(tenant("acme")), ..all() }, &["b", "a"]),
        (ApprovalQuery { principal: "bob".parse().ok(), ..all() }, &[]),
        (ApprovalQuery { principal: "ann".parse().ok(), ..all() }, &["c", "b", "a"]),
        (ApprovalQuery { state: Some(ApprovalState::Pending), ..all() }, &["c", "a"]),
        (ApprovalQuery { state: Some(ApprovalState::Rejected), ..all() }, &["b"]),
        (ApprovalQuery { overdue: at(1_000), ..all() }, &[]),
        (ApprovalQuery { overdue: at(1_002), ..all() }, &["b", "a"]),
        (ApprovalQuery { changed_after: Some(0), ..all() }, &["a", "c", "b"]),
        (ApprovalQuery { changed_after: Some(0), limit: 1, ..all() }, &["a"]),
        (ApprovalQuery { changed_after: Some(after), ..all() }, &["b"]),
    ] {
        let found = engine.0.list(query.clone()).await.unwrap();
        let names: Vec<&str> = found.iter().map(|it| it.id.as_str()).collect();
        assert_eq!(names, expected, "{query:?}");
    }
}

/// The number of pending approvals per principal is bounded.
pub async fn one_principal_cannot_ask_without_end(engine: &(impl ApprovalStore, impl EventLog)) {
    for number in 0..MAX_PENDING {
        open_request(engine, approval("acme", &format!("a{number}"), 1)).await;
    }
    let more = approval("acme", "more", 2);
    let event = event_of(&more);
    assert_eq!(engine.0.open(more, None, event).await.unwrap(), OpenOutcome::LimitReached);
    let other = Approval { principal: "bob".parse().unwrap(), ..approval("acme", "bobs", 2) };
    open_request(engine, other).await;
    let (first, _) = engine.0.find(&tenant("acme"), &id("a0")).await.unwrap().unwrap();
    let over = Approval { state: ApprovalState::Rejected, ..first };
    assert!(engine.0.change(over, Vec::new()).await.unwrap());
    open_request(engine, approval("acme", "more", 2)).await;
}

/// A reader sees the changes after its first request, and no acknowledged change again.
pub async fn a_reader_goes_on_where_it_was(engine: &(impl ApprovalStore, impl EventLog)) {
    let a = open_request(engine, approval("acme", "a", 1)).await;
    assert_eq!(engine.0.cursor("hook").await.unwrap(), a.change);
    let b = open_request(engine, approval("acme", "b", 1)).await;
    assert_eq!(engine.0.cursor("hook").await.unwrap(), a.change, "not acknowledged yet");
    engine.0.acknowledge("hook", b.change).await.unwrap();
    assert_eq!(engine.0.cursor("hook").await.unwrap(), b.change);
    engine.0.acknowledge("hook", a.change).await.unwrap();
    assert_eq!(engine.0.cursor("hook").await.unwrap(), b.change, "never back");
    assert_eq!(engine.0.cursor("another").await.unwrap(), b.change);
}

/// Pruning by age never deletes an approval in force.
pub async fn what_counts_is_not_pruned(engine: &(impl ApprovalStore, impl EventLog)) {
    let a = open_request(engine, approval("acme", "a", 1)).await;
    open_request(engine, approval("acme", "b", 2)).await;
    assert_eq!(engine.0.prune(moment(9)).await.unwrap(), 0);
    let over = Approval { live: false, state: ApprovalState::Used, ..a };
    assert!(engine.0.change(over, Vec::new()).await.unwrap());
    assert_eq!(engine.0.prune(moment(1)).await.unwrap(), 0);
    assert_eq!(engine.0.prune(moment(2)).await.unwrap(), 1);
    let left = engine.0.list(ApprovalQuery::default()).await.unwrap();
    assert_eq!(left.len(), 1);
}
