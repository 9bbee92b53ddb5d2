//! A store that cannot be written for a while: the readiness probe fails until an event is stored, also
//! without calls.

use std::{path::Path, process::Stdio};

use serde_json::{Value, json};
use toolcrib_testkit::postgres::PostgresServer;

use crate::support::{
    Server, config, dir, eventually_async as eventually, finish, key, run, shared_store,
    write_config,
};

async fn call(server: &Server, key: &str) -> u16 {
    server.caller(Some(key)).otc("demo__echo", json!({ "text": "x" })).await.0
}

/// Returns the status of the probe, and the reason if it fails.
async fn probe(server: &Server) -> (u16, String) {
    let (status, body) = server.caller(None).get("/readyz?verbose").await;
    (status, body["reason"].as_str().unwrap_or_default().to_owned())
}

/// Returns the events of the operator.
fn own_events(dir: &Path) -> Vec<Value> {
    let export = run(dir, &["audit", "export", "--tenant", "-"]).ok().stdout;
    export.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Runs a server in `dir` whose store `lock` locks until its result is dropped.
async fn outage<T>(dir: &Path, lock: impl AsyncFnOnce() -> T, unlock: impl FnOnce(T)) {
    let (_, text) = key(dir, &["--scope", "*"]);
    let server = Server::start(dir);
    eventually("a call runs", async || call(&server, &text).await == 200).await;
    assert_eq!(probe(&server).await, (200, String::new()));

    let lock = lock().await;
    assert_eq!(call(&server, &text).await, 503);
    let (status, reason) = probe(&server).await;
    assert!(status == 503 && reason.contains("events cannot be stored"), "{status}: {reason}");
    unlock(lock);
    // No call comes, because load balancers follow the probe.
    eventually("it is ready again", async || probe(&server).await.0 == 200).await;
    let recorded = || own_events(dir);
    eventually("the outage is recorded", async || !recorded().is_empty()).await;
    assert_eq!(call(&server, &text).await, 200);
    server.stop();
    let events = recorded();
    let [resumed] = events.as_slice() else {
        panic!("one event, and none for a probe: {events:?}")
    };
    assert_eq!(resumed["type"], "record.resumed", "{resumed}");
    let failed = resumed["payload"]["failed"].as_u64();
    assert!(failed > Some(0) && resumed["payload"]["since"].is_string(), "{resumed}");
    let line = run(dir, &["audit", "tail", "--tenant", "-"]).ok().stdout;
    assert!(line.contains("record.resumed") && line.contains("failed since"), "{line}");
}

// I-18
#[tokio::test(flavor = "multi_thread")]
async fn the_probe_fails_while_events_cannot_be_stored() {
    let dir = dir();
    write_config(dir.path(), &format!("[record]\ncheckpoint_interval = \"1h\"\n{}", config("")));
    let file = dir.path().join(".toolcrib/toolcrib.db");
    let lock = async || {
        let connection = rusqlite::Connection::open(&file).unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection
    };
    outage(dir.path(), lock, drop).await;
}

// I-18
#[tokio::test(flavor = "multi_thread")]
async fn the_probe_fails_while_the_tables_of_postgres_are_locked() {
    let Some(postgres) = PostgresServer::shared() else { return };
    let (dir, database) = (dir(), postgres.database());
    let store = shared_store(dir.path(), &database);
    let text = format!("{store}checkpoint_interval = \"1h\"\n{}", config(""));
    write_config(dir.path(), &text);
    let is_locked = async || {
        let locks = "SELECT count(*) FROM pg_locks WHERE mode = 'ExclusiveLock' AND granted \
                     AND relation = 'events'::regclass";
        finish(postgres.psql(&database, locks).arg("-At")).ok().stdout.trim() == "1"
    };
    let lock = async || {
        let sql = "BEGIN; LOCK TABLE events IN EXCLUSIVE MODE; SELECT pg_sleep(600)";
        let session = postgres.psql(&database, sql).stdout(Stdio::null()).spawn().unwrap();
        eventually("it is locked", is_locked).await;
        session
    };
    let unlock = |mut session: std::process::Child| {
        session.kill().unwrap();
        session.wait().unwrap();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE mode = 'ExclusiveLock' \
                   AND relation = 'events'::regclass";
        finish(&mut postgres.psql(&database, end)).ok();
    };
    outage(dir.path(), lock, unlock).await;
}
