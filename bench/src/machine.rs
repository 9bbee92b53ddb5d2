//! The circumstances of a measurement: machine, commit, compiler and date.

use std::fs;
use std::process::{Command, Stdio};
use std::thread::available_parallelism;

/// Facts for the head of the page.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) date: String,
    pub(crate) commit: String,
    pub(crate) processor: String,
    pub(crate) cores: usize,
    pub(crate) compiler: String,
}

impl Machine {
    pub(crate) fn read() -> Self {
        let output_of = |program, arguments: &[&str]| {
            first_line(program, arguments).unwrap_or_else(|| "unknown".into())
        };
        let dirty = first_line("git", &["status", "--porcelain"]).is_some();
        let mut commit = output_of("git", &["rev-parse", "--short=12", "HEAD"]);
        if dirty {
            commit.push_str(" with changes");
        }
        Self {
            date: output_of("date", &["-u", "+%Y-%m-%d"]),
            commit,
            processor: processor().unwrap_or_else(|| "unknown".into()),
            cores: available_parallelism().map_or(1, usize::from),
            compiler: output_of("rustc", &["--version"]),
        }
    }
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    line.split_once(':').map(|(_, name)| name.trim().to_owned())
}

fn first_line(program: &str, arguments: &[&str]) -> Option<String> {
    output(program, arguments)?.lines().next().map(str::to_owned)
}

/// The stdout of a program; `None` if the program cannot be started.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output =
        Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output();
    Some(String::from_utf8_lossy(&output.ok()?.stdout).into_owned())
}
