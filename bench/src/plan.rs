//! The plan of the measurements: pairs of a subject and its limit, and the goal for their ratio.

use std::fmt;
use std::sync::Arc;

use crate::load::Shot;
use crate::subject::SourceKind;

/// The server that a shot goes to; its processor time and memory are measured.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum MeasuredServer {
    Static,
    Upstream,
    Proxy,
    Strict,
    /// With a log that is synced before a call starts, and after its answer.
    Opening,
    Relaxed,
    /// With one more source, and the strict or the relaxed log.
    Source(SourceKind, Durability),
    Pack,
    /// With a source to which callers connect accounts, and the relaxed log.
    Account,
    Crowd,
    /// A gateway of another project, by its name.
    Peer(Arc<str>),
}

/// When toolcrib answers: after the event is on the disk, or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Durability {
    Strict,
    Relaxed,
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) ours: (MeasuredServer, Shot),
    pub(crate) limit: (MeasuredServer, Shot),
    /// The required throughput, as a share of the limit's; 0 without a goal.
    pub(crate) goal: f64,
}

/// A row or a server without a measurement.
#[derive(Debug)]
pub(crate) struct MissingMeasurement {
    pub(crate) what: String,
    pub(crate) why: String,
}

impl MissingMeasurement {
    /// The report has the first line of the reason, because logs can be long.
    pub(crate) fn new(what: impl fmt::Display, why: impl fmt::Display) -> Self {
        let why: String =
            why.to_string().lines().next().unwrap_or_default().chars().take(200).collect();
        Self { what: what.to_string(), why: why.replace('|', "/") }
    }
}

impl Durability {
    pub(crate) const ALL: [Self; 2] = [Self::Strict, Self::Relaxed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Relaxed => "relaxed",
        }
    }

    /// The last part of a row's name.
    pub(crate) fn suffix(self) -> &'static str {
        match self {
            Self::Strict => "",
            Self::Relaxed => ", relaxed log",
        }
    }
}

impl MeasuredServer {
    /// The name of a gateway of another project; empty for others.
    pub(crate) fn gateway(&self) -> &str {
        match self {
            Self::Peer(name) => name,
            _ => "",
        }
    }
}

impl fmt::Display for MeasuredServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Static => "bytes from memory",
            Self::Upstream => "MCP server directly",
            Self::Proxy => "bare reverse proxy",
            Self::Strict => "toolcrib",
            Self::Opening => "toolcrib, opening log",
            Self::Relaxed => "toolcrib, relaxed log",
            Self::Source(kind, durability) => {
                return write!(f, "toolcrib{}, and {kind}", durability.suffix());
            }
            Self::Pack => "toolcrib, relaxed log, pack",
            Self::Account => "toolcrib, relaxed log, account",
            Self::Crowd => "toolcrib, 10 000 keys of 500 roles",
            Self::Peer(name) => name,
        })
    }
}
