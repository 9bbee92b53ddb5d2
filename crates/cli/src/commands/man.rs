//! `man`: writes a man page for each command.

use std::{fs, path::Path};

use clap::CommandFactory as _;
use serde_json::json;

use crate::{
    args::Args,
    failure::{Advice as _, Exit},
    printer::Printer,
};

pub(crate) fn run(directory: &Path, printer: Printer) -> anyhow::Result<Exit> {
    let write = || -> std::io::Result<()> {
        fs::create_dir_all(directory)?;
        // The pages of `help` would repeat those of the commands.
        clap_mangen::generate_to(Args::command().disable_help_subcommand(true), directory)
    };
    write().advise(
        format!("{} cannot be written", directory.display()),
        "name a directory that you may write to",
    )?;
    match printer.wants_json() {
        true => printer.json(&json!({ "directory": directory }))?,
        false => {
            printer.line(format_args!("wrote the man pages to {}", directory.display()))?;
        }
    }
    Ok(Exit::Done)
}
