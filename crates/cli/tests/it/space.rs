//! A store with little disk space left.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Caller, Server, config, dir, eventually, key, run, toolcrib, write_config};

const ONE: u64 = 64 << 20;

fn serve(at: &Path, data: &Path, keep_free: u64) -> Server {
    let text = config("").replace("[[source]]", "public_metrics = true\n[[source]]");
    write_config(at, &format!("{text}[store]\nkeep_free = \"{keep_free}\"\n"));
    Server::of(toolcrib(at).arg("serve").arg("--data-dir").arg(data))
}

/// The recorded events as pairs of type and subject, such as the name of the tool.
fn recorded(at: &Path, data: &Path) -> Vec<(String, String)> {
    let data = data.to_str().unwrap();
    let export = run(at, &["--data-dir", data, "audit", "export"]).ok().stdout;
    let events = export.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let about = |event: &Value| {
        let payload = &event["payload"];
        let name = payload.get("toolName").or(payload.get("resource")).and_then(Value::as_str);
        (event["type"].as_str().unwrap().to_owned(), name.unwrap_or_default().to_owned())
    };
    events.map(|event| about(&event)).collect()
}

async fn refusals(server: &Server, none: &Caller) {
    assert_eq!(none.otc("demo__echo", json!({ "text": "x" })).await.0, 403);
    assert_eq!(none.get("/v1/tools/mcp:demo.nothing").await.0, 404);
    assert_eq!(server.caller(Some("tc_wrong")).get("/v1/tools").await.0, 401);
}

fn readyz(server: &Server) -> String {
    let caller = server.caller(None);
    let answer = caller.get("/readyz");
    let (status, body) =
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(answer));
    assert_eq!(status, 200, "calls go on: {body}");
    body.to_string()
}

// I-18
#[tokio::test(flavor = "multi_thread")]
async fn with_little_space_only_what_runs_is_recorded_until_there_is_more() {
    let dir = dir();
    // A file system in memory, where nobody else writes much; on the disk it would not be known
    // whether there is more space because this test has made it.
    let memory = Path::new("/dev/shm");
    let apart = match memory.is_dir() {
        true => tempfile::tempdir_in(memory).unwrap(),
        false => tempfile::tempdir().unwrap(),
    };
    let data = apart.path().join("data");
    let ballast = apart.path().join("ballast");
    fs::write(&ballast, vec![1; 4 * usize::try_from(ONE).unwrap()]).unwrap();
    let stats = rustix::fs::statvfs(apart.path()).unwrap();
    let server = serve(dir.path(), &data, stats.f_bavail * stats.f_frsize + ONE);

    let data_arg = data.to_str().unwrap().to_owned();
    let make = |scope: &str| {
        let scopes = ["--scope", scope, "--scope", "metrics:all"];
        let args = ["--data-dir", &data_arg, "--principal", "p"];
        key(dir.path(), &[args.as_slice(), &scopes].concat()).1
    };
    let all = server.caller(Some(&make("*")));
    let none = server.caller(Some(&make("other:read")));
    let call = json!({ "text": "x" });
    let works = || {
        let called = all.otc("demo__echo", call.clone());
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(called)).0 == 200
    };
    eventually("calls go on", works);
    // A server gets to know of keys within a second.
    let known = || {
        let listed = none.get("/v1/tools");
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(listed)).0 == 200
    };
    eventually("the other key works", known);
    assert!(readyz(&server).contains("low on disk space"), "{}", readyz(&server));
    let before = recorded(dir.path(), &data);
    refusals(&server, &none).await;
    assert_eq!(all.otc("demo__add", json!({ "a": 1, "b": 2 })).await.0, 200);
    let pair = ["agent.toolCalled", "agent.toolReturned"];
    let pair = pair.map(|kind| (kind.to_owned(), "mcp:demo.add".to_owned()));
    assert_eq!(recorded(dir.path(), &data)[before.len()..], pair);
    let metrics = all.text("/metrics").await;
    assert!(metrics.contains("toolcrib_store_low_on_space 1"), "{metrics}");
    let unrecorded = metrics.lines().find(|it| it.starts_with("toolcrib_events_unrecorded_total"));
    assert!(unrecorded.is_some_and(|it| !it.ends_with(" 0")), "{metrics}");

    if memory.is_dir() {
        fs::remove_file(&ballast).unwrap();
        eventually("there is more", || !readyz(&server).contains("warning"));
        refusals(&server, &none).await;
        eventually("refusals are recorded again", || {
            let events = recorded(dir.path(), &data);
            let denials = events.iter().filter(|(kind, _)| kind == "authorization.decided");
            denials.count() >= 3
        });
        assert!(all.text("/metrics").await.contains("toolcrib_store_low_on_space 0"));
    }
    server.stop();
}
