//! One step of the tour: runs its commands, prints them with their output, and reports its result.

use std::{
    fs,
    time::{Duration, Instant},
};

use owo_colors::OwoColorize as _;
use serde_json::{Value, json};
use toolcrib_sources::{OwnProgram, OwnRun};

use super::record::{Edit, quoted};
use crate::{
    printer::{PrintResult, Printer},
    text::harmless,
};

/// How long a step repeats a command until its output has the expected effect.
const PATIENCE: Duration = Duration::from_secs(20);
/// Interval between two attempts.
const LOOK: Duration = Duration::from_millis(100);

/// Length of the lines of a sentence.
const MAX_LINE: usize = 78;

/// The texts of a step.
pub(super) struct Heading {
    /// For programs.
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    pub(super) sentence: &'static str,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum CommandCaller {
    /// A caller of the server, with the key of this name.
    Caller(&'static str),
    /// The operator, on the files of the demo.
    Operator,
}

/// Why a step stops early.
#[derive(Debug)]
pub(super) enum StepFailure {
    /// A result is wrong or missing.
    Problem(String),
    /// The output cannot be written.
    Output(anyhow::Error),
}

/// The result of a step.
#[derive(Debug)]
pub(super) enum Outcome {
    Shown,
    Failed(String),
}

/// A sentence on the results of a step.
pub(super) type StepResult = Result<String, StepFailure>;

/// A step on the terminal.
pub(super) struct Stage<'a> {
    program: &'a OwnProgram,
    name: &'a str,
    url: &'a str,
    printer: Printer,
    heading: &'a Heading,
    /// The number of the step, counted from 1, and the number of all steps.
    number: (usize, usize),
    commands: Vec<Value>,
}

impl<'a> Stage<'a> {
    pub(super) fn new(
        program: &'a OwnProgram,
        name: &'a str,
        url: &'a str,
        heading: &'a Heading,
        number: (usize, usize),
        printer: Printer,
    ) -> Self {
        Self { program, name, url, printer, heading, number, commands: Vec::new() }
    }

    /// Prints the heading of the step.
    pub(super) fn begin(&self) -> PrintResult {
        if self.printer.wants_json() {
            return Ok(());
        }
        let (number, of) = self.number;
        let title = format!("{number} of {of}: {}", self.heading.title);
        let sentence = wrapped(self.heading.sentence);
        self.printer.line(format_args!("\n{}\n{sentence}", title.bold().underline()))
    }

    /// Completes the step, and reports its result.
    pub(super) fn end(self, result: StepResult) -> anyhow::Result<Outcome> {
        let (shown, problem) = match result {
            Ok(shown) => (Some(shown), None),
            Err(StepFailure::Problem(problem)) => (None, Some(problem)),
            Err(StepFailure::Output(error)) => return Err(error),
        };
        if self.printer.wants_json() {
            self.printer.json_line(&json!({
                "step": self.number.0,
                "of": self.number.1,
                "name": self.heading.name,
                "title": self.heading.title,
                "sentence": self.heading.sentence,
                "commands": self.commands,
                "shown": shown,
                "problem": problem,
            }))?;
        } else if let Some(shown) = &shown {
            let shown = wrapped(shown);
            self.printer.line(format_args!("\n{} {shown}", "=>".green().bold()))?;
        }
        Ok(problem.map_or(Outcome::Shown, Outcome::Failed))
    }

    /// Returns `words` after the options that select the server and the key.
    fn arguments<'b>(&'b self, by: CommandCaller, words: &[&'b str]) -> Vec<&'b str> {
        let of_caller = match by {
            CommandCaller::Caller("admin") => &["--url", self.url, "--key-file", "admin.key"][..],
            CommandCaller::Caller("reader") => &["--url", self.url, "--key-file", "reader.key"],
            CommandCaller::Caller(_) => &["--url", self.url, "--key-file", "approver.key"],
            CommandCaller::Operator => &[],
        };
        of_caller.iter().chain(words).copied().collect()
    }

    async fn finished(&self, arguments: &[&str]) -> Result<OwnRun, StepFailure> {
        let ran = self.program.run(arguments).await;
        ran.map_err(|why| StepFailure::Problem(format!("`toolcrib {}` {why}", arguments.join(" "))))
    }

    /// Runs a command, and shows it with its output.
    pub(super) async fn run(
        &mut self,
        by: CommandCaller,
        words: &[&str],
    ) -> Result<OwnRun, StepFailure> {
        let arguments = self.arguments(by, words);
        let run = self.finished(&arguments).await?;
        let line = self.line(&arguments);
        self.show(line, &run)?;
        Ok(run)
    }

    /// Repeats a command until `is_so`, and shows its last run.
    pub(super) async fn run_until(
        &mut self,
        by: CommandCaller,
        words: &[&str],
        is_so: impl Fn(&OwnRun) -> bool,
    ) -> Result<OwnRun, StepFailure> {
        let arguments = self.arguments(by, words);
        let started = Instant::now();
        let run = loop {
            let run = self.finished(&arguments).await?;
            if is_so(&run) || started.elapsed() > PATIENCE {
                break run;
            }
            tokio::time::sleep(LOOK).await;
        };
        let line = self.line(&arguments);
        self.show(line, &run)?;
        Ok(run)
    }

    /// Runs a command whose output goes to `file`, as `> file` in a shell. Returns that output.
    pub(super) async fn run_into(
        &mut self,
        words: &[&str],
        file: &str,
    ) -> Result<String, StepFailure> {
        let mut run = self.finished(words).await?;
        let output = std::mem::take(&mut run.stdout);
        self.write(file, &output)?;
        let line = format!("{} > {file}", self.line(words));
        self.show(line, &run)?;
        succeeded(&run, "it")?;
        Ok(output)
    }

    /// Writes `record` with `edit` to the file `to`, and shows the command line that does the same to the
    /// file `from`. `sed` itself may be missing, as in the container image.
    pub(super) fn edit(
        &mut self,
        edit: &Edit,
        record: &str,
        from: &str,
        to: &str,
    ) -> Result<(), StepFailure> {
        self.write(to, &edit.apply(record))?;
        let line = format!("sed {} {from} > {to}", quoted(&edit.script()));
        self.show(line, &OwnRun { code: 0, stdout: String::new(), stderr: String::new() })
    }

    fn write(&self, file: &str, text: &str) -> Result<(), StepFailure> {
        fs::write(self.program.directory.join(file), text)
            .map_err(|error| StepFailure::Problem(format!("{file} cannot be written: {error}")))
    }

    /// The command line with `arguments`, for a shell.
    fn line(&self, arguments: &[&str]) -> String {
        let words = arguments.iter().map(|word| quoted(word));
        [self.name.to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    fn show(&mut self, line: String, run: &OwnRun) -> Result<(), StepFailure> {
        let result = if self.printer.wants_json() { Ok(()) } else { self.print(&line, run) };
        self.commands.push(json!({
            "command": line,
            "exitCode": run.code,
            "stdout": run.stdout,
            "stderr": run.stderr,
        }));
        result.map_err(StepFailure::Output)
    }

    fn print(&self, line: &str, run: &OwnRun) -> PrintResult {
        self.printer.line(format_args!("\n{} {}", "$".dimmed(), line.bold()))?;
        for text in [&run.stdout, &run.stderr] {
            let text = text.trim_end();
            if !text.is_empty() {
                self.printer.line(harmless(text))?;
            }
        }
        match run.code {
            0 => Ok(()),
            code => self.printer.line(format_args!("(exit code {code})").dimmed()),
        }
    }
}

/// Breaks `text` into lines of at most [`MAX_LINE`] characters, if its words permit.
pub(super) fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let width = word.chars().count();
        if used > 0 {
            let fits = used + 1 + width <= MAX_LINE;
            lines.push(if fits { ' ' } else { '\n' });
            used = if fits { used + 1 } else { 0 };
        }
        lines.push_str(word);
        used += width;
    }
    lines
}

/// Fails unless `is_so`.
pub(super) fn check(is_so: bool, problem: impl Into<String>) -> Result<(), StepFailure> {
    if is_so { Ok(()) } else { Err(StepFailure::Problem(problem.into())) }
}

/// Fails unless the run succeeded.
pub(super) fn succeeded(run: &OwnRun, what: &str) -> Result<(), StepFailure> {
    check(
        run.code == 0,
        format!("{what} failed with exit code {}: {}", run.code, run.stderr.trim()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_wrapped_between_words() {
        let text = "word ".repeat(40);
        let lines = wrapped(&text);
        assert!(lines.lines().all(|line| line.len() <= MAX_LINE), "{lines}");
        assert_eq!(lines.split_whitespace().count(), 40);
        assert_eq!(lines.lines().count(), 3, "{lines}");
        let long = "x".repeat(100);
        assert_eq!(wrapped(&format!("a {long} b")), format!("a\n{long}\nb"));
    }
}
