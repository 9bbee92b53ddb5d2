//! What came out of it, as a table, as JSON and in numbers.

use std::{fmt::Write as _, time::Duration};

use serde_json::{Value, json};

use super::{Check, Failure, Host, Level, Protocol, Stop, Verdict};

/// Everything that came out.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) url: String,
    pub(crate) visits: Vec<Visit>,
    pub(crate) findings: Vec<Finding>,
}

/// Where a protocol was looked for.
#[derive(Debug)]
pub(crate) struct Visit {
    pub(crate) protocol: Protocol,
    pub(crate) path: String,
    pub(crate) served: bool,
}

/// How one check ended.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) protocol: Protocol,
    pub(crate) check: &'static Check,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
}

/// How a check ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    Pass,
    Fail(Box<Failure>),
    Skip(String),
}

/// How many checks ended how.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) passed: usize,
    /// Of what a host must do.
    pub(crate) failed: usize,
    /// Of what a host should do.
    pub(crate) missed: usize,
    pub(crate) skipped: usize,
}

impl Report {
    pub(super) fn new(url: String) -> Self {
        Self { url, visits: Vec::new(), findings: Vec::new() }
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals::of(self.findings.iter())
    }

    /// The findings as rows: outcome, id, level, and a note, which is cut unless it is wanted `whole`.
    pub(crate) fn rows(&self, whole: bool) -> impl Iterator<Item = [String; 4]> {
        self.findings.iter().map(move |finding| {
            let note = match &finding.outcome {
                Outcome::Pass => finding.check.sentence.to_owned(),
                Outcome::Fail(failure) => {
                    format!("expected {}; seen: {}", failure.expected, failure.seen)
                }
                Outcome::Skip(why) => why.clone(),
            };
            [
                finding.word().to_uppercase(),
                finding.check.id.to_owned(),
                finding.check.level.as_str().to_owned(),
                if whole { note } else { short(&note) },
            ]
        })
    }

    /// Everything about every failure, for people.
    pub(crate) fn failures(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Outcome::Fail(failure) = &finding.outcome else { continue };
            let check = finding.check;
            // Writing to a string cannot fail.
            writeln!(
                text,
                "\n{} ({}, {})\n  {}\n  expected: {}\n  seen:     {}",
                check.id,
                check.level.as_str(),
                check.section,
                check.sentence,
                failure.expected,
                failure.seen
            )
            .ok();
            for exchange in &failure.exchanges {
                for line in exchange.told().lines() {
                    writeln!(text, "    {line}").ok();
                }
            }
        }
        text
    }

    /// Everything, for programs.
    pub(crate) fn json(&self) -> Value {
        let Totals { passed, failed, missed, skipped } = self.totals();
        let visits = self.visits.iter().map(|visit| {
            json!({ "protocol": visit.protocol.as_str(), "path": visit.path, "served": visit.served })
        });
        json!({
            "url": self.url,
            "summary": {
                "passed": passed, "failed": failed, "missedShould": missed, "skipped": skipped,
            },
            "protocols": visits.collect::<Vec<_>>(),
            "checks": self.findings.iter().map(Finding::json).collect::<Vec<_>>(),
        })
    }
}

impl Totals {
    pub(crate) fn of<'a>(findings: impl Iterator<Item = &'a Finding>) -> Self {
        findings.fold(Self::default(), |mut totals, finding| {
            match (&finding.outcome, finding.check.level) {
                (Outcome::Pass, _) => totals.passed += 1,
                (Outcome::Fail(_), Level::Must) => totals.failed += 1,
                (Outcome::Fail(_), Level::Should) => totals.missed += 1,
                (Outcome::Skip(_), _) => totals.skipped += 1,
            }
            totals
        })
    }
}

impl Finding {
    /// The outcome in one word.
    pub(crate) fn word(&self) -> &'static str {
        match self.outcome {
            Outcome::Pass => "pass",
            Outcome::Fail(_) => "fail",
            Outcome::Skip(_) => "skip",
        }
    }

    fn json(&self) -> Value {
        let mut told = json!({
            "id": self.check.id,
            "protocol": self.protocol.as_str(),
            "level": self.check.level.as_str(),
            "section": self.check.section,
            "sentence": self.check.sentence,
            "outcome": self.word(),
            "durationMs": u64::try_from(self.took.as_millis()).unwrap_or(u64::MAX),
        });
        let more = match &self.outcome {
            Outcome::Pass => json!({}),
            Outcome::Skip(why) => json!({ "reason": why }),
            Outcome::Fail(failure) => json!({
                "expected": failure.expected,
                "seen": failure.seen,
                "exchanges": failure.exchanges.iter().map(|it| it.shown()).collect::<Vec<_>>(),
            }),
        };
        if let (Some(told), Value::Object(more)) = (told.as_object_mut(), more) {
            told.extend(more);
        }
        told
    }
}

impl Outcome {
    /// The outcome of a check of `host`, whose keys are masked in it.
    pub(super) fn of(verdict: Verdict, host: &Host) -> Self {
        match verdict {
            Ok(()) => Self::Pass,
            Err(Stop::Failed(mut failure)) => {
                failure.expected = host.masked(&failure.expected);
                failure.seen = host.masked(&failure.seen);
                Self::Fail(failure)
            }
            Err(Stop::Skipped(why)) => Self::Skip(why),
        }
    }
}

/// `text` as long as a row of a table bears.
fn short(text: &str) -> String {
    const MOST: usize = 160;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
