//! The results of a run as table rows, text, JSON and totals.

use std::{fmt::Write as _, time::Duration};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use crate::{
    check::{Check, Level},
    http::Host,
    protocol::Protocol,
    result::{CheckError, CheckResult, Failure},
};

/// The results of a run.
#[derive(Debug)]
pub struct Report {
    pub url: String,
    pub probes: Vec<Probe>,
    pub findings: Vec<Finding>,
}

/// Whether the host serves a protocol.
#[derive(Debug, Serialize)]
pub struct Probe {
    pub protocol: Protocol,
    pub path: String,
    #[serde(rename = "served")]
    pub is_served: bool,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub struct Finding {
    pub protocol: Protocol,
    #[serde(flatten)]
    pub check: &'static Check,
    #[serde(flatten)]
    pub outcome: Outcome,
    #[serde(rename = "durationMs", serialize_with = "milliseconds")]
    pub duration: Duration,
}

/// The outcome of a check.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub enum Outcome {
    Pass,
    Fail(Box<Failure>),
    Skip { reason: String },
}

/// The number of checks per outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub passed: usize,
    /// Failures of requirements that a host must meet.
    pub failed: usize,
    /// Failures of requirements that a host should meet.
    #[serde(rename = "missedShould")]
    pub missed: usize,
    pub skipped: usize,
}

impl Report {
    pub(crate) fn new(url: String) -> Self {
        Self { url, probes: Vec::new(), findings: Vec::new() }
    }

    pub fn totals(&self) -> Totals {
        self.findings.iter().fold(Totals::default(), |mut totals, finding| {
            match (&finding.outcome, finding.check.level) {
                (Outcome::Pass, _) => totals.passed += 1,
                (Outcome::Fail(_), Level::Must) => totals.failed += 1,
                (Outcome::Fail(_), Level::Should) => totals.missed += 1,
                (Outcome::Skip { .. }, _) => totals.skipped += 1,
            }
            totals
        })
    }

    /// Formats the failures with all details, for people.
    pub fn failures(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            let Outcome::Fail(failure) = &finding.outcome else { continue };
            let Check { id, level, section, requirement, .. } = finding.check;
            let Failure { expected, seen, exchanges } = &**failure;
            // Writing to a string cannot fail.
            writeln!(
                text,
                "\n{id} ({}, {section})\n  {requirement}\n  expected: {expected}\n  seen:     {seen}",
                level.as_str(),
            )
            .ok();
            for exchange in exchanges {
                for line in exchange.to_text().lines() {
                    writeln!(text, "    {line}").ok();
                }
            }
        }
        text
    }

    /// Converts the whole report to JSON, for programs.
    pub fn to_json(&self) -> Value {
        json!({
            "url": self.url,
            "summary": self.totals(),
            "protocols": self.probes,
            "checks": self.findings,
        })
    }
}

impl Finding {
    /// Explains the outcome in one line: the requirement, the difference, or the reason to skip.
    pub fn note(&self) -> String {
        match &self.outcome {
            Outcome::Pass => self.check.requirement.to_owned(),
            Outcome::Fail(failure) => failure.message(),
            Outcome::Skip { reason } => reason.clone(),
        }
    }
}

impl Outcome {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Skip { .. } => "skip",
        }
    }

    /// Converts the result of a check of `host` and masks the keys in it.
    pub(crate) fn from_result(result: CheckResult, host: &Host) -> Self {
        match result {
            Ok(()) => Self::Pass,
            Err(CheckError::Failed(mut failure)) => {
                failure.expected = host.masked(&failure.expected);
                failure.seen = host.masked(&failure.seen);
                Self::Fail(failure)
            }
            Err(CheckError::Skipped(reason)) => Self::Skip { reason },
        }
    }
}

fn milliseconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u64(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
}
