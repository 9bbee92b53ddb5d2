//! Runs a program once, with input and output, and leaves no processes or files behind.

use std::process::Output;

use tokio::{
    io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _},
    process::ChildStdin,
};
use toolcrib_core::call::UpstreamError;

use super::{
    exit::Exit,
    launch::DRAIN,
    reaper::{ChildSpec, Streams},
};
use crate::error::{died, too_large, unavailable};

/// Bytes kept from the end of stderr.
const STDERR: usize = 8 << 10;

/// Runs `program` with `input` until it and all its descendants have exited. Dropping the future
/// kills all of them. The program is killed after more than `max_output` bytes of output; of
/// stderr, the last bytes are kept.
pub(crate) async fn run(
    program: ChildSpec<'_>,
    input: Vec<u8>,
    max_output: usize,
) -> Result<Output, UpstreamError> {
    let (mut reaper, Streams { stdin, stdout: output, stderr: errors }) =
        program.start().map_err(unavailable)?;
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    let mut pipes = Box::pin(async {
        let (_, output, ()) = tokio::join!(
            feed(stdin, input),
            collect(output, max_output, &mut stdout),
            tail(errors, &mut stderr)
        );
        output
    });
    let mut is_read = false;
    let status = loop {
        tokio::select! {
            exit = reaper.ended() => break match exit {
                Exit::Ended(status) => status,
                Exit::NotStarted(why) => return Err(unavailable(why)),
                Exit::Lost => return Err(died(Exit::Lost.to_string())),
            },
            output = &mut pipes, if !is_read => {
                output?;
                is_read = true;
            }
        }
    };
    // A process that could not be killed may hold the pipes open.
    if !is_read && let Ok(output) = tokio::time::timeout(DRAIN, &mut pipes).await {
        output?;
    }
    drop(pipes);
    Ok(Output { status, stdout, stderr })
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
    pipe.take(limit).read_to_end(into).await.map_err(|error| died(error.to_string()))?;
    match into.len() > max {
        true => Err(too_large(format!(
            "it has more than {max} bytes, the smaller of the command's `max_output` and \
             `[gate] max_result`"
        ))),
        false => Ok(()),
    }
}

/// Keeps the last bytes of the stream.
async fn tail(mut pipe: impl AsyncRead + Unpin, into: &mut Vec<u8>) {
    let mut buffer = vec![0; STDERR];
    while let Ok(read @ 1..) = pipe.read(&mut buffer).await {
        into.extend(buffer.iter().take(read));
        into.drain(..into.len().saturating_sub(STDERR));
    }
}
