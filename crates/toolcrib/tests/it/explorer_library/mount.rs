use axum::{Router, routing::get};
use serde_json::json;
use toolcrib_testkit::gateway::TestServer;

use super::{config, f, fixture_f};
use crate::support::{column, page_script};

/// 43, 44, 45.
#[tokio::test]
async fn the_prefix_is_the_given_one() {
    for prefix in ["/explorer", "/ui", "/a/b", "ui", "/ui/"] {
        let router = toolcrib::explorer(prefix, fixture_f(), config().allow_execute(true));
        let served = TestServer::start(router).await;
        let at = format!("/{}", prefix.trim_matches('/'));
        let caller = served.anonymous();
        for path in [at.clone(), format!("{at}/")] {
            let page = caller.get(&path).await;
            assert_eq!(page.status, 200, "{path}");
            let text = page.text();
            let script = page_script(&text);
            assert!(script.starts_with(&format!("{at}/assets/")), "{path}: {script}");
            assert_eq!(caller.get(script).await.status, 200, "{script}");
        }
        let list = caller.get(&format!("{at}/tools")).await.json();
        assert_eq!(column(&list, "name"), ["echo", "boom"]);
        let reply = caller.post(&format!("{at}/tools/echo/call"), json!({ "msg": "hi" })).await;
        assert_eq!((reply.status, &reply.json()["content"][0]["text"]), (200, &json!("echo: hi")));
    }
}

/// Extra: at the root.
#[tokio::test]
async fn an_explorer_can_be_the_root() {
    let served = TestServer::start(toolcrib::explorer("/", fixture_f(), config())).await;
    let caller = served.anonymous();
    let page = caller.get("/").await.text();
    assert!(page_script(&page).starts_with("/assets/"), "{page}");
    assert_eq!(caller.get("/tools/echo").await.json()["name"], "echo");
    assert_eq!(caller.get("/none").await.status, 404);
}

/// Extra: inside the embedding program's router, merged or nested, without affecting its own
/// routes.
#[tokio::test]
async fn an_explorer_is_one_part_of_a_program() {
    let own = Router::new()
        .route("/", get(|| async { "home" }))
        .route("/explorer-less", get(|| async { "mine" }))
        .fallback(|| async { (http::StatusCode::NOT_FOUND, "not here") });
    let other = toolcrib::explorer("/other", fixture_f(), config().title("Other"));
    let program = own.merge(f(config())).merge(other).nest("/deep", f(config()));
    let served = TestServer::start(program).await;
    let caller = served.anonymous();
    assert_eq!(caller.get("/").await.text(), "home");
    assert_eq!(caller.get("/explorer-less").await.text(), "mine");
    assert_eq!(caller.get("/none").await.text(), "not here");
    assert!(caller.get("/other").await.text().contains("<title>Other</title>"));
    assert_eq!(caller.get("/explorer/tools").await.status, 200);
    for path in ["/deep/explorer", "/deep/explorer/"] {
        let page = caller.get(path).await.text();
        assert!(page.contains("data-base=\"/deep/explorer/\""), "{path}: {page}");
        let script = page_script(&page);
        assert!(script.starts_with("/deep/explorer/assets/"), "{script}");
        assert_eq!(caller.get(script).await.status, 200, "{script}");
    }
    assert_eq!(caller.get("/deep/explorer/tools/echo").await.json()["name"], "echo");
}

/// Extra: pages of other origins, and unlisted host names, are rejected.
#[tokio::test]
async fn foreign_pages_are_refused() {
    let served = TestServer::start(f(config().allow_execute(true))).await;
    let path = "/explorer/tools/echo/call";
    let own = served.anonymous().with("origin", &served.url).post(path, json!({})).await;
    assert_eq!(own.status, 200);
    let foreign = served.anonymous().with("origin", "https://evil.example");
    let foreign = foreign.post_text(path, "{}").await;
    assert_eq!(foreign.status, 403);
    assert!(foreign.json()["error"].is_string());

    let config = config().allow_execute(true);
    let listed = config.allowed_hosts(["crib.example"]).allowed_origins(["https://app.example"]);
    let served = TestServer::start(f(listed)).await;
    let named = |host| served.anonymous().with("host", host);
    assert_eq!(named("crib.example").get("/explorer/tools").await.status, 200);
    assert_eq!(named("evil.example").get("/explorer/tools").await.status, 403);
    let app = served.anonymous().with("origin", "https://app.example").post(path, json!({})).await;
    assert_eq!(app.status, 200);
}
