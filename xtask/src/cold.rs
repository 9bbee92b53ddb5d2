//! `cargo xtask cold`: the cost of the README's first command on a machine without any builds.
//!
//! Builds in an empty target directory, which is removed afterwards unless `--keep` is set, and
//! writes the figures into their section of docs/reference/benchmarks.md. Downloads are not
//! measured: the sources are fetched before.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use serde_json::Value;

use crate::cargo::cargo;
use crate::{paths, shell};

/// The heading of the section; `cargo xtask bench` keeps it.
const HEADING: &str = "## A build from nothing";

/// Clock ticks of `/proc/self/stat` per second, on every Linux that Rust runs on.
const TICKS: u64 = 100;

#[derive(Debug, Args)]
pub(crate) struct ColdOptions {
    /// What to build, one after the other
    #[arg(long, value_delimiter = ',', default_value = "demo,release,dist")]
    builds: Vec<Build>,
    /// Only print the figures
    #[arg(long)]
    dry_run: bool,
    /// Build in this directory, which must not exist yet, and keep it
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// A way to build the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Build {
    /// The README's first command: without Cedar policies and without WebAssembly packs
    Demo,
    /// All features, quick to compile
    Release,
    /// All features, optimized across crates
    Dist,
}

/// The cost of one build.
struct Figures {
    build: Build,
    cpu: Duration,
    wall: Duration,
    crates: usize,
    bytes: u64,
}

pub(crate) fn run(options: &ColdOptions) -> Result<()> {
    shell::run(&mut cargo(&["fetch", "--locked", "--quiet"]))?;
    let mut rows = String::new();
    for build in &options.builds {
        let temporary = tempfile::tempdir().context("cannot create an empty target directory")?;
        let target = match &options.keep {
            Some(keep) => keep.join(build.name()),
            None => temporary.path().to_path_buf(),
        };
        if target.exists() && options.keep.is_some() {
            bail!("{} exists already; name another directory with --keep", target.display());
        }
        let figures = measure(*build, &target)?;
        let row = figures.row();
        shell::say(&row);
        rows.push_str(&row);
        rows.push('\n');
    }
    if options.dry_run { Ok(()) } else { write(&rows) }
}

impl Build {
    fn name(self) -> &'static str {
        match self {
            Self::Demo => "demo",
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }

    fn profile(self) -> &'static str {
        match self {
            Self::Demo => "quick",
            Self::Release => "release",
            Self::Dist => "dist",
        }
    }

    /// The arguments of cargo that differ between the builds.
    fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::Demo => &["--profile", "quick", "--no-default-features"],
            Self::Release => &["--release"],
            Self::Dist => &["--profile", "dist"],
        }
    }
}

fn measure(build: Build, target: &Path) -> Result<Figures> {
    shell::step(format_args!("{}, from nothing", build.name()));
    let mut command = cargo(&["build", "--locked", "--message-format", "json-render-diagnostics"]);
    command.args(build.arguments()).env("CARGO_TARGET_DIR", target);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let (begun, cpu) = (Instant::now(), cpu_of_children()?);
    let mut child = command.spawn().context("cannot start cargo")?;
    let output = child.stdout.take().context("cargo has no output")?;
    let mut crates = BTreeSet::new();
    for line in BufReader::new(output).lines() {
        let message: Value = serde_json::from_str(&line?).unwrap_or_default();
        if message.get("reason").is_some_and(|reason| reason == "compiler-artifact") {
            crates.insert(message.get("package_id").map(Value::to_string));
        }
    }
    if !child.wait()?.success() {
        bail!("the build failed");
    }
    let (wall, cpu) = (begun.elapsed(), cpu_of_children()?.saturating_sub(cpu));
    let program = target.join(build.profile()).join("toolcrib");
    let bytes =
        fs::metadata(&program).with_context(|| format!("{} is missing", program.display()))?.len();
    Ok(Figures { build, cpu, wall, crates: crates.len(), bytes })
}

impl Figures {
    fn row(&self) -> String {
        let Self { build, cpu, wall, crates, bytes } = self;
        format!(
            "| `cargo build {}` | {:.1} | {:.1} | {crates} | {:.1} |",
            build.arguments().join(" "),
            cpu.as_secs_f64() / 60.0,
            wall.as_secs_f64() / 60.0,
            *bytes as f64 / 1e6
        )
    }
}

/// Processor time of all processes that this one has waited for, and of those that they waited for.
fn cpu_of_children() -> Result<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").context("needs Linux")?;
    // The name of the program, in parentheses, may contain anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks: Vec<u64> =
        fields.split_whitespace().skip(13).take(2).filter_map(|field| field.parse().ok()).collect();
    Ok(Duration::from_millis(ticks.iter().sum::<u64>() * 1_000 / TICKS))
}

fn write(rows: &str) -> Result<()> {
    let page = paths::root().join("docs").join("reference").join("benchmarks.md");
    let text = fs::read_to_string(&page)?;
    let before = text.split(HEADING).next().unwrap_or_default().trim_end();
    let commit = shell::first_line("git", &["log", "-1", "--format=%h"]).unwrap_or_default();
    let compiler = shell::first_line("rustc", &["--version"]).unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    let section = format!(
        "{HEADING}\n\nWritten by `cargo xtask cold`, at {commit}, with {compiler} on {cores} cores; the \
         sources had been downloaded. The first row is the build of the README's first command. `dist` is the \
         shipped build, and the figures above are measured with it.\n\n\
         | build | CPU minutes | minutes | crates | binary, MB |\n|---|---|---|---|---|\n{rows}"
    );
    fs::write(&page, format!("{before}\n\n{section}"))?;
    Ok(())
}
