//! Runs and their events.

use http::Method;
use serde_json::{Value, json};
use toolcrib_testkit::gateway::{Actor, TestGateway, TestSource, TestTool};

use super::schemas;

async fn gateway() -> TestGateway {
    let tool = |name: &str| TestTool::new(name).scopes(["files:read"]);
    TestGateway::builder()
        .source(
            TestSource::new("crib")
                .tool(tool("read"))
                .tool(tool("ask").rule("approval = \"always\""))
                .tool(tool("slow").runs_as(|_| std::future::pending())),
        )
        .workflow("quick", "steps: [{ id: a, tool: 'mcp:crib.read' }]\noutputs: {}")
        .workflow("stuck", "steps: [{ id: a, tool: 'mcp:crib.slow' }]\noutputs: {}")
        .start()
        .await
}

async fn caller(gw: &TestGateway, name: &str) -> Actor {
    gw.principal(name, ["files:read", "tools:flows"]).await.with("openwop-version", "2.0")
}

/// Calls a tool and returns the id of its run, without the tenant.
async fn call(caller: &Actor, tool: &str) -> String {
    let reply = caller.post("/tools/call", json!({ "request": { "tool_id": tool } })).await;
    let run = reply.header("toolcrib-run-id").to_owned();
    assert!(!run.is_empty(), "{}", reply.text());
    run
}

/// Returns the value of `field` of each frame.
fn column<'a>(stream: &'a str, field: &str) -> Vec<&'a str> {
    stream.lines().filter_map(|line| line.strip_prefix(field)?.strip_prefix(": ")).collect()
}

/// Returns the first answer of `ask`, which is repeated for some seconds.
async fn until<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("no answer in time");
}

fn code(reply: &toolcrib_testkit::gateway::Reply) -> (u16, String) {
    (reply.status, reply.json()["error"].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn runs_are_listed_by_pages_and_shown() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    assert_eq!(ann.get("/runs").await.parts(), (200, json!({ "runs": [] })));
    let mut made = Vec::new();
    for _ in 0..3 {
        made.push(call(&ann, "flows__quick").await);
    }
    made.reverse();
    let whole = ann.get("/runs").await.json();
    schemas::check(&schemas::runs(), &whole);
    let runs = whole["runs"].as_array().unwrap();
    let tenant = runs[0]["owner"]["tenant"].as_str().unwrap().to_owned();
    let ids: Vec<String> = made.iter().map(|run| format!("{tenant}/{run}")).collect();
    let listed: Vec<&str> = runs.iter().map(|run| run["runId"].as_str().unwrap()).collect();
    assert_eq!(listed, ids);
    assert_eq!((&runs[0]["status"], whole.get("nextCursor")), (&json!("completed"), None));

    let mut paged = Vec::new();
    let mut path = "/runs?limit=2".to_owned();
    for _ in 0..2 {
        let page = ann.get(&path).await.json();
        schemas::check(&schemas::runs(), &page);
        paged.extend(page["runs"].as_array().unwrap().clone());
        let cursor = page["nextCursor"].as_str().unwrap_or_default();
        path = format!("/runs?limit=2&cursor={cursor}");
    }
    assert_eq!(&paged, runs);
    for bad in ["cursor=x", "cursor=", "limit=0", "limit=-1", "limit=x", "status=done"] {
        let refused = code(&ann.get(&format!("/runs?{bad}")).await);
        assert_eq!(refused, (400, "validation_error".to_owned()), "{bad}");
    }
    assert_eq!(ann.get("/runs?status=running").await.json(), json!({ "runs": [] }));
    assert_eq!(ann.get("/runs?status=paused").await.json(), json!({ "runs": [] }));
    assert_eq!(ann.get("/runs?status=completed").await.json(), whole);
    assert_eq!(ann.get("/runs?limit=99999&unknown=1").await.json(), whole);

    let run = &made[0];
    for form in [format!("{tenant}~2F{run}"), format!("{tenant}%2F{run}"), run.clone()] {
        let shown = ann.get(&format!("/runs/{form}")).await;
        schemas::check(&schemas::run(), &shown.json());
        assert_eq!(shown.json(), runs[0], "{form}");
        let tag = shown.header("etag").to_owned();
        let again = ann.with("if-none-match", &tag).get(&format!("/runs/{form}")).await;
        assert_eq!((again.status, again.header("openwop-version")), (304, "2.0"));
    }
}

/// I-9: whether a run exists is visible to those only who may see it.
#[tokio::test]
async fn runs_of_others_look_like_none() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let run = call(&ann, "flows__quick").await;
    let tenant = ann.get("/runs").await.json()["runs"][0]["owner"]["tenant"].clone();
    let tenant = tenant.as_str().unwrap();
    let bob = caller(&gw, "bob").await;
    let eve = gw.principal_of("elsewhere", "ann", &["files:read", "audit:read"]).await;
    let eve = eve.with("openwop-version", "2.0");
    for (method, path) in [
        (Method::GET, ""),
        (Method::GET, "/events"),
        (Method::GET, "/events?streamMode=debug"),
        (Method::POST, "/cancel"),
    ] {
        let ask = async |who: &Actor, id: &str| {
            code(&who.send(method.clone(), &format!("/runs/{id}{path}"), None).await)
        };
        let none = (404, "not_found".to_owned());
        let foreign = (403, "id_tenant_mismatch".to_owned());
        for id in [format!("{tenant}~2F{run}"), run.clone()] {
            assert_eq!(ask(&bob, &id).await, none, "{path}");
        }
        // The tenant is compared first, so the answer is the same for runs that do not exist.
        assert_eq!(ask(&eve, &format!("{tenant}~2F{run}")).await, foreign);
        assert_eq!(ask(&eve, &format!("{tenant}~2Fabsent")).await, foreign);
        assert_eq!(ask(&eve, &run).await, none);
        assert_eq!(ask(&ann, &format!("{tenant}~2Fabsent")).await, none);
        assert_eq!(ask(&ann, "a~2").await, (400, "validation_error".to_owned()));
    }
    assert_eq!(bob.get("/runs").await.json(), json!({ "runs": [] }));
    assert_eq!(eve.get("/runs").await.json(), json!({ "runs": [] }));
    let auditor = gw.principal("auditor", ["audit:read"]).await.with("openwop-version", "2.0");
    assert_eq!(auditor.get(&format!("/runs/{run}")).await.status, 200);
    assert_eq!(auditor.get("/runs").await.json()["runs"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn running_workflows_can_be_cancelled_once() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let call = {
        let ann = ann.clone();
        tokio::spawn(async move { call(&ann, "flows__stuck").await })
    };
    let runs = until(async || {
        let runs = ann.get("/runs?status=running").await.json();
        (!runs["runs"].as_array().unwrap().is_empty()).then_some(runs)
    });
    let id = runs.await["runs"][0]["runId"].as_str().unwrap().replace('/', "~2F");
    let path = format!("/runs/{id}/cancel");
    for bad in ["[]", "{\"reason\":1}", "{\"canary\":1}", "x"] {
        let refused = ann.post_text(&path, bad).await;
        assert_eq!(code(&refused), (400, "validation_error".to_owned()), "{bad}");
        assert!(!refused.text().contains("canary"));
    }
    let cancelled = ann.post(&path, json!({ "reason": "no longer needed" })).await;
    assert_eq!(cancelled.status, 200, "{}", cancelled.text());
    schemas::check(&schemas::cancelled(), &cancelled.json());
    assert_eq!(cancelled.header("openwop-version"), "2.0");
    assert_eq!(cancelled.header("cache-control"), "no-store");
    assert_eq!(cancelled.json()["status"], "cancelling");
    call.await.unwrap();
    let over = ann.send(Method::POST, &path, None).await;
    assert_eq!(code(&over), (409, "run_terminal".to_owned()));
    assert_eq!(ann.get(&format!("/runs/{id}")).await.json()["status"], "cancelled");
}

#[tokio::test]
async fn the_events_of_a_run_are_streamed_in_the_words_of_v2() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let run = call(&ann, "crib.read").await;
    let path = format!("/runs/{run}/events?streamMode=debug&resumable=true");
    let stream = ann.get(&path).await;
    assert_eq!(stream.status, 200);
    assert_eq!(stream.header("content-type"), "text/event-stream");
    assert_eq!(stream.header("openwop-version"), "2.0");
    let text = stream.text();
    assert_eq!(column(&text, "event"), ["agent.tool-called", "agent.tool-returned"]);
    assert_eq!(column(&text, "id"), ["0", "1"]);
    let events: Vec<Value> =
        column(&text, "data").iter().map(|data| serde_json::from_str(data).unwrap()).collect();
    for event in &events {
        schemas::check(&schemas::event(), event);
        assert!(event["runId"].as_str().unwrap().ends_with(&format!("/{run}")));
    }
    assert_eq!(events[1]["causationId"], events[0]["eventId"]);
    assert_eq!(events[1]["payload"]["x-principal"], "ann");
    assert_eq!(events[1]["payload"]["status"], "ok");

    // The rest of the stream.
    let rest = ann.with("last-event-id", "0").get(&path).await.text();
    assert_eq!(column(&rest, "id"), ["1"]);
    assert_eq!(column(&ann.with("last-event-id", "1").get(&path).await.text(), "id").len(), 0);
    // A call has nothing of the default mode.
    let updates = ann.get(&format!("/runs/{run}/events")).await;
    assert_eq!((updates.status, column(&updates.text(), "data").len()), (200, 0));
    let both = format!("/runs/{run}/events?streamMode=updates,debug");
    assert_eq!(column(&ann.get(&both).await.text(), "event"), ["debug", "debug"]);
    let batch = ann.get(&format!("{path}&bufferMs=50")).await.text();
    assert_eq!((column(&batch, "event"), column(&batch, "id")), (vec!["batch"], vec!["1"]));
    let documents: Value = serde_json::from_str(column(&batch, "data")[0]).unwrap();
    assert_eq!(documents, json!(events));
    for (query, expected) in [
        ("streamMode=values", "unsupported_stream_mode"),
        ("streamMode=", "unsupported_stream_mode"),
        ("streamMode=updates,messages", "unsupported_stream_mode"),
        ("bufferMs=5001", "validation_error"),
        ("bufferMs=-1", "validation_error"),
    ] {
        let refused = ann.get(&format!("/runs/{run}/events?{query}")).await;
        assert_eq!(code(&refused), (400, expected.to_owned()), "{query}");
        schemas::check(&schemas::error(400), &refused.json());
    }
    let mode = ann.get("/runs/absent/events?streamMode=values").await;
    assert_eq!(mode.json()["details"], json!({ "supported": ["updates", "debug"] }));
    let wrong = ann.with("last-event-id", "x").get(&path).await;
    assert_eq!(code(&wrong), (400, "validation_error".to_owned()));
}

/// The stream of a run that waits stays open, sees what follows, and ends with it.
#[tokio::test]
async fn a_stream_follows_a_run_that_waits_for_approval() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let run = call(&ann, "crib.ask").await;
    let path = format!("/runs/{run}/events");
    let mut stream = ann.open(Method::GET, &path, None).await;
    let asked = stream.next().await.unwrap();
    schemas::check(&schemas::event(), &asked);
    assert_eq!(asked["type"], "interrupt.requested");
    let id = asked["payload"]["key"].as_str().unwrap();
    let bob = gw.principal("bob", ["approvals:respond"]).await;
    let vote = bob.post(&format!("/v1/approvals/{id}"), json!({ "verdict": "reject" })).await;
    assert_eq!(vote.status, 200, "{}", vote.text());
    let answered = stream.next().await.unwrap();
    schemas::check(&schemas::event(), &answered);
    assert_eq!(answered["type"], "approval.rejected");
    assert_eq!(answered["payload"]["resolvedBy"]["subjectId"], "bob");
    assert_eq!(stream.next().await, None);
}

/// An MCP client may keep its session, and with it the tool sessions of its run, for hours.
#[tokio::test]
async fn a_stream_ends_before_the_session_of_its_calls() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let client =
        gw.bearer(ann.key().unwrap()).with("accept", "application/json, text/event-stream");
    let message = |method: &str, params: Value| json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
    let hello = json!({
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": { "name": "test", "version": "1" },
    });
    let session = client.post("/mcp", message("initialize", hello)).await;
    let client = client.with("mcp-session-id", session.header("mcp-session-id"));
    let run = message("tools/call", json!({ "name": "flows__quick", "arguments": {} }));
    let called = client.post("/mcp", run).await;
    let path = format!("/runs/{}/events?streamMode=debug", called.header("toolcrib-run-id"));
    let mut stream = ann.open(Method::GET, &path, None).await;
    let mut types = Vec::new();
    while let Some(event) = stream.next().await {
        schemas::check(&schemas::event(), &event);
        types.push(event["type"].as_str().unwrap().to_owned());
    }
    let count = |wanted: &str| types.iter().filter(|it| *it == wanted).count();
    assert_eq!((count("agent.tool-called"), count("agent.tool-returned")), (2, 2), "{types:?}");
    // The workflow has ended its own session.
    assert_eq!((count("tool.session-opened"), count("tool.session-closed")), (2, 1), "{types:?}");
    assert_eq!(client.delete("/mcp").await.status, 204);
}

#[tokio::test]
async fn a_caller_has_a_limited_number_of_streams() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let path = format!("/runs/{}/events", call(&ann, "crib.ask").await);
    let mut open = Vec::new();
    for _ in 0..toolcrib_gateway::listeners::MAX_LISTENERS_OF_ONE {
        let stream = ann.open(Method::GET, &path, None).await;
        assert_eq!(stream.status, 200);
        open.push(stream);
    }
    let refused = ann.get(&path).await;
    assert_eq!(code(&refused), (429, "rate_limited".to_owned()));
    assert_eq!((refused.header("retry-after"), refused.json().get("details")), ("1", None));
    schemas::check(&schemas::error(429), &refused.json());
    drop(open);
    until(async || (ann.open(Method::GET, &path, None).await.status == 200).then_some(())).await;
}

/// A stream ends with the validity of its key.
#[tokio::test]
async fn a_revoked_key_ends_its_streams() {
    let gw = gateway().await;
    let ann = caller(&gw, "ann").await;
    let path = format!("/runs/{}/events", call(&ann, "crib.ask").await);
    let mut stream = ann.open(Method::GET, &path, None).await;
    stream.next().await.unwrap();
    gw.revoke(&ann).await;
    assert_eq!(stream.next().await, None);
}

/// The events of other callers' runs are for those who hold the scope now.
#[tokio::test]
async fn a_lost_scope_ends_the_streams_that_it_allowed() {
    let role = |scope: &str| format!("[[role]]\nname = \"auditor\"\nscopes = [\"{scope}\"]");
    let tool = TestTool::new("ask").scopes(["files:read"]).rule("approval = \"always\"");
    let gw = TestGateway::builder()
        .config(&role("audit:read"))
        .source(TestSource::new("crib").tool(tool))
        .start()
        .await;
    let ann = caller(&gw, "ann").await;
    let path = format!("/runs/{}/events", call(&ann, "crib.ask").await);
    let auditor = gw.principal_with_roles("acme", "eve", &["auditor"]).await;
    let mut foreign = auditor.with("openwop-version", "2.0").open(Method::GET, &path, None).await;
    let mut own = ann.open(Method::GET, &path, None).await;
    assert_eq!(foreign.next().await.unwrap()["type"], "interrupt.requested");
    assert_eq!(own.next().await.unwrap()["type"], "interrupt.requested");
    gw.reload(&role("files:read")).await;
    assert_eq!(foreign.next().await, None);
    // A caller's own run needs no scope.
    let still_open = tokio::time::timeout(std::time::Duration::from_millis(1_500), own.next());
    assert!(still_open.await.is_err());
}

/// Nobody may ever decide about an approval that a workflow did not wait for.
#[tokio::test]
async fn the_stream_of_a_failed_workflow_does_not_wait_for_its_approvals() {
    let tool = TestTool::new("ask").scopes(["files:read"]).rule("approval = \"always\"");
    let gw = TestGateway::builder()
        .config("[approvals]\nwait = \"0s\"")
        .source(TestSource::new("crib").tool(tool))
        .workflow("asks", "steps: [{ id: a, tool: 'mcp:crib.ask' }]\noutputs: {}")
        .start()
        .await;
    let ann = caller(&gw, "ann").await;
    let run = call(&ann, "flows__asks").await;
    assert_eq!(ann.get(&format!("/runs/{run}")).await.json()["status"], "failed");
    let path = format!("/runs/{run}/events?streamMode=debug");
    let stream = tokio::time::timeout(std::time::Duration::from_secs(20), ann.get(&path));
    let text = stream.await.unwrap().text();
    let kinds = column(&text, "event");
    assert!(kinds.contains(&"interrupt.requested"), "{kinds:?}");
    assert!(!kinds.contains(&"approval.rejected"), "{kinds:?}");
}
