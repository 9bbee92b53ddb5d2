//! Offers that are no tools pass the same gate, and reach no list of tools.

use serde_json::{Value, json};
use toolcrib_core::{
    call::{CallError, Outcome},
    event::{EventBody, LoggedEvent},
    offer::{Offer, OfferKind, ResourceInfo},
    principal::{AuthMethod, Principal},
    scope::ScopeSet,
};
use toolcrib_gateway::{CallReport, CallRequest, ToolRef, metrics::Surface};
use toolcrib_testkit::gateway::{TestGateway, TestTool};

const NOTE: &str = "note:///today";

async fn gateway() -> TestGateway {
    let arguments = json!({
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    });
    let info = ResourceInfo { media_type: Some("text/plain".to_owned()), size: Some(5) };
    TestGateway::builder()
        .tool(TestTool::new("greet").answers(|_| Outcome::text("the tool", false)))
        .tool(
            TestTool::new("greet")
                .offered_as(Offer::Prompt)
                .input(arguments)
                .answers(|arguments| Outcome::text(&format!("hi {}", arguments["name"]), false)),
        )
        .tool(
            TestTool::new(NOTE)
                .offered_as(Offer::Resource(Box::new(info)))
                .scopes(["notes:read"])
                .rule("rate = \"1/d\"")
                .answers(|_| Outcome::text("today", false)),
        )
        .start()
        .await
}

fn principal(scopes: &[&str]) -> Principal {
    Principal {
        id: "ann".parse().unwrap(),
        tenant: "acme".parse().unwrap(),
        scopes: ScopeSet::parse(scopes.iter().copied()).unwrap(),
        roles: Vec::new(),
        makers: Vec::new(),
        session: None,
        auth: AuthMethod::Operator,
    }
}

async fn serve(
    gw: &TestGateway,
    caller: &Principal,
    kind: OfferKind,
    name: &str,
    arguments: Value,
) -> CallReport {
    let tool = ToolRef::Wire(name);
    let request =
        CallRequest::new(gw.gateway.snapshot(), Surface::new("mcp", "Mcp"), tool, arguments);
    gw.gateway.call(caller, CallRequest { kind, ..request }).await
}

fn text(report: CallReport) -> String {
    report.result.unwrap().content.get().to_owned()
}

fn called(logged: LoggedEvent) -> Option<String> {
    match logged.event.body {
        EventBody::ToolCalled(called) => Some(called.tool_name),
        _ => None,
    }
}

#[tokio::test]
async fn a_prompt_and_a_resource_pass_each_step_of_the_gate() {
    let gw = gateway().await;
    let ann = principal(&["tools:crib"]);
    let (tool, prompt) = (OfferKind::Tool, OfferKind::Prompt);

    // One name, two offers.
    assert!(text(serve(&gw, &ann, tool, "crib__greet", json!({})).await).contains("the tool"));
    let name = json!({ "name": "Bo" });
    assert!(text(serve(&gw, &ann, prompt, "crib__greet", name).await).contains("hi"));
    // Validated.
    let error = serve(&gw, &ann, prompt, "crib__greet", json!({})).await.result.unwrap_err();
    assert!(matches!(error, CallError::InvalidArguments(_)), "{error:?}");
    // Authorized: without a scope, a resource is an unknown name.
    let snapshot = gw.gateway.snapshot();
    let note = snapshot.offers(OfferKind::Resource).entries()[0].names.wire.clone();
    let read = async |who: &Principal| serve(&gw, who, OfferKind::Resource, &note, json!({})).await;
    assert_eq!(read(&ann).await.result.unwrap_err().code(), "forbidden");
    let reader = principal(&["notes:read"]);
    assert!(text(read(&reader).await).contains("today"));
    // Limited.
    assert_eq!(read(&reader).await.result.unwrap_err().code(), "rate_limited");

    // Recorded, with an id that no tool has.
    let called: Vec<String> = gw.events().await.into_iter().filter_map(called).collect();
    for id in ["mcp:crib.greet", "mcp:crib.prompt/greet"] {
        assert!(called.iter().any(|it| it == id), "{id}: {called:?}");
    }
    assert!(called.iter().any(|it| it.starts_with("mcp:crib.resource/note")), "{called:?}");
}

#[tokio::test]
async fn no_list_of_tools_has_a_prompt_or_a_resource() {
    let gw = gateway().await;
    let all = gw.principal("all", ["*"]).await;
    for path in ["/v1/tools", "/tools", "/explorer/catalog"] {
        let answer = all.get(path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = answer.text();
        assert!(text.contains("greet"), "{path}: {text}");
        assert!(!text.contains("prompt/") && !text.contains("note:"), "{path}: {text}");
    }
    assert_eq!(all.get("/v1/tools/mcp:crib.prompt%2Fgreet").await.status, 404);
    let snapshot = gw.gateway.snapshot();
    let counts = OfferKind::ALL.map(|kind| snapshot.offers(kind).entries().len());
    assert_eq!(counts, [1, 1, 1]);
}
