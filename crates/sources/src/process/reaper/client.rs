//! The server's side of a reaper process.

use std::{
    ffi::OsString,
    io,
    os::{fd::OwnedFd, unix::process::ExitStatusExt as _},
    path::Path,
    process::{ExitStatus, Stdio},
};

use rustix::process::Pid;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream},
    net::{
        UnixStream,
        unix::{OwnedReadHalf, OwnedWriteHalf},
    },
    process::{ChildStdin, ChildStdout, Command},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

use super::{ENDED, FAILED, FRAME, Orders, STARTED, STDERR, TERMINATE};
use crate::{
    exec::Launcher,
    process::{Stage, cannot_start, confined, files},
};

/// A child to start through a reaper.
pub(crate) struct Reaped<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(String, OsString)>,
    /// `None` means an empty temporary directory with `has_scratch`, otherwise the server's own.
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) has_scratch: bool,
    pub(crate) confinement: Option<confined::Orders>,
}

/// A reaper and its child. Dropping it ends both, and all descendants of the child.
pub(crate) struct Reaper {
    process: tokio::process::Child,
    /// Dropping it ends the reaper, the child and all descendants.
    commands: Option<OwnedWriteHalf>,
    state: watch::Receiver<State>,
    _reader: AbortOnDropHandle<()>,
}

#[derive(Debug, Clone)]
enum State {
    Starting,
    Running,
    NotStarted(String),
    Ended(ExitStatus),
    /// The reaper is gone, and the state of its child is unknown.
    Lost,
}

/// How a child ended, or why it did not start.
pub(crate) enum End {
    Exited(ExitStatus),
    /// The program was never executed.
    NotStarted(String),
    Lost,
}

/// The streams of a child.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: DuplexStream,
}

impl Reaped<'_> {
    /// Starts the reaper, which starts the child.
    #[expect(clippy::disallowed_methods, reason = "the reaper is a part of `process`")]
    pub(crate) fn start(self) -> Result<(Reaper, Streams), String> {
        let program = self.launcher.program.clone().into_os_string();
        let launcher = [program].into_iter().chain(self.launcher.arguments.iter().cloned());
        let launcher: Result<Vec<_>, _> = launcher.map(OsString::into_string).collect();
        let orders = Orders {
            launcher: launcher.map_err(|_| "the path of the launcher is not UTF-8".to_owned())?,
            confinement: self.confinement,
            scratch: (self.cwd.is_none() && self.has_scratch).then(std::env::temp_dir),
        };
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.arguments).arg(Stage::Reap(orders).to_argument()?);
        command.arg(self.program).args(self.arguments).env_clear().envs(self.environment);
        if let Some(directory) = self.cwd {
            command.current_dir(directory);
        }
        let internal = |error: io::Error| format!("cannot start the program: {error}");
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().map_err(internal)?;
        ours.set_nonblocking(true).map_err(internal)?;
        let (read, commands) = UnixStream::from_std(ours).map_err(internal)?.into_split();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(OwnedFd::from(theirs));
        // A separate process group: signals from a terminal are for the server only.
        let mut process = command.process_group(0).spawn().map_err(|error| cannot_start(&error))?;
        if let Some(pid) = process.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            files::inherit_limit(pid);
        }
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err("the program was started without its pipes".to_owned());
        };
        let (stderr, said) = tokio::io::duplex(FRAME);
        let (sender, state) = watch::channel(State::Starting);
        let reader = async move {
            listen(read, said, &sender).await;
            sender.send_if_modified(|state| match state {
                State::Starting | State::Running => {
                    *state = State::Lost;
                    true
                }
                State::NotStarted(_) | State::Ended(_) | State::Lost => false,
            });
        };
        let reader = AbortOnDropHandle::new(tokio::spawn(reader));
        let reaper = Reaper { process, commands: Some(commands), state, _reader: reader };
        Ok((reaper, Streams { stdin, stdout, stderr }))
    }
}

/// Handles frames until the reaper ends.
async fn listen(mut read: OwnedReadHalf, mut said: DuplexStream, state: &watch::Sender<State>) {
    loop {
        let Ok(kind) = read.read_u8().await else { return };
        let Ok(length) = read.read_u32().await else { return };
        let Ok(length @ 0..=FRAME) = usize::try_from(length) else { return };
        let mut payload = vec![0; length];
        if read.read_exact(&mut payload).await.is_err() {
            return;
        }
        match kind {
            // The reader may have been dropped.
            STDERR => drop(said.write_all(&payload).await),
            STARTED => drop(state.send(State::Running)),
            FAILED => {
                let why = String::from_utf8_lossy(&payload).into_owned();
                drop(state.send(State::NotStarted(why)));
            }
            ENDED => {
                if let Ok(raw) = <[u8; 4]>::try_from(payload.as_slice()) {
                    let status = ExitStatus::from_raw(i32::from_be_bytes(raw));
                    drop(state.send(State::Ended(status)));
                }
            }
            _ => return,
        }
    }
}

impl Reaper {
    /// Waits until the child is running. Fails with the reason when it does not start.
    pub(crate) async fn started(&mut self) -> Result<(), String> {
        let known = |state: &State| !matches!(state, State::Starting);
        match self.state.wait_for(known).await.map(|state| state.clone()) {
            Ok(State::NotStarted(why)) => Err(why),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Waits until the child and all its descendants have ended, and the reaper is reaped.
    /// Cancel-safe.
    pub(crate) async fn ended(&mut self) -> End {
        let known = |state: &State| !matches!(state, State::Starting | State::Running);
        let state = self.state.wait_for(known).await.map(|state| state.clone());
        // The reaper has nothing left to do, so a failed wait is harmless.
        self.process.wait().await.ok();
        match state {
            Ok(State::Ended(status)) => End::Exited(status),
            Ok(State::NotStarted(why)) => End::NotStarted(why),
            Ok(State::Starting | State::Running | State::Lost) | Err(_) => End::Lost,
        }
    }

    /// Sends SIGTERM to the child's process group.
    pub(crate) async fn terminate(&mut self) {
        if let Some(commands) = &mut self.commands {
            // The write fails only when the reaper has ended.
            commands.write_all(&[TERMINATE]).await.ok();
        }
    }

    /// Kills the child and all its descendants; [`Self::ended`] waits for their end.
    pub(crate) fn kill(&mut self) {
        self.commands = None;
    }
}
