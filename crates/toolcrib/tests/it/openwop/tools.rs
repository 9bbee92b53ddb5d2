use serde_json::json;
use toolcrib_testkit::gateway::{TestGateway, TestTool};

use crate::support::{column, fixture};

const ENVELOPE: &str = "application/vnd.openwop.tools+json";

/// I-7, I-13: the operator's classification, sorted by id, and nothing else.
#[tokio::test]
async fn a_reader_sees_its_tools_as_a_bare_array() {
    let gw = fixture().start().await;
    let reply = gw.principal("reader", ["files:read"]).await.get("/v1/tools").await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(reply.header("cache-control"), "private, no-cache");
    assert_eq!(reply.header("vary"), "Authorization, Accept, Accept-Encoding");
    let tools = reply.json();
    insta::assert_snapshot!(column(&tools, "toolId").join(" "), @"mcp:crib.ask mcp:crib.down mcp:crib.fail mcp:crib.open mcp:crib.panic mcp:crib.read mcp:crib.sum");
    insta::assert_snapshot!(tools[5], @r#"{"toolId":"mcp:crib.read","source":"mcp","description":"Reads a file","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"count":{"type":"integer"}},"required":["path"],"additionalProperties":false},"auth":{"scopes":["files:read"]},"egress":"host-mediated","approval":"never","replayPolicy":"non-deterministic","safetyTier":"read"}"#);
}

#[tokio::test]
async fn a_key_without_scopes_sees_what_needs_none() {
    let gw = fixture().start().await;
    let tools = gw.principal("new", []).await.get("/v1/tools").await.json();
    assert_eq!(column(&tools, "toolId"), ["mcp:crib.open"]);
}

#[tokio::test]
async fn the_envelope_is_served_on_request() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let array = caller.get("/v1/tools").await;
    for accept in [ENVELOPE, "text/html, Application/VND.openwop.tools+json;q=0.9"] {
        let reply = caller.with("accept", accept).get("/v1/tools").await;
        assert_eq!(reply.header("content-type"), ENVELOPE);
        assert_eq!(reply.json(), json!({ "tools": array.json() }));
        assert_ne!(reply.header("etag"), array.header("etag"));
    }
    for accept in ["*/*", "application/json", "application/vnd.openwop.tools+json;q=0"] {
        let reply = caller.with("accept", accept).get("/v1/tools").await;
        assert_eq!(reply.body, array.body, "{accept}");
    }
}

#[tokio::test]
async fn the_operator_can_make_the_envelope_the_default() {
    let gw = fixture().config("[openwop]\nlist_body = \"envelope\"").start().await;
    let reply = gw.principal("new", []).await.get("/v1/tools").await;
    assert_eq!(reply.header("content-type"), "application/json");
    assert_eq!(column(&reply.json()["tools"], "toolId"), ["mcp:crib.open"]);
}

#[tokio::test]
async fn a_list_can_be_of_one_kind_of_source() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let all = caller.get("/v1/tools").await;
    assert_eq!(caller.get("/v1/tools?source=mcp").await.body, all.body);
    for twice in ["source=mcp&source=workflow", "view=standard&view=compact"] {
        let reply = caller.get(&format!("/v1/tools?{twice}")).await;
        assert_eq!(reply.status, 400, "{twice}");
        assert!(reply.text().contains("must be given once"), "{}", reply.text());
    }
    for none in ["workflow", "connector", "node-pack", "host-extension"] {
        assert_eq!(caller.get(&format!("/v1/tools?source={none}")).await.parts(), (200, json!([])));
    }
    for bad in ["", "MCP", "canary<script>"] {
        let reply = caller.get(&format!("/v1/tools?source={bad}")).await;
        assert_eq!(reply.status, 400);
        insta::allow_duplicates! {
            insta::assert_snapshot!(reply.text(), @r#"{"error":"validation_error","message":"the parameter `source` must be one of node-pack, workflow, mcp, connector, host-extension","details":{"parameter":"source","legal":["node-pack","workflow","mcp","connector","host-extension"]}}"#);
        }
    }
}

#[tokio::test]
async fn a_list_that_did_not_change_is_not_sent_again() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let first = caller.get("/v1/tools").await;
    let etag = first.header("etag").to_owned();
    assert!(etag.starts_with('"') && etag.ends_with('"') && etag.len() > 10, "{etag}");
    for tag in [etag.clone(), format!("W/{etag}"), format!("\"x\", {etag}"), "*".to_owned()] {
        let again = caller.with("if-none-match", &tag).get("/v1/tools").await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{tag}");
        assert_eq!(again.header("etag"), etag);
        assert_eq!(again.header("vary"), "Authorization, Accept, Accept-Encoding");
    }
    let other = caller.with("if-none-match", "\"something-else\"").get("/v1/tools").await;
    assert_eq!(other.body, first.body);
    // A change of the catalog changes the tag.
    gw.change("crib", vec![TestTool::new("open").description("new words")]).await;
    let changed = caller.with("if-none-match", &etag).get("/v1/tools").await;
    assert_eq!(changed.status, 200);
    assert_ne!(changed.header("etag"), etag);
}

/// A tag does not authenticate the caller.
#[tokio::test]
async fn not_modified_comes_after_authentication() {
    let gw = fixture().start().await;
    assert_eq!(gw.anonymous().with("if-none-match", "*").get("/v1/tools").await.status, 401);
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let gw = fixture().start().await;
    let caller = gw.principal("new", []).await;
    let get = caller.get("/v1/tools").await;
    let head = caller.send(http::Method::HEAD, "/v1/tools", None).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("etag"), get.header("etag"));
    assert_eq!(head.header("content-length"), get.body.len().to_string());
}

/// I-8: the tools of an unclassified source are visible only with the scope of that source.
#[tokio::test]
async fn unclassified_tools_need_the_scope_of_their_source() {
    let gw = TestGateway::builder().tool(TestTool::new("odd")).start().await;
    let none = gw.principal("a", ["files:*"]).await.get("/v1/tools").await;
    let held = gw.principal("b", ["tools:crib"]).await.get("/v1/tools").await;
    assert_eq!(none.json(), json!([]));
    assert_eq!(column(&held.json(), "toolId"), ["mcp:crib.odd"]);
}

/// RFC 0112: the same tools as closed descriptors, in the same order, with identical bytes each
/// time.
#[tokio::test]
async fn the_compact_view_is_of_the_same_tools() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await;
    let standard = caller.get("/v1/tools").await.json();
    let reply = caller.get("/v1/tools?view=compact").await;
    assert_eq!(reply.header("content-type"), "application/json");
    let compact = reply.json();
    assert_eq!(column(&compact["tools"], "toolId"), column(&standard, "toolId"));
    insta::assert_snapshot!(compact["tools"][5], @r#"{"toolId":"mcp:crib.read","source":"mcp","safetyTier":"read","description":"Reads a file","inputSchema":{"type":"object","properties":{"path":{"type":"string","description":"Which file"},"count":{"type":"integer"}},"required":["path"],"additionalProperties":false}}"#);
    assert_eq!(caller.get("/v1/tools?view=compact").await.body, reply.body);
    let one = caller.get("/v1/tools/mcp%3Acrib.read?view=compact").await;
    assert_eq!(one.json(), compact["tools"][5]);
    // It can be combined with a filter, and is an envelope regardless of the standard view.
    assert_eq!(caller.get("/v1/tools?source=mcp&view=compact").await.body, reply.body);
    let none = caller.get("/v1/tools?source=workflow&view=compact").await;
    assert_eq!(none.json(), json!({ "tools": [] }));
    for other in ["", "Compact", "full"] {
        let reply = caller.get(&format!("/v1/tools?view={other}")).await;
        assert_eq!(reply.json(), standard, "{other}");
    }
}

/// Encoded once per list; each encoding has its own tag.
#[tokio::test]
async fn lists_come_in_the_encoding_that_the_client_likes() {
    let gw = fixture().start().await;
    let caller = gw.principal("reader", ["files:read"]).await;
    let plain = caller.get("/v1/tools").await;
    assert!(plain.body.len() > 1_024, "large enough to be worth it");
    let mut tags = vec![plain.header("etag").to_owned()];
    for (accept, chosen) in
        [("gzip, deflate", "gzip"), ("zstd", "zstd"), ("gzip, br;q=1.0, zstd;q=0.9", "br")]
    {
        let asking = caller.with("accept-encoding", accept);
        let reply = asking.get("/v1/tools").await;
        assert_eq!(reply.header("content-encoding"), chosen, "{accept}");
        assert_eq!(reply.header("vary"), "Authorization, Accept, Accept-Encoding");
        assert!(reply.body.len() < plain.body.len());
        let mut text = Vec::new();
        match chosen {
            "gzip" => {
                let mut reader = flate2::read::GzDecoder::new(&reply.body[..]);
                std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
            }
            "zstd" => text = zstd::bulk::decompress(&reply.body, plain.body.len()).unwrap(),
            _ => brotli::BrotliDecompress(&mut &reply.body[..], &mut text).unwrap(),
        }
        assert_eq!(text, plain.body);
        let tag = reply.header("etag").to_owned();
        assert!(!tags.contains(&tag), "{tag}");
        let again = asking.with("if-none-match", &tag).get("/v1/tools").await;
        assert_eq!(again.status, 304);
        tags.push(tag);
    }
    let refused = caller.with("accept-encoding", "identity, br;q=0").get("/v1/tools").await;
    assert_eq!(refused.body, plain.body);
}
