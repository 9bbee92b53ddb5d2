//! `toolcrib-bench log`: the event log alone, against SQLite with one plain table.
//!
//! Callers append the three events of a call as the gateway does: `agent.toolCalled`, then
//! `egress.decided` together with `agent.toolReturned`. Plain SQLite stores rows of the same bytes,
//! without chain, indexes and recovery: its writer commits all waiting appends in one synced
//! transaction. The ratio is therefore the price of the record.

pub(crate) mod calls;
mod plain;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use async_trait::async_trait;
use serde::Serialize;
use toolcrib_core::event::{EventLog, NewEvent};
use toolcrib_core::store::Storage;
use toolcrib_store::verify::{self, Scope};
use toolcrib_store::{Durability, Options, SqliteStore};

use self::calls::Calls;
use self::plain::PlainLog;
use crate::histogram::Histogram;
use crate::process::own_processor_time;

/// How often each log is measured, in turns.
const ROUNDS: u32 = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct LogOptions {
    /// Numbers of concurrent callers
    #[arg(long, value_delimiter = ',', default_value = "1,64,128")]
    callers: Vec<u32>,
    /// Measured time of each log in each row
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// The directory for the files; by default the system's for temporary files
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Something that stores appends durably.
#[async_trait]
trait Log: Send + Sync {
    async fn append(&self, events: &[NewEvent]) -> Result<()>;

    /// Checks every event against its chain; returns the processor time, if the log has a chain.
    async fn verify(&self) -> Result<Option<Duration>>;

    /// Stores everything in one file, and releases it.
    async fn close(&self) -> Result<()>;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// The log with every append synced.
    Strict,
    /// The log with appends handed to the system.
    Relaxed,
    /// Plain SQLite with every append synced.
    Plain,
}

/// The measurement of one log with one number of callers.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    log: Kind,
    callers: u32,
    events_per_second: f64,
    /// Of a whole call: two appends.
    p50_ms: f64,
    p99_ms: f64,
    cpu_us_per_event: f64,
    bytes_per_call: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    verify_us_per_event: Option<f64>,
    /// Throughput as a share of that of plain SQLite.
    of_plain: f64,
}

#[derive(Debug)]
struct Total {
    latencies: Histogram,
    elapsed: Duration,
    processor: Duration,
    bytes: u64,
    verified: Option<Duration>,
}

pub(crate) async fn run(options: &LogOptions) -> Result<()> {
    let mut rows = Vec::new();
    for callers in &options.callers {
        rows.extend(measure(options, *callers).await?);
    }
    match options.json {
        true => crate::terminal::say(&serde_json::to_string_pretty(&rows)?),
        false => crate::terminal::say(&table(&rows)),
    }
}

async fn measure(options: &LogOptions, callers: u32) -> Result<Vec<Row>> {
    let kinds = [Kind::Strict, Kind::Relaxed, Kind::Plain];
    let mut totals = kinds.map(|kind| (kind, Total::new()));
    for _ in 0..ROUNDS {
        for (kind, total) in &mut totals {
            let folder = match &options.directory {
                Some(parent) => tempfile::tempdir_in(parent)?,
                None => tempfile::tempdir()?,
            };
            let file = folder.path().join("log.db");
            let log = open(*kind, &file)?;
            let empty = fs::metadata(&file)?.len();
            let time = Duration::from_secs(options.seconds.into()) / ROUNDS;
            total.add_round(&log, callers, time).await?;
            if let Some(verified) = log.verify().await? {
                total.verified = Some(total.verified.unwrap_or_default() + verified);
            }
            log.close().await?;
            total.bytes += fs::metadata(&file)?.len().saturating_sub(empty);
        }
    }
    let plain = totals.iter().find(|(kind, _)| *kind == Kind::Plain);
    let plain = plain.map_or(0.0, |(_, total)| total.events_per_second());
    Ok(totals.iter().map(|(kind, total)| total.row(*kind, callers, plain)).collect())
}

fn open(kind: Kind, file: &Path) -> Result<Arc<dyn Log>> {
    let durability = match kind {
        Kind::Plain => return Ok(Arc::new(PlainLog::open(file)?)),
        Kind::Strict => Durability::Strict,
        Kind::Relaxed => Durability::Relaxed,
    };
    Ok(Arc::new(SqliteStore::open(file, Options { durability, ..Options::default() })?))
}

#[async_trait]
impl Log for SqliteStore {
    async fn append(&self, events: &[NewEvent]) -> Result<()> {
        EventLog::append(self, events).await?;
        Ok(())
    }

    async fn verify(&self) -> Result<Option<Duration>> {
        let begun = own_processor_time()?;
        let whole = Scope::default();
        let report = verify::record(self, &whole, Vec::new(), &[], &[], |_, _| ()).await?;
        ensure!(report.findings.is_empty(), "the log is damaged: {:?}", report.findings);
        Ok(Some(own_processor_time()?.saturating_sub(begun)))
    }

    async fn close(&self) -> Result<()> {
        Storage::close(self).await;
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^52")]
impl Total {
    fn new() -> Self {
        let zero = Duration::ZERO;
        Self {
            latencies: Histogram::new(),
            elapsed: zero,
            processor: zero,
            bytes: 0,
            verified: None,
        }
    }

    /// Runs `callers` for `time` and adds their calls.
    async fn add_round(&mut self, log: &Arc<dyn Log>, callers: u32, time: Duration) -> Result<()> {
        let (begun, processor) = (Instant::now(), own_processor_time()?);
        let tasks: Vec<_> =
            (0..callers).map(|_| tokio::spawn(call_until(Arc::clone(log), begun + time))).collect();
        for task in tasks {
            self.latencies.merge(&task.await??);
        }
        self.elapsed += begun.elapsed();
        self.processor += own_processor_time()?.saturating_sub(processor);
        Ok(())
    }

    fn calls(&self) -> f64 {
        self.latencies.total().max(1) as f64
    }

    fn events_per_second(&self) -> f64 {
        3.0 * self.calls() / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    fn row(&self, log: Kind, callers: u32, plain: f64) -> Row {
        let per_event = |time: Duration| time.as_secs_f64() * 1e6 / self.calls() / 3.0;
        let milliseconds = |share| self.latencies.quantile(share).as_secs_f64() * 1e3;
        Row {
            log,
            callers,
            events_per_second: self.events_per_second(),
            p50_ms: milliseconds(0.50),
            p99_ms: milliseconds(0.99),
            cpu_us_per_event: per_event(self.processor),
            verify_us_per_event: self.verified.map(per_event),
            bytes_per_call: self.bytes as f64 / self.calls(),
            of_plain: self.events_per_second() / plain.max(f64::MIN_POSITIVE),
        }
    }
}

/// Makes calls one after the other; measures how long each call waited for its two appends.
async fn call_until(log: Arc<dyn Log>, end: Instant) -> Result<Histogram> {
    let (mut latencies, mut calls) = (Histogram::new(), Calls::new("acme".parse()?)?);
    while Instant::now() < end {
        let (called, ending) = calls.next()?;
        let begun = Instant::now();
        log.append(&[called]).await?;
        log.append(&ending).await?;
        latencies.add(begun.elapsed());
    }
    Ok(latencies)
}

fn table(rows: &[Row]) -> String {
    let mut lines = vec![
        "| log | callers | events/s | of plain SQLite | p50 / p99 ms of a call | CPU µs/event | bytes/call | verify µs/event |"
            .to_owned(),
        "|---|---|---|---|---|---|---|---|".to_owned(),
    ];
    lines.extend(rows.iter().map(|row| {
        let name = match row.log {
            Kind::Strict => "toolcrib",
            Kind::Relaxed => "toolcrib, relaxed",
            Kind::Plain => "plain SQLite",
        };
        format!(
            "| {name} | {} | {:.0} | **{:.2}** | {:.2} / {:.2} | {:.1} | {:.0} | {} |",
            row.callers,
            row.events_per_second,
            row.of_plain,
            row.p50_ms,
            row.p99_ms,
            row.cpu_us_per_event,
            row.bytes_per_call,
            row.verify_us_per_event.map_or(String::new(), |time| format!("{time:.2}")),
        )
    }));
    lines.join("\n")
}
