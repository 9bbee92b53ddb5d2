//! Breakers and bursts, from the callers' point of view.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use serde_json::json;
use toolcrib_core::{
    call::{CallError, UpstreamErrorKind},
    clock::Clock,
    id::PrincipalId,
    principal::Principal,
};
use toolcrib_gateway::{BreakerReport, BreakerState, CallReport};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Hand, Rig, eventually, offer, one_source, parse, principal, rig, rig_at};

const TOOLS: &[&str] = &["echo", "down", "dies", "fail", "hang", "boom", "sent_on"];
const BREAKER: &str = "breaker = { failures = 3, window = \"30s\", open = \"10s\" }\n";

async fn timed(rules: &str) -> (Rig, Arc<Hand>) {
    let hand = Arc::new(Hand::default());
    hand.0.store(1_000_000_000, Ordering::SeqCst);
    let clock = Arc::clone(&hand) as Arc<dyn Clock>;
    let text = one_source(&format!("{BREAKER}{rules}"));
    (rig_at(Some(Ok(offer(TOOLS))), &text, MemoryCatalogs::default(), clock).await, hand)
}

fn caller(name: &str) -> Principal {
    Principal { id: PrincipalId::parse(name).unwrap(), ..principal("t", &["*"]) }
}

fn pass(hand: &Hand, time: Duration) {
    hand.0.fetch_add(u64::try_from(time.as_nanos()).unwrap(), Ordering::SeqCst);
}

/// Returns the wait, if the breaker refused the call.
fn refused(called: &CallReport) -> Option<Duration> {
    match &called.result {
        Err(CallError::Upstream(error)) if error.kind == UpstreamErrorKind::Unavailable => {
            error.retry_after
        }
        _ => None,
    }
}

fn breaker(rig: &Rig) -> BreakerReport {
    rig.gateway.supply().reports()[0].breaker.clone()
}

/// A failing source gets no calls, until a single one finds that it has recovered.
#[tokio::test]
async fn a_source_that_is_away_is_left_alone_until_one_call_finds_it_back() {
    let (rig, hand) = timed("").await;
    let (ann, bob) = (caller("ann"), caller("bob"));
    for _ in 0..3 {
        assert_eq!(refused(&rig.call(&ann, "s__down", json!({})).await), None);
    }
    assert_eq!(breaker(&rig).state, BreakerState::Open);
    let before = rig.source().invoked.load(Ordering::SeqCst);
    for who in [&ann, &bob] {
        let called = rig.call(who, "s__echo", json!({})).await;
        assert_eq!(refused(&called), Some(Duration::from_secs(10)));
        assert_eq!(called.duration, None);
        let events = rig.log.events_of(&called.run_id).await;
        assert_eq!(
            crate::support::recorded(&events[1].body),
            "returned Error upstream_unavailable"
        );
    }
    assert_eq!(rig.source().invoked.load(Ordering::SeqCst), before, "nothing was sent");
    let metrics = rig.gateway.metrics().encode();
    for line in [
        "toolcrib_source_breaker_state{source=\"s\"} 2",
        "toolcrib_source_breaker_opened_total{source=\"s\"} 1",
        "toolcrib_source_calls_refused_total{source=\"s\",limit=\"breaker\"} 2",
        "toolcrib_source_calls_running{source=\"s\"} 0",
    ] {
        assert!(metrics.contains(line), "{line} is not in\n{metrics}");
    }
    let report = serde_json::to_value(&rig.gateway.supply().reports()[0]).unwrap();
    assert_eq!(report["load"]["refusedByBreaker"], 2);
    assert_eq!(report["load"]["maxConcurrency"], 64);
    assert_eq!(report["load"]["rates"], json!(["600/m"]));
    assert_eq!(report["breaker"]["state"], "open");
    assert_eq!(report["breaker"]["retryAfterMs"], 10_000);

    pass(&hand, Duration::from_secs(10));
    assert!(rig.call(&bob, "s__down", json!({})).await.result.is_err());
    assert_eq!(refused(&rig.call(&ann, "s__echo", json!({})).await), Some(Duration::from_secs(10)));
    pass(&hand, Duration::from_secs(10));
    assert!(rig.call(&bob, "s__echo", json!({})).await.result.is_ok());
    assert_eq!(breaker(&rig).state, BreakerState::Closed);
    assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());
}

/// I-74: one caller's calls cannot block the source for others.
#[tokio::test]
async fn a_caller_whose_calls_break_the_source_loses_it_alone() {
    let (rig, hand) = timed("[source.tools.hang]\ntimeout = \"20ms\"").await;
    let (mallory, ann) = (caller("mallory"), caller("ann"));
    for tool in ["s__dies", "s__hang", "s__dies"] {
        assert_eq!(refused(&rig.call(&mallory, tool, json!({})).await), None);
        assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());
    }
    assert_eq!(
        refused(&rig.call(&mallory, "s__echo", json!({})).await),
        Some(Duration::from_secs(10))
    );
    let now = breaker(&rig);
    assert_eq!((now.state, now.open_to_callers), (BreakerState::Closed, 1));
    for _ in 0..5 {
        assert!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok());
    }
    pass(&hand, Duration::from_secs(10));
    assert!(rig.call(&mallory, "s__echo", json!({})).await.result.is_ok());
    assert_eq!(breaker(&rig).open_to_callers, 0);
}

/// Failures of several callers' calls are attributed to the source.
#[tokio::test]
async fn a_source_that_fails_for_several_callers_is_left_alone() {
    let (rig, _) = timed("").await;
    for name in ["ann", "bob", "cid"] {
        rig.call(&caller(name), "s__dies", json!({})).await;
    }
    assert_eq!(breaker(&rig).state, BreakerState::Open);
}

/// Failures reported by a tool, cancellations and internal faults do not count against the source.
#[tokio::test]
async fn what_says_nothing_about_the_source_opens_nothing() {
    let (rig, _) = timed("").await;
    let ann = caller("ann");
    for _ in 0..6 {
        for tool in ["s__fail", "s__sent_on"] {
            rig.call(&ann, tool, json!({})).await;
        }
    }
    for _ in 0..6 {
        let hung_up =
            tokio::time::timeout(Duration::from_millis(5), rig.call(&ann, "s__hang", json!({})));
        assert!(hung_up.await.is_err());
    }
    let source = rig.source();
    eventually("the calls end", || source.dropped.load(Ordering::SeqCst) >= 6).await;
    for _ in 0..6 {
        rig.call(&ann, "s__boom", json!({})).await;
    }
    let now = breaker(&rig);
    assert_eq!((now.state, now.failures, now.open_to_callers), (BreakerState::Closed, 0, 0));
}

/// The breaker can be turned off, and a reload takes effect.
#[tokio::test]
async fn a_breaker_can_be_turned_off_and_on_while_the_source_runs() {
    let (rig, _) = timed("").await;
    let ann = caller("ann");
    for _ in 0..3 {
        rig.call(&ann, "s__down", json!({})).await;
    }
    assert_eq!(breaker(&rig).state, BreakerState::Open);
    rig.gateway.apply(parse(&one_source("breaker = \"off\""))).await.unwrap();
    assert_eq!(breaker(&rig).state, BreakerState::Off);
    for _ in 0..9 {
        assert_eq!(refused(&rig.call(&ann, "s__down", json!({})).await), None);
    }
    assert_eq!(rig.factory.built.lock().len(), 1, "it went on running");
    rig.gateway.apply(parse(&one_source("breaker = { failures = 2 }"))).await.unwrap();
    for expected in [false, false, true] {
        let called = rig.call(&ann, "s__down", json!({})).await;
        assert_eq!(refused(&called).is_some(), expected);
    }
}

/// I-12: a burst in addition to the rate.
#[tokio::test]
async fn a_burst_is_let_through_at_once() {
    let rules = "[source.tools.\"*\"]\nburst = 3\n[source.tools.echo]\nrate = \"1/h\"\n";
    let rig = rig(&["echo", "fail"], rules).await;
    let ann = caller("ann");
    for expected in [true, true, true, false] {
        assert_eq!(rig.call(&ann, "s__echo", json!({})).await.result.is_ok(), expected);
    }
    let report = serde_json::to_value(&rig.gateway.supply().reports()[0]).unwrap();
    assert_eq!(report["load"]["rates"], json!(["1/h, 3 at once", "600/m, 3 at once"]));
    assert_eq!(report["load"]["refusedByRate"], 1);
}
