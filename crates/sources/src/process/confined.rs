//! The other side of a confined start: this program, run again as a launcher, gives up what the
//! command shall not have and then becomes the command.
//!
//! What a process gives up it cannot take back, and all its children are without it, too. Doing
//! that in a program of its own needs no unsafe code and leaves no moment in which the command runs
//! unconfined.
//!
//! Invariant: when something cannot be given up that must be, the command is not started.

use std::{
    ffi::OsString,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};
use toolcrib_core::source::command::{CommandSpec, ConfinementMode};

/// How the launcher ends when it could not start the command, as `env` and shells do.
pub(crate) const NOT_STARTED: i32 = 125;

/// How what it then says begins.
pub(crate) const COMPLAINT: &str = "toolcrib-confined:";

/// What a program needs of a system before it does anything: its libraries, and what the C library
/// looks at.
#[cfg(target_os = "linux")]
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/group",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/dev/random",
    "/dev/urandom",
    "/dev/zero",
];

/// Everything the launcher has to know, as one argument.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Orders {
    mode: Mode,
    read: Vec<PathBuf>,
    write: Vec<PathBuf>,
    network: bool,
    memory: u64,
    cpu: u64,
    files: u64,
    file_size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Mode {
    Required,
    BestEffort,
    Off,
}

impl Orders {
    /// What `command` asks for. It may read its program and its working directory.
    pub(crate) fn of(command: &CommandSpec) -> Self {
        let confinement = &command.confinement;
        let mut read = confinement.read.clone();
        read.extend([command.program.clone(), command.cwd.clone()]);
        Self {
            mode: match confinement.mode {
                ConfinementMode::Required => Mode::Required,
                ConfinementMode::BestEffort => Mode::BestEffort,
                ConfinementMode::Off => Mode::Off,
            },
            read,
            write: confinement.write.clone(),
            network: confinement.network,
            memory: command.resources.memory,
            cpu: command.resources.cpu,
            files: command.resources.files,
            file_size: command.resources.file_size,
        }
    }

    /// As the launcher's argument.
    pub(crate) fn to_argument(&self) -> Result<String, String> {
        serde_json::to_string(self).map_err(|_| "a path is not UTF-8".to_owned())
    }
}

/// What [`Launcher`](crate::Launcher) runs: `ORDERS PROGRAM [ARGUMENT]…`. Returns only when the
/// program could not be started.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let problem = become_the_command(&mut arguments.into_iter());
    // Nobody is left to tell when this cannot be written.
    writeln!(std::io::stderr(), "{COMPLAINT} {problem}").ok();
    ExitCode::from(u8::try_from(NOT_STARTED).unwrap_or(1))
}

/// Why that was not possible.
#[expect(clippy::disallowed_methods, reason = "the launcher is a part of `process`")]
fn become_the_command(arguments: &mut dyn Iterator<Item = OsString>) -> String {
    let orders = arguments.next().and_then(|text| text.into_string().ok());
    let orders = orders.and_then(|text| serde_json::from_str::<Orders>(&text).ok());
    let (Some(orders), Some(program)) = (orders, arguments.next()) else {
        return "it is started by toolcrib itself, for commands of host extensions".to_owned();
    };
    if let Err(problem) = limit(&orders) {
        return format!("its resources cannot be limited: {problem}");
    }
    if let Err(problem) = confine(&orders) {
        return format!("it cannot be confined: {problem}");
    }
    let error = Command::new(&program).args(arguments).exec();
    format!("the program cannot be started: {}", error.kind())
}

fn limit(orders: &Orders) -> Result<(), String> {
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Cpu, orders.cpu),
        (Resource::As, orders.memory),
        (Resource::Nofile, orders.files),
        (Resource::Fsize, orders.file_size),
    ] {
        let limit = Rlimit { current: Some(most), maximum: Some(most) };
        setrlimit(resource, limit).map_err(|error| format!("{resource:?}: {error}"))?;
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn confine(orders: &Orders) -> Result<(), String> {
    use landlock::{
        ABI, Access as _, AccessFs, AccessNet, CompatLevel, Compatible as _, Ruleset,
        RulesetAttr as _, RulesetCreatedAttr as _, Scope, path_beneath_rules,
    };

    /// Linux 6.7: files, truncation, TCP.
    const NEEDED: ABI = ABI::V4;
    /// Linux 6.12: device controls, signals and abstract sockets of processes outside.
    const WANTED: ABI = ABI::V6;

    if orders.mode == Mode::Off {
        return Ok(());
    }
    let level = match orders.mode {
        Mode::Required => CompatLevel::HardRequirement,
        Mode::BestEffort | Mode::Off => CompatLevel::BestEffort,
    };
    let read = AccessFs::from_read(WANTED);
    let all = AccessFs::from_all(WANTED);
    let rules = || -> Result<(), landlock::RulesetError> {
        let mut ruleset = Ruleset::default()
            .set_compatibility(level)
            .handle_access(AccessFs::from_all(NEEDED))?;
        if !orders.network {
            ruleset = ruleset.handle_access(AccessNet::from_all(NEEDED))?;
        }
        ruleset
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(all)?
            .scope(Scope::from_all(WANTED))?
            .create()?
            .add_rules(path_beneath_rules(SYSTEM, read))?
            .add_rules(path_beneath_rules(["/dev/null"], all))?
            .add_rules(path_beneath_rules(existing(&orders.read), read))?
            .add_rules(path_beneath_rules(existing(&orders.write), all))?
            .restrict_self()?;
        Ok(())
    };
    rules().map_err(|error| format!("Landlock (Linux 6.7 or later): {error}"))
}

/// Confinement is a matter of Linux alone.
#[cfg(not(target_os = "linux"))]
fn confine(orders: &Orders) -> Result<(), String> {
    match orders.mode {
        Mode::Required => Err("this system has no Landlock".to_owned()),
        Mode::BestEffort | Mode::Off => Ok(()),
    }
}

#[cfg(target_os = "linux")]
fn existing(paths: &[PathBuf]) -> impl Iterator<Item = &Path> {
    paths.iter().map(PathBuf::as_path).filter(|path| path.exists())
}
