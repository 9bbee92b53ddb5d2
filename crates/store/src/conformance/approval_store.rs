//! The requirements of [`ApprovalStore`](toolcrib_core::approval::ApprovalStore).

use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalState, Argument, Fingerprint, OpenOutcome, Verdict, Vote,
        store::MAX_PENDING,
    },
    clock::Timestamp,
    event::{EventQuery, NewEvent},
    id::{ApprovalId, CallId, TenantId},
    scope::Scope,
    store::Storage,
};

use super::moment;

/// Creates a request by `ann` in `whose`, at `at`.
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
        more_arguments: 0,
        round: None,
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

async fn open_request(storage: &dyn Storage, approval: Approval) -> Approval {
    let event = event_of(&approval);
    match storage.approvals().open(approval, None, event).await.unwrap() {
        OpenOutcome::Opened(approval) => *approval,
        other => unreachable!("{other:?}"),
    }
}

/// Two calls share a fingerprint only when all parts are equal.
pub async fn a_fingerprint_is_of_all_its_parts(storage: &dyn Storage) {
    let parts = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
    let one = storage.approvals().fingerprint(parts(&["a", "bc"])).await.unwrap();
    assert_eq!(one, storage.approvals().fingerprint(parts(&["a", "bc"])).await.unwrap());
    assert_eq!(one.0.len(), 64);
    for other in [&["ab", "c"][..], &["a", "bd"], &["abc"], &["a", "bc", ""]] {
        assert_ne!(one, storage.approvals().fingerprint(parts(other)).await.unwrap(), "{other:?}");
    }
}

/// A stored approval is returned unchanged, and only to its own tenant.
pub async fn an_approval_comes_back_as_it_was_asked_for(storage: &dyn Storage) {
    let opened = open_request(storage, approval("acme", "a", 1)).await;
    assert_eq!(opened, Approval { change: opened.change, ..approval("acme", "a", 1) });
    let (found, shown) =
        storage.approvals().find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!((found, shown), (opened.clone(), None));
    assert_eq!(storage.approvals().find(&tenant("other"), &id("a")).await.unwrap(), None);
    let live = storage.approvals().live(&tenant("acme"), &opened.fingerprint).await.unwrap();
    assert_eq!(live.as_ref(), Some(&opened));
    assert_eq!(
        storage.approvals().live(&tenant("other"), &opened.fingerprint).await.unwrap(),
        None
    );
}

/// While one request for a call is in force there is no second one.
pub async fn the_same_call_asks_once(storage: &dyn Storage) {
    let first = open_request(storage, approval("acme", "a", 1)).await;
    let again = |name: &str| Approval {
        fingerprint: first.fingerprint.clone(),
        ..approval("acme", name, 2)
    };
    let event = event_of(&again("b"));
    let known = storage.approvals().open(again("b"), None, event).await.unwrap();
    assert_eq!(known, OpenOutcome::Existing(Box::new(first.clone())));
    assert_eq!(storage.events().read(EventQuery::default()).await.unwrap().len(), 1);
    // The same call in another tenant is a different call.
    let others = Approval { tenant: tenant("other"), ..again("c") };
    open_request(storage, Approval { event_id: "event-c".parse().unwrap(), ..others }).await;
    let over = Approval { live: false, state: ApprovalState::Expired, ..first.clone() };
    assert!(storage.approvals().change(over, Vec::new()).await.unwrap());
    open_request(storage, again("b")).await;
}

/// A change based on an old revision is refused.
pub async fn only_the_last_revision_is_replaced(storage: &dyn Storage) {
    let opened = open_request(storage, approval("acme", "a", 1)).await;
    let before = storage.changes(None).await.unwrap().approvals;
    let mut granted = opened.clone();
    granted.state = ApprovalState::Granted;
    granted.votes.push(Vote {
        principal: "bob".parse().unwrap(),
        key: None,
        makers: Vec::new(),
        token: None,
        verdict: Verdict::Grant,
        comment: Some("fine".to_owned()),
        at: moment(5),
    });
    assert!(storage.approvals().change(granted.clone(), Vec::new()).await.unwrap());
    assert!(!storage.approvals().change(granted.clone(), Vec::new()).await.unwrap());
    let (found, _) = storage.approvals().find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    let change = storage.changes(None).await.unwrap().approvals;
    assert!(change > before);
    assert_eq!(found, Approval { revision: 1, change: found.change, ..granted.clone() });
    assert!(found.change > opened.change);
    let unknown = Approval { id: id("unknown"), ..granted };
    assert!(!storage.approvals().change(unknown, Vec::new()).await.unwrap());
}

/// Changes that come too late are neither made nor recorded.
pub async fn of_many_that_spend_a_grant_one_does(storage: &dyn Storage) {
    let opened = open_request(storage, approval("acme", "a", 1)).await;
    let granted = Approval { state: ApprovalState::Granted, ..opened };
    assert!(storage.approvals().change(granted, Vec::new()).await.unwrap());
    let (granted, _) = storage.approvals().find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    let spend = |number: usize| {
        let mut mine = granted.clone();
        async move {
            assert!(mine.spend(&CallId::parse(format!("call-{number}")).unwrap(), moment(2)));
            let event =
                NewEvent { event_id: format!("e{number}").parse().unwrap(), ..event_of(&mine) };
            storage.approvals().change(mine, vec![event]).await.unwrap()
        }
    };
    let spent = futures_util::future::join_all((0..50).map(spend)).await;
    assert_eq!(spent.into_iter().filter(|spent| *spent).count(), 1);
    let (used, _) = storage.approvals().find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!((used.state, used.live), (ApprovalState::Used, false));
    assert_eq!(storage.approvals().live(&tenant("acme"), &used.fingerprint).await.unwrap(), None);
    assert_eq!(storage.events().read(EventQuery::default()).await.unwrap().len(), 2);
}

/// A request and its event are stored together or not at all.
pub async fn a_request_and_its_event_are_stored_together(storage: &dyn Storage) {
    let opened = open_request(storage, approval("acme", "a", 1)).await;
    // An event with that id exists already.
    let other = Approval { event_id: opened.event_id.clone(), ..approval("acme", "b", 2) };
    let event = event_of(&other);
    storage.approvals().open(other, None, event.clone()).await.unwrap_err();
    assert_eq!(storage.approvals().find(&tenant("acme"), &id("b")).await.unwrap(), None);
    let over = Approval { state: ApprovalState::Rejected, ..opened.clone() };
    storage.approvals().change(over, vec![event]).await.unwrap_err();
    let (found, _) = storage.approvals().find(&tenant("acme"), &id("a")).await.unwrap().unwrap();
    assert_eq!(found, opened);
    let events = storage.events().read(EventQuery::default()).await.unwrap();
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].event.body, opened.requested());
}

/// Every member of a query narrows the result.
pub async fn approvals_are_selected(storage: &dyn Storage) {
    for (whose, name, at) in [("acme", "a", 1), ("acme", "b", 2), ("other", "c", 3)] {
        open_request(storage, approval(whose, name, at)).await;
    }
    let (b, _) = storage.approvals().find(&tenant("acme"), &id("b")).await.unwrap().unwrap();
    let after = storage.changes(None).await.unwrap().approvals;
    let rejected = Approval { state: ApprovalState::Rejected, ..b };
    assert!(storage.approvals().change(rejected, Vec::new()).await.unwrap());
    let all = ApprovalQuery::default;
    let at = |millis: i64| -> Option<Timestamp> { Some(moment(millis)) };
    for (query, expected) in [
        (all(), &["c", "b", "a"][..]),
        (ApprovalQuery { limit: 2, ..all() }, &["c", "b"]),
        (ApprovalQuery { older_than: Some((moment(3), id("c"))), ..all() }, &["b", "a"]),
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
        let found = storage.approvals().list(query.clone()).await.unwrap();
        let names: Vec<&str> = found.iter().map(|approval| approval.id.as_str()).collect();
        assert_eq!(names, expected, "{query:?}");
    }
}

/// The number of pending approvals per principal is bounded.
pub async fn one_principal_cannot_ask_without_end(storage: &dyn Storage) {
    for number in 0..MAX_PENDING {
        open_request(storage, approval("acme", &format!("a{number}"), 1)).await;
    }
    let more = approval("acme", "more", 2);
    let event = event_of(&more);
    assert_eq!(
        storage.approvals().open(more, None, event).await.unwrap(),
        OpenOutcome::LimitReached
    );
    let other = Approval { principal: "bob".parse().unwrap(), ..approval("acme", "bobs", 2) };
    open_request(storage, other).await;
    assert_eq!(storage.approvals().pending().await.unwrap(), MAX_PENDING as u64 + 1);
    let (first, _) = storage.approvals().find(&tenant("acme"), &id("a0")).await.unwrap().unwrap();
    let over = Approval { state: ApprovalState::Rejected, ..first };
    assert!(storage.approvals().change(over, Vec::new()).await.unwrap());
    assert_eq!(storage.approvals().pending().await.unwrap(), MAX_PENDING as u64);
    open_request(storage, approval("acme", "more", 2)).await;
}

/// A reader sees the changes after its first request, and no acknowledged change again.
pub async fn a_reader_goes_on_where_it_was(storage: &dyn Storage) {
    let a = open_request(storage, approval("acme", "a", 1)).await;
    assert_eq!(storage.approvals().cursor("hook").await.unwrap(), a.change);
    let b = open_request(storage, approval("acme", "b", 1)).await;
    assert_eq!(storage.approvals().cursor("hook").await.unwrap(), a.change, "not acknowledged yet");
    storage.approvals().acknowledge("hook", b.change).await.unwrap();
    assert_eq!(storage.approvals().cursor("hook").await.unwrap(), b.change);
    storage.approvals().acknowledge("hook", a.change).await.unwrap();
    assert_eq!(storage.approvals().cursor("hook").await.unwrap(), b.change, "never back");
    assert_eq!(storage.approvals().cursor("another").await.unwrap(), b.change);
}

/// Pruning by age never deletes an approval in force.
pub async fn what_counts_is_not_pruned(storage: &dyn Storage) {
    let a = open_request(storage, approval("acme", "a", 1)).await;
    open_request(storage, approval("acme", "b", 2)).await;
    assert_eq!(storage.approvals().prune(moment(9)).await.unwrap(), 0);
    let over = Approval { live: false, state: ApprovalState::Used, ..a };
    assert!(storage.approvals().change(over, Vec::new()).await.unwrap());
    assert_eq!(storage.approvals().prune(moment(1)).await.unwrap(), 0);
    assert_eq!(storage.approvals().prune(moment(2)).await.unwrap(), 1);
    let left = storage.approvals().list(ApprovalQuery::default()).await.unwrap();
    assert_eq!(left.len(), 1);
}
