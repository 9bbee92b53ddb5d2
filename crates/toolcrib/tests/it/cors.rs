//! Pages of other origins: listed origins may read responses, others may not.

use http::Method;

use crate::support::fixture;

const LISTED: &str = "https://app.example";

#[tokio::test]
async fn a_listed_page_may_send_a_preflight_and_read_responses() {
    let gw =
        fixture().config("[server]\nallowed_origins = [\"https://app.example\"]").start().await;
    let page = gw.anonymous().with("origin", LISTED);
    let asking = page.with("access-control-request-method", "POST");
    for path in ["/v1/tools", "/mcp", "/tools/call", "/nowhere"] {
        let preflight = asking.send(Method::OPTIONS, path, None).await;
        assert_eq!((preflight.status, preflight.body.len()), (204, 0), "{path}");
        assert_eq!(preflight.header("access-control-allow-origin"), LISTED);
        assert!(preflight.header("access-control-allow-headers").contains("Authorization"));
        assert!(preflight.header("access-control-allow-methods").contains("POST"));
        assert!(preflight.header("access-control-allow-credentials").is_empty());
    }
    let caller = gw.principal("new", []).await.with("origin", LISTED);
    let list = caller.get("/v1/tools").await;
    assert_eq!(list.status, 200);
    assert_eq!(list.header("access-control-allow-origin"), LISTED);
    assert!(list.header("access-control-expose-headers").contains("ETag"));
    assert!(list.headers.get_all("vary").iter().any(|vary| vary == "Origin"));
    // An error response must be readable, too.
    let refused = page.get("/v1/tools").await;
    assert_eq!(refused.status, 401);
    assert_eq!(refused.header("access-control-allow-origin"), LISTED);
}

#[tokio::test]
async fn other_pages_get_nothing() {
    for config in ["", "[server]\nallowed_origins = [\"https://app.example\"]"] {
        let gw = fixture().config(config).start().await;
        let page = gw.anonymous().with("origin", "https://evil.example");
        let asking = page.with("access-control-request-method", "POST");
        let preflight = asking.send(Method::OPTIONS, "/v1/tools", None).await;
        assert_eq!(preflight.status, 403);
        assert!(preflight.header("access-control-allow-origin").is_empty());
        let caller = gw.principal("new", []).await;
        let read = caller.with("origin", "https://evil.example").get("/v1/tools").await;
        assert_eq!(read.status, 403);
        assert!(read.header("access-control-allow-origin").is_empty());
        // Without an Origin header, there is no CORS header.
        assert!(caller.get("/v1/tools").await.header("access-control-allow-origin").is_empty());
    }
}

/// Only a real preflight is answered without a key.
#[tokio::test]
async fn an_ordinary_options_request_is_none() {
    let gw =
        fixture().config("[server]\nallowed_origins = [\"https://app.example\"]").start().await;
    let page = gw.anonymous().with("origin", LISTED);
    assert_eq!(page.send(Method::OPTIONS, "/v1/tools", None).await.status, 401);
    let caller = gw.principal("new", []).await;
    let reply = caller.send(Method::OPTIONS, "/v1/tools", None).await;
    assert_eq!(reply.status, 405);
    assert_eq!(reply.header("allow"), "GET,HEAD");
}
