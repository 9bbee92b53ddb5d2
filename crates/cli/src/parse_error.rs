//! Reports argument errors: text on stderr and, with `--json`, an error object on stdout.

use std::{
    ffi::OsStr,
    io::{self, Write as _},
    process::ExitCode,
};

use anstream::AutoStream;
use clap::{
    CommandFactory as _,
    error::{ContextKind, ContextValue, ErrorKind},
};
use serde_json::json;

use crate::args::Args;

/// The exit code for a usage error.
const USAGE_ERROR: u8 = 2;

/// Prints the parser's output: the requested help or version, or the error.
pub(crate) fn report(error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Writing fails if the reader has closed the pipe, as in `toolcrib --help | head`.
        error.print().ok();
        return ExitCode::SUCCESS;
    }
    match error.kind() {
        // The parser's own message lists hidden commands, too.
        ErrorKind::MissingSubcommand => help_of(&error),
        _ => {
            error.print().ok();
        }
    }
    if std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == OsStr::new("--json")) {
        let object = json!({ "error": {
            "message": message(&error), "causes": [], "hint": "`toolcrib --help` lists the commands",
        } });
        writeln!(io::stdout(), "{object}").ok();
    }
    ExitCode::from(USAGE_ERROR)
}

/// Prints the help of the command with the missing subcommand.
fn help_of(error: &clap::Error) {
    let path = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(path)) => path.as_str(),
        _ => "",
    };
    let mut command = Args::command();
    command.build();
    for name in path.split_whitespace().skip(1) {
        match command.find_subcommand(name) {
            Some(inner) => command = inner.clone(),
            None => break,
        }
    }
    let help = command.render_help();
    write!(AutoStream::auto(io::stderr().lock()), "{}", help.ansi()).ok();
}

/// The first paragraph of the parser's message, without the prefix `error: `.
fn message(error: &clap::Error) -> String {
    if matches!(
        error.kind(),
        ErrorKind::MissingSubcommand | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    ) {
        return "a command is missing".to_owned();
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    text.split("\n\n").next().unwrap_or_default().trim().to_owned()
}
