//! `strace -c` on a running server.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

use crate::process::{Server, signal};

const ATTACH_LIMIT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// A running `strace`.
pub(super) struct Traced {
    strace: Child,
    report: tempfile::TempPath,
}

impl Traced {
    /// Attaches to all threads of the server.
    pub(super) async fn begin(server: &Server) -> Result<Self> {
        let report = tempfile::NamedTempFile::new()?.into_temp_path();
        let strace = Command::new("strace")
            .args(["-c", "-f", "-q", "-p", &server.id().to_string(), "-o"])
            .arg(&report)
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("strace cannot be started")?;
        let mut traced = Self { strace, report };
        let deadline = Instant::now() + ATTACH_LIMIT;
        while !is_traced(server.id())? {
            if let Some(status) = traced.strace.try_wait()? {
                bail!("strace may not trace the server ({status})");
            }
            if Instant::now() > deadline {
                bail!("strace did not attach to the server");
            }
            sleep(POLL).await;
        }
        Ok(traced)
    }

    /// Detaches, and returns the number of system calls.
    pub(super) fn end(mut self) -> Result<u64> {
        signal("INT", &self.strace.id().to_string());
        self.strace.wait()?;
        total(&fs::read_to_string(&self.report)?)
    }
}

impl Drop for Traced {
    fn drop(&mut self) {
        // Without effect after `end`.
        if matches!(self.strace.try_wait(), Ok(None)) {
            signal("INT", &self.strace.id().to_string());
            self.strace.wait().ok();
        }
    }
}

/// Whether every thread of a process is traced.
fn is_traced(process: u32) -> Result<bool> {
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may have ended.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        if tracer.context("TracerPid")?.trim() == "0" {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The number of calls in the last line of a report; a report without calls is empty.
fn total(report: &str) -> Result<u64> {
    let Some(line) = report.lines().find(|line| line.ends_with(" total")) else { return Ok(0) };
    // The share, seconds, and microseconds of a call come first.
    let calls = line.split_whitespace().nth(3).context("a report of strace")?;
    Ok(calls.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calls_are_in_the_last_line() {
        let report = "% time     seconds  usecs/call     calls    errors syscall\n\
                      ------ ----------- ----------- --------- --------- ----------------\n \
                      60.00    0.000600           3       200           epoll_wait\n \
                      40.00    0.000400           4       100        20 futex\n\
                      ------ ----------- ----------- --------- --------- ----------------\n\
                      100.00    0.001000           3       300        20 total\n";
        assert_eq!(total(report).unwrap(), 300);
        assert_eq!(total("").unwrap(), 0);
    }
}
