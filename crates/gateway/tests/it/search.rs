//! Searches of the record, compared with a plain look at every event.

use std::sync::Arc;

use toolcrib_core::{
    egress::EgressDecided,
    event::{
        AuthorizationDecided, CallStatus, EventBody, EventError, EventFilter, EventQuery, NewEvent,
        ToolCalled, ToolReturned, Transport,
    },
    id::{AgentId, TenantId},
    record::StoredQuery,
    store::{NewSegment, SegmentPart, SegmentStore as _, Storage},
};
use toolcrib_gateway::audit::search::{EventSearch, FoundEvent, Page};
use toolcrib_store::{MemoryStorage, SqliteStore};

const BEGAN: i64 = 1_795_600_800_000;
/// Calls of two events each: more than two full segments of 16 384 events, and a part of a third.
const CALLS: usize = 17_000;

fn now() -> chrono::DateTime<chrono::Utc> {
    "2026-11-26T00:00:00Z".parse().unwrap()
}

fn tenant(name: &str) -> TenantId {
    name.parse().unwrap()
}

fn id(kind: &str, number: usize) -> String {
    format!("{kind}-{number:08}")
}

/// A call, its result, and for some an egress or a denial that it caused.
fn call(number: usize) -> Vec<NewEvent> {
    let at = |millis: usize| {
        let millis = BEGAN + i64::try_from(number * 1_000 + millis).unwrap();
        chrono::DateTime::from_timestamp_millis(millis).unwrap()
    };
    let tool = ["mcp:files.read", "mcp:files.write", "connector:tickets.close"][number % 3];
    let principal = if number.is_multiple_of(7) { "bob" } else { "ada" };
    let opened = NewEvent {
        event_id: id("event", number).parse().unwrap(),
        tenant: tenant(if number.is_multiple_of(5) { "other" } else { "acme" }),
        run_id: id("run", number / 10).parse().unwrap(),
        body: EventBody::ToolCalled(ToolCalled {
            agent_id: AgentId::system(),
            tool_name: tool.to_owned(),
            call_id: id("call", number).parse().unwrap(),
            args_hash: None,
            principal: principal.parse().unwrap(),
            actors: Vec::new(),
            transport: Transport::Mcp,
        }),
        timestamp: at(0),
        causation_id: None,
    };
    let status = match number % 11 {
        0 => CallStatus::Error,
        1 => CallStatus::Forbidden,
        _ => CallStatus::Ok,
    };
    let ran = status != CallStatus::Forbidden;
    let code = match (ran, number % 22) {
        (false, _) => "forbidden",
        (true, 0) => "approval_required",
        (true, _) => "timeout",
    };
    let caused = |kind: &str, millis, body| NewEvent {
        event_id: id(kind, number).parse().unwrap(),
        body,
        timestamp: at(millis),
        causation_id: Some(opened.event_id.clone()),
        ..opened.clone()
    };
    let returned = ToolReturned {
        duration_ms: ran.then_some(number as u64 % 100),
        error: (status != CallStatus::Ok).then(|| EventError::new(code, "fixed text")),
        ..ToolReturned::new(AgentId::system(), tool, id("call", number).parse().unwrap(), status)
    };
    let returned = caused("ended", 20, EventBody::ToolReturned(returned));
    let extra = match number % 13 {
        0 => Some(caused(
            "egress",
            10,
            EventBody::EgressDecided(EgressDecided::allowed("a.example")),
        )),
        1 => Some(caused(
            "denied",
            10,
            EventBody::AuthorizationDecided(AuthorizationDecided {
                principal: principal.parse().unwrap(),
                action: "tools:call".to_owned(),
                resource: tool.to_owned(),
                allowed: false,
                reason: Some("scope".to_owned()),
                missing: Vec::new(),
                repeated: None,
            }),
        )),
        _ => None,
    };
    [Some(opened), extra, Some(returned)].into_iter().flatten().collect()
}

async fn fill(storage: &dyn Storage, calls: std::ops::Range<usize>) {
    let log = storage.events();
    let events: Vec<_> = calls.flat_map(call).collect();
    for batch in events.chunks(2_000) {
        log.append(batch).await.unwrap();
    }
}

/// The facts of an event by a second implementation, from all events.
struct Fact {
    position: u64,
    id: String,
    run: String,
    call: String,
    at: i64,
    kind: &'static str,
    principal: String,
    tool: String,
    status: &'static str,
    code: String,
    took: Option<u64>,
}

async fn facts(storage: &dyn Storage, tenant: &TenantId) -> Vec<Fact> {
    let mut facts: Vec<Fact> = Vec::new();
    let mut after = Some(0);
    loop {
        let tenant = Some(tenant.clone());
        let query = EventQuery { tenant, after, ..EventQuery::default() };
        let page = storage.events().read(query).await.unwrap();
        let Some(last) = page.last() else { return facts };
        after = Some(last.position);
        for logged in page {
            let event = logged.event;
            let cause = event.causation_id.as_ref();
            // Of the same call, at most two events before.
            let cause = cause
                .and_then(|cause| facts.iter().rev().take(3).find(|it| it.id == cause.as_str()));
            let mut fact = Fact {
                position: logged.position,
                id: event.event_id.to_string(),
                run: event.run_id.to_string(),
                call: String::new(),
                at: event.timestamp.timestamp_millis(),
                kind: event.body.kind(),
                principal: cause.map(|it| it.principal.clone()).unwrap_or_default(),
                tool: cause.map(|it| it.tool.clone()).unwrap_or_default(),
                status: "",
                code: String::new(),
                took: None,
            };
            match event.body {
                EventBody::ToolCalled(called) => {
                    fact.principal = called.principal.to_string();
                    fact.tool = called.tool_name;
                    fact.call = called.call_id.to_string();
                }
                EventBody::ToolReturned(returned) => {
                    fact.call = returned.call_id.to_string();
                    fact.status = match returned.status {
                        CallStatus::Ok => "ok",
                        CallStatus::Error => "error",
                        CallStatus::Forbidden => "forbidden",
                        CallStatus::RateLimited => "rate_limited",
                    };
                    fact.code = returned.error.map(|it| it.code).unwrap_or_default();
                    fact.took = returned.duration_ms;
                }
                EventBody::EgressDecided(decided) => {
                    let reason = serde_json::to_value(decided.reason).unwrap();
                    fact.code = reason.as_str().unwrap_or_default().to_owned();
                }
                EventBody::AuthorizationDecided(decided) => {
                    fact.status = "denied";
                    fact.code = decided.reason.unwrap_or_default();
                }
                _ => {}
            }
            facts.push(fact);
        }
    }
}

impl Fact {
    /// A call that waits for an approval has not failed.
    fn failed(&self) -> bool {
        self.status == "error" && self.code != "approval_required"
    }
}

type Matches = fn(&Fact) -> bool;

const QUERIES: &[(&str, Matches)] = &[
    ("", |_| true),
    ("actor:bob", |it| it.principal == "bob"),
    ("actor:b*b tool:files__write", |it| it.principal == "bob" && it.tool == "mcp:files.write"),
    ("tool:connector:tickets.*", |it| it.tool == "connector:tickets.close"),
    ("source:files status:failed", |it| it.tool.starts_with("mcp:files.") && it.failed()),
    ("kind:connector type:egress.*", |it| {
        it.tool.starts_with("connector:") && it.kind == "egress.decided"
    }),
    ("status:denied", |it| ["forbidden", "denied"].contains(&it.status)),
    ("status:timeout actor:bob", |it| it.code == "timeout" && it.principal == "bob"),
    ("status:ok actor:unknown", |_| false),
    ("type:agent.toolCalled after:2026-11-25T12:00:00Z before:2026-11-25T13:00:00Z", |it| {
        it.kind == "agent.toolCalled" && (1_795_608_000_000..1_795_611_600_000).contains(&it.at)
    }),
    ("run:run-00000901", |it| it.run == "run-00000901"),
    ("call-00016021", |it| it.call == "call-00016021"),
    ("ACTOR", |_| false),
    ("actor:BOB tool:Files__Write", |it| it.principal == "bob" && it.tool == "mcp:files.write"),
    ("actor:bob OR tool:files__write", |it| it.principal == "bob" || it.tool == "mcp:files.write"),
    ("-actor:bob -status:ok", |it| it.principal != "bob" && it.status != "ok" && it.code != "ok"),
    ("NOT tool:files__* OR status:timeout", |it| {
        !it.tool.starts_with("mcp:files.") || it.code == "timeout"
    }),
    ("Write", |it| it.tool == "mcp:files.write"),
    ("bob timeout", |it| it.principal == "bob" && it.code == "timeout"),
    ("took:>=50ms took:<60ms", |it| it.took.is_some_and(|took| (50..60).contains(&took))),
    ("-took:<90ms type:agent.toolReturned", |it| {
        it.kind == "agent.toolReturned" && it.took.is_none_or(|took| took >= 90)
    }),
    ("call-00016021 OR run:run-00000901", |it| {
        it.call == "call-00016021" || it.run == "run-00000901"
    }),
    ("-id:event-0001602 -id:run-0000 actor:bob", |it| {
        let has = |start| [&it.id, &it.run, &it.call].iter().any(|id| id.starts_with(start));
        !has("event-0001602") && !has("run-0000") && it.principal == "bob"
    }),
    ("run:run-00000901 OR actor:unknown", |it| it.run == "run-00000901"),
    ("id:event-0001602", |it| it.id.starts_with("event-0001602")),
    ("id:run-0000", |it| it.run.starts_with("run-0000")),
];

async fn compare(storage: &dyn Storage) {
    let search = EventSearch::new(storage);
    for name in ["acme", "other"] {
        let tenant = tenant(name);
        let facts = facts(storage, &tenant).await;
        for (query, matches) in QUERIES {
            let expected: Vec<&Fact> = facts.iter().filter(|it| matches(it)).collect();
            let filter = EventFilter::parse(query, now()).unwrap();
            // Oldest first.
            let (mut found, mut after) = (Vec::new(), 0);
            loop {
                let page =
                    search.find(Some(&tenant), &filter, Page::After(after), 1_000).await.unwrap();
                found.extend(page.events);
                if !page.more {
                    assert_eq!(page.next, facts.last().unwrap().position, "{query}");
                    break;
                }
                assert!(page.next > after, "{query}");
                after = page.next;
            }
            check(&found, &expected, query);
            // Newest first.
            let (mut found, mut before) = (Vec::new(), None);
            loop {
                let page =
                    search.find(Some(&tenant), &filter, Page::Newest(before), 900).await.unwrap();
                found.splice(0..0, page.events);
                match page.before {
                    None => break,
                    Some(next) => before = Some(next),
                }
            }
            check(&found, &expected, query);
        }
    }
}

fn check(found: &[FoundEvent], expected: &[&Fact], query: &str) {
    let ids = |it: &FoundEvent| it.logged.event.event_id.to_string();
    let found_ids: Vec<_> = found.iter().map(ids).collect();
    let expected_ids: Vec<_> = expected.iter().map(|it| it.id.clone()).collect();
    assert_eq!(found_ids, expected_ids, "{query}");
    for (found, expected) in found.iter().zip(expected) {
        let facts = (found.logged.position, &*found.principal, &*found.tool, found.status);
        let wanted = (expected.position, &*expected.principal, &*expected.tool, expected.status);
        assert_eq!(facts, wanted, "{query}");
    }
}

#[tokio::test]
async fn a_search_finds_what_a_look_at_every_event_finds() {
    let memory = MemoryStorage::default();
    fill(&memory, 0..CALLS).await;
    compare(&memory).await;

    let directory = tempfile::tempdir().unwrap();
    let options = toolcrib_store::Options::default();
    let sqlite = SqliteStore::open(directory.path().join("store.db"), options).unwrap();
    fill(&sqlite, 0..CALLS).await;
    let all = EventFilter::default();
    let page = EventSearch::new(&sqlite).find(None, &all, Page::Newest(None), 1).await.unwrap();
    assert_eq!(page.events.len(), 1);
    assert_eq!(sqlite.last().await.unwrap(), Some(1), "two full segments are stored");
    // Another process finds them, and events that were added meanwhile.
    fill(&sqlite, CALLS..CALLS + 5).await;
    compare(&sqlite).await;
}

#[tokio::test]
async fn missing_and_damaged_segments_are_computed_again() {
    let storage = MemoryStorage::default();
    fill(&storage, 0..CALLS).await;
    let filter = EventFilter::parse("actor:bob status:error", now()).unwrap();
    let acme = tenant("acme");
    let all = |storage: MemoryStorage| {
        let (filter, acme) = (filter.clone(), acme.clone());
        async move {
            let search = EventSearch::new(&storage);
            search.find(Some(&acme), &filter, Page::Newest(None), 1_000).await.unwrap().events
        }
    };
    let expected = all(storage.clone()).await;
    assert!(expected.len() > 100);
    let segments = storage.segments();
    assert_eq!(segments.remove_before(9).await.unwrap(), 2);
    assert_eq!(all(storage.clone()).await, expected);
    assert_eq!(segments.last().await.unwrap(), Some(1));

    // The store keeps the first one of a number, so the damaged one comes first.
    segments.remove_before(9).await.unwrap();
    let damaged = |number| NewSegment {
        number,
        head: b"no head".to_vec(),
        facts: vec![1; 40],
        ids: Vec::new(),
    };
    segments.put(damaged(0)).await.unwrap();
    segments.put(damaged(1)).await.unwrap();
    assert_eq!(all(storage.clone()).await, expected);
    let heads = segments.read(SegmentPart::Head, &[0]).await.unwrap();
    assert_eq!(heads, [(0, b"no head".to_vec())], "the damaged one was read");
}

#[tokio::test]
async fn a_store_that_cannot_write_is_searched() {
    let mut storage = MemoryStorage::default();
    storage.segments = Arc::new(Full);
    fill(&storage, 0..CALLS).await;
    compare(&storage).await;
}

/// An event of `number` whose id begins like that of every other event of its millisecond.
fn event(number: usize, run: usize, at: usize, tenant: &str, body: EventBody) -> NewEvent {
    let millis = BEGAN + i64::try_from(at).unwrap();
    NewEvent {
        event_id: format!("01a2113e-7b1c-7f00-8000-{number:012x}").parse().unwrap(),
        tenant: tenant.parse().unwrap(),
        run_id: format!("01a2113e-7b1c-7f00-9000-{run:012x}").parse().unwrap(),
        body,
        timestamp: chrono::DateTime::from_timestamp_millis(millis).unwrap(),
        causation_id: None,
    }
}

fn called(principal: &str, tool: &str) -> EventBody {
    EventBody::ToolCalled(ToolCalled {
        agent_id: AgentId::system(),
        tool_name: tool.to_owned(),
        call_id: "01a2113e-7b1c-7f00-a000-000000000000".parse().unwrap(),
        args_hash: None,
        principal: principal.parse().unwrap(),
        actors: Vec::new(),
        transport: Transport::Mcp,
    })
}

fn egress() -> EventBody {
    EventBody::EgressDecided(EgressDecided::allowed("a.example"))
}

#[tokio::test]
async fn an_effect_has_the_principal_and_the_tool_of_its_own_cause_alone() {
    let storage = MemoryStorage::default();
    let people = [("ada", "acme"), ("bob", "other"), ("eve", "acme")];
    let mut opened = Vec::new();
    for (number, (who, of)) in people.into_iter().enumerate() {
        let tool = format!("mcp:files.of-{who}");
        opened.push(event(number, number, 0, of, called(who, &tool)));
    }
    storage.events().append(&opened).await.unwrap();
    let effect = |number: usize, at: usize| {
        let cause = &opened[number % 3];
        let own = event(100 + number, number % 3, at, cause.tenant.as_str(), egress());
        NewEvent { causation_id: Some(cause.event_id.clone()), ..own }
    };
    storage.events().append(&[effect(0, 1), effect(1, 1), effect(2, 1)]).await.unwrap();
    // Other events of more than two segments, and then the effects of hours later.
    for from in (0..40_000).step_by(1_000) {
        let others = (from..from + 1_000).map(|number| {
            event(10_000 + number, 10_000 + number, 2, "other", called("mallory", "mcp:x.y"))
        });
        storage.events().append(&others.collect::<Vec<_>>()).await.unwrap();
    }
    storage.events().append(&[effect(3, 3), effect(4, 3), effect(5, 3)]).await.unwrap();
    let search = EventSearch::new(&storage);
    for (who, of) in people {
        for query in
            [format!("actor:{who} type:egress.*"), format!("tool:files__of-{who} type:egress.*")]
        {
            let filter = EventFilter::parse(&query, now()).unwrap();
            let of = tenant(of);
            let page = search.find(Some(&of), &filter, Page::Newest(None), 100).await.unwrap();
            let runs: Vec<_> =
                page.events.iter().map(|it| it.logged.event.run_id.clone()).collect();
            let own = people.iter().position(|it| it.0 == who).unwrap();
            assert_eq!(runs, vec![opened[own].run_id.clone(); 2], "{query}");
        }
    }
    // The ids of the runs begin alike, too.
    let filter = EventFilter::parse(&format!("run:{}", opened[0].run_id), now()).unwrap();
    let summary = search.summary(&tenant("acme"), &filter, 10, now()).await.unwrap();
    assert_eq!(summary.events, 3);
    let filter = EventFilter::parse(&format!("run:{}", opened[1].run_id), now()).unwrap();
    let summary = search.summary(&tenant("other"), &filter, 10, now()).await.unwrap();
    assert_eq!(summary.events, 3);
}

/// A store without space.
struct Full;

#[async_trait::async_trait]
impl toolcrib_core::store::SegmentStore for Full {
    async fn last(&self) -> Result<Option<u64>, toolcrib_core::store::StoreError> {
        Ok(None)
    }

    async fn read(
        &self,
        _: SegmentPart,
        _: &[u64],
    ) -> Result<Vec<(u64, Vec<u8>)>, toolcrib_core::store::StoreError> {
        Ok(Vec::new())
    }

    async fn put(&self, _: NewSegment) -> Result<(), toolcrib_core::store::StoreError> {
        Err(toolcrib_core::store::StoreError::Unavailable("the disk is full".to_owned()))
    }

    async fn remove_before(&self, _: u64) -> Result<usize, toolcrib_core::store::StoreError> {
        Ok(0)
    }
}

#[tokio::test]
async fn the_index_is_extended_in_the_background() {
    let storage = MemoryStorage::default();
    let search = EventSearch::new(&storage);
    search.maintain().await.unwrap();
    fill(&storage, 0..CALLS).await;
    search.maintain().await.unwrap();
    assert_eq!(storage.segments().last().await.unwrap(), Some(1));
    let query = StoredQuery { limit: 1, ..StoredQuery::default() };
    assert_eq!(storage.record().stored(query).await.unwrap().len(), 1, "the log is unchanged");
    compare(&storage).await;
}

#[tokio::test]
async fn the_slowest_calls_come_first() {
    let storage = MemoryStorage::default();
    fill(&storage, 0..CALLS).await;
    let (acme, search) = (tenant("acme"), EventSearch::new(&storage));
    let facts = facts(&storage, &acme).await;
    for (query, matches) in QUERIES {
        let mut expected: Vec<_> = facts
            .iter()
            .filter(|it| it.took.is_some() && matches(it))
            .map(|it| (it.took, it.position))
            .collect();
        expected.sort_unstable_by(|a, b| b.cmp(a));
        expected.truncate(40);
        let filter = EventFilter::parse(query, now()).unwrap();
        let page = search.find(Some(&acme), &filter, Page::Slowest, 40).await.unwrap();
        let found = page.events.iter().map(|it| (it.run_time.map(u64::from), it.logged.position));
        assert_eq!(found.collect::<Vec<_>>(), expected, "{query}");
        // Keys of ids that all begin alike are more than a search reads.
        assert!((!page.more || filter.needs_ids()) && page.before.is_none(), "{query}");
    }
}

#[tokio::test]
async fn a_summary_counts_what_the_events_say() {
    let storage = MemoryStorage::default();
    fill(&storage, 0..CALLS).await;
    let (acme, search) = (tenant("acme"), EventSearch::new(&storage));
    let facts = facts(&storage, &acme).await;
    let filter = EventFilter::parse("source:files", now()).unwrap();
    let summary = search.summary(&acme, &filter, 60, now()).await.unwrap();
    let files = || facts.iter().filter(|it| it.tool.starts_with("mcp:files."));
    let count = |status: &str| files().filter(|it| it.status == status).count() as u64;
    assert_eq!(summary.events, files().count() as u64);
    assert_eq!(summary.totals.ok, count("ok"));
    let failed = files().filter(|it| it.failed()).count() as u64;
    assert_eq!(summary.totals.failed, failed);
    assert_eq!(summary.totals.approval_required, count("error") - failed);
    assert!(summary.totals.approval_required > 100);
    // The denials have causes: they are those of calls that are counted already.
    assert_eq!(summary.totals.denied, count("forbidden"));
    assert!(summary.buckets.len() <= 60 && summary.buckets.len() > 10);
    let sum: u64 = summary.buckets.iter().map(|it| it.totals.calls()).sum();
    assert_eq!(sum, summary.totals.calls());
    let names: Vec<_> = summary.tools.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let slowest: Vec<_> = summary.slowest.iter().map(|it| it.totals.p95_ms.unwrap()).collect();
    assert!(slowest.len() == 2 && slowest.is_sorted_by(|a, b| a >= b), "{slowest:?}");
    let of_principals: u64 = summary.principals.iter().map(|it| it.totals.calls()).sum();
    assert_eq!(of_principals, summary.totals.calls());
    assert_eq!(summary.principals[0].name, "ada");
    let p95 = summary.totals.p95_ms.unwrap();
    assert!((90..100).contains(&p95), "{p95}");
    assert!(!summary.is_partial);
    let nothing = EventFilter::parse("actor:unknown", now()).unwrap();
    let nothing = search.summary(&acme, &nothing, 60, now()).await.unwrap();
    assert_eq!((nothing.events, nothing.totals.calls(), nothing.buckets.len()), (0, 0, 0));
    let empty = EventSearch::new(&MemoryStorage::default());
    let empty = empty.summary(&acme, &EventFilter::default(), 60, now()).await.unwrap();
    assert_eq!(empty.events, 0);
}

/// Positions and results of one tenant do not depend on those of another.
#[tokio::test]
async fn a_search_of_one_tenant_shows_nothing_of_another() {
    let storage = MemoryStorage::default();
    fill(&storage, 0..200).await;
    let search = EventSearch::new(&storage);
    let other = EventFilter::parse("tenant:other", now()).unwrap();
    let acme = tenant("acme");
    let page = search.find(Some(&acme), &other, Page::Newest(None), 100).await.unwrap();
    assert_eq!((page.events.len(), page.before), (0, None));
    let all = EventFilter::parse("type:agent.toolCalled", now()).unwrap();
    let page = search.find(Some(&acme), &all, Page::Newest(None), 1_000).await.unwrap();
    assert!(page.events.iter().all(|it| it.logged.tenant == acme));
    assert!(page.events.iter().all(|it| it.logged.position == it.logged.link.position));
    // Without a tenant, for the operator of the store: all, by position in the whole log.
    let page = search.find(None, &all, Page::After(0), 1_000).await.unwrap();
    assert_eq!(page.events.len(), 200);
    let page = search.find(None, &other, Page::After(0), 1_000).await.unwrap();
    assert!(page.events.iter().all(|it| it.logged.tenant == tenant("other")));
    assert_eq!(page.next, 200 * 2 + 16 + 16);
}
