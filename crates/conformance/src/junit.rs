//! The report as JUnit XML for CI servers.
//!
//! A failure of a SHOULD requirement is written as skipped, because JUnit has no warnings; with
//! `--strict` it is a failure.

use quick_junit::{NonSuccessKind, Report as Document, TestCase, TestCaseStatus, TestSuite};

use crate::{Failure, Finding, Level, Outcome, Report};

/// Writes the report as an XML document.
pub fn document(report: &Report, is_strict: bool) -> Result<String, quick_junit::SerializeError> {
    let mut document = Document::new("toolcrib conformance");
    document.set_time(report.findings.iter().map(|finding| finding.duration).sum());
    for probe in report.probes.iter().filter(|probe| probe.is_served) {
        let findings = report.findings.iter().filter(|finding| finding.protocol == probe.protocol);
        let mut suite = TestSuite::new(probe.protocol.as_str());
        suite.set_time(findings.clone().map(|finding| finding.duration).sum());
        suite.add_test_cases(findings.map(|finding| test_case(finding, is_strict)));
        document.add_test_suite(suite);
    }
    document.to_string()
}

fn test_case(finding: &Finding, is_strict: bool) -> TestCase {
    let check = finding.check;
    let status = match &finding.outcome {
        Outcome::Pass => TestCaseStatus::success(),
        Outcome::Skip { reason } => skipped(reason),
        Outcome::Fail(failure) if is_strict || check.level == Level::Must => {
            let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
            status.set_type(check.level.as_str());
            status.set_message(failure.message());
            status.set_description(description(finding, failure));
            status
        }
        Outcome::Fail(failure) => skipped(&format!("should: {}", failure.message())),
    };
    let mut case = TestCase::new(check.id, status);
    case.set_classname(finding.protocol.as_str());
    case.set_time(finding.duration);
    case
}

fn skipped(message: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(message);
    status
}

fn description(finding: &Finding, failure: &Failure) -> String {
    let exchanges: String = failure.exchanges.iter().map(|exchange| exchange.to_text()).collect();
    format!("{} ({})\n{exchanges}", finding.check.requirement, finding.check.section)
}
