//! The log contains no arguments, results or secrets.

use std::{cell::RefCell, io};

use serde_json::json;
use toolcrib_core::source::{SourceLimits, StderrMode};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{Rig, eventually, faulty, secret};

thread_local! {
    static LOG: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Collects the log lines of the current thread. A thread-local subscriber would not suffice,
/// because interest in a log line is cached for all threads.
struct OwnThread;

impl io::Write for OwnThread {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        LOG.with_borrow_mut(|log| log.extend_from_slice(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

// The runtime has one thread, which writes all log lines of the source.
#[tokio::test]
async fn arguments_results_and_secrets_do_not_reach_the_log() {
    tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_writer(|| OwnThread)
        .init();
    let mut spec = faulty(&["era=legacy", "start=noise"]);
    spec.env.insert("API_TOKEN".to_owned(), secret("canary-secret"));
    let stdio = Rig::stdio(spec.clone(), SourceLimits::default());
    spec.stderr = StderrMode::Log;
    let logging = Rig::stdio(spec, SourceLimits::default());
    let server = FaultyHttp::start(Answers::Events, &["era=modern"]);
    let headers = [("authorization", "Bearer canary-secret")];
    let http = Rig::http_with(&server.url(), &headers, SourceLimits::default());
    for rig in [&stdio, &http] {
        rig.discover().await;
        for tool in ["echo", "fail", "refuse", "block", "env"] {
            rig.call(tool, json!({ "text": "canary-argument", "kind": "unknown" })).await;
        }
        rig.call("malformed", json!({ "text": "canary-argument" })).await;
    }
    // I-92: a child may print arguments.
    stdio.call("complain", json!({ "text": "canary-argument" })).await;
    let said = || stdio.stderr().contains(&"canary-argument".to_owned());
    eventually("the line is kept", said).await;
    logging.call("complain", json!({ "text": "wanted in the log" })).await;
    eventually("the line is kept", || !logging.stderr().is_empty()).await;
    for rig in [&stdio, &http, &logging] {
        rig.source.close().await;
        let detail = rig.source.status().detail.unwrap_or_default();
        assert!(!detail.contains("canary"), "{detail}");
    }
    let log = LOG.with_borrow(|log| String::from_utf8_lossy(log).into_owned());
    assert!(log.contains("source is ready"), "{log}");
    assert_eq!(log.matches("upstream stderr").count(), 1, "{log}");
    assert!(log.contains("wanted in the log"), "{log}");
    assert!(log.contains("not JSON-RPC were skipped"), "{log}");
    for canary in ["canary", "no luck", "unknown zone", "hologram", "Welcome"] {
        assert!(!log.contains(canary), "{canary} in {log}");
    }
}
