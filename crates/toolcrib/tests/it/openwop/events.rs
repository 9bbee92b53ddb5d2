use serde_json::{Value, json};

use crate::support::{column, fixture};

fn call(tool: &str) -> Value {
    json!({ "request": { "tool_id": tool, "input": { "path": "canary-argument" } } })
}

fn positions(page: &Value) -> Vec<u64> {
    let events = page["events"].as_array().unwrap();
    events.iter().map(|event| event["position"].as_u64().unwrap()).collect()
}

/// I-18, I-20.
#[tokio::test]
async fn a_run_holds_both_events_of_a_call_and_no_content() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = reader.post("/tools/call", call("crib.read")).await;
    let run = reply.header("toolcrib-run-id");
    let events = reader.get(&format!("/v1/runs/{run}/events")).await;
    assert!(!events.text().contains("canary"), "{}", events.text());
    let events = events.json();
    let list = &events["events"];
    assert_eq!(column(list, "type"), ["agent.toolCalled", "agent.toolReturned"]);
    assert_eq!(column(list, "runId"), [run, run]);
    assert_eq!((&list[0]["sequence"], &list[1]["sequence"]), (&json!(0), &json!(1)));
    assert_eq!(list[1]["causationId"], list[0]["eventId"]);
    assert_eq!(list[0]["payload"]["callId"], list[1]["payload"]["callId"]);
    assert_eq!(list[0]["payload"]["principal"], "reader");
    assert_eq!(list[0]["payload"]["argsHash"].as_str().unwrap().len(), 64);
    assert_eq!(list[1]["payload"]["status"], "ok");
    assert!(list[1]["payload"]["durationMs"].is_u64());
}

/// I-9: a run of another principal is visible with `audit:read` in its tenant, and not at all
/// elsewhere.
#[tokio::test]
async fn a_run_is_shown_to_its_caller_and_to_auditors_of_its_tenant() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let run = reader.post("/tools/call", call("crib.read")).await;
    let path = format!("/v1/runs/{}/events", run.header("toolcrib-run-id"));
    let colleague = gw.principal("colleague", ["files:read"]).await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    let foreign = gw.principal_of("other", "reader", &["*"]).await;
    assert_eq!(reader.get(&path).await.status, 200);
    assert_eq!(auditor.get(&path).await.status, 200);
    let unknown = reader.get("/v1/runs/no-such-run/events").await;
    assert_eq!(unknown.status, 404);
    for stranger in [colleague, foreign] {
        assert_eq!(stranger.get(&path).await.body, unknown.body);
    }
    for odd in ["%FF", "%00", "a%20b", "a%2Fb"] {
        let reply = reader.get(&format!("/v1/runs/{odd}/events")).await;
        assert_eq!((reply.status, reply.body), (404, unknown.body.clone()), "{odd}");
    }
}

/// A denied call is recorded as a pair without a duration, and with the decision.
#[tokio::test]
async fn a_denied_call_leaves_its_events() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = reader.post("/tools/call", call("crib.write")).await;
    assert_eq!(reply.status, 403);
    let path = format!("/v1/runs/{}/events", reply.header("toolcrib-run-id"));
    let events = reader.get(&path).await.json();
    let list = &events["events"];
    assert_eq!(
        column(list, "type"),
        ["agent.toolCalled", "authorization.decided", "agent.toolReturned"]
    );
    assert_eq!(list[1]["payload"]["allowed"], false);
    assert_eq!(list[1]["payload"]["missing"], json!(["files:write"]));
    assert_eq!(list[2]["payload"]["status"], "forbidden");
    assert_eq!(list[2]["payload"]["durationMs"], Value::Null);
    assert_eq!(gw.runs("crib", "write"), 0);
}

#[tokio::test]
async fn an_auditor_follows_the_record_of_its_tenant() {
    let gw = fixture().start().await;
    let reader = gw.principal("reader", ["files:read"]).await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    for _ in 0..3 {
        reader.post("/tools/call", call("crib.read")).await;
    }
    let other = gw.principal_of("other", "x", &["files:read"]).await;
    other.post("/tools/call", json!({ "request": { "tool_id": "other.secret" } })).await;

    let page = auditor.get("/v1/events?after=0&limit=4").await.json();
    assert_eq!(page["events"].as_array().unwrap().len(), 4);
    let next = page["next"].as_u64().unwrap();
    assert_eq!(page["events"][3]["position"], next);
    let rest = auditor.get(&format!("/v1/events?after={next}")).await.json();
    assert_eq!(rest["events"].as_array().unwrap().len(), 2, "the other tenant's are not here");
    let end = rest["next"].as_u64().unwrap();
    let none = auditor.get(&format!("/v1/events?after={end}")).await.json();
    assert_eq!(none, json!({ "tenant": "acme", "events": [], "next": end }));
    // Without a position: the newest.
    let newest = auditor.get("/v1/events?limit=1").await.json();
    assert_eq!(newest["events"][0], rest["events"][1]);
    // I-9: positions reveal nothing about other tenants.
    let all = auditor.get("/v1/events?after=0").await.json();
    assert_eq!(positions(&all), [1, 2, 3, 4, 5, 6]);
    // I-71: each event is chained to the previous one, across pages.
    for pair in all["events"].as_array().unwrap().windows(2) {
        assert_eq!(pair[1]["prevHash"], pair[0]["hash"]);
    }
    assert_eq!(rest["events"][0]["prevHash"], page["events"][3]["hash"]);
    assert_eq!(all["events"][0]["prevHash"], "0".repeat(64));
}

#[tokio::test]
async fn parameters_of_the_record_are_checked() {
    let gw = fixture().start().await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    for bad in ["after=x", "after=-1", "limit=0", "limit=1001", "limit=", "after=1e3"] {
        let reply = auditor.get(&format!("/v1/events?{bad}")).await;
        assert_eq!(
            (reply.status, &reply.json()["error"]),
            (400, &json!("validation_error")),
            "{bad}"
        );
    }
    let reader = gw.principal("reader", ["files:read"]).await;
    let reply = reader.get("/v1/events").await;
    insta::assert_snapshot!(reply.text(), @r#"{"error":"forbidden","message":"this needs the scope `audit:read`","details":{"scopeRequired":"audit:read"}}"#);
    assert_eq!(reply.status, 403);
}

#[tokio::test]
async fn operators_see_how_sources_are_doing() {
    let gw = fixture().start().await;
    let operator = gw.principal("operator", ["sources:read"]).await;
    let sources = operator.get("/v1/sources").await.json();
    assert_eq!(column(&sources["sources"], "id"), ["crib"], "not the other tenant's");
    let crib = &sources["sources"][0];
    assert_eq!(
        (&crib["kind"], &crib["state"], &crib["tools"]),
        (&json!("mcp"), &json!("ready"), &json!(8))
    );
}

/// I-9: the record of a probe does not reveal to the prober's own auditor whether the tool exists.
#[tokio::test]
async fn the_record_tells_a_tenant_nothing_of_another() {
    let gw = fixture().start().await;
    let prober = gw.principal("prober", ["audit:read"]).await;
    for id in ["mcp:other.secret", "mcp:no.such"] {
        prober.get(&format!("/v1/tools/{id}")).await;
        prober.post("/tools/call", call(&id.replace("mcp:", ""))).await;
    }
    gw.event(|event| event["payload"]["resource"] == "mcp:other.secret").await;
    // The log keeps its order, so all events before the marker have been written.
    prober.get("/v1/tools/mcp:crib.write").await;
    gw.event(|event| event["payload"]["resource"] == "mcp:crib.write").await;
    let page = prober.get("/v1/events?after=0").await;
    assert!(!page.text().contains("secret"), "{}", page.text());
    let events = page.json();
    let probes: Vec<_> = events["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| &item["event"]["payload"])
        .filter(|payload| payload["resource"] == "unknown")
        .collect();
    assert_eq!(probes.len(), 4, "{events:#}");
    let count = events["events"].as_array().unwrap().len();
    assert_eq!(positions(&events), (1..=count as u64).collect::<Vec<_>>(), "{events:#}");
    assert!(probes.iter().all(|probe| probe["reason"] == "unknown"));
}

/// The same conditions select events in the list, the summary and the export.
#[tokio::test]
async fn an_auditor_searches_the_record() {
    let gw = fixture().start().await;
    let ada = gw.principal("ada", ["files:read"]).await;
    let bob = gw.principal("bob", ["files:read"]).await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    for _ in 0..3 {
        ada.post("/tools/call", call("crib.read")).await;
    }
    bob.post("/tools/call", call("crib.read")).await;
    bob.post("/tools/call", call("crib.write")).await;
    let foreign = gw.principal_of("other", "ada", &["*"]).await;
    foreign.post("/tools/call", json!({ "request": { "tool_id": "other.secret" } })).await;

    let of_ada = auditor.get("/v1/events?principal=ada&limit=4").await.json();
    assert_eq!(of_ada["tenant"], "acme");
    assert_eq!(positions(&of_ada), [3, 4, 5, 6], "the newest four, in order");
    let facts = &of_ada["events"][3]["facts"];
    assert_eq!(*facts, json!({ "principal": "ada", "tool": "mcp:crib.read", "status": "ok" }));
    let cursor = of_ada["cursor"].as_str().unwrap();
    let older = auditor.get(&format!("/v1/events?principal=ada&cursor={cursor}")).await.json();
    assert_eq!((positions(&older), &older["cursor"]), (vec![1, 2], &Value::Null));
    // The text of the page and of the command line, and a page from the other end.
    let denied = auditor.get("/v1/events?query=actor%3Abob%20status%3Adenied&after=0").await.json();
    assert_eq!(
        denied["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["event"]["type"].as_str().unwrap())
            .collect::<Vec<_>>(),
        ["authorization.decided", "agent.toolReturned"]
    );
    assert_eq!(denied["next"], 11, "everything was searched");

    let summary = auditor.get("/v1/events/summary?tool=crib__*&buckets=10").await.json();
    let totals = &summary["totals"];
    assert_eq!(
        (&totals["ok"], &totals["failed"], &totals["denied"]),
        (&json!(4), &json!(0), &json!(1))
    );
    assert_eq!(column(&summary["principals"], "name"), ["ada", "bob"]);
    assert_eq!(column(&summary["tools"], "name"), ["mcp:crib.read", "mcp:crib.write"]);
    assert!(!summary.to_string().contains("secret"));

    let export = auditor.get("/v1/events/export?principal=bob&type=agent.*").await;
    assert_eq!(export.header("content-type"), "application/x-ndjson");
    assert!(export.header("content-disposition").starts_with("attachment; filename=\"record-"));
    let lines: Vec<Value> =
        export.text().lines().map(|it| serde_json::from_str(it).unwrap()).collect();
    assert_eq!(lines.len(), 4);
    assert!(lines.iter().all(|it| it["chain"]["hash"].as_str().unwrap().len() == 64));
    let table = auditor.get("/v1/events/export?format=csv&principal=bob").await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8; header=present");
    assert!(table.header("content-disposition").ends_with(".csv\""));
    let rows: Vec<String> = table.text().lines().map(str::to_owned).collect();
    assert_eq!(
        rows[0],
        "time,event,principal,tool,status,code,action,resource,took_ms,run,event_id,position,hash,\
         actors"
    );
    assert!(rows[1].contains(",agent.toolCalled,bob,mcp:crib.read,,,,,,"), "{}", rows[1]);
    let denied = rows.iter().find(|it| it.contains("authorization.decided")).unwrap();
    assert!(
        denied.contains(",bob,mcp:crib.write,denied,scope,tools:call,mcp:crib.write,,"),
        "{denied}"
    );
    // The slowest calls come first, in one page.
    let slowest = auditor.get("/v1/events?sort=slowest&principal=ada").await.json();
    let times: Vec<u64> = slowest["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["event"]["payload"]["durationMs"].as_u64().unwrap())
        .collect();
    assert!(times.len() == 3 && times.is_sorted_by(|a, b| a >= b), "{times:?}");
    assert_eq!(slowest.get("cursor"), None);
    assert_eq!(column(&summary["slowest"], "name"), ["mcp:crib.read"]);
    let ocsf = auditor.get("/v1/events/export?format=ocsf&principal=bob&type=agent.*").await;
    assert!(ocsf.text().lines().all(|it| it.contains("class_uid")));
}

#[tokio::test]
async fn conditions_of_a_search_are_checked() {
    let gw = fixture().start().await;
    let auditor = gw.principal("auditor", ["audit:read"]).await;
    for (path, part) in [
        ("/v1/events?color=red", "unknown query parameter"),
        ("/v1/events?principal=ada&principal=bob", "must be given once"),
        ("/v1/events/summary?from=7d&from=1d", "must be given once"),
        ("/v1/events/export?tool=a&to%6Fl=b", "must be given once"),
        ("/v1/events?principal=%ff", "must be given once, as UTF-8"),
        ("/v1/events?status=den*", "has no `*`"),
        ("/v1/events?query=color%3Ared", "there is no field `color`"),
        ("/v1/events?from=tomorrow", "`from` must be a time"),
        ("/v1/events?took=1s", "`took` must be a comparison"),
        ("/v1/events?query=OR", "`OR` joins two conditions"),
        ("/v1/events?sort=slowest&after=1", "`sort` cannot be combined"),
        ("/v1/events?sort=fastest", "must be one of slowest"),
        ("/v1/events?principal=", "`principal` must have a value"),
        ("/v1/events?query=actor%3Aa&principal=b", "`principal` is given twice"),
        ("/v1/events?id=abc", "at least its first 8 characters"),
        ("/v1/events?after=1&cursor=2", "cannot be combined"),
        ("/v1/events?cursor=x", "must be a whole number"),
        ("/v1/events/summary?buckets=0", "must be a whole number"),
        ("/v1/events/summary?limit=1", "unknown query parameter"),
        ("/v1/events/export?format=otlp2", "must be one of"),
        ("/v1/events/export?after=1", "unknown query parameter"),
    ] {
        let reply = auditor.get(path).await;
        let body = reply.json();
        assert_eq!((reply.status, &body["error"]), (400, &json!("validation_error")), "{path}");
        assert!(body["message"].as_str().unwrap().contains(part), "{path}: {body}");
    }
}
