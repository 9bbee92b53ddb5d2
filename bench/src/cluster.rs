//! `toolcrib-bench cluster`: one server against several over one PostgreSQL database.
//!
//! The kinds of clusters are measured in turns. The report names the process that used the
//! processors, because servers, database, upstream and load share this machine: a second machine
//! would give its servers separate processors.

mod processors;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::task::JoinSet;
use toolcrib_testkit::{
    postgres::PostgresServer,
    redis::{self, RedisServer},
};

use self::processors::{ProcessorTicks, ProcessorTime};
use crate::histogram::Histogram;
use crate::load::{Shot, WARM_UP};
use crate::machine::Machine;
use crate::process::Server;
use crate::rows;
use crate::section::replace_section;
use crate::subject::{SharedServices, Subject};
use crate::terminal::say;

/// How often each cluster is measured in each row, in turns.
const ROUNDS: u32 = 2;
/// From this share on the processors are the limit.
const SATURATED: f64 = 0.9;
const HEADING: &str = "\n## Several servers\n";

#[derive(Debug, clap::Args)]
pub(crate) struct ClusterOptions {
    /// Number of servers of the larger clusters
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(2..=16))]
    servers: u32,
    /// Number of connections, distributed over the servers
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=512))]
    connections: u32,
    /// Number of tenants in the rows with several
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(2..=64))]
    tenants: u16,
    /// Measured time of each cluster in each row
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// The program to measure
    #[arg(long)]
    toolcrib: PathBuf,
    /// The page whose section on several servers is replaced
    #[arg(long)]
    write: Option<PathBuf>,
}

/// Servers that share everything, and their names on the page.
struct Cluster {
    name: String,
    subjects: Vec<Subject>,
}

/// The requests of a row.
#[derive(Debug, Clone, Copy)]
enum Requests {
    Calls,
    CallsOfTenants,
    Lists,
}

/// The measurement of one cluster in one row.
struct ClusterMeasurement {
    cluster: String,
    latencies: Histogram,
    elapsed: Duration,
    used: ProcessorTime,
    busy: ProcessorTicks,
}

/// Everything that runs.
struct Bench {
    upstream: Server,
    postgres: PostgresServer,
    redis: RedisServer,
    clusters: Vec<Cluster>,
}

pub(crate) async fn run(options: &ClusterOptions) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let bench = Bench::start(options, folder.path()).await?;
    let mut text = head(options);
    for requests in [Requests::Calls, Requests::CallsOfTenants, Requests::Lists] {
        let measured = bench.measure(requests, options).await?;
        let one = measured.get(1).map_or(0.0, ClusterMeasurement::per_second);
        for measurement in &measured {
            let row = measurement.row(requests, options.tenants, one);
            say(&row)?;
            text.push_str(&row);
            text.push('\n');
        }
    }
    if let Some(file) = &options.write {
        let page = fs::read_to_string(file)?;
        fs::write(file, replace_section(&page, HEADING, &text))?;
        say(&format!("written: {}", file.display()))?;
    }
    Ok(())
}

impl Bench {
    async fn start(options: &ClusterOptions, folder: &Path) -> Result<Self> {
        let missing = "is not installed; `cargo xtask setup` installs it";
        let postgres =
            PostgresServer::own_synced().with_context(|| format!("PostgreSQL {missing}"))?;
        let redis = RedisServer::start().with_context(|| format!("Valkey or Redis {missing}"))?;
        let upstream = rows::upstream(folder).await?;
        let shared = || SharedServices { database: postgres.database(), limits: None };
        let limits = Some((redis.url(), redis::PASSWORD));
        let kinds = [
            ("one server, SQLite".to_owned(), 1, None),
            ("one server, PostgreSQL".to_owned(), 1, Some(shared())),
            (format!("{} servers, PostgreSQL", options.servers), options.servers, Some(shared())),
            (
                format!("{} servers, PostgreSQL, rates in Redis", options.servers),
                options.servers,
                Some(SharedServices { limits, ..shared() }),
            ),
        ];
        let mut clusters = Vec::new();
        for (number, (name, servers, shared)) in kinds.into_iter().enumerate() {
            say(&format!("starting {name}"))?;
            let mut subjects = Vec::new();
            for server in 0..servers {
                let file = format!("cluster-{number}-{server}");
                let place = (upstream.address, folder);
                let tenants = usize::from(options.tenants);
                subjects.push(
                    Subject::with_tenants(&options.toolcrib, &file, shared.clone(), tenants, place)
                        .await?,
                );
            }
            clusters.push(Cluster { name, subjects });
        }
        Ok(Self { upstream, postgres, redis, clusters })
    }

    /// Measures every cluster, in turns.
    async fn measure(
        &self,
        requests: Requests,
        options: &ClusterOptions,
    ) -> Result<Vec<ClusterMeasurement>> {
        let slice = Duration::from_secs(options.seconds.into()) / ROUNDS;
        let mut shots = Vec::new();
        for cluster in &self.clusters {
            let of = cluster.shots(requests).await?;
            fire(&of, options.connections, WARM_UP).await?;
            shots.push(of);
        }
        let mut measured: Vec<ClusterMeasurement> =
            self.clusters.iter().map(|cluster| ClusterMeasurement::new(&cluster.name)).collect();
        for _ in 0..ROUNDS {
            for ((cluster, shots), measurement) in
                self.clusters.iter().zip(&shots).zip(&mut measured)
            {
                let (used, busy) = (self.used(cluster)?, ProcessorTicks::read()?);
                let (latencies, elapsed) = fire(shots, options.connections, slice)
                    .await
                    .with_context(|| cluster.name.clone())?;
                measurement.used += self.used(cluster)? - used;
                measurement.busy += ProcessorTicks::read()? - busy;
                measurement.latencies.merge(&latencies);
                measurement.elapsed += elapsed;
            }
        }
        Ok(measured)
    }

    /// The processor time so far of the processes that take part in a request.
    fn used(&self, cluster: &Cluster) -> Result<ProcessorTime> {
        let mut toolcrib = Duration::ZERO;
        for subject in &cluster.subjects {
            toolcrib += subject.server.processor_time()?;
        }
        let redis = self.redis.id().context("Redis has stopped")?;
        Ok(ProcessorTime {
            toolcrib,
            database: processors::of_family(self.postgres.id())? + processors::of_family(redis)?,
            rest: self.upstream.processor_time()? + crate::process::own_processor_time()?,
        })
    }
}

impl Cluster {
    /// A shot at each server.
    async fn shots(&self, requests: Requests) -> Result<Vec<Shot>> {
        let mut shots = Vec::new();
        for subject in &self.subjects {
            let lists = subject.lists().await?;
            shots.push(match requests {
                Requests::Calls => subject.otc_call(&lists.otc)?,
                Requests::CallsOfTenants => subject.otc_call_of_the_crowd(&lists.otc)?,
                Requests::Lists => subject.list("/v1/tools", &lists.openwop),
            });
        }
        Ok(shots)
    }
}

/// Keeps all servers busy at the same time, each with its share of the connections.
async fn fire(shots: &[Shot], connections: u32, time: Duration) -> Result<(Histogram, Duration)> {
    let servers = u32::try_from(shots.len())?;
    let mut firing = JoinSet::new();
    for shot in shots {
        let shot = shot.clone();
        firing.spawn(async move { shot.fire((connections / servers).max(1), time).await });
    }
    let (mut latencies, mut elapsed) = (Histogram::new(), Duration::ZERO);
    while let Some(fired) = firing.join_next().await {
        let outcome = fired??;
        latencies.merge(&outcome.latencies);
        elapsed = elapsed.max(outcome.elapsed);
    }
    Ok((latencies, elapsed))
}

#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
impl ClusterMeasurement {
    fn new(cluster: &str) -> Self {
        Self {
            cluster: cluster.to_owned(),
            latencies: Histogram::new(),
            elapsed: Duration::ZERO,
            used: ProcessorTime::default(),
            busy: ProcessorTicks::default(),
        }
    }

    fn per_second(&self) -> f64 {
        self.latencies.total() as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// The row of the table. `one` is the throughput of one server over PostgreSQL.
    fn row(&self, requests: Requests, tenants: u16, one: f64) -> String {
        let milliseconds = |share| self.latencies.quantile(share).as_secs_f64() * 1e3;
        let cost = |time: Duration| time.as_secs_f64() * 1e6 / self.latencies.total().max(1) as f64;
        let busy = self.busy.share();
        let limit = if busy >= SATURATED { "processors" } else { "waiting" };
        format!(
            "| {} | {} | {:.0} | **{:.2}** | {:.1} / {:.1} | {:.0} | {:.0} | {:.0} | {:.0} % | {limit} |",
            requests.name(tenants),
            self.cluster,
            self.per_second(),
            self.per_second() / one.max(f64::MIN_POSITIVE),
            milliseconds(0.50),
            milliseconds(0.99),
            cost(self.used.toolcrib),
            cost(self.used.database),
            cost(self.used.rest),
            busy * 100.0,
        )
    }
}

impl Requests {
    fn name(self, tenants: u16) -> String {
        match self {
            Self::Calls => "OTC call, one tenant".into(),
            Self::CallsOfTenants => format!("OTC call, {tenants} tenants"),
            Self::Lists => "GET /v1/tools".into(),
        }
    }
}

fn head(options: &ClusterOptions) -> String {
    let machine = Machine::read();
    format!(
        "{HEADING}\n\
         Written by `cargo xtask bench --cluster`, at {} on {}, with {} cores ({}): {} connections, \
         {} s for each cluster in each row, in turns. All servers answer from the same database; \
         PostgreSQL syncs its commits to the disk. Database, upstream and load share the processors \
         with the servers. Where the last column says *processors*, more servers on this machine \
         cannot give more requests: the ratio shows what sharing costs, and the three columns of \
         processor time show the effect of a separate machine for each part. Redis counts as \
         database.\n\n\
         | request | cluster | requests/s | of one on PostgreSQL | p50 / p99 ms | CPU µs/request: \
         servers | database | upstream and load | processors busy | limit |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        machine.commit,
        machine.date,
        machine.cores,
        machine.processor,
        options.connections,
        options.seconds,
    )
}
