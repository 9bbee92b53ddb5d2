//! Failures over HTTP.

use serde_json::json;
use toolcrib_core::{
    call::UpstreamErrorKind,
    source::{SourceLimits, SourceState},
};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::rig::{PATIENCE, Rig, eventually, text};

#[tokio::test]
async fn an_expired_session_is_renewed_once_for_everybody() {
    let server = FaultyHttp::start(Answers::Events, &["era=legacy", "listen=no"]);
    let rig = Rig::http(&server.url());
    rig.call("echo", json!({})).await;
    server.expire_sessions();
    let calls = (0..8).map(|n| rig.call("echo", json!({ "n": n })));
    for (n, outcome) in futures_util::future::join_all(calls).await.iter().enumerate() {
        assert_eq!(text(outcome), json!({ "n": n }).to_string());
    }
    assert_eq!(server.sessions_opened(), 2);
    rig.changed_after(1).await;
    assert_eq!(rig.source.status().state, SourceState::Ready);
    assert_eq!(rig.source.status().restarts, 0);
}

/// The upstream answers in the same session, so the tool has run.
#[tokio::test]
async fn the_error_of_a_tool_that_sounds_like_a_lost_session_is_no_reason_to_run_it_again() {
    let server = FaultyHttp::start(Answers::Json, &["era=legacy", "listen=no"]);
    let rig = Rig::http(&server.url());
    for message in ["paid, but the browser session expired", "Session not found"] {
        let before = server.received_method("tools/call").len();
        let outcome = rig.call("refuse", json!({ "message": message })).await;
        assert!(outcome.is_error);
        assert_eq!(text(&outcome), message);
        assert_eq!(server.received_method("tools/call").len() - before, 1, "{message}");
    }
    assert_eq!(server.sessions_opened(), 1);
}

/// The session is lost while the tool runs, so the tool must not run again. Later calls have a new
/// session.
#[tokio::test]
async fn a_call_during_which_the_session_is_lost_is_not_repeated() {
    for answers in [Answers::Json, Answers::Events] {
        let server = FaultyHttp::start(answers, &["era=legacy", "listen=no"]);
        let rig = Rig::http(&server.url());
        let message = "the session has ended; the call may have run";
        let outcome = rig.call("refuse", json!({ "message": message, "losesSession": true })).await;
        assert!(outcome.is_error);
        assert_eq!(text(&outcome), message);
        assert_eq!(server.received_method("tools/call").len(), 1);
        assert_eq!(server.sessions_opened(), 2);
        assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    }
}

#[tokio::test]
async fn refused_credentials_degrade_the_source_and_say_so() {
    for code in [401, 403] {
        for era in ["era=modern", "era=legacy"] {
            let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
            let rig = Rig::http_with(
                &server.url(),
                &[("authorization", "Bearer hunter22")],
                SourceLimits::default(),
            );
            rig.ready().await;
            // The list that came with the connection.
            rig.discover().await;
            server.refuse_with(code);
            rig.source.discover().await.unwrap_err();
            let status = rig.degraded().await;
            let expected = format!("upstream refused our credentials ({code})");
            assert_eq!(status.detail.as_deref(), Some(expected.as_str()));
            assert_eq!(rig.fails("echo", json!({})).await, UpstreamErrorKind::Unavailable);
            server.refuse_with(0);
            let status = rig.ready().await;
            assert!(status.restarts > 0);
            assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
        }
    }
}

/// A 401 concerns the whole source, a 403 only the tool that was called.
#[tokio::test]
async fn a_forbidden_call_does_not_affect_other_callers() {
    for (code, restarted) in [(403, false), (401, true)] {
        for era in ["era=modern", "era=legacy"] {
            let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
            let rig = Rig::http(&server.url());
            rig.ready().await;
            server.refuse_with(code);
            let refused = rig.call("echo", json!({})).await;
            assert!(refused.is_error);
            let said = text(&refused);
            assert!(said.starts_with(&format!("HTTP {code} ")), "{said}");
            assert!(said.contains("\nrefused"), "{said}");
            if restarted {
                rig.degraded().await;
            }
            server.refuse_with(0);
            assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
            assert_eq!(rig.source.status().restarts > 0, restarted, "{code} {era}");
        }
    }
}

#[tokio::test]
async fn a_source_that_starts_with_wrong_credentials_says_so() {
    let server = FaultyHttp::start(Answers::Json, &[]);
    server.refuse_with(401);
    let rig = Rig::http(&server.url());
    let status = rig.degraded().await;
    assert_eq!(status.detail.as_deref(), Some("upstream refused our credentials (401)"));
}

#[tokio::test]
async fn a_connection_that_breaks_in_a_call_fails_that_call_only() {
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Events, &[era, "listen=no"]);
        let rig = Rig::http(&server.url());
        rig.ready().await;
        assert_eq!(rig.fails("die", json!({})).await, UpstreamErrorKind::Died, "{era}");
        assert_eq!(text(&rig.call("echo", json!({})).await), "{}", "{era}");
    }
}

async fn eventually_fails_as_unavailable(rig: &Rig) {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    loop {
        let kind = rig.try_call("echo", json!({})).await.err().map(|error| error.kind);
        match kind {
            Some(UpstreamErrorKind::Unavailable) => return,
            None | Some(UpstreamErrorKind::Died) => {}
            Some(other) => panic!("a call failed with {other:?}"),
        }
        assert!(tokio::time::Instant::now() < deadline, "calls end with {kind:?}");
    }
}

#[tokio::test]
async fn a_server_that_goes_away_and_comes_back_is_found_again() {
    for era in ["era=modern", "era=legacy"] {
        let server = FaultyHttp::start(Answers::Json, &[era, "listen=no"]);
        let (url, address) = (server.url(), server.address());
        let rig = Rig::http(&url);
        rig.call("echo", json!({})).await;
        let seen = rig.changes();
        drop(server);
        // Until its listener is closed, the server may accept connections that it then drops; and
        // each connection in the pool fails once.
        eventually_fails_as_unavailable(&rig).await;
        let status = rig.degraded().await;
        let detail = status.detail.unwrap();
        assert!(detail.starts_with("cannot connect: "), "{detail}");
        assert!(!detail.contains("127.0.0.1") && !detail.contains("http"), "{detail}");
        let server = FaultyHttp::start_at(address, Answers::Json, &[era, "listen=no"]);
        rig.ready().await;
        rig.changed_after(seen).await;
        assert_eq!(text(&rig.call("echo", json!({})).await), "{}", "{era}");
        drop(server);
    }
}

#[tokio::test]
async fn an_endpoint_that_is_not_an_mcp_server_is_reported_as_such() {
    let server = FaultyHttp::start(Answers::Json, &[]);
    server.refuse_with(500);
    let rig = Rig::http(&server.url());
    let status = rig.degraded().await;
    assert_eq!(status.detail.as_deref(), Some("HTTP status 500"));
}

// Following a redirect would send a request to a destination that the upstream chose.
#[tokio::test]
async fn redirects_are_not_followed() {
    let server = FaultyHttp::start(Answers::Json, &[]);
    server.refuse_with(307);
    let rig = Rig::http(&server.url());
    let detail = rig.degraded().await.detail.unwrap();
    assert!(detail.contains("HTTP status 307: it redirects"), "{detail}");
    assert!(server.received().iter().all(|received| received.verb == "POST"));
}

#[tokio::test]
async fn closing_fails_calls_in_flight_and_refuses_later_ones() {
    let server = FaultyHttp::start(Answers::Events, &["era=legacy"]);
    let rig = Rig::http(&server.url());
    rig.ready().await;
    let close = async {
        eventually("the call is sent", || !server.received_method("tools/call").is_empty()).await;
        rig.source.close().await;
    };
    let (failed, ()) = tokio::join!(rig.fails("hang", json!({})), close);
    assert_eq!(failed, UpstreamErrorKind::Died);
    assert_eq!(rig.source.status().state, SourceState::Stopped);
    assert_eq!(rig.fails("echo", json!({})).await, UpstreamErrorKind::Unavailable);
    rig.source.close().await;
}
