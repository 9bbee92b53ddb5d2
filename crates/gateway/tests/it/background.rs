//! Background tasks: failures are reported and restarted, and closing ends them.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use toolcrib_gateway::{CheckState, tasks::TaskState};

use crate::support::{Rig, eventually, principal, rig};

fn failures(rig: &Rig, kind: &str) -> u64 {
    let reports = rig.gateway.tasks().reports();
    reports.iter().filter(|it| it.name.kind == kind).map(|it| it.failures).sum()
}

fn tasks_are(rig: &Rig) -> CheckState {
    let health = rig.gateway.health();
    health.iter().find(|check| check.name == "tasks").unwrap().state
}

// I-90
#[tokio::test]
async fn a_discovery_that_panics_is_repeated_and_seen() {
    let rig = rig(&["one"], "").await;
    let caller = principal("t", &["*"]);
    assert_eq!(tasks_are(&rig), CheckState::Ok);
    rig.source().panics.store(2, Ordering::SeqCst);
    rig.source().offer(&["one", "two"]);
    eventually("the new tool is listed", || rig.listed(&caller).len() == 2).await;
    assert_eq!(failures(&rig, "discovery"), 2);
    assert_eq!(tasks_are(&rig), CheckState::Degraded, "it failed within the last minute");
    assert_eq!(rig.gateway.supply().reports()[0].task_failures, 2);
    let metrics = rig.gateway.metrics().encode();
    assert!(metrics.contains("toolcrib_task_failures_total{task=\"discovery\"} 2"), "{metrics}");
}

// I-90
#[tokio::test]
async fn the_refresher_goes_on_after_a_panic() {
    let rig = rig(&["one"], "").await;
    let caller = principal("t", &["*"]);
    // When its discovery has failed, the refresher reads the source's status in each round.
    rig.source().refuses.store(true, Ordering::SeqCst);
    rig.gateway.supply().refresh(&"s".parse().unwrap());
    let failed = || !rig.gateway.supply().reports()[0].problems.is_empty();
    eventually("the discovery fails", failed).await;
    rig.source().status_panics.store(true, Ordering::SeqCst);
    eventually("the refresher fails", || failures(&rig, "refresh") > 0).await;
    rig.source().status_panics.store(false, Ordering::SeqCst);
    rig.source().refuses.store(false, Ordering::SeqCst);
    rig.source().offer(&["one", "two"]);
    eventually("the new tool is listed", || rig.listed(&caller).len() == 2).await;
    let reports = rig.gateway.tasks().reports();
    let refresh = reports.iter().find(|report| report.name.kind == "refresh").unwrap();
    assert_eq!((refresh.state, refresh.running), (TaskState::Recovering, 1));
}

/// Returns a check whether the gateway still holds its source or its factory.
fn held(rig: &Rig) -> impl Fn() -> bool + use<> {
    let (source, factory) = (Arc::downgrade(&rig.source()), Arc::downgrade(&rig.factory));
    move || source.strong_count() + factory.strong_count() > 0
}

// I-91
#[tokio::test]
async fn a_gateway_that_was_closed_is_gone_with_its_last_handle() {
    for closed in [true, false] {
        let rig = rig(&["one"], "").await;
        let tasks = rig.gateway.tasks().clone();
        let is_held = held(&rig);
        if closed {
            rig.gateway.close().await;
        }
        drop(rig);
        eventually("nothing holds it", || !is_held()).await;
        let running = || tasks.reports().iter().map(|report| report.running).sum::<usize>();
        eventually("its tasks have ended", || running() == 0).await;
    }
}

// I-91
#[tokio::test]
async fn a_source_that_does_not_answer_does_not_keep_a_closed_gateway() {
    let rig = rig(&["one"], "").await;
    rig.source().hangs.store(true, Ordering::SeqCst);
    let asked = rig.source().asked.load(Ordering::SeqCst);
    rig.source().offer(&["two"]);
    let source = Arc::downgrade(&rig.source());
    let more = || source.upgrade().unwrap().asked.load(Ordering::SeqCst) > asked;
    eventually("it is asked", more).await;
    let is_held = held(&rig);
    rig.gateway.close().await;
    drop(rig);
    let gone = async { eventually("nothing holds it", || !is_held()).await };
    tokio::time::timeout(Duration::from_secs(20), gone).await.unwrap();
}

// I-90
#[tokio::test]
async fn what_goes_on_beside_the_requests_is_on_the_board() {
    let rig = rig(&["one"], "").await;
    let kinds: Vec<_> =
        rig.gateway.tasks().reports().into_iter().map(|report| report.name.kind).collect();
    for kind in ["approvals", "denials", "keys", "quotas", "refresh", "workflows"] {
        assert!(kinds.contains(&kind), "{kind} in {kinds:?}");
    }
}
