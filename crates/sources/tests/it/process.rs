//! Child processes: their environment, their end, and the cleanup after them.

use std::{
    collections::BTreeMap,
    fs,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use toolcrib_core::{
    call::UpstreamErrorKind,
    id::SourceId,
    source::{SourceLimits, SourceListener, SourceState, StderrMode, StdioSpec},
};
use toolcrib_tasks::Tasks;

use crate::rig::{Reports, Rig, eventually, faulty, invocation, secret, text};

/// Processes of this group, zombies included: `(pid, state)`.
fn group(pgid: i32) -> Vec<(i32, char)> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let stats = processes.filter_map(|entry| fs::read_to_string(entry.path().join("stat")).ok());
    let members = stats.filter_map(|stat| {
        // pid (name) state ppid pgrp …; the name may contain anything.
        let (pid, rest) = (stat.split(' ').next()?, stat.rsplit_once(')')?.1);
        let mut fields = rest.split_whitespace();
        let (state, pgrp) = (fields.next()?, fields.nth(1)?);
        (pgrp.parse() == Ok(pgid)).then_some((pid.parse().ok()?, state.chars().next()?))
    });
    members.collect()
}

fn group_of(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(2).unwrap().parse().unwrap()
}

/// Makes the child start a descendant that ignores SIGTERM, and returns the group of both.
async fn group_with_grandchild(rig: &Rig) -> i32 {
    let grandchild = text(&rig.call("grandchild", json!({})).await).parse().unwrap();
    let pgid = group_of(grandchild);
    assert_ne!(pgid, group_of(i32::try_from(std::process::id()).unwrap()), "a group of its own");
    assert!(group(pgid).len() >= 2, "the child and its descendant are there");
    pgid
}

// I-26
#[tokio::test]
async fn closing_a_source_ends_the_whole_group() {
    let rig = Rig::faulty(&[]);
    let pgid = group_with_grandchild(&rig).await;
    rig.source.close().await;
    assert_eq!(rig.source.status().state, SourceState::Stopped);
    eventually("the group is gone", || group(pgid).is_empty()).await;
    assert_eq!(rig.fails("echo", json!({})).await, UpstreamErrorKind::Unavailable);
    rig.source.close().await;
}

// I-26
#[tokio::test]
async fn dropping_a_source_ends_the_whole_group() {
    let rig = Rig::faulty(&[]);
    let pgid = group_with_grandchild(&rig).await;
    drop(rig);
    eventually("the group is gone", || group(pgid).is_empty()).await;
}

// I-26
#[test]
fn a_runtime_that_ends_takes_the_group_along() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (rig, pgid) = runtime.block_on(async {
        let rig = Rig::faulty(&[]);
        let pgid = group_with_grandchild(&rig).await;
        (rig, pgid)
    });
    runtime.shutdown_timeout(Duration::from_secs(30));
    // There is no parent left to reap our own child, so it may remain as a zombie; no process runs.
    let deadline = std::time::Instant::now() + crate::rig::PATIENCE;
    while group(pgid).iter().any(|(_, state)| *state != 'Z') {
        assert!(std::time::Instant::now() < deadline, "{:?}", group(pgid));
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(rig);
}

// I-26
#[tokio::test]
async fn a_child_that_dies_in_a_call_fails_the_call_leaves_nothing_and_is_started_again() {
    let rig = Rig::faulty(&["listen=no"]);
    let pgid = group_with_grandchild(&rig).await;
    let seen = rig.changes();
    let bystander = rig.try_call("hang", json!({}));
    let killer = async {
        // The bystander's request is in the pipe before this one.
        tokio::time::sleep(Duration::from_millis(50)).await;
        rig.fails("die", json!({})).await
    };
    let (bystander, killed) = tokio::join!(bystander, killer);
    assert_eq!(bystander.unwrap_err().kind, UpstreamErrorKind::Died);
    assert_eq!(killed, UpstreamErrorKind::Died);
    let status =
        rig.until(|status| status.restarts == 1 && status.state == SourceState::Ready).await;
    assert_eq!(status.detail.as_deref(), Some("connected, MCP 2026-07-28"));
    rig.changed_after(seen).await;
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    eventually("the old group is gone, zombies and all", || group(pgid).is_empty()).await;
}

// I-74
#[tokio::test]
async fn calls_that_end_the_child_again_and_again_keep_no_other_waiting_for_long() {
    let rig = Rig::faulty(&["listen=no"]);
    for round in 0..6 {
        assert_eq!(rig.fails("die", json!({})).await, UpstreamErrorKind::Died, "{round}");
        // It waits for the child that is started next, and does not fail.
        let called = rig.try_call("echo", json!({})).await;
        assert_eq!(text(&called.unwrap()), "{}", "{round}");
    }
}

#[tokio::test]
async fn a_call_waits_for_the_first_attempt_to_connect_and_not_for_later_ones() {
    let rig = Rig::faulty(&["listen=no"]);
    let sink = Arc::new(Reports::default());
    let mut call = invocation(json!({}));
    call.progress = Some(sink.clone());
    assert_eq!(text(&rig.invoke("echo", None, call).await.unwrap()), "{}");
    let waits = sink.all().first().and_then(|report| report.message.clone()).unwrap_or_default();
    assert!(waits.contains("waiting until the tool's source is connected"), "{waits}");
    let broken = Rig::faulty(&["start=exit"]);
    broken.degraded().await;
    assert_eq!(broken.fails("echo", json!({})).await, UpstreamErrorKind::Unavailable);
}

#[tokio::test]
async fn the_status_of_a_dead_child_says_how_it_ended_and_its_lines_are_kept() {
    let rig = Rig::faulty(&["start=exit"]);
    let status = rig.degraded().await;
    // I-92: stderr may contain anything, so it is shown only to the operator.
    assert_eq!(status.detail.as_deref(), Some("the child exited with status 4"));
    assert_eq!(rig.stderr()[..2], ["starting as asked: exit", "cannot open the database"]);
    // I-27: it is restarted, with pauses in between.
    rig.until(|status| status.restarts >= 3).await;
}

// I-27, I-90
#[tokio::test]
async fn a_child_that_ends_while_a_descendant_holds_its_output_is_tried_again() {
    let rig = Rig::faulty(&["start=orphan"]);
    let status = rig.until(|status| status.restarts >= 3).await;
    assert_ne!(status.state, SourceState::Ready);
    rig.source.close().await;
    assert_eq!(rig.source.status().state, SourceState::Stopped);
}

// I-92: a server of python's mcp 1.x rejects the probe with an error and complains on stderr.
#[tokio::test]
async fn complaints_about_the_probe_are_not_shown() {
    for (era, expected) in [
        ("legacy", vec!["echoed on stderr"]),
        ("both", vec!["starting as asked: complain", "echoed on stderr"]),
    ] {
        let rig = Rig::faulty(&[&format!("era={era}"), "start=complain"]);
        rig.call("complain", json!({ "text": "echoed on stderr" })).await;
        eventually("it complains", || rig.stderr().contains(&"echoed on stderr".to_owned())).await;
        assert_eq!(rig.stderr(), expected, "{era}");
    }
    // When connecting fails, the complaints may explain why.
    let rig = Rig::faulty(&["era=strict", "start=exit"]);
    rig.degraded().await;
    assert!(rig.stderr().contains(&"cannot open the database".to_owned()), "{:?}", rig.stderr());
}

/// A listener that panics at the first two changes.
struct Fragile(AtomicU64);

impl SourceListener for Fragile {
    fn changed(&self, _: &SourceId) {
        if self.0.fetch_add(1, Ordering::SeqCst) < 2 {
            panic!("a fault in a listener");
        }
    }
}

// I-90
#[tokio::test]
async fn a_supervisor_that_panics_is_started_again_and_leaves_no_child_behind() {
    let tasks = Tasks::new();
    let rig = Rig::listened(faulty(&[]), Arc::new(Fragile(AtomicU64::new(0))), &tasks);
    let status =
        rig.until(|status| status.restarts >= 2 && status.state == SourceState::Ready).await;
    assert_eq!(status.detail.as_deref(), Some("connected, MCP 2026-07-28"));
    assert_eq!(tasks.failures_of("crib"), 2);
    assert_eq!(text(&rig.call("echo", json!({})).await), "{}");
    let pgid = group_with_grandchild(&rig).await;
    rig.source.close().await;
    eventually("the group is gone", || group(pgid).is_empty()).await;
}

#[tokio::test]
async fn a_kill_from_outside_is_survived() {
    let rig = Rig::faulty(&[]);
    let pgid = group_with_grandchild(&rig).await;
    let leader = rustix::process::Pid::from_raw(pgid).unwrap();
    rustix::process::kill_process(leader, rustix::process::Signal::KILL).unwrap();
    rig.until(|status| status.restarts >= 1 && status.state == SourceState::Ready).await;
    eventually("the old group is gone", || group(pgid).is_empty()).await;
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named_as_the_problem_without_its_path() {
    let command = vec!["/nowhere/secret-program".to_owned()];
    let spec = StdioSpec {
        command,
        env: BTreeMap::new(),
        cwd: None,
        sandbox: None,
        stderr: StderrMode::Keep,
    };
    let status = Rig::stdio(spec, SourceLimits::default()).degraded().await;
    let detail = status.detail.unwrap();
    assert!(detail.starts_with("cannot start the program: not found"), "{detail}");
    assert!(!detail.contains("nowhere"), "{detail}");
}

// I-26
#[tokio::test]
#[expect(clippy::disallowed_methods, reason = "compares the child's environment with our own")]
async fn a_child_sees_only_the_environment_that_is_meant_for_it() {
    let mut spec = faulty(&[]);
    spec.env.insert("API_TOKEN".to_owned(), secret("hunter22"));
    spec.env.insert("LANG".to_owned(), secret("xx_XX"));
    let rig = Rig::stdio(spec, SourceLimits::default());
    let environment: Value =
        serde_json::from_str(&text(&rig.call("env", json!({})).await)).unwrap();
    let names: Vec<_> = environment.as_object().unwrap().keys().collect();
    let allowed = ["PATH", "HOME", "LANG", "TMPDIR", "USER", "API_TOKEN"];
    assert!(names.iter().all(|name| allowed.contains(&name.as_str())), "{names:?}");
    assert!(std::env::var("CARGO_MANIFEST_DIR").is_ok(), "there is something not to inherit");
    assert_eq!(environment["API_TOKEN"], "hunter22");
    assert_eq!(environment["LANG"], "xx_XX");
    assert_eq!(environment["PATH"], std::env::var("PATH").unwrap());
}
