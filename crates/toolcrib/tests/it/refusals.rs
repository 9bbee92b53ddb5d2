//! Refusals are cheap for a caller, so they must take little of the event log.

use std::{path::Path, time::Duration};

use futures_util::future::join_all;
use serde_json::{Value, json};
use toolcrib_core::{
    event::{EventBody, LoggedEvent},
    store::Storage as _,
};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

/// Requests of each kind. Together they far exceed the number recorded individually per principal.
const EACH: usize = 400;

async fn gateway() -> TestGateway {
    let input = json!({ "type": "object", "required": ["n"] });
    TestGateway::builder()
        .config("[gate]\nrate = \"1000000/s\"")
        .tool(TestTool::new("rare").scopes(["files:read"]).rule("rate = \"1/d\""))
        .tool(TestTool::new("strict").scopes(["files:read"]).input(input))
        .tool(TestTool::new("hidden").scopes(["files:write"]))
        .tool(TestTool::new("asks").scopes(["files:read"]).rule("approval = \"always\""))
        // No bucket refills while the test runs.
        .manual_clock()
        .start()
        .await
}

/// Returns the size of the closed store on disk.
fn size(directory: &Path) -> u64 {
    let files = ["test.db", "test.db-wal"].into_iter();
    files.filter_map(|file| Some(directory.join(file).metadata().ok()?.len())).sum()
}

/// Sends one request of each kind; only the first of `rare` runs.
async fn refused(caller: &Actor) {
    let call = |id: &str| json!({ "request": { "tool_id": id } });
    for (tool, status) in [
        ("crib.rare", 429),
        ("crib.strict", 422),
        ("crib.hidden", 403),
        // In this protocol, a pending approval is a result of the tool.
        ("crib.asks", 200),
        ("crib.absent", 400),
    ] {
        assert_eq!(caller.post("/tools/call", call(tool)).await.status, status, "{tool}");
    }
    assert_eq!(caller.get("/v1/tools/mcp:crib.absent").await.status, 404);
    assert_eq!(caller.get("/v1/events").await.status, 403);
}

/// Returns the number of refusals in the log.
fn counted(events: &[LoggedEvent]) -> u64 {
    let of = |logged: &LoggedEvent| match &logged.event.body {
        EventBody::ToolReturned(returned) => u64::from(returned.duration_ms.is_none()),
        // A decision that belongs to a pair is counted with the pair.
        EventBody::AuthorizationDecided(decided) if logged.event.causation_id.is_none() => {
            1 + decided.repeated.unwrap_or(0)
        }
        _ => 0,
    };
    events.iter().map(of).sum()
}

#[tokio::test]
async fn thousands_of_refusals_take_little_of_the_store_and_every_one_is_counted() {
    let idle = gateway().await;
    idle.gateway.close().await;
    idle.store.close().await;
    let gw = gateway().await;
    let caller = gw.principal("loud", ["files:read"]).await;
    let rare = json!({ "request": { "tool_id": "crib.rare" } });
    assert_eq!(caller.post("/tools/call", rare).await.status, 200);
    for _ in 0..EACH / 10 {
        join_all((0..10).map(|_| refused(&caller))).await;
    }
    assert_eq!((gw.runs("crib", "rare"), gw.runs("crib", "asks")), (1, 0));
    let number = 7 * EACH as u64;
    // The first refusals are recorded in full.
    let pairs = |events: &[LoggedEvent]| {
        let kinds = events.iter().map(|logged| logged.event.body.kind());
        kinds.filter(|kind| *kind == "agent.toolReturned").count()
    };
    let before = gw.events().await;
    assert!(pairs(&before) > 40, "{}", pairs(&before));
    // Closing the gateway records the suppressed ones.
    gw.gateway.close().await;
    let events = gw.events().await;
    assert_eq!(counted(&events), number);
    assert!(events.len() < 400, "{}", events.len());
    let told: Vec<Value> = events
        .iter()
        .map(|logged| serde_json::to_value(&logged.event).unwrap()["payload"].clone())
        .filter(|payload| payload["repeated"].as_u64() > Some(100))
        .collect();
    for (resource, reason) in [
        ("mcp:crib.rare", "rate_limited"),
        ("mcp:crib.strict", "validation_error"),
        ("mcp:crib.hidden", "scope"),
        ("mcp:crib.asks", "approval_required"),
        ("unknown", "unknown"),
        ("/v1/events", "scope"),
    ] {
        let found = told.iter().any(|it| it["resource"] == resource && it["reason"] == reason);
        assert!(found, "{resource} {reason}: {told:#?}");
    }
    gw.store.close().await;
    let grown = size(gw.directory()) - size(idle.directory());
    assert!(grown / number <= 200, "{grown} bytes for {number} refusals");
}

/// A refusal that is only counted names a run without events; one that is recorded is found at
/// once.
#[tokio::test]
async fn who_is_denied_and_then_reads_finds_its_pair() {
    let gw = gateway().await;
    let caller = gw.principal("quiet", ["files:read"]).await;
    for _ in 0..20 {
        let ask = json!({ "request": { "tool_id": "crib.hidden" } });
        let reply = caller.post("/tools/call", ask).await;
        let run = reply.header("toolcrib-run-id").to_owned();
        let events = caller.get(&format!("/v1/runs/{run}/events")).await;
        assert_eq!(events.status, 200, "{run}");
        let events = events.json()["events"].clone();
        let types: Vec<_> = events.as_array().unwrap().iter().map(|it| &it["type"]).collect();
        assert_eq!(types, ["agent.toolCalled", "authorization.decided", "agent.toolReturned"]);
        assert!(events[0]["payload"].get("argsHash").is_none(), "its arguments are not read");
    }
}

/// A link to connect an account takes a row of the store, like the events of its refusal.
#[tokio::test]
async fn a_call_without_an_account_gets_no_link_after_too_many_refusals() {
    let notes = TestSource::new("notes").tenants(["acme"]).accounts("principal");
    let gw = TestGateway::builder()
        .config("[gate]\nrate = \"1000000/s\"\n[server]\npublic_url = \"https://crib.example\"")
        .source(notes.tool(TestTool::new("read").scopes(["files:read"])))
        .manual_clock()
        .start()
        .await;
    let loud = gw.principal("loud", ["files:read"]).await;
    let quiet = gw.principal("quiet", ["files:read"]).await;
    let has_link = async |caller: &Actor| {
        let reply = caller.post("/explorer/tools/notes__read/call", json!({})).await;
        let details = reply.json()["details"].clone();
        assert_eq!((reply.status, &details["connection"]), (403, &json!("required")));
        assert_eq!(details["link"].is_string(), reply.text().contains("#/connect/"));
        details["link"].is_string()
    };
    for number in 1..=100 {
        assert!(has_link(&loud).await, "{number}");
    }
    for _ in 0..3 {
        assert!(!has_link(&loud).await);
    }
    assert!(has_link(&quiet).await, "the bound is one of each principal");
    // The console and the command still make links.
    let made = loud.post("/v1/connections/link", json!({ "source": "notes" })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    gw.advance(Duration::from_secs(3)).await;
    assert_eq!((has_link(&loud).await, has_link(&loud).await), (true, false));
    assert_eq!(gw.runs("notes", "read"), 0);
}
