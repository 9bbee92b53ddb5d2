//! Tasks of the workspace: `cargo xtask test|setup|ci|gen|tidy|bench|cold|fuzz`.
//!
//! A task prints each step as it starts it and ends all processes that it started. It leaves the
//! tree unchanged, except for the files it is meant to write, and keeps builds and installations in
//! a cache outside the tree.

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
    /// Run everything that proves the product works: install missing tools, build, test
    Test(TestOptions),
    /// Install the tools that the tests need and print them as lines for a shell: eval "$(cargo
    /// xtask setup)"
    Setup,
    /// Formatting, lints, documentation, supply chain, tidiness and all tests
    Ci {
        /// Everything but the tests, for use together with `cargo xtask test`
        #[arg(long)]
        without_tests: bool,
    },
    /// Write the generated files of the tree, or with --check name the stale ones
    Gen {
        /// Compare only
        #[arg(long)]
        check: bool,
        /// Only the code of packs
        #[arg(long)]
        packs: bool,
    },
    /// Check rules that no compiler checks: structure, invariants, licences, sizes
    Tidy,
    /// Measure lists and calls against limit servers and write docs/benchmarks.md
    Bench(BenchOptions),
    /// Build from nothing in an empty directory and write the cost to docs/benchmarks.md
    Cold(ColdOptions),
    /// Run the fuzz targets, by default ten minutes each
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
