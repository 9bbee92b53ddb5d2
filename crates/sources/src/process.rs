//! Child processes. The only place that starts a program.
//!
//! A child is started by a [`reaper`], this program run again, which ends the child and everything
//! that descends from it. Without a [`Launcher`] (a program that embeds the sources need not bring
//! one) it is started directly, and its process group takes the place of its descendants.
//!
//! Invariant: a child leads its own process group, and when its [`Child`] is closed or dropped it
//! and all of that is sent SIGKILL, so that a descendant that ignores SIGTERM does not outlive it.
//! Invariant: a child's environment is what its description says, not ours.

use std::{
    ffi::OsString,
    io,
    process::{ExitCode, ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};
use tokio::{
    io::AsyncRead,
    process::{ChildStdin, ChildStdout, Command},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolcrib_core::{
    source::{SecretValue, StdioSpec},
    text::io_reason,
};

use self::{
    reaper::{End, Reaped, Reaper, Streams},
    stderr::{Lines, ProbeEnd},
};
use crate::exec::Launcher;

pub(crate) mod confined;
pub(crate) mod files;
pub(crate) mod helper;
mod landlock;
pub(crate) mod once;
pub(crate) mod reaper;
pub(crate) mod stderr;

/// What this program is when it is run again, as one argument.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Stage {
    Reap(reaper::Orders),
    Confine(confined::Orders),
}

impl Stage {
    fn to_argument(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|_| "a path is not UTF-8".to_owned())
    }
}

/// What [`Launcher`] runs: `ORDERS PROGRAM [ARGUMENT]…`. Call it before the
/// program starts a thread or opens a file.
pub fn run_child(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let stage = arguments.next().and_then(|text| text.into_string().ok());
    let stage = stage.and_then(|text| serde_json::from_str(&text).ok());
    match (stage, arguments.next()) {
        (Some(Stage::Reap(orders)), Some(program)) => reaper::run(orders, program, arguments),
        (Some(Stage::Confine(orders)), Some(program)) => {
            confined::run(&orders, &program, &mut arguments)
        }
        // Only toolcrib itself starts it.
        (None, _) | (_, None) => ExitCode::FAILURE,
    }
}

/// What a child may have of our own environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// How long a child may take to end after its input closed, and again after SIGTERM. Well-behaved
/// servers end within half a second of the former.
const GRACE: Duration = Duration::from_secs(2);

/// How long what is left in the stderr pipe may take to arrive after the group was killed.
const DRAIN: Duration = Duration::from_millis(200);

/// A running child and everything that it started.
pub(crate) struct Child {
    process: Process,
    _stderr: AbortOnDropHandle<()>,
    /// Cancelled when everything on stderr has been read.
    stderr_read: CancellationToken,
}

/// How a child is held.
enum Process {
    Reaped(Reaper),
    /// Without a launcher.
    Direct {
        // Before `process`: the group is killed before its leader can be reaped.
        group: Group,
        process: tokio::process::Child,
    },
}

/// The pipes to a child.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) probe_end: ProbeEnd,
}

/// Starts the program that `spec` describes, and returns when it is running.
pub(crate) async fn spawn(
    spec: &StdioSpec,
    launcher: Option<&Launcher>,
    lines: &Arc<Lines>,
) -> Result<(Child, Pipes), String> {
    let (process, stdin, stdout, stderr): (_, _, _, Box<dyn AsyncRead + Send + Unpin>) =
        match launcher {
            Some(launcher) => {
                let (mut reaper, Streams { stdin, stdout, stderr }) = reaped(spec, launcher)?;
                reaper.started().await?;
                (Process::Reaped(reaper), stdin, stdout, Box::new(stderr))
            }
            None => {
                let (group, mut process) = direct(spec)?;
                let stdin = process.stdin.take().ok_or(NO_PIPES)?;
                let stdout = process.stdout.take().ok_or(NO_PIPES)?;
                let stderr = process.stderr.take().ok_or(NO_PIPES)?;
                (Process::Direct { group, process }, stdin, stdout, Box::new(stderr))
            }
        };
    let secrets = spec.env.values().map(|SecretValue(secret)| secret.clone()).collect();
    let (reader, probe_end) = stderr::Reader::new(Arc::clone(lines), secrets);
    let stderr_read = CancellationToken::new();
    let read = stderr_read.clone().drop_guard();
    let _stderr = AbortOnDropHandle::new(tokio::spawn(async move {
        let _read = read;
        reader.run(stderr).await;
    }));
    Ok((Child { process, _stderr, stderr_read }, Pipes { stdin, stdout, probe_end }))
}

const NO_PIPES: &str = "the program was started without its pipes";

fn reaped(spec: &StdioSpec, launcher: &Launcher) -> Result<(Reaper, Streams), String> {
    let (program, arguments) = split(spec)?;
    let confinement = spec.sandbox.as_ref().map(confined::Orders::new);
    let reaped = Reaped {
        launcher,
        program: program.into(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: environment(spec),
        cwd: spec.cwd.as_deref(),
        has_scratch: confinement.is_some(),
        confinement,
    };
    reaped.start()
}

#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
fn direct(spec: &StdioSpec) -> Result<(Group, tokio::process::Child), String> {
    if spec.sandbox.is_some() {
        return Err("`sandbox` needs a launcher, and this program brings none".to_owned());
    }
    let (program, arguments) = split(spec)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment(spec)).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    if let Some(directory) = &spec.cwd {
        command.current_dir(directory);
    }
    let process = command.spawn().map_err(|error| cannot_start(&error))?;
    let group = Group(process.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    if let Some(child) = group.0 {
        files::inherit_limit(child);
    }
    Ok((group, process))
}

fn split(spec: &StdioSpec) -> Result<(&String, &[String]), String> {
    spec.command.split_first().ok_or_else(|| "the command is empty".to_owned())
}

#[expect(clippy::disallowed_methods, reason = "what a child inherits is read when it starts")]
fn environment(spec: &StdioSpec) -> Vec<(String, OsString)> {
    let inherited = INHERITED.into_iter();
    let inherited =
        inherited.filter_map(|name| std::env::var_os(name).map(|value| (name.to_owned(), value)));
    // Configured values come last, so that they win over inherited ones.
    let configured = spec.env.iter().map(|(name, value)| (name.clone(), value.0.expose().into()));
    inherited.chain(configured).collect()
}

fn cannot_start(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "cannot start the program: not found; check `command`, `cwd` and PATH".to_owned()
        }
        kind => format!("cannot start the program: {}", io_reason(kind)),
    }
}

// === impl Child ===

impl Child {
    /// Waits until the child has ended, and reaps it. What is left of it is killed.
    pub(crate) async fn exited(&mut self) -> String {
        match &mut self.process {
            Process::Reaped(reaper) => match reaper.ended().await {
                End::Exited(status) => describe(status),
                End::NotStarted(why) => why,
                End::Lost => LOST.to_owned(),
            },
            Process::Direct { group, process } => {
                let status = process.wait().await;
                group.kill();
                match status {
                    Ok(status) => describe(status),
                    Err(error) => format!("could not be waited for: {error}"),
                }
            }
        }
    }

    /// Ends the child, whose stdin the caller has closed: waits, sends SIGTERM to the group,
    /// waits, kills all that is left, and reaps the child.
    pub(crate) async fn close(&mut self) {
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        match &mut self.process {
            Process::Reaped(reaper) => reaper.terminate().await,
            Process::Direct { group, .. } => group.signal(Signal::TERM),
        }
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        self.kill().await;
    }

    /// Kills the child and all that it started, and reaps it.
    pub(crate) async fn kill(&mut self) {
        match &mut self.process {
            Process::Reaped(reaper) => reaper.kill(),
            Process::Direct { group, .. } => group.signal(Signal::KILL),
        }
        self.exited().await;
    }

    /// Waits until what the child, which has ended, wrote to stderr has been read. Can be called any
    /// number of times.
    pub(crate) async fn stderr_read(&self) {
        // An unfinished reader (a descendant that left the group holds the pipe) is no reason to
        // wait longer.
        if tokio::time::timeout(DRAIN, self.stderr_read.cancelled()).await.is_err() {
            tracing::debug!("stderr was still open after its process group was gone");
        }
    }
}

/// How a child ended whose reaper was killed.
pub(crate) const LOST: &str = "was lost: somebody ended the process that watched over it";

pub(crate) fn describe(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt as _;
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// A process group that has not been killed for good yet.
struct Group(Option<Pid>);

impl Group {
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0
            && let Err(error) = kill_process_group(group, signal)
            && error != rustix::io::Errno::SRCH
        {
            tracing::debug!(%error, "a process group could not be signalled");
        }
    }

    /// The last signal. Afterwards the number may come to belong to somebody else, so it is
    /// forgotten.
    fn kill(&mut self) {
        self.signal(Signal::KILL);
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
