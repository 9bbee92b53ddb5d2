//! Runs of this program itself, for a command that shows what other commands do.
//!
//! They are children like any other: a reaper supervises each one, so that it exits with this
//! process, even if this process is killed.

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, BufReader},
    process::{ChildStdin, ChildStdout},
};
use tokio_util::task::AbortOnDropHandle;

use super::{
    exit::Exit,
    launch::{Launcher, environment},
    reaper::{ChildSpec, Reaper, Streams},
};

/// Variables that a run inherits. The options of this program, such as `TOOLCRIB_URL`, are not
/// among them: only the arguments count.
const INHERITED: [&str; 5] = ["PATH", "HOME", "LANG", "TMPDIR", "USER"];

/// Time limit of a run that exits by itself.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// Time limit for the start of a server, and for its shutdown.
const SERVER_LIMIT: Duration = Duration::from_secs(30);
/// Largest output of a run, in bytes.
const MAX_OUTPUT: u64 = 4 << 20;
/// How much of the last output of a server is kept for an error message, in bytes.
const MAX_KEPT: usize = 4 << 10;

/// This program, to be run with other arguments.
#[derive(Debug, Clone)]
pub struct OwnProgram {
    /// Starts this program.
    pub launcher: Launcher,
    /// The working directory of the runs.
    pub directory: PathBuf,
    /// Further variables of the runs.
    pub environment: Vec<(String, String)>,
}

/// The result of a run.
#[derive(Debug, Clone)]
pub struct OwnRun {
    /// The exit code.
    pub code: i32,
    /// The output.
    pub stdout: String,
    /// The messages.
    pub stderr: String,
}

/// A run that continues until it is stopped. Dropping it kills the run with its descendants.
pub struct OwnServer {
    reaper: Reaper,
    _stdin: ChildStdin,
    _stdout: AbortOnDropHandle<()>,
    _stderr: AbortOnDropHandle<()>,
    last: Arc<Mutex<String>>,
}

impl OwnProgram {
    async fn start(&self, arguments: &[&str]) -> Result<(Reaper, Streams), String> {
        let mut variables = environment(INHERITED, &BTreeMap::new());
        variables.extend(self.environment.iter().map(|(name, value)| (name.clone(), value.into())));
        let child = ChildSpec {
            launcher: &self.launcher,
            program: self.launcher.program.clone().into_os_string(),
            arguments: arguments.iter().map(OsString::from).collect(),
            environment: variables,
            cwd: Some(&self.directory),
            confinement: None,
        };
        let (mut reaper, streams) = child.start()?;
        reaper.started().await?;
        Ok((reaper, streams))
    }

    /// Runs this program with `arguments` until it exits.
    ///
    /// # Errors
    /// Fails when the run cannot be started, takes longer than a minute, or is killed.
    pub async fn run(&self, arguments: &[&str]) -> Result<OwnRun, String> {
        let run = async {
            let (mut reaper, Streams { stdin, stdout, stderr }) = self.start(arguments).await?;
            drop(stdin);
            let (stdout, stderr) = tokio::join!(text(stdout), text(stderr));
            match reaper.ended().await {
                Exit::Ended(status) if status.code().is_some() => {
                    Ok(OwnRun { code: status.code().unwrap_or_default(), stdout, stderr })
                }
                ended => Err(ended.to_string()),
            }
        };
        match tokio::time::timeout(RUN_LIMIT, run).await {
            Ok(result) => result,
            Err(_) => Err(format!("did not exit within {RUN_LIMIT:?}")),
        }
    }

    /// Starts this program with `arguments`, and waits until it prints a line that starts with
    /// `prefix`. Returns the rest of that line too.
    ///
    /// # Errors
    /// Fails when the program cannot be started, exits before it prints the line, or takes too
    /// long. The error contains its last messages.
    pub async fn serve(
        &self,
        arguments: &[&str],
        prefix: &str,
    ) -> Result<(OwnServer, String), String> {
        let (reaper, Streams { stdin, stdout, stderr }) = self.start(arguments).await?;
        let last = Arc::<Mutex<String>>::default();
        let stderr = AbortOnDropHandle::new(tokio::spawn(keep_last(stderr, Arc::clone(&last))));
        let mut stdout = BufReader::new(stdout);
        let found = tokio::time::timeout(SERVER_LIMIT, find(&mut stdout, prefix)).await;
        let _stdout = AbortOnDropHandle::new(tokio::spawn(async move {
            // Otherwise a full pipe would stop the server.
            tokio::io::copy(&mut stdout, &mut tokio::io::sink()).await.ok();
        }));
        let mut server = OwnServer { reaper, _stdin: stdin, _stdout, _stderr: stderr, last };
        match found {
            Ok(Some(rest)) => Ok((server, rest)),
            Ok(None) => {
                let ended = server.reaper.ended().await;
                Err(format!("{ended}: {}", server.last_messages()))
            }
            Err(_) => Err(format!("not ready in {SERVER_LIMIT:?}: {}", server.last_messages())),
        }
    }
}

impl OwnServer {
    /// The last messages of the server.
    pub fn last_messages(&self) -> String {
        self.last.lock().trim().to_owned()
    }

    /// Stops the server with SIGTERM, and kills it if it does not exit in time.
    pub async fn stop(mut self) {
        self.reaper.terminate().await;
        if tokio::time::timeout(SERVER_LIMIT, self.reaper.ended()).await.is_err() {
            self.reaper.kill();
            self.reaper.ended().await;
        }
    }
}

/// Reads all of `from`, up to [`MAX_OUTPUT`].
async fn text(from: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // After an error, the bytes so far are the output.
    from.take(MAX_OUTPUT).read_to_end(&mut bytes).await.ok();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the rest of the first line that starts with `prefix`; `None` at the end of the output.
async fn find(from: &mut BufReader<ChildStdout>, prefix: &str) -> Option<String> {
    loop {
        let mut line = Vec::new();
        if (&mut *from).take(MAX_OUTPUT).read_until(b'\n', &mut line).await.ok()? == 0 {
            return None;
        }
        let line = String::from_utf8_lossy(&line);
        if let Some(rest) = line.strip_prefix(prefix) {
            return Some(rest.trim().to_owned());
        }
    }
}

/// Keeps the last [`MAX_KEPT`] bytes of `from`.
async fn keep_last(mut from: impl AsyncRead + Unpin, last: Arc<Mutex<String>>) {
    let mut buffer = vec![0; MAX_KEPT];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let fresh = String::from_utf8_lossy(buffer.get(..read).unwrap_or_default()).into_owned();
        let mut last = last.lock();
        last.push_str(&fresh);
        let start = last.ceil_char_boundary(last.len().saturating_sub(MAX_KEPT));
        last.drain(..start);
    }
}
