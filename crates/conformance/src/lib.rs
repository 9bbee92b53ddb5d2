//! Black-box conformance checks for any host of OpenWOP, Open Tool Calling, OXP, the embedded
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
mod explorer;
mod http;
pub mod junit;
mod mcp;
mod open_tool_calling;
mod openwop;
mod otc;
mod oxp;
mod report;
mod schema;
pub mod table;
mod target;
mod value;

use std::{fmt, future::Future, pin::Pin, str::FromStr, sync::Arc, time::Instant};

pub use http::{Host, HostKeys};
pub use report::{Finding, Outcome, Probe, Report, Totals};
pub use target::{NamedTool, Options, Target};

use http::Response;

/// A requirement and the function that checks it.
#[derive(Debug)]
pub struct Check {
    /// Stable name: `protocol.area.requirement`.
    pub id: &'static str,
    pub level: Level,
    /// The section of the specification that contains the requirement.
    pub section: &'static str,
    /// The requirement in one sentence, without a full stop.
    pub requirement: &'static str,
    run: for<'a> fn(&'a Target) -> CheckFuture<'a>,
}

/// How binding a requirement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// A host that does not meet it does not conform.
    Must,
    /// A host may have reasons not to meet it; failures are reported as warnings.
    Should,
}

/// A protocol with a suite of checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protocol {
    Openwop,
    Otc,
    Oxp,
    Explorer,
    Mcp,
}

/// All checks of one protocol.
pub struct Suite {
    pub protocol: Protocol,
    /// The path under which hosts usually serve the protocol.
    path: &'static str,
    /// Returns whether the host serves the protocol there.
    is_served: for<'a> fn(&'a Target) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>,
    checks: &'static [&'static [Check]],
}

/// A running check.
type CheckFuture<'a> = Pin<Box<dyn Future<Output = CheckResult> + Send + 'a>>;

/// The result of a check, or of one step of it.
type CheckResult<T = ()> = Result<T, CheckError>;

/// Why a check did not pass.
#[derive(Debug)]
enum CheckError {
    /// The host does not meet the requirement.
    Failed(Box<Failure>),
    /// The check does not apply or lacks input, with the reason.
    Skipped(String),
}

/// A requirement that the host does not meet.
#[derive(Debug)]
pub struct Failure {
    pub expected: String,
    pub seen: String,
    /// The requests and responses that show it.
    exchanges: Vec<Response>,
}

/// A table of checks: id, level, section, function and requirement of each.
macro_rules! checks {
    ($($id:expr, $level:ident, $section:literal, $run:path: $requirement:literal;)*) => {
        &[$($crate::Check {
            id: $id,
            level: $crate::Level::$level,
            section: $section,
            requirement: $requirement,
            run: |target| Box::pin($run(target)),
        }),*]
    };
}
use checks;

/// Returns every suite, in the order in which they run.
pub fn suites() -> &'static [Suite] {
    &[openwop::SUITE, otc::SUITE, oxp::SUITE, explorer::SUITE, mcp::SUITE]
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
        let target = Target::new(Arc::clone(host), plan, suite);
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

impl Suite {
    /// Returns the checks in order.
    pub fn all(&self) -> impl Iterator<Item = &'static Check> {
        self.checks.iter().copied().flatten()
    }
}

impl Plan {
    /// Returns the selected checks with their suites, in order.
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

impl Check {
    /// Returns whether `group` is the id of this check or of a group that contains it.
    pub fn is_in(&self, group: &str) -> bool {
        let rest = self.id.strip_prefix(group);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}

impl Level {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
        }
    }
}

impl Protocol {
    pub const ALL: [Self; 5] = [Self::Openwop, Self::Otc, Self::Oxp, Self::Explorer, Self::Mcp];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Openwop => "openwop",
            Self::Otc => "otc",
            Self::Oxp => "oxp",
            Self::Explorer => "explorer",
            Self::Mcp => "mcp",
        }
    }

    /// Returns the name of the protocol for people.
    pub fn title(self) -> &'static str {
        match self {
            Self::Openwop => "OpenWOP tool catalog and tool hooks",
            Self::Otc => "Open Tool Calling 1.0",
            Self::Oxp => "OXP 1.0",
            Self::Explorer => "The embedded tool explorer",
            Self::Mcp => "MCP over streamable HTTP",
        }
    }
}

impl FromStr for Protocol {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|protocol| protocol.as_str() == name);
        found.ok_or_else(|| {
            format!(
                "unknown protocol `{name}`; use one of {}",
                Self::ALL.map(Self::as_str).join(", ")
            )
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Skips the check because it does not apply or lacks input.
fn skip<T>(reason: impl Into<String>) -> CheckResult<T> {
    Err(CheckError::Skipped(reason.into()))
}

/// Fails the check; `exchanges` show why.
fn fail<T>(
    expected: impl Into<String>,
    seen: impl Into<String>,
    exchanges: &[&Response],
) -> CheckResult<T> {
    let exchanges = exchanges.iter().map(|&response| Arc::clone(response)).collect();
    let failure = Failure { expected: expected.into(), seen: seen.into(), exchanges };
    Err(CheckError::Failed(Box::new(failure)))
}

/// Fails the check unless `holds`.
fn require(
    holds: bool,
    expected: impl Into<String>,
    seen: impl Into<String>,
    exchanges: &[&Response],
) -> CheckResult {
    if holds { Ok(()) } else { fail(expected, seen, exchanges) }
}

/// Skips the check unless `applies`.
fn skip_unless(applies: bool, reason: impl Into<String>) -> CheckResult {
    if applies { Ok(()) } else { skip(reason) }
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
        let has_sorted = |only| plan(only).checks().any(|it| it.id == "openwop.catalog.sorted");
        assert!(has_sorted("openwop.catalog") && has_sorted("openwop.catalog.sorted"));
        assert!(!has_sorted("openwop.cat"));
    }
}
