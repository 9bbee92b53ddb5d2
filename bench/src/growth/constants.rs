//! The constants of the model: measured figures, and assumptions about the rest.
//! `bench/growth.toml` keeps them, with the machine, the build and the date of the measurement.

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::model::Line;

const FILE: &str = include_str!("../../growth.toml");
const HEAD: &str = "\
# The constants of the model of growth. `toolcrib-bench growth --measure postgres://… --write FILE`
# writes the measured ones, and leaves `call_us` and `redis_per_second`, which are written by hand.
# `_us` are microseconds. Units and meanings: bench/src/growth/constants.rs.
";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Constants {
    pub(super) date: String,
    pub(super) commit: String,
    pub(super) machine: String,
    pub(super) postgres: String,
    pub(super) build: String,
    /// Processor time of a server per call without a database: `MCP tools/call`, strict log, 512
    /// connections, in docs/reference/benchmarks.md.
    pub(super) call_us: f64,
    /// Assumed: steps of rate limits that one Valkey or Redis makes per second.
    pub(super) redis_per_second: f64,
    pub(super) measured: UnitFigures,
    pub(super) groups: Vec<Group>,
}

/// Figures per event or per statement. `database` is processor time of the database; the others are
/// elapsed times of one client.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct UnitFigures {
    /// An event with its indexes, on disk.
    pub(super) disk_bytes_per_event: f64,
    /// Processor time of the server per event of a full group.
    pub(super) append_cpu_us: f64,
    /// Verification of an event: read, hash, compare.
    pub(super) verify_us: f64,
    /// Reading an event in pages of 500, as a forwarder does.
    pub(super) page_us: f64,
    /// Looking for tenants with new events, per event; every server does that.
    pub(super) news_database_us: f64,
    /// Checking an event before a checkpoint is signed.
    pub(super) check_us: f64,
    pub(super) check_database_us: f64,
    /// A statement that reads one row.
    pub(super) statement_us: f64,
    pub(super) statement_database_us: f64,
    /// A step of a rate limit in the database.
    pub(super) limit_database_us: f64,
}

/// Transactions of one size. Times are medians.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Group {
    pub(super) events: u32,
    /// With a commit that waits for the disk.
    pub(super) strict_us: f64,
    /// With a commit that does not.
    pub(super) relaxed_us: f64,
    /// The part of `relaxed_us` in which the position counter is locked.
    pub(super) counter_us: f64,
    /// Processor time of the database.
    pub(super) database_us: f64,
    pub(super) wal_bytes: f64,
}

impl Constants {
    pub(super) fn embedded() -> Result<Self> {
        toml::from_str(FILE).context("bench/growth.toml")
    }

    pub(super) fn text(&self) -> Result<String> {
        Ok(format!("{HEAD}\n{}", toml::to_string(self)?))
    }

    /// The straight line through the smallest and the largest transaction.
    pub(super) fn line(&self, figure: impl Fn(&Group) -> f64) -> Line {
        let (Some(first), Some(last)) = (self.groups.first(), self.groups.last()) else {
            return Line { fixed: 0.0, each: 0.0 };
        };
        let span = f64::from(last.events.saturating_sub(first.events).max(1));
        let each = (figure(last) - figure(first)) / span;
        Line { fixed: figure(first) - each * f64::from(first.events), each }
    }

    /// The time of the disk in a commit, in microseconds: the median of all sizes.
    pub(super) fn flush_us(&self) -> f64 {
        let mut times: Vec<f64> =
            self.groups.iter().map(|group| (group.strict_us - group.relaxed_us).max(0.0)).collect();
        times.sort_by(f64::total_cmp);
        times.get(times.len() / 2).copied().unwrap_or(0.0)
    }
}
