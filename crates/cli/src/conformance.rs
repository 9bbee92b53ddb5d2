//! Black-box checks of any host: what the protocols require, looked at from outside.
//!
//! A [`Check`] is data and one function; the table in `docs/reference/conformance.md`, `--list` and the tests
//! that prove that every check can fail go over the same [`suites`]. A check asks the host through
//! [`Site`], which keeps what was asked and answered, and ends in a [`Verdict`].
//!
//! Invariant: checks are written from the specifications and know nothing about toolcrib.
//! Invariant: everything is bounded: requests, their time, the size of answers. A tool is called
//! only when the host says that it is harmless, or when the user named it.

mod calling;
mod exchange;
mod explorer;
pub(crate) mod junit;
mod mcp;
mod openwop;
mod otc;
mod oxp;
pub(crate) mod report;
mod shape;
mod site;
pub(crate) mod table;

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Instant};

use clap::ValueEnum;

pub(crate) use exchange::{Ask, Got, Host, HostKeys};
pub(crate) use report::{Finding, Outcome, Report, Visit};
pub(crate) use site::{NamedTool, Options, Site};

/// One requirement and how it is looked at.
#[derive(Debug)]
pub(crate) struct Check {
    /// Stable name: `protocol.area.requirement`.
    pub(crate) id: &'static str,
    /// How binding it is.
    pub(crate) level: Level,
    /// Where the specification says it.
    pub(crate) section: &'static str,
    /// What it says, in our words.
    pub(crate) sentence: &'static str,
    /// Looks at the host.
    pub(crate) run: for<'a> fn(&'a Site) -> Running<'a>,
}

/// How binding a requirement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Level {
    /// A host that does otherwise does not conform.
    Must,
    /// A host may have reasons to do otherwise; it is reported and does not change the exit code.
    Should,
}

/// A protocol that can be checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Protocol {
    /// OpenWOP tool catalog and tool hooks
    Openwop,
    /// Open Tool Calling 1.0
    Otc,
    /// OXP 1.0
    Oxp,
    /// The embedded tool explorer
    Explorer,
    /// MCP over streamable HTTP
    Mcp,
}

/// All checks of one protocol.
pub(crate) struct Suite {
    pub(crate) protocol: Protocol,
    /// Where the protocol usually starts on a host.
    pub(crate) path: &'static str,
    /// Whether it is served there at all.
    pub(crate) served: for<'a> fn(&'a Site) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>,
    pub(crate) checks: &'static [&'static [Check]],
}

/// A check at work.
pub(crate) type Running<'a> = Pin<Box<dyn Future<Output = Verdict> + Send + 'a>>;

/// How a check ended; `?` ends it early.
pub(crate) type Verdict<T = ()> = Result<T, Stop>;

/// Why a check did not pass.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The host does otherwise.
    Failed(Box<Failure>),
    /// It could not be looked at, and why.
    Skipped(String),
}

/// What a host did otherwise.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) expected: String,
    pub(crate) seen: String,
    /// What shows it.
    pub(crate) exchanges: Vec<Got>,
}

/// A row of a table of checks.
macro_rules! check {
    ($id:expr, $level:ident, $section:literal, $sentence:literal, $run:path) => {
        $crate::conformance::Check {
            id: $id,
            level: $crate::conformance::Level::$level,
            section: $section,
            sentence: $sentence,
            run: |site| Box::pin($run(site)),
        }
    };
}
pub(crate) use check;

/// Every suite, in the order in which they run.
pub(crate) fn suites() -> &'static [Suite] {
    &[openwop::SUITE, otc::SUITE, oxp::SUITE, explorer::SUITE, mcp::SUITE]
}

/// What shall be done.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The protocols to check; none: those that the host serves.
    pub(crate) protocols: Vec<Protocol>,
    /// Where protocols start, if not at their usual path.
    pub(crate) paths: Vec<(Protocol, String)>,
    /// Ids of checks, or of groups of them; none: all.
    pub(crate) only: Vec<String>,
    pub(crate) options: Options,
}

/// Checks `host`; `told` hears each finding as it comes.
pub(crate) async fn run(host: &Arc<Host>, plan: &Plan, mut told: impl FnMut(&Finding)) -> Report {
    let mut report = Report::new(host.base().to_owned());
    for suite in suites().iter().filter(|suite| plan.wants(suite)) {
        let chosen = || suite.all().filter(|check| plan.chooses(check));
        if chosen().next().is_none() {
            continue;
        }
        let path = plan.path(suite);
        let site = Site::new(Arc::clone(host), plan, suite);
        let named = plan.protocols.contains(&suite.protocol);
        let served = named || (suite.served)(&site).await;
        report.visits.push(Visit { protocol: suite.protocol, path: path.to_owned(), served });
        if !served {
            continue;
        }
        for check in chosen() {
            let start = Instant::now();
            let verdict = (check.run)(&site).await;
            let finding = Finding {
                protocol: suite.protocol,
                check,
                outcome: Outcome::of(verdict, host),
                took: start.elapsed(),
            };
            told(&finding);
            report.findings.push(finding);
        }
    }
    report
}

impl Suite {
    /// The checks in order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'static Check> {
        self.checks.iter().copied().flatten()
    }
}

impl Plan {
    fn wants(&self, suite: &Suite) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&suite.protocol)
    }

    pub(crate) fn path<'a>(&'a self, suite: &Suite) -> &'a str {
        let own = self.paths.iter().rev().find(|(protocol, _)| *protocol == suite.protocol);
        own.map_or(suite.path, |(_, path)| path)
    }

    fn chooses(&self, check: &Check) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| matches(check.id, only))
    }
}

/// Whether `only` is `id` or a group that it is in.
pub(crate) fn matches(id: &str, only: &str) -> bool {
    id.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

impl Level {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Must => "must",
            Self::Should => "should",
        }
    }
}

impl Protocol {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Openwop => "openwop",
            Self::Otc => "otc",
            Self::Oxp => "oxp",
            Self::Explorer => "explorer",
            Self::Mcp => "mcp",
        }
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A check that cannot be made here, and why.
pub(crate) fn skip<T>(why: impl Into<String>) -> Verdict<T> {
    Err(Stop::Skipped(why.into()))
}

/// Something else was seen than expected, shown by `exchanges`.
pub(crate) fn fail<T>(
    expected: impl Into<String>,
    seen: impl Into<String>,
    exchanges: &[&Got],
) -> Verdict<T> {
    let exchanges = exchanges.iter().map(|&got| Arc::clone(got)).collect();
    Err(Stop::Failed(Box::new(Failure { expected: expected.into(), seen: seen.into(), exchanges })))
}

#[cfg(test)]
mod tests;
