//! OAuth: the protected-resource metadata (RFC 9728), and the challenges in error responses.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, Reply};

use crate::support::fixture;

const CONFIG: &str = "[auth.resource]\nresource = \"https://tools.example.com/mcp\"\n\
                      authorization_servers = [\"https://id.example.com\"]";
const METADATA: &str =
    "resource_metadata=\"https://tools.example.com/.well-known/oauth-protected-resource/mcp\"";
const PATHS: [&str; 2] =
    ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"];

fn expected() -> Value {
    json!({
        "resource": "https://tools.example.com/mcp",
        "authorization_servers": ["https://id.example.com"],
        "bearer_methods_supported": ["header"],
        "resource_name": "toolcrib",
    })
}

#[tokio::test]
async fn the_document_is_public_and_says_nothing_of_tools() {
    let gw = fixture().config(CONFIG).start().await;
    for path in PATHS {
        let reply = gw.anonymous().get(path).await;
        assert_eq!((reply.status, reply.json()), (200, expected()), "{path}");
        assert_eq!(reply.header("cache-control"), "public, max-age=300");
        let again = gw.anonymous().with("if-none-match", reply.header("etag")).get(path).await;
        assert_eq!(again.status, 304);
        let reply = gw.anonymous().send(Method::POST, path, None).await;
        assert_eq!((reply.status, reply.header("allow")), (405, "GET,HEAD"));
    }
    for path in ["/.well-known/oauth-protected-resource/other", "/.well-known/other"] {
        assert_eq!(gw.anonymous().get(path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_resource_behind_a_prefix_is_found_where_clients_look() {
    let config = CONFIG.replace("/mcp", "/crib/mcp") + "\nscopes = [\"tools\"]";
    let gw = fixture().config(&config).start().await;
    for path in [PATHS[0], PATHS[1], "/.well-known/oauth-protected-resource/crib/mcp"] {
        let document = gw.anonymous().get(path).await.json();
        assert_eq!(document["resource"], "https://tools.example.com/crib/mcp", "{path}");
        assert_eq!(document["scopes_supported"], json!(["tools"]));
    }
    let refused = gw.anonymous().get("/v1/tools").await;
    let at = "/.well-known/oauth-protected-resource/crib/mcp\"";
    assert!(refused.header("www-authenticate").ends_with(at));
}

#[tokio::test]
async fn without_the_setting_there_is_no_document() {
    let gw = fixture().start().await;
    for path in PATHS {
        assert_eq!(gw.anonymous().get(path).await.status, 404);
    }
}

/// Every surface, with a wrong key and without one.
#[tokio::test]
async fn every_401_says_where_to_get_credentials() {
    let gw = fixture().config(CONFIG).start().await;
    let wrong = format!("Bearer error=\"invalid_token\", {METADATA}");
    for (actor, challenge) in [
        (gw.anonymous(), format!("Bearer {METADATA}")),
        (gw.bearer("tc_wrong"), wrong.clone()),
        (gw.anonymous().with("authorization", "Basic eDp5"), wrong),
    ] {
        for (method, path) in [
            (Method::GET, "/v1/tools"),
            (Method::GET, "/v1/nothing"),
            (Method::GET, "/tools"),
            (Method::POST, "/tools/call"),
            (Method::GET, "/explorer/tools"),
            (Method::POST, "/mcp"),
            (Method::GET, "/mcp"),
            (Method::DELETE, "/mcp"),
            (Method::GET, "/metrics"),
        ] {
            let reply = actor.send(method.clone(), path, None).await;
            assert_eq!(reply.status, 401, "{method} {path}");
            assert_eq!(reply.header("www-authenticate"), challenge, "{method} {path}");
        }
    }
}

/// Each toolset is a resource of its own: clients compare its address with that of the document.
#[tokio::test]
async fn a_toolset_has_a_document_and_challenges_of_its_own() {
    let config = CONFIG.replace("/mcp", "/crib/mcp")
        + "\nscopes = [\"tools\", \"files:read\"]\n[toolset.files]\nallow = [\"crib__*\"]";
    let gw = fixture().config(&config).start().await;
    let metadata = "https://tools.example.com/.well-known/oauth-protected-resource/crib/mcp";
    // A toolset that does not exist answers alike.
    for name in ["files", "none"] {
        for prefix in ["", "/crib"] {
            let path = format!("{}{prefix}/mcp/{name}", PATHS[0]);
            let document = gw.anonymous().get(&path).await.json();
            let resource = format!("https://tools.example.com/crib/mcp/{name}");
            assert_eq!(document["resource"], resource, "{path}");
            assert_eq!(document["authorization_servers"], json!(["https://id.example.com"]));
            assert_eq!(document["scopes_supported"], json!(["tools", "files:read"]));
        }
        for path in [format!("/mcp/{name}"), format!("/mcp/{name}/")] {
            let refused = gw.anonymous().post(&path, json!({})).await;
            let scopes = "scope=\"tools files:read\"";
            let expected = format!("Bearer {scopes}, resource_metadata=\"{metadata}/{name}\"");
            assert_eq!((refused.status, refused.header("www-authenticate")), (401, &*expected));
        }
    }
    let refused = gw.anonymous().post("/mcp", json!({})).await;
    let expected = format!("Bearer scope=\"tools files:read\", resource_metadata=\"{metadata}\"");
    assert_eq!(refused.header("www-authenticate"), expected);
    for path in ["/mcp/%22", "/mcp/Files", "/mcp/a/b"] {
        assert_eq!(gw.anonymous().get(&format!("{}{path}", PATHS[0])).await.status, 404, "{path}");
        let refused = gw.anonymous().get(path).await;
        assert_eq!(refused.header("www-authenticate"), expected, "{path}");
    }
    let caller = gw.principal("a", ["files:read"]).await;
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": "crib__write" },
    });
    let forbidden = caller.post("/mcp/files", message).await;
    assert_eq!(forbidden.status, 403);
    let expected = format!(
        "Bearer error=\"insufficient_scope\", scope=\"files:write\", \
         resource_metadata=\"{metadata}/files\""
    );
    assert_eq!(forbidden.header("www-authenticate"), expected);
}

async fn call(actor: &Actor, tool: &str) -> Reply {
    let message = json!({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": { "name": tool },
    });
    actor.post("/mcp", message).await
}

/// I-9: a challenge names scopes only where the body names them.
#[tokio::test]
async fn a_missing_scope_is_a_challenge_only_where_the_tool_may_be_known() {
    let gw = fixture().config(CONFIG).start().await;
    let caller = gw.principal("a", ["files:read"]).await;
    let forbidden = call(&caller, "crib__write").await;
    assert_eq!(forbidden.status, 403);
    assert_eq!(
        forbidden.header("www-authenticate"),
        format!("Bearer error=\"insufficient_scope\", scope=\"files:write\", {METADATA}")
    );
    let (_, body) = forbidden.parts();
    assert_eq!((&body["id"], &body["error"]["code"]), (&json!(1), &json!(-31403)));
    assert_eq!(body["error"]["data"]["requiredScopes"], json!(["files:write"]));

    for tool in ["crib__none", "other__secret"] {
        let unknown = call(&caller, tool).await;
        assert_eq!((unknown.status, unknown.header("www-authenticate")), (200, ""), "{tool}");
    }
    for path in ["/v1/tools/mcp%3Acrib.write", "/explorer/tools/crib__write", "/nothing"] {
        let hidden = caller.get(path).await;
        assert_eq!((hidden.status, hidden.header("www-authenticate")), (404, ""), "{path}");
    }
    let quiet =
        fixture().config(&format!("{CONFIG}\n[gate]\ndenied_calls = \"not_found\"")).start().await;
    let caller = quiet.principal("a", ["files:read"]).await;
    let (hidden, none) = (call(&caller, "crib__write").await, call(&caller, "crib__none").await);
    assert_eq!((hidden.status, hidden.text()), (none.status, none.text()));
    assert_eq!(hidden.header("www-authenticate"), "");
}

/// Without the metadata, a missing scope is named only in the message.
#[tokio::test]
async fn without_the_setting_a_missing_scope_is_no_http_error() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", ["files:read"]).await;
    let forbidden = call(&caller, "crib__write").await;
    assert_eq!((forbidden.status, forbidden.header("www-authenticate")), (200, ""));
    assert_eq!(forbidden.json()["error"]["code"], -31403);
}
