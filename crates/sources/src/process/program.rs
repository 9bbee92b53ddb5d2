//! Runs a program once, with input and output, and leaves no processes or files behind.

use std::{ffi::OsString, path::Path, process::ExitStatus};

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
};
use toolcrib_core::call::{UpstreamError, UpstreamErrorKind};

use super::{
    DRAIN, LOST, confined,
    reaper::{End, Reaped, Streams},
};
use crate::exec::Launcher;

/// Bytes kept from the end of stderr.
const STDERR: usize = 8 << 10;

/// A program, its arguments and its environment.
pub(crate) struct Program<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) program: &'a Path,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) environment: Vec<(String, OsString)>,
    /// `None` runs it in an empty temporary directory.
    pub(crate) cwd: Option<&'a Path>,
    pub(crate) confinement: confined::Orders,
    pub(crate) input: Vec<u8>,
    /// Largest output in bytes; more output ends the program.
    pub(crate) max_output: usize,
}

/// The result of a program that has exited.
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: Vec<u8>,
    /// The last bytes of stderr.
    pub(crate) stderr: Vec<u8>,
}

/// Runs `program` until it and all its descendants have ended. Dropping the future kills all of
/// them.
pub(crate) async fn run(program: Program<'_>) -> Result<Ended, UpstreamError> {
    let Program { launcher, program, arguments, environment, cwd, confinement, input, max_output } =
        program;
    let reaped = Reaped {
        launcher,
        program: program.into(),
        arguments,
        environment,
        cwd,
        has_scratch: true,
        confinement: Some(confinement),
    };
    let unavailable = |why: String| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
    let (mut reaper, Streams { stdin, stdout, stderr }) = reaped.start().map_err(unavailable)?;
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
            end = reaper.ended() => break match end {
                End::Exited(status) => status,
                End::NotStarted(why) => return Err(unavailable(why)),
                End::Lost => return Err(died(LOST)),
            },
            ended = &mut pipes, if read.is_none() => {
                ended?;
                read = Some(());
            }
        }
    };
    // A process that could not be killed may hold the pipes open.
    if read.is_none()
        && let Ok(ended) = tokio::time::timeout(DRAIN, &mut pipes).await
    {
        ended?;
    }
    drop(pipes);
    Ok(Ended { status, stdout: output, stderr: complaint })
}

/// Writes the input. A write error is ignored, because a program need not read its input.
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

/// Keeps the last bytes of the stream.
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
