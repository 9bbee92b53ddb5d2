//! A private Valkey or Redis server.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails without its server")]

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use tempfile::TempDir;

use crate::left_out::left_out;

const PROGRAMS: [&str; 2] = ["valkey-server", "redis-server"];
/// The password of the server.
pub const PASSWORD: &str = "a test's password";

/// A running server; stops when dropped.
#[derive(Debug)]
pub struct RedisServer {
    program: PathBuf,
    folder: TempDir,
    port: u16,
    child: Option<Child>,
}

impl RedisServer {
    /// Starts a server on a free port; `None` when neither is installed.
    ///
    /// # Panics
    /// When neither is installed and `CI` is `true`, and when it does not start.
    pub fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut places =
            std::env::split_paths(&path).flat_map(|folder| PROGRAMS.map(|name| folder.join(name)));
        let Some(program) = places.find(|place| place.is_file()) else {
            left_out("neither Valkey nor Redis is installed; run `cargo xtask test`");
            return None;
        };
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let mut server = Self { program, folder: tempfile::tempdir().unwrap(), port, child: None };
        server.start_again();
        Some(server)
    }

    /// Starts a stopped server, without its data.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start_again(&mut self) {
        let mut command = Command::new(&self.program);
        command.args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.args(["--requirepass", PASSWORD]).current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        self.child = Some(command.spawn().unwrap());
        for _ in 0..300 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_ok() {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
        panic!("{} does not start", self.program.display());
    }

    /// Kills the server.
    ///
    /// # Panics
    /// When it cannot be killed.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Sends a command with `password`.
    ///
    /// # Panics
    /// When the server refuses it.
    pub fn command(&self, password: &str, command: &str) {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        write!(stream, "AUTH \"{password}\"\r\n{command}\r\nQUIT\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(!answer.contains('-'), "{command}: {answer}");
    }

    /// Returns the id of its process; `None` while it is stopped.
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.stop();
    }
}
