//! Nodes that are requests, tools of an MCP server, and code that sends requests.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::{Value, json};
use toolcrib_core::{
    call::UpstreamErrorKind,
    egress::EgressDecision,
    source::{
        SourceLimits, UpstreamSpec,
        pack::{PackGrant, PackSpec},
    },
};
use toolcrib_testkit::upstream::{Answers, EchoServer, FaultyHttp};

use super::{granted, make, refused, spec, structured};
use crate::{
    credentials::{bearer, credential, holding},
    rig::{Rig, invocation, presenting, text},
};

/// An HTTP server that records requests and always sends the same response.
struct Server {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Server {
    fn start(status: &'static str, body: &'static str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
        let kept = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                let length = head.lines().find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok()
                });
                let mut sent = vec![0; length.unwrap_or(0)];
                stream.read_exact(&mut sent).unwrap();
                kept.lock().push((head, String::from_utf8(sent).unwrap()));
                let length = body.len();
                write!(
                    stream.get_mut(),
                    "HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                )
                .unwrap();
            }
        });
        Self { address, asked }
    }

    fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    fn lines(&self) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().map(|(head, _)| head.lines().next().unwrap_or_default().to_owned()).collect()
    }
}

fn remote(dir: &std::path::Path, entry: &str, node: Value) {
    let mut nodes = json!([{ "typeId": make::NODE }]);
    nodes[0].as_object_mut().unwrap().extend(node.as_object().unwrap().clone());
    let runtime = json!({ "language": "remote", "entry": entry });
    make::write_manifest(dir, &make::described(&runtime, &nodes));
}

fn reaching(dir: &std::path::Path, allow: &[&str]) -> PackSpec {
    let allow = allow.iter().map(|entry| entry.parse().unwrap()).collect();
    PackSpec { allow, ..granted(dir, &[PackGrant::Http]) }
}

#[tokio::test]
async fn a_declared_request_is_sent_and_its_result_taken() {
    let server = Server::start("200 OK", r#"{"data": {"items": [1, 2.50]}}"#);
    let dir = tempfile::tempdir().unwrap();
    let request = json!({
        "method": "POST", "path": "/users/{id}/notes", "query": { "q": "{q}" },
        "body": { "text": "{text}" }, "result": "/data/items",
    });
    remote(dir.path(), &server.url(), json!({ "x-toolcrib-request": request }));
    let rig = Rig::pack(reaching(dir.path(), &["127.0.0.1"]), SourceLimits::default());
    rig.ready().await;
    let call = invocation(json!({ "id": "a/../b", "q": "x&y", "text": "\"hi\"" }));
    let trail = call.egress.clone();
    let outcome = rig.invoke(make::NODE, None, call).await.unwrap();
    assert_eq!(outcome.structured.unwrap().get(), "[1,2.50]");
    assert_eq!(server.lines(), ["POST /users/a%2F..%2Fb/notes?q=x%26y HTTP/1.1"]);
    assert_eq!(server.asked.lock()[0].1, r#"{"text":"\"hi\""}"#);
    let noted = trail.take();
    assert_eq!((noted.len(), noted[0].decision), (1, EgressDecision::Allowed));

    let outcome = rig.call(make::NODE, json!({ "id": ".." })).await;
    assert!(outcome.is_error && text(&outcome).contains("not sent"));
    assert_eq!(server.lines().len(), 1);
}

#[tokio::test]
async fn a_request_that_wants_a_credential_is_offered_where_there_is_one() {
    let server = EchoServer::start(&["value-canary"]);
    let dir = tempfile::tempdir().unwrap();
    let described = |secrets: Value| {
        let request = json!({ "path": "/api/whoami" });
        let node = json!({ "x-toolcrib-request": request, "requiresSecrets": secrets });
        remote(dir.path(), &server.url("/"), node);
    };
    let with_credential = async || {
        let factory = presenting(holding(credential(bearer()), "value-canary").await);
        let spec = UpstreamSpec::Pack(reaching(dir.path(), &["127.0.0.1"]));
        Rig::with_credential(&factory, spec, "it")
    };
    described(json!([{ "id": "key" }]));
    let rig = with_credential().await;
    let outcome = rig.call(make::NODE, json!({})).await;
    assert!(!outcome.is_error, "the server takes it: {}", text(&outcome));
    assert!(text(&outcome).contains("[REDACTED:cred-1]"), "{}", text(&outcome));

    let rig = Rig::pack(reaching(dir.path(), &["127.0.0.1"]), SourceLimits::default());
    let found = rig.discover().await;
    assert!(found.offers.is_empty());
    assert!(found.problems[0].contains("credential_unavailable"), "{:?}", found.problems);

    described(json!([{ "id": "key" }, { "id": "other" }]));
    let found = with_credential().await.discover().await;
    assert!(found.offers.is_empty());
    assert!(found.problems[0].contains("carries one credential"), "{:?}", found.problems);
}

#[tokio::test]
async fn refusals_of_the_server_and_of_the_guard_are_distinguishable() {
    let server = Server::start("404 Not Found", "no such thing at http://10.0.0.1/x");
    let dir = tempfile::tempdir().unwrap();
    remote(dir.path(), &server.url(), json!({ "x-toolcrib-request": { "path": "/x" } }));
    let allowed = Rig::pack(reaching(dir.path(), &["127.0.0.0/8"]), SourceLimits::default());
    let outcome = allowed.call(make::NODE, json!({})).await;
    assert!(outcome.is_error);
    assert_eq!(text(&outcome), "the server answered 404: no such thing at [address]");

    // The address comes from the pack, so it grants no access by itself.
    let guarded = Rig::pack(reaching(dir.path(), &[]), SourceLimits::default());
    guarded.ready().await;
    let call = invocation(json!({}));
    let trail = call.egress.clone();
    let error = guarded.invoke(make::NODE, None, call).await.unwrap_err();
    assert_eq!(error.kind, UpstreamErrorKind::EgressRefused);
    assert_eq!(trail.take()[0].decision, EgressDecision::Denied);
    assert_eq!(server.lines().len(), 1);

    assert!(refused(spec(dir.path())).await.starts_with("pack_runtime_requirement_unmet"));
}

#[tokio::test]
async fn a_node_can_be_a_tool_of_an_mcp_server() {
    let server = FaultyHttp::start(Answers::Json, &[]);
    let dir = tempfile::tempdir().unwrap();
    remote(dir.path(), &server.url(), json!({ "mcp": { "toolName": "echo" } }));
    let rig = Rig::pack(reaching(dir.path(), &["127.0.0.1"]), SourceLimits::default());
    assert_eq!(rig.names().await, [make::NODE]);
    let outcome = rig.call(make::NODE, json!({ "n": 7 })).await;
    assert_eq!(text(&outcome), r#"{"n":7}"#);
    server.refuse_with(401);
    let refused = rig.call(make::NODE, json!({})).await;
    assert!(refused.is_error && text(&refused).starts_with("HTTP 401"), "{}", text(&refused));
    let detail = rig.degraded().await.detail.unwrap();
    assert!(detail.contains("refused our credentials"), "{detail}");
    rig.source.close().await;
}

#[cfg(feature = "wasm")]
/// Returns code that sends its input as a request and returns the response.
fn sender() -> String {
    let imports = format!(
        r#"(import "toolcrib" "http" (func $http (param i32 i32) (result i64))) {}"#,
        make::BEGINNING
    );
    // Parsing the inputs in WebAssembly text would be too complex. The caller of this function
    // places the request in the data segment instead.
    let body = format!(
        r#"(local $answer i64)
           (local.set $answer (call $http (i32.const 4096) (i32.const SIZE)))
           (local.set $at (i32.wrap_i64 (local.get $answer)))
           (local.set $len (i32.wrap_i64 (i64.shr_u (local.get $answer) (i64.const 32)))) {}"#,
        make::COMPLETED
    );
    make::module(&format!(r#"{imports} (data (i32.const 4096) "DATA")"#), &body)
}

#[cfg(feature = "wasm")]
async fn sent(request: &Value, allow: &[&str]) -> (Value, Vec<EgressDecision>) {
    let request = request.to_string();
    let escaped: String = request.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let code = sender().replace("DATA", &escaped).replace("SIZE", &request.len().to_string());
    let dir = tempfile::tempdir().unwrap();
    make::coded(dir.path(), "wasm", &code);
    let rig = Rig::pack(reaching(dir.path(), allow), SourceLimits::default());
    rig.ready().await;
    let call = invocation(json!({}));
    let trail = call.egress.clone();
    let outcome = rig.invoke(make::NODE, None, call).await.unwrap();
    (structured(&outcome), trail.take().into_iter().map(|noted| noted.decision).collect())
}

/// I-43
#[cfg(feature = "wasm")]
#[tokio::test]
async fn requests_of_code_go_through_the_guard() {
    let server = Server::start("200 OK", "hello");
    let request = json!({
        "method": "PUT", "url": server.url() + "x?y=1", "headers": { "x-own": "a" }, "body": "b",
    });
    let (answer, decided) = sent(&request, &["127.0.0.1"]).await;
    assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("hello")), "{answer}");
    assert_eq!(decided, [EgressDecision::Allowed]);
    assert_eq!(server.lines(), ["PUT /x?y=1 HTTP/1.1"]);
    let (head, body) = server.asked.lock()[0].clone();
    assert!(head.contains("x-own: a") && body == "b", "{head}");

    let (answer, decided) = sent(&request, &[]).await;
    assert_eq!(answer["error"]["code"], "ssrf_blocked", "{answer}");
    assert_eq!(decided, [EgressDecision::Denied]);
    let metadata = json!({ "url": "http://169.254.169.254/latest" });
    assert_eq!(sent(&metadata, &[]).await.0["error"]["code"], "ssrf_blocked");
    let strange = json!({ "url": "file:///etc/passwd" });
    assert_eq!(sent(&strange, &["127.0.0.1"]).await.0["error"]["code"], "invalid_request");
    assert_eq!(server.lines().len(), 1);
}
