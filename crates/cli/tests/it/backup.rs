//! The commands of `docs/guides/deploy.md` for backups: a copy of a running server's store becomes the
//! store of a new one, and its record verifies.
#![expect(clippy::disallowed_methods, reason = "runs the programs of SQLite and PostgreSQL")]

use std::{fs, path::Path, process::Command};

use serde_json::json;
use toolcrib_testkit::postgres::PostgresServer;

use crate::support::{Server, config, dir, finish, key, run, shared_store, write_config};

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_running_sqlite_store_is_restored() {
    let Some(sqlite) = std::env::var_os("TOOLCRIB_SQLITE") else {
        toolcrib_testkit::left_out("TOOLCRIB_SQLITE is not set; run `cargo xtask test`");
        return;
    };
    let (old, new) = (dir(), dir());
    write_config(old.path(), &config(""));
    let (_, text) = key(old.path(), &["--scope", "*"]);
    let server = Server::start(old.path());
    call(&server, &text).await;

    // The server keeps running while its store is copied.
    let state = new.path().join(".toolcrib");
    fs::create_dir(&state).unwrap();
    let copy = state.join("toolcrib.db");
    let backup = format!(".backup '{}'", copy.display());
    finish(Command::new(sqlite).arg(old.path().join(".toolcrib/toolcrib.db")).arg(backup)).ok();
    call(&server, &text).await;
    server.stop();
    let signing = "toolcrib.db.signing-key";
    fs::copy(old.path().join(".toolcrib").join(signing), state.join(signing)).unwrap();
    write_config(new.path(), &config(""));
    restored(new.path(), &text).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_of_postgresql_under_a_running_server_is_restored() {
    let Some(postgres) = PostgresServer::shared() else { return };
    let (old, new) = (dir(), dir());
    let (from, to) = (postgres.database(), postgres.database());
    let configured = |directory: &Path, url: &str| {
        write_config(directory, &(config("") + &shared_store(directory, url)));
    };
    configured(old.path(), &from);
    let (_, text) = key(old.path(), &["--scope", "*"]);
    let server = Server::start(old.path());
    call(&server, &text).await;

    let dump = new.path().join("toolcrib.dump");
    finish(Command::new("pg_dump").args(["--format=custom", "--file"]).arg(&dump).arg(&from)).ok();
    call(&server, &text).await;
    server.stop();
    finish(
        Command::new("pg_restore")
            .args(["--exit-on-error", "--no-owner", "--single-transaction", "--dbname", &to])
            .arg(&dump),
    )
    .ok();
    configured(new.path(), &to);
    restored(new.path(), &text).await;
}

async fn call(server: &Server, key: &str) {
    let caller = server.caller(Some(key));
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    loop {
        let (status, answer) = caller.otc("demo__echo", json!({ "text": "x" })).await;
        if status == 200 {
            return;
        }
        // The source may still be starting.
        assert!(std::time::Instant::now() < deadline, "{status}: {answer}");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
}

/// The store in `dir` is accepted as it is, serves the old key, and its record verifies.
async fn restored(dir: &Path, key: &str) {
    run(dir, &["audit", "accept", "--reason", "backup restored"]).ok();
    let server = Server::start(dir);
    call(&server, key).await;
    server.stop();
    let events = run(dir, &["audit", "export"]).ok().stdout;
    // The call after the copy is not in it.
    let calls = events.lines().filter(|line| line.contains("agent.toolReturned")).count();
    assert_eq!(calls, 2, "{events}");
    let verified = run(dir, &["audit", "verify"]).ok();
    assert!(verified.stdout.contains("verified"), "{verified:?}");
}
