//! A private Prometheus server, and its tool.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails without its server")]

use std::{
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::left_out::left_out;

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct PrometheusServer {
    /// The configuration and the data.
    _folder: TempDir,
    port: u16,
    child: Child,
}

impl PrometheusServer {
    /// Starts a server with the configuration `config` (YAML) on a free port; `None` when Prometheus is
    /// not installed.
    ///
    /// # Panics
    /// When it is not installed and `CI` is `true`, and when it does not start.
    pub fn start(config: &str) -> Option<Self> {
        let program = program("TOOLCRIB_PROMETHEUS", "prometheus")?;
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("prometheus.yml");
        std::fs::write(&file, config).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--enable-feature=exemplar-storage", "--log.level=warn"])
            .current_dir(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let mut server = Self { _folder: folder, port, child: command.spawn().unwrap() };
        for _ in 0..600 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Some(server);
            }
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "Prometheus ended: {ended:?}");
            thread::sleep(Duration::from_millis(50));
        }
        panic!("Prometheus does not start");
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }
}

impl Drop for PrometheusServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Runs `promtool` with `args` in `folder`, and returns whether it succeeded, with its output; `None`
/// when it is not installed.
///
/// # Panics
/// When it is not installed and `CI` is `true`.
pub fn promtool(folder: &Path, args: &[&str]) -> Option<(bool, String)> {
    let program = program("TOOLCRIB_PROMTOOL", "promtool")?;
    let output = Command::new(program).args(args).current_dir(folder).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    Some((output.status.success(), String::from_utf8_lossy(&text).into_owned()))
}

/// Returns the program that `variable` names, or the one on the search path.
fn program(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).map(|folder| folder.join(name));
    let found = named.or_else(|| places.find(|place| place.is_file()));
    if found.is_none() {
        left_out("Prometheus is not installed; run `cargo xtask test`");
    }
    found
}
