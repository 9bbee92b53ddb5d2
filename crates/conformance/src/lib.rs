//! Black-box conformance checks for any host of OpenWOP (both versions), Open Tool Calling, OXP, the embedded
//! explorer or MCP.
//!
//! A [`Check`] is data and one function. The list of checks, the table in the documentation and the
//! tests all read the same [`suites`]. A check sends requests through its [`Target`] and returns a
//! `CheckResult`; the requests and responses that explain a failure are part of it.
//!
//! This crate is the judge. It therefore shares no protocol code with the implementations in this
//! repository: names, parsers and encodings are written again from the specifications, so that a
//! mistake in an implementation cannot hide behind the same mistake here.
//!
//! Invariant: requests, their duration and the size of responses are bounded.
//! Invariant: a tool is called only if the host marks it as read-only or the user names it (I-33).

#[cfg(feature = "broken")]
pub mod broken;
mod check;
mod explorer;
mod http;
pub mod junit;
mod mcp;
mod open_tool_calling;
mod openwop;
mod openwop2;
mod otc;
mod oxp;
mod protocol;
mod report;
mod result;
mod schema;
pub mod table;
mod target;
mod value;

use std::{sync::Arc, time::Instant};

pub use check::{Check, Level, Suite};
pub use http::{Host, HostKeys};
pub use protocol::Protocol;
pub use report::{Finding, Outcome, Probe, Report, Totals};
pub use result::Failure;
pub use target::{NamedTool, Options, Target};

pub(crate) use check::checks;
pub(crate) use result::{CheckResult, fail, require, skip, skip_unless};

/// Returns every suite, in the order in which they run.
pub fn suites() -> &'static [Suite] {
    &[openwop::SUITE, openwop2::SUITE, otc::SUITE, oxp::SUITE, explorer::SUITE, mcp::SUITE]
}

/// What to check, and with which options.
#[derive(Debug, Default)]
pub struct Plan {
    /// The protocols to check; if empty, those that the host serves.
    pub protocols: Vec<Protocol>,
    /// Paths of protocols that the host does not serve at the usual path.
    pub paths: Vec<(Protocol, String)>,
    /// Ids of checks or groups; if empty, all checks.
    pub only: Vec<String>,
    pub options: Options,
}

/// Runs the checks of `plan` against `host` and calls `on_finding` after each.
pub async fn run(host: &Arc<Host>, plan: &Plan, mut on_finding: impl FnMut(&Finding)) -> Report {
    let mut report = Report::new(host.base().to_owned());
    for suite in suites().iter().filter(|suite| plan.includes_suite(suite)) {
        let selected = || suite.all().filter(|check| plan.includes_check(check));
        if selected().next().is_none() {
            continue;
        }
        let explorer = plan.path(&explorer::SUITE);
        let target = Target::new(
            Arc::clone(host),
            suite.protocol,
            plan.path(suite),
            explorer,
            plan.options.clone(),
        );
        let is_required = plan.protocols.contains(&suite.protocol);
        let is_served = is_required || (suite.is_served)(&target).await;
        let path = plan.path(suite).to_owned();
        report.probes.push(Probe { protocol: suite.protocol, path, is_served });
        if !is_served {
            continue;
        }
        for check in selected() {
            let start = Instant::now();
            let result = (check.run)(&target).await;
            let finding = Finding {
                protocol: suite.protocol,
                check,
                outcome: Outcome::from_result(result, host),
                duration: start.elapsed(),
            };
            on_finding(&finding);
            report.findings.push(finding);
        }
    }
    report
}

impl Plan {
    /// The selected checks of all suites, in order.
    pub fn checks(&self) -> impl Iterator<Item = &'static Check> {
        let suites = suites().iter().filter(|suite| self.includes_suite(suite));
        suites.flat_map(Suite::all).filter(|check| self.includes_check(check))
    }

    fn includes_suite(&self, suite: &Suite) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&suite.protocol)
    }

    fn includes_check(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|group| check.is_in(group))
    }

    fn path<'a>(&'a self, suite: &Suite) -> &'a str {
        let own = self.paths.iter().rev().find(|(protocol, _)| *protocol == suite.protocol);
        own.map_or(suite.path, |(_, path)| path)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_are_unique_and_start_with_their_protocol() {
        let mut seen = BTreeSet::new();
        for suite in suites() {
            for check in suite.all() {
                assert!(check.id.starts_with(&format!("{}.", suite.protocol)), "{}", check.id);
                assert!(seen.insert(check.id), "{}", check.id);
                let is_sentence = !check.requirement.ends_with('.') && !check.section.is_empty();
                assert!(is_sentence, "{}", check.id);
            }
        }
    }

    #[test]
    fn a_group_is_not_a_prefix_of_a_word() {
        let plan = |only: &str| Plan { only: vec![only.to_owned()], ..Plan::default() };
        let has_sorted =
            |only| plan(only).checks().any(|check| check.id == "openwop.catalog.sorted");
        assert!(has_sorted("openwop.catalog") && has_sorted("openwop.catalog.sorted"));
        assert!(!has_sorted("openwop.cat"));
    }
}
