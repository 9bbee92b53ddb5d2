//! Tasks of the workspace: `cargo xtask test|setup|ci|gen|tidy|bench|dist|package|release|crates|cold|fuzz`.
//!
//! A task prints each step before it, stops every process that it started, and changes only its own
//! output in the tree. Builds and installations go to a cache outside the tree.

mod bench;
mod browser;
mod cargo;
mod ci;
mod cold;
mod crates;
mod dist;
mod fuzz;
mod gate;
mod generate;
mod install;
mod package;
mod packs;
mod paths;
mod release;
mod server;
mod shell;
mod test;
mod tidy;
mod vendor;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::bench::BenchOptions;
use crate::cold::ColdOptions;
use crate::crates::CratesOptions;
use crate::dist::DistOptions;
use crate::fuzz::FuzzOptions;
use crate::package::PackageOptions;
use crate::release::ReleaseOptions;
use crate::test::TestOptions;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Tasks of the toolcrib workspace")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Runs every test of the product; installs missing tools first
    Test(TestOptions),
    /// Installs the tools of the tests and prints lines for a shell: eval "$(cargo xtask setup)"
    Setup,
    /// Formatting, lints, documentation, supply chain, tidiness and all tests
    Ci {
        /// Everything but the tests, for use together with `cargo xtask test`
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
    /// Checks rules that no compiler checks: structure, invariants, links, words
    Tidy {
        /// Only print how often each area uses the words that the project avoids
        #[arg(long)]
        words: bool,
        /// Only print which folder of each crate imports which
        #[arg(long, conflicts_with = "words")]
        graph: bool,
    },
    /// Takes the pictures of the documentation from the demo in Chromium
    Pictures,
    /// Measures lists and calls against limit servers and writes docs/reference/benchmarks.md
    Bench(BenchOptions),
    /// Builds the program as it is shipped, with a record of its run under load
    Dist(DistOptions),
    /// Makes installable files: tarball, Debian package, wheel, npm package, container, bill of materials
    Package(PackageOptions),
    /// Makes and signs the files of a release, and prints the commands that publish it
    Release(ReleaseOptions),
    /// Packs the crates that are published, and names the mistakes that a registry would refuse
    Crates(CratesOptions),
    /// Builds in an empty directory and writes the cost to docs/reference/benchmarks.md
    Cold(ColdOptions),
    /// Runs the fuzz targets, ten minutes each by default
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
        Task::Tidy { words: true, .. } => tidy::print_words(),
        Task::Tidy { graph: true, .. } => tidy::print_graph(),
        Task::Tidy { .. } => tidy::run(),
        Task::Pictures => test::pictures(),
        Task::Bench(options) => bench::run(&options),
        Task::Dist(options) => dist::run(&options),
        Task::Package(options) => package::run(&options),
        Task::Release(options) => release::run(&options),
        Task::Crates(options) => crates::run(&options),
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
