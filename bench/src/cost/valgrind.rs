//! A server under Valgrind that answers a fixed number of requests.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use tokio::time::sleep;

use super::request::Request;
use crate::subject::Subject;

/// How long the server may take to end.
const END_LIMIT: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);
/// So that the caches of the server are filled.
const WARM_UP: u32 = 20;

/// A tool of Valgrind.
#[derive(Debug, Clone, Copy)]
pub(super) enum Valgrind {
    /// Counts the bytes and the blocks of allocations.
    Dhat,
    /// Counts instructions.
    Callgrind,
}

impl Valgrind {
    /// Runs `program`, and returns the counts until its end.
    pub(super) async fn run(
        self,
        program: &Path,
        request: Request,
        requests: u32,
        upstream: SocketAddr,
    ) -> Result<Vec<u64>> {
        let folder = tempfile::tempdir()?;
        let script = folder.path().join("program");
        fs::write(&script, self.script(program, folder.path()))?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
        let subject = Subject::start(&script, "strict", upstream, folder.path()).await?;
        let shot = request.shot(&subject).await?;
        shot.repeat(WARM_UP + requests).await?;
        let report = folder.path().join(format!("report.{}", subject.server.id()));
        subject.server.signal("TERM");
        let deadline = Instant::now() + END_LIMIT;
        loop {
            let text = fs::read_to_string(&report).unwrap_or_default();
            if let Some(counts) = self.counts(&text) {
                return Ok(counts);
            }
            if Instant::now() > deadline {
                bail!("no result of Valgrind: {text}");
            }
            sleep(POLL).await;
        }
    }

    /// A program that runs `program` under this tool.
    fn script(self, program: &Path, folder: &Path) -> String {
        let tool = match self {
            Self::Dhat => "--tool=dhat --dhat-out-file=/dev/null",
            Self::Callgrind => "--tool=callgrind --callgrind-out-file=/dev/null",
        };
        let (program, report) = (program.display(), folder.join("report.%p"));
        let report = report.display();
        format!("#!/bin/sh\nexec valgrind {tool} '--log-file={report}' '{program}' \"$@\"\n")
    }

    /// The counts in a report: bytes and blocks, or instructions. `None` before the end.
    fn counts(self, report: &str) -> Option<Vec<u64>> {
        let marker = match self {
            Self::Dhat => "Total:",
            Self::Callgrind => "Collected :",
        };
        let (_, rest) = report.split_once(marker)?;
        let (line, _) = rest.split_once('\n')?;
        let words = line.split_whitespace();
        Some(words.filter_map(|word| word.replace(',', "").parse().ok()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_once_they_are_whole() {
        let heap = "==7== Total:     1,234,567 bytes in 8,901 blocks\n==7== At t-gmax: 5 bytes\n";
        assert_eq!(Valgrind::Dhat.counts(heap), Some(vec![1_234_567, 8_901]));
        assert_eq!(Valgrind::Dhat.counts("==7== Total:     1,23"), None);
        let code = "==7== Events    : Ir\n==7== Collected : 987654\n";
        assert_eq!(Valgrind::Callgrind.counts(code), Some(vec![987_654]));
        assert_eq!(Valgrind::Callgrind.counts(heap), None);
    }
}
