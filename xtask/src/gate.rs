//! The report of a task: parts that failed, and parts that did not run.
//!
//! Invariant: a part that did not run is named at the end, and in CI it is a failure.

use std::env;
use std::fmt::Display;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::shell::{say, step};

/// Collects the outcome of a task's parts, so that one failure does not hide the next.
#[derive(Debug, Default)]
pub(crate) struct Report {
    failed: Vec<String>,
    skipped: Vec<SkippedItem>,
    notes: Vec<String>,
}

/// A part or a tool that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkippedItem {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl SkippedItem {
    pub(crate) fn new(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { what: what.into(), why: why.into() }
    }
}

impl Report {
    /// Runs one part and says how long it took.
    pub(crate) fn part(&mut self, name: &str, run: impl FnOnce() -> Result<()>) {
        step(name);
        let started = Instant::now();
        match run() {
            Ok(()) => say(format_args!("--- {name}: ok in {} s", started.elapsed().as_secs())),
            Err(error) => {
                say(format_args!("--- {name}: FAILED: {error:#}"));
                self.failed.push(format!("{name}: {error:#}"));
            }
        }
    }

    /// Records a skipped part that should have run.
    pub(crate) fn skip(&mut self, skip: SkippedItem) {
        self.skipped.push(skip);
    }

    /// A note for the end of the report; it never counts as a failure.
    pub(crate) fn note(&mut self, note: impl Display) {
        self.notes.push(note.to_string());
    }

    /// Prints failures and skipped parts; fails if the task is not green.
    pub(crate) fn finish(self, task: &str) -> Result<()> {
        step(format_args!("{task}: summary"));
        for note in &self.notes {
            say(format_args!("note: {note}"));
        }
        for SkippedItem { what, why } in &self.skipped {
            say(format_args!("SKIPPED: {what}: {why}"));
        }
        for failure in &self.failed {
            say(format_args!("FAILED: {failure}"));
        }
        if !self.failed.is_empty() {
            bail!("{task}: {} failed", self.failed.len());
        }
        if in_ci() && !self.skipped.is_empty() {
            bail!("{task}: {} left out, which counts as failed in CI", self.skipped.len());
        }
        say(format_args!("{task}: ok"));
        Ok(())
    }
}

/// Whether `CI` says that this is an unattended run.
pub(crate) fn in_ci() -> bool {
    env::var("CI").is_ok_and(|value| matches!(value.as_str(), "true" | "1"))
}
