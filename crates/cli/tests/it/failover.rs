//! Servers over a database that has lost signed events, as after a failover to a standby that lagged
//! behind (I-109).

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::postgres::PostgresServer;

use crate::support::{
    Server, config, dir, eventually_async as eventually, finish, key, run, shared_store,
    write_config,
};

/// The directory of a server over `database`, without any files.
fn prepare(database: &str) -> TempDir {
    let dir = dir();
    configure(&dir, database);
    dir
}

fn configure(dir: &TempDir, database: &str) {
    let store = shared_store(dir.path(), database);
    let text = format!("{store}checkpoint_interval = \"1s\"\n{}", config(""));
    write_config(dir.path(), &text);
}

async fn call(server: &Server, key: &str) -> u16 {
    let caller = server.caller(Some(key));
    loop {
        let answer = caller.otc("demo__echo", json!({ "text": "x" })).await;
        // The source may still be starting.
        if answer.0 == 200 || answer.0 == 503 {
            return answer.0;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// Returns the reason why `server` is not ready; empty when it is.
async fn unready(server: &Server) -> String {
    let (status, body) = server.caller(None).get("/readyz?verbose").await;
    let reason = body["reason"].as_str().unwrap_or_default().to_owned();
    assert_eq!(status == 200, reason.is_empty(), "{body}");
    reason
}

fn checkpoints(dir: &TempDir) -> Vec<Value> {
    let export = ["audit", "export", "--tenant", "default", "--checkpoints"];
    let lines = run(dir.path(), &export).ok().stdout;
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["number"].is_u64()).collect()
}

/// Calls on a server in `dir`, which signs the call when it ends.
async fn sign_calls(dir: &TempDir, text: &str) {
    let server = Server::start(dir.path());
    eventually("a call runs", async || call(&server, text).await == 200).await;
    server.stop();
}

// I-109
#[tokio::test(flavor = "multi_thread")]
async fn after_a_lossy_failover_every_server_refuses_until_the_loss_is_accepted() {
    let Some(postgres) = PostgresServer::shared() else { return };
    let database = postgres.database();
    let one = prepare(&database);
    let (_, text) = key(one.path(), &["--scope", "*"]);
    sign_calls(&one, &text).await;
    // The state of a standby that lags behind.
    let standby = postgres.copy(&database);
    sign_calls(&one, &text).await;

    // A server without files cannot notice the loss.
    let two = prepare(&standby);
    let second = Server::start(two.path());
    eventually("a call runs", async || call(&second, &text).await == 200).await;
    assert_eq!(unready(&second).await, "");
    // A server that remembers the lost part refuses, and so does every other one.
    configure(&one, &standby);
    let first = Server::start(one.path());
    let refuses = async |server: &Server| unready(server).await.contains("calls are refused");
    eventually("the first refuses", async || refuses(&first).await).await;
    eventually("the second refuses, too", async || refuses(&second).await).await;
    assert_eq!((call(&first, &text).await, call(&second, &text).await), (503, 503));
    first.stop();
    second.stop();
    // Also one that starts afterwards, while no other one runs.
    let three = prepare(&standby);
    let third = Server::start(three.path());
    assert!(refuses(&third).await, "{}", unready(&third).await);
    assert_eq!(call(&third, &text).await, 503);
    third.stop();
    let before = checkpoints(&one).len();
    let verified = run(three.path(), &["audit", "verify"]);
    assert_eq!(verified.code, 1, "{verified:?}");

    // As the guide says: accept once, and the other servers begin without files.
    let accepted = run(one.path(), &["audit", "accept", "--reason", "failover"]).ok().stdout;
    assert!(accepted.contains("accepted the log of default"), "{accepted}");
    assert_eq!(checkpoints(&one).len(), before + 1);
    fs::remove_file(two.path().join(".toolcrib/postgres.witness")).unwrap();
    let (first, second) = (Server::start(one.path()), Server::start(two.path()));
    for server in [&first, &second] {
        assert_eq!(unready(server).await, "");
        eventually("a call runs", async || call(server, &text).await == 200).await;
    }
    first.stop();
    second.stop();
    run(two.path(), &["audit", "verify"]).ok();
}

// I-109
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_files_takes_the_witness_of_the_store() {
    let Some(postgres) = PostgresServer::shared() else { return };
    let database = postgres.database();
    let (one, two) = (prepare(&database), prepare(&database));
    let (_, text) = key(one.path(), &["--scope", "*"]);
    sign_calls(&one, &text).await;
    let verified = run(two.path(), &["--json", "audit", "verify"]).ok().json();
    assert_eq!(verified["witness"], "compared", "{verified}");
    sign_calls(&two, &text).await;

    // The signed checkpoints alone do not show whether more of them followed.
    let three = prepare(&database);
    let sql = |sql: &str| finish(&mut postgres.psql(&database, sql)).ok();
    sql("CREATE TABLE kept AS SELECT * FROM witnesses; DELETE FROM witnesses");
    let server = Server::start(three.path());
    assert!(unready(&server).await.contains("the witness of the record is gone"));
    server.stop();
    let verified = run(three.path(), &["--json", "audit", "verify"]);
    assert_eq!((verified.code, verified.json()["result"].as_str()), (5, Some("no_witness")));

    // A witness without a signature of the key does not count.
    sql(
        "INSERT INTO witnesses SELECT server, digest, replace(text, 'position\":', 'position\":1') FROM kept",
    );
    let server = Server::start(three.path());
    let reason = unready(&server).await;
    assert!(reason.contains("a witness in the store is not one of the signing key"), "{reason}");
    assert_eq!(call(&server, &text).await, 200, "calls are recorded and chained");
    server.stop();
    assert_eq!(run(three.path(), &["audit", "verify"]).code, 1);

    sql("DELETE FROM witnesses; INSERT INTO witnesses SELECT * FROM kept; DROP TABLE kept");
    sign_calls(&three, &text).await;
    // The witness of a dead server is removed once another one contains it.
    let rows = finish(postgres.psql(&database, "SELECT server FROM witnesses").arg("-At")).ok();
    assert_eq!(rows.stdout.lines().count(), 1, "{rows:?}");
    // A server that was away takes over what the others have signed.
    sign_calls(&two, &text).await;
    run(two.path(), &["audit", "verify"]).ok();
}
