#![cfg(test)]
//! A measurement that is killed leaves no server behind.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const POLL: Duration = Duration::from_millis(20);
const LIMIT: Duration = Duration::from_secs(60);
/// Upstream, static server and proxy, each with a watcher.
const CHILDREN: usize = 6;

/// Starts a measurement of the limit servers, and waits until all of them run.
fn started() -> (Child, Vec<u32>) {
    let bench = Command::new(env!("CARGO_BIN_EXE_toolcrib-bench"))
        .args(["run", "--seconds", "60", "--connections", "1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut children = Vec::new();
    wait_until("all servers run", || {
        children = children_of(bench.id());
        children.len() == CHILDREN
    });
    (bench, children)
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !is_so() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        sleep(POLL);
    }
}

/// Returns state and parent of a process.
fn state_and_parent(process: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

fn children_of(parent: u32) -> Vec<u32> {
    let names = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().file_name());
    let processes = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    processes.filter(|it| state_and_parent(*it).is_some_and(|(_, of)| of == parent)).collect()
}

/// Returns whether a process runs; one that waits for its parent has ended.
fn is_running(process: u32) -> bool {
    state_and_parent(process).is_some_and(|(state, _)| state != "Z")
}

fn signal(name: &str, process: u32) {
    let done = Command::new("kill").args(["-s", name, &process.to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn servers_end_with_a_killed_measurement() {
    for name in ["KILL", "TERM", "INT"] {
        let (mut bench, children) = started();
        signal(name, bench.id());
        assert!(!bench.wait().unwrap().success());
        for child in children {
            wait_until(&format!("{child} ends after {name}"), || !is_running(child));
        }
    }
}
