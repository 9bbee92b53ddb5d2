//! Idempotent calls: one run per caller and key, as long as the response is stored.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde_json::{Value, json};
use toolcrib_core::{id::PrincipalId, principal::Principal};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, ToolRef,
    idempotency::{ClientKey, IdempotencyError, IdempotentOutcome, KEPT_FOR},
    metrics::Surface,
};
use toolcrib_store::MemoryCatalogs;

use crate::support::{Hand, Rig, eventually, offer, one_source, principal, rig, rig_at};

/// Stores the result of a successful call.
fn keep(called: &CallReport) -> Option<Bytes> {
    let outcome = called.result.as_ref().ok()?;
    called.duration?;
    Some(Bytes::copy_from_slice(outcome.content.get().as_bytes()))
}

async fn once(
    gateway: &Gateway,
    who: &Arc<Principal>,
    key: &str,
    tool: &str,
    arguments: Value,
) -> Result<IdempotentOutcome, IdempotencyError> {
    let request = CallRequest::new(
        gateway.snapshot(),
        Surface::new("otc", "Otc"),
        ToolRef::Wire(tool),
        arguments,
    );
    let key = ClientKey { space: "test", text: key };
    gateway.call_idempotent(who, key, request, keep).await
}

fn caller(name: &str, scopes: &[&str]) -> Arc<Principal> {
    Arc::new(Principal { id: PrincipalId::parse(name).unwrap(), ..principal("t", scopes) })
}

fn runs(rig: &Rig) -> usize {
    rig.source().invoked.load(Ordering::SeqCst)
}

fn kept(once: &Result<IdempotentOutcome, IdempotencyError>) -> bool {
    matches!(once, Ok(IdempotentOutcome::Kept(_)))
}

/// I-31: a repeated call gets the first response; another caller gets its own.
#[tokio::test]
async fn a_key_is_used_once_by_each_caller() {
    let rig = rig(&["echo", "other"], "").await;
    let (ann, bob) = (caller("ann", &["*"]), caller("bob", &["*"]));
    let mut stranger = principal("elsewhere", &["*"]);
    stranger.id = ann.id.clone();
    let stranger = Arc::new(stranger);
    let ask = |who, key, tool, arguments| once(&rig.gateway, who, key, tool, arguments);
    let IdempotentOutcome::Report(first) =
        ask(&ann, "k", "s__echo", json!({"n": 1})).await.unwrap()
    else {
        panic!("nothing ran before");
    };
    let IdempotentOutcome::Kept(again) = ask(&ann, "k", "s__echo", json!({"n": 1})).await.unwrap()
    else {
        panic!("it ran before");
    };
    assert_eq!(again.body, first.result.as_ref().unwrap().content.get());
    assert_eq!(again.run_id, first.run_id);
    assert_eq!(runs(&rig), 1);
    for (tool, arguments) in [("s__echo", json!({"n": 2})), ("s__other", json!({"n": 1}))] {
        let refused = ask(&ann, "k", tool, arguments).await;
        assert_eq!(refused.unwrap_err(), IdempotencyError::Conflict);
    }
    assert_eq!(runs(&rig), 1);
    for who in [&bob, &stranger] {
        assert!(!kept(&ask(who, "k", "s__echo", json!({"n": 1})).await), "another caller's key");
    }
    assert!(!kept(&ask(&ann, "k2", "s__echo", json!({"n": 1})).await));
    assert_eq!(runs(&rig), 4);
    assert_eq!(rig.log.recorded().len(), 8, "a repeated answer is no call");
}

/// I-31: the order of members and the notation of numbers do not make another call.
#[tokio::test]
async fn arguments_are_compared_by_what_they_say() {
    let rig = rig(&["echo"], "").await;
    let ann = caller("ann", &["*"]);
    for (text, repeats) in
        [(r#"{"a":1,"b":[1.0,"x"]}"#, false), (r#"{"b":[1,"\u0078"],"a":1e0}"#, true)]
    {
        let arguments = serde_json::from_str(text).unwrap();
        assert_eq!(kept(&once(&rig.gateway, &ann, "k", "s__echo", arguments).await), repeats);
    }
    // Secrets count as different although the record shows neither.
    let secret = |text: &str| json!({ "password": text });
    once(&rig.gateway, &ann, "s", "s__echo", secret("one")).await.unwrap();
    let other = once(&rig.gateway, &ann, "s", "s__echo", secret("two")).await;
    assert_eq!(other.unwrap_err(), IdempotencyError::Conflict);
}

/// I-31: a call that did not run may run later under the same key.
#[tokio::test]
async fn refusals_are_not_kept() {
    let rules =
        "[source.tools.\"limited\"]\nrate = \"1/h\"\n[source.tools.\"shut\"]\nscopes = [\"z\"]";
    let rig = rig(&["strict", "limited", "shut", "down"], rules).await;
    let ann = caller("ann", &["tools:s"]);
    for tool in ["s__strict", "s__shut", "s__down", "s__absent"] {
        for _ in 0..2 {
            let once = once(&rig.gateway, &ann, "k", tool, json!({})).await.unwrap();
            let IdempotentOutcome::Report(called) = once else { panic!("{tool} was kept") };
            assert!(called.result.is_err(), "{tool}");
        }
    }
    let fits = json!({ "text": "x", "n": 1 });
    let ran = once(&rig.gateway, &ann, "k", "s__strict", fits).await.unwrap();
    assert!(matches!(ran, IdempotentOutcome::Report(called) if called.result.is_ok()));
    // A replay uses no rate limit, and a refusal by the rate limit is not stored.
    for (key, works, repeats) in
        [("a", true, false), ("a", true, true), ("b", false, false), ("a", true, true)]
    {
        let once = once(&rig.gateway, &ann, key, "s__limited", json!({})).await;
        assert_eq!(kept(&once), repeats);
        if let Ok(IdempotentOutcome::Report(called)) = once {
            assert_eq!(called.result.is_ok(), works);
        }
    }
}

/// I-7: a caller that may no longer call a tool does not get its earlier response.
#[tokio::test]
async fn a_repeated_call_is_authorized_again() {
    let rig = rig(&["echo"], "").await;
    once(&rig.gateway, &caller("ann", &["*"]), "k", "s__echo", json!({})).await.unwrap();
    let denied = once(&rig.gateway, &caller("ann", &["x"]), "k", "s__echo", json!({})).await;
    assert!(matches!(denied, Ok(IdempotentOutcome::Report(called)) if called.result.is_err()));
    assert!(kept(&once(&rig.gateway, &caller("ann", &["*"]), "k", "s__echo", json!({})).await));
}

/// I-31: equal concurrent calls run once; a disconnect, even of the first caller, cancels nothing.
#[tokio::test]
async fn callers_wait_for_the_one_run() {
    let rig = rig(&["hang"], "[source.tools.\"hang\"]\ntimeout = \"1s\"").await;
    let ann = caller("ann", &["*"]);
    let start = || {
        let (gateway, ann) = (rig.gateway.clone(), Arc::clone(&ann));
        tokio::spawn(async move { once(&gateway, &ann, "k", "s__hang", json!({})).await })
    };
    let source = rig.source();
    let first = start();
    eventually("it runs", || source.invoked.load(Ordering::SeqCst) == 1).await;
    let (second, third) = (start(), start());
    let other = once(&rig.gateway, &ann, "k", "s__hang", json!({ "n": 1 })).await;
    assert_eq!(other.unwrap_err(), IdempotencyError::Conflict, "also while it runs");
    first.abort();
    third.abort();
    let IdempotentOutcome::Report(called) = second.await.unwrap().unwrap() else {
        panic!("nothing is kept")
    };
    assert_eq!(called.result.as_ref().unwrap_err().code(), "upstream_timeout", "not cancelled");
    assert_eq!(runs(&rig), 1);
    assert_eq!(rig.log.recorded(), ["called", "returned Error upstream_timeout ran"]);
}

/// I-31: a caller that lost its connection can fetch the response.
#[tokio::test]
async fn a_call_goes_on_without_its_caller() {
    let rig = rig(&["echo"], "").await;
    let ann = caller("ann", &["*"]);
    let lost = once(&rig.gateway, &ann, "k", "s__echo", json!({})).now_or_never();
    assert!(lost.is_none(), "it hung up at once");
    eventually("it ends", || rig.log.recorded().len() == 2).await;
    let again = once(&rig.gateway, &ann, "k", "s__echo", json!({})).await.unwrap();
    // Either way it is the response of the one run.
    match again {
        IdempotentOutcome::Kept(kept) => assert!(kept.body.starts_with(b"[")),
        IdempotentOutcome::Report(called) => assert!(called.result.is_ok()),
    }
    assert_eq!(runs(&rig), 1);
}

/// I-22: closing the gateway cancels all calls, with or without a key.
#[tokio::test]
async fn closing_ends_calls_under_keys() {
    let rig = rig(&["hang"], "").await;
    let (gateway, ann) = (rig.gateway.clone(), caller("ann", &["*"]));
    let call = tokio::spawn(async move { once(&gateway, &ann, "k", "s__hang", json!({})).await });
    let source = rig.source();
    eventually("it runs", || source.invoked.load(Ordering::SeqCst) == 1).await;
    rig.gateway.close().await;
    assert_eq!(rig.log.recorded(), ["called", "returned Error cancelled ran"]);
    let IdempotentOutcome::Report(called) = call.await.unwrap().unwrap() else {
        panic!("nothing is kept")
    };
    assert!(called.result.is_err());
}

#[tokio::test]
async fn answers_are_kept_for_a_day_and_keys_are_short() {
    let clock = Arc::new(Hand::default());
    let offers = Some(Ok(offer(&["echo"])));
    let rig =
        rig_at(offers, &one_source(""), MemoryCatalogs::default(), Arc::clone(&clock) as _).await;
    let ann = caller("ann", &["*"]);
    let day = u64::try_from(KEPT_FOR.as_nanos()).unwrap();
    for (wait, repeats) in [(0, false), (day - 1, true), (1, false), (0, true)] {
        clock.0.fetch_add(wait, Ordering::SeqCst);
        assert_eq!(kept(&once(&rig.gateway, &ann, "k", "s__echo", json!({})).await), repeats);
    }
    for key in ["", &"k".repeat(257)] {
        let refused = once(&rig.gateway, &ann, key, "s__echo", json!({})).await;
        assert_eq!(refused.unwrap_err(), IdempotencyError::Unusable);
    }
}
