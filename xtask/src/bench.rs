//! `cargo xtask bench`: builds the shipped program and hands over to `bench/`.

use std::process::Command;

use anyhow::Result;
use clap::Args;

use crate::cargo::dist_program;
use crate::{paths, shell};

#[derive(Debug, Args)]
pub(crate) struct BenchOptions {
    /// Length of each measured run
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Numbers of connections to measure with
    #[arg(long, value_delimiter = ',', default_value = "1,64")]
    connections: Vec<u32>,
    /// Only the rows whose names contain this text; the page is not written
    #[arg(long)]
    only: Vec<String>,
    /// Only the limit servers, to see the limits of this machine
    #[arg(long)]
    limits_only: bool,
}

pub(crate) fn run(options: &BenchOptions) -> Result<()> {
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
        command.arg("--toolcrib").arg(dist_program("toolcrib-cli", "toolcrib")?);
    }
    if !options.limits_only && options.only.is_empty() {
        command
            .arg("--write")
            .arg(paths::root().join("docs").join("reference").join("benchmarks.md"));
    }
    shell::step("measure");
    shell::run(&mut command)
}
