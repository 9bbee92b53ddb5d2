//! `toolcrib-bench soak`: a server under load for a long time, and whether it stays as it is.
//!
//! Each connection calls over MCP in both eras and over Open Tool Calling, with lists in between,
//! and checks every response. The store grows with the record; retention is not part of this run.
//! With `--faults`, callers, the upstream and the operator cause faults.

mod faults;
mod relay;

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval_at, sleep_until, timeout};

use self::faults::{Failures, FaultyCaller};
use self::relay::Relay;
use crate::histogram::Histogram;
use crate::http1::{Answer, Connection, find};
use crate::load::{ExpectedBody, Shot};
use crate::process::Server;
use crate::subject::Subject;
use crate::terminal::say;

/// A response that takes longer than this is a failure.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct SoakOptions {
    /// Length of the run
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=1440))]
    minutes: u64,
    /// Number of connections
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=512))]
    connections: u32,
    /// Requests per second of all connections together, at regular times; as many as possible by
    /// default
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    /// Seconds between two samples
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=600))]
    sample: u64,
    /// Faults per second: invalid keys and bodies, unknown tools, abandoned sessions and streams,
    /// disconnects; also outages of the upstream and reloads. Disabled by default
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    faults: Option<u32>,
    /// The program to measure
    #[arg(long)]
    toolcrib: PathBuf,
}

/// The latencies since the last sample.
#[derive(Debug)]
struct Latencies {
    calls: Histogram,
    lists: Histogram,
}

/// One row of the table.
#[derive(Debug)]
struct Sample {
    minutes: f64,
    calls: f64,
    /// Regular requests that failed because of a fault.
    failed: u64,
    /// In milliseconds: 50, 99 and 99.9 of 100.
    latency: [f64; 3],
    list_latency: f64,
    /// In MiB.
    memory: f64,
    /// The part of it outside of the program's file.
    own_memory: f64,
    descriptors: f64,
    threads: f64,
    /// Bytes of the store, in MiB.
    store: f64,
}

/// What must not grow, and by how much the fitted line may change over the second half.
struct Series {
    name: &'static str,
    unit: &'static str,
    value: fn(&Sample) -> f64,
    tolerance: Tolerance,
}

enum Tolerance {
    Share(f64),
    Count(f64),
}

const SERIES: [Series; 5] = [
    Series {
        name: "own memory",
        unit: "MiB",
        value: |sample| sample.own_memory,
        tolerance: Tolerance::Share(0.05),
    },
    Series {
        name: "descriptors",
        unit: "",
        value: |sample| sample.descriptors,
        tolerance: Tolerance::Count(1.0),
    },
    Series {
        name: "threads",
        unit: "",
        value: |sample| sample.threads,
        tolerance: Tolerance::Count(1.0),
    },
    Series {
        name: "p50 of calls",
        unit: "ms",
        value: |sample| sample.latency[0],
        tolerance: Tolerance::Share(0.25),
    },
    Series {
        name: "p99 of calls",
        unit: "ms",
        value: |sample| sample.latency[1],
        tolerance: Tolerance::Share(0.25),
    },
];

pub(crate) async fn run(options: &SoakOptions) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(env::current_exe()?);
    let upstream = Server::start("upstream", command.arg("upstream"), folder.path()).await?;
    let relay = Relay::start(upstream.address).await?;
    let address = if options.faults.is_some() { relay.address } else { upstream.address };
    let place = (address, folder.path());
    let subject = Subject::with_tenants(&options.toolcrib, "strict", None, 1, place).await?;
    let lists = subject.lists().await?;
    let latencies = Arc::new(Mutex::new(Latencies::new()));
    let failures = options.faults.map(|_| Arc::new(Failures::default()));
    let started = Instant::now();
    let time = Duration::from_secs(60 * options.minutes);
    // Past the last sample, so that it is taken under load too.
    let end = started + time + Duration::from_secs(1);
    let mut tasks = JoinSet::new();
    for number in 0..options.connections {
        let shots = [
            (subject.mcp_call(), true),
            (subject.session_call().await?, true),
            (subject.otc_call(&lists.otc)?, true),
            (subject.mcp_list(), false),
            (subject.list("/v1/tools", &lists.openwop), false),
        ];
        let connection = Connection::open(subject.server.address).await?;
        let pace = options.rate.map(|rate| {
            let pause = Duration::from_secs_f64(f64::from(options.connections) / f64::from(rate));
            (started + pause * number / options.connections, pause)
        });
        let failures = failures.clone();
        let busy = BusyConnection { shots, first: usize::try_from(number)?, pace, end, failures };
        tasks.spawn(busy.keep_busy(connection, Arc::clone(&latencies)));
    }
    if let Some(rate) = options.faults {
        let caller = FaultyCaller {
            address: subject.server.address,
            key: subject.foreign_key()?,
            tool: Subject::tool(),
            end,
        };
        tasks.spawn(async move { caller.run(rate).await.map(drop) });
    }
    let rate = options.rate.map_or_else(
        || "as fast as they can".to_owned(),
        |rate| format!("{rate} requests per second, latencies from the time when each was due"),
    );
    say(&format!(
        "{} connections for {} minutes, {rate}, strict log; latencies in ms{}\n\n\
         | minute | calls/s | failed | p50 | p99 | p99.9 | list p99 | PSS MiB | own MiB | fds | threads | store MiB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|",
        options.connections,
        options.minutes,
        faults::heading(options)
    ))?;
    let disturbances = async {
        if options.faults.is_none() {
            std::future::pending::<()>().await;
        }
        tokio::join!(faults::fail_upstream(&relay), faults::reload(&subject.server));
    };
    tokio::pin!(disturbances);
    let step = Duration::from_secs(options.sample);
    let mut ticks = interval_at(tokio::time::Instant::from_std(started) + step, step);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let (mut samples, mut last) = (Vec::new(), started);
    while started.elapsed() < time {
        tokio::select! {
            _ = ticks.tick() => {}
            // Before the last sample, a connection closes only after a failure.
            Some(done) = tasks.join_next() => {
                done??;
                continue;
            }
            () = &mut disturbances => {}
        }
        let now = Instant::now();
        let taken = {
            let mut latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::replace(&mut *latencies, Latencies::new())
        };
        let data = folder.path().join("strict");
        let mut sample = Sample::take(&subject.server, &data, &taken, now - last, now - started)?;
        sample.failed = failures.as_ref().map_or(0, |failures| failures.take());
        say(&sample.line())?;
        samples.push(sample);
        last = now;
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    say(&format!("\n{}", judge(&samples)))
}

/// What one connection does.
struct BusyConnection {
    /// The requests, and whether each is a call.
    shots: [(Shot, bool); 5],
    /// The index of the first shot, modulo their number.
    first: usize,
    /// The time of the first request, and the interval; `None` sends requests without pauses.
    pace: Option<(Instant, Duration)>,
    end: Instant,
    /// Counts unexpected responses; without it they stop the run.
    failures: Option<Arc<Failures>>,
}

impl BusyConnection {
    /// Sends the requests in turns, and checks every response.
    async fn keep_busy(
        self,
        mut connection: Connection,
        latencies: Arc<Mutex<Latencies>>,
    ) -> Result<()> {
        let shots = self.shots.iter().cycle().skip(self.first % self.shots.len());
        for ((shot, is_call), number) in shots.zip(0_u32..) {
            let due = match self.pace {
                Some((start, pause)) => start + pause * number,
                None => Instant::now(),
            };
            if due >= self.end {
                break;
            }
            sleep_until(due.into()).await;
            let request = shot.requests.first().context("no request to send")?;
            let answer = timeout(ANSWER_LIMIT, connection.exchange(request))
                .await
                .context("no response in time")??;
            match (check(shot, &answer), &self.failures) {
                (Ok(()), _) => {}
                (Err(_), Some(failures)) => {
                    failures.add();
                    continue;
                }
                (Err(error), None) => return Err(error),
            }
            let mut latencies = latencies.lock().unwrap_or_else(PoisonError::into_inner);
            let histogram = if *is_call { &mut latencies.calls } else { &mut latencies.lists };
            histogram.add(due.elapsed());
        }
        Ok(())
    }
}

fn check(shot: &Shot, answer: &Answer<'_>) -> Result<()> {
    let is_expected = match &shot.expect {
        ExpectedBody::Body(body) => answer.body == &**body,
        ExpectedBody::Text(text) => find(answer.body, text.as_bytes()).is_some(),
    };
    if answer.status != shot.status || !is_expected {
        let body = String::from_utf8_lossy(answer.body);
        let start: String = body.chars().take(300).collect();
        bail!("an unexpected response: status {}: {start}", answer.status);
    }
    Ok(())
}

/// Describes the line that fits the second half of each series best.
fn judge(samples: &[Sample]) -> String {
    let half = samples.get(samples.len() / 2..).unwrap_or_default();
    let mut text = "Second half, fitted by least squares:\n".to_owned();
    for series in SERIES {
        let points: Vec<_> =
            half.iter().map(|sample| (sample.minutes, (series.value)(sample))).collect();
        let Some(fit) = fit(&points) else {
            text += &format!("- {}: too few samples\n", series.name);
            continue;
        };
        let allowed = match series.tolerance {
            Tolerance::Share(share) => share * fit.mean,
            Tolerance::Count(count) => count,
        };
        let verdict = match fit.change {
            change if change.abs() <= allowed => "flat",
            change if change > 0.0 => "GROWS",
            _ => "falls",
        };
        text += &format!(
            "- {}: {verdict}; mean {:.2} {}, change {:+.2} (flat up to {allowed:.2}), {:+.2} an hour\n",
            series.name,
            fit.mean,
            series.unit,
            fit.change,
            fit.slope * 60.0,
        );
    }
    if let (Some(first), Some(last)) = (samples.first(), samples.last()) {
        text += &format!(
            "- store: {:.1} to {:.1} MiB; it grows with the record\n",
            first.store, last.store
        );
    }
    text
}

/// A fitted line: its slope a minute, and its change over all points.
struct Fit {
    mean: f64,
    slope: f64,
    change: f64,
}

#[expect(clippy::cast_precision_loss, reason = "a count of samples")]
fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let [(first, _), .., (last, _)] = points else { return None };
    let count = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / count;
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / count;
    let spread: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = points.iter().map(|(x, y)| (x - mean_x) * (y - mean)).sum::<f64>() / spread;
    Some(Fit { mean, slope, change: slope * (last - first) })
}

// === impl Latencies ===

impl Latencies {
    fn new() -> Self {
        Self { calls: Histogram::new(), lists: Histogram::new() }
    }
}

// === impl Sample ===

impl Sample {
    #[expect(clippy::cast_precision_loss, reason = "figures for people")]
    fn take(
        server: &Server,
        data: &Path,
        latencies: &Latencies,
        elapsed: Duration,
        since: Duration,
    ) -> Result<Self> {
        let quantile = |of: &Histogram, share: f64| of.quantile(share).as_secs_f64() * 1000.0;
        let process = PathBuf::from(format!("/proc/{}", server.id()));
        let status = fs::read_to_string(process.join("status"))?;
        let threads = status.lines().find_map(|line| line.strip_prefix("Threads:"));
        let calls = &latencies.calls;
        Ok(Self {
            minutes: since.as_secs_f64() / 60.0,
            calls: calls.total() as f64 / elapsed.as_secs_f64(),
            failed: 0,
            latency: [0.5, 0.99, 0.999].map(|share| quantile(calls, share)),
            list_latency: quantile(&latencies.lists, 0.99),
            memory: server.memory()? as f64 / 1024.0,
            own_memory: server.own_memory()? as f64 / 1024.0,
            descriptors: fs::read_dir(process.join("fd"))?.count() as f64,
            threads: threads.context("Threads")?.trim().parse()?,
            store: size(data)? as f64 / f64::from(1 << 20),
        })
    }

    fn line(&self) -> String {
        let [half, high, highest] = self.latency;
        format!(
            "| {:.1} | {:.0} | {} | {half:.2} | {high:.2} | {highest:.2} | {:.2} | {:.1} | {:.1} | {} | {} | {:.1} |",
            self.minutes,
            self.calls,
            self.failed,
            self.list_latency,
            self.memory,
            self.own_memory,
            self.descriptors,
            self.threads,
            self.store
        )
    }
}

/// The bytes of the store's files in `folder`.
fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with("toolcrib.db") {
            let metadata = entry.metadata()?;
            bytes += if metadata.is_file() { metadata.len() } else { 0 };
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_fitted() {
        let fit = fit(&[(1.0, 10.0), (2.0, 12.0), (3.0, 14.0)]).unwrap();
        assert!((fit.slope - 2.0).abs() < 1e-9 && (fit.change - 4.0).abs() < 1e-9);
        assert!((fit.mean - 12.0).abs() < 1e-9);
        assert!(super::fit(&[(1.0, 10.0)]).is_none());
    }
}
