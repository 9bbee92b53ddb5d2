//! The results as text: a line after each row, and the page that is stored.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::RunOptions;
use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::plan::Who;

/// Programs of other projects that do similar work.
const PEERS: &[&str] = &["agentgateway", "ContextForge (mcpgateway)"];

/// The measurement of one server in one row.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) who: Who,
    pub(crate) latencies: Histogram,
    pub(crate) elapsed: Duration,
    pub(crate) processor: Duration,
}

/// A measured pair.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) connections: u32,
    pub(crate) ours: Measured,
    pub(crate) limit: Measured,
    pub(crate) goal: f64,
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
impl Measured {
    fn per_second(&self) -> f64 {
        self.latencies.total() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Returns the microseconds of processor time per request.
    fn cost(&self) -> f64 {
        self.processor.as_secs_f64() * 1e6 / self.latencies.total().max(1) as f64
    }

    fn latency(&self) -> String {
        let milliseconds = |share| self.latencies.quantile(share).as_secs_f64() * 1e3;
        format!("{:.2} / {:.2}", milliseconds(0.50), milliseconds(0.99))
    }
}

impl Row {
    fn ratio(&self) -> f64 {
        self.ours.per_second() / self.limit.per_second().max(f64::MIN_POSITIVE)
    }

    fn goal(&self) -> String {
        if self.goal == 0.0 {
            return "".into();
        }
        let met = if self.ratio() >= self.goal { "met" } else { "missed" };
        format!("{:.2} {met}", self.goal)
    }
}

/// Formats one row for the terminal.
pub(crate) fn line(row: &Row) -> String {
    format!(
        "{:<32} x{:<3} {:>8.0}/s of {:>8.0}/s ({}) = {:.2} {:<12} p50/p99 {} ms, {:.1} of {:.1} us/request",
        row.name,
        row.connections,
        row.ours.per_second(),
        row.limit.per_second(),
        row.limit.who.name(),
        row.ratio(),
        row.goal(),
        row.ours.latency(),
        row.ours.cost(),
        row.limit.cost(),
    )
}

/// Formats the whole page as Markdown.
pub(crate) fn page(
    machine: &Machine,
    options: &RunOptions,
    rows: &[Row],
    idle: &BTreeMap<Who, u64>,
    after: &BTreeMap<Who, u64>,
) -> String {
    let mut page = String::new();
    // Writing to a string cannot fail.
    head(&mut page, machine, options).ok();
    table(&mut page, rows).ok();
    memory(&mut page, idle, after).ok();
    tail(&mut page).ok();
    page
}

fn head(page: &mut String, machine: &Machine, options: &RunOptions) -> std::fmt::Result {
    let connections: Vec<String> = options.connections.iter().map(u32::to_string).collect();
    writeln!(page, "# Benchmarks\n")?;
    writeln!(
        page,
        "With this page you judge the speed of lists and calls. Written by `cargo xtask bench`; do not edit.\n"
    )?;
    writeln!(page, "| | |\n|---|---|")?;
    writeln!(page, "| date | {} |", machine.date)?;
    writeln!(page, "| commit | {} |", machine.commit)?;
    writeln!(page, "| machine | {} cores, {} |", machine.cores, machine.processor)?;
    writeln!(page, "| compiler | {} |", machine.compiler)?;
    writeln!(
        page,
        "| command | `cargo xtask bench --seconds {} --connections {}` |\n",
        options.seconds,
        connections.join(",")
    )?;
    writeln!(
        page,
        "The machine was shared and noisy, so compare the ratios and not the absolute figures. Both \
         servers of a row are measured in turns in the same run, on loopback, with the load generator on the same \
         machine; every answer is checked. toolcrib runs with authentication, scopes, validation and \
         the durable log on. A list is compared with axum answering the same bytes from memory, a call \
         with a bare reverse proxy in front of the same MCP server ({} tools).\n",
        crate::servers::upstream::TOOLS,
    )
}

fn table(page: &mut String, rows: &[Row]) -> std::fmt::Result {
    writeln!(
        page,
        "| request | connections | requests/s | limit | ratio | goal | p50 / p99 ms | limit's | CPU µs/request | limit's |"
    )?;
    writeln!(page, "|---|---|---|---|---|---|---|---|---|---|")?;
    for row in rows {
        writeln!(
            page,
            "| {} | {} | {:.0} | {:.0}, {} | **{:.2}** | {} | {} | {} | {:.1} | {:.1} |",
            row.name,
            row.connections,
            row.ours.per_second(),
            row.limit.per_second(),
            row.limit.who.name(),
            row.ratio(),
            row.goal(),
            row.ours.latency(),
            row.limit.latency(),
            row.ours.cost(),
            row.limit.cost(),
        )?;
    }
    writeln!(page)
}

#[expect(clippy::cast_precision_loss, reason = "memory in KiB is far below 2^52")]
fn memory(
    page: &mut String,
    idle: &BTreeMap<Who, u64>,
    after: &BTreeMap<Who, u64>,
) -> std::fmt::Result {
    writeln!(page, "| memory (PSS) | before, MB | after the load, MB |\n|---|---|---|")?;
    for (who, kilobytes) in idle {
        let megabytes = |value: u64| value as f64 / 1024.0;
        let later = after.get(who).copied().unwrap_or_default();
        writeln!(
            page,
            "| {} | {:.1} | {:.1} |",
            who.name(),
            megabytes(*kilobytes),
            megabytes(later)
        )?;
    }
    writeln!(page)
}

fn tail(page: &mut String) -> std::fmt::Result {
    writeln!(page, "Not measured, because they were not installed: {}.", PEERS.join(", "))
}
