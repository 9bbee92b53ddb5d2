//! Tasks of the workspace: `cargo xtask test|setup|ci|gen|tidy|bench|cold|fuzz`.
//!
//! A task says each step as it starts it, ends what it started, leaves the tree as it was (but for
//! the files it is asked to write), and keeps what it builds and installs in a cache outside the tree.

mod bench;
mod browser;
mod cargo;
mod ci;
mod cold;
mod fuzz;
mod gate;
mod generate;
mod install;
mod packs;
mod paths;
mod server;
mod shell;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::BenchOptions;
use crate::cold::ColdOptions;
use crate::fuzz::FuzzOptions;
use crate::test::TestOptions;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tasks of the toolcrib workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Everything that proves the product works: installs what is missing, builds, tests
    Test(TestOptions),
    /// Installs what the tests need and prints it as lines for a shell: eval "$(cargo xtask setup)"
    Setup,
    /// Formatting, lints, documentation, supply chain, tidiness and all tests
    Ci {
        /// Everything but the tests, for those who run `cargo xtask test` beside it
        #[arg(long)]
        without_tests: bool,
    },
    /// Writes the generated files of the tree, or with --check names the stale ones
    Gen {
        /// Compare only
        #[arg(long)]
        check: bool,
        /// Only the code of packs
        #[arg(long)]
        packs: bool,
    },
    /// Rules that no compiler checks: structure, invariants, licences, sizes
    Tidy,
    /// Measures lists and calls against limit servers and writes docs/benchmarks.md
    Bench(BenchOptions),
    /// Builds from nothing in an empty directory and writes what that costs to docs/benchmarks.md
    Cold(ColdOptions),
    /// Runs the fuzz targets, ten minutes each if not told otherwise
    Fuzz(FuzzOptions),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test(options) => test::run(&options),
        Task::Setup => test::setup(),
        Task::Ci { without_tests } => ci::run(without_tests),
        Task::Gen { check: true, packs: true } => packs::check(),
        Task::Gen { packs: true, .. } => packs::build(),
        Task::Gen { check, .. } => generate::run(check),
        Task::Tidy => tidy::run(),
        Task::Bench(options) => bench::run(&options),
        Task::Cold(options) => cold::run(&options),
        Task::Fuzz(options) => fuzz::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            shell::say(format_args!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}
