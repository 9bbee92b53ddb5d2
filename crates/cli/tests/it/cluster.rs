//! Three servers over one PostgreSQL and one Redis under load, while parts of it die, pause, restart and
//! are rolled, the database fails over to a replica, and keys are revoked. Afterwards every answered
//! call is in the record, no call ran twice, and no call ran with a revoked key.
//!
//! `TOOLCRIB_CLUSTER_SECONDS` is the time under load. From [`LONG`] seconds on, events are removed
//! meanwhile, and a server pauses for longer than its lease.
#![expect(clippy::disallowed_methods, reason = "the switch of the time, and a client of its own")]

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use chrono::{DateTime, TimeDelta, Utc};
use rustix::process::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;
use toolcrib_testkit::{
    postgres::PostgresServer,
    redis::{self, RedisServer},
    upstream::{Answers, FaultyHttp},
};

use crate::support::{
    Server, dir, eventually_async as eventually, key, run, shared_store, write_config,
    write_private,
};

/// Seconds under load without `TOOLCRIB_CLUSTER_SECONDS`.
const SECONDS: u64 = 30;
/// Seconds of a long run.
const LONG: u64 = 100;
/// How long a revoked key may work at another server.
const BOUND: TimeDelta = TimeDelta::seconds(2);
const CALLERS: usize = 24;
/// Callers of the tool with a rate.
const LIMITED: usize = 4;
/// The rate of that tool, for all servers together.
const RATE: u64 = 20;
/// The names of the replicas of the database, as in `docs/guides/scale.md`.
const DATABASE_REPLICAS: [&str; 2] = ["standby1", "standby2"];
/// How often the balancer asks whether a server is ready.
const PROBE: Duration = Duration::from_millis(100);

/// A server and its data directory.
struct Replica {
    dir: TempDir,
    server: Option<Server>,
}

/// What the callers share.
#[derive(Default)]
struct Load {
    /// The addresses of the servers, as a balancer sees them.
    ready: Mutex<Vec<String>>,
    next: AtomicUsize,
    ends: AtomicBool,
    answered: Mutex<Vec<Answered>>,
    /// Calls with a rate that ran, and those that were refused because of it.
    limited: (AtomicUsize, AtomicUsize),
    refused: AtomicUsize,
    cut_off: AtomicUsize,
}

/// A complete answer to a call.
#[derive(Debug)]
struct Answered {
    call: String,
    run: String,
    is_idempotent: bool,
    result: Value,
}

/// The outcome of one attempt.
enum Attempt {
    Answered(String, Value),
    /// Refused before it ran, with this status.
    Refused(u16),
    CutOff,
}

// === impl Replica ===

impl Replica {
    fn prepare(database: &str, redis: &str, upstream: &FaultyHttp, record: &str) -> TempDir {
        let dir = dir();
        let store = shared_store(dir.path(), database);
        write_private(&dir.path().join("redis.password"), redis::PASSWORD);
        write_config(
            dir.path(),
            &format!(
                "[server]\nlisten = \"127.0.0.1:0\"\ndrain = \"1s\"\n\
                 {store}checkpoint_interval = \"1s\"\n{record}\
                 [limits]\nshared = \"{redis}\"\npassword = {{ file = \"redis.password\" }}\n\
                 [gate]\nrate = \"off\"\n\
                 [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
                 [source.tools.\"*\"]\nscopes = [\"up:use\"]\nsafety_tier = \"write\"\n\
                 [source.tools.add]\nrate = \"{RATE}/s\"\n",
                upstream.url()
            ),
        );
        dir
    }

    fn start(&mut self) {
        self.server = Some(Server::start(self.dir.path()));
    }

    fn url(&self) -> Option<&str> {
        self.server.as_ref().map(|server| server.url.as_str())
    }
}

// === impl Load ===

impl Load {
    /// The next ready server.
    fn server(&self) -> Option<String> {
        let ready = self.ready.lock().unwrap();
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        (!ready.is_empty()).then(|| ready[number % ready.len()].clone())
    }

    async fn call(&self, number: usize, client: reqwest::Client, key: String) {
        let is_idempotent = number.is_multiple_of(2);
        for count in 0.. {
            let call = format!("{number}-{count}");
            loop {
                if self.ends.load(Ordering::Relaxed) {
                    return;
                }
                let Some(server) = self.server() else {
                    tokio::time::sleep(PROBE).await;
                    continue;
                };
                let mut request = json!({ "tool_id": "up__echo", "input": { "call": call } });
                if is_idempotent {
                    request["call_id"] = json!(call);
                }
                match attempt(&client, &server, &key, request).await {
                    Attempt::Answered(run, result) => {
                        let answered = Answered { call, run, is_idempotent, result };
                        self.answered.lock().unwrap().push(answered);
                        break;
                    }
                    Attempt::Refused(_) => {
                        self.refused.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(50)).await;
                    }
                    Attempt::CutOff => {
                        self.cut_off.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(20)).await;
                        // Whether it ran is unknown, so only a call with a key is made again.
                        if !is_idempotent {
                            break;
                        }
                    }
                }
            }
        }
    }

    async fn call_limited(&self, client: reqwest::Client, key: String) {
        while !self.ends.load(Ordering::Relaxed) {
            let Some(server) = self.server() else {
                tokio::time::sleep(PROBE).await;
                continue;
            };
            let request = json!({ "tool_id": "up__add", "input": { "a": 1, "b": 2 } });
            match attempt(&client, &server, &key, request).await {
                Attempt::Answered(..) => self.limited.0.fetch_add(1, Ordering::Relaxed),
                Attempt::Refused(429) => self.limited.1.fetch_add(1, Ordering::Relaxed),
                Attempt::Refused(_) | Attempt::CutOff => 0,
            };
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }

    fn count(&self) -> usize {
        self.answered.lock().unwrap().len()
    }
}

/// Calls once over Open Tool Calling.
async fn attempt(client: &reqwest::Client, server: &str, key: &str, request: Value) -> Attempt {
    let body = json!({ "request": request });
    let request = client.post(format!("{server}/tools/call")).bearer_auth(key).json(&body);
    let Ok(answer) = request.send().await else { return Attempt::CutOff };
    let status = answer.status().as_u16();
    let run = answer.headers().get("toolcrib-run-id").map(|run| run.to_str().unwrap().to_owned());
    match (answer.json::<Value>().await, run) {
        (Err(_), _) => Attempt::CutOff,
        // A failed upstream is an answer, too: the call is on record.
        (Ok(body), Some(run)) if status == 200 => Attempt::Answered(run, body["result"].clone()),
        (Ok(_), _) => Attempt::Refused(status),
    }
}

async fn is_ready(client: &reqwest::Client, server: &str) -> bool {
    let probe = client.get(format!("{server}/readyz")).timeout(Duration::from_secs(2)).send();
    probe.await.is_ok_and(|answer| answer.status().is_success())
}

/// Returns the events of the store of `dir`, and those of `copy`, which the store may have removed. Their
/// order is not that of the record.
fn events(dir: &Path, copy: Option<&Path>) -> Vec<Value> {
    let export = run(dir, &["audit", "export"]).ok().stdout;
    let copied = copy.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default();
    let mut events: HashMap<String, Value> = HashMap::new();
    for line in export.lines().chain(copied.lines()) {
        let event: Value = serde_json::from_str(line).unwrap();
        events.insert(event["eventId"].as_str().unwrap().to_owned(), event);
    }
    events.into_values().collect()
}

/// A key that was revoked, by its principal, and when the answer to that came.
type Revoked = (String, DateTime<Utc>);

/// Makes a key, calls with it at every server until it is refused there, and revokes it. The server
/// `paused` is stopped meanwhile, for `pause`.
async fn revoke(
    number: usize,
    home: &Path,
    replicas: &[Replica],
    client: &reqwest::Client,
    (paused, pause): (usize, Duration),
) -> Revoked {
    let principal = format!("revoked-{number}");
    let (id, text) = key(home, &["--principal", &principal, "--scope", "up:use"]);
    let mut callers = tokio::task::JoinSet::new();
    let ran = Arc::new(AtomicUsize::new(0));
    for replica in replicas {
        let (url, client, text) = (replica.url().unwrap().to_owned(), client.clone(), text.clone());
        let (principal, ran) = (principal.clone(), Arc::clone(&ran));
        callers.spawn(async move {
            let mut has_run = false;
            loop {
                let input = json!({ "principal": principal });
                let request = json!({ "tool_id": "up__echo", "input": input });
                match attempt(&client, &url, &text, request).await {
                    Attempt::Answered(..) if !has_run => {
                        has_run = true;
                        ran.fetch_add(1, Ordering::Relaxed);
                    }
                    // The key is new, or was revoked. A server that has ended refuses everything.
                    Attempt::Refused(401) | Attempt::CutOff if has_run => return,
                    Attempt::Answered(..) | Attempt::Refused(_) | Attempt::CutOff => {}
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
    }
    let all = replicas.len();
    eventually("it runs everywhere", async || ran.load(Ordering::Relaxed) == all).await;
    let stopped = &replicas[paused].server.as_ref().unwrap().process;
    stopped.signal(Signal::STOP);
    // A stopped server may hold the log, so that the event of the revocation waits for it.
    let home = home.to_owned();
    let revoking = tokio::task::spawn_blocking(move || {
        run(&home, &["keys", "revoke", &id]).ok();
        Utc::now()
    });
    tokio::time::sleep(pause).await;
    stopped.signal(Signal::CONT);
    let revoked_at = revoking.await.unwrap();
    callers.join_all().await;
    (principal, revoked_at)
}

/// Ends the primary, and promotes the replica that has received most. The other one follows it.
async fn fail_over(primary: &PostgresServer, replicas: &[PostgresServer; 2]) {
    eventually("both replicas receive", async || {
        primary.query("SELECT sync_state FROM pg_stat_replication") == "quorum\nquorum"
    })
    .await;
    primary.stop();
    let received = replicas.each_ref().map(|replica| {
        let bytes = replica.query("SELECT pg_last_wal_receive_lsn() - '0/0'");
        bytes.parse::<u64>().unwrap()
    });
    let most = usize::from(received[1] > received[0]);
    let other = 1 - most;
    replicas[most].promote();
    replicas[other].follow(&replicas[most], DATABASE_REPLICAS[other]);
}

fn of_type<'a>(events: &'a [Value], kind: &'a str) -> impl Iterator<Item = &'a Value> {
    events.iter().filter(move |event| event["type"] == kind)
}

// I-21, I-31
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_servers_lose_nothing_while_everything_around_them_fails() {
    let seconds =
        std::env::var("TOOLCRIB_CLUSTER_SECONDS").map_or(SECONDS, |it| it.parse().unwrap());
    let (Some(postgres), Some(mut redis)) = (PostgresServer::own(), RedisServer::start()) else {
        return;
    };
    // As `docs/guides/scale.md` says.
    postgres.query("ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (standby1, standby2)'");
    let database_replicas = DATABASE_REPLICAS.map(|name| postgres.start_replica(name));
    postgres.query("SELECT pg_reload_conf()");
    let database = postgres.url_with_replicas(&postgres.database(), &database_replicas);
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    let is_long = seconds >= LONG;
    let copies = dir();
    let copy = is_long.then(|| copies.path().join("events.jsonl"));
    let record = copy.as_ref().map_or(String::new(), |file| {
        format!(
            "keep = \"20s\"\n[[record.forward]]\nname = \"copy\"\nkind = \"file\"\nfile = \"{}\"\n",
            file.display()
        )
    });
    let mut replicas: Vec<Replica> = (0..3)
        .map(|_| Replica {
            dir: Replica::prepare(&database, &redis.url(), &upstream, &record),
            server: None,
        })
        .collect();
    replicas.iter_mut().for_each(Replica::start);
    let home = replicas[0].dir.path().to_owned();
    let (_, admin) = key(&home, &["--scope", "*"]);
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let client =
        reqwest::Client::builder().no_proxy().timeout(Duration::from_secs(45)).build().unwrap();
    let list = async |server: &str| {
        let request = client.get(format!("{server}/v1/tools")).bearer_auth(&admin);
        request.send().await.unwrap().json::<Value>().await.unwrap()
    };
    for replica in &replicas {
        let url = replica.url().unwrap().to_owned();
        eventually("the tools are offered", async || {
            list(&url).await.as_array().is_some_and(|tools| !tools.is_empty())
        })
        .await;
    }

    let load = Arc::new(Load::default());
    let urls: Arc<Mutex<Vec<String>>> = Arc::default();
    let balancer = tokio::spawn({
        let (load, urls, client) = (Arc::clone(&load), Arc::clone(&urls), client.clone());
        async move {
            while !load.ends.load(Ordering::Relaxed) {
                let known = urls.lock().unwrap().clone();
                let mut ready = Vec::new();
                for url in known {
                    if is_ready(&client, &url).await {
                        ready.push(url);
                    }
                }
                *load.ready.lock().unwrap() = ready;
                tokio::time::sleep(PROBE).await;
            }
        }
    });
    let publish = |replicas: &[Replica]| {
        *urls.lock().unwrap() =
            replicas.iter().filter_map(Replica::url).map(str::to_owned).collect();
    };
    publish(&replicas);
    let begun = Instant::now();
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let (load, client, key) = (Arc::clone(&load), client.clone(), admin.clone());
        match number < LIMITED {
            true => tasks.spawn(async move { load.call_limited(client, key).await }),
            false => tasks.spawn(async move { load.call(number, client, key).await }),
        };
    }
    let at = async |percent: u64| {
        let due = Duration::from_millis(seconds * 10 * percent);
        tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
    };
    let answers_again = async |what: &str| {
        let before = load.count();
        eventually(what, async || load.count() > before + 20).await;
    };

    at(10).await;
    let mut killed = replicas[0].server.take().unwrap();
    killed.process.kill();
    drop(killed);
    replicas[0].start();
    publish(&replicas);
    answers_again("calls are answered after a kill").await;

    at(30).await;
    eventually("all are ready", async || load.ready.lock().unwrap().len() == 3).await;
    let before = load.cut_off.load(Ordering::Relaxed);
    let mut rolled = replicas[1].server.take().unwrap();
    rolled.process.signal(Signal::TERM);
    assert_eq!(rolled.process.ended().code(), Some(0), "{}", rolled.process.stderr());
    drop(rolled);
    replicas[1].start();
    publish(&replicas);
    answers_again("calls are answered while a server is replaced").await;
    assert_eq!(load.cut_off.load(Ordering::Relaxed), before, "a rolled server cuts nothing off");

    at(40).await;
    eventually("all are ready", async || load.ready.lock().unwrap().len() == 3).await;
    let pause = Duration::from_secs(if is_long { 8 } else { 3 });
    let mut revoked = vec![revoke(0, &home, &replicas, &client, (2, pause)).await];
    answers_again("calls are answered after a pause").await;

    at(55).await;
    postgres.stop();
    tokio::time::sleep(Duration::from_secs(2)).await;
    postgres.start();
    answers_again("calls are answered after an outage of the database").await;

    at(67).await;
    redis.stop();
    tokio::time::sleep(Duration::from_secs(1)).await;
    redis.start_again();
    answers_again("calls are answered after an outage of the limits").await;

    at(73).await;
    fail_over(&postgres, &database_replicas).await;
    answers_again("calls are answered after a failover").await;

    at(80).await;
    for _ in 0..3 {
        upstream.refuse_with(503);
        tokio::time::sleep(Duration::from_millis(700)).await;
        upstream.refuse_with(0);
        tokio::time::sleep(Duration::from_millis(700)).await;
    }
    answers_again("calls are answered after the upstream has failed").await;

    if is_long {
        eventually("all are ready", async || load.ready.lock().unwrap().len() == 3).await;
        revoked.push(revoke(1, &home, &replicas, &client, (2, Duration::from_secs(50))).await);
        // Its lease had expired, and the others have closed its calls.
        let mut late = replicas[2].server.take().unwrap();
        assert_ne!(late.process.ended().code(), Some(0), "{}", late.process.stderr());
        drop(late);
        replicas[2].start();
        publish(&replicas);
        answers_again("calls are answered after a long pause").await;
    }

    at(100).await;
    load.ends.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    let elapsed = begun.elapsed();
    balancer.await.unwrap();

    // The calls of the killed server are closed when its lease has expired.
    eventually("every call has its end", async || {
        let events = events(&home, copy.as_deref());
        of_type(&events, "agent.toolCalled").count()
            == of_type(&events, "agent.toolReturned").count()
    })
    .await;
    let mut lists = Vec::new();
    for replica in &replicas {
        let url = replica.url().unwrap();
        eventually("every server is ready", async || is_ready(&client, url).await).await;
        lists.push(list(url).await);
    }
    assert!(lists.iter().all(|list| *list == lists[0]), "the lists differ");
    for replica in &mut replicas {
        replica.server.take().unwrap().stop();
    }

    let report = run(&home, &["--json", "audit", "verify"]).ok().json();
    assert_eq!(report["findings"], json!([]), "{report}");
    let events = events(&home, copy.as_deref());
    if is_long {
        let kept = run(&home, &["audit", "export"]).ok().stdout.lines().count();
        assert!(kept < events.len(), "no event was removed");
    }
    for (principal, at) in &revoked {
        let calls = of_type(&events, "agent.toolCalled");
        let calls: Vec<_> =
            calls.filter(|event| event["payload"]["principal"] == **principal).collect();
        assert!(!calls.is_empty(), "{principal} never called");
        for call in calls {
            let called: DateTime<Utc> = call["timestamp"].as_str().unwrap().parse().unwrap();
            assert!(called <= *at + BOUND, "{principal} was revoked at {at}: {call}");
        }
    }
    let causes: Vec<&str> = of_type(&events, "agent.toolReturned")
        .map(|event| event["causationId"].as_str().unwrap())
        .collect();
    let ended: HashSet<&str> = causes.iter().copied().collect();
    assert_eq!(ended.len(), causes.len(), "a call has two ends");
    let mut ends: HashMap<&str, &Value> = HashMap::new();
    for event in of_type(&events, "agent.toolReturned") {
        ends.insert(event["runId"].as_str().unwrap(), &event["payload"]);
    }
    let mut called: HashMap<&str, &str> = HashMap::new();
    for event in of_type(&events, "agent.toolCalled") {
        called.insert(event["runId"].as_str().unwrap(), event["eventId"].as_str().unwrap());
    }
    let mut runs: HashMap<String, usize> = HashMap::new();
    let mut limited = 0;
    for request in upstream.take_received() {
        let params = &request.body["params"];
        match (request.body["method"].as_str(), params["name"].as_str()) {
            (Some("tools/call"), Some("add")) => limited += 1,
            (Some("tools/call"), Some("echo")) => {
                // The calls with a revoked key have no number.
                if let Some(call) = params["arguments"]["call"].as_str() {
                    *runs.entry(call.to_owned()).or_default() += 1;
                }
            }
            _ => {}
        }
    }
    let answered = load.answered.lock().unwrap();
    let mut interrupted = 0;
    for answer in &*answered {
        interrupted += usize::from(answer.result["error"]["developer_message"] == "interrupted");
        let event = called.get(answer.run.as_str());
        assert!(event.is_some_and(|event| ended.contains(event)), "not on record: {answer:?}");
        if answer.result["success"] == true {
            let end = ends.get(answer.run.as_str());
            assert!(end.is_some_and(|end| end["status"] == "ok"), "{end:?} of {answer:?}");
        }
        let times = runs.get(&answer.call).copied().unwrap_or_default();
        assert!(times <= 1, "it ran {times} times: {answer:?}");
    }
    let twice: Vec<_> = runs.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "they ran more than once: {twice:?}");
    // A restart of Redis fills the bucket once more.
    let bound = RATE * elapsed.as_secs().saturating_add(1) + 2 * RATE;
    assert!(limited <= bound, "{limited} calls ran, {bound} were allowed");
    let idempotent = answered.iter().filter(|it| it.is_idempotent).count();
    let (ran, over) = (&load.limited.0, &load.limited.1);
    eprintln!(
        "{:.0} s: {} calls answered ({idempotent} under a key, {interrupted} interrupted), {} refused, {} cut off; with a rate \
         {} ran of at most {bound}, {} refused; {} events verified",
        elapsed.as_secs_f64(),
        answered.len(),
        load.refused.load(Ordering::Relaxed),
        load.cut_off.load(Ordering::Relaxed),
        ran.load(Ordering::Relaxed),
        over.load(Ordering::Relaxed),
        report["events"]
    );
}
