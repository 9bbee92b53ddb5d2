//! The results of a run as table rows, text, JSON and totals.

use std::{fmt::Write as _, time::Duration};

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
#[derive(Debug)]
pub struct Probe {
    pub protocol: Protocol,
    pub path: String,
    pub is_served: bool,
}

/// The result of one check.
#[derive(Debug)]
pub struct Finding {
    pub protocol: Protocol,
    pub check: &'static Check,
    pub outcome: Outcome,
    pub duration: Duration,
}

/// The outcome of a check.
#[derive(Debug)]
pub enum Outcome {
    Pass,
    Fail(Box<Failure>),
    Skip(String),
}

/// The number of checks per outcome.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    pub passed: usize,
    /// Failures of requirements that a host must meet.
    pub failed: usize,
    /// Failures of requirements that a host should meet.
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
                (Outcome::Skip(_), _) => totals.skipped += 1,
            }
            totals
        })
    }

    /// Returns the failures with all details, for people.
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

    /// Returns the whole report, for programs.
    pub fn to_json(&self) -> Value {
        let Totals { passed, failed, missed, skipped } = self.totals();
        let probes = self.probes.iter().map(|Probe { protocol, path, is_served }| {
            json!({ "protocol": protocol.as_str(), "path": path, "served": is_served })
        });
        json!({
            "url": self.url,
            "summary": {
                "passed": passed, "failed": failed, "missedShould": missed, "skipped": skipped,
            },
            "protocols": probes.collect::<Vec<_>>(),
            "checks": self.findings.iter().map(Finding::to_json).collect::<Vec<_>>(),
        })
    }
}

impl Finding {
    /// Explains the outcome in one line: the requirement, the difference, or the reason to skip.
    pub fn note(&self) -> String {
        match &self.outcome {
            Outcome::Pass => self.check.requirement.to_owned(),
            Outcome::Fail(failure) => failure.message(),
            Outcome::Skip(reason) => reason.clone(),
        }
    }

    fn to_json(&self) -> Value {
        let Check { id, level, section, requirement, .. } = self.check;
        let mut report = json!({
            "id": id,
            "protocol": self.protocol.as_str(),
            "level": level.as_str(),
            "section": section,
            "requirement": requirement,
            "outcome": self.outcome.as_str(),
            "durationMs": u64::try_from(self.duration.as_millis()).unwrap_or(u64::MAX),
        });
        let details = match &self.outcome {
            Outcome::Pass => json!({}),
            Outcome::Skip(reason) => json!({ "reason": reason }),
            Outcome::Fail(failure) => json!({
                "expected": failure.expected,
                "seen": failure.seen,
                "exchanges": failure.exchanges.iter().map(|it| it.to_json()).collect::<Vec<_>>(),
            }),
        };
        if let (Some(report), Value::Object(details)) = (report.as_object_mut(), details) {
            report.extend(details);
        }
        report
    }
}

impl Outcome {
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail(_) => "fail",
            Self::Skip(_) => "skip",
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
            Err(CheckError::Skipped(reason)) => Self::Skip(reason),
        }
    }
}
