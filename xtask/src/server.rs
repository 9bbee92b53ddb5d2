//! A temporary `toolcrib serve --demo`, on a free port.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;

use crate::shell;

const SERVE: [&str; 4] = ["serve", "--demo", "--listen", "127.0.0.1:0"];
/// The data directory of a demo in its folder.
pub(crate) const DATA: &str = "data";
const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(50);

/// A running demo; dropping it stops the server and all its child processes.
#[derive(Debug)]
pub(crate) struct Demo {
    pub(crate) facts: Facts,
    server: Server,
}

/// `<data-dir>/demo.json`.
#[derive(Debug, Deserialize)]
pub(crate) struct Facts {
    pub(crate) url: String,
    pub(crate) keys: BTreeMap<String, String>,
}

#[derive(Debug)]
struct Server {
    child: Child,
    folder: TempDir,
}

impl Demo {
    /// Starts the server and waits until it says that it listens.
    pub(crate) fn start(program: &Path) -> Result<Self> {
        Self::of(&mut Command::new(program))
    }

    /// As [`start`](Self::start), with a command for the program and its environment.
    pub(crate) fn of(program: &mut Command) -> Result<Self> {
        Self::in_folder(tempfile::tempdir()?, program.args(SERVE).arg("--no-history"))
    }

    /// Starts a server with a history of calls.
    pub(crate) fn with_history(program: &Path) -> Result<Self> {
        Self::in_folder(tempfile::tempdir()?, Command::new(program).args(SERVE))
    }

    /// Starts a server whose data directory is [`DATA`] in `folder`, and may exist.
    pub(crate) fn of_data(folder: TempDir, program: &Path) -> Result<Self> {
        Self::in_folder(folder, Command::new(program).args(SERVE).arg("--no-history"))
    }

    fn in_folder(folder: TempDir, program: &mut Command) -> Result<Self> {
        let data = folder.path().join(DATA);
        let log = File::create(folder.path().join("log"))?;
        let child = program
            .arg("--data-dir")
            .arg(&data)
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("cannot start the program")?;
        let mut server = Server { child, folder };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let ready = server.log().contains("listening on http://");
            if let (true, Ok(text)) = (ready, fs::read_to_string(data.join("demo.json"))) {
                let facts = serde_json::from_str(&text).context("demo.json")?;
                return Ok(Self { facts, server });
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("the demo server exited at its start: {status}\n{}", server.log());
            }
            if Instant::now() > deadline {
                bail!("the demo server is not ready after {START_LIMIT:?}\n{}", server.log());
            }
            thread::sleep(POLL);
        }
    }

    /// The last lines of the server's output.
    pub(crate) fn log_tail(&self) -> String {
        let log = self.server.log();
        let lines: Vec<&str> = log.lines().collect();
        lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
    }
}

impl Server {
    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.child.try_wait(), Ok(None)) {
            return;
        }
        shell::signal(&self.child, "TERM");
        if matches!(shell::wait(&mut self.child, STOP_LIMIT), Ok(Some(_))) {
            return;
        }
        shell::signal_group(&self.child, "KILL");
        self.child.wait().ok();
    }
}
