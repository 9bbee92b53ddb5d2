//! The integrity of the record: hash chain, checkpoints, anchors, forwarders and retention, through
//! the command line.

use std::{
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU8, Ordering},
    },
    time::Duration,
};

use axum::{Router, extract::State, http::StatusCode, routing::post};
use serde_json::{Value, json};

use crate::support::{
    Caller, CommandOutput, Server, config, dir, eventually, key, run, write_config,
};

/// Starts a server with the `[record]` section `record`, and creates a key with all scopes.
fn server(dir: &Path, record: &str) -> (Server, String) {
    write_config(dir, &format!("[record]\n{record}\n{}", config("")));
    // Created before the start, because a running server accepts a new key only within a second.
    let (_, text) = key(dir, &["--scope", "*", "--scope", "metrics:all", "--tenant", "default"]);
    (Server::start(dir), text)
}

async fn call(caller: &Caller, times: usize) {
    // A call before the discovery of the tool would add another event.
    while caller.get("/v1/tools").await.1.as_array().is_none_or(Vec::is_empty) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..times {
        let answer = caller.otc("demo__echo", json!({ "text": "x" })).await;
        assert_eq!(answer.0, 200, "{answer:?}");
    }
}

/// Runs `audit verify` with `args`.
fn verify(dir: &Path, args: &[&str]) -> CommandOutput {
    run(dir, &[&["--json", "audit", "verify"], args].concat())
}

/// Waits until the first events of each tenant are signed.
fn signed(dir: &Path) {
    eventually("the first events are signed", || verify(dir, &[]).code == 0);
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

// I-71, I-72
#[tokio::test(flavor = "multi_thread")]
async fn a_record_is_signed_and_anchored_and_what_is_done_to_it_is_found() {
    let dir = dir();
    let record = "checkpoint_interval = \"100ms\"\n[[record.anchor]]\nfile = \"anchors.jsonl\"";
    let (server, text) = server(dir.path(), record);
    let caller = server.caller(Some(&text));
    call(&caller, 3).await;
    server.stop();

    let public = run(dir.path(), &["audit", "key"]).ok().stdout;
    fs::write(dir.path().join("record.pub"), &public).unwrap();
    let secret = dir.path().join(".toolcrib/toolcrib.db.signing-key");
    use std::os::unix::fs::MetadataExt as _;
    assert_eq!(fs::metadata(&secret).unwrap().mode() & 0o777, 0o600);

    let anchored = lines(&dir.path().join("anchors.jsonl"));
    // Of the key and of three calls.
    assert_eq!(anchored.last().unwrap()["position"], 7, "the end is signed before it ends");
    let with_anchor = ["--anchor", "anchors.jsonl", "--public-key", "record.pub"];
    let told = verify(dir.path(), &with_anchor).ok().json();
    assert_eq!((&told["ok"], &told["events"]), (&json!(true), &json!(7)));
    assert_eq!(told["tenants"][0]["signed"], 7);
    let said = run(dir.path(), &["audit", "verify"]).ok().stdout;
    assert!(said.contains("7 events") && said.contains("nothing was changed"), "{said}");

    // One byte of one event, in the file itself.
    let store = dir.path().join(".toolcrib/toolcrib.db");
    let good = fs::read(&store).unwrap();
    let mut bad = good.clone();
    let needle = b"\"toolName\":\"mcp:demo.echo\",\"callId\"";
    let places: Vec<usize> = bad
        .windows(needle.len())
        .enumerate()
        .filter(|(_, it)| it == needle)
        .map(|(at, _)| at)
        .collect();
    bad[places[0] + 14] ^= 1;
    fs::write(&store, &bad).unwrap();
    let ran = verify(dir.path(), &[]);
    assert_eq!(ran.code, 1, "{ran:?}");
    let finding = &ran.json()["findings"][0];
    assert_eq!((&finding["code"], &finding["tenant"]), (&json!("changed"), &json!("default")));
    let position = finding["position"].as_u64().unwrap();
    assert!(finding["sequence"].is_u64() && (1..=7).contains(&position), "{finding}");
    let said = run(dir.path(), &["audit", "verify"]).stdout;
    assert!(said.contains(&format!("default at position {position}: ")), "{said}");

    // An earlier state of the store, an unknown key, and an anchor that reveals the rollback.
    fs::write(&store, &good).unwrap();
    fs::remove_file(&secret).unwrap();
    let (server, text) = self::server(dir.path(), "checkpoint_interval = \"100ms\"");
    call(&server.caller(Some(&text)), 1).await;
    server.stop();
    run(dir.path(), &["audit", "accept", "--reason", "another key"]).ok();
    let ran = verify(dir.path(), &[]);
    assert_eq!(ran.json()["findings"][0]["code"], "unknown_key", "{ran:?}");
    verify(dir.path(), &["--public-key", "record.pub"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_ends_too_early_is_found_with_checkpoints_from_elsewhere() {
    let dir = dir();
    let (server, text) = server(dir.path(), "checkpoint_interval = \"100ms\"");
    let export = |name: &str| {
        eventually("all is signed", || {
            verify(dir.path(), &[]).json()["tenants"][0]["unsigned"] == 0
        });
        let keyed = ["--url", &server.url, "--key", &text, "audit", "export", "--checkpoints"];
        fs::write(dir.path().join(name), run(dir.path(), &keyed).ok().stdout).unwrap();
    };
    let caller = server.caller(Some(&text));
    call(&caller, 1).await;
    export("early.jsonl");
    call(&caller, 1).await;
    export("whole.jsonl");
    let (status, answer) = caller.get("/v1/record/checkpoints").await;
    assert_eq!(status, 200);
    fs::write(dir.path().join("answer.json"), answer.to_string()).unwrap();
    let check = |name: &str, more: &[&str]| {
        // The variable of the server does not matter for a file.
        let file = ["--url", &server.url, "audit", "verify", "--file", name];
        run(dir.path(), &[&file[..], more].concat())
    };
    let early = check("early.jsonl", &[]).ok().stdout;
    assert!(early.contains("only known to be complete up to its last checkpoint"), "{early}");
    // The answer of a server and an export are compared like the file of an anchor.
    for anchor in ["answer.json", "whole.jsonl"] {
        let found = check("early.jsonl", &["--anchor", anchor]);
        assert_eq!(found.code, 1, "{anchor}: {found:?}");
        let whole = check("whole.jsonl", &["--anchor", anchor]).ok().stdout;
        assert!(whole.contains("kept elsewhere: verified, nothing was changed"), "{whole}");
        assert!(!whole.contains("name an anchor"), "{whole}");
    }
    server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_can_be_checked_without_the_store() {
    let dir = dir();
    let (server, text) = server(dir.path(), "checkpoint_interval = \"100ms\"");
    call(&server.caller(Some(&text)), 3).await;
    signed(dir.path());
    let keyed = ["--url", &server.url, "--key", &text];
    let remote = run(dir.path(), &[&keyed[..], &["audit", "export"]].concat()).ok().stdout;
    let told = run(dir.path(), &[&keyed[..], &["--json", "audit", "verify"]].concat());
    // Without the public key no checkpoint is trusted, which is not a finding.
    let result = told.json();
    assert_eq!((told.code, &result["result"]), (4, &json!("no_checkpoint")), "{told:?}");
    assert_eq!(result["unknownKeys"].as_array().unwrap().len(), 1, "{told:?}");
    fs::write(dir.path().join("record.pub"), run(dir.path(), &["audit", "key"]).ok().stdout)
        .unwrap();
    let trusting = ["audit", "verify", "--public-key", "record.pub"];
    run(dir.path(), &[&keyed[..], &trusting].concat()).ok();
    let export = ["audit", "export", "--checkpoints"];
    let exported = run(dir.path(), &[&keyed[..], &export].concat()).ok().stdout;
    fs::write(dir.path().join("exported.jsonl"), exported).unwrap();
    verify(dir.path(), &["--file", "exported.jsonl"]).ok();
    server.stop();

    let local = run(dir.path(), &["audit", "export", "--tenant", "default"]).ok().stdout;
    assert_eq!(local, remote, "a server tells the same, to the byte");
    let file = dir.path().join("events.jsonl");
    fs::write(&file, &local).unwrap();
    let check = ["--file", "events.jsonl"];
    let bare = verify(dir.path(), &check);
    assert_eq!((bare.code, &bare.json()["events"]), (4, &json!(7)), "no checkpoint is in it");
    let signed = ["audit", "export", "--tenant", "default", "--checkpoints"];
    let signed = run(dir.path(), &signed).ok().stdout;
    fs::write(dir.path().join("signed.jsonl"), &signed).unwrap();
    assert_eq!(verify(dir.path(), &["--file", "signed.jsonl"]).ok().json()["events"], 7);
    // From a machine without the key, and without the first events.
    let elsewhere = self::dir();
    let (head, rest): (Vec<&str>, Vec<&str>) =
        signed.lines().partition(|line| line.contains("\"publicKey\""));
    fs::write(elsewhere.path().join("signed.jsonl"), &signed).unwrap();
    let late = [&head[..], &rest[2..]].concat().join("\n") + "\n";
    fs::write(elsewhere.path().join("late.jsonl"), late).unwrap();
    fs::copy(dir.path().join("record.pub"), elsewhere.path().join("record.pub")).unwrap();
    let without = verify(elsewhere.path(), &["--file", "signed.jsonl"]);
    assert_eq!((without.code, &without.json()["findings"]), (4, &json!([])), "{without:?}");
    let partial = ["audit", "verify", "--public-key", "record.pub", "--file", "late.jsonl"];
    let partial = run(elsewhere.path(), &partial).ok().stdout;
    assert!(partial.contains("Events before the first ones shown were not checked"), "{partial}");

    let all: Vec<&str> = local.lines().collect();
    let written = |lines: &[&str]| fs::write(&file, lines.join("\n") + "\n").unwrap();
    let places = || {
        let ran = verify(dir.path(), &check);
        let found = ran.json()["findings"].clone();
        let of = |finding: &Value| (finding["code"].clone(), finding["position"].clone());
        found.as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    written(&[all[0], all[1], all[3], all[4], all[5]]);
    assert_eq!(places(), [(json!("missing"), json!(3))]);
    written(&[all[0], all[2], all[1], all[3], all[4], all[5]]);
    assert_eq!(places()[0], (json!("missing"), json!(2)));
    let changed = all[2].replace("mcp:demo.echo", "mcp:demo.wipe");
    written(&[all[0], all[1], &changed, all[3], all[4], all[5]]);
    assert_eq!(places(), [(json!("changed"), json!(3))]);
    written(&[all[0], "{\"half", all[1], all[2], all[3], all[4], all[5]]);
    assert_eq!(places(), [(json!("damaged"), Value::Null)]);
    written(&all[2..4]);
    assert_eq!(places(), [], "a piece is sound in itself");

    for (format, member) in
        [("ocsf", "class_uid"), ("cloudevents", "specversion"), ("events", "eventId")]
    {
        let part = [
            "audit", "export", "--tenant", "default", "--format", format, "--after", "1",
            "--until", "4",
        ];
        let exported = run(dir.path(), &part).ok().stdout;
        let lines: Vec<Value> =
            exported.lines().map(|it| serde_json::from_str(it).unwrap()).collect();
        assert_eq!(lines.len(), 3, "{format}");
        assert!(lines.iter().all(|line| line.get(member).is_some() && line.get("chain").is_none()));
    }
}

/// A receiver with configurable failures.
#[derive(Clone, Default)]
struct Receiver {
    mode: Arc<AtomicU8>,
    got: Arc<Mutex<Vec<Value>>>,
    asked: Arc<AtomicU8>,
}

const REFUSES: u8 = 1;
const HANGS: u8 = 2;

impl Receiver {
    async fn listen(&self, port: u16) -> (u16, tokio::task::JoinHandle<()>) {
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let router = Router::new().route("/in", post(take)).with_state(self.clone());
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        (port, serving)
    }

    fn ids(&self) -> Vec<String> {
        let got = self.got.lock().unwrap();
        got.iter().map(|event| event["eventId"].as_str().unwrap().to_owned()).collect()
    }
}

async fn take(State(it): State<Receiver>, body: String) -> StatusCode {
    it.asked.fetch_add(1, Ordering::Relaxed);
    match it.mode.load(Ordering::Relaxed) {
        REFUSES => return StatusCode::SERVICE_UNAVAILABLE,
        HANGS => {
            tokio::time::sleep(Duration::from_secs(2)).await;
            return StatusCode::GATEWAY_TIMEOUT;
        }
        _ => {}
    }
    let events = body.lines().map(|line| serde_json::from_str(line).unwrap());
    it.got.lock().unwrap().extend(events);
    StatusCode::OK
}

// I-73
#[tokio::test(flavor = "multi_thread")]
async fn a_forwarder_loses_nothing_and_no_call_waits_for_it() {
    let dir = dir();
    let receiver = Receiver::default();
    let (port, serving) = receiver.listen(0).await;
    let record = format!(
        "[[record.forward]]\nname = \"siem\"\nkind = \"http\"\nurl = \"http://127.0.0.1:{port}/in\"\n\
         [[record.forward]]\nname = \"copy\"\nkind = \"file\"\nfile = \"copy.ocsf\"\nformat = \"ocsf\""
    );
    receiver.mode.store(REFUSES, Ordering::Relaxed);
    let (server, text) = server(dir.path(), &record);
    let caller = server.caller(Some(&text));
    call(&caller, 2).await;
    eventually("it was asked in vain", || receiver.asked.load(Ordering::Relaxed) > 1);
    let shown = || {
        let keyed = ["--url", &server.url, "--key", &text, "--json", "audit", "forwarders"];
        run(dir.path(), &keyed).ok().json()
    };
    eventually("that is told", || shown()[0]["problem"] == "the receiver answered with status 503");
    assert_eq!((&shown()[0]["name"], &shown()[0]["behind"]), (&json!("siem"), &json!(5)));
    let metrics = caller.text("/metrics").await;
    assert!(metrics.contains("toolcrib_record_forward_lag{forwarder=\"siem\"} 5"), "{metrics}");

    receiver.mode.store(HANGS, Ordering::Relaxed);
    let asked = receiver.asked.load(Ordering::Relaxed);
    eventually("it hangs", || receiver.asked.load(Ordering::Relaxed) > asked);
    call(&caller, 2).await;

    receiver.mode.store(0, Ordering::Relaxed);
    eventually("it got everything", || receiver.ids().len() >= 9);

    // Both receivers fail, and recover one after the other.
    serving.abort();
    drop(serving.await);
    call(&caller, 2).await;
    server.stop();
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&text));
    call(&caller, 1).await;
    let (_, serving) = receiver.listen(port).await;
    eventually("it got the rest", || receiver.ids().len() >= 15);
    let copy = dir.path().join("copy.ocsf");
    eventually("so did the file", || lines(&copy).len() >= 15);
    server.stop();
    serving.abort();

    let recorded: Vec<String> = run(dir.path(), &["audit", "export"])
        .ok()
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|event| event["eventId"].as_str().unwrap().to_owned())
        .collect();
    let mut seen = receiver.ids();
    seen.dedup();
    assert_eq!(seen, recorded, "all of it, in order, and nothing again");
    let mut copied: Vec<_> = lines(&copy).iter().map(|it| it["metadata"]["uid"].clone()).collect();
    copied.dedup();
    assert_eq!(copied, recorded);
    let told = run(dir.path(), &["--json", "audit", "forwarders"]).ok().json();
    assert_eq!((&told[0]["behind"], &told[0]["failures"]), (&json!(0), &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_goes_and_the_rest_proves_itself() {
    let dir = dir();
    let record = "checkpoint_interval = \"100ms\"\nkeep = \"1s\"\n\
                  [[record.anchor]]\nfile = \"anchors.jsonl\"";
    let (server, text) = server(dir.path(), record);
    let caller = server.caller(Some(&text));
    call(&caller, 3).await;
    let anchors = dir.path().join("anchors.jsonl");
    eventually("it is signed", || !lines(&anchors).is_empty());
    let first = || {
        let told = verify(dir.path(), &["--anchor", "anchors.jsonl"]).ok().json();
        told["tenants"][0]["first"].as_u64().unwrap()
    };
    assert_eq!(first(), 1);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    call(&caller, 1).await;
    eventually("what is old is gone", || {
        let told = verify(dir.path(), &["--anchor", "anchors.jsonl"]).ok().json();
        told["tenants"][0]["first"].as_u64().unwrap() > 1
    });
    server.stop();
    assert!(first() <= 7, "the end stays");
}

// I-72
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_is_pruned_again_and_again_proves_itself_all_the_time() {
    let dir = dir();
    let (server, text) = server(dir.path(), "checkpoint_interval = \"100ms\"\nkeep = \"1s\"");
    let caller = server.caller(Some(&text));
    call(&caller, 1).await;
    signed(dir.path());
    let (mut marks, mut last) = (0, 0);
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while marks < 6 {
        assert!(std::time::Instant::now() < deadline, "pruned {marks} times only");
        call(&caller, 2).await;
        let told = verify(dir.path(), &[]).ok().json();
        let first = told["tenants"][0]["first"].as_u64().unwrap();
        marks += usize::from(first != last);
        last = first;
    }
    server.stop();
    verify(dir.path(), &[]).ok();
}

// I-72: a session that is never idle does not hold back retention, also not of other callers' events.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_does_not_hold_back_retention() {
    let dir = dir();
    let (mut server, text) = server(dir.path(), "checkpoint_interval = \"100ms\"\nkeep = \"1s\"");
    let caller = server.caller(Some(&text));
    call(&caller, 0).await;
    let session = caller.open_mcp_session().await;
    let in_session = async || {
        let input = json!({ "text": "x" });
        let answer = caller.call_in_session(&session, "demo__echo", input).await;
        assert!(answer.0 == 200 && answer.1["result"]["isError"] != true, "{answer:?}");
    };
    in_session().await;
    call(&caller, 3).await;
    signed(dir.path());
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    // The session and the first calls are at 1 to 9. Each round goes on before the session is idle.
    while verify(dir.path(), &[]).ok().json()["tenants"][0]["first"].as_u64().unwrap() <= 20 {
        assert!(std::time::Instant::now() < deadline, "nothing is removed");
        in_session().await;
    }
    let bracketed = |dir: &Path| {
        let events = run(dir, &["--json", "audit", "tail", "-n", "1000"]).ok().stdout;
        events.contains("tool.session.opened")
    };
    assert!(bracketed(dir.path()), "the session that is open now is kept");
    // A crash leaves a session open, which the next start closes.
    server.process.kill();
    let server = Server::start(dir.path());
    let caller = server.caller(Some(&text));
    call(&caller, 1).await;
    eventually("the rest is signed", || verify(dir.path(), &[]).code == 0);
    let export = ["audit", "export", "--tenant", "default", "--checkpoints"];
    let exported = run(dir.path(), &export).ok().stdout;
    fs::write(dir.path().join("kept.jsonl"), exported).unwrap();
    verify(dir.path(), &["--file", "kept.jsonl"]).ok();
    server.stop();
    verify(dir.path(), &[]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn forwarders_follow_the_configuration() {
    let dir = dir();
    let (mut server, text) = server(dir.path(), "");
    let caller = server.caller(Some(&text));
    call(&caller, 1).await;
    let forward =
        "[record]\n[[record.forward]]\nname = \"late\"\nkind = \"file\"\nfile = \"late.jsonl\"\n";
    write_config(dir.path(), &format!("{forward}{}", config("")));
    server.process.signal(rustix::process::Signal::HUP);
    let late = dir.path().join("late.jsonl");
    eventually("what was before is sent, too", || lines(&late).len() == 3);
    write_config(dir.path(), &config(""));
    server.process.signal(rustix::process::Signal::HUP);
    server.process.until("it was taken over twice", |it| {
        (it.stderr().matches("was reloaded").count() >= 2).then_some(())
    });
    call(&caller, 1).await;
    server.stop();
    assert_eq!(lines(&late).len(), 3, "it has ended");
}

#[test]
fn without_the_signing_key_a_check_asks_for_the_public_one() {
    let dir = dir();
    write_config(dir.path(), "[record]\nsigning_key = { env = \"TOOLCRIB_TEST_MISSING\" }\n");
    let refused = run(dir.path(), &["audit", "verify"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for said in ["TOOLCRIB_TEST_MISSING is not set", "--public-key"] {
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
    }
}
