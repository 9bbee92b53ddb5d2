//! Child processes. The only place that starts a program.
//!
//! Invariant: a child leads its own process group, and when its [`Child`] is closed or dropped the
//! whole group is sent SIGKILL, so that a descendant that ignores SIGTERM does not outlive it.
//! Invariant: a child's environment is what its description says, not ours.

use std::{
    io,
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{ChildStdin, ChildStdout, Command};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolcrib_core::source::{SecretValue, StdioSpec};

use self::stderr::{Lines, ProbeEnd};

pub(crate) mod confined;
pub(crate) mod files;
pub(crate) mod helper;
pub(crate) mod once;
pub(crate) mod stderr;

/// What a child may have of our own environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// How long a child may take to end after its input closed, and again after SIGTERM. Well-behaved
/// servers end within half a second of the former.
const GRACE: Duration = Duration::from_secs(2);

/// How long what is left in the stderr pipe may take to arrive after the group was killed.
const DRAIN: Duration = Duration::from_millis(200);

/// A running child and its process group.
pub(crate) struct Child {
    // Before `process`: the group is killed before its leader can be reaped.
    group: Group,
    process: tokio::process::Child,
    _stderr: AbortOnDropHandle<()>,
    /// Cancelled when everything on stderr has been read.
    stderr_read: CancellationToken,
}

/// The pipes to a child.
pub(crate) struct Pipes {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) probe_end: ProbeEnd,
}

/// Starts the program that `spec` describes.
#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
pub(crate) fn spawn(spec: &StdioSpec, lines: &Arc<Lines>) -> Result<(Child, Pipes), String> {
    let Some((program, arguments)) = spec.command.split_first() else {
        return Err("the command is empty".to_owned());
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment(spec)).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    if let Some(directory) = &spec.cwd {
        command.current_dir(directory);
    }
    let mut process = command.spawn().map_err(|error| cannot_start(&error))?;
    let group = Group(process.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    if let Some(child) = group.0 {
        files::inherit_limit(child);
    }
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err("the program was started without its pipes".to_owned());
    };
    let secrets = spec.env.values().map(|SecretValue(secret)| secret.clone()).collect();
    let (reader, probe_end) = stderr::Reader::new(Arc::clone(lines), secrets);
    let stderr_read = CancellationToken::new();
    let read = stderr_read.clone().drop_guard();
    let reading = AbortOnDropHandle::new(tokio::spawn(async move {
        let _read = read;
        reader.run(stderr).await;
    }));
    let child = Child { group, process, _stderr: reading, stderr_read };
    Ok((child, Pipes { stdin, stdout, probe_end }))
}

#[expect(clippy::disallowed_methods, reason = "what a child inherits is read when it starts")]
fn environment(spec: &StdioSpec) -> Vec<(&str, std::ffi::OsString)> {
    let inherited =
        INHERITED.into_iter().filter_map(|name| std::env::var_os(name).map(|value| (name, value)));
    // Configured values come last, so that they win over inherited ones.
    let configured = spec.env.iter().map(|(name, value)| (name.as_str(), value.0.expose().into()));
    inherited.chain(configured).collect()
}

fn cannot_start(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => {
            "cannot start the program: not found; check `command`, `cwd` and PATH".to_owned()
        }
        kind => format!("cannot start the program: {kind}"),
    }
}

// === impl Child ===

impl Child {
    /// Waits until the child has ended, and reaps it. What is left of its group is killed.
    pub(crate) async fn exited(&mut self) -> String {
        let status = self.process.wait().await;
        self.group.kill();
        match status {
            Ok(status) => describe(status),
            Err(error) => format!("could not be waited for: {error}"),
        }
    }

    /// Ends the child, whose stdin the caller has closed: waits, sends SIGTERM to the group,
    /// waits, sends SIGKILL to the group, and reaps the child.
    pub(crate) async fn close(&mut self) {
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        self.group.signal(Signal::TERM);
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        self.kill().await;
    }

    /// Kills the whole group and reaps the child.
    pub(crate) async fn kill(&mut self) {
        self.group.signal(Signal::KILL);
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
