//! Runs programs: prints them first, limits their time, and stops them with their process group.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use anyhow::{Context, Result, bail};

/// Time between two checks whether a program has exited.
const POLL: Duration = Duration::from_millis(50);

/// One line on stderr: stdout belongs to the programs that a task runs.
pub(crate) fn say(line: impl Display) {
    // Without stderr there is no reader for the error either.
    writeln!(io::stderr(), "{line}").ok();
}

/// A step of a task, printed as it starts.
pub(crate) fn step(line: impl Display) {
    say(format_args!("\n=== {line}"));
}

/// Runs a program with our streams and no input. An exit code other than 0 is an error.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    say(format_args!("$ {}", shown(command)));
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", program(command)))?;
    check(command, status)
}

/// As [`run`], but stops the program and all its child processes after `limit`.
pub(crate) fn run_bounded(command: &mut Command, limit: Duration) -> Result<()> {
    say(format_args!("$ {}", shown(command)));
    let mut child = command
        .stdin(Stdio::null())
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot start {}", program(command)))?;
    match wait(&mut child, limit)? {
        Some(status) => check(command, status),
        None => {
            signal_group(&child, "KILL");
            child.wait()?;
            bail!("{} did not end within {} s", program(command), limit.as_secs())
        }
    }
}

/// Runs a program and returns its stdout; an exit code other than 0 is an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", program(command)))?;
    check(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The first line that a program prints; `None` if it cannot be run or fails.
pub(crate) fn first_line(program: impl AsRef<Path>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program.as_ref())
        .args(arguments)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// Where a program is on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Waits until a child exits, at most `limit`.
pub(crate) fn wait(child: &mut Child, limit: Duration) -> Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if Instant::now() >= deadline {
            return Ok(None);
        }
        thread::sleep(POLL);
    }
}

/// Sends a signal to the process group that a child leads. For children started with
/// `process_group(0)` and not waited for yet, so that the number is still theirs.
pub(crate) fn signal_group(child: &Child, signal: &str) {
    signal_to(&format!("-{}", child.id()), signal);
}

/// Sends a signal to one child, which must not have been waited for yet.
pub(crate) fn signal(child: &Child, signal: &str) {
    signal_to(&child.id().to_string(), signal);
}

fn signal_to(target: &str, signal: &str) {
    // A process that has already exited needs no signal.
    Command::new("kill")
        .args(["-s", signal, "--", target])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .ok();
}

fn check(command: &Command, status: ExitStatus) -> Result<()> {
    if status.success() {
        return Ok(());
    }
    bail!("`{}` failed: {status}", shown(command))
}

fn program(command: &Command) -> String {
    command.get_program().to_string_lossy().into_owned()
}

fn shown(command: &Command) -> String {
    let mut words = vec![program(command)];
    words.extend(command.get_args().map(|word| word.to_string_lossy().into_owned()));
    words.join(" ")
}
