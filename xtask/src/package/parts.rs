//! What all packages share: the program, its manual and completions, texts, and the time.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail};

use super::archive::{Effort, Files};
use super::program::Program;
use super::sbom::{Crates, notices};
use crate::{paths, shell};

pub(super) const SUMMARY: &str =
    "One catalog, one gate and one record for every tool your AI agents can use";
pub(super) const REPOSITORY: &str = env!("CARGO_PKG_REPOSITORY");

/// The schema of configuration files, in the tree.
pub(super) const CONFIG_SCHEMA: &str = "docs/reference/schemas/config.schema.json";

/// The time of files where neither a variable nor a commit has one: 1980-01-01, the first of zip.
const OLDEST: u32 = 315_532_800;

/// The parts of packages.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) effort: Effort,
    pub(super) program: Program,
    pub(super) version: String,
    pub(super) time: u32,
    /// The crates that the program consists of.
    pub(super) crates: Crates,
    /// The licences of those crates, as one text.
    pub(super) notices: String,
    /// `toolcrib.1` and the pages of all commands.
    pub(super) manual: Files,
    /// The scripts for bash, zsh and fish, by file name.
    pub(super) completions: Files,
}

impl Parts {
    pub(super) fn collect(path: &Path, effort: Effort) -> Result<Self> {
        let program = Program::read(path)?;
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let own = program.version()?;
        if own != version {
            bail!("{} has version {own}, the workspace {version}: build it again", path.display());
        }
        let crates = Crates::of(&program.target())?;
        let notices = notices(&crates)?;
        let manual = manual(&program)?;
        let mut completions = Files::default();
        for (shell, file) in
            [("bash", "toolcrib.bash"), ("zsh", "_toolcrib"), ("fish", "toolcrib.fish")]
        {
            let script = shell::output(Command::new(path).args(["completions", shell]))?;
            completions.add(file, script);
        }
        Ok(Self { effort, program, version, time: time()?, crates, notices, manual, completions })
    }

    pub(super) fn program_bytes(&self) -> Result<Vec<u8>> {
        let path = &self.program.path;
        fs::read(path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The example configuration, whose first line names `schema`.
    pub(super) fn example(&self, schema: &str) -> Result<String> {
        let text = self.text("toolcrib.example.toml")?;
        let rest = text.strip_prefix(&format!("#:schema ./{CONFIG_SCHEMA}\n"));
        let rest = rest.context("the first line of toolcrib.example.toml names no schema")?;
        Ok(format!("#:schema {schema}\n{rest}"))
    }

    /// A file of the tree.
    pub(super) fn text(&self, path: &str) -> Result<String> {
        let file = paths::root().join(path);
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))
    }
}

fn manual(program: &Program) -> Result<Files> {
    let folder = tempfile::tempdir()?;
    shell::run(Command::new(&program.path).arg("man").arg(folder.path()))?;
    let mut pages = Files::default();
    for entry in fs::read_dir(folder.path())? {
        let entry = entry?;
        pages.add(entry.file_name().to_string_lossy(), fs::read(entry.path())?);
    }
    if pages.iter().next().is_none() {
        bail!("`toolcrib man` wrote no page");
    }
    Ok(pages)
}

/// `SOURCE_DATE_EPOCH`, or the time of the last commit.
fn time() -> Result<u32> {
    if let Ok(set) = env::var("SOURCE_DATE_EPOCH") {
        return set.parse().context("SOURCE_DATE_EPOCH is no number of seconds");
    }
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]).current_dir(paths::root());
    // A tree without git has no commit.
    let commit = git.output().ok().filter(|output| output.status.success());
    let seconds =
        commit.and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse().ok());
    Ok(seconds.unwrap_or(OLDEST))
}
