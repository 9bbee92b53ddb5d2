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
    path::PathBuf,
    process::{Command, ExitCode},
};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use toolcrib_core::source::command::{
    CommandSpec, Confinement, ConfinementMode, Connect, Resources,
};

use super::cannot_start;

/// Written to the report pipe when all restrictions are applied and only exec is left. A launcher
/// that exits without writing it has started nothing.
pub(super) const READY: u8 = b'+';

/// The configuration of the launcher, as one argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(super) mode: Mode,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// TCP ports; `None` allows every connection.
    pub(super) connect: Option<Vec<u16>>,
    /// Paths that may be neither read nor written.
    pub(super) secret: Vec<PathBuf>,
    /// Paths that may not be written.
    pub(super) fixed: Vec<PathBuf>,
    limits: Option<Limits>,
    /// The descriptor of the report pipe.
    pub(super) report: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Required,
    BestEffort,
    Off,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Limits {
    memory: u64,
    cpu: u64,
    files: u64,
    file_size: u64,
}

impl Orders {
    /// Creates the orders for a program that may reach the resources in `confinement`.
    pub(crate) fn new(confinement: &Confinement) -> Self {
        let paths = |paths: &std::collections::BTreeSet<PathBuf>| paths.iter().cloned().collect();
        Self {
            mode: match confinement.mode {
                ConfinementMode::Required => Mode::Required,
                ConfinementMode::BestEffort => Mode::BestEffort,
                ConfinementMode::Off => Mode::Off,
            },
            read: confinement.read.clone(),
            write: confinement.write.clone(),
            connect: match &confinement.connect {
                Connect::Ports(ports) => Some(ports.iter().copied().collect()),
                Connect::Any => None,
            },
            secret: paths(&confinement.protected.secret),
            fixed: paths(&confinement.protected.fixed),
            limits: None,
            report: -1,
        }
    }

    /// Creates the orders for `command`, which may also read its program and its working directory.
    pub(crate) fn of(command: &CommandSpec) -> Self {
        let Resources { memory, cpu, files, file_size } = command.resources;
        let mut orders = Self::new(&command.confinement);
        orders.read.push(command.program.clone());
        orders.read.extend(command.cwd.clone());
        orders.limits = Some(Limits { memory, cpu, files, file_size });
        orders
    }
}

/// Executes `program` in place of this process. Returns only when that failed, after the reason was
/// reported.
#[expect(clippy::disallowed_methods, reason = "the launcher is a part of `process`")]
pub(super) fn run(
    orders: &Orders,
    program: &OsString,
    arguments: &mut dyn Iterator<Item = OsString>,
) -> ExitCode {
    // Without a report, the server treats the exit as a failed start.
    if let Ok(mut report) = report(orders.report) {
        let problem = match prepare(orders) {
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

fn prepare(orders: &Orders) -> Result<(), String> {
    if let Some(limits) = &orders.limits {
        limit(limits).map_err(|problem| format!("its resources cannot be limited: {problem}"))?;
    }
    super::landlock::confine(orders).map_err(|problem| format!("it cannot be confined: {problem}"))
}

fn limit(limits: &Limits) -> Result<(), String> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Cpu, limits.cpu),
        (Resource::As, limits.memory),
        (Resource::Nofile, limits.files),
        (Resource::Fsize, limits.file_size),
    ] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    Ok(())
}
