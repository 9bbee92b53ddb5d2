//! `GET /v1/explain`: every reason is given as far as the caller may know it, and no further.

use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

use crate::support::fixture;

async fn explanation(caller: &Actor, tool: &str) -> Value {
    let reply = caller.get(&format!("/v1/explain?tool={tool}")).await;
    assert_eq!((reply.status, reply.header("cache-control")), (200, "no-store"));
    reply.json()
}

fn step<'a>(explanation: &'a Value, name: &str) -> &'a Value {
    let mut steps = explanation["steps"].as_array().unwrap().iter();
    steps.find(|step| step["step"] == name).unwrap_or(&Value::Null)
}

#[tokio::test]
async fn a_tool_that_may_be_used_is_explained_step_by_step() {
    let gw = fixture().config("[gate]\nrate = \"30/m\"").start().await;
    let reader = gw.principal("reader", ["files:*"]).await;
    for name in ["crib__read", "mcp:crib.read", "crib.read", "crib.read@1.0.0"] {
        let explanation = explanation(&reader, name).await;
        assert_eq!(
            (&explanation["outcome"], &explanation["tool"]),
            (&json!("allowed"), &json!("mcp:crib.read"))
        );
        let steps: Vec<&str> = explanation["steps"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["step"].as_str().unwrap())
            .collect();
        assert_eq!(steps, ["tool", "tenant", "scope", "rate", "approval", "source"]);
        let scope = step(&explanation, "scope");
        assert_eq!(
            scope["details"]["required"],
            json!([{ "scope": "files:read", "grant": "files:*" }])
        );
        assert_eq!(step(&explanation, "rate")["details"]["calls"], 30);
        assert_eq!(explanation["grants"], json!(["files:*"]));
    }
    assert_eq!(explanation(&reader, "crib__ask").await["outcome"], "needs_approval");
    gw.reload("[gate]\nquota = \"2/d\"").await;
    assert_eq!(step(&explanation(&reader, "crib__fail").await, "quota")["result"], "pass");
    for _ in 0..2 {
        reader.post("/tools/call", json!({ "request": { "tool_id": "crib.fail" } })).await;
    }
    let spent = explanation(&reader, "crib__fail").await;
    assert_eq!(
        (&spent["outcome"], &step(&spent, "quota")["result"]),
        (&json!("denied"), &json!("stop"))
    );
    let open = explanation(&gw.principal("none", []).await, "crib__open").await;
    assert_eq!(step(&open, "scope")["message"], "it requires no scope");
    for bad in ["", &"x".repeat(513)] {
        assert_eq!(reader.get(&format!("/v1/explain?tool={bad}")).await.status, 400);
    }
    assert_eq!(gw.runs("crib", "read"), 0, "nothing is called");
}

/// One tool for each reason of denial, and one that is usable.
async fn every_reason() -> TestGateway {
    let quick = |name: &str| TestTool::new(name).scopes(["files:read"]);
    let gw = TestGateway::builder()
        .source(
            TestSource::new("crib")
                .tool(quick("read"))
                .tool(quick("narrow").rule("tenants = [\"other\"]"))
                .tool(quick("hidden").rule("hide = true"))
                .tool(TestTool::new("scoped").scopes(["files:write"])),
        )
        .source(TestSource::new("pins").pins("enforce").tool(quick("drifts").description("one")))
        .start()
        .await;
    gw.change("pins", vec![quick("drifts").description("two")]).await;
    gw
}

/// I-85: the explanation names a tool and its scopes only where a call does. Foreign, quarantined
/// and hidden tools are unknown in any case.
#[tokio::test]
async fn a_caller_is_told_what_a_call_tells_and_no_more() {
    let gw = every_reason().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let unknown = reader.get("/v1/explain?tool=crib__absent").await;
    assert_eq!(unknown.json()["outcome"], "unknown");
    for name in ["crib__narrow", "crib__hidden", "pins__drifts", "mcp:pins.drifts"] {
        let reply = reader.get(&format!("/v1/explain?tool={name}")).await;
        assert_eq!(reply.text(), unknown.text(), "{name}");
    }
    let lacking = explanation(&reader, "crib__scoped").await;
    assert_eq!(lacking["outcome"], "hidden");
    assert_eq!(step(&lacking, "scope")["message"], "missing: `files:write`");
    assert_eq!(lacking["steps"].as_array().unwrap().len(), 2, "the rest is nobody's business");
    // A caller that may read pins sees them here, too.
    let keeper = gw.principal("keeper", ["pins:approve"]).await;
    let pin = explanation(&keeper, "pins__drifts").await;
    assert_eq!((&pin["outcome"], &step(&pin, "pin")["result"]), (&json!("hidden"), &json!("stop")));
    // A denial is in the event log, like the one of a tool that is read.
    gw.event(|event| event["payload"]["resource"] == "mcp:crib.scoped").await;

    gw.reload("[gate]\ndenied_calls = \"not_found\"").await;
    let reply = reader.get("/v1/explain?tool=crib__scoped").await;
    assert_eq!(reply.text(), unknown.text());
}

#[tokio::test]
async fn an_empty_list_is_explained_without_telling_what_there_is() {
    let gw = fixture().start().await;
    let empty = async |caller: &Actor| caller.get("/v1/explain").await.json();
    let open = empty(&gw.principal("none", []).await).await;
    assert_eq!((&open["outcome"], &open["tools"]), (&json!("allowed"), &json!(1)));

    let gw =
        TestGateway::builder().tool(TestTool::new("read").scopes(["files:read"])).start().await;
    let (none, wrong) = (gw.principal("a", []).await, gw.principal("b", ["mail:*"]).await);
    let other = gw.principal_of("other", "b", &["mail:*"]).await;
    let (none, mut wrong, mut other) =
        (empty(&none).await, empty(&wrong).await, empty(&other).await);
    assert_eq!((&none["outcome"], &none["tools"]), (&json!("hidden"), &json!(0)));
    assert!(step(&none, "scope")["message"].as_str().unwrap().contains("holds no scopes"));
    assert!(
        step(&wrong, "scope")["message"]
            .as_str()
            .unwrap()
            .contains("its scopes permit no visible tool")
    );
    for explanation in [&mut wrong, &mut other] {
        explanation["tenant"] = Value::Null;
    }
    assert_eq!(wrong, other, "a tenant with tools and one without get the same explanation");
    let operator = empty(&gw.principal("c", ["sources:read"]).await).await;
    assert_eq!(step(&operator, "source")["result"], "pass");
    assert_eq!(step(&none, "source"), &Value::Null);
}

/// The operator sees every reason.
#[tokio::test]
async fn an_operator_sees_every_reason() {
    let gw = every_reason().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let who = gw.gateway.authenticator().authenticate(reader.key().unwrap()).unwrap();
    let explain = async |tool: Option<&str>| {
        serde_json::to_value(gw.gateway.explain(&who, tool, None).await).unwrap()
    };
    for (tool, outcome, stops) in [
        ("crib__read", "allowed", ""),
        ("crib__narrow", "hidden", "tenant"),
        ("crib__hidden", "hidden", "tool"),
        ("crib__scoped", "hidden", "scope"),
        ("mcp:pins.drifts", "hidden", "pin"),
        ("crib__absent", "unknown", "tool"),
    ] {
        let explanation = explain(Some(tool)).await;
        assert_eq!(explanation["outcome"], outcome, "{tool}");
        let steps = explanation["steps"].as_array().unwrap().iter();
        let stopped: Vec<&str> = steps
            .filter(|it| it["result"] == "stop")
            .map(|it| it["step"].as_str().unwrap())
            .collect();
        assert_eq!(stopped.join(" "), stops, "{tool} {explanation}");
    }
    assert!(explain(Some("crib__hidden")).await.to_string().contains("hide = true"));
    let list = explain(None).await;
    assert_eq!((&list["outcome"], &list["tools"]), (&json!("allowed"), &json!(1)));
    assert_eq!(step(&list, "scope")["details"]["missing"], json!({ "files:write": 1 }));
    assert!(step(&list, "tenant")["message"].as_str().unwrap().starts_with("1 of them"));
    assert!(step(&list, "pin")["message"].as_str().unwrap().starts_with("1 more"));
}

/// I-85: an explanation about another principal is byte-for-byte the one that the principal would
/// get. It is not recorded as a request of that principal.
#[tokio::test]
async fn another_principal_is_explained_as_it_would_be_told() {
    let gw = every_reason().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let helper = gw.principal("helper", ["explain:others"]).await;
    let foreign = gw.principal_of("other", "helper", &["*"]).await;
    for query in ["tool=crib__read", "tool=crib__narrow", "tool=pins__drifts", "tool=none", "view"]
    {
        let query = if query == "view" { "" } else { query };
        let own = reader.get(&format!("/v1/explain?{query}")).await;
        let explanation = helper.get(&format!("/v1/explain?{query}&principal=reader")).await;
        assert_eq!((explanation.status, explanation.text()), (200, own.text()), "{query}");
        let other = foreign.get(&format!("/v1/explain?{query}&principal=reader")).await;
        let nobody = foreign.get(&format!("/v1/explain?{query}&principal=nobody")).await;
        assert_eq!((other.status, other.text()), (404, nobody.text()), "{query}");
        let refused = reader.get(&format!("/v1/explain?{query}&principal=helper")).await;
        assert_eq!(refused.status, 403, "{query}");
        assert_eq!(refused.json()["details"]["scopeRequired"], "explain:others");
    }
    let scoped = helper.get("/v1/explain?tool=crib__scoped&principal=reader").await.json();
    assert_eq!(step(&scoped, "scope")["message"], "missing: `files:write`");
    gw.event(|event| event["payload"]["action"] == "explain:others").await;
    let denials = gw.events().await;
    let as_reader = |resource: &str| {
        let denials = denials.iter().map(|it| serde_json::to_value(&it.event).unwrap());
        denials
            .filter(|it| it["payload"]["principal"] == "reader")
            .filter(|it| it["payload"]["resource"] == resource)
            .count()
    };
    assert_eq!(as_reader("mcp:crib.scoped"), 0, "the principal did not ask");

    // Several keys are listed by their ids; expired and revoked keys are left out.
    let second = gw.principal("reader", ["files:*"]).await;
    let several = helper.get("/v1/explain?tool=crib__read&principal=reader").await;
    assert_eq!(several.status, 409, "{}", several.text());
    let mut ids = [gw.key_id(&reader).to_string(), gw.key_id(&second).to_string()];
    ids.sort();
    let mut explanation: Vec<String> =
        serde_json::from_value(several.json()["details"]["keyIds"].clone()).unwrap();
    explanation.sort();
    assert_eq!(explanation, ids);
    let path =
        format!("/v1/explain?tool=crib__scoped&principal=reader&keyId={}", gw.key_id(&second));
    assert_eq!(helper.get(&path).await.json()["outcome"], "allowed");
    gw.revoke(&reader).await;
    gw.revoke(&second).await;
    assert_eq!(helper.get("/v1/explain?principal=reader").await.status, 404);
    assert_eq!(helper.get("/v1/explain?principal=a%20b").await.status, 400);
}
