//! What becomes of arguments that cannot be parsed: words on stderr, and JSON for who wants it.

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

/// The parser's exit code for a wrong request.
const WRONG: u8 = 2;

/// Prints what the parser says: help and versions that were asked for, or what is wrong.
pub(crate) fn report(error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        // Whoever asked for help may have stopped reading it.
        error.print().ok();
        return ExitCode::SUCCESS;
    }
    match error.kind() {
        // The parser would list every command, also those that are hidden.
        ErrorKind::MissingSubcommand => help_of(&error),
        _ => {
            error.print().ok();
        }
    }
    if std::env::args_os().take_while(|arg| arg != "--").any(|arg| arg == OsStr::new("--json")) {
        let told = json!({ "error": {
            "message": message(&error), "causes": [], "hint": "`toolcrib --help` shows what there is",
        } });
        writeln!(io::stdout(), "{told}").ok();
    }
    ExitCode::from(WRONG)
}

/// Prints the help of the command whose inner command is missing.
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

/// The first paragraph of what the parser says, without its mark.
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
