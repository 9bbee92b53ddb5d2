//! A program that runs once: input in, output out, and nothing of it left behind.

use std::{
    ffi::OsString,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::Pid;
use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::{ChildStdin, Command},
};
use toolcrib_core::call::{UpstreamError, UpstreamErrorKind};

use super::{Group, cannot_start};

/// Bytes of what it says on stderr that are kept, from the end.
const STDERR: usize = 8 << 10;

/// How long what is left in the pipes may take to arrive after the group was killed.
const DRAIN: Duration = Duration::from_millis(200);

/// A program, its arguments and its surroundings.
pub(crate) struct Program<'a> {
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(String, OsString)>,
    pub(crate) cwd: &'a Path,
    pub(crate) input: Vec<u8>,
    /// Bytes of output; more ends the program.
    pub(crate) max_output: usize,
}

/// What came of it.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// The end of it.
    pub(crate) stderr: Vec<u8>,
}

/// Runs `program` to its end. Dropping the future kills it and everything that it has started.
#[expect(clippy::disallowed_methods, reason = "this is the module that the rule points to")]
pub(crate) async fn run(program: Program<'_>) -> Result<Ended, UpstreamError> {
    let Program { program, arguments, environment, cwd, input, max_output } = program;
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(environment).current_dir(cwd).process_group(0);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.kill_on_drop(true);
    let mut process = command.spawn().map_err(|error| {
        UpstreamError::new(UpstreamErrorKind::Unavailable, cannot_start(&error))
    })?;
    // Dropped before `process`: the group is killed before its leader can be reaped.
    let mut group = Group(process.id().and_then(|id| Pid::from_raw(id.cast_signed())));
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (process.stdin.take(), process.stdout.take(), process.stderr.take())
    else {
        return Err(died("the program was started without its pipes"));
    };
    let mut output = Vec::new();
    let mut complaint = Vec::new();
    let mut pipes = Box::pin(async {
        let (_, output, ()) = tokio::join!(
            feed(stdin, input),
            collect(stdout, max_output, &mut output),
            tail(stderr, &mut complaint)
        );
        output
    });
    let mut read = None;
    let status = loop {
        tokio::select! {
            status = process.wait() => break status.map_err(|error| died(&error.to_string()))?,
            ended = &mut pipes, if read.is_none() => {
                ended?;
                read = Some(());
            }
        }
    };
    // What it has left running may hold the pipes open.
    group.kill();
    if read.is_none()
        && let Ok(ended) = tokio::time::timeout(DRAIN, &mut pipes).await
    {
        ended?;
    }
    drop(pipes);
    Ok(Ended { status, stdout: output, stderr: complaint })
}

/// A program need not read its input.
async fn feed(mut pipe: ChildStdin, input: Vec<u8>) {
    if pipe.write_all(&input).await.is_ok() {
        pipe.shutdown().await.ok();
    }
}

async fn collect(
    pipe: impl AsyncRead + Unpin,
    max: usize,
    into: &mut Vec<u8>,
) -> Result<(), UpstreamError> {
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    pipe.take(limit).read_to_end(into).await.map_err(|error| died(&error.to_string()))?;
    if into.len() > max {
        let detail = format!("more than {max} bytes of output");
        return Err(UpstreamError::new(UpstreamErrorKind::TooLarge, detail));
    }
    Ok(())
}

/// Keeps the end of what is said.
async fn tail(mut pipe: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut buffer = vec![0; STDERR];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        into.extend(buffer.iter().take(read));
        into.drain(..into.len().saturating_sub(STDERR));
    }
}

fn died(detail: &str) -> UpstreamError {
    UpstreamError::new(UpstreamErrorKind::Died, detail)
}
