use http::Method;

use crate::support::fixture;

#[tokio::test]
async fn health_requires_no_key() {
    let gw = fixture().start().await;
    for caller in
        [gw.anonymous(), gw.bearer("junk"), gw.anonymous().with("authorization", "Basic x")]
    {
        let reply = caller.get("/health").await;
        assert_eq!((reply.status, reply.text().as_str()), (200, r#"{"status":"OK"}"#));
        assert_eq!(reply.header("content-type"), "application/json");
    }
    let post = gw.anonymous().send(Method::POST, "/health", None).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"));
    assert_eq!(post.json()["$schema"], "otc://1.0");
}
