//! The `toolcrib` program: parse the arguments, wire the parts together, serve; or talk to a running
//! server.
//!
//! Invariant: everything that is printed goes through [`Printer`]; data to stdout, words to stderr.
//! Invariant: the exit code is 0 when it worked, 1 when it did not, 2 when it was asked wrongly.

mod args;
mod bundled;
mod client;
mod commands;
mod confined;
mod demo;
mod env;
mod failure;
mod local;
mod logging;
mod meter;
mod parse_error;
mod preflight;
mod printer;
mod seal;
mod settings;
mod signing;
mod store;
mod table;
mod target;

use std::{process::ExitCode, time::Duration};

use clap::Parser as _;

use crate::{
    args::{Args, Command},
    failure::Exit,
    printer::{OutputClosed, Printer},
};

/// How long a server that ends may take to drop what is still there.
const LAST_MOMENT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(code) = confined::entered() {
        return code;
    }
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => return parse_error::report(error),
    };
    let mut printer = Printer::new(&args.global, args.command.output());
    if matches!(args.command, Command::Mcp(_)) {
        // Its stdout is for protocol messages.
        printer = printer.without_json();
    }
    match run(args, &printer) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::FAILURE,
        Ok(Exit::Code(code)) => ExitCode::from(code),
        // Whoever read our output has seen enough: `toolcrib audit export | head` is no failure.
        Err(error) if error.is::<OutputClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            printer.failed(&error);
            failure::exit_code(&error)
        }
    }
}

fn run(args: Args, printer: &Printer) -> anyhow::Result<Exit> {
    // Before anything can connect: no TLS backend is chosen at compile time. An error only says
    // that one is installed already.
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let serves = matches!(args.command, Command::Serve(_));
    let result = runtime.block_on(commands::run(args, printer));
    match serves {
        // Tasks that did not end in order are dropped, and children die with them (I-26).
        true => runtime.shutdown_timeout(LAST_MOMENT),
        // A thread that still waits for standard input must not keep the program alive.
        false => runtime.shutdown_background(),
    }
    result
}
