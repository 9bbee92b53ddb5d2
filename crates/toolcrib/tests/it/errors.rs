//! Errors before any handler: every response is JSON in the format of its surface.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use http::Method;
use serde_json::{Value, json};

use crate::support::fixture;

/// I-10: without a key, all paths under `/v1` respond alike.
#[tokio::test]
async fn under_v1_everything_is_401_without_a_key() {
    let gw = fixture().start().await;
    let mut seen = std::collections::HashSet::new();
    for path in [
        "/v1",
        "/v1/",
        "/v1/tools",
        "/v1/tools/mcp%3Acrib.read",
        "/v1/none",
        "/v1/runs",
        "/v1/a/b/c",
        "/v1/%FF",
        "/v1//tools",
        "/v1/openapi.json/x",
    ] {
        for method in [Method::GET, Method::POST, Method::DELETE, Method::OPTIONS, Method::PATCH] {
            for caller in [gw.anonymous(), gw.anonymous().with("authorization", "Basic x")] {
                let reply = caller.send(method.clone(), path, None).await;
                assert_eq!(reply.status, 401, "{method} {path}");
                assert_eq!(reply.header("www-authenticate"), "Bearer");
                assert_eq!(reply.header("allow"), "", "{method} {path} says what exists");
                assert_eq!(reply.json()["error"], "unauthenticated");
                seen.insert(reply.text());
            }
        }
    }
    assert_eq!(seen.len(), 2, "one text for no key, one for a bad one: {seen:?}");
    let bogus = gw.bearer("hk_definitely_not_a_real_key_12345").post("/v1/runs", json!({})).await;
    assert_eq!(bogus.status, 401);
}

/// A refusal without a key is recorded with its route but without its content.
#[tokio::test]
async fn refusals_without_a_key_are_recorded() {
    let gw = fixture().start().await;
    for (path, resource) in [
        ("/v1/tools/canary", "/v1/*"),
        ("/tools", "/tools"),
        ("/explorer/tools/canary", "/explorer/tools/*"),
        ("/metrics", "/metrics"),
    ] {
        gw.bearer("canary-key").get(path).await;
        let event = gw
            .event(|event| {
                event["type"] == "authorization.decided" && event["payload"]["resource"] == resource
            })
            .await;
        assert_eq!(event["payload"]["reason"], "unauthenticated");
        assert!(!event.to_string().contains("canary"), "{event}");
    }
}

#[tokio::test]
async fn unknown_paths_are_404_in_json() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", ["*"]).await;
    for path in [
        "/",
        "/nothing",
        "/v1/none",
        "/v1/runs/x",
        "/v1/tools/a/b",
        "/tools/",
        "/tools/none",
        "/explorer/x",
        "/%FF",
        "/schemas",
    ] {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let reply = caller.send(method.clone(), path, None).await;
            assert_eq!(reply.status, 404, "{method} {path}");
            assert_eq!(reply.header("content-type"), "application/json", "{path}");
            assert!(reply.json()["error"].is_string(), "{path}");
        }
    }
    assert_eq!(gw.anonymous().get("/nothing").await.status, 404, "an unknown path requires no key");
}

#[tokio::test]
async fn wrong_methods_are_405_in_the_words_of_the_surface() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", ["*"]).await;
    for (method, path, allow, member) in [
        (Method::POST, "/v1/tools", "GET,HEAD", "error"),
        (Method::DELETE, "/v1/tools/x", "GET,HEAD", "error"),
        (Method::OPTIONS, "/v1/events", "GET,HEAD", "error"),
        (Method::POST, "/tools", "GET,HEAD", "message"),
        (Method::GET, "/tools/call", "POST", "message"),
        (Method::PUT, "/explorer", "GET,HEAD", "error"),
        (Method::POST, "/.well-known/openwop", "GET,HEAD", "error"),
        (Method::POST, "/livez", "GET,HEAD", "error"),
        (Method::POST, "/metrics", "GET,HEAD", "error"),
    ] {
        let reply = caller.send(method.clone(), path, None).await;
        assert_eq!((reply.status, reply.header("allow")), (405, allow), "{method} {path}");
        assert!(reply.json()[member].is_string(), "{path}: {}", reply.text());
    }
}

/// I-27.
#[tokio::test]
async fn a_body_that_is_too_large_is_413() {
    let gw = fixture().config("[server]\nmax_body = \"1KiB\"").start().await;
    let caller = gw.principal("a", ["*"]).await;
    let large = format!("{{\"request\":{{\"tool_id\":\"{}\"}}}}", "x".repeat(100_000));
    for (method, path, member) in [
        (Method::POST, "/tools/call", "message"),
        (Method::GET, "/tools", "message"),
        (Method::POST, "/explorer/tools/crib__open/call", "error"),
        (Method::POST, "/explorer/tools/crib__open/validate", "error"),
    ] {
        let reply = caller.send(method, path, Some(large.clone().into())).await;
        assert_eq!(reply.status, 413, "{path}");
        assert_eq!(reply.json()[member], "the request body is larger than 1024 bytes", "{path}");
    }
    // The same for a body of undeclared length.
    let key = caller.key().unwrap();
    let chunk = "x".repeat(4_000);
    let chunked = format!(
        "POST /tools/call HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n\
         transfer-encoding: chunked\r\nconnection: close\r\n\r\nfa0\r\n{chunk}\r\n0\r\n\r\n"
    );
    let answer = gw.raw(chunked).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    assert_eq!(gw.runs("crib", "open"), 0);
}

#[tokio::test]
async fn deep_and_doubtful_json_is_refused() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", []).await;
    let deep = format!("{{\"request\":{}{}}}", "[".repeat(50_000), "]".repeat(50_000));
    assert_eq!(caller.post_text("/tools/call", deep).await.status, 400);
    let deep = "[".repeat(100_000);
    assert_eq!(caller.post_text("/explorer/tools/crib__open/validate", deep).await.status, 400);
    let call =
        |n: &str| format!("{{\"request\":{{\"tool_id\":\"crib.open\",\"input\":{{\"n\":{n}}}}}}}");
    for number in ["1e9999", &"9".repeat(513)] {
        assert_eq!(caller.post_text("/tools/call", call(number)).await.status, 400);
    }
    assert_eq!(gw.runs("crib", "open"), 0);
    for number in ["123456789012345678901", "9007199254740993"] {
        assert_eq!(caller.post_text("/tools/call", call(number)).await.status, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_any_host_only_where_they_require_a_key() {
    for (public, foreign) in [(false, "200"), (true, "403")] {
        let gw = fixture().config(&format!("[server]\npublic_metrics = {public}")).start().await;
        let key = gw.principal("a", ["*"]).await.key().unwrap().to_owned();
        let own = gw.url.trim_start_matches("http://").to_owned();
        for (host, origin, key, expected) in [
            ("10.2.3.4:8808", "", key.as_str(), foreign),
            ("evil.example", "", "tc_wrong", if public { "403" } else { "401" }),
            (own.as_str(), "origin: http://evil.example\r\n", key.as_str(), "403"),
            ("10.2.3.4:8808", "origin: http://evil.example\r\n", key.as_str(), "403"),
        ] {
            let answer = gw
                .raw(format!(
                    "GET /metrics HTTP/1.1\r\nhost: {host}\r\n{origin}authorization: Bearer {key}\r\n\
                     connection: close\r\n\r\n"
                ))
                .await;
            let status = answer.split(' ').nth(1).unwrap_or_default();
            assert_eq!(status, expected, "public: {public}, {host} {origin}: {answer}");
        }
    }
}

#[tokio::test]
async fn foreign_hosts_and_origins_are_refused_on_every_mount() {
    let gw = fixture().start().await;
    let key = gw.principal("a", ["*"]).await.key().unwrap().to_owned();
    let own = gw.url.trim_start_matches("http://").to_owned();
    let ask = |path: &str, headers: &str| {
        let text = format!(
            "GET {path} HTTP/1.1\r\n{headers}authorization: Bearer {key}\r\nconnection: close\r\n\r\n"
        );
        let gw = &gw;
        async move { gw.raw(text).await }
    };
    for path in [
        "/v1/tools",
        "/.well-known/openwop",
        "/v1/openapi.json",
        "/tools",
        "/health",
        "/explorer",
        "/explorer/tools",
        "/mcp",
        "/nothing",
    ] {
        for headers in [
            "host: evil.example\r\n".to_owned(),
            "host: evil.example:8808\r\n".to_owned(),
            String::new(),
            format!("host: {own}\r\norigin: http://evil.example\r\n"),
            format!("host: {own}\r\norigin: null\r\n"),
        ] {
            let answer = ask(path, &headers).await;
            // A request without Host is invalid HTTP/1.1, which hyper may reject itself.
            let status = answer.split(' ').nth(1).unwrap_or_default().to_owned();
            assert!(
                status == "403" || (headers.is_empty() && status == "400"),
                "{path} {headers}: {answer}"
            );
            let body = answer.split("\r\n\r\n").nth(1).unwrap_or_default();
            assert!(
                status == "400" || serde_json::from_str::<Value>(body).is_ok(),
                "{path}: {answer}"
            );
        }
        let answer = ask(path, &format!("host: {own}\r\norigin: http://{own}\r\n")).await;
        assert!(!answer.starts_with("HTTP/1.1 403"), "{path}: {answer}");
    }
}

#[tokio::test]
async fn the_operator_can_allow_hosts_and_origins() {
    let config =
        "[server]\nallowed_hosts = [\"crib.example\"]\nallowed_origins = [\"https://app.example\"]";
    let gw = fixture().config(config).start().await;
    let ok = "GET /health HTTP/1.1\r\nhost: crib.example\r\norigin: https://app.example\r\nconnection: close\r\n\r\n";
    let answer = gw.raw(ok).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test]
async fn every_answer_has_an_id_and_safe_headers() {
    let gw = fixture().start().await;
    let caller = gw.anonymous();
    for path in ["/health", "/v1/tools", "/nothing", "/explorer", "/livez"] {
        let reply = caller.with("x-request-id", "mine-1").get(path).await;
        assert_eq!(reply.header("x-request-id"), "mine-1", "{path}");
        assert_eq!(reply.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(reply.header("referrer-policy"), "no-referrer", "{path}");
        assert_ne!(reply.header("cache-control"), "", "{path}");
        let given = caller.with("x-request-id", "a\"<b>").get(path).await;
        assert!(given.header("x-request-id").len() > 10, "{path}");
        assert_ne!(given.header("x-request-id"), caller.get(path).await.header("x-request-id"));
    }
}

#[tokio::test]
async fn head_answers_without_a_body_also_when_refused() {
    let gw = fixture().start().await;
    for (path, status) in
        [("/v1/tools", 401), ("/nothing", 404), ("/health", 200), ("/explorer", 200)]
    {
        let reply = gw.anonymous().send(Method::HEAD, path, None).await;
        assert_eq!((reply.status, reply.body.len()), (status, 0), "{path}");
    }
}

/// HTTP/2 has the authority in the request target, HTTP/1 in `Host`.
#[tokio::test]
async fn http2_is_served_too() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", []).await;
    let reply = caller.http2().get("/v1/tools").await;
    assert_eq!((reply.status, reply.body), (200, caller.get("/v1/tools").await.body));
}

/// I-27: the description of invalid arguments is bounded and marked as cut, on every surface.
#[tokio::test]
async fn long_lists_and_names_are_cut_and_marked_as_cut() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let long = "x".repeat(10_000);
    let mut arguments: serde_json::Map<String, serde_json::Value> =
        (0..500).map(|n| (n.to_string(), json!(n))).collect();
    arguments.shift_insert(0, long.clone(), json!(1));
    let ask = json!({ "request": { "tool_id": "crib.read", "input": arguments } });
    let otc = reader.post("/tools/call", ask).await;
    let called = reader.post("/explorer/tools/crib__read/call", json!(arguments)).await;
    let checked = reader.post("/explorer/tools/crib__read/validate", json!(arguments)).await;
    assert_eq!((otc.status, called.status, checked.status), (422, 500, 200));
    for reply in [otc, called, checked] {
        let text = reply.text();
        assert!(text.contains("there are more than these 100 violations"), "{text}");
        assert!(text.contains(&"x".repeat(255)) && text.contains('…'), "{text}");
        assert!(!text.contains(&"x".repeat(1_000)), "{text}");
    }
}

/// Clients send head and body apart, and go on in the same connection after a refusal.
#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_before_the_body_keeps_the_connection() {
    let gw = fixture().start().await;
    let host = gw.url.strip_prefix("http://").unwrap();
    let mut first = TcpStream::connect(host).unwrap();
    first.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    let mut stream = first.try_clone().unwrap();
    let mut status = |request: &str| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        // The rest of the answer arrives with its head.
        std::thread::sleep(Duration::from_millis(100));
        let mut rest = [0; 4096];
        let length = stream.read(&mut rest).unwrap();
        assert!(length < rest.len());
        String::from_utf8_lossy(&head).into_owned()
    };
    let head = format!("POST /mcp HTTP/1.1\r\nhost: {host}\r\ncontent-length: 2\r\n\r\n");
    first.write_all(head.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(status("{}"), "HTTP/1.1 401");
    assert_eq!(status(&format!("GET /livez HTTP/1.1\r\nhost: {host}\r\n\r\n")), "HTTP/1.1 200");
}
