//! The witness (I-72): a server signs only events that continue the signed state, refuses calls when
//! signed events are missing, and otherwise requires `audit accept`.

use std::{fs, path::Path, time::Duration};

use serde_json::{Value, json};
use toolcrib_store::conformance::{
    attack::Attack,
    event_log::decided,
    record_store::{sign, signing_key},
};

use crate::support::{
    Caller, CommandOutput, Server, config, dir, eventually, key, run, write_config,
};

/// A checkpoint interval that is never reached: only the first events and the last ones are signed.
const SELDOM: &str = "checkpoint_interval = \"1h\"";

fn configure(dir: &Path, record: &str) -> String {
    write_config(dir, &format!("[record]\n{record}\n{}", config("")));
    key(dir, &["--scope", "*", "--scope", "metrics:all", "--tenant", "default"]).1
}

async fn call(server: &Server, key: &str) -> (u16, Value) {
    let caller = server.caller(Some(key));
    while caller.get("/v1/tools").await.1.as_array().is_none_or(Vec::is_empty) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The tools of the last run are listed before their server is connected.
    loop {
        let answer = caller.otc("demo__echo", json!({ "text": "x" })).await;
        if answer.0 != 400 {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn readiness(caller: &Caller) -> (u16, String) {
    let (status, body) = caller.get("/readyz?verbose").await;
    let checks = body["checks"].as_array().cloned().unwrap_or_default();
    let mut failed = checks.iter().filter(|check| check["state"] == "failed");
    assert!(failed.all(|check| check["name"] == "record"), "{body}");
    (status, body["reason"].as_str().unwrap_or_default().to_owned())
}

/// Numbers of the checkpoints of `default`.
fn checkpoints(dir: &Path) -> Vec<u64> {
    let export = ["audit", "export", "--tenant", "default", "--checkpoints"];
    let lines = run(dir, &export).ok().stdout;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter_map(|line| line["number"].as_u64()).collect()
}

fn verify(dir: &Path, args: &[&str]) -> CommandOutput {
    run(dir, &[&["--json", "audit", "verify"], args].concat())
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(to).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::remove_file(file.path()).unwrap();
        }
    }
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

/// A directory with a record of three checkpoints, and a key for calls.
async fn signed(dir: &Path) -> String {
    let text = configure(dir, SELDOM);
    for _ in 0..3 {
        let server = Server::start(dir);
        assert_eq!(call(&server, &text).await.0, 200);
        server.stop();
    }
    assert!(checkpoints(dir).len() >= 3, "{:?}", checkpoints(dir));
    verify(dir, &[]).ok();
    text
}

// I-72
#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_continue_what_was_signed_is_not_signed() {
    let dir = dir();
    let text = signed(dir.path()).await;
    let (data, good) = (dir.path().join(".toolcrib"), dir.path().join("good"));
    copy(&data, &good);
    for attack in Attack::ALL {
        // Before the next checkpoint only the running server knows of these events.
        if [Attack::InsertAfterLastCheckpoint, Attack::CutUnsignedEnd].contains(&attack) {
            continue;
        }
        copy(&good, &data);
        attack.commit(&data.join("toolcrib.db"), "default");
        let before = checkpoints(dir.path());
        assert_eq!(verify(dir.path(), &[]).code, 1, "{attack:?}");

        let server = Server::start(dir.path());
        let caller = server.caller(Some(&text));
        let (status, reason) = readiness(&caller).await;
        assert_eq!(status, 503, "{attack:?}");
        assert!(!reason.contains("default"), "everybody may read it: {reason}");
        let gone = attack != Attack::Change;
        assert_eq!(reason.contains("calls are refused"), gone, "{attack:?}: {reason}");
        let answer = call(&server, &text).await;
        assert_eq!(answer.0, if gone { 503 } else { 200 }, "{attack:?}: {answer:?}");
        let told = server.stop();
        assert!(told.contains("toolcrib audit accept"), "{attack:?}: {told}");
        assert_eq!(checkpoints(dir.path()), before, "{attack:?}: nothing was signed");
    }
}

// I-72
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_the_operator_accepts_is_signed_again_and_says_so() {
    let dir = dir();
    let text = signed(dir.path()).await;
    let data = dir.path().join(".toolcrib");
    // A backup of the store alone.
    let backup = fs::read(data.join("toolcrib.db")).unwrap();
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    let running = run(dir.path(), &["audit", "accept"]);
    assert_eq!(running.code, 1, "{running:?}");
    assert!(running.stderr.contains("another server"), "{running:?}");
    server.stop();
    let nothing = run(dir.path(), &["audit", "accept"]).ok().stdout;
    assert!(nothing.contains("needs no acceptance"), "{nothing}");

    fs::write(data.join("toolcrib.db"), backup).unwrap();
    assert_eq!(verify(dir.path(), &[]).code, 1);
    let server = Server::start(dir.path());
    let answer = call(&server, &text).await;
    assert_eq!(answer.0, 503, "{answer:?}");
    server.stop();

    let accept = ["--json", "audit", "accept", "--reason", "backup restored"];
    let accepted = run(dir.path(), &accept).ok().json();
    assert_eq!(accepted["accepted"][0]["tenant"], "default", "{accepted}");
    let told = run(dir.path(), &["audit", "tail", "-n", "1"]).ok().stdout;
    assert!(told.contains("record.accepted") && told.contains("(backup restored)"), "{told}");
    verify(dir.path(), &[]).ok();
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    assert_eq!(readiness(&server.caller(None)).await.0, 200);
    server.stop();
    let signed = verify(dir.path(), &[]).ok().json();
    assert_eq!(signed["tenants"][0]["unsigned"], 0, "{signed}");
}

// I-72
#[tokio::test(flavor = "multi_thread")]
async fn without_its_witness_or_with_another_key_nothing_is_signed() {
    let dir = dir();
    let text = signed(dir.path()).await;
    let data = dir.path().join(".toolcrib");
    let (witness, secret) =
        (data.join("toolcrib.db.witness"), data.join("toolcrib.db.signing-key"));
    let good = fs::read_to_string(&witness).unwrap();
    let before = checkpoints(dir.path());
    let cases: [&dyn Fn(); 3] = [
        &|| fs::remove_file(&witness).unwrap(),
        &|| fs::write(&witness, good.replacen("\"number\":", "\"number\":1", 1)).unwrap(),
        &|| {
            fs::write(&witness, &good).unwrap();
            fs::write(&secret, "0b".repeat(32)).unwrap();
        },
    ];
    for (number, case) in cases.iter().enumerate() {
        case();
        let verified = verify(dir.path(), &[]);
        assert_eq!(verified.code, if number == 0 { 5 } else { 1 }, "case {number}");
        if number == 0 {
            assert_eq!(verified.json()["result"], "no_witness");
            let words = run(dir.path(), &["audit", "verify"]).stdout;
            assert!(words.contains("no witness here") && !words.contains("finding"), "{words}");
        }
        let server = Server::start(dir.path());
        let (status, reason) = readiness(&server.caller(None)).await;
        assert!(status == 503 && reason.contains("witness"), "case {number}: {reason}");
        assert_eq!(call(&server, &text).await.0, 200, "calls are recorded and chained");
        server.stop();
        assert_eq!(checkpoints(dir.path()), before, "case {number}: nothing was signed");
    }
    let accepted = run(dir.path(), &["audit", "accept"]).ok().stdout;
    assert!(accepted.contains("the witness is not one of the signing key"), "{accepted}");
    let server = Server::start(dir.path());
    assert_eq!(readiness(&server.caller(None)).await.0, 200);
    server.stop();
    assert!(checkpoints(dir.path()).len() > before.len());
}

/// I-72: a witness that changes under a server is noticed, and stays as it is for `verify` to see.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_notices_a_witness_that_is_changed_or_removed() {
    let dir = dir();
    let text = signed(dir.path()).await;
    let witness = dir.path().join(".toolcrib/toolcrib.db.witness");
    let good = fs::read_to_string(&witness).unwrap();
    for change in ["changed", "removed"] {
        let server = Server::start(dir.path());
        assert_eq!(call(&server, &text).await.0, 200);
        let before = checkpoints(dir.path());
        match change {
            "changed" => fs::write(&witness, "garbage").unwrap(),
            _ => fs::remove_file(&witness).unwrap(),
        }
        let caller = server.caller(None);
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        while readiness(&caller).await.0 != 503 {
            assert!(std::time::Instant::now() < deadline, "{change}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(call(&server, &text).await.0, 200, "calls are recorded and chained");
        server.stop();
        assert_eq!(checkpoints(dir.path()), before, "{change}: nothing was signed");
        let code = if change == "removed" { 5 } else { 1 };
        assert_eq!(verify(dir.path(), &[]).code, code, "{change}");
        fs::write(&witness, &good).unwrap();
    }
}

// I-72: an emptied store is not treated as new, and events added to it are not signed.
#[tokio::test(flavor = "multi_thread")]
async fn an_emptied_store_without_its_witness_is_not_signed() {
    let dir = dir();
    let text = signed(dir.path()).await;
    let data = dir.path().join(".toolcrib");
    let store = rusqlite::Connection::open(data.join("toolcrib.db")).unwrap();
    store.execute_batch("DELETE FROM events; DELETE FROM checkpoints").unwrap();
    drop(store);
    fs::remove_file(data.join("toolcrib.db.witness")).unwrap();
    for _ in 0..2 {
        let server = Server::start(dir.path());
        let (status, reason) = readiness(&server.caller(None)).await;
        assert!(status == 503 && reason.contains("witness"), "{reason}");
        assert_eq!(call(&server, &text).await.0, 200, "calls are recorded and chained");
        let told = server.stop();
        assert!(told.contains("toolcrib audit accept"), "{told}");
        assert_eq!(verify(dir.path(), &[]).code, 4, "nothing is proven");
    }
    assert_eq!(checkpoints(dir.path()), [0_u64; 0], "nothing was signed");
    run(dir.path(), &["audit", "accept", "--reason", "started over"]).ok();
    let server = Server::start(dir.path());
    assert_eq!(readiness(&server.caller(None)).await.0, 200);
    server.stop();
    verify(dir.path(), &[]).ok();
}

// I-18: a trigger in the store could discard events without an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_with_a_foreign_trigger_runs_no_calls() {
    let dir = dir();
    let text = configure(dir.path(), SELDOM);
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    let store = rusqlite::Connection::open(dir.path().join(".toolcrib/toolcrib.db")).unwrap();
    let trigger = "CREATE TRIGGER t BEFORE INSERT ON events BEGIN SELECT raise(IGNORE); END";
    store.execute_batch(trigger).unwrap();
    let answer = call(&server, &text).await;
    assert_eq!(answer.0, 503, "{answer:?}");
    let caller = server.caller(None);
    for _ in 0..500 {
        if readiness(&caller).await.1.contains("schema") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (status, reason) = readiness(&caller).await;
    assert!(status == 503 && reason.contains("schema of the store was changed"), "{reason}");
    server.stop();
    let refused = run(dir.path(), &["audit", "verify"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("the trigger \"t\" is not one of this program"), "{refused:?}");
    store.execute_batch("DROP TRIGGER t").unwrap();
    drop(store);
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    server.stop();
    let events = verify(dir.path(), &[]).ok().json()["events"].as_u64().unwrap();
    assert_eq!(events, 5, "the key, and each call that ran, is in the record");
}

// I-72
#[tokio::test(flavor = "multi_thread")]
async fn a_witness_that_a_crash_left_behind_the_store_is_caught_up() {
    let dir = dir();
    let text = configure(dir.path(), SELDOM);
    let witness = dir.path().join(".toolcrib/toolcrib.db.witness");
    let mut older = None;
    for _ in 0..3 {
        let server = Server::start(dir.path());
        assert_eq!(call(&server, &text).await.0, 200);
        assert_eq!(readiness(&server.caller(None)).await, (200, String::new()));
        server.stop();
        let written = fs::read(&witness).unwrap();
        if let Some(older) = older.replace(written) {
            fs::write(&witness, older).unwrap();
        }
    }
    verify(dir.path(), &[]).ok();
    let server = Server::start(dir.path());
    assert_eq!(readiness(&server.caller(None)).await.0, 200);
    server.stop();
    let told = verify(dir.path(), &[]).ok().json();
    assert_eq!(told["tenants"][0]["unsigned"], 0, "{told}");
}

// I-72, I-73
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_vanishes_under_a_server_stops_calls() {
    let dir = dir();
    let text = configure(dir.path(), SELDOM);
    let store = dir.path().join(".toolcrib/toolcrib.db");
    let aside = dir.path().join("aside.db");
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    let caller = server.caller(None);
    let until = async |what: &str, wanted: &str| {
        let deadline = std::time::Instant::now() + Duration::from_secs(30);
        loop {
            let (_, reason) = readiness(&caller).await;
            let same = if wanted.is_empty() { reason.is_empty() } else { reason.contains(wanted) };
            if same {
                return;
            }
            assert!(std::time::Instant::now() < deadline, "{what}: {reason}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    fs::rename(&store, &aside).unwrap();
    until("it is gone", "gone").await;
    let (status, answer) = call(&server, &text).await;
    assert_eq!(status, 503, "{answer}");
    fs::copy(&aside, &store).unwrap();
    until("another file is there", "replaced").await;
    assert_eq!(call(&server, &text).await.0, 503);
    fs::rename(&aside, &store).unwrap();
    until("it is back", "").await;
    assert_eq!(call(&server, &text).await.0, 200);
    // Its latest events are in the write-ahead log.
    let log = store.with_extension("db-wal");
    fs::rename(&log, &aside).unwrap();
    assert_eq!(call(&server, &text).await.0, 503, "at once, not after a second");
    until("its log is gone", "write-ahead log").await;
    fs::rename(&aside, &log).unwrap();
    until("its log is back", "").await;
    assert_eq!(call(&server, &text).await.0, 200);
    // Emptied in place, by other means.
    eventually("its events are signed", || {
        run(dir.path(), &["audit", "export", "--checkpoints"]).ok().stdout.contains("\"number\"")
    });
    Attack::RemoveTenant.commit(&store, "default");
    until("it is shorter", "shorter").await;
    assert_eq!(call(&server, &text).await.0, 503);
    server.stop();
}

/// Events that changed since the last check are not signed, although no checkpoint covers them.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_notices_a_change_of_what_it_has_not_signed_yet() {
    let dir = dir();
    let text = configure(dir.path(), &format!("{SELDOM}\ncheckpoint_every = 8"));
    let store = dir.path().join(".toolcrib/toolcrib.db");
    let server = Server::start(dir.path());
    assert_eq!(call(&server, &text).await.0, 200);
    eventually("the first events are signed", || !checkpoints(dir.path()).is_empty());
    assert_eq!(call(&server, &text).await.0, 200);
    // Two looks later.
    tokio::time::sleep(Duration::from_millis(2500)).await;
    let connection = toolcrib_store::conformance::attack::open(&store);
    toolcrib_store::conformance::attack::change(&connection, "default", 3);
    for _ in 0..5 {
        assert_eq!(call(&server, &text).await.0, 200);
    }
    let deadline = std::time::Instant::now() + Duration::from_secs(30);
    let caller = server.caller(Some(&text));
    while !caller.text("/metrics").await.contains("toolcrib_record_checkpoints_refused_total 1") {
        assert!(std::time::Instant::now() < deadline, "it was signed");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(readiness(&caller).await.0, 503);
    server.stop();
    assert_eq!(checkpoints(dir.path()), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_exit_code_says_what_is_proven() {
    let dir = dir();
    configure(dir.path(), SELDOM);
    let public: String = signing_key().public().iter().map(|byte| format!("{byte:02x}")).collect();
    fs::write(dir.path().join("record.pub"), public).unwrap();
    let store = toolcrib_store::SqliteStore::open(
        dir.path().join(".toolcrib/toolcrib.db"),
        toolcrib_store::Options::default(),
    )
    .unwrap();
    use toolcrib_core::{event::EventLog as _, store::Storage as _};
    let check =
        |args: &[&str]| verify(dir.path(), &[&["--public-key", "record.pub"], args].concat());
    let outcome =
        |ran: CommandOutput| (ran.code, ran.json()["result"].clone(), ran.json()["ok"].clone());
    assert_eq!(outcome(check(&[])), (4, json!("no_checkpoint"), json!(false)));
    store.append(&[decided("default", "r", "a")]).await.unwrap();
    assert_eq!(outcome(check(&[])), (4, json!("no_checkpoint"), json!(false)));
    sign(&store, &signing_key(), "default", 1).await;
    assert_eq!(outcome(check(&[])), (0, json!("verified"), json!(true)));
    store.append(&[decided("default", "r", "b")]).await.unwrap();
    assert_eq!(outcome(check(&["--interval", "1h"])), (3, json!("unsigned_tail"), json!(false)));
    assert_eq!(outcome(check(&["--interval", "999999h"])), (0, json!("verified"), json!(true)));
    store.close().await;

    // An export is verified like a store; without checkpoints the result is exit code 4.
    let export = |args: &[&str]| {
        let lines = run(dir.path(), &[&["audit", "export"], args].concat()).ok().stdout;
        fs::write(dir.path().join("events.jsonl"), lines).unwrap();
    };
    let file = ["--file", "events.jsonl"];
    export(&[]);
    assert_eq!(outcome(check(&file)).0, 4);
    let words = run(dir.path(), &[&["audit", "verify"], &file[..]].concat());
    assert!(!words.stdout.contains("nothing was changed"), "{words:?}");
    assert!(words.stdout.contains("not proven"), "{words:?}");
    export(&["--checkpoints"]);
    assert_eq!(outcome(check(&file)).0, 3);
    export(&["--checkpoints", "--tenant", "default", "--until", "2"]);
    assert_eq!(outcome(check(&file)).0, 0);
    let text = fs::read_to_string(dir.path().join("events.jsonl")).unwrap();
    let changed = text.replacen("\"allowed\":false", "\"allowed\":true", 1);
    fs::write(dir.path().join("events.jsonl"), changed).unwrap();
    assert_eq!(outcome(check(&file)), (1, json!("changed"), json!(false)));
    assert_eq!(run(dir.path(), &["audit", "verify", "--from", "2"]).code, 2);
}

/// I-72: what a running server has appended, it signs as it knows it; what another program changes
/// before the signature, it does not sign.
#[tokio::test(flavor = "multi_thread")]
async fn a_running_server_does_not_sign_what_another_program_changes() {
    let dir = dir();
    let text = configure(dir.path(), "checkpoint_every = 4\ncheckpoint_interval = \"1h\"");
    let server = Server::start(dir.path());
    let caller = server.caller(None);
    let store = rusqlite::Connection::open(dir.path().join(".toolcrib/toolcrib.db")).unwrap();
    let number = |sql: &str| store.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    let signed = || number("SELECT count(*) FROM checkpoints WHERE tenant = 'default'");
    // The first signatures compare all events with the file, the later ones do not.
    for wanted in 1..=4 {
        for _ in 0..2 {
            assert_eq!(call(&server, &text).await.0, 200);
        }
        eventually("a signature", || signed() >= wanted);
    }
    assert_eq!(readiness(&caller).await, (200, String::new()));

    let before = signed();
    assert_eq!(call(&server, &text).await.0, 200);
    let changed = "UPDATE events SET timestamp = timestamp + 1 WHERE tenant = 'default' \
                   AND tenant_position = (SELECT max(tenant_position) - 1 FROM events \
                                          WHERE tenant = 'default')";
    assert_eq!(store.execute(changed, []).unwrap(), 1);
    for _ in 0..2 {
        assert_eq!(call(&server, &text).await.0, 200);
    }
    for _ in 0..500 {
        if readiness(&caller).await.0 == 503 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(readiness(&caller).await.0, 503);
    server.stop();
    assert_eq!(signed(), before, "nothing more was signed");
    drop(store);
    assert_eq!(verify(dir.path(), &[]).code, 1);
}
