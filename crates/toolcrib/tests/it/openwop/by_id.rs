use toolcrib_testkit::gateway::{TestGateway, TestTool};

use crate::support::fixture;

#[tokio::test]
async fn a_tool_is_found_by_its_encoded_id() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let list = reader.get("/v1/tools").await.json();
    for path in
        ["/v1/tools/mcp%3Acrib.read", "/v1/tools/mcp:crib.read", "/v1/tools/mcp%3acrib%2eread"]
    {
        let reply = reader.get(path).await;
        assert_eq!(reply.parts(), (200, list[5].clone()), "{path}");
        assert_eq!(reply.header("cache-control"), "private, no-cache");
        let again = reader.with("if-none-match", reply.header("etag")).get(path).await;
        assert_eq!(again.status, 304);
    }
}

/// An encoded slash is part of the id; it is decoded once and never splits the path.
#[tokio::test]
async fn ids_are_decoded_once() {
    let gw = TestGateway::builder().tool(TestTool::new("read")).start().await;
    let caller = gw.principal("a", ["*"]).await;
    assert_eq!(caller.get("/v1/tools/mcp%3Acrib.read").await.status, 200);
    for path in [
        "/v1/tools/mcp%253Acrib.read",
        "/v1/tools/mcp%3Acrib.read%2F",
        "/v1/tools/mcp%3Acrib.read/",
        "/v1/tools/a%2Fb",
        "/v1/tools/",
        "/v1/tools/%FF",
        "/v1/tools/mcp:crib.READ",
    ] {
        let reply = caller.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        assert_eq!(reply.json()["error"], "not_found", "{path}");
    }
}
