//! Several servers over one PostgreSQL database, as real processes.

mod keys;
mod sessions;

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::task::JoinSet;
use toolcrib_testkit::{
    faketime,
    postgres::{self, PostgresServer},
    redis::{self, RedisServer},
    upstream::{Answers, FaultyHttp},
};

use crate::support::{
    Caller, CommandOutput, Server, dir, eventually_async as eventually, key, run, shared_store,
    toolcrib, write_config,
};

/// A durable workflow, whose long step takes longer than a server that ends waits for it.
const FLOW: &str = "
id: report
inputs: { type: object }
steps:
  - { id: first, tool: 'mcp:up.echo', arguments: { step: first } }
  - { id: long, tool: 'mcp:up.slow', after: [first], arguments: { ms: 12000 } }
  - { id: last, tool: 'mcp:up.echo', after: [long], arguments: { step: last } }
outputs: { last: { $ref: /steps/last/result } }
";

/// A server with its own data directory.
pub(crate) struct Replica {
    pub(crate) dir: TempDir,
    pub(crate) server: Server,
}

/// The directory of a server over `database`, whose tools are those of `upstream`.
pub(crate) fn prepare(database: &str, upstream: &FaultyHttp, tools: &str) -> TempDir {
    let dir = dir();
    let store = shared_store(dir.path(), database);
    write_config(
        dir.path(),
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n\
             {store}checkpoint_interval = \"1s\"\n\
             [approvals]\nwait = \"60s\"\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
             [source.tools.\"*\"]\nscopes = [\"up:use\"]\nsafety_tier = \"read\"\n{tools}",
            upstream.url()
        ),
    );
    dir
}

/// Puts `text` before the configuration of `dir`.
pub(crate) fn prepend(dir: &TempDir, text: &str) {
    let file = dir.path().join("toolcrib.toml");
    fs::write(&file, format!("{text}{}", fs::read_to_string(&file).unwrap())).unwrap();
}

impl Replica {
    pub(crate) fn start(database: &str, upstream: &FaultyHttp, tools: &str) -> Self {
        Self::over(prepare(database, upstream, tools))
    }

    /// Starts two servers.
    pub(crate) fn pair(database: &str, upstream: &FaultyHttp, tools: &str) -> (Self, Self) {
        (Self::start(database, upstream, tools), Self::start(database, upstream, tools))
    }

    pub(crate) fn over(dir: TempDir) -> Self {
        let server = Server::start(dir.path());
        Self { dir, server }
    }

    /// A server that shares the rates of its tools at `place`.
    fn limited(database: &str, upstream: &FaultyHttp, place: &str, tools: &str) -> Self {
        let dir = prepare(database, upstream, tools);
        fs::write(dir.path().join("redis.password"), redis::PASSWORD).unwrap();
        let password = match place.starts_with("redis") {
            true => "password = { file = \"redis.password\" }\n",
            false => "",
        };
        prepend(&dir, &format!("[limits]\nshared = \"{place}\"\n{password}"));
        Self::over(dir)
    }

    /// A server whose clock differs from that of the machine by `offset`.
    fn with_clock(dir: TempDir, library: &str, offset: &str) -> Self {
        let server = Server::of(
            toolcrib(dir.path())
                .arg("serve")
                .env("LD_PRELOAD", library)
                .env("FAKETIME", offset)
                .env("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        );
        Self { dir, server }
    }

    pub(crate) fn caller(&self, key: &str) -> Caller {
        self.server.caller(Some(key))
    }

    /// Waits until a call of `up__TOOL` with `key` is possible.
    async fn offers(&self, key: &str, tool: &str) {
        let (caller, id) = (self.caller(key), format!("mcp:up.{tool}"));
        eventually("it is offered", async || has_tool(&caller, &id).await).await;
    }

    /// Waits for a pending approval of `principal`, and returns its id.
    async fn pending(&self, key: &str, principal: &str) -> String {
        let list = ["approvals", "list", "--state", "pending"];
        let found = || {
            let pending = self.remote(key, &list).ok().json();
            let pending = pending.as_array().unwrap();
            let of = pending.iter().find(|it| it["principal"] == principal);
            of.map(|it| it["approvalId"].as_str().unwrap().to_owned())
        };
        eventually("it asks", async || found().is_some()).await;
        found().unwrap()
    }

    /// Ends the server as a service manager does, and waits for its end.
    fn end(mut self) {
        self.server.process.signal(Signal::TERM);
        let status = self.server.process.ended();
        assert_eq!(status.code(), Some(0), "{}", self.server.process.stderr());
    }

    /// Runs a command on this server with `key`.
    pub(crate) fn remote(&self, key: &str, args: &[&str]) -> CommandOutput {
        fs::write(self.dir.path().join("key.txt"), key).unwrap();
        let server = ["--url", &self.server.url, "--key-file", "key.txt", "--json"];
        run(self.dir.path(), &[&server, args].concat())
    }

    /// Runs a command on the store.
    pub(crate) fn local(&self, args: &[&str]) -> CommandOutput {
        run(self.dir.path(), args)
    }
}

pub(crate) async fn has_tool(caller: &Caller, tool: &str) -> bool {
    let tools = caller.get("/v1/tools").await.1;
    tools.as_array().is_some_and(|tools| tools.iter().any(|it| it["toolId"] == tool))
}

pub(crate) async fn echo(caller: &Caller, text: &str) -> (u16, Value) {
    caller.otc("up__echo", json!({ "text": text })).await
}

/// Returns how often `upstream` was called with arguments that contain `text`.
pub(crate) fn runs(upstream: &FaultyHttp, tool: &str, text: &str) -> usize {
    let calls = upstream.received_method("tools/call");
    // A stream that its client closed is listed too.
    let params = calls.iter().filter(|it| it.verb == "POST").map(|it| &it.body["params"]);
    params.filter(|it| it["name"] == tool && it["arguments"].to_string().contains(text)).count()
}

pub(crate) fn is_success(answer: &(u16, Value)) -> bool {
    answer.0 == 200 && answer.1["result"]["success"] == true
}

// I-110, I-112
#[tokio::test(flavor = "multi_thread")]
async fn a_browser_session_is_valid_at_each_server_and_ends_at_all() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (one, two) = Replica::pair(&database, &upstream, "");
    let (_, text) = key(one.dir.path(), &["--scope", "up:use"]);
    let caller = one.caller(&text);
    eventually("the key works", async || caller.get("/v1/whoami").await.0 == 200).await;
    // The name of the servers, as behind a load balancer.
    let named = ("host", "127.0.0.1:8808");
    let page = [named, ("origin", "http://127.0.0.1:8808")];
    let made = caller.request("POST", "/v1/sessions", &page).await;
    assert_eq!(made.status().as_u16(), 201);
    let cookie = made.headers()["set-cookie"].to_str().unwrap().to_owned();
    let cookie = cookie.split(';').next().unwrap().to_owned();
    let secret: Value = made.json().await.unwrap();
    let halves =
        [named, ("cookie", &cookie), ("toolcrib-session", secret["secret"].as_str().unwrap())];
    let browsers = [&one, &two].map(|it| it.server.caller(None));
    let is = async |browser: &Caller, status: u16| {
        browser.request("GET", "/v1/whoami", &halves).await.status().as_u16() == status
    };
    for browser in &browsers {
        eventually("the session is valid", async || is(browser, 200).await).await;
    }
    let ended = browsers[1].request("DELETE", "/v1/sessions/current", &halves).await;
    assert_eq!(ended.status().as_u16(), 200);
    assert!(is(&browsers[1], 401).await, "at once where it ended");
    eventually("it is over at the other server", async || is(&browsers[0], 401).await).await;
    one.server.stop();
    two.server.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_revoked_on_one_server_is_refused_by_the_other() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let (one, two) = Replica::pair(&database, &upstream, "");
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
    let (one, two) = Replica::pair(&database, &upstream, asks);
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
async fn a_change_of_a_source_is_offered_by_all_servers_whichever_of_them_ends() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let one = Replica::start(&database, &upstream, "");
    let (_, admin) = key(one.dir.path(), &["--scope", "*"]);
    let first = one.caller(&admin);
    eventually("it is offered", async || has_tool(&first, "mcp:up.echo").await).await;
    let lists = || upstream.received_method("tools/list").len();
    let two = Replica::start(&database, &upstream, "");
    let second = two.caller(&admin);
    eventually("the other server offers it", async || has_tool(&second, "mcp:up.echo").await).await;
    eventually("both listen to changes", async || upstream.listeners() == 2).await;
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
    let (one, two) = Replica::pair(&database, &upstream, "");
    let (_, admin) = key(one.dir.path(), &["--scope", "*", "--scope", "pins:approve"]);
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
    assert!(body["reason"].as_str().unwrap().contains("not one of the signing key"), "{body}");
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
    let (mut one, two) = Replica::pair(&database, &upstream, "");
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
        let start = || Replica::limited(&database, &upstream, &place, "rate = \"3/h\"\n");
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

/// Exactly the rate runs, however many calls come to however many servers at once; later at most what
/// was refilled.
#[tokio::test(flavor = "multi_thread")]
async fn calls_at_once_to_several_servers_get_exactly_the_rate() {
    let Some(database) = postgres::database() else { return };
    let Some(redis) = RedisServer::start() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    // A call of a day comes back after more than an hour.
    let tools = "rate = \"20/d\"\n[source.tools.add]\nrate = \"10/s\"\n";
    for place in ["store".to_owned(), redis.url()] {
        let replicas: Vec<Replica> =
            (0..3).map(|_| Replica::limited(&database, &upstream, &place, tools)).collect();
        let principal = if place == "store" { "first" } else { "second" };
        let (_, text) =
            key(replicas[0].dir.path(), &["--scope", "up:use", "--principal", principal]);
        for replica in &replicas {
            replica.offers(&text, "echo").await;
        }
        let mut calls = JoinSet::new();
        for number in 0..60 {
            let caller = replicas[number % replicas.len()].caller(&text);
            calls.spawn(async move { echo(&caller, "x").await.0 });
        }
        let answers = calls.join_all().await;
        let count = |status: u16| answers.iter().filter(|it| **it == status).count();
        assert_eq!((count(200), count(429)), (20, 40), "{place}: {answers:?}");

        let begun = Instant::now();
        let mut calls = JoinSet::new();
        for number in 0..18 {
            let caller = replicas[number % replicas.len()].caller(&text);
            calls.spawn(async move {
                let mut ran = 0;
                while begun.elapsed() < Duration::from_secs(3) {
                    let answer = caller.otc("up__add", json!({ "a": 1, "b": 2 })).await;
                    assert!([200, 429].contains(&answer.0), "{answer:?}");
                    ran += u32::from(answer.0 == 200);
                }
                ran
            });
        }
        let ran: u32 = calls.join_all().await.into_iter().sum();
        let bound = 10.0 * begun.elapsed().as_secs_f64() + 11.0;
        assert!(f64::from(ran) <= bound, "{place}: {ran} calls ran of at most {bound}");
        assert!(ran > 10, "{place}: the bucket was refilled, but only {ran} calls ran");
        replicas.into_iter().for_each(Replica::end);
    }
    assert_eq!(runs(&upstream, "echo", ""), 40);
}

/// Clocks of servers may be wrong by a minute, in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn servers_whose_clocks_are_two_minutes_apart_work_as_one() {
    let Some(library) = faketime::library() else { return };
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let start = |offset: &str| {
        let tools = "[source.tools.add]\nrate = \"4/h\"\n\
                     [source.tools.region]\napproval = \"always\"\n";
        let dir = prepare(&database, &upstream, tools);
        prepend(&dir, "[limits]\nshared = \"store\"\n");
        Replica::with_clock(dir, &library, offset)
    };
    let (slow, fast) = (start("-60s"), start("+60s"));
    let dir = slow.dir.path();
    let (_, admin) = key(dir, &["--scope", "*"]);
    let (_, ann) = key(dir, &["--principal", "ann", "--scope", "up:use"]);
    let (_, bob) = key(dir, &["--principal", "bob", "--scope", "approvals:respond"]);
    let pairs = [(&slow, &fast), (&fast, &slow)];

    // Calls for which a server looks for dead ones several times; it begins after 15 seconds.
    let mut long = JoinSet::new();
    for (one, _) in pairs {
        one.offers(&ann, "slow").await;
        let caller = one.caller(&ann);
        long.spawn(async move { caller.otc("up__slow", json!({ "ms": 27_000 })).await });
    }

    // Keys, also those with an end.
    let mut created = Vec::new();
    for (one, other) in pairs {
        let make = ["keys", "create", "--name", "n", "--principal", "eve", "--scope", "up:use"];
        for more in [&[][..], &["--expires", "10m"]] {
            let made = one.remote(&admin, &[&make, more].concat()).ok().json();
            let text = made["key"].as_str().unwrap();
            for replica in [other, one] {
                replica.offers(text, "echo").await;
                let answer = echo(&replica.caller(text), "x").await;
                assert!(is_success(&answer), "{answer:?}");
            }
            let keys = one.remote(&admin, &["keys", "list"]).ok().json();
            let key = keys.as_array().unwrap().iter().find(|it| it["id"] == made["id"]).unwrap();
            created.push(chrono::DateTime::parse_from_rfc3339(key["createdAt"].as_str().unwrap()));
        }
    }
    let apart = created[2].unwrap() - created[1].unwrap();
    assert!(apart.num_seconds() >= 110, "the clocks do not differ: {apart}");

    // A grant on one releases the call on the other.
    for (one, other) in pairs {
        let caller = one.caller(&ann);
        let waiting =
            tokio::spawn(async move { caller.otc("up__region", json!({ "region": "x" })).await });
        let id = other.pending(&bob, "ann").await;
        other.remote(&bob, &["approvals", "grant", &id]).ok();
        let answer = waiting.await.unwrap();
        assert!(is_success(&answer), "{answer:?}");
    }

    // One run of an idempotent call that both get at once, and the same answer later. The server that
    // comes second refuses it (429) as long as the other one runs it.
    for round in 0..4 {
        let call = |replica: &Replica| {
            let (caller, id) = (replica.caller(&ann), format!("id-{round}"));
            let input = json!({ "ms": 300, "round": format!("round-{round}") });
            async move {
                for _ in 0..100 {
                    match caller.recorded_as(Some(&id), "up__slow", input.clone()).await {
                        Some(recorded) => return recorded,
                        None => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
                panic!("{id} is not answered");
            }
        };
        let (first, second) = tokio::join!(call(&slow), call(&fast));
        assert_eq!((first.0, &first), (200, &second));
        for (one, _) in pairs {
            assert_eq!(call(one).await, first);
        }
        assert_eq!(runs(&upstream, "slow", &format!("round-{round}")), 1);
    }

    // One rate.
    let mut answers = Vec::new();
    for replica in [&slow, &fast, &slow, &fast, &fast, &slow] {
        let answer = replica.caller(&ann).otc("up__add", json!({ "a": 1, "b": 2 })).await;
        answers.push(answer.0);
    }
    assert_eq!(answers, [200, 200, 200, 200, 429, 429]);

    for answer in long.join_all().await {
        assert!(is_success(&answer), "a server was regarded as dead: {answer:?}");
    }
    for (one, _) in pairs {
        let answer = echo(&one.caller(&ann), "x").await;
        assert!(is_success(&answer), "{answer:?}");
        let (status, body) = one.caller(&admin).get("/readyz?verbose").await;
        assert_eq!(status, 200, "{body}");
    }
    let events = slow.local(&["audit", "export"]).ok().stdout;
    assert!(!events.contains("interrupted"), "{events}");
    let directories = [slow, fast].map(|Replica { dir, server }| {
        server.stop();
        dir
    });
    for dir in directories {
        let report = run(dir.path(), &["--json", "audit", "verify"]).ok().json();
        assert_eq!(report["findings"], json!([]), "{report}");
    }
}

/// A server that ends sends "approval required" to the call that waits, and another one runs it once.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_waits_for_an_approval_moves_to_another_server() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let asks = "approval = \"always\"\n";
    let two = Replica::start(&database, &upstream, asks);
    let (_, ann) = key(two.dir.path(), &["--principal", "ann", "--scope", "up:use"]);
    let (_, bob) = key(two.dir.path(), &["--principal", "bob", "--scope", "approvals:respond"]);
    for call_id in [None, Some("id-1")] {
        let one = Replica::start(&database, &upstream, asks);
        for replica in [&one, &two] {
            replica.offers(&ann, "echo").await;
        }
        let request = {
            let mut request = json!({ "tool_id": "up__echo", "input": { "call": call_id } });
            if let Some(call_id) = call_id {
                request["call_id"] = json!(call_id);
            }
            json!({ "request": request })
        };
        let (caller, body) = (one.caller(&ann), request.clone());
        let waiting = tokio::spawn(async move { caller.post("/tools/call", &body).await });
        let id = two.pending(&bob, "ann").await;
        one.end();
        let (status, answer) = waiting.await.unwrap();
        let error = &answer["result"]["error"];
        assert_eq!((status, &error["developer_message"]), (200, &json!("approval_required")));
        assert!(error.to_string().contains(&id), "{error}");
        assert_eq!(two.pending(&bob, "ann").await, id, "the request stays");
        let text = json!(call_id).to_string();
        assert_eq!(runs(&upstream, "echo", &text), 0);

        two.remote(&bob, &["approvals", "grant", &id]).ok();
        let caller = two.caller(&ann);
        let answer = caller.post("/tools/call", &request).await;
        assert!(is_success(&answer), "{answer:?}");
        if call_id.is_some() {
            let again = caller.post("/tools/call", &request).await;
            assert_eq!(again, answer, "the stored answer");
        }
        assert_eq!(runs(&upstream, "echo", &text), 1);
    }
    two.end();
}

/// A server that ends lets a call go on, and passes its progress and its result on.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_progress_ends_well_on_a_server_that_ends() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    for drain in ["", "drain = \"2s\"\n"] {
        let dir = prepare(&database, &upstream, "");
        let file = dir.path().join("toolcrib.toml");
        let text =
            fs::read_to_string(&file).unwrap().replace("listen =", &format!("{drain}listen ="));
        fs::write(&file, text).unwrap();
        let one = Replica::over(dir);
        let (_, text) = key(one.dir.path(), &["--scope", "up:use"]);
        one.offers(&text, "progress").await;
        let caller = one.caller(&text);
        let before = runs(&upstream, "progress", "");
        let call = tokio::spawn(async move {
            let params = json!({
                "name": "up__progress",
                "arguments": { "n": 8, "ms": 500 },
                "_meta": { "progressToken": "token" },
            });
            caller.mcp_messages("tools/call", params).await
        });
        eventually("it runs", async || runs(&upstream, "progress", "") > before).await;
        one.end();
        let messages = call.await.unwrap();
        let (result, reports) = messages.split_last().unwrap();
        assert_eq!(result["result"]["content"][0]["text"], "done", "{messages:?}");
        let steps: Vec<_> = reports
            .iter()
            .map(|it| {
                assert_eq!(it["method"], "notifications/progress", "{it}");
                assert_eq!(it["params"]["progressToken"], "token", "{it}");
                it["params"]["progress"].as_f64().unwrap()
            })
            .collect();
        assert_eq!(steps, [0., 1., 2., 3., 4., 5., 6., 7.]);
    }
}

/// A durable run whose server ends goes on on another one, and only its interrupted step is repeated.
#[tokio::test(flavor = "multi_thread")]
async fn a_durable_run_of_a_server_that_ends_is_continued_by_another() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let start = || {
        let dir = prepare(
            &database,
            &upstream,
            "[source.tools.slow]\nreplay_policy = \"idempotent\"\n\
             [[source]]\nid = \"flows\"\nkind = \"workflow\"\nfiles = [\"flows/*.yaml\"]\n\
             durable = true\n",
        );
        fs::create_dir(dir.path().join("flows")).unwrap();
        fs::write(dir.path().join("flows/report.yaml"), FLOW).unwrap();
        Replica::over(dir)
    };
    let (one, two) = (start(), start());
    let (_, text) = key(two.dir.path(), &["--scope", "*"]);
    for replica in [&one, &two] {
        let caller = replica.caller(&text);
        let path = "/v1/tools/openwop:workflow.report";
        eventually("it is offered", async || caller.get(path).await.0 == 200).await;
    }
    let caller = one.caller(&text);
    let call = tokio::spawn(async move { caller.recorded("flows__report", json!({})).await });
    eventually("the long step runs", async || runs(&upstream, "slow", "") == 1).await;
    one.end();
    drop(call.await);
    let list = || two.local(&["runs", "list", "--json"]).ok().json()[0].clone();
    eventually("the run ends", async || list()["state"] != "running").await;
    let run = list();
    assert_eq!((&run["state"], &run["durable"]), (&json!("completed"), &json!(true)), "{run}");
    let steps = ["first", "last"].map(|step| runs(&upstream, "echo", step));
    assert_eq!((steps, runs(&upstream, "slow", "")), ([1, 1], 2));
    // The call of the workflow has one end, which the other server recorded.
    let events = || two.local(&["audit", "export"]).ok().stdout;
    let count = |what: &str| events().matches(what).count();
    eventually("every call has its end", async || {
        count("agent.toolCalled") == count("agent.toolReturned")
    })
    .await;
    assert_eq!(count("agent.toolCalled"), 5, "{}", events());
    assert_eq!(count("tool.session.opened"), count("tool.session.closed"));
    let Replica { dir, server } = two;
    server.stop();
    let report = crate::support::run(dir.path(), &["--json", "audit", "verify"]).ok().json();
    assert_eq!(report["findings"], json!([]), "{report}");
}

/// The first server creates the tables, and the others wait for it.
#[tokio::test(flavor = "multi_thread")]
async fn servers_that_start_at_once_share_an_empty_database() {
    let Some(database) = postgres::database() else { return };
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let replicas: Vec<Replica> = thread::scope(|scope| {
        let start = || Replica::start(&database, &upstream, "");
        let starting: Vec<_> = (0..4).map(|_| scope.spawn(start)).collect();
        starting.into_iter().map(|it| it.join().unwrap()).collect()
    });
    let (_, text) = key(replicas[0].dir.path(), &["--scope", "*"]);
    for replica in &replicas {
        replica.offers(&text, "echo").await;
        let answer = echo(&replica.caller(&text), "x").await;
        assert!(is_success(&answer), "{answer:?}");
    }
    let directories: Vec<TempDir> = replicas
        .into_iter()
        .map(|Replica { dir, server }| {
            server.stop();
            dir
        })
        .collect();
    let report = run(directories[0].path(), &["--json", "audit", "verify"]).ok().json();
    assert_eq!(report["findings"], json!([]), "{report}");
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
