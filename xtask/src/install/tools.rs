//! The tools that the tests are passed.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::gate::SkippedItem;
use crate::shell::say;

/// The tools that were found or installed.
#[derive(Debug, Default)]
pub(crate) struct Tools {
    variables: Vec<(&'static str, OsString)>,
    skipped: Vec<SkippedItem>,
}

impl Tools {
    /// The variables, for a test run.
    pub(crate) fn apply(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
    }

    /// The variables as lines for a shell.
    pub(crate) fn exports(&self) -> String {
        let quoted = |value: &OsString| value.to_string_lossy().replace('\'', r"'\''");
        let line =
            |(name, value): &(&str, OsString)| format!("export {name}='{}'\n", quoted(value));
        self.variables.iter().map(line).collect()
    }

    /// One variable's value.
    pub(crate) fn get(&self, name: &str) -> Option<PathBuf> {
        self.variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
    }

    /// The unavailable tools.
    pub(crate) fn skipped(&self) -> &[SkippedItem] {
        &self.skipped
    }

    pub(super) fn set(&mut self, name: &'static str, value: impl Into<OsString>) {
        let value = env::var_os(name).unwrap_or_else(|| value.into());
        self.variables.push((name, value));
    }

    pub(super) fn keep<T>(&mut self, what: &str, outcome: Result<T>) -> Option<T> {
        match outcome {
            Ok(found) => Some(found),
            Err(error) => {
                say(format_args!("not available: {what}: {error:#}"));
                self.skipped.push(SkippedItem::new(what, format!("{error:#}")));
                None
            }
        }
    }
}
