//! The report as JUnit XML, which build servers read.
//!
//! A missed SHOULD is written as skipped, because build servers know no failure that is not one;
//! with `--strict` it is a failure here too.

use std::fmt::Write as _;

use super::{
    Level,
    report::{Finding, Outcome, Report},
};

/// The report as one XML document.
pub(crate) fn document(report: &Report, strict: bool) -> String {
    let mut text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n".to_owned();
    let all: Vec<&Finding> = report.findings.iter().collect();
    open(&mut text, "testsuites", "toolcrib conformance", &all, strict);
    for visit in report.visits.iter().filter(|visit| visit.served) {
        let own: Vec<&Finding> =
            all.iter().copied().filter(|it| it.protocol == visit.protocol).collect();
        open(&mut text, "testsuite", visit.protocol.as_str(), &own, strict);
        own.iter().for_each(|finding| case(&mut text, finding, strict));
        text.push_str("</testsuite>\n");
    }
    text.push_str("</testsuites>\n");
    text
}

fn open(text: &mut String, element: &str, name: &str, findings: &[&Finding], strict: bool) {
    let failures = findings.iter().filter(|it| fails(it, strict)).count();
    let skipped = findings
        .iter()
        .filter(|it| !fails(it, strict) && !matches!(it.outcome, Outcome::Pass))
        .count();
    let seconds: f64 = findings.iter().map(|it| it.took.as_secs_f64()).sum();
    let tests = findings.len();
    // Writing to a string cannot fail.
    writeln!(
        text,
        "<{element} name=\"{}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\" \
         skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        escaped(name),
    )
    .ok();
}

fn case(text: &mut String, finding: &Finding, strict: bool) {
    writeln!(
        text,
        "<testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\">",
        finding.protocol,
        escaped(finding.check.id),
        finding.took.as_secs_f64(),
    )
    .ok();
    match &finding.outcome {
        Outcome::Pass => {}
        Outcome::Skip(why) => {
            writeln!(text, "<skipped message=\"{}\"/>", escaped(why)).ok();
        }
        Outcome::Fail(failure) => {
            let message = format!("expected {}; seen: {}", failure.expected, failure.seen);
            let exchanges: String = failure.exchanges.iter().map(|it| it.told()).collect();
            let about =
                format!("{} ({})\n{exchanges}", finding.check.sentence, finding.check.section);
            match fails(finding, strict) {
                true => writeln!(
                    text,
                    "<failure type=\"{}\" message=\"{}\">{}</failure>",
                    finding.check.level.as_str(),
                    escaped(&message),
                    escaped(&about),
                ),
                false => writeln!(
                    text,
                    "<skipped message=\"{}\"/>",
                    escaped(&format!("should: {message}"))
                ),
            }
            .ok();
        }
    }
    text.push_str("</testcase>\n");
}

fn fails(finding: &Finding, strict: bool) -> bool {
    matches!(finding.outcome, Outcome::Fail(_)) && (strict || finding.check.level == Level::Must)
}

/// `text` inside an element or an attribute; what XML cannot hold becomes U+FFFD.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_cannot_hold_is_replaced() {
        assert_eq!(
            escaped("a<b>&\"\u{1b}\n\u{ffff}"),
            "a&lt;b&gt;&amp;&quot;\u{fffd}&#10;\u{fffd}"
        );
    }
}
