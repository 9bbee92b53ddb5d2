//! Child processes. The only module that starts a program.
//!
//! A child is started by a [`reaper`], a second instance of this program that kills the child and
//! all its descendants. A program that embeds the sources may lack a [`Launcher`]; then the child
//! is started directly, and only its process group is killed with it.
//!
//! Invariant: a child leads its own process group. When its [`Child`] is closed or dropped, the
//! child and that group receive SIGKILL, so that a descendant that ignores SIGTERM does not outlive
//! it.
//!
//! Invariant: a child gets only the environment that its description allows.

use std::{
    ffi::OsString,
    process::{ExitCode, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::AsyncRead,
    process::{ChildStdin, ChildStdout, Command},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use toolcrib_core::source::{SecretValue, StdioSpec};

use self::{
    exit::Exit,
    launch::{DRAIN, Launcher, NO_PIPES, Role, cannot_start, environment},
    reaper::{ChildSpec, Reaper, Streams},
    stderr::{Lines, ProbeEnd},
};

mod confinement;
pub(crate) mod exit;
pub(crate) mod file_limit;
pub(crate) mod helper;
#[cfg(target_os = "linux")]
mod isolation;
#[cfg(target_os = "linux")]
mod landlock;
pub(crate) mod launch;
#[cfg(target_os = "linux")]
mod mount_table;
#[cfg(target_os = "linux")]
mod mounts;
pub(crate) mod own;
#[cfg(target_os = "linux")]
mod places;
#[cfg(target_os = "linux")]
mod privileges;
pub(crate) mod program;
pub(crate) mod reaper;
pub(crate) mod stderr;
pub(crate) mod support;
#[cfg(target_os = "linux")]
mod syscalls;

/// Entry point of the program that a [`Launcher`] names, with the arguments
/// `ROLE PROGRAM [ARGUMENT]…`. Call it before the program starts a thread or opens a file.
pub fn run_child(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let role = arguments.next().and_then(|text| text.into_string().ok());
    let role = role.and_then(|text| serde_json::from_str(&text).ok());
    match (role, arguments.next()) {
        (Some(Role::Reap(rules)), Some(program)) => reaper::run(rules, program, arguments),
        (Some(Role::Confine(rules)), Some(program)) => {
            confinement::run(&rules, &program, &mut arguments)
        }
        (Some(Role::Probe), Some(_)) => confinement::probe(),
        // Invalid arguments: toolcrib itself always passes valid ones.
        (None, _) | (_, None) => ExitCode::FAILURE,
    }
}

/// Variables that a child inherits from our own environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// The error of a description without a program.
const EMPTY: &str = "the command is empty";

/// How long a child may take to exit after its input closed, and again after SIGTERM. Well-behaved
/// servers exit within half a second of the former.
const GRACE: Duration = Duration::from_secs(2);

/// A running child with all its descendants.
pub(crate) struct Child {
    process: Process,
    _stderr: AbortOnDropHandle<()>,
    /// Cancelled when everything on stderr has been read.
    stderr_read: CancellationToken,
}

/// How a child is supervised.
enum Process {
    Supervised(Reaper),
    /// The child of a server without a launcher.
    Direct {
        // Declared before `process`: the group is killed before its leader can be reaped.
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

/// Starts the program of `spec`, and returns when it is running.
pub(crate) async fn spawn(
    spec: &StdioSpec,
    launcher: Option<&Launcher>,
    lines: &Arc<Lines>,
) -> Result<(Child, Pipes), String> {
    let (process, stdin, stdout, stderr): (_, _, _, Box<dyn AsyncRead + Send + Unpin>) =
        match launcher {
            Some(launcher) => {
                let (mut reaper, Streams { stdin, stdout, stderr }) =
                    supervised(spec, launcher).await?;
                reaper.started().await?;
                (Process::Supervised(reaper), stdin, stdout, Box::new(stderr))
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

async fn supervised(spec: &StdioSpec, launcher: &Launcher) -> Result<(Reaper, Streams), String> {
    let (program, arguments) = spec.command.split_first().ok_or(EMPTY)?;
    let confinement = match &spec.sandbox {
        Some(sandbox) => Some(support::rules(sandbox, None, launcher).await?),
        None => None,
    };
    let child = ChildSpec {
        launcher,
        program: program.into(),
        arguments: arguments.iter().map(OsString::from).collect(),
        environment: environment(INHERITED, &spec.env),
        cwd: spec.cwd.as_deref(),
        confinement,
    };
    child.start()
}

#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
fn direct(spec: &StdioSpec) -> Result<(Group, tokio::process::Child), String> {
    if spec.sandbox.is_some() {
        return Err(
            "`sandbox` requires a launcher, and this program does not provide one".to_owned()
        );
    }
    let (program, arguments) = spec.command.split_first().ok_or(EMPTY)?;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment(INHERITED, &spec.env)).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    if let Some(directory) = &spec.cwd {
        command.current_dir(directory);
    }
    let process = command.spawn().map_err(|error| cannot_start(&error))?;
    let group = Group(process.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    if let Some(child) = group.0 {
        file_limit::inherit_limit(child);
    }
    Ok((group, process))
}

// === impl Child ===

impl Child {
    /// Waits until the child has exited, reaps it, and kills its remaining descendants. Describes
    /// the exit.
    pub(crate) async fn exited(&mut self) -> String {
        match &mut self.process {
            Process::Supervised(reaper) => reaper.ended().await.to_string(),
            Process::Direct { group, process } => {
                let status = process.wait().await;
                group.kill();
                match status {
                    Ok(status) => Exit::Ended(status).to_string(),
                    Err(error) => format!("could not be waited for: {error}"),
                }
            }
        }
    }

    /// Shuts down the child after the caller has closed its stdin: waits, sends SIGTERM to the
    /// group, waits, kills the remaining processes, and reaps the child.
    pub(crate) async fn close(&mut self) {
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        match &mut self.process {
            Process::Supervised(reaper) => reaper.terminate().await,
            Process::Direct { group, .. } => group.signal(Signal::TERM),
        }
        if tokio::time::timeout(GRACE, self.exited()).await.is_ok() {
            return;
        }
        self.kill().await;
    }

    /// Kills the child and its descendants, and reaps it.
    pub(crate) async fn kill(&mut self) {
        match &mut self.process {
            Process::Supervised(reaper) => reaper.kill(),
            Process::Direct { group, .. } => group.signal(Signal::KILL),
        }
        self.exited().await;
    }

    /// Waits until the remaining stderr output of an exited child has been read. Can be called
    /// repeatedly.
    pub(crate) async fn stderr_read(&self) {
        // A reader that never finishes (a descendant outside the group holds the pipe) must not
        // delay this any longer.
        if tokio::time::timeout(DRAIN, self.stderr_read.cancelled()).await.is_err() {
            tracing::debug!("stderr was still open after its process group was gone");
        }
    }
}

/// A process group before SIGKILL.
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

    /// Sends SIGKILL. The group id may be reused afterwards, so it is dropped.
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
