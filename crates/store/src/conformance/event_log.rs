//! The requirements of [`EventLog`](toolcrib_core::event::EventLog).

use std::collections::HashSet;

use futures_util::future::join_all;
use toolcrib_core::{
    egress::{EgressDecided, EgressReason},
    event::{
        AuthorizationDecided, CallStatus, EventBody, EventError, EventQuery, LoggedEvent, NewEvent,
        SessionOutcome, ToolCalled, ToolReturned, ToolSessionClosed, ToolSessionOpened, Transport,
    },
    id::{AgentId, EventId, RunId, TenantId},
    store::{Storage, StoreError},
};

use super::moment;
use crate::MAX_READ;

/// Creates an `agent.toolCalled`.
pub fn called(tenant: &str, run: &str, event: &str, call: &str) -> NewEvent {
    NewEvent {
        event_id: event.parse().unwrap(),
        tenant: tenant.parse().unwrap(),
        run_id: run.parse().unwrap(),
        body: EventBody::ToolCalled(ToolCalled {
            agent_id: AgentId::system(),
            tool_name: "mcp:files.read_file".to_owned(),
            call_id: call.parse().unwrap(),
            args_hash: Some("ab".repeat(32)),
            principal: "alice".parse().unwrap(),
            actors: Vec::new(),
            transport: Transport::Mcp,
        }),
        timestamp: moment(1),
        causation_id: None,
    }
}

/// Creates the `agent.toolReturned` of `called`.
pub fn returned(called: &NewEvent, event: &str) -> NewEvent {
    let EventBody::ToolCalled(call) = &called.body else { unreachable!("not a call") };
    NewEvent {
        event_id: event.parse().unwrap(),
        body: EventBody::ToolReturned(ToolReturned {
            duration_ms: Some(17),
            error: Some(EventError::new("timeout", "too slow")),
            // Without a principal, as in old events.
            ..ToolReturned::new(
                call.agent_id.clone(),
                &call.tool_name,
                call.call_id.clone(),
                CallStatus::Error,
            )
        }),
        timestamp: moment(18),
        causation_id: Some(called.event_id.clone()),
        ..called.clone()
    }
}

/// Creates an `authorization.decided`.
pub fn decided(tenant: &str, run: &str, event: &str) -> NewEvent {
    NewEvent {
        body: EventBody::AuthorizationDecided(AuthorizationDecided {
            principal: "bob".parse().unwrap(),
            action: "tools:call".to_owned(),
            resource: "unknown".to_owned(),
            allowed: false,
            reason: Some("scope".to_owned()),
            missing: Vec::new(),
            repeated: None,
        }),
        ..called(tenant, run, event, "unused")
    }
}

/// Creates an `egress.decided` of `called`.
pub fn egress(called: &NewEvent, event: &str) -> NewEvent {
    NewEvent {
        event_id: event.parse().unwrap(),
        body: EventBody::EgressDecided(EgressDecided {
            credential_id: Some("key".to_owned()),
            ..EgressDecided::denied("api.example", EgressReason::OutOfAudience)
        }),
        timestamp: moment(17),
        causation_id: Some(called.event_id.clone()),
        ..called.clone()
    }
}

/// Creates a `tool.session.opened`.
pub fn opened(tenant: &str, run: &str, event: &str, session: &str) -> NewEvent {
    NewEvent {
        body: EventBody::ToolSessionOpened(ToolSessionOpened {
            session_id: session.parse().unwrap(),
            tool_id: "mcp:files.read_file".parse().unwrap(),
        }),
        ..called(tenant, run, event, "unused")
    }
}

/// Creates the `tool.session.closed` of `opened`.
pub fn closed(opened: &NewEvent, event: &str) -> NewEvent {
    let EventBody::ToolSessionOpened(session) = &opened.body else {
        unreachable!("not the start of a session")
    };
    NewEvent {
        event_id: event.parse().unwrap(),
        body: EventBody::ToolSessionClosed(ToolSessionClosed {
            session_id: session.session_id.clone(),
            tool_id: session.tool_id.clone(),
            outcome: SessionOutcome::Completed,
        }),
        timestamp: moment(20),
        causation_id: Some(opened.event_id.clone()),
        ..opened.clone()
    }
}

/// An appended event is returned with a position and a sequence, and otherwise unchanged.
pub async fn an_event_comes_back_as_it_was_appended(storage: &dyn Storage) {
    let log = &*storage.events();
    let call = called("t", "r", "e1", "c1");
    let mut bare = returned(&call, "e2");
    if let EventBody::ToolReturned(returned) = &mut bare.body {
        (returned.status, returned.duration_ms, returned.error) = (CallStatus::Ok, None, None);
        returned.principal = Some("alice".parse().unwrap());
    }
    let session = opened("t", "r", "e5", "s1");
    let end = closed(&session, "e6");
    let mut events =
        vec![call.clone(), bare, returned(&call, "e3"), decided("t", "r", "e4"), session, end];
    events.push(egress(&call, "e7"));
    let positions = log.append(&events).await.unwrap();
    let read = log.read(EventQuery::default()).await.unwrap();
    assert_eq!(read.len(), events.len());
    for (index, (logged, event)) in read.iter().zip(events).enumerate() {
        assert_eq!(logged.position, positions[index]);
        assert_eq!(logged.tenant, event.tenant);
        assert_eq!(logged.event.event_id, event.event_id);
        assert_eq!(logged.event.run_id, event.run_id);
        assert_eq!(logged.event.body, event.body);
        assert_eq!(logged.event.timestamp, event.timestamp);
        assert_eq!(logged.event.sequence, u64::try_from(index).unwrap());
        assert_eq!(logged.event.causation_id, event.causation_id);
    }
}

/// Positions rise within an append and from one to the next.
pub async fn positions_rise_in_the_order_of_the_append(storage: &dyn Storage) {
    let log = &*storage.events();
    let mut positions = log.append(&decisions("a", "r", 0..3)).await.unwrap();
    positions.extend(log.append(&decisions("b", "r", 3..5)).await.unwrap());
    assert_eq!(positions.len(), 5);
    assert!(positions.is_sorted_by(|a, b| a < b), "{positions:?}");
    let read = log.read(EventQuery::default()).await.unwrap();
    assert_eq!(read.iter().map(|logged| logged.position).collect::<Vec<_>>(), positions);
    assert_eq!(ids(&read), ["e0", "e1", "e2", "e3", "e4"]);
}

/// Sequences start at 0 and have no gaps, for each run of each tenant.
pub async fn sequences_count_per_run_and_tenant(storage: &dyn Storage) {
    let log = &*storage.events();
    let placed = [("a", "r"), ("a", "s"), ("a", "r"), ("b", "r"), ("a", "r"), ("b", "r")];
    for (index, (tenant, run)) in placed.iter().enumerate() {
        log.append(&[decided(tenant, run, &format!("e{index}"))]).await.unwrap();
    }
    let read = log.read(EventQuery::default()).await.unwrap();
    let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
    assert_eq!(sequences, [0, 0, 1, 0, 2, 1]);
}

/// A refused append leaves no event and no gap, even for events before the conflict.
pub async fn an_append_is_atomic(storage: &dyn Storage) {
    let log = &*storage.events();
    log.append(&[decided("t", "r", "e0")]).await.unwrap();
    for refused in [
        vec![decided("t", "r", "e1"), decided("t", "r", "e0"), decided("t", "r", "e2")],
        vec![decided("t", "r", "e3"), decided("u", "s", "e3")],
    ] {
        let error = log.append(&refused).await.unwrap_err();
        assert!(matches!(error, StoreError::Conflict(_)), "{error}");
    }
    log.append(&[decided("t", "r", "e1")]).await.unwrap();
    let read = log.read(EventQuery::default()).await.unwrap();
    assert_eq!(ids(&read), ["e0", "e1"]);
    assert_eq!(read[1].event.sequence, 1);
}

/// An empty append succeeds and stores no event.
pub async fn nothing_appended_is_nothing_stored(storage: &dyn Storage) {
    let log = &*storage.events();
    assert!(log.append(&[]).await.unwrap().is_empty());
    assert!(log.read(EventQuery::default()).await.unwrap().is_empty());
}

/// I-9: a query for one tenant never returns an event of another, with any other filter.
pub async fn a_query_selects_by_tenant_and_run(storage: &dyn Storage) {
    let log = &*storage.events();
    let placed = [("a", "r"), ("b", "r"), ("a", "s"), ("b", "s"), ("a", "r")];
    for (index, (tenant, run)) in placed.iter().enumerate() {
        log.append(&[decided(tenant, run, &format!("e{index}"))]).await.unwrap();
    }
    for (tenant, run, expected) in [
        (None, None, vec!["e0", "e1", "e2", "e3", "e4"]),
        (Some("a"), None, vec!["e0", "e2", "e4"]),
        (None, Some("r"), vec!["e0", "e1", "e4"]),
        (Some("a"), Some("r"), vec!["e0", "e4"]),
        (Some("b"), Some("s"), vec!["e3"]),
        (Some("c"), None, vec![]),
        (Some("c"), Some("r"), vec![]),
        (Some("a"), Some("t"), vec![]),
    ] {
        for newest in [false, true] {
            let read = log.read(EventQuery { newest, ..query(tenant, run) }).await.unwrap();
            assert_eq!(ids(&read), expected, "{tenant:?} {run:?} newest: {newest}");
        }
    }
}

/// `after` and `limit` page through everything, once, in every selection.
pub async fn a_reader_pages_with_a_cursor(storage: &dyn Storage) {
    let log = &*storage.events();
    for index in 0..10 {
        let tenant = if index % 3 == 0 { "a" } else { "b" };
        log.append(&[decided(tenant, "r", &format!("e{index}"))]).await.unwrap();
    }
    for (tenant, run) in
        [(None, None), (Some("b"), None), (None, Some("r")), (Some("b"), Some("r"))]
    {
        let all = log.read(query(tenant, run)).await.unwrap();
        let mut paged = Vec::new();
        loop {
            let after = paged.last().map(|logged: &LoggedEvent| logged.position);
            let page =
                log.read(EventQuery { after, limit: 4, ..query(tenant, run) }).await.unwrap();
            assert!(page.len() <= 4);
            if page.is_empty() {
                break;
            }
            paged.extend(page);
        }
        assert_eq!(paged, all, "{tenant:?} {run:?}");
    }
    let beyond = EventQuery { after: Some(u64::MAX), ..EventQuery::default() };
    assert!(log.read(beyond).await.unwrap().is_empty());
}

/// `newest` selects from the end, and still returns ascending order.
pub async fn the_newest_come_in_ascending_order(storage: &dyn Storage) {
    let log = &*storage.events();
    log.append(&decisions("other", "r2", 10..13)).await.unwrap();
    log.append(&decisions("t", "r", 0..6)).await.unwrap();
    for (tenant, run) in
        [(None, None), (Some("t"), None), (None, Some("r")), (Some("t"), Some("r"))]
    {
        let newest = EventQuery { newest: true, limit: 2, ..query(tenant, run) };
        let read = log.read(newest.clone()).await.unwrap();
        assert_eq!(ids(&read), ["e4", "e5"]);
        let after = EventQuery { after: Some(read[0].position), ..newest };
        assert_eq!(ids(&log.read(after).await.unwrap()), ["e5"]);
    }
}

/// A read yields at most the cap, for any limit.
pub async fn a_read_is_capped(storage: &dyn Storage) {
    let log = &*storage.events();
    log.append(&decisions("t", "r", 0..MAX_READ + 5)).await.unwrap();
    for limit in [0, MAX_READ, MAX_READ + 5, usize::MAX] {
        let read = log.read(EventQuery { limit, ..EventQuery::default() }).await.unwrap();
        assert_eq!(read.len(), MAX_READ);
        assert_eq!(read[0].event.sequence, 0);
        let newest = EventQuery { limit, newest: true, ..EventQuery::default() };
        assert_eq!(log.read(newest).await.unwrap()[0].event.sequence, 5);
    }
}

/// Concurrent appends store every event once, and every run counts from 0 without a gap.
pub async fn concurrent_appends_leave_no_gap(storage: &dyn Storage) {
    let log = &*storage.events();
    let appends = (0..120).map(|index| {
        let run = format!("r{}", index % 3);
        let events =
            [decided("t", &run, &format!("e{index}a")), decided("t", &run, &format!("e{index}b"))];
        async move { log.append(&events).await }
    });
    let positions = join_all(appends).await;
    let positions: HashSet<u64> = positions.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(positions.len(), 240);
    for run in ["r0", "r1", "r2"] {
        let read = log.read(query(Some("t"), Some(run))).await.unwrap();
        let sequences: Vec<_> = read.iter().map(|logged| logged.event.sequence).collect();
        assert_eq!(sequences, (0..80).collect::<Vec<_>>());
    }
}

/// I-9: a tenant's positions count its own events from 1, regardless of other tenants. Positions of
/// the whole log, and those returned by an append, count all events.
pub async fn positions_of_a_tenant_have_no_gaps(storage: &dyn Storage) {
    let log = &*storage.events();
    let placed = [("b", "r"), ("a", "r"), ("b", "s"), ("b", "r"), ("a", "s"), ("a", "r")];
    let mut appended = Vec::new();
    for (index, (tenant, run)) in placed.iter().enumerate() {
        let event = decided(tenant, run, &format!("e{index}"));
        appended.extend(log.append(&[event]).await.unwrap());
    }
    let refused = vec![decided("a", "r", "e6"), decided("a", "r", "e0")];
    log.append(&refused).await.unwrap_err();
    let mixed = vec![decided("a", "r", "e6"), decided("b", "r", "e7"), decided("a", "s", "e8")];
    appended.extend(log.append(&mixed).await.unwrap());
    for (tenant, run, expected) in [
        (Some("a"), None, vec![1, 2, 3, 4, 5]),
        (Some("b"), None, vec![1, 2, 3, 4]),
        (Some("a"), Some("r"), vec![1, 3, 4]),
        (Some("a"), Some("s"), vec![2, 5]),
        (Some("c"), None, vec![]),
        (None, None, appended),
    ] {
        for newest in [false, true] {
            let read = log.read(EventQuery { newest, ..query(tenant, run) }).await.unwrap();
            assert_eq!(positions(&read), expected, "{tenant:?} {run:?} newest: {newest}");
        }
    }
}

/// I-9: `after` of a query for a tenant is a position in that tenant's log.
pub async fn a_tenants_cursor_stands_in_its_own_log(storage: &dyn Storage) {
    let log = &*storage.events();
    log.append(&decisions("b", "r", 0..7)).await.unwrap();
    log.append(&decisions("a", "r", 7..10)).await.unwrap();
    for run in [None, Some("r")] {
        for (after, expected) in
            [(0, vec!["e7", "e8", "e9"]), (1, vec!["e8", "e9"]), (2, vec!["e9"]), (3, vec![])]
        {
            let wanted = EventQuery { after: Some(after), ..query(Some("a"), run) };
            let read = log.read(wanted).await.unwrap();
            assert_eq!(ids(&read), expected, "after {after}, {run:?}");
        }
    }
    let seen = log.read(query(Some("a"), None)).await.unwrap();
    log.append(&decisions("b", "s", 10..20)).await.unwrap();
    assert_eq!(log.read(query(Some("a"), None)).await.unwrap(), seen, "others do not move it");
}

/// I-9: with concurrent tenants each counts from 1 without a gap, in the order of the whole log.
pub async fn concurrent_tenants_do_not_move_each_other(storage: &dyn Storage) {
    let log = &*storage.events();
    let appends = (0..120).map(|index| {
        let own = format!("t{}", index % 3);
        let events = [
            decided(&own, "r", &format!("e{index}a")),
            decided("all", "r", &format!("e{index}b")),
            decided(&own, &format!("r{index}"), &format!("e{index}c")),
        ];
        async move { log.append(&events).await }
    });
    assert!(join_all(appends).await.iter().all(Result::is_ok));
    let whole = log.read(EventQuery::default()).await.unwrap();
    for (tenant, count) in [("t0", 80), ("t1", 80), ("t2", 80), ("all", 120)] {
        let read = log.read(query(Some(tenant), None)).await.unwrap();
        assert_eq!(positions(&read), (1..=count).collect::<Vec<_>>());
        let own: Vec<_> =
            whole.iter().filter(|logged| logged.tenant.as_str() == tenant).cloned().collect();
        assert_eq!(ids(&read), ids(&own));
    }
}

fn decisions(tenant: &str, run: &str, numbers: std::ops::Range<usize>) -> Vec<NewEvent> {
    numbers.map(|number| decided(tenant, run, &format!("e{number}"))).collect()
}

fn query(tenant: Option<&str>, run: Option<&str>) -> EventQuery {
    EventQuery {
        tenant: tenant.map(|tenant| TenantId::parse(tenant).unwrap()),
        run: run.map(|run| RunId::parse(run).unwrap()),
        ..EventQuery::default()
    }
}

fn positions(events: &[LoggedEvent]) -> Vec<u64> {
    events.iter().map(|logged| logged.position).collect()
}

fn ids(events: &[LoggedEvent]) -> Vec<&str> {
    events.iter().map(|logged| EventId::as_str(&logged.event.event_id)).collect()
}

/// Events are returned by their positions in the whole log; positions without one are left out.
pub async fn events_are_read_by_position(storage: &dyn Storage) {
    let log = &*storage.events();
    let events = ["e1", "e2", "e3", "e4"].map(|id| decided("t", "r", id));
    let positions = log.append(&events).await.unwrap();
    let found = log.at(&[positions[3], 9_999, positions[1]]).await.unwrap();
    let found: Vec<_> =
        found.iter().map(|logged| (logged.position, logged.event.event_id.as_str())).collect();
    assert_eq!(found, [(positions[1], "e2"), (positions[3], "e4")]);
    assert_eq!(log.at(&[]).await.unwrap(), []);
    let other = log.append(&[decided("u", "r", "e5")]).await.unwrap();
    let found = log.at(&other).await.unwrap();
    assert_eq!((found[0].tenant.as_str(), found[0].link.position), ("u", 1));
    assert_eq!(
        found,
        log.read(EventQuery { after: Some(positions[3]), ..EventQuery::default() }).await.unwrap()
    );
}
