//! `completions`: prints shell completion scripts.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};

use crate::{args::Args, failure::Exit, printer::Printer};

pub(crate) fn run(shell: Shell, printer: Printer) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    generate(shell, &mut Args::command(), "toolcrib", &mut script);
    printer.bytes(&script)?;
    Ok(Exit::Done)
}
