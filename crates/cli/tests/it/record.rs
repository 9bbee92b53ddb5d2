//! The content of the record, redaction, and durability after a crash.

use std::{collections::BTreeMap, fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Server, demo_key, dir, run, write_config, write_private};

/// The events in the store of `data`, by run.
fn runs(data: &Path) -> BTreeMap<String, Vec<Value>> {
    let exported =
        run(data.parent().unwrap(), &["--data-dir", data.to_str().unwrap(), "audit", "export"])
            .ok();
    let mut runs: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in exported.stdout.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        runs.entry(event["runId"].as_str().unwrap().to_owned()).or_default().push(event);
    }
    runs
}

fn kinds(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_call_is_a_pair_without_content() {
    // I-18, I-20
    const CANARY: &str = "canary7f3a9c";
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    let reader = server.caller(Some(&demo_key(&data, "reader")));

    let calls = [
        (&admin, "demo__echo", json!({ "text": CANARY }), "ok"),
        (&admin, "demo__fail", json!({ "message": CANARY }), "error"),
        (&admin, "demo__structured", json!({ "city": CANARY }), "ok"),
        (&admin, "demo__echo", json!({ CANARY: CANARY }), "error"),
        (&admin, "demo__wipe", json!({}), "error"),
        (&reader, "demo__fail", json!({ "message": CANARY }), "forbidden"),
    ];
    let mut expected = Vec::new();
    for (caller, tool, arguments, status) in calls {
        let (_, run) = caller.recorded(tool, arguments).await.unwrap();
        expected.push((run, tool.replace("demo__", "mcp:demo."), status));
    }
    let still_running = contents(&data);
    let logs = server.stop();

    let runs = runs(&data);
    for (run, tool, status) in &expected {
        let mut events = &runs[run][..];
        if tool.ends_with("wipe") {
            assert_eq!(kinds(events)[0], "interrupt.requested", "somebody is asked first");
            events = &events[1..];
        }
        // The decision about a denied call is between its two events.
        let end = if *status == "forbidden" { 2 } else { 1 };
        let ends = [kinds(events)[0], kinds(events)[end]];
        assert_eq!(ends, ["agent.toolCalled", "agent.toolReturned"], "{events:?}");
        let [called, returned] = [&events[0]["payload"], &events[end]["payload"]];
        assert_eq!(called["toolName"], json!(tool));
        assert_eq!(returned["status"], *status, "{tool}");
        assert_eq!(called["callId"], returned["callId"]);
        assert_eq!(called["agentId"], "core.system");
        assert_eq!(events[end]["causationId"], events[0]["eventId"]);
        assert_eq!(
            returned.get("durationMs").is_some(),
            *status == "ok" || tool.ends_with("fail") && *status == "error"
        );
    }
    let hash = run(dir.path(), &["hash", &json!({ "text": CANARY }).to_string()]).ok().stdout;
    assert_eq!(runs[&expected[0].0][0]["payload"]["argsHash"], hash.trim_end());

    for (file, bytes) in still_running.into_iter().chain(contents(&data)) {
        let found = bytes.windows(CANARY.len()).any(|window| window == CANARY.as_bytes());
        assert!(!found, "{file} holds arguments");
        let key = demo_key(&data, "admin");
        let found = bytes.windows(key.len()).any(|window| window == key.as_bytes());
        assert!(!found || file.ends_with("demo.json"), "{file} holds a key");
    }
    assert!(!logs.contains(CANARY), "the log holds arguments");
}

/// Every file under `root` with its bytes.
pub(crate) fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(dir).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => open.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).unwrap_or_default();
                    found.push((entry.path().display().to_string(), bytes));
                }
            }
        }
    }
    assert!(found.iter().any(|(file, _)| file.ends_with("toolcrib.db")));
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_survives_a_kill_and_the_rest_is_closed() {
    // I-21
    let dir = dir();
    let data = dir.path().join("data");
    let mut server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));

    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let admin = admin.clone();
        callers.spawn(async move {
            let mut answered = Vec::new();
            for call in 0..2_000 {
                let text = format!("{caller}/{call}");
                let Some((status, run)) =
                    admin.recorded("demo__echo", json!({ "text": text })).await
                else {
                    return answered;
                };
                assert_eq!(status, 200);
                answered.push(run);
            }
            answered
        });
    }
    for _ in 0..4 {
        let admin = admin.clone();
        callers.spawn(async move {
            let slow = json!({ "steps": 100, "step_ms": 10_000 });
            assert!(admin.recorded("demo__slow", slow).await.is_none(), "nobody waits that long");
            Vec::new()
        });
    }
    // Until the slow calls are certainly on record, and then some more.
    let begun = |tool: &str| {
        let exported = run(dir.path(), &["--data-dir", "data", "audit", "export"]).stdout;
        exported.lines().filter(|line| line.contains(tool)).count()
    };
    crate::support::eventually("four slow calls began", || begun("mcp:demo.slow") == 4);
    crate::support::eventually("many quick ones", || begun("mcp:demo.echo") >= 200);
    server.process.kill();
    let answered: Vec<String> = callers.join_all().await.into_iter().flatten().collect();
    assert!(!answered.is_empty());

    let before = runs(&data);
    let open: Vec<&String> = before
        .iter()
        .filter(|(_, events)| kinds(events) == ["agent.toolCalled"])
        .map(|(run, _)| run)
        .collect();
    assert!(open.len() >= 4, "{}", open.len());
    for run in &answered {
        assert_eq!(kinds(&before[run]), ["agent.toolCalled", "agent.toolReturned"]);
        assert_eq!(before[run][1]["payload"]["status"], "ok");
    }

    let server = Server::demo(&data);
    let said = server.process.stderr();
    assert!(said.contains(&format!("closed {} calls", open.len())), "{said}");
    let after = runs(&data);
    for run in open {
        let events = &after[run];
        assert_eq!(kinds(events), ["agent.toolCalled", "agent.toolReturned"]);
        assert_eq!(events[1]["payload"]["status"], "error");
        assert_eq!(events[1]["payload"]["error"]["code"], "interrupted");
        assert!(events[1]["payload"].get("durationMs").is_none());
    }
    for (run, events) in &after {
        let sequences: Vec<u64> =
            events.iter().map(|it| it["sequence"].as_u64().unwrap()).collect();
        assert_eq!(sequences, (0..events.len() as u64).collect::<Vec<_>>(), "{run}");
    }
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    assert_eq!(admin.otc("demo__echo", json!({ "text": "back" })).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn tail_shows_the_newest_and_follows() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    for _ in 0..3 {
        assert_eq!(admin.otc("demo__echo", json!({ "text": "x" })).await.0, 200);
    }
    let tail = run(dir.path(), &["--data-dir", "data", "audit", "tail", "-n", "2"]).ok().stdout;
    assert_eq!(tail.lines().count(), 2, "{tail}");
    assert!(tail.lines().next().unwrap().contains("mcp:demo.echo by admin"), "{tail}");
    assert!(tail.lines().last().unwrap().contains("mcp:demo.echo ok after"), "{tail}");
    let other = ["--data-dir", "data", "audit", "tail", "--tenant", "other"];
    assert_eq!(run(dir.path(), &other).ok().stdout, "");

    let mut follow = crate::support::Process::start(crate::support::toolcrib(dir.path()).args([
        "--data-dir",
        "data",
        "--json",
        "audit",
        "tail",
        "-f",
        "-n",
        "1",
    ]));
    follow
        .until("the newest event", |process| (process.stdout().lines().count() == 1).then_some(()));
    assert_eq!(admin.otc("demo__add", json!({ "a": 1, "b": 1 })).await.0, 200);
    follow.until("what happened since", |process| {
        (process.stdout().lines().count() == 3).then_some(())
    });
    let last: Value = serde_json::from_str(follow.stdout().lines().last().unwrap()).unwrap();
    assert_eq!(last["payload"]["toolName"], "mcp:demo.add");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_on_where_the_last_one_ended() {
    let dir = dir();
    let data = dir.path().join("data");
    let server = Server::demo(&data);
    let admin = server.caller(Some(&demo_key(&data, "admin")));
    admin.otc("demo__echo", json!({ "text": "x" })).await;
    let export = |after: &str| {
        run(dir.path(), &["--data-dir", "data", "audit", "export", "--after", after]).ok()
    };
    let first = export("0");
    assert_eq!(first.stdout.lines().count(), 2);
    let end = first.stderr.trim_end().rsplit(' ').next().unwrap().to_owned();
    assert_eq!(export(&end).stdout, "");
    admin.otc("demo__echo", json!({ "text": "x" })).await;
    assert_eq!(export(&end).stdout.lines().count(), 2);
}

/// A forwarder or anchor that appends to a file of the server would destroy it.
#[test]
fn no_destination_of_the_record_is_a_file_of_the_server() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir_all(at(".toolcrib")).unwrap();
    fs::write(at(".toolcrib/toolcrib.db"), "").unwrap();
    write_private(&at("seal.key"), &"0f".repeat(32));
    write_private(&at("secret.txt"), "secret");
    fs::write(at("flow.yaml"), "").unwrap();
    std::os::unix::fs::symlink(at(".toolcrib"), at("folder")).unwrap();
    std::os::unix::fs::symlink(at(".toolcrib/toolcrib.db-wal"), at("later")).unwrap();
    std::os::unix::fs::symlink("seal.key", at("link")).unwrap();
    fs::hard_link(at(".toolcrib/toolcrib.db"), at("same.jsonl")).unwrap();
    fs::hard_link(at("secret.txt"), at("same.txt")).unwrap();
    let check = |destination: &str| {
        let text = format!(
            "[store]\nseal_key = {{ file = \"seal.key\" }}\n[record]\n{destination}\n\
             [[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flow*.yaml\"]\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"https://up.example/mcp\"\n\
             headers = {{ X-Key = {{ file = \"secret.txt\" }} }}\n"
        );
        write_config(dir.path(), &text);
        run(dir.path(), &["config", "check"])
    };
    for (file, what) in [
        (".toolcrib/anchors.jsonl", "the data directory"),
        ("./x/../.toolcrib/toolcrib.db.witness", "the data directory"),
        ("folder/out.jsonl", "the data directory"),
        ("later", "the data directory"),
        ("same.jsonl", "the data directory"),
        ("seal.key", "a key of the server"),
        ("link", "a key of the server"),
        ("secret.txt", "a file with a secret"),
        ("same.txt", "a file with a secret"),
        ("toolcrib.toml", "the configuration"),
        ("flow.yaml", "the configuration"),
    ] {
        let forward = "[[record.forward]]\nname = \"siem\"\nkind = \"file\"";
        for destination in ["[[record.anchor]]", forward] {
            let checked = check(&format!("{destination}\nfile = \"{file}\""));
            let output = format!("{}{}", checked.stdout, checked.stderr);
            assert_ne!(checked.code, 0, "{file}: {output}");
            assert!(output.contains(&format!("is part of {what}")), "{file}: {output}");
            let key =
                if destination == forward { "record.forward.siem.file" } else { "record.anchor" };
            assert!(output.contains(key), "{file}: {output}");
            // Other commands and the server read the same configuration.
            let other = run(dir.path(), &["serve"]);
            assert!(other.code != 0 && other.stderr.contains("is part of"), "{file}: {other:?}");
        }
    }
    let own = check("[[record.anchor]]\nfile = \"anchors.jsonl\"");
    assert!(!format!("{}{}", own.stdout, own.stderr).contains("is part of"), "{own:?}");
}
