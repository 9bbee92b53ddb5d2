//! `cargo xtask bench`: builds the shipped program and hands over to `bench/`, or runs the benchmarks
//! of pure code with criterion.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo::{cargo, dist_program};
use crate::install::{PlannedParts, Tools, apt};
use crate::server::{self, Demo};
use crate::{browser, paths, shell};

/// The packages with benchmarks of pure code, each in `benches/pure.rs`.
const PURE: [&str; 3] = ["toolcrib-core", "toolcrib-mcp", "toolcrib-store"];

/// The default features of the program but its allocator, which Valgrind cannot watch.
const PLAIN_FEATURES: &str = "cedar,otel,postgres,redis,wasm";

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Length of each measured run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Numbers of connections to measure with
    #[arg(long, value_delimiter = ',', default_value = "1,8,64,512")]
    connections: Vec<u32>,
    /// Only the rows whose names contain this text; the page is not written
    #[arg(long)]
    only: Vec<String>,
    /// Only the limit servers, to see the limits of this machine
    #[arg(long)]
    limits_only: bool,
    /// The program to measure, for example that of `cargo xtask dist`; by default the shipped one is
    /// built without a record of a run
    #[arg(long)]
    program: Option<PathBuf>,
    /// A directory with other gateways to measure in turns with the limit; see CONTRIBUTING.md
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Only several servers over one PostgreSQL database against one server; writes their section of
    /// the page
    #[arg(long, conflicts_with_all = ["limits_only", "peers", "pure", "only", "connections"])]
    cluster: bool,
    /// Only the cost of a request: system calls, switches, allocations and instructions; writes its
    /// section of the page. Needs strace and Valgrind
    #[arg(long, conflicts_with_all = ["limits_only", "peers", "pure", "connections", "cluster"])]
    cost: bool,
    /// Only searches of a record with 1 000 000 events, on SQLite and PostgreSQL, and the console with
    /// it in Chromium; prints the tables of the page
    #[arg(long, conflicts_with_all = ["limits_only", "peers", "pure", "only", "connections", "cluster"])]
    console: bool,
    /// Only the benchmarks of pure code, without servers; `--only` selects among them
    #[arg(long, conflicts_with_all = ["limits_only", "peers"])]
    pure: bool,
}

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
    if options.pure {
        return pure(options);
    }
    if options.cluster {
        return cluster(options);
    }
    if options.cost {
        return cost(options);
    }
    if options.console {
        return console(options);
    }
    shell::step("build");
    let bench = dist_program("toolcrib-bench", "toolcrib-bench")?;
    let mut command = Command::new(bench);
    command.arg("run").current_dir(paths::root());
    command.args(["--seconds", &options.seconds.to_string()]);
    let connections: Vec<String> = options.connections.iter().map(u32::to_string).collect();
    command.args(["--connections", &connections.join(",")]);
    for text in &options.only {
        command.args(["--only", text]);
    }
    if !options.limits_only {
        command.arg("--toolcrib").arg(program(options)?);
    }
    if let Some(directory) = &options.peers {
        command.arg("--peers").arg(std::path::absolute(directory)?);
    }
    if !options.limits_only && options.only.is_empty() {
        command.arg("--write").arg(page());
        if options.peers.is_some() {
            command.arg("--comparison").arg(comparison());
        }
    }
    shell::step("measure");
    shell::run(&mut command)
}

/// The program to measure, which is built unless it is given.
fn program(options: &BenchOptions) -> Result<PathBuf> {
    match &options.program {
        Some(program) => Ok(std::path::absolute(program)?),
        None => dist_program("toolcrib", "toolcrib"),
    }
}

/// The page with the results.
fn page() -> PathBuf {
    paths::root().join("docs").join("reference").join("benchmarks.md")
}

/// The page that compares toolcrib with other gateways.
fn comparison() -> PathBuf {
    paths::root().join("docs").join("explanation").join("comparison.md")
}

/// Measures several servers over one database.
fn cluster(options: &BenchOptions) -> Result<()> {
    apt::postgres()?;
    apt::redis()?;
    shell::step("build");
    let mut command = Command::new(dist_program("toolcrib-bench", "toolcrib-bench")?);
    command.args(["cluster", "--seconds", &options.seconds.to_string(), "--toolcrib"]);
    command.arg(program(options)?).arg("--write").arg(page()).current_dir(paths::root());
    shell::step("measure");
    shell::run(&mut command)
}

/// Counts what a request costs.
fn cost(options: &BenchOptions) -> Result<()> {
    apt::counters()?;
    shell::step("build");
    let bench = dist_program("toolcrib-bench", "toolcrib-bench")?;
    // The same target would replace the program by the other one.
    let program = program(options)?;
    let folder = tempfile::tempdir()?;
    let measured = folder.path().join("toolcrib");
    fs::copy(program, &measured)?;
    let plain = plain_program()?;
    let mut command = Command::new(bench);
    command.args(["cost", "--toolcrib"]).arg(measured).arg("--plain").arg(plain);
    for text in &options.only {
        command.args(["--only", text]);
    }
    if options.only.is_empty() {
        command.arg("--write").arg(page());
    }
    shell::step("measure");
    shell::run(command.current_dir(paths::root()))
}

/// Builds the shipped program with the allocator of the system.
fn plain_program() -> Result<PathBuf> {
    let arguments = ["build", "--profile", "dist", "--package", "toolcrib", "--bin", "toolcrib"];
    let features = ["--no-default-features", "--features", PLAIN_FEATURES];
    shell::run(cargo(&arguments).args(features))?;
    Ok(paths::target().join("dist").join("toolcrib"))
}

/// Measures searches of a large record, and the console with it.
fn console(options: &BenchOptions) -> Result<()> {
    apt::postgres()?;
    let tools = Tools::ensure(PlannedParts { browser: true, ..PlannedParts::default() })?;
    shell::step("build");
    let bench = dist_program("toolcrib-bench", "toolcrib-bench")?;
    let program = program(options)?;
    let folder = tempfile::tempdir()?;
    let data = folder.path().join(server::DATA);
    fs::create_dir(&data)?;
    shell::step("searches, PostgreSQL");
    shell::run(Command::new(&bench).args(["search", "--postgres"]))?;
    shell::step("searches, SQLite");
    let store = data.join("toolcrib.db");
    shell::run(Command::new(&bench).args(["search", "--tenant", "demo", "--file"]).arg(store))?;
    shell::step("the console");
    let demo = Demo::of_data(folder, &program)?;
    browser::measure(&tools, &demo)
}

/// Runs criterion on code built as it is shipped. Criterion compares with its last run in the same
/// build directory.
fn pure(options: &BenchOptions) -> Result<()> {
    shell::step("measure pure code");
    let mut arguments = vec!["bench", "--profile", "dist", "--bench", "pure"];
    arguments.extend(PURE.iter().flat_map(|package| ["--package", package]));
    let selected = options.only.join("|");
    if !selected.is_empty() {
        arguments.extend(["--", &selected]);
    }
    shell::run(&mut cargo(&arguments))
}
