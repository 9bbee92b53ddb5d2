//! Several servers over one PostgreSQL database, as real processes.

use std::{cell::Cell, fs};

use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::{
    postgres::{self, PostgresServer},
    redis::{self, RedisServer},
    upstream::{Answers, FaultyHttp},
};

use crate::support::{
    Caller, CommandOutput, SIGNING_KEY, Server, dir, eventually_async as eventually, key, run,
    write_config, write_private, write_seal_key,
};

/// A server with its own data directory.
struct Replica {
    dir: TempDir,
    server: Server,
}

/// The directory of a server over `database`, whose tools are those of `upstream`.
fn prepare(database: &str, upstream: &FaultyHttp, tools: &str) -> TempDir {
    let dir = dir();
    write_seal_key(dir.path());
    write_private(&dir.path().join("signing.key"), SIGNING_KEY);
    write_config(
        dir.path(),
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n\
             [store]\nurl = \"{database}\"\nseal_key = {{ file = \"seal.key\" }}\n\
             [record]\nsigning_key = {{ file = \"signing.key\" }}\ncheckpoint_interval = \"1s\"\n\
             [approvals]\nwait = \"60s\"\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
             [source.tools.\"*\"]\nscopes = [\"up:use\"]\nsafety_tier = \"read\"\n{tools}",
            upstream.url()
        ),
    );
    dir
}

impl Replica {
    fn start(database: &str, upstream: &FaultyHttp, tools: &str) -> Self {
        Self::over(prepare(database, upstream, tools))
    }

    fn over(dir: TempDir) -> Self {
        let server = Server::start(dir.path());
        Self { dir, server }
    }

    fn caller(&self, key: &str) -> Caller {
        self.server.caller(Some(key))
    }

    /// Runs a command on this server with `key`.
    fn remote(&self, key: &str, args: &[&str]) -> CommandOutput {
        fs::write(self.dir.path().join("key.txt"), key).unwrap();
        let server = ["--url", &self.server.url, "--key-file", "key.txt", "--json"];
        run(self.dir.path(), &[&server, args].concat())
    }

    /// Runs a command on the store.
    fn local(&self, args: &[&str]) -> CommandOutput {
        run(self.dir.path(), args)
    }
}

async fn has_tool(caller: &Caller, tool: &str) -> bool {
    let tools = caller.get("/v1/tools").await.1;
    tools.as_array().is_some_and(|tools| tools.iter().any(|it| it["toolId"] == tool))
}

async fn echo(caller: &Caller, text: &str) -> (u16, Value) {
    caller.otc("up__echo", json!({ "text": text })).await
}

fn is_success(answer: &(u16, Value)) -> bool {
    answer.0 == 200 && answer.1["result"]["success"] == true
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_on_one_server_is_refused_by_the_other() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (one, two) =
        (Replica::start(&database, &upstream, ""), Replica::start(&database, &upstream, ""));
    let (_, admin) = key(one.dir.path(), &["--scope", "*"]);
    let (id, text) = key(one.dir.path(), &["--scope", "up:use"]);
    let caller = two.caller(&text);
    eventually("the new key works", async || has_tool(&caller, "mcp:up.echo").await).await;
    eventually("calls run", async || is_success(&echo(&caller, "x").await)).await;
    one.remote(&admin, &["keys", "revoke", &id]).ok();
    eventually("it is refused", async || caller.get("/v1/tools").await.0 == 401).await;
    assert_eq!(echo(&caller, "x").await.0, 401);
    one.server.stop();
    two.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_granted_on_one_server_releases_the_call_that_waits_on_the_other() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let asks = "approval = \"always\"\n";
    let (one, two) =
        (Replica::start(&database, &upstream, asks), Replica::start(&database, &upstream, asks));
    let (_, ann) = key(one.dir.path(), &["--principal", "ann", "--scope", "up:use"]);
    let (_, bob) = key(one.dir.path(), &["--principal", "bob", "--scope", "approvals:respond"]);
    let caller = two.caller(&ann);
    eventually("the tool is offered", async || has_tool(&caller, "mcp:up.echo").await).await;
    let waiting = tokio::spawn(async move { echo(&caller, "x").await });
    let list = ["approvals", "list", "--state", "pending"];
    let pending = || one.remote(&bob, &list).ok().json();
    eventually("it asks", async || pending().as_array().is_some_and(|it| it.len() == 1)).await;
    let id = pending()[0]["approvalId"].as_str().unwrap().to_owned();
    one.remote(&bob, &["approvals", "grant", &id]).ok();
    let answer = waiting.await.unwrap();
    assert!(is_success(&answer), "{answer:?}");
    one.server.stop();
    two.server.stop();
}

// I-97
/// One server reads the list of an upstream; when it is gone, another one does.
#[tokio::test(flavor = "multi_thread")]
async fn one_server_discovers_a_source_and_the_others_offer_the_same() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let one = Replica::start(&database, &upstream, "");
    let (_, admin) = key(one.dir.path(), &["--scope", "*"]);
    let first = one.caller(&admin);
    eventually("it is offered", async || has_tool(&first, "mcp:up.echo").await).await;
    let lists = || upstream.received_method("tools/list").len();
    eventually("it listens to changes", async || upstream.listeners() == 1).await;
    // It reads the list again when it begins to listen.
    let (before, quiet) = (Cell::new(0), Cell::new(0));
    eventually("it has read the list", async || {
        quiet.set(if before.replace(lists()) == lists() { quiet.get() + 1 } else { 0 });
        quiet.get() == 20
    })
    .await;
    let before = before.get();
    let two = Replica::start(&database, &upstream, "");
    let second = two.caller(&admin);
    eventually("the other server offers it", async || has_tool(&second, "mcp:up.echo").await).await;
    eventually("both listen to changes", async || upstream.listeners() == 2).await;
    assert_eq!(lists(), before, "the other server has not read the list");
    upstream.grow();
    for caller in [&first, &second] {
        eventually("the new tool is offered", async || has_tool(caller, "mcp:up.late").await).await;
    }
    let equal = async || first.get("/v1/tools").await.1 == second.get("/v1/tools").await.1;
    assert!(equal().await);
    one.server.stop();
    let before = lists();
    upstream.grow();
    eventually("the other server reads it now", async || lists() > before).await;
    assert!(has_tool(&second, "mcp:up.late").await);
    two.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pin_approved_on_one_server_is_offered_by_both() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern", "list=turning"]);
    let (one, two) =
        (Replica::start(&database, &upstream, ""), Replica::start(&database, &upstream, ""));
    let (_, admin) = key(one.dir.path(), &["--scope", "*"]);
    let (first, second) = (one.caller(&admin), two.caller(&admin));
    for caller in [&first, &second] {
        eventually("it is offered", async || has_tool(caller, "mcp:up.echo").await).await;
    }
    eventually("it is turned", async || {
        is_success(&first.otc("up__turn", json!({ "form": 1 })).await)
    })
    .await;
    for caller in [&first, &second] {
        eventually("it is hidden", async || !has_tool(caller, "mcp:up.echo").await).await;
    }
    let drifts = one.local(&["audit", "export"]).ok().stdout.matches("tool.pin.drifted").count();
    assert_eq!(drifts, 1, "one server judged the change");
    one.remote(&admin, &["tools", "approve", "mcp:up.echo"]).ok();
    for caller in [&first, &second] {
        eventually("it is offered again", async || has_tool(caller, "mcp:up.echo").await).await;
    }
    one.server.stop();
    two.server.stop();
}

/// All servers sign one record with one key; a new one joins, and one with another key does not.
#[tokio::test(flavor = "multi_thread")]
async fn servers_sign_one_record_with_one_key() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let one = Replica::start(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "*"]);
    let call = async |replica: &Replica| {
        let caller = replica.caller(&text);
        eventually("a call runs", async || is_success(&echo(&caller, "x").await)).await;
    };
    call(&one).await;
    let checkpoints = |replica: &Replica| {
        let export = ["audit", "export", "--tenant", "default", "--checkpoints"];
        replica.local(&export).ok().stdout.matches("\"number\"").count()
    };
    eventually("it is signed", async || checkpoints(&one) > 0).await;
    let two = Replica::start(&database, &upstream, "");
    for round in 0..3 {
        let before = checkpoints(&one);
        call(&one).await;
        call(&two).await;
        eventually("it is signed again", async || checkpoints(&one) > before).await;
        for replica in [&one, &two] {
            let (status, body) = replica.caller(&text).get("/readyz?verbose").await;
            assert_eq!(status, 200, "round {round}: {body}");
        }
    }
    let foreign = prepare(&database, &upstream, "");
    let other = "AQECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    fs::write(foreign.path().join("signing.key"), other).unwrap();
    let three = Replica::over(foreign);
    let (status, body) = three.caller(&text).get("/readyz?verbose").await;
    assert_eq!(status, 503, "{body}");
    assert!(body["reason"].as_str().unwrap().contains("not signed with this key"), "{body}");
    three.server.stop();
    one.server.stop();
    two.server.stop();
    for witness in [one.dir, two.dir] {
        let report = run(witness.path(), &["--json", "audit", "verify"]).json();
        assert_eq!(report["findings"], json!([]), "{report}");
    }
}

/// The survivor closes the calls of a killed server, once its lease has expired.
#[tokio::test(flavor = "multi_thread")]
async fn the_calls_of_a_killed_server_are_closed_by_another() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (mut one, two) =
        (Replica::start(&database, &upstream, ""), Replica::start(&database, &upstream, ""));
    let (_, text) = key(two.dir.path(), &["--scope", "*"]);
    let caller = one.caller(&text);
    eventually("the tool is offered", async || has_tool(&caller, "mcp:up.hang").await).await;
    let hanging = tokio::spawn(async move { caller.recorded("up__hang", json!({})).await });
    let interrupted = || {
        let events = two.local(&["audit", "export"]).ok().stdout;
        (events.matches("agent.toolCalled").count(), events.matches("\"interrupted\"").count())
    };
    eventually("the call is recorded", async || interrupted().0 == 1).await;
    one.server.process.kill();
    assert_eq!(hanging.await.unwrap(), None);
    assert_eq!(interrupted(), (1, 0));
    eventually("it is closed", async || interrupted() == (1, 1)).await;
    let caller = two.caller(&text);
    eventually("the other one serves", async || is_success(&echo(&caller, "x").await)).await;
    two.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_its_database_refuses_calls_and_recovers_by_itself() {
    let Some(postgres) = PostgresServer::own() else { return };
    let database = postgres.database();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let one = Replica::start(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "*"]);
    let caller = one.caller(&text);
    eventually("a call runs", async || is_success(&echo(&caller, "before").await)).await;
    let runs = upstream.received_method("tools/call").len();
    postgres.stop();
    let refused = echo(&caller, "meanwhile").await;
    assert_eq!(refused.0, 503, "{refused:?}");
    assert_eq!(upstream.received_method("tools/call").len(), runs, "no call without its event");
    eventually("it is not ready", async || caller.get("/readyz").await.0 == 503).await;
    postgres.start();
    eventually("a call runs again", async || is_success(&echo(&caller, "after").await)).await;
    eventually("it is ready", async || caller.get("/readyz").await.0 == 200).await;
    one.server.stop();
}

/// One rate for all servers, in the database or in Redis; without Redis `on_outage` holds.
#[tokio::test(flavor = "multi_thread")]
async fn servers_share_a_rate() {
    let Some(database) = postgres::database() else { return };
    let Some(mut redis) = RedisServer::start() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    for place in ["store".to_owned(), redis.url()] {
        let start = || {
            let dir = prepare(&database, &upstream, "rate = \"3/h\"\n");
            let file = dir.path().join("toolcrib.toml");
            let password = match place.starts_with("redis") {
                true => "password = { file = \"redis.password\" }\n",
                false => "",
            };
            fs::write(dir.path().join("redis.password"), redis::PASSWORD).unwrap();
            let limits = format!("[limits]\nshared = \"{place}\"\n{password}");
            fs::write(&file, format!("{limits}{}", fs::read_to_string(&file).unwrap())).unwrap();
            Replica::over(dir)
        };
        let (one, two) = (start(), start());
        let principal = if place == "store" { "first" } else { "second" };
        let (_, text) = key(one.dir.path(), &["--scope", "up:use", "--principal", principal]);
        for replica in [&one, &two] {
            let caller = replica.caller(&text);
            eventually("it is offered", async || has_tool(&caller, "mcp:up.echo").await).await;
        }
        let mut answers = Vec::new();
        for replica in [&one, &two, &one, &two, &one] {
            answers.push(echo(&replica.caller(&text), "x").await.0);
        }
        assert_eq!(answers, [200, 200, 200, 429, 429], "{place}");
        if place != "store" {
            redis.stop();
            assert_eq!(echo(&one.caller(&text), "x").await.0, 503, "refused, by default");
            redis.start_again();
            let caller = two.caller(&text);
            eventually("it counts again", async || echo(&caller, "x").await.0 != 503).await;
        }
        one.server.stop();
        two.server.stop();
    }
}

#[test]
fn configurations_of_a_database_that_cannot_work_are_refused() {
    let dir = dir();
    let signed = "[record]\nsigning_key = { env = \"X\" }\n";
    for (text, wanted) in [
        ("[store]\nurl = \"postgres://u:secret@h/d\"\n", "must not contain a password"),
        ("[store]\nurl = \"postgres://u@h/d?password=secret\"\n", "must not contain a password"),
        (
            "[store]\nurl = \"sqlite:x.db\"\npassword = { env = \"X\" }\n",
            "no effect on a SQLite file",
        ),
        ("[store]\nurl = \"mysql://h/d\"\n", "postgres://USER@HOST/DATABASE"),
        ("[limits]\nshared = \"store\"\n", "requires PostgreSQL"),
        ("[limits]\nshared = \"redis://:secret@h\"\n", "must not contain a user or password"),
        ("[limits]\nshared = \"there\"\n", "redis://HOST:PORT"),
        ("[limits]\non_outage = \"local\"\n", "no effect without `shared`"),
    ] {
        write_config(dir.path(), &format!("{text}{signed}"));
        let refused = run(dir.path(), &["config", "check"]);
        let said = format!("{}{}", refused.stdout, refused.stderr);
        assert_ne!(refused.code, 0, "{text}");
        assert!(said.contains(wanted), "{text}: {said}");
        assert!(!said.contains(":secret") && !said.contains("=secret"), "{said}");
    }
    write_config(dir.path(), "[store]\nurl = \"postgres://u@h/d\"\n");
    let refused = run(dir.path(), &["config", "check"]);
    let said = format!("{}{}", refused.stdout, refused.stderr);
    assert!(said.contains("all servers sign with one key"), "{said}");
}
