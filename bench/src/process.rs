//! Servers as separate processes, and their resource usage.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::time::sleep;

const START_LIMIT: Duration = Duration::from_secs(60);
const STOP_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
const ANNOUNCED: &str = "listening on http://";

/// A server that is stopped when this is dropped.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a program and waits until it prints `listening on http://ADDRESS`.
    pub(crate) async fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let file = File::create(&log)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let mut server = Self { child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some(address) = announced(&text) {
                server.address = address;
                return Ok(server);
            }
            if let Some(status) = server.child.try_wait()? {
                bail!("{name} ended at its start ({status}): {text}");
            }
            if Instant::now() > deadline {
                bail!("{name} is not ready after {} s: {text}", START_LIMIT.as_secs());
            }
            sleep(POLL).await;
        }
    }

    /// Returns the process id.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the processor time used so far by all threads.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        processor_time(&self.child.id().to_string())
    }

    /// Returns the memory that the end of the process would free, with shared pages counted by
    /// share, in KiB.
    pub(crate) fn memory(&self) -> Result<u64> {
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", self.child.id()))?;
        let line = rollup.lines().find_map(|line| line.strip_prefix("Pss:")).context("Pss")?;
        Ok(line.trim().trim_end_matches("kB").trim().parse()?)
    }

    /// Returns whether the server still runs.
    pub(crate) fn is_alive(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn signal(&self, signal: &str, target: &str) {
        let mut kill = Command::new("kill");
        kill.args(["-s", signal, "--", target]).stdin(Stdio::null()).stderr(Stdio::null());
        // A process that has ended already is the intended result.
        kill.status().ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_alive() {
            return;
        }
        let id = self.child.id().to_string();
        self.signal("TERM", &id);
        let deadline = Instant::now() + STOP_LIMIT;
        while self.is_alive() {
            if Instant::now() > deadline {
                self.signal("KILL", &format!("-{id}"));
                self.child.wait().ok();
                return;
            }
            std::thread::sleep(POLL);
        }
    }
}

fn announced(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once(ANNOUNCED)?;
    // An unfinished line may contain half an address.
    let (address, _) = rest.split_once('\n')?;
    address.trim().trim_end_matches('/').parse().ok()
}

/// Returns the processor time that this process has used so far.
pub(crate) fn own_processor_time() -> Result<Duration> {
    processor_time("self")
}

fn processor_time(process: &str) -> Result<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the name in parentheses and may hold spaces.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    let ticks: u64 = fields.split_whitespace().skip(11).take(2).flat_map(str::parse::<u64>).sum();
    Ok(Duration::from_secs(ticks) / ticks_per_second())
}

fn ticks_per_second() -> u32 {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.trim().parse().ok()).filter(|ticks| *ticks > 0).unwrap_or(100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_counts_when_its_line_is_finished() {
        assert_eq!(announced("x\nlistening on http://127.0.0.1:80"), None);
        let found = announced("x\nlistening on http://127.0.0.1:8080\nmore\n");
        assert_eq!(found, Some(SocketAddr::from(([127, 0, 0, 1], 8080))));
    }
}
