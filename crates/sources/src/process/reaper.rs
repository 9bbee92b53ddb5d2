//! The reaper: a second instance of this program between the server and a child. It adopts all
//! descendants of the child, in any session or process group, and kills them.
//!
//! Its standard error is a socket to the server. The server writes commands to it, and closing it
//! (or dying) is the last command. The reaper writes frames: the child's standard error output, and
//! its exit status.
//!
//! Invariant: the reaper exits after all its descendants (on Linux; elsewhere after the child's
//! process group), and with the server.
//!
//! Invariant: the reaper signals only its own children, and no other process reaps those. A process
//! id it uses therefore cannot refer to another process.

mod client;
mod frame;

use std::{
    ffi::OsString,
    fs::DirBuilder,
    io::{self, PipeReader},
    os::{
        fd::{AsFd as _, AsRawFd as _, OwnedFd},
        unix::fs::DirBuilderExt as _,
    },
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::Duration,
};

use rustix::{
    io::{Errno, FdFlags, fcntl_setfd},
    process::{
        Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process_group, waitid, waitpid,
    },
};
use tokio::{
    io::AsyncReadExt as _,
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf, pipe},
    },
    process::ChildStderr,
    signal::unix::{Signal as Signals, SignalKind, signal},
    time::Instant,
};

use self::frame::{ENDED, FAILED, FRAME, STARTED, STDERR, TERMINATE, send};
use super::{
    confinement::READY,
    launch::{DRAIN, NO_PIPES, ReaperRules, Role, cannot_start},
};

pub(crate) use client::{ChildSpec, Reaper, Streams};

/// How long descendants may resist SIGKILL before the exit is reported anyway. A process that waits
/// for a device or a network file system resists.
const PATIENCE: Duration = Duration::from_secs(10);

/// Interval at which remaining descendants are searched for, in the absence of signals.
const LOOK: Duration = Duration::from_millis(20);

/// Starts `program`, waits for it, and kills its remaining descendants.
pub(super) fn run(
    rules: ReaperRules,
    program: OsString,
    arguments: impl Iterator<Item = OsString>,
) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let reaped =
        runtime.and_then(|runtime| runtime.block_on(reap(rules, program, arguments.collect())));
    // After a failure, the server notices that the socket closes without an `ENDED` frame.
    if reaped.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn reap(rules: ReaperRules, program: OsString, arguments: Vec<OsString>) -> io::Result<()> {
    let (mut commands, mut frames) = socket()?;
    // Signals to all processes of a service, or of a terminal, are meant for the server, which
    // decides.
    for kind in [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()] {
        drop(signal(kind)?);
    }
    let mut deaths = signal(SignalKind::child())?;
    adopt()?;
    let scratch = rules.scratch.as_deref().map(Scratch::create).transpose();
    let started = scratch
        .map_err(|error| format!("no working directory: {error}"))
        .and_then(|scratch| Ok((start(&rules, scratch.as_ref(), &program, &arguments)?, scratch)));
    let ((mut child, mut stderr, report), scratch) = match started {
        Ok(started) => started,
        Err(problem) => return send(&mut frames, FAILED, problem.as_bytes()).await,
    };
    give_up_streams()?;
    let mut buffer = vec![0; FRAME];
    let mut stderr_open = true;
    let mut starting = Box::pin(outcome_of_start(report));
    let mut problem = None;
    let mut is_starting = true;
    while is_starting || child.status.is_none() {
        tokio::select! {
            outcome = &mut starting, if is_starting => {
                is_starting = false;
                match outcome {
                    Ok(()) => send(&mut frames, STARTED, &[]).await?,
                    Err(why) => { problem = Some(why); break; }
                }
            }
            _ = deaths.recv() => child.look()?,
            read = stderr.read(&mut buffer), if stderr_open => {
                stderr_open = forward(&mut frames, &buffer, read).await;
            }
            command = commands.read_u8() => match command {
                Ok(TERMINATE) => child.signal_group(Signal::TERM),
                Ok(_) | Err(_) => break,
            }
        }
    }
    child.end_all(&mut deaths).await?;
    // Output still in the pipe. All writers have exited, unless they resist SIGKILL.
    let rest = async {
        while stderr_open {
            let read = stderr.read(&mut buffer).await;
            stderr_open = forward(&mut frames, &buffer, read).await;
        }
    };
    tokio::time::timeout(DRAIN, rest).await.ok();
    drop(scratch);
    match (problem, child.status) {
        (Some(problem), _) => send(&mut frames, FAILED, problem.as_bytes()).await,
        (None, Some(status)) => send(&mut frames, ENDED, &status.to_be_bytes()).await,
        (None, None) => Ok(()),
    }
}

/// The socket to the server.
fn socket() -> io::Result<(OwnedReadHalf, OwnedWriteHalf)> {
    let socket = io::stderr().as_fd().try_clone_to_owned()?;
    let socket = std::os::unix::net::UnixStream::from(socket);
    socket.set_nonblocking(true)?;
    Ok(UnixStream::from_std(socket)?.into_split())
}

/// Closes the child's streams here, so that only the child and its descendants hold them open.
fn give_up_streams() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&null)?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok(())
}

/// Makes this process the parent of descendants whose parents have exited.
#[cfg(target_os = "linux")]
fn adopt() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?)
}

/// Does nothing: only Linux supports this. Elsewhere a descendant that leaves the process group
/// cannot be reached.
#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the Linux version can fail")]
fn adopt() -> io::Result<()> {
    Ok(())
}

type Start = (Child, ChildStderr, Option<PipeReader>);

/// Starts the program directly, or its launcher, which reports over the pipe.
#[expect(clippy::disallowed_methods, reason = "the reaper is a part of `process`")]
fn start(
    rules: &ReaperRules,
    scratch: Option<&Scratch>,
    program: &OsString,
    arguments: &[OsString],
) -> Result<Start, String> {
    use std::os::unix::process::CommandExt as _;
    let internal = |error: io::Error| error.to_string();
    let mut report = None;
    let mut command = match &rules.confinement {
        None => Command::new(program),
        Some(confinement) => {
            let (reader, writer) = io::pipe().map_err(internal)?;
            // Only this process starts programs here, one at a time, so no other child inherits it.
            fcntl_setfd(&writer, FdFlags::empty()).map_err(|error| internal(error.into()))?;
            let mut inner = confinement.clone();
            inner.report = writer.as_raw_fd();
            inner.confinement.read.extend(scratch.map(|directory| directory.0.clone()));
            let Some((launcher, first)) = rules.launcher.split_first() else {
                return Err("there is no launcher".to_owned());
            };
            let mut command = Command::new(launcher);
            command.args(first).arg(Role::Confine(inner).to_argument()?).arg(program);
            command.envs(rules.environment.iter().cloned());
            report = Some((reader, writer));
            command
        }
    };
    if let Some(scratch) = scratch {
        command.current_dir(&scratch.0);
    }
    command.args(arguments).stderr(Stdio::piped());
    if rules.confinement.is_none() {
        command.process_group(0);
    }
    let mut process = command.spawn().map_err(|error| cannot_start(&error))?;
    let Some(stderr) = process.stderr.take() else {
        return Err(NO_PIPES.to_owned());
    };
    let stderr = ChildStderr::from_std(stderr).map_err(internal)?;
    let pid = Pid::from_child(&process);
    Ok((Child { pid, status: None }, stderr, report.map(|(reader, _)| reader)))
}

/// Waits until exec has closed the report pipe. Fails with the launcher's message.
async fn outcome_of_start(report: Option<PipeReader>) -> Result<(), String> {
    let Some(report) = report else { return Ok(()) };
    let mut said = Vec::new();
    let mut report =
        pipe::Receiver::from_owned_fd(OwnedFd::from(report)).map_err(|error| error.to_string())?;
    report.read_to_end(&mut said).await.map_err(|error| error.to_string())?;
    match said.strip_prefix(&[READY]) {
        Some([]) => Ok(()),
        None if said.is_empty() => {
            Err("the launcher exited before it started the program".to_owned())
        }
        rest => Err(String::from_utf8_lossy(rest.unwrap_or(&said)).into_owned()),
    }
}

/// Forwards one read as a frame; false at the end of the stream.
async fn forward(frames: &mut OwnedWriteHalf, buffer: &[u8], read: io::Result<usize>) -> bool {
    match read.map(|read| buffer.get(..read)) {
        Ok(Some([]) | None) | Err(_) => false,
        // A closed server connection is detected when the socket is read.
        Ok(Some(bytes)) => send(frames, STDERR, bytes).await.is_ok(),
    }
}

/// The child, which leads its own process group, and in a sandbox its own session.
struct Child {
    pid: Pid,
    status: Option<i32>,
}

impl Child {
    /// Reaps processes that have exited.
    fn look(&mut self) -> io::Result<()> {
        if self.status.is_none() && has_ended(WaitId::Pid(self.pid))? == Some(true) {
            // Until the child is reaped, its group id cannot be reused.
            self.signal_group(Signal::KILL);
            if let Some((_, status)) = waitpid(Some(self.pid), WaitOptions::NOHANG)? {
                self.status = Some(status.as_raw());
            }
        }
        self.reap_adopted()
    }

    #[cfg(target_os = "linux")]
    fn reap_adopted(&mut self) -> io::Result<()> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                // It exited just now; its group is killed with the other children.
                Ok(Some((pid, status))) if pid == self.pid => self.status = Some(status.as_raw()),
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) | Err(Errno::CHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Does nothing: there are no adopted children.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "the Linux version can fail")]
    fn reap_adopted(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// Signals the child's process group, unless the child has been reaped.
    fn signal_group(&self, signal: Signal) {
        if self.status.is_none() {
            // This fails if the group has already exited; the error is ignored.
            kill_process_group(self.pid, signal).ok();
        }
    }

    /// Kills the child and all its descendants, and reaps them.
    async fn end_all(&mut self, deaths: &mut Signals) -> io::Result<()> {
        let until = Instant::now() + PATIENCE;
        self.signal_group(Signal::KILL);
        loop {
            self.look()?;
            if has_ended(WaitId::All)?.is_none() || Instant::now() >= until {
                return Ok(());
            }
            // Orphans of the killed processes become children of this process in the next round.
            kill_children();
            tokio::select! {
                _ = deaths.recv() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        }
    }
}

/// Whether a child has exited and waits to be reaped; `None` when the child does not exist.
fn has_ended(which: WaitId<'_>) -> io::Result<Option<bool>> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    match waitid(which, options) {
        Ok(ended) => Ok(Some(ended.is_some())),
        Err(Errno::INTR) => Ok(Some(false)),
        Err(Errno::CHILD) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Sends SIGKILL to every child of this process.
#[cfg(target_os = "linux")]
fn kill_children() {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        // Format: number (name) state parent …; the name may contain any character.
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent.and_then(|text| text.parse::<i32>().ok()) == Some(own)
            && let Some(pid) = Pid::from_raw(pid)
        {
            // A process that cannot be killed yet is found again in the next round.
            rustix::process::kill_process(pid, Signal::KILL).ok();
        }
    }
}

/// Does nothing: the child's group was killed, and there are no other children.
#[cfg(not(target_os = "linux"))]
fn kill_children() {}

/// An empty directory, removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn create(within: &Path) -> io::Result<Self> {
        let number = getrandom::u64().map_err(io::Error::other)?;
        let path = within.join(format!("toolcrib-{number:016x}"));
        // The name is random, so an existing directory belongs to another process.
        DirBuilder::new().mode(0o700).create(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The directory may contain files only if the program was not confined.
        std::fs::remove_dir_all(&self.0).ok();
    }
}
