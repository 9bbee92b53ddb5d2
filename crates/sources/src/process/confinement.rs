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
#[cfg(not(target_os = "linux"))]
use toolcrib_core::source::command::ConfinementMode;
use toolcrib_core::source::command::Resources;

use super::{
    launch::{ConfinementRules, cannot_start},
    support::SandboxSupport,
};

/// Written to the report pipe when all restrictions are applied and only exec is left. A launcher
/// that exits without writing it did not start the program.
pub(super) const READY: u8 = b'+';

/// Executes `program` in place of this process. Returns only if that failed, after reporting the
/// reason.
#[expect(clippy::disallowed_methods, reason = "the launcher is a part of `process`")]
pub(super) fn run(
    rules: &ConfinementRules,
    program: &OsString,
    arguments: &mut dyn Iterator<Item = OsString>,
) -> ExitCode {
    let mut command = Command::new(program);
    command.args(arguments);
    for variable in &rules.variables {
        command.env_remove(variable);
    }
    // Without a report, the server treats the exit as a failed start.
    if let Ok(mut report) = report(rules.report) {
        let problem = match prepare(rules) {
            Ok(()) => match report.write_all(&[READY]) {
                Ok(()) => cannot_start(&command.exec()),
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
    // A process can join every group of its session, and change the priority of its group.
    rustix::process::setsid().map_err(|error| format!("cannot create a session: {error}"))?;
    if let Some(resources) = &rules.resources {
        limit(resources)
            .map_err(|problem| format!("its resources cannot be limited: {problem}"))?;
    }
    isolate(rules).map_err(|problem| format!("it cannot be confined: {problem}"))
}

#[cfg(target_os = "linux")]
fn isolate(rules: &ConfinementRules) -> Result<(), String> {
    super::isolation::apply(&rules.confinement, rules.guard)
}

/// Sandboxes are available on Linux only.
#[cfg(not(target_os = "linux"))]
fn isolate(rules: &ConfinementRules) -> Result<(), String> {
    match rules.confinement.mode {
        ConfinementMode::Required => Err(ONLY_LINUX.to_owned()),
        ConfinementMode::BestEffort | ConfinementMode::Off => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
const ONLY_LINUX: &str = "this system has no Landlock";

/// Prints the layers of a sandbox that this system offers.
pub(super) fn probe() -> ExitCode {
    let support = support();
    match serde_json::to_writer(std::io::stdout(), &support) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

#[cfg(target_os = "linux")]
fn support() -> SandboxSupport {
    super::isolation::probe()
}

#[cfg(not(target_os = "linux"))]
fn support() -> SandboxSupport {
    let missing = || Some(ONLY_LINUX.to_owned());
    SandboxSupport {
        read_only_mounts: missing(),
        landlock: missing(),
        capabilities: missing(),
        system_calls: missing(),
    }
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
