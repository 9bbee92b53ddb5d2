//! The endpoints at which an access token is valid.

use serde_json::json;
use toolcrib_testkit::gateway::TestProvider;

use super::{Browser, error, exchange_for, gateway, list_at, query, refresh, registered, tokens};

/// The name of one toolset begins with that of the other.
const TOOLSETS: &str = "[toolset.files]\nallow = [\"*\"]\n[toolset.files-2]\nallow = [\"*\"]";
const PATHS: [&str; 3] = ["/mcp", "/mcp/files", "/mcp/files-2"];

/// A token for a toolset is for no other one, and not for all tools. Its renewal changes nothing.
#[tokio::test]
async fn a_token_is_for_the_endpoint_that_its_client_requested() {
    let provider = TestProvider::start().await;
    let gw = gateway(&provider, TOOLSETS).await;
    let client = registered(&gw).await;
    let resource = |path: &str| format!("{}{path}", TestProvider::PUBLIC);
    for (path, reached) in
        [("/mcp", &PATHS[..]), ("/mcp/files", &PATHS[1..2]), ("/mcp/files-2", &PATHS[2..])]
    {
        let own = resource(path);
        let back = Browser::new(&gw).sign_in(&query(&client, &[("resource", &own)])).await;
        for other in PATHS.into_iter().filter(|other| *other != path) {
            let reply = exchange_for(&gw, &client, &back["code"], &resource(other)).await;
            assert_eq!(error(&reply), "invalid_target", "{path} as {other}");
        }
        let (access, token) = tokens(&exchange_for(&gw, &client, &back["code"], &own).await);
        let (renewed, _) = tokens(&refresh(&gw, &client, &token).await);
        for access in [&access, &renewed] {
            for at in PATHS {
                let listed = list_at(&gw, access, at).await;
                let status = if reached.contains(&at) { 200 } else { 401 };
                assert_eq!(listed.status, status, "{path} at {at}");
                assert_eq!(listed.text().contains("crib__read"), status == 200, "{path} at {at}");
            }
            let who = gw.bearer(access).get("/v1/whoami").await;
            assert_eq!((who.status, &who.json()["clientId"]), (200, &json!(client)));
            assert_eq!(gw.bearer(access).get("/v1/tools").await.status, 401, "{path}");
        }
    }
}
