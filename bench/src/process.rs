//! Servers as separate processes, and their resource usage.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::signal::unix::{self, SignalKind};
use tokio::time::{sleep, timeout};

use crate::http1::{Connection, request};

const START_LIMIT: Duration = Duration::from_secs(120);
/// How long one request may take that finds out whether a server is ready.
const READY_LIMIT: Duration = Duration::from_secs(5);
const STOP_LIMIT: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(20);
/// Fields of `/proc/PID/stat`, counted from the one after the name.
const STATE: usize = 0;
pub(crate) const PARENT: usize = 1;
pub(crate) const GROUP: usize = 2;
pub(crate) const USER_TIME: usize = 11;
pub(crate) const SYSTEM_TIME: usize = 12;
pub(crate) const CHILDREN_USER_TIME: usize = 13;
pub(crate) const CHILDREN_SYSTEM_TIME: usize = 14;
const ANNOUNCED: &str = "listening on http://";

/// The pages of files in memory: the file and the offset of a mapping, and its resident pages in KiB.
#[derive(Debug, Default)]
struct FilePages(BTreeMap<(String, String), u64>);

/// A server with all its child processes, in one process group. It is stopped when this is dropped,
/// and also when this process exits in any other way.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    /// This program in the role of [`watch`]. It stops the server once its stdin is closed.
    watcher: Child,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a program and waits until it prints `listening on http://ADDRESS`.
    pub(crate) async fn start(name: &str, command: &mut Command, folder: &Path) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut server = Self::spawn(name, command, &log)?;
        let deadline = Instant::now() + START_LIMIT;
        loop {
            let text = fs::read_to_string(&log).unwrap_or_default();
            if let Some(address) = announced(&text) {
                server.address = address;
                return Ok(server);
            }
            server.check_start(name, &log, deadline)?;
            sleep(POLL).await;
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends a signal, such as `HUP`, to the server alone.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, &self.id().to_string());
    }

    /// Starts a program and waits until `address` accepts connections and, with a path, until
    /// `GET path` returns 200.
    pub(crate) async fn start_at(
        name: &str,
        command: &mut Command,
        folder: &Path,
        (address, path): (SocketAddr, Option<&str>),
    ) -> Result<Self> {
        let log = folder.join(format!("{name}.log"));
        let mut server = Self::spawn(name, command, &log)?;
        server.address = address;
        let deadline = Instant::now() + START_LIMIT;
        while !is_ready(address, path).await {
            server.check_start(name, &log, deadline)?;
            sleep(POLL).await;
        }
        Ok(server)
    }

    fn spawn(name: &str, command: &mut Command, log: &Path) -> Result<Self> {
        let file = File::create(log)?;
        let mut child = command
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file)
            .process_group(0)
            .spawn()
            .with_context(|| format!("cannot start {name}"))?;
        let watcher = watcher(child.id()).inspect_err(|_| {
            // Without a watcher the server could outlive this process.
            child.kill().ok();
            child.wait().ok();
        })?;
        Ok(Self { child, watcher, address: SocketAddr::from(([127, 0, 0, 1], 0)) })
    }

    /// Fails if the server has exited or is late.
    fn check_start(&mut self, name: &str, log: &Path, deadline: Instant) -> Result<()> {
        let text = || fs::read_to_string(log).unwrap_or_default();
        if let Some(status) = self.child.try_wait()? {
            bail!("{name} exited at its start ({status}): {}", text());
        }
        if Instant::now() > deadline {
            bail!("{name} is not ready after {} s: {}", START_LIMIT.as_secs(), text());
        }
        Ok(())
    }

    /// The processor time of the process group so far.
    pub(crate) fn processor_time(&self) -> Result<Duration> {
        self.members().iter().map(|process| processor_time(process)).sum()
    }

    /// The bytes that the process group has caused to be written to a disk: whole pages, as the
    /// kernel counts them. Files in memory do not count.
    pub(crate) fn written(&self) -> Result<u64> {
        let of = |process: &String| field(&format!("/proc/{process}/io"), "write_bytes:");
        self.members().iter().map(of).sum()
    }

    /// The memory that the process group would use alone on the machine, in KiB: the pages of files
    /// count once and in full, even if other processes have them too.
    pub(crate) fn memory(&self) -> Result<u64> {
        let mut files = FilePages::default();
        for process in self.members() {
            files.add(&fs::read_to_string(format!("/proc/{process}/smaps"))?);
        }
        Ok(self.own_memory()? + files.total())
    }

    /// The part of [`Server::memory`] outside of files, in KiB.
    pub(crate) fn own_memory(&self) -> Result<u64> {
        let of = |process: &String| {
            let rollup = format!("/proc/{process}/smaps_rollup");
            Ok(field(&rollup, "Pss_Anon:")? + field(&rollup, "Pss_Shmem:")?)
        };
        self.members().iter().map(of).sum()
    }

    /// The ids of the processes of the group; only that of the server if they cannot be read.
    fn members(&self) -> Vec<String> {
        let group = self.child.id().to_string();
        let mut members: Vec<String> = processes()
            .into_iter()
            .filter(|process| stat(process, GROUP).is_ok_and(|found| found == group))
            .collect();
        if members.is_empty() {
            members.push(group);
        }
        members
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Closing its stdin is the watcher's order to stop the server.
        drop(self.watcher.stdin.take());
        self.child.wait().ok();
        self.watcher.wait().ok();
    }
}

impl FilePages {
    /// Adds the mappings of one process, from the text of its `smaps`. A mapping that several
    /// processes have counts once.
    fn add(&mut self, smaps: &str) {
        let (mut place, mut resident) = (None, 0);
        for line in smaps.lines() {
            let mut words = line.split_whitespace();
            let first = words.next().unwrap_or_default();
            let Some(name) = first.strip_suffix(':') else {
                // ADDRESS PERMISSIONS OFFSET DEVICE INODE PATH
                let offset = words.nth(1).unwrap_or_default().to_owned();
                let path = words.nth(2).filter(|path| path.starts_with('/'));
                place = path.map(|path| (path.to_owned(), offset));
                continue;
            };
            let size: u64 = words.next().and_then(|size| size.parse().ok()).unwrap_or(0);
            match name {
                "Rss" => resident = size,
                "Anonymous" => {
                    if let Some(place) = place.take() {
                        let known = self.0.entry(place).or_default();
                        *known = (*known).max(resident.saturating_sub(size));
                    }
                }
                _ => {}
            }
        }
    }

    fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// Starts this program in the role of [`watch`], in a separate process group, so that a signal to
/// the group of this process does not stop it.
fn watcher(group: u32) -> Result<Child> {
    Command::new(env::current_exe()?)
        .args(["watch", &group.to_string()])
        .stdin(Stdio::piped())
        .process_group(0)
        .spawn()
        .context("cannot start the watcher of a server")
}

/// Waits until stdin is closed, then stops the process `group`. The kernel closes the other end of
/// the pipe when its process exits, also after SIGKILL.
pub(crate) fn watch(group: u32) {
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).ok();
    let group = group.to_string();
    if is_running(&group) {
        signal("TERM", &group);
    }
    let deadline = Instant::now() + STOP_LIMIT;
    while is_running(&group) && Instant::now() < deadline {
        std::thread::sleep(POLL);
    }
    signal("KILL", &format!("-{group}"));
}

/// Whether a process runs; a zombie does not.
fn is_running(process: &str) -> bool {
    stat(process, STATE).is_ok_and(|state| state != "Z")
}

/// Sends a signal to a process, or to the group `-ID`.
pub(crate) fn signal(signal: &str, target: &str) {
    let mut kill = Command::new("kill");
    kill.args(["-s", signal, "--", target]).stdin(Stdio::null()).stderr(Stdio::null());
    // A process that has exited already is the intended result.
    kill.status().ok();
}

async fn is_ready(address: SocketAddr, path: Option<&str>) -> bool {
    let exchange = async {
        let mut connection = Connection::open(address).await?;
        let Some(path) = path else { return Ok(true) };
        let get = request("GET", address, path, &[], "");
        anyhow::Ok(connection.exchange(&get).await?.status == 200)
    };
    matches!(timeout(READY_LIMIT, exchange).await, Ok(Ok(true)))
}

/// Waits for SIGINT or SIGTERM, and returns its name.
pub(crate) async fn ended_by_signal() -> Result<&'static str> {
    let mut interrupt = unix::signal(SignalKind::interrupt())?;
    let mut terminate = unix::signal(SignalKind::terminate())?;
    tokio::select! {
        _ = interrupt.recv() => Ok("SIGINT"),
        _ = terminate.recv() => Ok("SIGTERM"),
    }
}

fn announced(log: &str) -> Option<SocketAddr> {
    let (_, rest) = log.split_once(ANNOUNCED)?;
    // An unfinished line may contain half an address.
    let (address, _) = rest.split_once('\n')?;
    address.trim().trim_end_matches('/').parse().ok()
}

/// The process group of this program.
pub(crate) fn own_group() -> u32 {
    let group = stat("self", GROUP).ok().and_then(|group| group.parse().ok());
    group.unwrap_or_else(std::process::id)
}

/// The processor time of this process so far.
pub(crate) fn own_processor_time() -> Result<Duration> {
    processor_time("self")
}

pub(crate) fn processor_time(process: &str) -> Result<Duration> {
    let used =
        stat(process, USER_TIME)?.parse::<u64>()? + stat(process, SYSTEM_TIME)?.parse::<u64>()?;
    Ok(ticks(used))
}

pub(crate) fn ticks(count: u64) -> Duration {
    Duration::from_secs(count) / *TICKS_PER_SECOND
}

/// The ids of all processes.
pub(crate) fn processes() -> Vec<String> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with(|first: char| first.is_ascii_digit()))
        .collect()
}

/// Reads the fields of `/proc/PROCESS/stat` after the name.
pub(crate) fn stat_fields(process: &str) -> Result<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The second field is the name in parentheses and may hold spaces.
    let (_, fields) = stat.rsplit_once(')').context("/proc/PID/stat")?;
    Ok(fields.split_whitespace().map(str::to_owned).collect())
}

/// Reads a field of `/proc/PROCESS/stat`.
pub(crate) fn stat(process: &str, field: usize) -> Result<String> {
    stat_fields(process)?.into_iter().nth(field).context("/proc/PID/stat")
}

/// Reads the number after `name` in a line of `file`.
fn field(file: &str, name: &str) -> Result<u64> {
    number(&fs::read_to_string(file)?, name)
}

/// The number after `name` in a line of `text`, which begins with the name.
pub(crate) fn number(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let line = line.with_context(|| name.to_owned())?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

static TICKS_PER_SECOND: LazyLock<u32> = LazyLock::new(|| {
    let output = Command::new("getconf").arg("CLK_TCK").output().ok();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    text.and_then(|text| text.trim().parse().ok()).filter(|ticks| *ticks > 0).unwrap_or(100)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pages_of_a_file_count_once_and_without_changed_ones() {
        let mapping = |path: &str, offset: &str, resident: u64, anonymous: u64| {
            format!(
                "7f00-7f10 r-xp {offset} 08:01 17 {path}\nSize: 900 kB\nRss: {resident} kB\n\
                 Pss: 1 kB\nAnonymous: {anonymous} kB\nVmFlags: rd ex\n"
            )
        };
        let mut pages = FilePages::default();
        let program =
            mapping("/bin/a", "00000000", 100, 0) + &mapping("/bin/a", "00001000", 50, 20);
        pages.add(&(program + &mapping("[heap]", "00000000", 500, 500) + &mapping("", "0", 9, 9)));
        assert_eq!(pages.total(), 130);
        pages.add(&mapping("/bin/a", "00000000", 120, 0));
        assert_eq!(pages.total(), 150, "of two processes, the one with more counts");
        pages.add(&mapping("/lib/b", "00000000", 10, 0));
        assert_eq!(pages.total(), 160);
    }

    #[test]
    fn an_address_counts_when_its_line_is_finished() {
        assert_eq!(announced("x\nlistening on http://127.0.0.1:80"), None);
        let found = announced("x\nlistening on http://127.0.0.1:8080\nmore\n");
        assert_eq!(found, Some(SocketAddr::from(([127, 0, 0, 1], 8080))));
    }
}
