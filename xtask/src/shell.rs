//! Running programs: printed before they start, with a time limit, ended as a whole group.

use std::fmt::Display;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, io, thread};

use anyhow::{Context, Result, bail};

/// The polling interval for the end of a running program.
const POLL: Duration = Duration::from_millis(50);

/// Prints one line on stderr: stdout belongs to the programs that a task runs.
pub(crate) fn say(line: impl Display) {
    // When stderr is closed, there is no place to report it.
    writeln!(io::stderr(), "{line}").ok();
}

/// Prints the start of a step.
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

/// Runs a program like [`run`], but ends it and everything it started after `limit`.
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

/// Returns a program's stdout; an exit code other than 0 is an error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", program(command)))?;
    check(command, output.status)?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the first line a program prints; `None` when it cannot be run or fails.
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

/// Returns the path of a program on the search path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// Waits for a child's end, at most `limit`.
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

/// Sends a signal to one child that has not been waited for yet.
pub(crate) fn signal(child: &Child, signal: &str) {
    signal_to(&child.id().to_string(), signal);
}

fn signal_to(target: &str, signal: &str) {
    // A process that has ended already is the intended result.
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
