//! The `toolcrib` program: parses the arguments, then runs one command in this process or against a
//! running server.
//!
//! Invariant: all output goes through [`Printer`]: data to stdout, messages to stderr.
//! Invariant: the exit code is 0 for success, 1 for a failure and 2 for a usage error, unless a
//! command documents other codes.

mod args;
mod arguments_hash;
mod browser;
mod bundled;
mod check;
mod client;
mod commands;
mod confined;
mod context;
mod demo;
mod demo_facts;
mod env;
mod failure;
mod local;
mod lock;
mod logging;
mod long_lists;
mod meter;
mod parse_error;
mod prefix;
mod preflight;
mod printer;
mod sandbox;
mod seal;
mod settings;
mod signing;
mod spans;
mod store;
mod table;
mod target;
mod text;
mod tool_row;
mod version;

use std::{process::ExitCode, time::Duration};

use crate::{
    args::{Args, Command},
    failure::Exit,
    printer::{OutputClosed, Printer},
};

/// The threads of the runtime allocate calls, and the thread of the store frees them. In the
/// allocator of glibc, they waited for each other's locks. A separate thread returns freed memory
/// to the system (`.cargo/config.toml` says when).
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Time limit for dropping the remaining tasks when a server exits.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(code) = confined::entered() {
        return code;
    }
    let args = match args::parse() {
        Ok(args) => args,
        Err(error) => return parse_error::report(error),
    };
    let mut printer = Printer::new(&args.global, args.command.output());
    if matches!(args.command, Command::Mcp(_)) {
        // stdout carries the protocol messages.
        printer = printer.without_json();
    }
    match run(args, printer) {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Failed) => ExitCode::FAILURE,
        Ok(Exit::Code(code)) => ExitCode::from(code),
        // The reader closed the pipe, as in `toolcrib audit export | head`: a success.
        Err(error) if error.is::<OutputClosed>() => ExitCode::SUCCESS,
        Err(error) => {
            printer.failed(&error);
            failure::exit_code(&error)
        }
    }
}

fn run(args: Args, printer: Printer) -> anyhow::Result<Exit> {
    // Must precede the first connection, because no TLS backend is chosen at compile time. The only
    // error is that a backend is installed already.
    rustls::crypto::aws_lc_rs::default_provider().install_default().ok();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let serves = matches!(args.command, Command::Serve(_));
    let result = runtime.block_on(commands::run(args, printer));
    match serves {
        // Drops the tasks that are still running; their child processes die with them (I-26).
        true => runtime.shutdown_timeout(SHUTDOWN_LIMIT),
        // A thread blocked on stdin must not keep the program alive.
        false => runtime.shutdown_background(),
    }
    result
}
