//! A running server: started on a free port, stopped by its own process id.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use super::{Caller, toolcrib};

/// Time limit of all waits. It only bounds a hang, so it is generous.
const LIMIT: Duration = Duration::from_secs(60);
const LOOK: Duration = Duration::from_millis(20);

/// A process that is killed at the end of the test.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The directory of its output, separate from its data, which tests search.
    logs: TempDir,
}

/// A server that is ready.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) url: String,
}

impl Server {
    /// `serve` in `dir`, with its `toolcrib.toml`.
    pub(crate) fn start(dir: &Path) -> Self {
        Self::of(toolcrib(dir).arg("serve"))
    }

    /// `serve --demo` on a free port with `data` as its data directory.
    pub(crate) fn demo(data: &Path) -> Self {
        let args = ["serve", "--demo", "--no-history", "--listen", "127.0.0.1:0", "--data-dir"];
        Self::of(toolcrib(data.parent().unwrap()).args(args).arg(data))
    }

    /// Starts `command`, and waits until it prints its address.
    pub(crate) fn of(command: &mut Command) -> Self {
        Self::ready(Process::start(command))
    }

    /// `serve` in `dir`, with `stderr` for its log.
    pub(crate) fn logging_to(dir: &Path, stderr: File) -> Self {
        Self::ready(Process::logging_to(toolcrib(dir).arg("serve"), stderr))
    }

    fn ready(mut process: Process) -> Self {
        let line = process.until("`listening on`", |process| {
            process
                .stdout()
                .lines()
                .find_map(|line| line.strip_prefix("listening on ").map(str::to_owned))
        });
        Self { process, url: line }
    }

    pub(crate) fn caller(&self, key: Option<&str>) -> Caller {
        Caller::new(&self.url, key)
    }

    /// Stops the server with SIGTERM, and returns its stderr.
    pub(crate) fn stop(mut self) -> String {
        self.process.signal(Signal::TERM);
        let status = self.process.ended();
        assert_eq!(status.code(), Some(0), "{}", self.process.stderr());
        self.process.stderr()
    }
}

impl Process {
    pub(crate) fn start(command: &mut Command) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let err = File::create(logs.path().join("stderr")).unwrap();
        Self::in_folder(command, logs, err)
    }

    fn logging_to(command: &mut Command, stderr: File) -> Self {
        let logs = tempfile::tempdir().unwrap();
        File::create(logs.path().join("stderr")).unwrap();
        Self::in_folder(command, logs, stderr)
    }

    fn in_folder(command: &mut Command, logs: TempDir, stderr: File) -> Self {
        let out = File::create(logs.path().join("stdout")).unwrap();
        let child = command.stdout(out).stderr(stderr).spawn().unwrap();
        Self { child, logs }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.logs.path().join("stdout")).unwrap()
    }

    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.logs.path().join("stderr")).unwrap()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        signal_pid(self.pid(), signal);
    }

    /// Waits until `look` finds something; fails when the process ends first.
    pub(crate) fn until<T>(&mut self, what: &str, look: impl Fn(&Self) -> Option<T>) -> T {
        let deadline = Instant::now() + LIMIT;
        loop {
            let ended = self.child.try_wait().unwrap();
            if let Some(found) = look(self) {
                return found;
            }
            assert!(ended.is_none(), "ended before {what}: {ended:?}\n{}", self.stderr());
            assert!(Instant::now() < deadline, "no {what}:\n{}\n{}", self.stdout(), self.stderr());
            thread::sleep(LOOK);
        }
    }

    /// Waits for the end.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let deadline = Instant::now() + LIMIT;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < deadline, "does not end:\n{}", self.stderr());
            thread::sleep(LOOK);
        }
    }

    /// Waits for the end, and returns its stderr.
    pub(crate) fn ended_with(mut self) -> String {
        self.ended();
        self.stderr()
    }

    /// Kills the process without a shutdown, and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns the ids of its child processes.
    pub(crate) fn children(&self) -> Vec<u32> {
        let parent = self.pid();
        let processes = fs::read_dir("/proc").unwrap().flatten();
        processes
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid| parent_of(*pid) == Some(parent))
            .collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::TERM);
            let deadline = Instant::now() + Duration::from_secs(15);
            while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
                thread::sleep(LOOK);
            }
            self.child.kill().ok();
            self.child.wait().ok();
        }
    }
}

pub(crate) fn signal_pid(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

/// Returns whether the process exists and is not a zombie.
pub(crate) fn is_running(pid: u32) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    fields(&stat).first() != Some(&"Z")
}

/// Waits until `done`.
pub(crate) fn eventually(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < deadline, "never: {what}");
        thread::sleep(LOOK);
    }
}

/// As [`eventually`], for at most a minute.
pub(crate) async fn eventually_async(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..1_200 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("not within a minute: {what}");
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    fields(&stat).get(1)?.parse().ok()
}

/// The fields after the name, which may hold anything.
fn fields(stat: &str) -> Vec<&str> {
    stat.rsplit_once(')').map(|(_, rest)| rest.split_whitespace().collect()).unwrap_or_default()
}

/// `demo.json` of `data`.
pub(crate) fn facts(data: &Path) -> Value {
    let file: PathBuf = data.join("demo.json");
    serde_json::from_slice(&fs::read(file).unwrap()).unwrap()
}

/// The key called `name` of the demo in `data`.
pub(crate) fn demo_key(data: &Path, name: &str) -> String {
    facts(data)["keys"][name].as_str().unwrap().to_owned()
}
