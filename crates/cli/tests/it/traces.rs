//! Traces and logs of a server, at a receiver that decodes them.

use opentelemetry_proto::tonic::trace::v1::{Span, span::SpanKind};
use serde_json::{Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{
    Caller, Receiver, Recorder, Server, attribute, dir, eventually_async as eventually, hex, key,
    recorder, toolcrib, write_config,
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";
/// Texts that must be nowhere but in the call.
const CANARIES: [&str; 4] = ["CANARY-ARGUMENT", "CANARY-RESULT", "CANARY-SECRET", "CANARY-TOKEN"];

const SHOP: &str = "
openapi: 3.0.3
info: {title: Shop, version: 1.0.0}
paths:
  /items/{id}:
    get:
      operationId: item
      parameters:
        - {name: id, in: path, required: true, schema: {type: string}}
      responses: {'200': {description: ok, content: {application/json: {schema: {type: object}}}}}
";
const FLOW: &str = "
id: report
inputs:
  type: object
  properties: { id: { type: string } }
  required: [id]
steps:
  - { id: fetch, tool: 'connector:shop.item', arguments: { id: { $ref: /inputs/id } } }
outputs:
  item: { $ref: /steps/fetch/result }
";

/// A shop, a workflow that uses it, and an MCP server.
struct Site {
    dir: tempfile::TempDir,
    shop: Recorder,
    upstream: FaultyHttp,
    key: String,
}

impl Site {
    /// Prepares a server with `more` in its configuration.
    fn new(more: &str) -> Self {
        let dir = dir();
        let result = r#"{"name":"CANARY-RESULT"}"#;
        let shop = Recorder::start(move |_, _| recorder::json(200, result));
        let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
        std::fs::create_dir_all(dir.path().join("flows")).unwrap();
        std::fs::write(dir.path().join("flows/report.yaml"), FLOW).unwrap();
        std::fs::write(dir.path().join("shop.yaml"), SHOP).unwrap();
        std::fs::write(dir.path().join("secret"), CANARIES[2]).unwrap();
        std::fs::write(dir.path().join("token"), CANARIES[3]).unwrap();
        write_config(
            dir.path(),
            &format!(
                "[server]\nlisten = \"127.0.0.1:0\"\npublic_metrics = true\n{more}\n\
                 [[source]]\nid = \"shop\"\nkind = \"connector\"\ndocument = \"shop.yaml\"\n\
                 base_url = \"{}\"\nheaders = {{ x-shop-key = {{ file = \"secret\" }} }}\n\
                 [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
                 [[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flows/*.yaml\"]\n",
                shop.url,
                upstream.url(),
            ),
        );
        let key = key(dir.path(), &["--scope", "*", "--scope", "metrics:all"]).1;
        Self { dir, shop, upstream, key }
    }

    /// Starts the server, with its most detailed own log, and waits for its tools.
    async fn serve(&self) -> (Server, Caller) {
        let server =
            Server::of(toolcrib(self.dir.path()).arg("serve").env("TOOLCRIB_LOG", "debug"));
        let caller = server.caller(Some(&self.key));
        for tool in ["openwop:workflow.report", "mcp:up.echo"] {
            eventually(tool, async || {
                let tools = caller.get("/v1/tools").await.1;
                tools.as_array().unwrap().iter().any(|it| it["toolId"] == tool)
            })
            .await;
        }
        self.shop.heard();
        (server, caller)
    }

    /// Returns the value of a header of the shop's last request.
    fn shop_header(&self, name: &str) -> Option<String> {
        let heard = self.shop.heard();
        let last = heard.last().expect("the shop was called");
        let prefix = format!("{name}: ");
        last.lines().find_map(|line| line.strip_prefix(&prefix)).map(str::to_owned)
    }
}

fn telemetry(receiver: &Receiver, more: &str) -> String {
    format!(
        "[telemetry]\nendpoint = \"{}\"\nprotocol = \"{}\"\n\
         headers = {{ x-token = {{ file = \"token\" }} }}\n{more}\n",
        receiver.endpoint, receiver.protocol
    )
}

fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// Calls the workflow over MCP, as a part of a trace.
async fn call(caller: &Caller, meta: Value) -> Value {
    let arguments = json!({ "id": CANARIES[0] });
    let params = json!({ "name": "flows__report", "arguments": arguments, "_meta": meta });
    let (status, answer) = caller.mcp("tools/call", params).await;
    assert_eq!(status, 200, "{answer}");
    assert!(answer.to_string().contains(CANARIES[1]), "{answer}");
    answer
}

/// The names of `span` and of the spans above it.
fn line(spans: &[Span], span: &Span) -> Vec<String> {
    let mut names = vec![span.name.clone()];
    let mut at = span;
    while let Some(above) = spans.iter().find(|it| it.span_id == at.parent_span_id) {
        names.push(above.name.clone());
        at = above;
    }
    names
}

fn assert_no_canary(place: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{canary} is in {place}: {text}");
    }
}

async fn one_trace(protocol: &'static str) {
    let receiver = Receiver::start(protocol).await;
    let more = telemetry(&receiver, "") + "[log]\nformat = \"json\"\naccess = true";
    let site = Site::new(&more);
    let (server, caller) = site.serve().await;
    call(&caller, json!({ "traceparent": traceparent("00"), "tracestate": "vendor=1" })).await;
    let seen = site.shop_header("traceparent").unwrap();
    let of_call = |spans: Vec<Span>| -> Vec<Span> {
        spans.into_iter().filter(|span| hex(&span.trace_id) == TRACE).collect()
    };
    eventually("the request's span arrives", async || {
        of_call(receiver.spans()).iter().any(|span| span.kind() == SpanKind::Server)
    })
    .await;
    let metrics = caller.text("/metrics").await;
    let stderr = server.stop();
    let spans = of_call(receiver.spans());

    // One trace: the request is below its sender, and every other span below a span that is there.
    for span in &spans {
        let names = line(&spans, span);
        assert_eq!(names.last().unwrap(), "tools/call openwop:workflow.report", "{names:?}");
    }
    let request = spans.iter().find(|span| span.kind() == SpanKind::Server).unwrap();
    assert_eq!(hex(&request.parent_span_id), PARENT);
    assert_eq!(request.trace_state, "vendor=1");
    let upstream = spans.iter().find(|span| span.kind() == SpanKind::Client).unwrap();
    assert_eq!(
        line(&spans, upstream),
        [
            "toolcrib.upstream connector:shop.item",
            "execute_tool connector:shop.item",
            "toolcrib.step fetch",
            "toolcrib.workflow openwop:workflow.report",
            "execute_tool openwop:workflow.report",
            "tools/call openwop:workflow.report",
        ]
    );
    assert_eq!(seen, format!("00-{TRACE}-{}-01", hex(&upstream.span_id)));
    let mut steps: Vec<_> = spans
        .iter()
        .filter(|span| {
            line(&spans, span).get(1).is_some_and(|it| it.starts_with("execute_tool openwop"))
        })
        .map(|span| span.name.as_str())
        .collect();
    steps.sort_unstable();
    assert_eq!(
        steps,
        [
            "toolcrib.authorize",
            "toolcrib.limit",
            "toolcrib.record",
            "toolcrib.record",
            "toolcrib.validate",
            "toolcrib.workflow openwop:workflow.report",
        ]
    );
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/mcp"),
        ("http.response.status_code", "200"),
        ("mcp.method.name", "tools/call"),
        ("mcp.protocol.version", "2026-07-28"),
        ("gen_ai.operation.name", "execute_tool"),
        ("gen_ai.tool.name", "openwop:workflow.report"),
        ("network.transport", "tcp"),
        ("error.type", ""),
    ] {
        assert_eq!(attribute(request, key).unwrap_or_default(), value, "{key}");
    }

    // I-95
    assert_no_canary("spans", &receiver.text().replace(CANARIES[3], ""));
    assert!(receiver.text().contains(CANARIES[3]), "the token is sent");
    assert_no_canary("metrics", &metrics);
    assert_no_canary("the log", &stderr);
    assert!(metrics.contains("toolcrib_spans_dropped_total 0"), "{metrics}");
    access_line(&stderr);
}

/// The access log has a line of the call, and lines of the call have its ids.
fn access_line(stderr: &str) {
    let lines: Vec<Value> =
        stderr.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let access = lines
        .iter()
        .find(|line| line["target"] == "toolcrib::access" && line["trace_id"] == TRACE)
        .unwrap_or_else(|| panic!("no line of the call: {stderr}"));
    assert_eq!(access["method"], "POST");
    assert_eq!(access["route"], "/mcp");
    assert_eq!(access["status"], 200);
    assert_eq!(access["surface"], "mcp");
    assert_eq!(access["tenant"], "default");
    assert!(access["principal"].is_string(), "{access}");
    assert!(access["bytes"].as_u64().unwrap() > 100, "{access}");
    assert!(access["duration_ms"].as_f64().unwrap() > 0.0, "{access}");
    assert!(access["request_id"].as_str().unwrap().len() == 32, "{access}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_through_a_workflow_to_a_connector_is_one_trace_over_http() {
    one_trace("http").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_through_a_workflow_to_a_connector_is_one_trace_over_grpc() {
    one_trace("grpc").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trace_is_passed_on_without_a_receiver_and_a_malformed_one_is_not() {
    let site = Site::new("");
    let (server, caller) = site.serve().await;
    for (sent, seen) in [
        (json!({ "traceparent": traceparent("01"), "tracestate": "a=1" }), Some(traceparent("01"))),
        (json!({ "traceparent": traceparent("00") }), Some(traceparent("00"))),
        (json!({ "traceparent": "00-nonsense" }), None),
        (json!({ "tracestate": "a=1" }), None),
        (json!({}), None),
    ] {
        call(&caller, sent).await;
        assert_eq!(site.shop_header("traceparent"), seen);
    }
    // As a header of the request, to an upstream that takes it in `_meta` and as a header.
    let received = async |meta: Value| {
        let params = json!({ "name": "up__echo", "arguments": { "text": "x" }, "_meta": meta });
        assert_eq!(caller.mcp("tools/call", params).await.0, 200);
        let calls = site.upstream.received();
        let last = calls.into_iter().rfind(|it| it.body["method"] == "tools/call").unwrap();
        let meta = last.body["params"]["_meta"].clone();
        let of = |name| last.headers.get(name).cloned();
        (of("traceparent"), of("tracestate"), meta["traceparent"].clone(), meta["baggage"].clone())
    };
    let meta = json!({ "traceparent": traceparent("01"), "tracestate": "a=1", "baggage": "b=2" });
    let parent = traceparent("01");
    assert_eq!(
        received(meta).await,
        (Some(parent.clone()), Some("a=1".to_owned()), json!(parent), json!("b=2"))
    );
    assert_eq!(
        received(json!({ "traceparent": "00-nonsense" })).await,
        (None, None, Value::Null, Value::Null)
    );
    let status = otc_status(&server.url, &site.key, &traceparent("01")).await;
    assert_eq!(status, 200);
    assert_eq!(site.shop_header("traceparent"), Some(traceparent("01")));
    server.stop();
}

/// Calls the workflow over Open Tool Calling with a `traceparent`.
async fn otc_status(url: &str, key: &str, parent: &str) -> u16 {
    #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let body = json!({ "request": { "tool_id": "flows__report", "input": { "id": CANARIES[0] } } });
    let request = http.post(format!("{url}/tools/call")).bearer_auth(key).json(&body);
    request.header("traceparent", parent).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_decides_about_recording_only_where_it_is_trusted() {
    for (trust, is_recorded) in [(false, false), (true, true)] {
        let receiver = Receiver::start("http").await;
        let more = format!("sample = 0.0\ntrust_parent = {trust}");
        let site = Site::new(&telemetry(&receiver, &more));
        let (server, caller) = site.serve().await;
        call(&caller, json!({ "traceparent": traceparent("01") })).await;
        let seen = site.shop_header("traceparent").unwrap();
        assert_eq!(seen.ends_with("-01"), is_recorded, "{seen}");
        assert!(seen.contains(TRACE), "{seen}");
        // The end of a server sends the spans that wait.
        server.stop();
        assert_eq!(!receiver.spans().is_empty(), is_recorded, "{:?}", receiver.spans());
    }
}

// I-94
#[tokio::test(flavor = "multi_thread")]
async fn calls_run_while_the_receiver_is_away_and_lost_spans_are_counted() {
    let gone = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    let site = Site::new(&format!("[telemetry]\nendpoint = \"{gone}\"\ntimeout = \"1s\"\n"));
    let (server, caller) = site.serve().await;
    call(&caller, json!({})).await;
    eventually("the loss is counted", async || {
        let metrics = caller.text("/metrics").await;
        let lost = metrics.lines().find_map(|it| it.strip_prefix("toolcrib_spans_dropped_total "));
        lost.is_some_and(|lost| lost != "0")
    })
    .await;
    call(&caller, json!({})).await;
    let stderr = server.stop();
    assert_eq!(stderr.matches("spans are lost").count(), 1, "{stderr}");
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for (telemetry, problem) in [
        ("endpoint = \"collector\"", "expected an address"),
        ("endpoint = \"http://a.example\"\nsample = 1.5", "expected a number from 0 to 1"),
        ("sample = 0.5", "has no effect without `endpoint`"),
        ("endpoint = \"http://a.example/x\"\nprotocol = \"grpc\"", "must have no path"),
        (
            "endpoint = \"http://a.example\"\nheaders = { authorization = \"x\" }",
            "a secret must not",
        ),
        (
            "endpoint = \"http://a.example\"\nheaders = { x-key = { file = \"token\" } }",
            "must be an https or loopback address",
        ),
        ("endpoint = \"http://a.example\"\nratio = 1", "ratio"),
    ] {
        let dir = dir();
        std::fs::write(dir.path().join("token"), "x").unwrap();
        write_config(dir.path(), &format!("[telemetry]\n{telemetry}\n"));
        let checked = crate::support::run(dir.path(), &["config", "check"]);
        assert_eq!(checked.code, 1, "{checked:?}");
        let text = checked.stdout + &checked.stderr;
        assert!(text.contains(problem), "{problem}: {text}");
    }
}
