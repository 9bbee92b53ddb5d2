//! Helpers that run the program, start servers and call them.

mod http;
mod receiver;
pub(crate) mod recorder;
mod server;

use std::{
    env,
    ffi::OsString,
    fs, iter,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

pub(crate) use http::Caller;
pub(crate) use receiver::{Receiver, attribute, hex};
pub(crate) use recorder::Recorder;
pub(crate) use server::{
    Process, Server, demo_key, eventually, eventually_async, facts, is_running, signal_pid,
};

/// A key that signs the record.
pub(crate) const SIGNING_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// The program under test.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_toolcrib");

/// Returns a command that runs the program in `dir`, without settings from the environment.
pub(crate) fn toolcrib(dir: &Path) -> Command {
    #[expect(clippy::disallowed_methods, reason = "the test starts the program under test")]
    let mut command = Command::new(PROGRAM);
    command.current_dir(dir).stdin(Stdio::null());
    for variable in
        ["CONFIG", "DATA_DIR", "URL", "KEY", "LOG", "CA_FILE", "CLIENT_CERT", "CLIENT_KEY"]
    {
        command.env_remove(format!("TOOLCRIB_{variable}"));
    }
    command.env_remove("COLUMNS");
    command
}

/// The result of a run of the program.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Returns itself; panics unless the exit code is 0.
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, 0, "{self:?}");
        self
    }
}

/// Runs the program with `args` in `dir` to its end.
pub(crate) fn run(dir: &Path, args: &[&str]) -> CommandOutput {
    finish(toolcrib(dir).args(args))
}

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> CommandOutput {
    let Output { status, stdout, stderr } = command.output().unwrap();
    CommandOutput {
        code: status.code().unwrap_or_else(|| panic!("ended by a signal: {status}")),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}

/// Writes a file that only its owner may read.
pub(crate) fn write_private(file: &Path, text: &str) {
    fs::write(file, text).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o600)).unwrap();
}

/// Writes the key that seals what a server in `dir` stores, and returns the table `[store]` of a
/// configuration that names it.
pub(crate) fn write_seal_key(dir: &Path) -> &'static str {
    write_private(&dir.join("seal.key"), &"0f".repeat(32));
    "[store]\nseal_key = { file = \"seal.key\" }"
}

/// Writes the keys of a server over PostgreSQL into `dir`, and returns the part of its configuration
/// that names the database and the keys. It ends in the table `[record]`.
pub(crate) fn shared_store(dir: &Path, database: &str) -> String {
    write_private(&dir.join("signing.key"), SIGNING_KEY);
    write_seal_key(dir);
    format!(
        "[store]\nurl = \"{database}\"\nseal_key = {{ file = \"seal.key\" }}\n\
         [record]\nsigning_key = {{ file = \"signing.key\" }}\n"
    )
}

/// Creates a temporary directory for a test.
pub(crate) fn dir() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// A configuration whose only source is the demo's MCP server, with `more` behind its rules.
pub(crate) fn config(more: &str) -> String {
    format!(
        r#"[server]
listen = "127.0.0.1:0"
[[source]]
id = "demo"
kind = "mcp"
command = ["{PROGRAM}", "demo-upstream"]
[source.tools."*"]
scopes = ["demo:read"]
safety_tier = "read"
{more}
"#
    )
}

/// A configuration whose only source is the MCP server at `url`, which people call with their own
/// accounts. `store` is its table.
pub(crate) fn with_accounts(store: &str, url: &str) -> String {
    format!(
        r#"
[server]
listen = "127.0.0.1:0"
public_url = "https://crib.example"
[gate]
rate = "off"
{store}
[[source]]
id = "mine"
kind = "mcp"
url = "{url}"
tenants = ["default"]
[source.oauth]
of = "principal"
[source.tools."*"]
scopes = ["mine:use"]
safety_tier = "read"
"#
    )
}

/// Writes `text` as the `toolcrib.toml` of `dir`.
pub(crate) fn write_config(dir: &Path, text: &str) -> PathBuf {
    let file = dir.join("toolcrib.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Creates a key on the command line, and returns its id and text.
pub(crate) fn key(dir: &Path, args: &[&str]) -> (String, String) {
    let made =
        run(dir, &[&["keys", "create", "--json", "--name", "test"], args].concat()).ok().json();
    (made["id"].as_str().unwrap().to_owned(), made["key"].as_str().unwrap().to_owned())
}

/// The search path of this process, with `first` in front.
#[expect(clippy::disallowed_methods, reason = "the programs of the tests are in the search path")]
pub(crate) fn search_path(first: &Path) -> OsString {
    let others = env::var_os("PATH").unwrap_or_default();
    env::join_paths(iter::once(first.to_owned()).chain(env::split_paths(&others))).unwrap()
}
