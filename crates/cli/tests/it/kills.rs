//! I-21, I-75: `kill -9` under 64 callers. Every answered call has both events, no call runs twice,
//! and the chain verifies.
//!
//! `TOOLCRIB_KILLS` is the number of kills.
#![expect(clippy::disallowed_methods, reason = "the switch of the number of kills")]

use std::{
    collections::{HashMap, HashSet},
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::sync::watch;
use toolcrib_testkit::upstream::{Answers, FaultyHttp};

use crate::support::{Caller, Server, dir, key, run, write_config, write_seal_key};

/// Kills without `TOOLCRIB_KILLS`.
const KILLS: usize = 5;
const CALLERS: usize = 64;
/// Answers to callers between two kills.
const ANSWERS: usize = 160;
const RUN_ID: &str = "dev.toolcrib/runId";

/// How a caller calls.
#[derive(Debug, Clone, Copy)]
enum Surface {
    /// With an idempotency key, under which a call without an answer is repeated.
    Idempotent,
    Otc,
    Mcp,
    McpSession,
}

/// A complete response to a call.
#[derive(Debug)]
struct Answered {
    surface: Surface,
    /// The number that the upstream gets.
    call: String,
    run: String,
    status: u16,
}

#[derive(Default)]
struct Callers {
    answered: Mutex<Vec<Answered>>,
    count: AtomicUsize,
    /// Calls without a complete response.
    cut_off: AtomicUsize,
    ends: AtomicBool,
}

fn configure(dir: &Path, upstream: &FaultyHttp) {
    write_seal_key(dir);
    write_config(
        dir,
        &format!(
            "[server]\nlisten = \"127.0.0.1:0\"\n[store]\nseal_key = {{ file = \"seal.key\" }}\n\
             [gate]\nrate = \"off\"\n\
             [[source]]\nid = \"up\"\nkind = \"mcp\"\nurl = \"{}\"\n\
             [source.tools.\"*\"]\nsafety_tier = \"write\"\n",
            upstream.url()
        ),
    );
}

impl Callers {
    /// Calls until the end; after a kill, with the next server.
    async fn call(&self, number: usize, mut server: watch::Receiver<Option<Caller>>) {
        let surface = match number % 4 {
            0 | 1 => Surface::Idempotent,
            2 => Surface::Mcp,
            _ if number % 8 == 3 => Surface::Otc,
            _ => Surface::McpSession,
        };
        let mut session = None;
        for call in 0.. {
            let call = format!("{number}-{call}");
            loop {
                let found = server.wait_for(Option::is_some).await.unwrap().clone();
                if self.ends.load(Ordering::Relaxed) {
                    return;
                }
                let answer = try_call(surface, &call, &found.unwrap(), &mut session).await;
                match answer {
                    Some((status, run)) => {
                        self.count.fetch_add(1, Ordering::Relaxed);
                        let answered = Answered { surface, call, run, status };
                        self.answered.lock().unwrap().push(answered);
                        break;
                    }
                    None => {
                        self.cut_off.fetch_add(1, Ordering::Relaxed);
                        session = None;
                        // Until the server is known to be gone.
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                }
                // The outcome of another call is unknown, so it is not made again.
                if !matches!(surface, Surface::Idempotent) {
                    break;
                }
            }
        }
    }
}

/// Calls once, and returns the status and the run; `None` without a complete response.
async fn try_call(
    surface: Surface,
    call: &str,
    caller: &Caller,
    session: &mut Option<String>,
) -> Option<(u16, String)> {
    let input = json!({ "call": call });
    let (status, body) = match surface {
        Surface::Idempotent => return caller.recorded_as(Some(call), "up__echo", input).await,
        Surface::Otc => return caller.recorded("up__echo", input).await,
        Surface::Mcp => {
            let params = json!({ "name": "up__echo", "arguments": input });
            caller.try_mcp("tools/call", params).await?
        }
        Surface::McpSession => {
            if session.is_none() {
                *session = Some(caller.try_open_mcp_session().await?);
            }
            caller.try_call_in_session(session.as_ref()?, "up__echo", input).await?
        }
    };
    Some((status, body["result"]["_meta"][RUN_ID].as_str()?.to_owned()))
}

/// Starts a server, and waits until its tool can be called.
async fn serve(dir: &Path, key: &str) -> (Server, Caller) {
    let server = Server::start(dir);
    let caller = server.caller(Some(key));
    for _ in 0..600 {
        if caller.otc("up__echo", json!({ "call": "probe" })).await.0 == 200 {
            return (server, caller);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the tool cannot be called: {}", server.process.stderr());
}

/// Verifies the record; its end may be too young to be signed.
fn verify(dir: &Path) {
    let report = run(dir, &["--json", "audit", "verify"]).json();
    assert_eq!(report["findings"], json!([]), "{report}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_kill_loses_an_answered_call_or_runs_one_twice() {
    let kills = std::env::var("TOOLCRIB_KILLS").map_or(KILLS, |it| it.parse().unwrap());
    let dir = dir();
    let upstream = FaultyHttp::start(Answers::Json, &["era=modern"]);
    configure(dir.path(), &upstream);
    let (_, text) = key(dir.path(), &["--scope", "*"]);
    let callers = Arc::new(Callers::default());
    let (current, server) = watch::channel(None);
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..CALLERS {
        let (callers, server) = (Arc::clone(&callers), server.clone());
        tasks.spawn(async move { callers.call(number, server).await });
    }
    // How often each call ran.
    let mut runs: HashMap<String, usize> = HashMap::new();
    let mut count_runs = || {
        for request in upstream.take_received() {
            if request.body["method"] == "tools/call" {
                let call = request.body["params"]["arguments"]["call"].as_str().unwrap();
                *runs.entry(call.to_owned()).or_default() += 1;
            }
        }
    };
    for kill in 0..kills {
        let (mut server, caller) = serve(dir.path(), &text).await;
        let before = callers.count.load(Ordering::Relaxed);
        current.send(Some(caller)).unwrap();
        // At another moment each time.
        let answers = ANSWERS + kill % 7;
        let mut waits = 0;
        while callers.count.load(Ordering::Relaxed) < before + answers {
            waits += 1;
            assert!(waits < 60_000, "the callers get no answers: {}", server.process.stderr());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        current.send(None).unwrap();
        server.process.kill();
        count_runs();
        if kill % kills.div_ceil(10) == 0 {
            verify(dir.path());
        }
    }
    let (server, caller) = serve(dir.path(), &text).await;
    callers.ends.store(true, Ordering::Relaxed);
    current.send(Some(caller)).unwrap();
    tasks.join_all().await;
    server.stop();
    count_runs();
    let report = run(dir.path(), &["--json", "audit", "verify"]).ok().json();

    let export = run(dir.path(), &["audit", "export"]).ok().stdout;
    let events: Vec<Value> =
        export.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of_type = |kind: &'static str| events.iter().filter(move |it| it["type"] == kind);
    let causes: Vec<&str> =
        of_type("agent.toolReturned").map(|it| it["causationId"].as_str().unwrap()).collect();
    let ended: HashSet<&str> = causes.iter().copied().collect();
    assert_eq!(ended.len(), causes.len(), "no call has two ends");
    let mut called: HashMap<&str, usize> = HashMap::new();
    for event in of_type("agent.toolCalled") {
        *called.entry(event["runId"].as_str().unwrap()).or_default() += 1;
        assert!(ended.contains(event["eventId"].as_str().unwrap()), "without an end: {event}");
    }
    let answered = callers.answered.lock().unwrap();
    for answer in &*answered {
        assert_eq!(answer.status, 200, "{answer:?}");
        let events = called.get(answer.run.as_str()).copied().unwrap_or_default();
        let expected = if let Surface::McpSession = answer.surface { events } else { 1 };
        assert!(events > 0 && events == expected, "{events} calls on record: {answer:?}");
        // A call under a key may have been interrupted before it ran.
        let times = runs.get(&answer.call).copied().unwrap_or_default();
        assert!(times == 1 || matches!(answer.surface, Surface::Idempotent), "{times}: {answer:?}");
    }
    runs.remove("probe");
    let twice: Vec<_> = runs.iter().filter(|(_, times)| **times > 1).collect();
    assert!(twice.is_empty(), "they ran more than once: {twice:?}");
    let recorded = of_type("agent.toolCalled").count();
    assert!(runs.len() <= recorded, "a call ran unrecorded");
    let interrupted = of_type("agent.toolReturned")
        .filter(|it| it["payload"]["error"]["code"] == "interrupted")
        .count();
    let cut_off = callers.cut_off.load(Ordering::Relaxed);
    eprintln!(
        "{kills} kills, {} calls answered, {cut_off} attempts cut off, {} calls ran, \
         {recorded} recorded, {interrupted} of them interrupted, {} events verified",
        answered.len(),
        runs.len(),
        report["events"]
    );
    assert!(interrupted > kills, "the kills hit running calls");
}
