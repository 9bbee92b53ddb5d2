//! Results of calls.

use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, text};

#[tokio::test]
async fn a_tools_own_failure_and_a_protocol_error_are_both_for_the_model() {
    let rig = Rig::faulty(&[]);
    let failed = rig.call("fail", json!({})).await;
    assert!(failed.is_error);
    assert_eq!(text(&failed), "no luck");
    let refused = rig.call("refuse", json!({})).await;
    assert!(refused.is_error);
    assert_eq!(text(&refused), "unknown zone  [31mred", "without the escape character");
}

// An invalid content block is reported, and the rest of the result is kept.
#[tokio::test]
async fn a_bad_block_is_named_and_the_good_ones_stay() {
    let rig = Rig::faulty(&[]);
    for (kind, why) in [
        ("unknown", "`hologram` is not known"),
        ("nameless-link", "`name` is not a string"),
        ("number-text", "`text` is not a string"),
        ("empty-resource", "`blob` is not a string"),
        ("untyped", "its type is missing"),
        ("other", "not an object"),
    ] {
        let outcome = rig.call("block", json!({ "kind": kind })).await;
        assert!(!outcome.is_error, "the tool has run: {kind}");
        let blocks: Vec<Value> = serde_json::from_str(outcome.content.get()).unwrap();
        assert_eq!(blocks[0], json!({ "type": "text", "text": "good" }), "{kind}");
        let note = blocks[1]["text"].as_str().unwrap();
        assert!(note.contains("source `crib`") && note.contains(why), "{note}");
    }
}

#[tokio::test]
async fn noise_on_stdout_is_skipped() {
    let rig = Rig::faulty(&["start=noise"]);
    assert_eq!(text(&rig.call("noise", json!({})).await), "after the noise");
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
}

#[tokio::test]
async fn an_answer_that_is_not_json_ends_its_call_at_once() {
    let rig = Rig::faulty(&[]);
    let server = FaultyHttp::start(Answers::Json, &[]);
    for rig in [rig, Rig::http(&server.url())] {
        let outcome = rig.call("malformed", json!({})).await;
        assert!(!outcome.is_error, "the tool has run");
        assert!(text(&outcome).contains("not valid JSON-RPC"), "{}", text(&outcome));
        assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    }
}

// We declare no capabilities, so an upstream may send us no request except `ping`.
#[tokio::test]
async fn an_upstream_whose_requests_are_rejected_still_responds() {
    let directory = tempfile::tempdir().unwrap();
    let record = directory.path().join("record");
    let rig = Rig::faulty(&["era=legacy", &format!("record={}", record.display())]);
    assert_eq!(text(&rig.call("ask", json!({})).await), "asked");
    crate::rig::eventually("all four are answered", || {
        let record = std::fs::read_to_string(&record).unwrap_or_default();
        let answers: Vec<Value> =
            record.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let answer = |id: &str| answers.iter().find(|answer| answer["id"] == id);
        answer("q1").is_some_and(|pong| pong["result"] == json!({}))
            && ["q2", "q3", "q4"]
                .iter()
                .all(|id| answer(id).is_some_and(|refusal| refusal["error"]["code"] == -32601))
    })
    .await;
}
