//! `cargo xtask test`: everything that proves the product works, on a bare machine.
//!
//! Rust tests and documentation tests, the same tests against real MCP clients and servers, the
//! generated files, the explorer in a real browser, and the packages.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::process::Command;

use anyhow::{Context, Result};
use clap::{Args, ValueEnum};

use crate::cargo::{built_program, cargo, has};
use crate::gate::{Report, SkippedItem, in_ci};
use crate::install::{PlannedParts, Tools};
use crate::{browser, generate, package, packs, shell};

/// Tests against real clients live in modules, or test programs, of this name.
const CLIENT_TESTS: &str = "test(/(^|::)clients::/) + binary(/^clients$/)";

#[derive(Debug, Args)]
pub(crate) struct TestOptions {
    /// Only one part
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Rust tests whose name contains this; leaves out the other parts unless --only names one
    filter: Option<String>,
}

/// The parts of `cargo xtask test`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Rust tests without other clients and servers
    Rust,
    /// Rust tests against real MCP clients and servers
    Clients,
    /// The explorer in Chromium
    Browser,
    /// Examples in the documentation
    Doc,
    /// The packages, installed and run, and the files of deploy/
    Packages,
}

pub(crate) fn run(options: &TestOptions) -> Result<()> {
    let mut report = Report::default();
    add_to(&mut report, options)?;
    report.finish("test")
}

/// Only the preparation, for running single tests.
pub(crate) fn setup() -> Result<()> {
    let tools =
        Tools::ensure(PlannedParts { rust: true, clients: true, browser: true, packages: true })?;
    std::io::stdout().write_all(tools.exports().as_bytes())?;
    let mut report = Report::default();
    tools.skipped().iter().for_each(|skip| report.skip(skip.clone()));
    report.finish("setup")
}

/// The pictures of the documentation, for people who change the page.
pub(crate) fn pictures() -> Result<()> {
    let tools = Tools::ensure(PlannedParts { browser: true, ..PlannedParts::default() })?;
    browser::pictures(&tools, &built_program()?)
}

/// All parts, for `cargo xtask ci`.
pub(crate) fn all(report: &mut Report) -> Result<()> {
    add_to(report, &TestOptions { only: None, filter: None })
}

fn add_to(report: &mut Report, options: &TestOptions) -> Result<()> {
    let wanted = |part| match options.only {
        Some(only) => only == part,
        None => options.filter.is_none() || matches!(part, Part::Rust | Part::Clients),
    };
    let tools = Tools::ensure(PlannedParts {
        rust: wanted(Part::Rust),
        clients: wanted(Part::Clients),
        browser: wanted(Part::Browser),
        packages: wanted(Part::Packages),
    })?;
    for skip in tools.skipped() {
        report.skip(skip.clone());
    }
    // One build for everything below, which depends on it.
    shell::step("build");
    let program = built_program()?;
    if wanted(Part::Rust) || wanted(Part::Clients) {
        rust(report, options, &tools)?;
    }
    if options.filter.is_none() && wanted(Part::Rust) {
        report.part("packs", packs::test);
        report.part("generated files", || generate::check_with(&program));
    }
    if wanted(Part::Doc) {
        report.part("documentation tests", || {
            shell::run(&mut cargo(&["test", "--workspace", "--doc", "--quiet"]))
        });
    }
    if wanted(Part::Browser) {
        browser::run(report, &tools, &program);
    }
    if wanted(Part::Packages) {
        package::test(report, &tools, &program);
    }
    Ok(())
}

fn rust(report: &mut Report, options: &TestOptions, tools: &Tools) -> Result<()> {
    let folder = tempfile::tempdir().context("cannot create a temporary directory")?;
    // A test that skips itself writes one line to this file, because the output of passed tests is
    // not shown.
    let skips = folder.path().join("skips");
    let mut command = if has("nextest") { nextest(options) } else { plain(options) };
    command.env("TOOLCRIB_SKIPS", &skips);
    tools.apply(&mut command);
    report.part("tests", || shell::run(&mut command));
    let said = fs::read_to_string(&skips).unwrap_or_default();
    for reason in said.lines().collect::<BTreeSet<_>>() {
        report.skip(SkippedItem::new("tests left themselves out", reason));
    }
    Ok(())
}

fn nextest(options: &TestOptions) -> Command {
    let mut command = cargo(&["nextest", "run", "--workspace"]);
    if in_ci() {
        command.args(["--profile", "ci"]);
    }
    match options.only {
        Some(Part::Rust) => command.args(["-E", &format!("not ({CLIENT_TESTS})")]),
        Some(Part::Clients) => command.args(["-E", CLIENT_TESTS]),
        _ => &mut command,
    };
    command.args(&options.filter);
    command
}

/// cargo's own runner, for machines without nextest.
fn plain(options: &TestOptions) -> Command {
    let mut command = cargo(&["test", "--workspace", "--no-fail-fast"]);
    match options.only {
        Some(Part::Clients) => command.args(["--test", "clients", "--"]),
        Some(Part::Rust) => {
            command.args(["--lib", "--bins", "--tests", "--", "--skip", "clients::"])
        }
        _ => command.args(["--lib", "--bins", "--tests", "--"]),
    };
    command.args(&options.filter);
    command
}
