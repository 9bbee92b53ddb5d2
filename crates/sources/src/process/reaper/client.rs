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

use super::frame::{ENDED, FAILED, FRAME, STARTED, STDERR, TERMINATE};
use crate::process::{
    exit::Exit,
    file_limit,
    launch::{ConfinementRules, Launcher, NO_PIPES, ReaperRules, Role, cannot_start},
};

/// A child to start through a reaper.
pub(crate) struct ChildSpec<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) program: OsString,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(String, OsString)>,
    /// `None` means an empty temporary directory for a confined child, otherwise the server's own.
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) confinement: Option<ConfinementRules>,
}

/// A reaper and its child. Dropping it kills both, and all descendants of the child.
pub(crate) struct Reaper {
    process: tokio::process::Child,
    /// Dropping it stops the reaper, which kills the child and all descendants.
    commands: Option<OwnedWriteHalf>,
    state: watch::Receiver<State>,
    _reader: AbortOnDropHandle<()>,
}

enum State {
    Starting,
    Running,
    Ended(Exit),
}

/// The streams of a child.
pub(crate) struct Streams {
    pub(crate) stdin: ChildStdin,
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: DuplexStream,
}

impl ChildSpec<'_> {
    /// Starts the reaper, which starts the child.
    #[expect(clippy::disallowed_methods, reason = "the reaper is a part of `process`")]
    pub(crate) fn start(self) -> Result<(Reaper, Streams), String> {
        let program = self.launcher.program.clone().into_os_string();
        let launcher = [program].into_iter().chain(self.launcher.arguments.iter().cloned());
        let launcher: Result<Vec<_>, _> = launcher.map(OsString::into_string).collect();
        let rules = ReaperRules {
            launcher: launcher.map_err(|_| "the path of the launcher is not UTF-8".to_owned())?,
            environment: self.launcher.environment.clone(),
            scratch: (self.cwd.is_none() && self.confinement.is_some()).then(std::env::temp_dir),
            confinement: self.confinement,
        };
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.arguments).arg(Role::Reap(rules).to_argument()?);
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
            file_limit::inherit_limit(pid);
        }
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(NO_PIPES.to_owned());
        };
        let (stderr, said) = tokio::io::duplex(FRAME);
        let (sender, state) = watch::channel(State::Starting);
        let reader = async move {
            listen(read, said, &sender).await;
            // Keeps the exit, if it is known.
            sender.send_if_modified(|state| {
                let is_lost = !matches!(state, State::Ended(_));
                if is_lost {
                    *state = State::Ended(Exit::Lost);
                }
                is_lost
            });
        };
        let reader = AbortOnDropHandle::new(tokio::spawn(reader));
        let reaper = Reaper { process, commands: Some(commands), state, _reader: reader };
        Ok((reaper, Streams { stdin, stdout, stderr }))
    }
}

/// Handles frames until the reaper exits.
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
                drop(state.send(State::Ended(Exit::NotStarted(why))));
            }
            ENDED => {
                if let Ok(raw) = <[u8; 4]>::try_from(payload.as_slice()) {
                    let status = ExitStatus::from_raw(i32::from_be_bytes(raw));
                    drop(state.send(State::Ended(Exit::Ended(status))));
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
        match self.state.wait_for(known).await.as_deref() {
            Ok(State::Ended(Exit::NotStarted(why))) => Err(why.clone()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Waits until the child and all its descendants have exited, and the reaper is reaped.
    /// Cancel-safe.
    pub(crate) async fn ended(&mut self) -> Exit {
        let exit =
            match self.state.wait_for(|state| matches!(state, State::Ended(_))).await.as_deref() {
                Ok(State::Ended(exit)) => exit.clone(),
                Ok(State::Starting | State::Running) | Err(_) => Exit::Lost,
            };
        // The reaper has finished its work, so a failed wait is harmless.
        self.process.wait().await.ok();
        exit
    }

    /// Sends SIGTERM to the child's process group.
    pub(crate) async fn terminate(&mut self) {
        if let Some(commands) = &mut self.commands {
            // The write fails only when the reaper has exited.
            commands.write_all(&[TERMINATE]).await.ok();
        }
    }

    /// Kills the child and all its descendants; [`Self::ended`] waits for their exit.
    pub(crate) fn kill(&mut self) {
        self.commands = None;
    }
}
