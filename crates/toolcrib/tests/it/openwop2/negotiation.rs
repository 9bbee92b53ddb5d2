//! The choice between the dialects of a path, and the version of every answer.

use http::Method;
use serde_json::json;
use toolcrib_testkit::gateway::{Actor, Reply, TestGatewayBuilder};

use super::schemas;
use crate::support::{column, fixture};

const VARY: &str = "OpenWOP-Version, Authorization, Accept, Accept-Encoding";

fn with(mode: &str) -> TestGatewayBuilder {
    fixture().config(&format!("[openwop]\nv2 = \"{mode}\""))
}

fn code(reply: &Reply) -> String {
    reply.json()["error"].as_str().unwrap_or_default().to_owned()
}

fn version(reply: &Reply) -> &str {
    reply.header("openwop-version")
}

#[tokio::test]
async fn the_header_selects_the_form_of_the_list() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let v2 = caller.with("openwop-version", "2.0");
    let second = v2.get("/tools").await;
    assert_eq!((second.status, version(&second)), (200, "2.0"));
    assert_eq!(column(&second.json(), "toolId"), ["mcp:crib.open"]);
    let first = caller.get("/tools").await;
    assert_eq!((first.status, version(&first)), (200, ""));
    assert_eq!(first.json()["$schema"], "otc://1.0");
    for reply in [&first, &second] {
        assert_eq!(reply.header("vary"), VARY);
        assert_eq!(reply.header("cache-control"), "private, no-cache");
    }
    // Neither `Accept` nor the client's version selects anything.
    for (name, value) in [
        ("accept", "text/html"),
        ("user-agent", "openwop-python/2.7.0"),
        ("openwop-client-version", "2.46.32"),
        ("openwop-client-version", "junk"),
    ] {
        assert_eq!(v2.with(name, value).get("/tools").await.body, second.body, "{name}");
        assert_eq!(caller.with(name, value).get("/tools").await.body, first.body, "{name}");
    }
    for text in ["2", "2.0", "2.7"] {
        let reply = caller.with("openwop-version", text).get("/tools").await;
        assert_eq!((reply.body, reply.status), (second.body.clone(), 200), "{text}");
    }
}

/// The version is judged before credentials, on every path.
#[tokio::test]
async fn other_versions_are_refused_with_and_without_a_key() {
    let gw = fixture().start().await;
    let key = gw.principal("new", []).await;
    for caller in [gw.anonymous(), gw.bearer("tc_junk"), key] {
        for path in ["/tools", "/tools/mcp:crib.open", "/runs", "/runs/x/events"] {
            for text in ["3.0", "0.1", "99"] {
                let reply = caller.with("openwop-version", text).get(path).await;
                assert_eq!((reply.status, version(&reply)), (406, "2.0"), "{path} {text}");
                let details = json!({ "protocolVersions": ["1.0", "2.0"] });
                assert_eq!(reply.json()["details"], details);
                assert_eq!(code(&reply), "protocol_version_unsupported");
            }
            for text in ["", "two", "2.0.0"] {
                let reply = caller.with("openwop-version", text).get(path).await;
                assert_eq!((reply.status, code(&reply)), (400, "validation_error".to_owned()));
                assert_eq!(version(&reply), "2.0", "{path} {text}");
            }
            let twice = caller.with("openwop-version", "2.0").with("openwop-version", "2.0");
            assert_eq!(twice.get(path).await.status, 400, "{path}, twice");
            let first = caller.with("openwop-version", "1.0").get(path).await;
            assert_eq!((first.status, code(&first)), (404, "not_found".to_owned()), "{path}");
            assert_eq!(version(&first), "1.0");
        }
        for text in ["2.0", "3.0"] {
            let reply = caller.with("openwop-version", text).get("/v1/tools").await;
            assert_eq!((reply.status, version(&reply)), (400, "1.0"), "{text}");
            assert_eq!(code(&reply), "protocol_version_mismatch");
        }
        let reply = caller.with("openwop-version", "1.0").get("/v1/tools").await;
        assert_eq!((reply.status == 400, version(&reply)), (false, "1.0"));
    }
}

#[tokio::test]
async fn refusals_have_the_envelope_and_the_version() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await.with("openwop-version", "2.0");
    let stranger = gw.anonymous().with("openwop-version", "2.0");
    for path in ["/tools", "/tools/x", "/runs", "/runs/x", "/runs/x/events"] {
        let refused = stranger.get(path).await;
        assert_eq!((refused.status, version(&refused)), (401, "2.0"), "{path}");
        assert_eq!((code(&refused), refused.header("vary")), ("unauthenticated".to_owned(), VARY));
        assert_eq!(refused.header("www-authenticate"), "Bearer");
    }
    // No code is registered for 405, so a wrong method is like a wrong path.
    for (method, path) in [
        (Method::POST, "/tools"),
        (Method::DELETE, "/tools/x"),
        (Method::PUT, "/runs"),
        (Method::GET, "/runs/x/cancel"),
        (Method::GET, "/tools/"),
        (Method::GET, "/runs/a/b/c"),
    ] {
        let refused = caller.send(method.clone(), path, None).await;
        assert_eq!((refused.status, version(&refused)), (404, "2.0"), "{method} {path}");
        assert_eq!((code(&refused), refused.header("allow")), ("not_found".to_owned(), ""));
    }
}

#[tokio::test]
async fn open_tool_calling_keeps_its_paths() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await;
    let v2 = caller.with("openwop-version", "2.0");
    let call = json!({ "request": { "tool_id": "crib.read", "input": { "path": "x" } } });
    for caller in [&caller, &v2] {
        let called = caller.post("/tools/call", call.clone()).await;
        assert_eq!((called.status, version(&called)), (200, ""));
        assert_eq!(called.json()["result"]["success"], true);
        assert_eq!(caller.get("/health").await.json(), json!({ "status": "OK" }));
        assert_eq!(caller.get("/oxp/tools").await.json()["$schema"], "urn:oxp:1.0");
    }
    // The id of a tool could be `call`.
    assert_eq!(caller.get("/tools/call").await.status, 405);
    assert_eq!(v2.get("/tools/call").await.status, 404);
    // A single tool has no other form.
    let single = caller.get("/tools/mcp%3Acrib.read").await;
    assert_eq!((single.status, version(&single)), (200, "2.0"));
    // Only Open Tool Calling reads a body.
    let body = || Some("{\"$schema\":\"otc://9.9\"}".into());
    assert_eq!(caller.send(Method::GET, "/tools", body()).await.status, 400);
    assert_eq!(v2.send(Method::GET, "/tools", body()).await.status, 200);
}

/// The mount of its own exists in every mode.
#[tokio::test]
async fn open_tool_calling_has_a_mount_of_its_own() {
    for mode in ["header", "root", "off"] {
        let gw = with(mode).start().await;
        let caller = gw.principal("reader", ["files:read"]).await;
        let list = caller.get("/otc/tools").await;
        assert_eq!((list.status, version(&list)), (200, ""), "{mode}");
        assert_eq!(list.json()["$schema"], "otc://1.0");
        let call = json!({ "request": { "tool_id": "crib.read", "input": { "path": "x" } } });
        let called = caller.post("/otc/tools/call", call).await;
        assert_eq!(called.json()["result"]["success"], true, "{mode}");
        assert_eq!(gw.anonymous().get("/otc/health").await.status, 200, "{mode}");
        assert_eq!(gw.anonymous().get("/otc/tools").await.status, 401, "{mode}");
    }
}

#[tokio::test]
async fn with_root_every_request_is_v2() {
    let gw = with("root").start().await;
    let caller = gw.principal("new", []).await;
    for caller in [&caller, &caller.with("openwop-version", "2.0")] {
        let list = caller.get("/tools").await;
        assert_eq!((list.status, version(&list)), (200, "2.0"));
        assert_eq!(column(&list.json(), "toolId"), ["mcp:crib.open"]);
        let called = caller.post("/tools/call", json!({})).await;
        assert_eq!((called.status, version(&called)), (404, "2.0"));
        assert_eq!(caller.get("/health").await.status, 404);
    }
    let wrong = caller.with("openwop-version", "3").get("/tools").await;
    assert_eq!(wrong.status, 406);
}

#[tokio::test]
async fn switched_off_it_refuses_its_version() {
    let gw = with("off").start().await;
    let caller = gw.principal("new", []).await;
    for caller in [&caller, &gw.anonymous()] {
        for path in ["/tools", "/tools/x", "/.well-known/openwop", "/runs", "/openapi.json"] {
            let refused = caller.with("openwop-version", "2.0").get(path).await;
            assert_eq!((refused.status, version(&refused)), (406, "1.0"), "{path}");
            assert_eq!(refused.json()["details"], json!({ "protocolVersions": ["1.0"] }));
        }
    }
    for named in [caller.clone(), caller.with("openwop-version", "1.0")] {
        assert_eq!(named.get("/tools").await.json()["$schema"], "otc://1.0");
        assert_eq!(named.get("/runs").await.status, 404);
        let document = named.get("/.well-known/openwop").await;
        assert_eq!(document.json()["protocolVersions"], json!(["1.0"]));
        assert_eq!(version(&document), "");
    }
}

/// A path that no route has is answered in the version that the request names.
#[tokio::test]
async fn unknown_paths_answer_in_the_named_version() {
    for (mode, second, first) in
        [("header", (404, "2.0"), "1.0"), ("root", (404, "2.0"), "1.0"), ("off", (406, "1.0"), "")]
    {
        let gw = with(mode).start().await;
        let key = gw.principal("new", []).await;
        for caller in [key, gw.anonymous(), gw.bearer("tc_junk")] {
            for path in ["/", "/nowhere", "/toolsets", "/.well-known/nothing"] {
                let named = caller.with("openwop-version", "2.0").get(path).await;
                assert_eq!((named.status, version(&named)), second, "{mode} {path}");
                assert_eq!(named.header("vary"), VARY, "{mode} {path}");
                let named = caller.with("openwop-version", "1.0").get(path).await;
                assert_eq!((named.status, version(&named)), (404, first), "{mode} {path}");
                // Without a version, it is a path of no protocol.
                let plain = caller.get(path).await;
                assert_eq!((plain.status, version(&plain)), (404, ""), "{mode} {path}");
                assert_eq!((code(&plain), plain.header("vary")), ("not_found".to_owned(), ""));
            }
            // These have their own protocols.
            for path in ["/otc/nowhere", "/explorer/no/where", "/schemas/none"] {
                let own = caller.with("openwop-version", "2.0").get(path).await;
                assert_eq!(version(&own), "", "{mode} {path}");
                assert_eq!(own.body, caller.get(path).await.body, "{mode} {path}");
            }
        }
    }
}

#[tokio::test]
async fn discovery_has_both_versions_at_one_address() {
    let gw = fixture().start().await;
    let path = "/.well-known/openwop";
    let caller = gw.anonymous();
    let v2 = caller.with("openwop-version", "2.0");
    let (first, second) = (caller.get(path).await, v2.get(path).await);
    assert_eq!((version(&first), version(&second)), ("1.0", "2.0"));
    assert_eq!(caller.with("openwop-version", "1").get(path).await.body, first.body);
    for reply in [&first, &second] {
        assert_eq!(reply.status, 200);
        assert_eq!(reply.header("vary"), "OpenWOP-Version, Accept-Encoding");
        assert_eq!(reply.json()["protocolVersions"], json!(["1.0", "2.0"]));
        assert_eq!(reply.json()["preferredVersion"], "1.0");
    }
    schemas::check(&schemas::discovery(), &second.json());
    assert_ne!(first.body, second.body);
    let text = second.text().replace(env!("CARGO_PKG_VERSION"), "VERSION");
    insta::assert_snapshot!(text, @r#"{"protocolVersion":"1.0","protocolVersions":["1.0","2.0"],"preferredVersion":"1.0","implementation":{"name":"toolcrib","version":"VERSION","vendor":"toolcrib"},"eventLogSchemaVersion":3,"limits":{"status":"stable","since":"2.0","witness":"witnessable-gated","clarificationRounds":0,"schemaRounds":0,"envelopesPerTurn":0,"maxRequestBodyBytes":1048576},"runList":{"status":"experimental","since":"2.0","until":"2.1","witness":"witnessable-gated","maxPageSize":1000,"filters":["status"]},"toolCatalog":{"status":"experimental","since":"2.0","until":"2.1","witness":"witnessable-gated","sources":["node-pack","workflow","mcp","connector","host-extension"],"sessionLifecycle":true,"compactView":true},"toolHooks":{"status":"experimental","since":"2.0","until":"2.1","witness":"witnessable-gated","prePostEvents":true,"perToolAuthorization":true,"perToolRateLimit":true}}"#);
    // The tag of one form means nothing for the other.
    let (tag, other) = (second.header("etag"), first.header("etag"));
    let again = v2.with("if-none-match", tag).get(path).await;
    assert_eq!((again.status, version(&again), again.header("etag")), (304, "2.0", tag));
    assert_eq!(v2.with("if-none-match", other).get(path).await.status, 200);
    assert_eq!(caller.with("if-none-match", tag).get(path).await.status, 200);
}

#[tokio::test]
async fn tags_belong_to_one_form() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let v2 = caller.with("openwop-version", "2.0");
    let (first, second) = (caller.get("/tools").await, v2.get("/tools").await);
    let (otc, tag) = (first.header("etag"), second.header("etag"));
    assert_ne!(otc, tag);
    let again = v2.with("if-none-match", tag).get("/tools").await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    assert_eq!((again.header("etag"), again.header("vary")), (tag, VARY));
    assert_eq!(version(&again), "2.0");
    assert_eq!(v2.with("if-none-match", otc).get("/tools").await.status, 200);
    assert_eq!(caller.with("if-none-match", tag).get("/tools").await.status, 200);
    let head = v2.send(Method::HEAD, "/tools", None).await;
    assert_eq!((head.status, head.body.len(), version(&head)), (200, 0, "2.0"));
    assert_eq!(head.header("content-length"), second.body.len().to_string());
}

#[tokio::test]
async fn pages_may_send_and_read_the_version() {
    let gw =
        fixture().config("[server]\nallowed_origins = [\"https://app.example\"]").start().await;
    let page = gw.anonymous().with("origin", "https://app.example");
    let preflight = page.with("access-control-request-method", "GET");
    for path in ["/tools", "/runs", "/.well-known/openwop"] {
        let granted = preflight.send(Method::OPTIONS, path, None).await;
        let headers = granted.header("access-control-allow-headers");
        for name in ["Authorization", "OpenWOP-Version", "OpenWOP-Client-Version"] {
            assert!(headers.split(", ").any(|it| it == name), "{name} of {headers}");
        }
    }
    let read: Actor = page.with("openwop-version", "2.0");
    let refused = read.get("/tools").await;
    let exposed = refused.header("access-control-expose-headers");
    for name in ["OpenWOP-Version", "ETag", "Retry-After"] {
        assert!(exposed.split(", ").any(|it| it == name), "{name} of {exposed}");
    }
}
