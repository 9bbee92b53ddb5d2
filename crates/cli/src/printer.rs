//! All output of the program: data goes to stdout, messages go to stderr. If log lines are JSON,
//! messages are too.
//!
//! Invariant: a closed stdout ends the program without an error message ([`OutputClosed`]).
//! Invariant: colours are printed only where they are supported.
//! Invariant (I-53): control characters and characters that change the text direction are escapes in
//! tables and messages, and on a terminal in all data, JSON included.

use std::{
    fmt::{self, Display},
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write},
};

use anstream::AutoStream;
use owo_colors::OwoColorize as _;
use serde::Serialize;
use serde_json::json;
use tracing::Level;

use crate::{
    args::{GlobalOptions, OutputFormat},
    failure,
    logging::{self, Stage},
    table::{Column, Layout},
    text::harmless,
};

/// Size limit of an answer, in bytes.
const MAX_ANSWER: u64 = 1 << 10;

/// Prints data and messages according to the global options. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    wide: bool,
    quiet: bool,
    verbose: bool,
}

/// The error for a closed stdout.
#[derive(Debug, thiserror::Error)]
#[error("the output is closed")]
pub(crate) struct OutputClosed;

/// The result of printing to stdout.
pub(crate) type PrintResult = anyhow::Result<()>;

impl Printer {
    pub(crate) fn new(global: &GlobalOptions, output: Option<OutputFormat>) -> Self {
        Self {
            json: global.json || output == Some(OutputFormat::Json),
            wide: output == Some(OutputFormat::Wide),
            quiet: global.quiet,
            verbose: global.verbose > 0,
        }
    }

    /// The same printer, without `--json`.
    pub(crate) fn without_json(self) -> Self {
        Self { json: false, ..self }
    }

    pub(crate) fn wants_json(self) -> bool {
        self.json
    }

    pub(crate) fn wants_wide(self) -> bool {
        self.wide
    }

    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Prints one line of data.
    pub(crate) fn line(self, text: impl Display) -> PrintResult {
        written(writeln!(AutoStream::auto(io::stdout().lock()), "{text}"))
    }

    /// Prints bytes; on a terminal as text.
    pub(crate) fn bytes(self, bytes: &[u8]) -> PrintResult {
        let mut out = io::stdout().lock();
        let shown = out.is_terminal().then(|| harmless(&String::from_utf8_lossy(bytes)));
        let bytes = shown.as_ref().map_or(bytes, String::as_bytes);
        written(out.write_all(bytes).and_then(|()| out.flush()))
    }

    /// Prints upstream text as data. On a terminal, control characters, which could rewrite the
    /// screen, are printed as escapes; other outputs get the text unchanged.
    pub(crate) fn foreign(self, text: &str) -> PrintResult {
        let mut out = io::stdout().lock();
        match out.is_terminal() {
            true => written(writeln!(out, "{}", harmless(text))),
            false => written(writeln!(out, "{text}")),
        }
    }

    /// Prints one JSON document, pretty-printed. Escapes on a terminal leave it the same document.
    pub(crate) fn json(self, value: &impl Serialize) -> PrintResult {
        self.foreign(&serde_json::to_string_pretty(value)?)
    }

    /// Prints one JSON document on one line, as [`json`](Self::json).
    pub(crate) fn json_line(self, value: &impl Serialize) -> PrintResult {
        self.foreign(&serde_json::to_string(value)?)
    }

    /// Prints a table with a row for each of `items`.
    pub(crate) fn table<'a, T: 'a>(
        self,
        columns: &[Column<T>],
        items: impl IntoIterator<Item = &'a T>,
    ) -> PrintResult {
        self.line(Layout::of_stdout(self.wide).lines(columns, items).join("\n"))
    }

    /// Prints `items` as a table or as JSON. Prints the message `none` instead of an empty table.
    pub(crate) fn list<T: Serialize>(
        self,
        columns: &[Column<T>],
        items: &[T],
        none: &str,
    ) -> PrintResult {
        if self.json {
            return self.json(&items);
        }
        if items.is_empty() {
            self.note(none);
            return Ok(());
        }
        self.table(columns, items)
    }

    /// Prints `json` with `--json`, else the data `text`.
    pub(crate) fn json_or_line(self, json: &impl Serialize, text: impl Display) -> PrintResult {
        if self.json { self.json(json) } else { self.line(text) }
    }

    /// Prints `json` with `--json`, else the message `text`.
    pub(crate) fn json_or_note(self, json: &impl Serialize, text: impl Display) -> PrintResult {
        if self.json {
            return self.json(json);
        }
        self.note(text);
        Ok(())
    }

    /// Prints a message to stderr, unless `--quiet` is set.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            say(Level::INFO, &text.to_string());
        }
    }

    /// As [`note`](Self::note), for upstream text, on one line.
    pub(crate) fn note_foreign(self, text: &str) {
        self.note(harmless(text).replace('\n', " "));
    }

    /// Whether a person can answer questions: stdin and stderr are terminals.
    pub(crate) fn can_ask(self) -> bool {
        io::stdin().is_terminal() && io::stderr().is_terminal()
    }

    /// Prints a question on stderr; every answer except `y` and `yes` is no.
    pub(crate) fn is_confirmed(self, question: &str) -> io::Result<bool> {
        let question = format!("{} [y/N] ", harmless(question).replace('\n', " "));
        let answer = self.answer(&question)?.unwrap_or_default();
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Prints `question` on stderr and reads a line; `None` at the end of the input.
    pub(crate) fn answer(self, question: &str) -> io::Result<Option<String>> {
        let mut out = AutoStream::auto(io::stderr().lock());
        write!(out, "{question}")?;
        out.flush()?;
        let mut answer = String::new();
        let read = io::stdin().lock().take(MAX_ANSWER).read_line(&mut answer)?;
        Ok((read > 0).then_some(answer))
    }

    /// Prints a message to stderr if `--verbose` is set.
    pub(crate) fn detail(self, text: impl Display) {
        if self.verbose && !self.quiet {
            say(Level::DEBUG, &text.to_string());
        }
    }

    /// Prints a warning to stderr.
    pub(crate) fn warning(self, text: impl Display) {
        say(Level::WARN, &text.to_string());
    }

    /// Prints the error of a command to stderr and, with `--json`, as an object to stdout. The object
    /// is one line, because the command may already have printed lines of JSON.
    pub(crate) fn failed(self, error: &anyhow::Error) {
        self.error(error);
        if self.json {
            // The error is printed already, so a failed write is ignored.
            self.json_line(&json!({ "error": failure::to_json(error) })).ok();
        }
    }

    /// Prints an error with its causes and hints to stderr.
    pub(crate) fn error(self, error: &anyhow::Error) {
        let described = failure::to_json(error);
        let more = ["causes", "hint"].map(|key| Some((key, described.get(key)?.clone())));
        let more = more.into_iter().flatten().filter(|(_, value)| !value.is_null());
        let stage = Stage::Serving;
        if logging::message(Level::ERROR, stage, &harmless(&error.to_string()), more) {
            return;
        }
        write(format_args!("{} {}", "error:".red().bold(), harmless(&error.to_string())));
        for cause in error.chain().skip(1) {
            write(format_args!("{} {}", "caused by:".red(), harmless(&cause.to_string())));
        }
        for hint in failure::hints(error) {
            write(format_args!("{} {}", "hint:".cyan().bold(), harmless(hint)));
        }
    }
}

/// Prints a message to stderr, as a log line if log lines are JSON.
fn say(level: Level, text: &str) {
    let text = harmless(text);
    if logging::message(level, Stage::Starting, &text, []) {
        return;
    }
    match level {
        Level::WARN => write(format_args!("{} {text}", "warning:".yellow().bold())),
        _ => write(format_args!("{text}")),
    }
}

/// Writes to stderr, ignoring failures.
fn write(text: fmt::Arguments<'_>) {
    writeln!(AutoStream::auto(io::stderr().lock()), "{text}").ok();
}

fn written(result: io::Result<()>) -> PrintResult {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("the output cannot be written"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_output_is_distinguished_from_other_failures() {
        let closed = written(Err(io::ErrorKind::BrokenPipe.into())).unwrap_err();
        assert!(closed.is::<OutputClosed>());
        let full = written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert!(!full.is::<OutputClosed>());
    }
}
