//! The launcher: a second instance of this program that restricts itself and then executes the
//! target program.
//!
//! Restrictions are irrevocable and inherited by all descendants. Applying them in a separate
//! process requires no unsafe code, and the target never runs unconfined.
//!
//! Invariant: when a required restriction cannot be applied, the program is not started.
//!
//! Invariant: failures are reported over a pipe that exec closes, so the program never has it.

use std::{
    ffi::OsString,
    fs::{File, OpenOptions},
    io::Write as _,
    os::unix::process::CommandExt as _,
    process::{Command, ExitCode},
};

use rustix::process::{Resource, Rlimit, setrlimit};
use toolcrib_core::source::command::Resources;

use super::{
    landlock,
    launch::{ConfinementRules, cannot_start},
};

/// Written to the report pipe when all restrictions are applied and only exec is left. A launcher
/// that exits without writing it has started nothing.
pub(super) const READY: u8 = b'+';

/// Executes `program` in place of this process. Returns only when that failed, after the reason was
/// reported.
#[expect(clippy::disallowed_methods, reason = "the launcher is a part of `process`")]
pub(super) fn run(
    rules: &ConfinementRules,
    program: &OsString,
    arguments: &mut dyn Iterator<Item = OsString>,
) -> ExitCode {
    // Without a report, the server treats the exit as a failed start.
    if let Ok(mut report) = report(rules.report) {
        let problem = match prepare(rules) {
            Ok(()) => match report.write_all(&[READY]) {
                Ok(()) => cannot_start(&Command::new(program).args(arguments).exec()),
                Err(error) => error.to_string(),
            },
            Err(problem) => problem,
        };
        // If this write fails too, there is no other channel for the error.
        report.write_all(problem.as_bytes()).ok();
    }
    ExitCode::FAILURE
}

/// Opens the report pipe so that exec closes it, and closes the inherited descriptor.
fn report(inherited: i32) -> std::io::Result<File> {
    let report = OpenOptions::new().write(true).open(format!("/dev/fd/{inherited}"))?;
    nix::unistd::close(inherited)?;
    Ok(report)
}

fn prepare(rules: &ConfinementRules) -> Result<(), String> {
    if let Some(resources) = &rules.resources {
        limit(resources)
            .map_err(|problem| format!("its resources cannot be limited: {problem}"))?;
    }
    landlock::confine(&rules.confinement)
        .map_err(|problem| format!("it cannot be confined: {problem}"))
}

fn limit(resources: &Resources) -> Result<(), String> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Cpu, resources.cpu),
        (Resource::As, resources.memory),
        (Resource::Nofile, resources.files),
        (Resource::Fsize, resources.file_size),
    ] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    Ok(())
}
