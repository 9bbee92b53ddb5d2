//! Idempotent calls across `kill -9` of the server, with a real child process that records its calls.

use std::{path::Path, time::Duration};

use serde_json::{Value, json};
use toolcrib_testkit::upstream::faulty_program;

use crate::support::{Server, dir, key, run, write_config, write_seal_key};

const SEALED: &str = "[store]\nseal_key = { file = \"seal.key\" }\n";

/// A server over a child that records its calls in `calls.jsonl`.
fn configure(dir: &Path, head: &str, rules: &str) {
    write_seal_key(dir);
    let program = faulty_program();
    write_config(
        dir,
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n{head}\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\ncommand = [\"{}\", \"record={}\"]\n{rules}",
            program.display(),
            dir.join("calls.jsonl").display()
        ),
    );
}

/// Returns the number of calls of `tool` that have reached the child.
fn calls(dir: &Path, tool: &str) -> usize {
    let text = std::fs::read_to_string(dir.join("calls.jsonl")).unwrap_or_default();
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    messages.filter(|it| it["method"] == "tools/call" && it["params"]["name"] == tool).count()
}

/// A response: status, whether it is a replay, the run, and the body.
#[derive(Debug, PartialEq)]
struct CallResponse {
    status: u16,
    replayed: bool,
    run: Option<String>,
    body: String,
}

/// A caller with idempotency keys.
#[derive(Clone)]
struct IdempotentCaller {
    http: reqwest::Client,
    url: String,
    key: String,
}

impl IdempotentCaller {
    fn new(server: &Server, key: &str) -> Self {
        // Installs the TLS provider.
        drop(server.caller(None));
        #[expect(clippy::disallowed_methods, reason = "a client of the program under test")]
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { http, url: server.url.clone(), key: key.to_owned() }
    }

    async fn post(&self, path: &str, body: &Value, name: Option<&str>) -> Option<CallResponse> {
        let mut request =
            self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).json(body);
        if let Some(name) = name {
            request = request.header("Idempotency-Key", name);
        }
        let answer = request.send().await.ok()?;
        let header =
            |name| answer.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (replayed, run) = (header("idempotent-replayed").is_some(), header("toolcrib-run-id"));
        let status = answer.status().as_u16();
        Some(CallResponse { status, replayed, run, body: answer.text().await.ok()? })
    }

    /// Calls with `call_id` as idempotency key.
    async fn otc(&self, tool: &str, input: Value, id: &str) -> CallResponse {
        let request = json!({ "tool_id": format!("up__{tool}"), "input": input, "call_id": id });
        self.post("/tools/call", &json!({ "request": request }), None).await.unwrap()
    }

    /// Calls with the header `Idempotency-Key`, on the surface of `path`.
    async fn by_header(&self, path: &str, tool: &str, input: Value, name: &str) -> CallResponse {
        let tool = format!("up__{tool}");
        let (path, body) = match path {
            "explorer" => (format!("/explorer/tools/{tool}/call"), input),
            path => (path.to_owned(), json!({ "request": { "tool_id": tool, "input": input } })),
        };
        self.post(&path, &body, Some(name)).await.unwrap()
    }
}

/// A server that offers the child's tools.
async fn serve(dir: &Path, key: &str) -> (Server, IdempotentCaller) {
    let server = Server::start(dir);
    let caller = server.caller(Some(key));
    for _ in 0..200 {
        if caller.get("/v1/tools").await.1.to_string().contains("up.echo") {
            let namer = IdempotentCaller::new(&server, key);
            return (server, namer);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the child's tools are not offered");
}

async fn until(what: &str, done: impl Fn() -> bool) {
    for _ in 0..400 {
        if done() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("never happened: {what}");
}

const SURFACES: [&str; 3] = ["/tools/call", "/oxp/tools/call", "explorer"];

/// I-75: a response from before the kill is replayed byte for byte after it, without another run.
#[tokio::test]
async fn an_answer_is_given_again_after_a_kill() {
    let dir = dir();
    configure(dir.path(), SEALED, "");
    let (_, ann) = key(dir.path(), &["--principal", "ann", "--scope", "*"]);
    let (_, bob) = key(dir.path(), &["--principal", "bob", "--scope", "*"]);
    let (mut server, namer) = serve(dir.path(), &ann).await;
    let input = || json!({ "canary": "ONCE_BODY_CANARY" });
    let first = namer.otc("echo", input(), "id-1").await;
    assert!(first.status == 200 && !first.replayed && first.body.contains("CANARY"), "{first:?}");
    let mut firsts = Vec::new();
    for path in SURFACES {
        let told = namer.by_header(path, "echo", input(), "h-1").await;
        // Both mounts of the protocol share their idempotency keys.
        assert_eq!((told.status, told.replayed), (200, path.starts_with("/oxp")), "{told:?}");
        firsts.push(told);
    }
    let made = calls(dir.path(), "echo");
    server.process.kill();
    drop(server);

    let (server, namer) = serve(dir.path(), &ann).await;
    let again = namer.otc("echo", input(), "id-1").await;
    assert_eq!(again, CallResponse { replayed: true, ..first });
    for (path, first) in SURFACES.into_iter().zip(firsts) {
        let again = namer.by_header(path, "echo", input(), "h-1").await;
        assert_eq!(again, CallResponse { replayed: true, ..first }, "{path}");
        let other = namer.by_header(path, "echo", json!({ "other": 1 }), "h-1").await;
        assert_eq!(other.status, 422, "{path}: {other:?}");
    }
    let other = namer.otc("echo", json!({ "other": 1 }), "id-1").await;
    assert_eq!(other.status, 400, "{other:?}");
    assert_eq!(calls(dir.path(), "echo"), made, "nothing ran again");
    // Another principal has its own idempotency keys.
    let bob = IdempotentCaller { key: bob, ..namer.clone() };
    let theirs = bob.otc("echo", input(), "id-1").await;
    assert!(theirs.status == 200 && !theirs.replayed, "{theirs:?}");
    assert_eq!(calls(dir.path(), "echo"), made + 1);
    server.stop();
    for file in std::fs::read_dir(dir.path().join(".toolcrib")).unwrap().map(Result::unwrap) {
        if file.file_type().unwrap().is_file() {
            let bytes = std::fs::read(file.path()).unwrap();
            assert!(!bytes.windows(16).any(|it| it == b"ONCE_BODY_CANARY"), "{:?}", file.path());
        }
    }
}

/// Calls `slow` with an idempotency key, and kills the server during the call.
async fn killed_while_it_runs(dir: &Path, key: &str) {
    let (mut server, namer) = serve(dir, key).await;
    let input = || json!({ "ms": 60_000 });
    let running = namer.clone();
    let one = tokio::spawn(async move {
        let request = json!({ "tool_id": "up__slow", "input": input(), "call_id": "id" });
        running.post("/tools/call", &json!({ "request": request }), None).await
    });
    let running = namer.clone();
    let other = tokio::spawn(async move {
        running.post("/explorer/tools/up__slow/call", &input(), Some("h")).await
    });
    until("both run", || calls(dir, "slow") == 2).await;
    server.process.kill();
    assert!(one.await.unwrap().is_none() && other.await.unwrap().is_none(), "nobody was answered");
}

/// I-75: a call that ran during the kill is not repeated, and always gets the same response.
#[tokio::test]
async fn a_call_that_was_killed_is_not_made_again() {
    let dir = dir();
    configure(dir.path(), SEALED, "[source.tools.slow]\nsafety_tier = \"write\"\n");
    let (_, ann) = key(dir.path(), &["--scope", "*"]);
    killed_while_it_runs(dir.path(), &ann).await;
    let mut told = Vec::new();
    for _ in 0..2 {
        let (mut server, namer) = serve(dir.path(), &ann).await;
        for _ in 0..2 {
            let by_id = namer.otc("slow", json!({ "ms": 60_000 }), "id").await;
            let body: Value = serde_json::from_str(&by_id.body).unwrap();
            assert_eq!((by_id.status, &body["result"]["success"]), (200, &json!(false)), "{body}");
            assert_eq!(body["result"]["error"]["developer_message"], "interrupted", "{body}");
            assert_eq!(body["result"]["error"]["can_retry"], false, "{body}");
            let by_header = namer.by_header("explorer", "slow", json!({ "ms": 60_000 }), "h").await;
            assert!(
                by_header.status == 500 && by_header.body.contains("interrupted"),
                "{by_header:?}"
            );
            told.push((by_id, by_header));
        }
        let other = namer.otc("slow", json!({ "ms": 1 }), "id").await;
        assert_eq!(other.status, 400, "it stands for that call");
        server.process.kill();
    }
    assert!(told.iter().all(|it| *it == told[0]), "{told:#?}");
    assert_eq!(calls(dir.path(), "slow"), 2, "the two before the kill");
    let run_id = told[0].0.run.clone().unwrap();
    let events = run(dir.path(), &["audit", "export"]).ok().stdout;
    let of_run = |line: &&str| line.contains(&run_id) && line.contains("interrupted");
    assert_eq!(events.lines().filter(of_run).count(), 1, "{events}");
}

/// I-75: a repeatable tool is called again.
#[tokio::test]
async fn a_call_that_may_be_repeated_is_made_again() {
    let dir = dir();
    configure(dir.path(), SEALED, "[source.tools.slow]\nreplay_policy = \"idempotent\"\n");
    let (_, ann) = key(dir.path(), &["--scope", "*"]);
    killed_while_it_runs(dir.path(), &ann).await;
    let (server, namer) = serve(dir.path(), &ann).await;
    let again = namer.clone();
    let running =
        tokio::spawn(async move { again.otc("slow", json!({ "ms": 60_000 }), "id").await });
    until("it runs again", || calls(dir.path(), "slow") == 3).await;
    running.abort();
    server.stop();
}

/// I-75: a call with a pending approval has not run. With the same key it runs after the grant, also
/// after a kill, and has used no quota before.
#[tokio::test]
async fn a_call_that_waited_for_consent_runs_under_its_name() {
    let dir = dir();
    let head = format!("{SEALED}[gate]\nquota = \"1/d\"\n");
    configure(dir.path(), &head, "[source.tools.echo]\napproval = \"always\"\n");
    let (_, ann) = key(dir.path(), &["--principal", "ann", "--scope", "tools:up"]);
    let (mut server, namer) = serve(dir.path(), &ann).await;
    for _ in 0..2 {
        let asks = namer.otc("echo", json!({ "n": 1 }), "id").await;
        assert!(asks.body.contains("approval_required") && !asks.replayed, "{asks:?}");
    }
    server.process.kill();
    drop(server);
    let (server, namer) = serve(dir.path(), &ann).await;
    let pending = run(dir.path(), &["approvals", "list", "--json"]).ok().json();
    let id = pending[0]["approvalId"].as_str().unwrap();
    run(dir.path(), &["approvals", "grant", id]).ok();
    let ran = namer.otc("echo", json!({ "n": 1 }), "id").await;
    assert!(ran.status == 200 && ran.body.contains("\"success\":true"), "{ran:?}");
    let again = namer.otc("echo", json!({ "n": 1 }), "id").await;
    assert_eq!(again, CallResponse { replayed: true, ..ran });
    assert_eq!(calls(dir.path(), "echo"), 1);
    // Only the executed call counts, and a call over the quota creates no approval.
    let over = namer.otc("echo", json!({ "n": 2 }), "other").await;
    assert_eq!(over.status, 429, "{over:?}");
    server.stop();
}

/// Without a seal key, responses are kept only in memory.
#[tokio::test]
async fn without_a_seal_key_answers_end_with_the_process() {
    let dir = dir();
    configure(dir.path(), "", "");
    let (_, ann) = key(dir.path(), &["--scope", "*"]);
    let (mut server, namer) = serve(dir.path(), &ann).await;
    namer.otc("echo", json!({ "n": 1 }), "id").await;
    assert!(namer.otc("echo", json!({ "n": 1 }), "id").await.replayed);
    server.process.kill();
    drop(server);
    let (server, namer) = serve(dir.path(), &ann).await;
    assert!(!namer.otc("echo", json!({ "n": 1 }), "id").await.replayed);
    assert_eq!(calls(dir.path(), "echo"), 2);
    server.stop();
}
