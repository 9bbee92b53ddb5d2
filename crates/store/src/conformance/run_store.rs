//! The requirements of [`RunStore`](toolcrib_core::store::RunStore).

use toolcrib_core::{
    id::{CallId, KeyId, PrincipalId, RunId, TenantId, ToolId},
    store::{RunQuery, RunRecord, RunState, Storage, StoreError},
};

use super::moment;

/// A stored run is returned unchanged.
pub async fn a_run_comes_back_as_it_began(storage: &dyn Storage) {
    let runs = &*storage.runs();
    let nested = RunRecord { parent: Some(call("a")), key: None, ..run("acme", "b", 2) };
    runs.begin(run("acme", "a", 1), Some("{}".to_owned())).await.unwrap();
    runs.begin(nested.clone(), None).await.unwrap();
    let again = runs.begin(nested.clone(), None).await.unwrap_err();
    assert!(matches!(again, StoreError::Conflict(_)), "{again}");
    let listed = runs.list(RunQuery::default()).await.unwrap();
    assert_eq!(listed, [nested, run("acme", "a", 1)]);
    assert!(runs.adopted().await.unwrap().is_empty(), "no run here is of a dead process");
}

/// The first end counts.
pub async fn a_run_ends_once(storage: &dyn Storage) {
    let runs = &*storage.runs();
    let (acme, a) = (tenant("acme"), call("a"));
    runs.begin(run("acme", "a", 1), Some("{}".to_owned())).await.unwrap();
    runs.keep(&acme, &a, &call("a.step"), "1".to_owned()).await.unwrap();
    runs.keep(&acme, &a, &call("a.step"), "2".to_owned()).await.unwrap();
    assert!(!runs.end(&tenant("other"), &a, RunState::Failed, None, moment(5)).await.unwrap());
    let failed = Some("timeout");
    assert!(runs.end(&acme, &a, RunState::Failed, failed, moment(5)).await.unwrap());
    assert!(!runs.end(&acme, &a, RunState::Completed, None, moment(6)).await.unwrap());
    let listed = runs.list(RunQuery::default()).await.unwrap();
    assert_eq!(listed[0].state, RunState::Failed);
    assert_eq!(listed[0].code.as_deref(), failed);
    assert_eq!(listed[0].ended_at, Some(moment(5)));
}

/// Every member of a query narrows the result.
pub async fn runs_are_selected_and_the_newest_come_first(storage: &dyn Storage) {
    let runs = &*storage.runs();
    for (whose, name, at) in [("acme", "a", 1), ("acme", "b", 2), ("other", "c", 3)] {
        runs.begin(run(whose, name, at), None).await.unwrap();
    }
    runs.end(&tenant("acme"), &call("b"), RunState::Completed, None, moment(9)).await.unwrap();
    let all = RunQuery::default;
    for (query, expected) in [
        (all(), &["c", "b", "a"][..]),
        (RunQuery { limit: 2, ..all() }, &["c", "b"]),
        (RunQuery { tenant: Some(tenant("acme")), ..all() }, &["b", "a"]),
        (RunQuery { principal: PrincipalId::parse("unknown").ok(), ..all() }, &[]),
        (RunQuery { principal: PrincipalId::parse("ann").ok(), ..all() }, &["c", "b", "a"]),
        (RunQuery { run: RunId::parse("run-a").ok(), ..all() }, &["a"]),
        (RunQuery { state: Some(RunState::Running), ..all() }, &["c", "a"]),
        (RunQuery { state: Some(RunState::Completed), ..all() }, &["b"]),
    ] {
        let found = runs.list(query.clone()).await.unwrap();
        let names: Vec<&str> = found.iter().map(|run| run.call_id.as_str()).collect();
        assert_eq!(names, expected, "{query:?}");
    }
}

/// A list of runs has one workflow of each, and continues after the last one of a page.
pub async fn runs_are_listed_once_and_by_pages(storage: &dyn Storage) {
    let runs = &*storage.runs();
    let of_first =
        |name: &str, at| RunRecord { run_id: run("acme", "a", 0).run_id, ..run("acme", name, at) };
    let step = RunRecord { parent: Some(call("d")), ..of_first("e", 6) };
    let begun =
        [of_first("a", 1), run("acme", "b", 2), run("acme", "c", 2), of_first("d", 5), step];
    for run in begun.into_iter().chain([run("other", "z", 3)]) {
        runs.begin(run, None).await.unwrap();
    }
    let mut before = None;
    for expected in [&["d", "c"][..], &["b"], &[]] {
        let query = RunQuery {
            tenant: Some(tenant("acme")),
            one_per_run: true,
            before: before.clone(),
            limit: 2,
            ..RunQuery::default()
        };
        let found = runs.list(query).await.unwrap();
        let names: Vec<&str> = found.iter().map(|run| run.call_id.as_str()).collect();
        assert_eq!(names, expected, "{before:?}");
        before = found.last().map(|run| (run.started_at, run.call_id.clone()));
    }
}

/// Only running workflows can be cancelled, and only by their tenant.
pub async fn an_end_can_be_asked_for(storage: &dyn Storage) {
    let runs = &*storage.runs();
    runs.begin(run("acme", "a", 1), None).await.unwrap();
    let of_a = RunId::parse("run-a").unwrap();
    assert_eq!(runs.request_cancellation(&tenant("other"), &of_a).await.unwrap(), 0);
    assert!(runs.requested_cancellations().await.unwrap().is_empty());
    assert_eq!(runs.request_cancellation(&tenant("acme"), &of_a).await.unwrap(), 1);
    assert_eq!(runs.requested_cancellations().await.unwrap(), [call("a")]);
    let (acme, a) = (tenant("acme"), call("a"));
    runs.end(&acme, &a, RunState::Cancelled, None, moment(2)).await.unwrap();
    assert!(runs.requested_cancellations().await.unwrap().is_empty());
    assert_eq!(runs.request_cancellation(&acme, &of_a).await.unwrap(), 0);
}

/// Creates a running run of `whose`, called `name` and started at `at`.
pub fn run(whose: &str, name: &str, at: i64) -> RunRecord {
    RunRecord {
        tenant: tenant(whose),
        run_id: RunId::parse(format!("run-{name}")).unwrap(),
        call_id: call(name),
        tool_id: ToolId::parse("openwop:workflow.brief").unwrap(),
        digest: "d1".to_owned(),
        principal: PrincipalId::parse("ann").unwrap(),
        key: KeyId::parse("key-1").ok(),
        parent: None,
        state: RunState::Running,
        code: None,
        durable: true,
        started_at: moment(at),
        ended_at: None,
    }
}

pub fn tenant(id: &str) -> TenantId {
    TenantId::parse(id).unwrap()
}

pub fn call(id: &str) -> CallId {
    CallId::parse(id).unwrap()
}
