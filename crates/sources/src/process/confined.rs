//! The launcher: this program, run again, gives up what a program must not have and then becomes
//! that program.
//!
//! What a process gives up it cannot take back, and all its descendants are without it, too. Doing
//! that in a program of its own needs no unsafe code and leaves no moment in which the program runs
//! unconfined.
//!
//! Invariant: when something that must be given up cannot be, the program is not started.
//! Invariant: a failure is reported over a pipe that the program does not have: exec closes it.

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

/// Written to the report when everything is given up and only exec is left. A launcher that ends
/// without it has started nothing.
pub(super) const READY: u8 = b'+';

/// Everything the launcher has to know, as one argument.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(super) mode: Mode,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// Ports; without it anything.
    pub(super) connect: Option<Vec<u16>>,
    /// What is neither read nor written.
    pub(super) secret: Vec<PathBuf>,
    /// What is not written.
    pub(super) fixed: Vec<PathBuf>,
    limits: Option<Limits>,
    /// The descriptor of the report.
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
    /// For a program that may reach what `confinement` names.
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

    /// For `command`, which may also read its program and its working directory.
    pub(crate) fn of(command: &CommandSpec) -> Self {
        let Resources { memory, cpu, files, file_size } = command.resources;
        let mut orders = Self::new(&command.confinement);
        orders.read.push(command.program.clone());
        orders.read.extend(command.cwd.clone());
        orders.limits = Some(Limits { memory, cpu, files, file_size });
        orders
    }
}

/// Becomes `program`. Returns only when it could not be started, and has reported why.
#[expect(clippy::disallowed_methods, reason = "the launcher is a part of `process`")]
pub(super) fn run(
    orders: &Orders,
    program: &OsString,
    arguments: &mut dyn Iterator<Item = OsString>,
) -> ExitCode {
    // Without a report the server takes this end for a failed start.
    if let Ok(mut report) = report(orders.report) {
        let problem = match prepare(orders) {
            Ok(()) => match report.write_all(&[READY]) {
                Ok(()) => cannot_start(&Command::new(program).args(arguments).exec()),
                Err(error) => error.to_string(),
            },
            Err(problem) => problem,
        };
        // Nobody is left to tell when this cannot be written.
        report.write_all(problem.as_bytes()).ok();
    }
    ExitCode::FAILURE
}

/// The report, which is closed by exec. The inherited descriptor is not, and is given up here.
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
