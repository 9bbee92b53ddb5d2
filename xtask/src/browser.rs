//! The browser scripts of `tests/browser`, run in Chromium.
//!
//! They are run from a copy, because their packages live in the cache and Node.js looks for packages
//! in the folders above a script.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::gate::{Report, SkippedItem};
use crate::install::Tools;
use crate::server::Demo;
use crate::{paths, shell};

/// One whole script, on a busy machine.
const LIMIT: Duration = Duration::from_secs(300);
/// The scripts that start their own servers: hostile ones, some with progress and questions, and an
/// identity provider. They find the program in `TOOLCRIB_PROGRAM`.
const ALONE: [&str; 14] = [
    "approvals.mjs",
    "clients.mjs",
    "connections.mjs",
    "daily.mjs",
    "render.mjs",
    "hostile-screens.mjs",
    "first-run.mjs",
    "try-it.mjs",
    "oidc.mjs",
    "sign-in.mjs",
    "sources.mjs",
    "links.mjs",
    "two-people.mjs",
    "typed.mjs",
];
/// All scripts, with the names of their parts. Those other than [`ALONE`] use a running demo.
const SCRIPTS: [(&str, &str); 22] = [
    ("page in a browser", "render.mjs"),
    ("hostile texts in a browser", "hostile-screens.mjs"),
    ("first run in a browser", "first-run.mjs"),
    ("explorer in a browser", "explorer.mjs"),
    ("tools in a browser", "tools.mjs"),
    ("screens in a browser", "console.mjs"),
    ("running tools in a browser", "try-it.mjs"),
    ("sign-in in a browser", "sign-in.mjs"),
    ("sign-in with a provider in a browser", "oidc.mjs"),
    ("configuration in a browser", "sources.mjs"),
    ("approvals in a browser", "approvals.mjs"),
    ("accounts in a browser", "connections.mjs"),
    ("accounts of two people in two browsers", WITH_FASTMCP),
    ("sign-in of clients in a browser", "clients.mjs"),
    ("every day in a browser", "daily.mjs"),
    ("roles in a browser", "roles.mjs"),
    ("links in a browser", "links.mjs"),
    ("typed texts in a browser", "typed.mjs"),
    ("accessibility in a browser", "accessibility.mjs"),
    ("accessibility of records in a browser", "accessibility-records.mjs"),
    ("keyboard in a browser", "keyboard.mjs"),
    ("disclosure in a browser", "oracle.mjs"),
];

/// The script that needs a Python with fastmcp.
const WITH_FASTMCP: &str = "two-people.mjs";
const FASTMCP: &str = "TOOLCRIB_PYTHON_FASTMCP";

/// Takes the pictures of the documentation.
const PICTURE: &str = "picture.mjs";
/// Measures the page.
const MEASURE: &str = "measure.mjs";
const MEASURE_LIMIT: Duration = Duration::from_secs(900);

/// Adds the scripts to the report; a script that cannot run is reported as skipped.
pub(crate) fn run(report: &mut Report, tools: &Tools, program: &Path) {
    let source = paths::root().join("tests/browser");
    let stage = match Stage::new(tools, &source) {
        Ok(stage) => stage,
        Err(error) => {
            report.skip(SkippedItem::new("the explorer in a browser", format!("{error:#}")));
            return;
        }
    };
    for (name, script) in SCRIPTS {
        if !source.join(script).exists() {
            report.skip(SkippedItem::new(name, format!("tests/browser/{script} does not exist")));
            continue;
        }
        if script == WITH_FASTMCP && tools.get(FASTMCP).is_none() {
            report.skip(SkippedItem::new(name, format!("{FASTMCP} is not available")));
            continue;
        }
        let run = || {
            let mut command = stage.script(script);
            match ALONE.contains(&script) {
                true => shell::run_bounded(command.env("TOOLCRIB_PROGRAM", program), LIMIT),
                false => against_demo(&mut command, program),
            }
        };
        // Like the Rust tests: one more attempt on a shared machine, shown as such.
        report.part(name, || {
            run().or_else(|error| {
                shell::say(format_args!("FLAKY? {name}: {error:#}; one more try"));
                run()
            })
        });
    }
}

/// A copy of the scripts with everything they refer to where they expect it.
struct Stage {
    node: PathBuf,
    chromium: PathBuf,
    fastmcp: Option<PathBuf>,
    folder: TempDir,
}

/// Writes the pictures of the documentation.
pub(crate) fn pictures(tools: &Tools, program: &Path) -> Result<()> {
    let stage = Stage::new(tools, &paths::root().join("tests/browser"))?;
    let demo = Demo::with_history(program)?;
    let mut command = stage.script(PICTURE);
    command.env("DOCUMENTATION", paths::root().join("docs").join("images"));
    shell::run_bounded(with_demo(command.env("TOOLCRIB_PROGRAM", program), &demo), LIMIT)
}

/// Prints figures of the page with the record of `demo`.
pub(crate) fn measure(tools: &Tools, demo: &Demo) -> Result<()> {
    let stage = Stage::new(tools, &paths::root().join("tests/browser"))?;
    shell::run_bounded(with_demo(&mut stage.script(MEASURE), demo), MEASURE_LIMIT)
}

impl Stage {
    fn new(tools: &Tools, source: &Path) -> Result<Self> {
        let found = |name| tools.get(name).with_context(|| format!("{name} is not available"));
        let node = shell::find("node").context("there is no Node.js")?;
        let chromium = found("TOOLCRIB_CHROMIUM")?;
        let folder = stage(source, &found("TOOLCRIB_BROWSER_DIR")?)?;
        Ok(Self { node, chromium, fastmcp: tools.get(FASTMCP), folder })
    }

    fn script(&self, name: &str) -> Command {
        let folder = self.folder.path().join("tests/browser");
        let mut command = Command::new(&self.node);
        command.arg(folder.join(name)).current_dir(folder).env("CHROMIUM", &self.chromium);
        if let Some(python) = &self.fastmcp {
            command.env(FASTMCP, python);
        }
        command
    }
}

fn stage(source: &Path, packages: &Path) -> Result<TempDir> {
    let stage = tempfile::tempdir()?;
    let scripts = stage.path().join("tests/browser");
    fs::create_dir_all(&scripts)?;
    for entry in fs::read_dir(source)? {
        let file = entry?.path();
        if let (true, Some(name)) = (file.is_file(), file.file_name()) {
            fs::copy(&file, scripts.join(name))?;
        }
    }
    symlink(packages.join("node_modules"), stage.path().join("node_modules"))?;
    symlink(paths::root().join("crates"), stage.path().join("crates"))?;
    symlink(paths::root().join("tests/clients"), stage.path().join("tests/clients"))?;
    Ok(stage)
}

fn against_demo(command: &mut Command, program: &Path) -> Result<()> {
    let demo = Demo::start(program)?;
    let outcome = shell::run_bounded(with_demo(command, &demo), LIMIT);
    if outcome.is_err() {
        shell::say(format_args!("the server's last lines:\n{}", demo.log_tail()));
    }
    outcome
}

/// Gives a script the address and the keys of the demo.
fn with_demo<'a>(command: &'a mut Command, demo: &Demo) -> &'a mut Command {
    command.env("TOOLCRIB_URL", &demo.facts.url);
    for (name, key) in &demo.facts.keys {
        command.env(format!("TOOLCRIB_KEY_{}", name.replace('-', "_").to_uppercase()), key);
    }
    command
}
