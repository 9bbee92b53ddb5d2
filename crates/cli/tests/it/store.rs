//! `toolcrib store` with PostgreSQL: migrations at once, and a copy that is killed.
#![expect(clippy::disallowed_methods, reason = "runs the client of PostgreSQL")]

use std::{
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use toolcrib_testkit::postgres;

use crate::support::{
    Process, config, dir, eventually, finish, key, run, shared_store, toolcrib, write_config,
};

/// Configures the store at `url`.
fn configure(dir: &Path, url: &str) {
    write_config(dir, &(config("") + &shared_store(dir, url)));
}

/// Runs `sql`, and returns the values without names.
fn sql(url: &str, sql: &str) -> String {
    let args = ["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql];
    finish(Command::new("psql").args(args)).ok().stdout.trim().to_owned()
}

#[test]
fn processes_that_migrate_at_once_create_the_tables_once() {
    let Some(database) = postgres::database() else { return };
    let dir = dir();
    configure(dir.path(), &database);
    let processes: Vec<_> =
        (0..6).map(|_| Process::start(toolcrib(dir.path()).args(["store", "migrate"]))).collect();
    for mut process in processes {
        assert_eq!(process.ended().code(), Some(0), "{}", process.stderr());
        assert!(process.stdout().contains("are those of this version"), "{}", process.stdout());
    }
    assert_eq!(sql(&database, "SELECT count(*) FROM schema_version"), "1");
    assert_eq!(sql(&database, "SELECT count(*) FROM log_position"), "1");
    let partitions = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'events'::regclass";
    assert_eq!(sql(&database, partitions), "2");
    run(dir.path(), &["store", "check"]).ok();

    // What an older program finds after an upgrade.
    sql(&database, "UPDATE schema_version SET version = 99");
    for args in [&["store", "migrate"][..], &["keys", "list"], &["serve"]] {
        let refused = run(dir.path(), args);
        assert_eq!(refused.code, 1, "{args:?}: {refused:?}");
        let wanted = "written by a newer version (schema 99, this program knows";
        assert!(refused.stderr.contains(wanted), "{args:?}: {refused:?}");
    }
    assert_eq!(sql(&database, "SELECT count(*), max(version) FROM schema_version"), "1|99");
}

/// A database keeps nothing of a copy that was killed, and takes the next one as soon as the lease of
/// the killed process has expired.
#[test]
fn a_killed_copy_leaves_an_empty_database() {
    let Some(database) = postgres::database() else { return };
    let (old, new) = (dir(), dir());
    write_config(old.path(), &config(""));
    key(old.path(), &["--scope", "*"]);
    run(old.path(), &["call", "demo__echo", "{\"text\": \"hi\"}"]).ok();
    configure(new.path(), &database);
    run(new.path(), &["store", "migrate"]).ok();
    // Inserts wait for this lock.
    let lock = "BEGIN; LOCK TABLE events IN SHARE MODE; SELECT pg_sleep(600)";
    let mut session = Command::new("psql");
    session.args(["-X", "-q", "-d", &database, "-c", lock]).stdout(Stdio::null());
    let mut session = session.stderr(Stdio::null()).spawn().unwrap();
    let locks = |condition: &str| {
        let locks = "SELECT count(*) FROM pg_locks WHERE relation = 'events'::regclass AND";
        sql(&database, &format!("{locks} {condition}"))
    };
    eventually("the table is locked", || locks("mode = 'ShareLock' AND granted") == "1");
    let args = ["store", "copy", "sqlite:.toolcrib/toolcrib.db", &database];
    let mut process = Process::start(toolcrib(old.path()).args(args));
    // The events are the last rows that are copied.
    eventually("the copy is under way", || locks("NOT granted") == "1");
    process.kill();
    let again = run(old.path(), &args);
    assert_eq!(again.code, 1, "{again:?}");
    assert!(again.stderr.contains("wait 30 seconds after one was killed"), "{again:?}");
    assert!(again.stderr.contains("no copy was kept"), "{again:?}");
    session.kill().unwrap();
    session.wait().unwrap();
    let holder = "SELECT pg_terminate_backend(pid) FROM pg_locks \
                  WHERE relation = 'events'::regclass AND mode = 'ShareLock'";
    sql(&database, holder);
    eventually("the killed copy has ended", || locks("true") == "0");
    for table in ["keys", "events", "catalogs"] {
        assert_eq!(sql(&database, &format!("SELECT count(*) FROM {table}")), "0", "{table}");
    }
    let copied = (0..60).any(|_| {
        thread::sleep(Duration::from_secs(1));
        run(old.path(), &args).code == 0
    });
    assert!(copied, "{:?}", run(old.path(), &args));
    for args in [["keys", "list", "--json"], ["audit", "export", "--quiet"]] {
        let [from, to] = [&old, &new].map(|dir| run(dir.path(), &args).ok().stdout);
        assert_eq!(from, to);
        assert!(from.contains("default"), "{from}");
    }
}
