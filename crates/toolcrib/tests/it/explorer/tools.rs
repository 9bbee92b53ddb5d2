use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{TestGateway, TestSource, TestTool};

use crate::support::{column, fixture};

#[tokio::test]
async fn summaries_are_a_bare_array() {
    let gw = fixture().start().await;
    let reply = gw.principal("reader", ["files:read"]).await.get("/explorer/tools").await;
    assert_eq!(reply.header("content-type"), "application/json");
    let list = reply.json();
    insta::assert_snapshot!(column(&list, "name").join(" "), @"crib__ask crib__down crib__fail crib__open crib__panic crib__read crib__sum");
    insta::assert_snapshot!(list[5], @r#"{"name":"crib__read","description":"Reads a file","annotations":{"readOnlyHint":true},"_meta":{"toolcrib/toolId":"mcp:crib.read","toolcrib/otcId":"crib.read@1.0.0","toolcrib/source":"mcp","toolcrib/sourceId":"crib","toolcrib/tier":"read","toolcrib/approval":"never","toolcrib/scopes":["files:read"],"toolcrib/egress":"host-mediated"}}"#);
    assert_eq!(list[3].get("annotations"), None, "absent, not null");
}

#[tokio::test]
async fn a_detail_has_the_schemas_in_their_own_order() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let detail = reader.get("/explorer/tools/crib__read").await;
    assert!(detail.text().contains(r#""inputSchema":{"type":"object","properties":{"path":"#));
    assert_eq!(detail.json().get("outputSchema"), None);
    assert_eq!(reader.get("/explorer/tools/crib__open").await.json()["inputSchema"], json!({}));
    let sum = reader.get("/explorer/tools/crib__sum").await.json();
    assert_eq!(sum["outputSchema"]["properties"]["sum"]["type"], "integer");
    let again = reader.with("if-none-match", detail.header("etag"));
    assert_eq!(again.get("/explorer/tools/crib__read").await.status, 304);
}

#[tokio::test]
async fn an_unknown_name_gets_the_error_of_the_protocol() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    for (path, name) in [
        ("nope", "nope"),
        ("%3Cscript%3E", "<script>"),
        ("a%2Fb", "a/b"),
        ("crib__write", "crib__write"),
        ("other__secret", "other__secret"),
        ("mcp:crib.read", "mcp:crib.read"),
        ("%FF", ""),
    ] {
        let reply = reader.get(&format!("/explorer/tools/{path}")).await;
        assert_eq!(reply.parts(), (404, json!({ "error": format!("Tool not found: {name}") })));
        assert_eq!(reply.header("content-type"), "application/json");
    }
    assert_eq!(reader.get("/explorer/tools/").await.status, 404);
    let post = reader.send(Method::POST, "/explorer/tools", None).await;
    assert_eq!((post.status, post.header("allow")), (405, "GET,HEAD"));
    assert!(post.json()["error"].is_string());
    let get = reader.get("/explorer/tools/crib__read/call").await;
    assert_eq!((get.status, get.header("allow")), (405, "POST"));
}

/// The page keeps parts of the list, and loads those that it has not.
#[tokio::test]
async fn the_list_comes_in_parts() {
    let many = |from: usize| (from..500).map(|at| TestTool::new(&format!("t{at:03}")));
    let source = many(0).fold(TestSource::new("many"), TestSource::tool);
    let gw = fixture().source(source).start().await;
    let caller = gw.principal("a", ["tools:many"]).await;
    let catalog = caller.get("/explorer/catalog").await;
    let tags = |catalog: &Value| -> Vec<String> {
        let parts = catalog["parts"].as_array().unwrap().iter();
        parts.map(|part| part["tag"].as_str().unwrap().to_owned()).collect()
    };
    let found = catalog.json();
    let before = tags(&found);
    // With the one tool of the fixture that every key of a source sees.
    assert_eq!(found["total"], 501);
    assert!(before.len() > 1, "{before:?}");
    let mut names = Vec::new();
    for (tag, part) in before.iter().zip(found["parts"].as_array().unwrap()) {
        let tools = caller.get(&format!("/explorer/catalog/{tag}")).await;
        assert_eq!(tools.header("etag"), format!("\"{tag}\""));
        let tools = tools.json();
        assert_eq!(part["count"], tools.as_array().unwrap().len());
        let is_first = names.is_empty();
        assert_eq!(
            part.get("tools"),
            is_first.then_some(&tools),
            "the first part is there at once"
        );
        names.extend(column(&tools, "name").into_iter().map(str::to_owned));
    }
    let whole = caller.get("/explorer/tools").await.json();
    assert_eq!(names, column(&whole, "name"));
    let again = caller.with("if-none-match", catalog.header("etag"));
    assert_eq!(again.get("/explorer/catalog").await.status, 304);

    gw.change("many", many(1).collect()).await;
    let after = tags(&caller.get("/explorer/catalog").await.json());
    let new: Vec<_> = after.iter().filter(|tag| !before.contains(tag)).collect();
    assert!((1..before.len()).contains(&new.len()), "{new:?} of {after:?}");
    let gone = caller.get(&format!("/explorer/catalog/{}", before[0])).await;
    let problem = json!({ "error": "unknown part of the list; read the catalog again" });
    assert_eq!(gone.parts(), (404, problem.clone()));
    // A part of what another caller sees does not exist.
    let other = gw.principal("b", ["files:read"]).await;
    let reply = other.get(&format!("/explorer/catalog/{}", after[0])).await;
    assert_eq!(reply.parts(), (404, problem));
    assert_eq!(other.get("/explorer/catalog?toolset=none").await.status, 400);
}

/// I-25: the next request after a change sees it.
#[tokio::test]
async fn the_list_follows_the_source() {
    let gw = fixture().start().await;
    let caller = gw.principal("a", ["tools:crib"]).await;
    assert_eq!(column(&caller.get("/explorer/tools").await.json(), "name"), ["crib__open"]);
    gw.change("crib", vec![TestTool::new("fresh")]).await;
    assert_eq!(column(&caller.get("/explorer/tools").await.json(), "name"), ["crib__fresh"]);
}

/// I-13: metadata of an upstream is passed on only if it conforms to the protocol.
#[tokio::test]
async fn claims_are_shown_only_in_the_form_of_the_protocol() {
    let odd = json!({ "title": "T", "destructiveHint": "yes", "openWorldHint": false, "x": 1 });
    let gw = TestGateway::builder()
        .tool(TestTool::new("a").scopes([]).annotations(odd))
        .tool(TestTool::new("b").scopes([]).annotations(json!({})))
        .tool(TestTool::new("c").scopes([]).annotations(json!("none")))
        .start()
        .await;
    let list = gw.principal("a", []).await.get("/explorer/tools").await.json();
    assert_eq!(list[0]["annotations"], json!({ "title": "T", "openWorldHint": false }));
    assert_eq!((list[1].get("annotations"), list[2].get("annotations")), (None, None));
    assert_eq!(list[0]["_meta"]["toolcrib/tier"], "write");
}

#[tokio::test]
async fn the_catalog_can_be_opened_by_the_operator() {
    let config = "[explorer]\npolicy = \"none\"\n[anonymous]\ntenant = \"acme\"\nscopes = []";
    let gw = fixture().config(config).start().await;
    let list = gw.anonymous().get("/explorer/tools").await;
    assert_eq!(column(&list.json(), "name"), ["crib__open"]);
    let call = gw.anonymous().post("/explorer/tools/crib__open/call", json!({})).await;
    assert_eq!(call.status, 200);
    assert_eq!(gw.bearer("junk").get("/explorer/tools").await.status, 401);
}
