//! Numbers of callers arrive byte for byte: over every surface, at every kind of source. In URLs and forms,
//! integers are in plain digits.

use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::TestRunner,
};
use serde_json::{Map, Value, json};
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{
    Caller, Recorder, Server, dir, eventually_async, key, recorder, run, write_config,
};

/// Numbers that some reader of JSON changes.
const KNOWN: [&str; 14] = [
    "1915883588174806058",
    "9007199254740993",
    "9007199254740993.0",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "123456789012345678901234567890.12345678901234567890",
    "-0",
    "-0.0",
    "1e2",
    "1E+2",
    "0.10",
    "1e400",
    "1E-400",
];

const FLOW: &str = "
id: pass
inputs: { type: object, properties: { all: {} }, required: [all] }
steps:
  - { id: echo, tool: 'mcp:up.echo', arguments: { all: { $ref: /inputs/all } } }
outputs:
  all: { $ref: /inputs/all }
";

const SERVICE: &str = r##"{ "openapi": "3.1.0", "info": { "title": "n", "version": "1" }, "paths": {
  "/json": { "post": { "operationId": "json", "requestBody": { "content": {
    "application/json": { "schema": { "type": "object" } } } }, "responses": {} } },
  "/p/{id}": { "get": { "operationId": "get", "responses": {}, "parameters": [
    { "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } },
    { "name": "ids", "in": "query", "schema": { "type": "array", "items": { "type": "integer" } } },
    { "name": "X-Id", "in": "header", "schema": { "type": ["integer", "null"] } },
    { "name": "price", "in": "query", "schema": { "type": "number" } },
    { "name": "from", "in": "query", "style": "deepObject", "schema": {
      "anyOf": [{ "$ref": "#/components/schemas/Range" }, { "type": "null" }] } } ] } },
  "/form": { "post": { "operationId": "form", "responses": {}, "requestBody": { "content": {
    "application/x-www-form-urlencoded": { "schema": { "$ref": "#/components/schemas/Form" } } } } } },
  "/parts": { "post": { "operationId": "parts", "responses": {}, "requestBody": { "content": {
    "multipart/form-data": { "schema": { "$ref": "#/components/schemas/Form" } } } } } }
}, "components": { "schemas": {
  "Range": { "type": "object", "properties": {
    "low": { "type": "integer" }, "price": { "type": "number" } } },
  "Form": { "type": "object", "allOf": [{ "properties": { "id": { "type": "integer" } } }],
    "properties": { "ids": { "type": "array", "items": { "allOf": [{ "type": "integer" }] } },
      "price": { "type": ["integer", "number"] } } } } } }"##;

const COMMAND: &str = r#"
[source.commands.print]
program = "/usr/bin/printf"
args = ["%s", "{n}"]
[source.commands.print.parameters]
n = { type = "number" }
"#;

/// Reads JSON whose numbers keep their text, which those in `json!` do not.
fn exact(text: &str) -> Value {
    toolcrib_core::json::parse_strict(text.as_bytes()).unwrap()
}

/// Numbers of all forms, and those that are known to be changed, as members of an object.
fn numbers() -> Value {
    let mut runner = TestRunner::deterministic();
    let any = "-?(0|[1-9][0-9]{0,30})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,2})?";
    let any = proptest::string::string_regex(any).unwrap();
    let mut texts: Vec<String> = KNOWN.iter().map(|it| (*it).to_owned()).collect();
    texts.extend((0..300).map(|_| any.new_tree(&mut runner).unwrap().current()));
    let members = texts.iter().enumerate().map(|(at, text)| (format!("n{at}"), exact(text)));
    Value::Object(members.collect::<Map<_, _>>())
}

struct Rig {
    dir: tempfile::TempDir,
    upstream: FaultyHttp,
    service: Recorder,
    server: Server,
    key: String,
}

impl Rig {
    async fn start() -> Self {
        let dir = dir();
        let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
        let service = Recorder::start(|_, _| recorder::json(200, "{}"));
        std::fs::write(dir.path().join("service.json"), SERVICE).unwrap();
        std::fs::create_dir_all(dir.path().join("flows")).unwrap();
        std::fs::write(dir.path().join("flows/pass.yaml"), FLOW).unwrap();
        write_config(
            dir.path(),
            &format!(
                "[server]\nlisten = \"127.0.0.1:0\"\n[sources]\nsandbox_as_root = true\n\
                 [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
                 [[source]]\nid = \"web\"\nkind = \"connector\"\ndocument = \"service.json\"\n\
                 base_url = \"{}\"\n\
                 [[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flows/*.yaml\"]\n\
                 [[source]]\nid = \"ops\"\nkind = \"host-extension\"\n{COMMAND}\
                 [source.tools.\"*\"]\nscopes = []\napproval = \"never\"\n\
                 approval_reason = \"a test\"\n",
                upstream.url(),
                service.url,
            ),
        );
        let key = key(dir.path(), &["--scope", "*"]).1;
        let server = Server::start(dir.path());
        let rig = Self { dir, upstream, service, server, key };
        eventually_async("the tools are offered", async || {
            let tools = rig.caller().get("/v1/tools").await.1.to_string();
            ["mcp:up.echo", "connector:web.get", "x-host-ops-print", "workflow.pass"]
                .iter()
                .all(|id| tools.contains(id))
        })
        .await;
        rig
    }

    fn caller(&self) -> Caller {
        self.server.caller(Some(&self.key))
    }

    /// The arguments of the last call that the upstream got, or a part of them, as text.
    fn arguments(&self, part: &str) -> String {
        let received = self.upstream.received();
        let mut calls = received.iter().filter(|it| it.body["method"] == "tools/call");
        let arguments = &calls.next_back().unwrap().body["params"]["arguments"];
        arguments.pointer(part).unwrap().to_string()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_surface_passes_numbers_on_as_they_are_written() {
    let rig = Rig::start().await;
    let (caller, input) = (rig.caller(), numbers());
    let text = input.to_string();
    let request = exact(&format!(r#"{{"request":{{"tool_id":"up__echo","input":{text}}}}}"#));
    for (path, body) in [
        ("/tools/call", &request),
        ("/oxp/tools/call", &request),
        ("/explorer/tools/up__echo/call", &input),
    ] {
        let (status, answer) = caller.post(path, body).await;
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(rig.arguments("") == text, "{path}");
    }
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call",
            "params":{{"name":"up__echo","arguments":{text}}}}}"#
    );
    let session = caller.open_mcp_session().await;
    let (status, answer) = caller.send_in_session(&session, &exact(&call)).await;
    assert_eq!(status, 200, "{answer}");
    assert!(rig.arguments("") == text, "MCP with a session");
    std::fs::write(rig.dir.path().join("n.json"), &text).unwrap();
    run(rig.dir.path(), &["call", "up__echo", "@n.json"]).ok();
    assert!(rig.arguments("") == text, "the command line");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_source_gets_numbers_as_they_are_written() {
    let rig = Rig::start().await;
    let (caller, text) = (rig.caller(), numbers().to_string());
    let call = |tool: &str, input: String| {
        exact(&format!(r#"{{"request":{{"tool_id":"{tool}","input":{input}}}}}"#))
    };
    let body = call("flows__pass", format!(r#"{{"all":{text}}}"#));
    let (status, answer) = caller.post("/tools/call", &body).await;
    assert_eq!(status, 200, "{answer}");
    assert!(rig.arguments("/all") == text, "a step of a workflow");
    // The client of this test writes exponents in another form.
    let output = serde_json::from_str::<Value>(&text).unwrap().to_string();
    assert!(answer.to_string().contains(&output), "the output of a workflow");

    let body = call("web__json", format!(r#"{{"body":{text}}}"#));
    let (status, answer) = caller.post("/tools/call", &body).await;
    assert_eq!(status, 200, "{answer}");
    assert!(rig.service.heard().last().unwrap().ends_with(&format!("\n\n{text}")));
    for known in KNOWN {
        let body = call("ops__print", format!(r#"{{"n":{known}}}"#));
        let (status, answer) = caller.post("/tools/call", &body).await;
        assert_eq!(status, 200, "{answer}");
        assert!(answer.to_string().contains(known), "{known}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn integers_are_plain_digits_in_a_request() {
    let rig = Rig::start().await;
    let caller = rig.caller();
    for (sent, plain) in [
        ("1.0", "1"),
        ("1e2", "100"),
        ("-0", "0"),
        ("9007199254740993.0", "9007199254740993"),
        ("18446744073709551616", "18446744073709551616"),
        ("25e20", "2500000000000000000000"),
    ] {
        let request = async |tool: &str, input: String| {
            let body = format!(r#"{{"request":{{"tool_id":"web__{tool}","input":{input}}}}}"#);
            let (status, answer) = caller.post("/tools/call", &exact(&body)).await;
            assert_eq!(status, 200, "{answer}");
            rig.service.heard().pop().unwrap()
        };
        let form = format!(r#""id":{sent},"ids":[{sent},7],"price":{sent}"#);
        let from = format!(r#"{{"low":{sent},"price":{sent}}}"#);
        let heard = request("get", format!(r#"{{{form},"X-Id":{sent},"from":{from}}}"#)).await;
        let line = format!(
            "GET /p/{plain}?ids={plain}&ids=7&price={sent}&from%5Blow%5D={plain}&from%5Bprice%5D={sent} \
             HTTP/1.1\n"
        );
        assert!(heard.starts_with(&line), "{heard}");
        assert!(heard.contains(&format!("\nx-id: {plain}\n")), "{heard}");
        let heard = request("form", format!(r#"{{"body":{{{form}}}}}"#)).await;
        let body = format!("id={plain}&ids={plain}&ids=7&price={sent}");
        assert!(heard.ends_with(&body), "{heard}");
        let heard = request("parts", format!(r#"{{"body":{{{form}}}}}"#)).await;
        for (name, text) in [("id", plain), ("ids", plain), ("price", sent)] {
            let part = format!("; name=\"{name}\"\r\n\r\n{text}\r\n");
            assert!(heard.contains(&part), "{part}: {heard}");
        }
    }
    let (status, answer) = caller.otc("web__get", json!({ "id": 1.5 })).await;
    assert_ne!(status, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_number_with_too_many_digits_is_refused_with_its_place() {
    let rig = Rig::start().await;
    for long in ["1e-9999".to_owned(), "9".repeat(513)] {
        let (status, answer) = rig
            .caller()
            .otc("up__echo", json!({ "n": serde_json::from_str::<Value>(&long).unwrap() }))
            .await;
        assert_eq!(status, 400, "{answer}");
        let problem = "a number has more than 512 digits at line 1 column";
        assert!(answer.to_string().contains(problem), "{answer}");
    }
}
