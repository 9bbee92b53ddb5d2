//! The results as text: a line after each row, and the stored page.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

use crate::earlier::EarlierReport;
use crate::histogram::Histogram;
use crate::machine::Machine;
use crate::options::RunOptions;
use crate::others::QUIET;
use crate::plan::{MeasuredServer, MissingMeasurement};

/// How much more the most expensive slice of a steady server may cost than the cheapest.
const STEADY: f64 = 1.25;
const OTHERS: &str = "others, cores";
const COLUMNS: [&str; 14] = [
    "request",
    "connections",
    "requests/s",
    "limit",
    "ratio",
    "earlier",
    "goal",
    "p50 / p99 / p99.9 ms",
    "limit's ms",
    "CPU µs/request",
    "limit's µs",
    "disk, bytes/request",
    OTHERS,
    "commit",
];
const PEER_COLUMNS: [&str; 13] = [
    "gateway",
    "request",
    "connections",
    "requests/s",
    "limit",
    "ratio",
    "toolcrib's",
    "earlier",
    "p50 / p99 / p99.9 ms",
    "CPU µs/request",
    "disk, bytes/request",
    OTHERS,
    "commit",
];

/// The measurement of one server in one row.
#[derive(Debug)]
pub(crate) struct Measurement {
    pub(crate) who: MeasuredServer,
    pub(crate) latencies: Histogram,
    pub(crate) elapsed: Duration,
    pub(crate) processor: Duration,
    /// The processor time of others meanwhile.
    pub(crate) others: Duration,
    /// The microseconds of processor time per request in each of its slices.
    pub(crate) slices: Vec<f64>,
    /// Bytes that the kernel wrote to a disk for the server.
    pub(crate) written: u64,
    /// The growth of the data directory in bytes, where there is one.
    pub(crate) stored: Option<i64>,
}

/// A measured pair.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) connections: u32,
    pub(crate) ours: Measurement,
    pub(crate) limit: Measurement,
    /// 0 without a goal.
    pub(crate) goal: f64,
}

/// Everything on the page.
#[derive(Debug)]
pub(crate) struct Report<'a> {
    pub(crate) machine: Machine,
    pub(crate) options: &'a RunOptions,
    pub(crate) rows: &'a [Row],
    pub(crate) earlier: &'a EarlierReport,
    /// PSS in KiB before and after the load.
    pub(crate) idle: &'a BTreeMap<MeasuredServer, u64>,
    pub(crate) after: &'a BTreeMap<MeasuredServer, u64>,
    /// Names and versions of the other gateways.
    pub(crate) versions: &'a [String],
    pub(crate) absent: &'a [MissingMeasurement],
}

/// The microseconds of processor time per request.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub(crate) fn per_request(processor: Duration, requests: u64) -> f64 {
    processor.as_secs_f64() * 1e6 / requests.max(1) as f64
}

/// A table with these columns.
fn head_of(page: &mut String, columns: &[&str]) -> std::fmt::Result {
    writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()))
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests and bytes are far below 2^52")]
impl Measurement {
    pub(crate) fn per_second(&self) -> f64 {
        self.latencies.total() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The microseconds of processor time per request.
    pub(crate) fn cost(&self) -> f64 {
        per_request(self.processor, self.latencies.total())
    }

    /// The cores that others used meanwhile.
    fn others(&self) -> f64 {
        self.others.as_secs_f64() / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Whether its cost was about the same in each slice.
    fn is_steady(&self) -> bool {
        let most = self.slices.iter().copied().fold(0.0, f64::max);
        let least = self.slices.iter().copied().fold(f64::INFINITY, f64::min);
        most <= least * STEADY
    }

    pub(crate) fn latency(&self) -> String {
        let milliseconds = |share| self.latencies.quantile(share).as_secs_f64() * 1e3;
        format!(
            "{:.2} / {:.2} / {:.2}",
            milliseconds(0.50),
            milliseconds(0.99),
            milliseconds(0.999)
        )
    }

    /// The bytes per request: written, and stored if the server has a data directory.
    fn disk(&self) -> String {
        let written = self.written as f64 / self.requests();
        match self.stored {
            Some(stored) => format!("{written:.0} / {:.0}", stored as f64 / self.requests()),
            None => format!("{written:.0}"),
        }
    }

    fn requests(&self) -> f64 {
        self.latencies.total().max(1) as f64
    }
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        self.ours.per_second() / self.limit.per_second().max(f64::MIN_POSITIVE)
    }

    /// The cores that others used, on the worse of both sides.
    fn others(&self) -> f64 {
        self.ours.others().max(self.limit.others())
    }

    /// Whether the figures count: others did little, and the limit's cost did not change meanwhile.
    pub(crate) fn is_quiet(&self) -> bool {
        self.others() <= QUIET && self.limit.is_steady()
    }

    /// The ratio as a cell of a table.
    pub(crate) fn ratio_cell(&self, decimals: usize) -> String {
        match self.is_quiet() {
            true => format!("**{:.decimals$}**", self.ratio()),
            false => format!("{:.decimals$}, busy", self.ratio()),
        }
    }

    fn goal(&self) -> String {
        if self.goal == 0.0 {
            return "".into();
        }
        let met = if self.ratio() >= self.goal { "met" } else { "missed" };
        format!("{:.2} {met}", self.goal)
    }

    /// The ratio of the last committed report and the difference from it.
    fn change(&self, earlier: &EarlierReport) -> String {
        match earlier.ratio(self.ours.who.gateway(), &self.name, self.connections) {
            Some(ratio) => format!("{ratio:.2} ({:+.2})", self.ratio() - ratio),
            None => "-".into(),
        }
    }

    /// Formats the row for the terminal.
    pub(crate) fn line(&self, earlier: &EarlierReport) -> String {
        format!(
            "{:<32} x{:<3} {:<12} {:>8.0}/s of {:>8.0}/s ({}) = {} {:<12} earlier {}, p50/p99/p99.9 {} ms, \
             {:.1} of {:.1} us/request, disk {} bytes/request, others {:.2} cores",
            self.name,
            self.connections,
            self.ours.who.gateway(),
            self.ours.per_second(),
            self.limit.per_second(),
            self.limit.who,
            self.ratio_cell(2),
            self.goal(),
            self.change(earlier),
            self.ours.latency(),
            self.ours.cost(),
            self.limit.cost(),
            self.ours.disk(),
            self.others(),
        )
    }

    fn is_peer(&self) -> bool {
        !self.ours.who.gateway().is_empty()
    }

    /// Whether `other` is the same request with as many connections.
    fn is_like(&self, other: &Self) -> bool {
        self.name == other.name && self.connections == other.connections
    }
}

impl Report<'_> {
    /// Formats the whole page as Markdown.
    pub(crate) fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail.
        self.head(&mut page).ok();
        self.table(&mut page).ok();
        self.peers(&mut page).ok();
        self.memory(&mut page, |_| true).ok();
        self.tail(&mut page).ok();
        page
    }

    fn head(&self, page: &mut String) -> std::fmt::Result {
        let (machine, options) = (&self.machine, self.options);
        let connections: Vec<String> = options.connections.iter().map(u32::to_string).collect();
        let peers = if options.peers.is_some() { " --peers DIR" } else { "" };
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
            "| command | `cargo xtask bench --seconds {} --connections {}{peers}` |\n",
            options.seconds,
            connections.join(",")
        )?;
        writeln!(
            page,
            "Compare the ratios and not the absolute figures, which depend on the machine. Both \
             servers of a row are measured in turns in the same run, on loopback, with the load generator on the same \
             machine; every answer is checked. A row counts if other programs, and the host of the machine, used at \
             most {QUIET:.2} of a core meanwhile (*others*), and if the limit's processor time per request changed \
             by at most a quarter between its two turns. Another row is marked *busy*, and does not replace an \
             earlier one that counts; the last column has the commit of each row. toolcrib runs with authentication, scopes, validation and \
             the durable log on. A list is compared with axum answering the same bytes from memory, a call \
             with a bare reverse proxy in front of the same MCP server ({} tools), and a connector's call with that \
             proxy in front of its HTTP service. A call of the workflow is three calls of that MCP server.\n",
            crate::servers::upstream::TOOLS,
        )?;
        writeln!(
            page,
            "- MCP requests are of the revision 2026-07-28; those in a session, of 2025-11-25.\n\
             - *Earlier* is the ratio of the last committed report{}, and the difference from it.\n\
             - *Disk* has two figures per request: the bytes that the server caused to be written to the disk \
             (`write_bytes` of `/proc/PID/io`, which counts whole pages and the journal), and the growth of its data \
             directory. The store reuses its journal, so the growth is meaningful for long runs only.\n\
             - CPU, memory and disk are those of the server's process group, without its upstreams. Memory is that \
             of the group alone: pages of files count once and in full, although other servers of the measurement \
             have the same ones.\n",
            self.earlier.commit.as_ref().map(|commit| format!(" ({commit})")).unwrap_or_default(),
        )
    }

    fn table(&self, page: &mut String) -> std::fmt::Result {
        head_of(page, &COLUMNS)?;
        for row in self.rows.iter().filter(|row| !row.is_peer()) {
            let cells = [
                row.name.clone(),
                row.connections.to_string(),
                format!("{:.0}", row.ours.per_second()),
                format!("{:.0}, {}", row.limit.per_second(), row.limit.who),
                row.ratio_cell(2),
                row.change(self.earlier),
                row.goal(),
                row.ours.latency(),
                row.limit.latency(),
                format!("{:.1}", row.ours.cost()),
                format!("{:.1}", row.limit.cost()),
                row.ours.disk(),
                format!("{:.2}", row.others()),
                self.machine.commit.clone(),
            ];
            self.line(page, row, &COLUMNS, &cells)?;
        }
        writeln!(page)
    }

    /// Writes a row; an earlier one that was measured on a quiet machine stays in place of a busy one.
    fn line(
        &self,
        page: &mut String,
        row: &Row,
        columns: &[&str],
        cells: &[String],
    ) -> std::fmt::Result {
        let earlier = self.earlier.row(row.ours.who.gateway(), &row.name, row.connections);
        let quiet = earlier.filter(|earlier| earlier.cell(OTHERS).is_some() && !row.is_quiet());
        match quiet {
            Some(quiet) => {
                let cells = columns.iter().map(|column| quiet.cell(column).unwrap_or("-"));
                writeln!(page, "| {} |", cells.collect::<Vec<_>>().join(" | "))
            }
            None => writeln!(page, "| {} |", cells.join(" | ")),
        }
    }

    /// Formats the rows of other gateways.
    fn peers(&self, page: &mut String) -> std::fmt::Result {
        if self.versions.is_empty() {
            return Ok(());
        }
        writeln!(
            page,
            "Other gateways, each measured in turns with the same limit: {}. Their configurations are in \
             `bench/peers`. *toolcrib's* is toolcrib's ratio divided by theirs.\n",
            self.versions.join(", ")
        )?;
        head_of(page, &PEER_COLUMNS)?;
        for row in self.rows.iter().filter(|row| row.is_peer()) {
            let ours = self.rows.iter().find(|other| !other.is_peer() && other.is_like(row));
            let times = ours.map(|own| own.ratio() / row.ratio().max(f64::MIN_POSITIVE));
            let cells = [
                row.ours.who.to_string(),
                row.name.clone(),
                row.connections.to_string(),
                format!("{:.0}", row.ours.per_second()),
                format!("{:.0}, {}", row.limit.per_second(), row.limit.who),
                row.ratio_cell(3),
                times.map_or("-".into(), |times| format!("{times:.1} ×")),
                row.change(self.earlier),
                row.ours.latency(),
                format!("{:.1}", row.ours.cost()),
                row.ours.disk(),
                format!("{:.2}", row.others()),
                self.machine.commit.clone(),
            ];
            self.line(page, row, &PEER_COLUMNS, &cells)?;
        }
        writeln!(page)
    }

    #[expect(clippy::cast_precision_loss, reason = "memory in KiB is far below 2^52")]
    pub(crate) fn memory(
        &self,
        page: &mut String,
        shows: fn(&MeasuredServer) -> bool,
    ) -> std::fmt::Result {
        writeln!(page, "| memory, alone | before, MB | after the load, MB |\n|---|---|---|")?;
        for (who, kilobytes) in self.idle.iter().filter(|(who, _)| shows(who)) {
            let megabytes = |value: u64| value as f64 / 1024.0;
            let later = self.after.get(who).copied().unwrap_or_default();
            writeln!(page, "| {who} | {:.1} | {:.1} |", megabytes(*kilobytes), megabytes(later))?;
        }
        writeln!(page)
    }

    fn tail(&self, page: &mut String) -> std::fmt::Result {
        if self.absent.is_empty() {
            return Ok(());
        }
        writeln!(page, "Not measured:\n")?;
        self.absent
            .iter()
            .try_for_each(|absent| writeln!(page, "- {}: {}", absent.what, absent.why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Durability;
    use crate::subject::SourceKind;

    fn measured(who: MeasuredServer, requests: u64) -> Measurement {
        let mut latencies = Histogram::new();
        (0..requests).for_each(|_| latencies.add(Duration::from_millis(1)));
        let (elapsed, processor) = (Duration::from_secs(1), Duration::from_millis(10));
        let stored = (who == MeasuredServer::Strict).then_some(60_000);
        let others = Duration::from_millis(50);
        let slices = vec![10.0, 12.0];
        Measurement { who, latencies, elapsed, processor, others, slices, written: 400_000, stored }
    }

    fn row(name: &str, who: MeasuredServer, requests: u64, goal: f64) -> Row {
        let (ours, limit) = (measured(who, requests), measured(MeasuredServer::Proxy, 200));
        Row { name: name.into(), connections: 64, ours, limit, goal }
    }

    fn page(rows: &[Row], earlier: &EarlierReport) -> String {
        let options = RunOptions {
            seconds: 3,
            connections: vec![64],
            only: Vec::new(),
            toolcrib: None,
            write: None,
            peers: None,
            comparison: None,
        };
        let memory =
            [(MeasuredServer::Source(SourceKind::Stdio, Durability::Relaxed), 2048)].into();
        let report = Report {
            machine: Machine::read(),
            options: &options,
            rows,
            earlier,
            idle: &memory,
            after: &memory,
            versions: &["Other (other 1.0)".to_owned()],
            absent: &[MissingMeasurement::new("a row", "it failed\nwith a log")],
        };
        report.page()
    }

    #[test]
    fn the_next_report_reads_the_ratios_of_this_one() {
        let peer = MeasuredServer::Peer("Other".into());
        let rows = [
            row("OTC call", MeasuredServer::Strict, 100, 0.5),
            row("OTC call", peer.clone(), 20, 0.0),
        ];
        let first = page(&rows, &EarlierReport::default());
        assert!(first.contains("| **0.50** | - | 0.50 met |"), "{first}");
        assert!(first.contains("| 4000 / 600 |"), "{first}");
        assert!(first.contains("| **0.100** | 5.0 × | - |"), "{first}");
        assert!(
            first.contains("| toolcrib, relaxed log, and a stdio upstream | 2.0 | 2.0 |"),
            "{first}"
        );
        assert!(first.ends_with("Not measured:\n\n- a row: it failed\n"), "{first}");

        let rows =
            [row("OTC call", MeasuredServer::Strict, 120, 0.5), row("OTC call", peer, 10, 0.0)];
        let second = page(&rows, &EarlierReport::parse(&first));
        assert!(second.contains("| **0.60** | 0.50 (+0.10) |"), "{second}");
        assert!(second.contains("| **0.050** | 12.0 × | 0.10 (-0.05) |"), "{second}");
    }

    #[test]
    fn a_busy_row_is_marked_and_does_not_replace_a_quiet_one() {
        let quiet = row("OTC call", MeasuredServer::Strict, 100, 0.5);
        let first = page(&[quiet], &EarlierReport::default());
        assert!(first.contains("| **0.50** | - |") && first.contains("| 0.05 |"), "{first}");
        let busy = || {
            let mut busy = row("OTC call", MeasuredServer::Strict, 120, 0.5);
            busy.limit.others = Duration::from_millis(101);
            busy
        };
        let second = page(&[busy()], &EarlierReport::parse(&first));
        assert!(second.contains("| **0.50** | - |"), "{second}");
        assert!(!second.contains("0.60"), "{second}");
        let alone = page(&[busy()], &EarlierReport::default());
        assert!(alone.contains("| 0.60, busy | - |") && alone.contains("| 0.10 |"), "{alone}");
        let mut unsteady = row("OTC call", MeasuredServer::Strict, 120, 0.5);
        unsteady.limit.slices = vec![10.0, 12.6];
        assert!(!unsteady.is_quiet());
        // A report before this rule does not say whether its machine was quiet.
        let old =
            "| request | connections | ratio |\n|---|---|---|\n| OTC call | 64 | **0.40** |\n";
        let third = page(&[busy()], &EarlierReport::parse(old));
        assert!(third.contains("| 0.60, busy | 0.40 (+0.20) |"), "{third}");
    }
}
