//! The plan of the measurements: pairs of a subject and its limit, and the goal for their ratio.

use crate::load::Shot;

/// The server that a shot goes to; its processor time and memory are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Static,
    Upstream,
    Proxy,
    Strict,
    Relaxed,
    Pack,
    Crowd,
}

impl Who {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Static => "bytes from memory",
            Self::Upstream => "MCP server directly",
            Self::Proxy => "bare reverse proxy",
            Self::Strict => "toolcrib",
            Self::Relaxed => "toolcrib, relaxed log",
            Self::Pack => "toolcrib, relaxed log, pack",
            Self::Crowd => "toolcrib, 10 000 keys of 500 roles",
        }
    }
}

/// One row of the table.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) name: &'static str,
    pub(crate) ours: (Who, Shot),
    pub(crate) limit: (Who, Shot),
    /// The required throughput, as a share of the limit's.
    pub(crate) goal: f64,
}
