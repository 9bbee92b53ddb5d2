//! The one door for output: data goes to stdout, words for people to stderr.
//!
//! Invariant: a reader that goes away ends the program quietly ([`OutputClosed`]).
//! Invariant: colours, control characters and those that change the direction of text reach nothing but what may show them.

use std::{
    fmt::{self, Display},
    io::{self, IsTerminal as _, Write},
};

use anstream::AutoStream;
use owo_colors::OwoColorize as _;
use serde::Serialize;
use serde_json::json;
use toolcrib_core::text::seen;

use crate::{
    args::{Global, OutputFormat},
    failure,
    table::{Column, Layout},
};

/// Prints. Cheap to copy.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Printer {
    json: bool,
    wide: bool,
    quiet: bool,
    verbose: bool,
}

/// Whoever read stdout has gone.
#[derive(Debug)]
pub(crate) struct OutputClosed;

/// What a print may end in.
pub(crate) type Printed = anyhow::Result<()>;

impl Printer {
    pub(crate) fn new(global: &Global, output: Option<OutputFormat>) -> Self {
        Self {
            json: global.json || output == Some(OutputFormat::Json),
            wide: output == Some(OutputFormat::Wide),
            quiet: global.quiet,
            verbose: global.verbose > 0,
        }
    }

    /// The same, but always with text for people.
    pub(crate) fn without_json(self) -> Self {
        Self { json: false, ..self }
    }

    /// Whether the caller wants JSON instead of text for people.
    pub(crate) fn wants_json(self) -> bool {
        self.json
    }

    /// Whether the caller wants tables in full.
    pub(crate) fn wants_wide(self) -> bool {
        self.wide
    }

    /// Whether the caller wants few words.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// One line of data.
    pub(crate) fn line(self, text: impl Display) -> Printed {
        written(writeln!(AutoStream::auto(io::stdout().lock()), "{text}"))
    }

    /// Data as it is, bytes for bytes.
    pub(crate) fn bytes(self, bytes: &[u8]) -> Printed {
        let mut out = io::stdout().lock();
        written(out.write_all(bytes).and_then(|()| out.flush()))
    }

    /// Text that somebody else wrote. A terminal gets it without control characters, which could
    /// otherwise rewrite what stands on the screen; a pipe gets it as it is.
    pub(crate) fn foreign(self, text: &str) -> Printed {
        let mut out = io::stdout().lock();
        match out.is_terminal() {
            true => written(writeln!(out, "{}", harmless(text))),
            false => written(writeln!(out, "{text}")),
        }
    }

    /// One JSON document, laid out for people and programs.
    pub(crate) fn json(self, value: &impl Serialize) -> Printed {
        self.line(serde_json::to_string_pretty(value)?)
    }

    /// One JSON document on one line.
    pub(crate) fn json_line(self, value: &impl Serialize) -> Printed {
        self.line(serde_json::to_string(value)?)
    }

    /// A table of data.
    pub(crate) fn table<const N: usize>(
        self,
        head: [Column; N],
        rows: impl IntoIterator<Item = [String; N]>,
    ) -> Printed {
        let rows = rows.into_iter().map(|row| row.map(|cell| harmless(&cell)));
        self.line(Layout::of_stdout(self.wide).lines(head, rows).join("\n"))
    }

    /// Something worth knowing.
    pub(crate) fn note(self, text: impl Display) {
        if !self.quiet {
            say(format_args!("{}", harmless(&text.to_string())));
        }
    }

    /// As [`note`](Self::note), with text that somebody else wrote.
    pub(crate) fn note_foreign(self, text: &str) {
        self.note(harmless(text).replace('\n', " "));
    }

    /// Something worth knowing for whoever asked for more.
    pub(crate) fn detail(self, text: impl Display) {
        if self.verbose && !self.quiet {
            say(format_args!("{}", harmless(&text.to_string())));
        }
    }

    /// Something that may go wrong.
    pub(crate) fn warning(self, text: impl Display) {
        let text = harmless(&text.to_string());
        say(format_args!("{} {text}", "warning:".yellow().bold()));
    }

    /// What a command failed with: in words, and as data for whoever wants JSON. The data is one
    /// line, because a command that prints lines of JSON may have printed some.
    pub(crate) fn failed(self, error: &anyhow::Error) {
        self.error(error);
        if self.json {
            // Nobody can be told that the output cannot be written.
            self.json_line(&json!({ "error": failure::told(error) })).ok();
        }
    }

    /// What went wrong, why, and what to do.
    pub(crate) fn error(self, error: &anyhow::Error) {
        say(format_args!("{} {}", "error:".red().bold(), harmless(&error.to_string())));
        for cause in error.chain().skip(1) {
            say(format_args!("{} {}", "caused by:".red(), harmless(&cause.to_string())));
        }
        for hint in failure::hints(error) {
            say(format_args!("{} {}", "hint:".cyan().bold(), harmless(hint)));
        }
    }
}

/// Words are best effort: without a stderr there is nobody to tell.
fn say(text: fmt::Arguments<'_>) {
    writeln!(AutoStream::auto(io::stderr().lock()), "{text}").ok();
}

fn written(result: io::Result<()>) -> Printed {
    result.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputClosed.into(),
        _ => anyhow::Error::new(error).context("the output cannot be written"),
    })
}

/// `text` without control characters other than line breaks and tabs, and without other characters
/// that are not seen, such as those that change the direction of their neighbours.
pub(crate) fn harmless(text: &str) -> String {
    seen(text).replace('\r', "")
}

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the output has gone")
    }
}

impl std::error::Error for OutputClosed {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_do_not_reach_a_terminal() {
        assert_eq!(harmless("a\u{1b}[2Jb\tc\nd\u{7}\u{9b}1m"), "a[2Jb\tc\nd1m");
        let hidden = ('\u{202a}'..='\u{202e}').chain('\u{2066}'..='\u{2069}');
        for c in hidden.chain(['\u{200e}', '\u{200f}', '\u{200b}', '\u{e0041}', '\r']) {
            assert_eq!(harmless(&format!("gpj{c}exe")), "gpjexe", "{c:?}");
        }
    }

    #[test]
    fn a_closed_output_is_told_from_other_failures() {
        let closed = written(Err(io::ErrorKind::BrokenPipe.into())).unwrap_err();
        assert!(closed.is::<OutputClosed>());
        let full = written(Err(io::ErrorKind::StorageFull.into())).unwrap_err();
        assert!(!full.is::<OutputClosed>());
    }
}
