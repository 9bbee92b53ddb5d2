//! The processor time of the parts of a cluster, and of the whole machine.

use std::fs;
use std::ops::{AddAssign, Sub};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process::{
    CHILDREN_SYSTEM_TIME, CHILDREN_USER_TIME, PARENT, processor_time, stat, ticks,
};

/// Processor time by part.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessorTime {
    pub(super) toolcrib: Duration,
    /// PostgreSQL and Redis.
    pub(super) database: Duration,
    /// The upstream and this program.
    pub(super) rest: Duration,
}

/// Ticks of all processors of the machine.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ProcessorTicks {
    busy: u64,
    all: u64,
}

impl Sub for ProcessorTime {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            toolcrib: self.toolcrib.saturating_sub(earlier.toolcrib),
            database: self.database.saturating_sub(earlier.database),
            rest: self.rest.saturating_sub(earlier.rest),
        }
    }
}

impl AddAssign for ProcessorTime {
    fn add_assign(&mut self, more: Self) {
        self.toolcrib += more.toolcrib;
        self.database += more.database;
        self.rest += more.rest;
    }
}

impl ProcessorTicks {
    /// Reads the first line of `/proc/stat`.
    pub(super) fn read() -> Result<Self> {
        Self::parse(&fs::read_to_string("/proc/stat")?).context("/proc/stat")
    }

    fn parse(text: &str) -> Option<Self> {
        let fields = text.lines().next()?.strip_prefix("cpu ")?.split_whitespace();
        // user, nice, system, idle, iowait, irq, softirq, steal; guests are part of user.
        let ticks: Vec<u64> = fields.take(8).map_while(|field| field.parse().ok()).collect();
        let idle = ticks.get(3)? + ticks.get(4)?;
        let all = ticks.iter().sum::<u64>();
        Some(Self { busy: all - idle, all })
    }

    /// The busy share, from 0 to 1.
    #[expect(clippy::cast_precision_loss, reason = "ticks are far below 2^52")]
    pub(super) fn share(self) -> f64 {
        self.busy as f64 / self.all.max(1) as f64
    }
}

impl Sub for ProcessorTicks {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(earlier.busy),
            all: self.all.saturating_sub(earlier.all),
        }
    }
}

impl AddAssign for ProcessorTicks {
    fn add_assign(&mut self, more: Self) {
        self.busy += more.busy;
        self.all += more.all;
    }
}

/// The processor time so far of a process, of its children, and of its former children.
pub(super) fn of_family(parent: u32) -> Result<Duration> {
    let parent = parent.to_string();
    let ended = stat(&parent, CHILDREN_USER_TIME)?.parse::<u64>()?
        + stat(&parent, CHILDREN_SYSTEM_TIME)?.parse::<u64>()?;
    let mut time = processor_time(&parent)? + ticks(ended);
    for entry in fs::read_dir("/proc")? {
        let Ok(name) = entry?.file_name().into_string() else { continue };
        // A child that exits meanwhile is counted by its parent the next time.
        if stat(&name, PARENT).is_ok_and(|found| found == parent) {
            time += processor_time(&name).unwrap_or_default();
        }
    }
    Ok(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_the_disk_is_not_busy() {
        let before = ProcessorTicks::parse("cpu  10 0 10 100 20 0 0 0 0 0\ncpu0 1\n").unwrap();
        let after = ProcessorTicks::parse("cpu  40 0 30 130 40 0 0 0 0 0\ncpu0 1\n").unwrap();
        assert!(((after - before).share() - 0.5).abs() < 1e-9);
        assert!(ProcessorTicks::parse("intr 1 2 3").is_none());
    }

    #[test]
    fn the_family_of_this_process_has_used_time() {
        assert!(of_family(std::process::id()).is_ok());
    }
}
