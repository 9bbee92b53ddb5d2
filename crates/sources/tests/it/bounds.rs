//! All upstream output is bounded, and missing output never makes a call hang.

use std::time::Duration;

use serde_json::json;
use toolcrib_core::{
    call::UpstreamErrorKind,
    source::{SourceLimits, SourceState},
};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, faulty, invocation, text};

// I-27
#[tokio::test]
async fn a_line_over_the_limit_fails_its_call_and_no_other() {
    let rig = Rig::faulty(&[]);
    rig.ready().await;
    let bystander = rig.call("slow", json!({ "ms": 300 }));
    let too_large = rig.fails("oversized", json!({ "bytes": 17 << 20 }));
    let (bystander, too_large) = tokio::join!(bystander, too_large);
    assert_eq!(too_large, UpstreamErrorKind::TooLarge);
    assert_eq!(text(&bystander), "done");
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    assert_eq!(rig.source.status().restarts, 0);
}

// I-27
#[tokio::test]
async fn an_event_or_document_over_the_limit_fails_its_call_and_no_other() {
    let limits = SourceLimits { max_message_bytes: 100_000, ..SourceLimits::default() };
    for answers in [Answers::Json, Answers::Events] {
        let server = FaultyHttp::start(answers, &[]);
        let rig = Rig::http_with(&server.url(), &[], limits.clone());
        rig.ready().await;
        for tool in ["oversized", "big"] {
            let failed = rig.fails(tool, json!({ "bytes": 200_000 })).await;
            assert_eq!(failed, UpstreamErrorKind::TooLarge, "{tool} {answers:?}");
        }
        let fits = rig.call("big", json!({ "bytes": 90_000 })).await;
        assert_eq!(text(&fits).len(), 90_000);
    }
}

// I-27
#[tokio::test]
async fn a_result_over_the_callers_cap_is_too_large() {
    let rig = Rig::faulty(&[]);
    rig.ready().await;
    let mut small = invocation(json!({ "bytes": 5000 }));
    small.max_result_bytes = 4000;
    let error = rig.invoke("big", None, small).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::TooLarge);
}

// I-25: a call never waits for a source to connect.
#[tokio::test]
async fn a_source_that_is_not_connected_fails_calls_and_discoveries_at_once() {
    let rig = Rig::faulty(&["start=hang"]);
    assert_eq!(rig.source.status().state, SourceState::Starting);
    assert_eq!(rig.fails("echo", json!({})).await, UpstreamErrorKind::Unavailable);
    let error = rig.source.discover().await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::Unavailable);
    assert_eq!(rig.source.status().state, SourceState::Starting);
}

// I-27
#[tokio::test]
async fn a_server_that_does_not_answer_is_given_up_and_tried_again() {
    let limits = SourceLimits { connect_timeout: Duration::from_secs(1), ..Default::default() };
    let rig = Rig::stdio(faulty(&["start=hang"]), limits);
    let status = rig.degraded().await;
    let detail = status.detail.unwrap();
    // I-92: without the child's stderr output.
    assert_eq!(detail, "the upstream did not answer in time");
    rig.until(|status| status.restarts >= 1).await;
    rig.source.close().await;
}

#[tokio::test]
async fn a_slow_start_is_waited_for() {
    let rig = Rig::faulty(&["start=late"]);
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    assert_eq!(rig.source.status().restarts, 0);
}

#[tokio::test]
async fn a_slow_call_does_not_hold_up_the_others() {
    let rig = Rig::faulty(&[]);
    rig.ready().await;
    let mut hanging = std::pin::pin!(rig.try_call("hang", json!({})));
    let others = async {
        for n in 0..50 {
            assert_eq!(text(&rig.call("echo", json!({ "n": n })).await), format!("{{\"n\":{n}}}"));
        }
    };
    tokio::select! { _ = &mut hanging => panic!("it hangs"), () = others => {} }
}
