//! Sessions of handshake clients.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use toolcrib::core::call::Outcome;
use toolcrib_testkit::gateway::{Actor, TestGateway, TestTool};

use crate::support::{
    Hanging, gateway, legacy, listen, message, modern, post, reaches, session, stream,
};

const HOUR: Duration = Duration::from_secs(3_600);

/// Returns the statuses of all kinds of requests in a session.
async fn statuses(actor: &Actor) -> [u16; 4] {
    let note = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled" }).to_string();
    [
        legacy(actor, "tools/list", json!({})).await.status,
        legacy(actor, "tools/call", json!({ "name": "crib__bare" })).await.status,
        post(actor, &note).await.status,
        actor.with("accept", "text/event-stream").open(Method::GET, "/mcp", None).await.status,
    ]
}

async fn delete(actor: &Actor) -> u16 {
    actor.send(Method::DELETE, "/mcp", None).await.status
}

#[tokio::test]
async fn a_session_lives_from_its_handshake_to_its_end() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let (one, two) = (session(&caller).await, session(&caller).await);
    let id = |reply: &toolcrib_testkit::gateway::Reply| reply.header("mcp-session-id").to_owned();
    let ids = [
        id(&legacy(&caller, "initialize", json!({})).await),
        id(&legacy(&one, "initialize", json!({})).await),
    ];
    let is_legal = |id: &String| id.bytes().all(|byte| byte.is_ascii_graphic()) && id.len() < 200;
    assert!(ids[0] != ids[1] && ids.iter().all(is_legal), "{ids:?}");
    assert_eq!(statuses(&one).await, [200, 200, 202, 200]);
    assert_eq!(delete(&one).await, 204);
    assert_eq!(statuses(&one).await, [404; 4]);
    assert_eq!(delete(&one).await, 404);
    let gone = legacy(&one, "tools/list", json!({})).await.json();
    assert_eq!((&gone["id"], &gone["error"]["code"]), (&json!(7), &json!(-32600)));
    assert_eq!(statuses(&two).await, [200, 200, 202, 200], "the other session still works");
    assert_eq!(legacy(&one, "initialize", json!({})).await.status, 200, "it may begin again");
    assert_eq!(modern(&one, "tools/list", json!({})).await.status, 200, "no session there");
}

/// I-9: a session belongs to its principal; for others it is unknown.
#[tokio::test]
async fn another_principal_cannot_use_or_end_a_session() {
    let gw = gateway().start().await;
    let owner = gw.principal("a", []).await;
    let own = session(&owner).await;
    let id = legacy(&owner, "initialize", json!({})).await.header("mcp-session-id").to_owned();
    let strangers = [
        gw.principal("b", ["*"]).await,
        gw.principal_of("other", "a", &["*"]).await,
        gw.principal_of("other", "b", &["*"]).await,
    ];
    for stranger in strangers {
        let (theirs, none) =
            (stranger.with("mcp-session-id", &id), stranger.with("mcp-session-id", "none"));
        assert_eq!(statuses(&theirs).await, [404; 4]);
        assert_eq!(delete(&theirs).await, 404);
        let (known, unknown) = (
            legacy(&theirs, "ping", json!({})).await.text(),
            legacy(&none, "ping", json!({})).await.text(),
        );
        assert_eq!(known, unknown);
    }
    let again = gw.principal("a", []).await.with("mcp-session-id", &id);
    assert_eq!(statuses(&again).await, [200, 200, 202, 200], "another key of the same principal");
    assert_eq!(statuses(&own).await, [200, 200, 202, 200]);
    assert_eq!(gw.anonymous().with("mcp-session-id", &id).get("/mcp").await.status, 401);
}

#[tokio::test]
async fn requests_that_open_a_stream_and_requests_that_do_not() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let inside = session(&caller).await;
    let reads = |actor: &Actor| actor.with("accept", "text/event-stream");
    for (actor, method, expected, allow) in [
        (reads(&caller), Method::GET, 405, "POST"),
        (reads(&inside).with("mcp-protocol-version", "2026-07-28"), Method::GET, 405, "POST"),
        (inside.with("mcp-protocol-version", "2026-07-28"), Method::DELETE, 405, "POST"),
        (inside.with("mcp-protocol-version", "1999-01-01"), Method::GET, 400, ""),
        (inside.with("accept", "application/json"), Method::GET, 406, ""),
        (inside.clone(), Method::GET, 406, ""),
        (reads(&inside).with("mcp-session-id", "two"), Method::GET, 400, ""),
        (caller.clone(), Method::DELETE, 400, ""),
        (inside.clone(), Method::PUT, 405, "GET,POST,DELETE"),
        (inside.clone(), Method::OPTIONS, 405, "GET,POST,DELETE"),
    ] {
        let reply = actor.send(method.clone(), "/mcp", None).await;
        assert_eq!((reply.status, reply.header("allow")), (expected, allow), "{method}");
        assert_eq!(reply.json()["error"]["code"].as_i64().map(|code| code < 0), Some(true));
    }
    let head = reads(&inside).send(Method::HEAD, "/mcp", None).await;
    assert_eq!((head.status, head.header("allow")), (405, "GET,POST,DELETE"));
    let open = stream(&inside).await;
    for (name, value) in [
        ("content-type", "text/event-stream"),
        ("x-accel-buffering", "no"),
        ("cache-control", "no-cache, no-transform"),
    ] {
        assert_eq!(open.headers[name], value);
    }
}

/// A client that reconnects gets the stream; its previous connection is closed.
#[tokio::test]
async fn a_session_has_one_stream() {
    let gw = gateway().start().await;
    let inside = session(&gw.principal("a", []).await).await;
    let mut old = stream(&inside).await;
    let mut new = stream(&inside).await;
    assert_eq!(old.next().await, None);
    new.silent(Duration::from_millis(50)).await;
    assert_eq!(delete(&inside).await, 204);
    assert_eq!(new.next().await, None, "it ends with the session");
}

#[tokio::test]
async fn foreign_pages_reach_neither_streams_nor_ends() {
    let gw = gateway().start().await;
    let caller = gw.principal("a", []).await;
    let inside = session(&caller).await.with("accept", "text/event-stream");
    let foreign = inside.with("origin", "https://evil.example");
    for method in [Method::GET, Method::DELETE] {
        assert_eq!(foreign.send(method, "/mcp", None).await.status, 403);
    }
    let listening = listen(&caller.with("origin", "https://evil.example"), json!({})).await;
    assert_eq!(listening.status, 403);
    assert_eq!(statuses(&inside).await[0], 200, "nothing was ended");
}

#[tokio::test]
async fn without_sessions_everybody_is_served_statelessly() {
    let gw = gateway().config("[mcp]\nsessions = false").start().await;
    let caller = gw.principal("a", []).await;
    let reply = legacy(&caller, "initialize", json!({})).await;
    assert_eq!(reply.header("mcp-session-id"), "");
    assert_eq!(
        reply.json()["result"]["capabilities"],
        json!({ "tools": {} }),
        "nothing is promised"
    );
    let stray = caller.with("mcp-session-id", "made-up").with("last-event-id", "3");
    assert_eq!(legacy(&stray, "ping", json!({})).await.status, 200);
    for method in [Method::GET, Method::DELETE, Method::PUT] {
        let reply = stray.send(method.clone(), "/mcp", None).await;
        assert_eq!((reply.status, reply.header("allow")), (405, "POST"), "{method}");
    }
}

/// Opens a session of `actor` and makes a call in it. Returns its run too.
async fn used(actor: &Actor) -> (Actor, String) {
    let inside = session(actor).await;
    let run = run_of(&inside).await;
    (inside, run)
}

/// Makes a call in the session of `inside`, and returns its run.
async fn run_of(inside: &Actor) -> String {
    let reply = legacy(inside, "tools/call", json!({ "name": "crib__bare" })).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.header("toolcrib-run-id").to_owned()
}

/// Returns the runs of the sessions that were closed without their client.
async fn closed(gw: &TestGateway) -> Vec<String> {
    let events = of_sessions(gw).await.into_iter();
    events
        .filter(|(_, event)| event["payload"]["outcome"] == "failed")
        .map(|(run, _)| run)
        .collect()
}

/// Waits until the sessions of exactly these runs were closed without their client.
async fn are_closed(gw: &TestGateway, mut runs: Vec<&str>) {
    runs.sort_unstable();
    let start = std::time::Instant::now();
    loop {
        let mut closed = closed(gw).await;
        closed.sort_unstable();
        if closed == runs {
            return;
        }
        assert!(start.elapsed() < Duration::from_secs(10), "{closed:?} and not {runs:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn an_idle_session_takes_no_room_and_goes_on() {
    let gw = gateway().manual_clock().start().await;
    let caller = gw.principal("a", []).await;
    let ((idle, run), (busy, other)) = (used(&caller).await, used(&caller).await);
    let open = stream(&busy).await;
    gw.advance(HOUR / 3).await;
    assert_eq!(legacy(&idle, "ping", json!({})).await.status, 200, "a request is a use");
    gw.advance(HOUR / 3).await;
    assert_eq!(run_of(&idle).await, run);
    gw.advance(HOUR).await;
    let next = run_of(&idle).await;
    assert_ne!(next, run, "the tool sessions of the first part are closed");
    are_closed(&gw, vec![&run]).await;
    assert_eq!(run_of(&busy).await, other);
    drop(open);
    // The server notices at its next write to that stream, or when the connection breaks.
    let start = std::time::Instant::now();
    while run_of(&busy).await == other {
        assert!(start.elapsed() < Duration::from_secs(10), "it is never closed");
        gw.advance(HOUR).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(statuses(&busy).await, [200, 200, 202, 200]);
}

#[tokio::test]
async fn a_session_in_no_memory_ends_by_its_age() {
    let text = "[mcp]\nsession_lifetime = \"3h\"";
    let gw = gateway().config(text).manual_clock().start().await;
    let caller = gw.principal("a", []).await;
    let (idle, busy) = (session(&caller).await, session(&caller).await);
    let open = stream(&busy).await;
    gw.advance(2 * HOUR).await;
    assert_eq!(legacy(&idle, "ping", json!({})).await.status, 200);
    gw.advance(2 * HOUR).await;
    assert_eq!(statuses(&idle).await, [404; 4]);
    assert_eq!(legacy(&busy, "ping", json!({})).await.status, 200, "it is in use");
    drop(open);
}

/// A call that takes longer than the idle limit of a session, without any output.
#[tokio::test]
async fn a_long_call_keeps_its_session() {
    let (started, finish) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
    let (counted, waits) = (Arc::clone(&started), Arc::clone(&finish));
    let slow = TestTool::new("slow").scopes([]).rule("timeout = \"12h\"").runs_as(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        let waits = Arc::clone(&waits);
        async move {
            waits.notified().await;
            Ok(Outcome::text("at last", false))
        }
    });
    let gw = gateway().tool(slow).manual_clock().start().await;
    let (inside, run) = used(&gw.principal("a", []).await).await;
    let caller = inside.clone();
    let call = tokio::spawn(async move {
        legacy(&caller, "tools/call", json!({ "name": "crib__slow" })).await
    });
    reaches(&started, 1).await;
    for _ in 0..6 {
        gw.advance(HOUR).await;
        // A handshake of another client triggers the search for expired sessions.
        session(&gw.principal("b", []).await).await;
    }
    finish.notify_one();
    let reply = call.await.unwrap();
    assert_eq!(message(&reply)["result"]["content"][0]["text"], "at last");
    assert_eq!(run_of(&inside).await, run, "it is the same session");
}

/// I-27
#[tokio::test]
async fn the_oldest_idle_session_makes_room() {
    let gw = gateway()
        .config("[mcp]\nmax_sessions = 3\nmax_sessions_per_principal = 2")
        .manual_clock()
        .start()
        .await;
    let (a, b) = (gw.principal("a", []).await, gw.principal("b", []).await);
    let (_other, of_b) = used(&b).await;
    let mut own = Vec::new();
    for _ in 0..3 {
        gw.advance(Duration::from_secs(1)).await;
        own.push(used(&a).await);
    }
    let [(first, run_0), (second, _), (_, run_2)] = &own[..] else { panic!() };
    are_closed(&gw, vec![run_0]).await;
    let open = stream(second).await;
    gw.advance(Duration::from_secs(1)).await;
    let fourth = session(&a).await;
    // The one with a stream is not idle.
    are_closed(&gw, vec![run_0, run_2]).await;
    let more = stream(&fourth).await;
    let reply = legacy(&a, "initialize", json!({})).await;
    assert_eq!((reply.status, reply.header("mcp-session-id")), (200, ""), "no room for another");
    assert_eq!(reply.json()["result"]["capabilities"], json!({ "tools": {} }));
    assert_eq!(statuses(first).await, [200, 200, 202, 405], "it goes on without room");
    gw.advance(Duration::from_secs(1)).await;
    session(&b).await;
    // Three in all.
    are_closed(&gw, vec![run_0, run_2, &of_b]).await;
    drop((open, more));
}

/// I-105: many principals of one tenant close sessions of their own tenant only.
#[tokio::test]
async fn a_tenant_that_opens_many_sessions_closes_none_of_another() {
    let gw = gateway()
        .config("[mcp]\nmax_sessions = 16\nmax_sessions_per_principal = 4")
        .manual_clock()
        .start()
        .await;
    let ann = gw.principal_of("a", "ann", &["*"]).await;
    let (own, run) = used(&ann).await;
    for number in 0..8 {
        gw.advance(Duration::from_secs(1)).await;
        let crowd = gw.principal_of("b", &format!("p{number}"), &["*"]).await;
        for _ in 0..4 {
            assert_eq!(legacy(&session(&crowd).await, "ping", json!({})).await.status, 200);
        }
    }
    assert_eq!(run_of(&own).await, run);
    session(&ann).await;
    session(&ann).await;
    assert_eq!(run_of(&own).await, run);
}

/// I-22: a notification cancels only a request of its own session.
#[tokio::test]
async fn a_notification_cancels_a_call_of_its_session() {
    let hanging = Hanging::default();
    let gw = gateway().tool(hanging.tool("hang")).start().await;
    let caller = gw.principal("a", []).await;
    let stranger = gw.principal("b", []).await;
    let sessions = [session(&caller).await, session(&caller).await];
    let call = |actor: &Actor| {
        let actor = actor.clone();
        tokio::spawn(
            async move { legacy(&actor, "tools/call", json!({ "name": "crib__hang" })).await },
        )
    };
    let (first, second) = (call(&sessions[0]), call(&sessions[1]));
    reaches(&hanging.started, 2).await;
    let cancel = json!({
        "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 },
    })
    .to_string();
    assert_eq!(post(&caller, &cancel).await.status, 202, "in no session it means nothing");
    assert_eq!(post(&session(&stranger).await, &cancel).await.status, 202);
    assert_eq!(post(&sessions[0], &cancel).await.status, 202);
    let reply = first.await.unwrap();
    assert_eq!(reply.text().matches("result").count(), 0, "a cancelled call gets no response");
    reaches(&hanging.dropped, 1).await;
    gw.event(|event| event["payload"]["error"]["code"] == "cancelled").await;
    assert_eq!(hanging.dropped.load(Ordering::SeqCst), 1);
    assert!(!second.is_finished());
    assert_eq!(delete(&sessions[1]).await, 204, "the end of a session ends its calls");
    // Its client did not cancel it, and would wait.
    let reply = second.await.unwrap().text();
    assert!(reply.contains("-32603") && reply.contains("the session is over"), "{reply}");
    reaches(&hanging.dropped, 2).await;
}

async fn of_sessions(gw: &TestGateway) -> Vec<(String, Value)> {
    let events = gw.events().await;
    let events = events.iter().map(|logged| serde_json::to_value(&logged.event).unwrap());
    let of_kind = |event: &Value| event["type"].as_str().unwrap().starts_with("tool.session.");
    events
        .filter(of_kind)
        .map(|event| (event["runId"].as_str().unwrap().to_owned(), event))
        .collect()
}

/// All calls of a session are in one run, with one pair of bracket events per tool.
#[tokio::test]
async fn a_session_is_one_interaction_in_the_record() {
    let gw = gateway().config("[mcp]\nsession_idle = \"500ms\"").start().await;
    let caller = gw.principal("a", []).await;
    let (ended, left) = (session(&caller).await, session(&caller).await);
    let call = async |actor: &Actor, tool: &str| {
        let reply = legacy(actor, "tools/call", json!({ "name": tool })).await;
        reply.header("toolcrib-run-id").to_owned()
    };
    let runs = [
        call(&ended, "crib__bare").await,
        call(&ended, "crib__bare").await,
        call(&ended, "crib__fail").await,
    ];
    assert!(runs.iter().all(|run| *run == runs[0]));
    assert_ne!(call(&left, "crib__bare").await, runs[0]);
    assert_ne!(call(&caller, "crib__bare").await, runs[0], "in no session");
    assert_eq!(delete(&ended).await, 204);
    let events = of_sessions(&gw).await;
    let own: Vec<&Value> =
        events.iter().filter(|(run, _)| *run == runs[0]).map(|(_, event)| event).collect();
    let types: Vec<&str> = own.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        types,
        [
            "tool.session.opened",
            "tool.session.opened",
            "tool.session.closed",
            "tool.session.closed"
        ]
    );
    assert!(own[2..].iter().all(|event| event["payload"]["outcome"] == "completed"));
    gw.event(|event| event["payload"]["outcome"] == "failed").await;
}
