//! What limits a deployment: the utilisation of each resource, and the rate at which it is full.
//!
//! Each has a closed form: load by capacity. On the path of the events all groups are full, because a
//! higher load makes groups larger before it makes calls wait.

use std::time::Duration;

use serde::Serialize;

use super::constants::Constants;

/// Events of a call: `agent.toolCalled` and `agent.toolReturned`, each appended alone.
const EVENTS: f64 = 2.0;
/// The most appends in one transaction (`MAX_BATCH` of the store).
const FULL: f64 = 256.0;
/// Round trips to the database before the locks of a transaction, under them before the position
/// counter, and under that: one for each statement in `crates/store/src/postgres/append.rs`.
const TRIPS: [f64; 3] = [2.0, 5.0, 1.0];
/// Statements of an idle server per second: 64 that check signed parts, 2 that look for events, one
/// for changes, and the lease.
const IDLE_STATEMENTS: f64 = 67.2;
/// Connections of a server: its pool, and the one for announcements.
pub(super) const CONNECTIONS: usize = 13;
/// The longest wait for a lock (`lock_timeout`); then calls are refused.
pub(super) const LOCK_LIMIT: Duration = Duration::from_secs(5);
/// Default `checkpoint_every` and `checkpoint_interval`.
const SIGNED_EVENTS: f64 = 1_000.0;
const SIGNED_SECONDS: f64 = 60.0;
/// Statements that a server runs to sign once.
const SIGNATURE_STATEMENTS: f64 = 8.0;
/// Events in one delivery of a forwarder, and its statements.
const PAGE: f64 = 500.0;
const PAGE_STATEMENTS: f64 = 4.0;
/// Assumed: time of a receiver for a delivery, in microseconds.
const RECEIVER_US: f64 = 5_000.0;
const DAY: f64 = 86_400.0;

/// A deployment and its load.
#[derive(Debug, Clone, PartialEq, Serialize, clap::Args)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Scenario {
    /// Calls per second, of all servers
    #[arg(long, default_value_t = 1_000.0)]
    pub(super) calls_per_second: f64,
    /// Databases: cells with their own servers and tenants
    #[arg(long, default_value_t = 1)]
    pub(super) databases: usize,
    /// Servers, of all databases
    #[arg(long, default_value_t = 3)]
    pub(super) replicas: usize,
    /// Tenants, of all databases
    #[arg(long, default_value_t = 100)]
    pub(super) tenants: usize,
    /// How unequal the tenants of a database are: the exponent of Zipf's law; 0 makes them equal
    #[arg(long, default_value_t = 1.0)]
    pub(super) skew: f64,
    /// Send each tenant to one server
    #[arg(long)]
    pub(super) sticky: bool,
    /// Processors of a server
    #[arg(long, default_value_t = 4)]
    pub(super) cores: usize,
    /// Processors of a database
    #[arg(long, default_value_t = 16)]
    pub(super) database_cores: usize,
    /// Milliseconds of the disk per commit; by default as measured
    #[arg(long)]
    pub(super) commit_ms: Option<f64>,
    /// Microseconds of a round trip between server and database
    #[arg(long, default_value_t = 200.0)]
    pub(super) round_trip_us: f64,
    /// Megabytes per second that the disk of a database takes
    #[arg(long, default_value_t = 500.0)]
    pub(super) disk_mb: f64,
    /// Terabytes of the disk of a database
    #[arg(long, default_value_t = 8.0)]
    pub(super) disk_tb: f64,
    /// Where rates are counted
    #[arg(long, value_enum, default_value_t = Limits::Redis)]
    pub(super) limits: Limits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "camelCase")]
pub(super) enum Limits {
    /// In each server
    Own,
    /// In the database
    Store,
    /// In one Valkey or Redis per database
    Redis,
}

/// What happens when a resource is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Effect {
    /// Calls wait, and are finally refused.
    Calls,
    /// Calls continue, and the work falls behind.
    Backlog,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Resource {
    pub(super) name: &'static str,
    pub(super) effect: Effect,
    /// The offered load as a share of the capacity; 1 is full.
    pub(super) utilisation: f64,
    /// Of the whole deployment.
    pub(super) max_calls_per_second: f64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report {
    pub(super) scenario: Scenario,
    pub(super) resources: Vec<Resource>,
    /// The first resource that makes calls wait.
    pub(super) limit: &'static str,
    pub(super) max_calls_per_second: f64,
    /// The first resource that lets work fall behind, if it is reached earlier.
    pub(super) falls_behind: Option<&'static str>,
    /// From an append to its commit, when no other waits.
    pub(super) commit_ms: f64,
    /// Of each database.
    pub(super) gigabytes_per_day: f64,
    pub(super) days_until_full: f64,
    pub(super) connections: usize,
    /// The longest wait for the locks of the other servers.
    pub(super) lock_wait_ms: f64,
    /// The share of the busiest tenant in its database.
    pub(super) busiest_tenant: f64,
}

/// A duration that grows with the number of events, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) fixed: f64,
    pub(super) each: f64,
}

/// The parts of an appending transaction, in microseconds.
#[derive(Debug, Clone, Copy)]
struct Times {
    /// Until the rows of the tenants are locked, without waiting.
    begin: f64,
    /// Chain, sequences and open calls, on a processor of the database.
    prepare: Line,
    /// Round trips after the locks and before the position counter.
    travel: f64,
    /// The rows of the events, under the lock of the position counter.
    insert: Line,
    /// The round trip before the commit, and the flush of the write-ahead log.
    commit: f64,
}

/// One database of a scenario.
struct Cell<'a> {
    scenario: &'a Scenario,
    constants: &'a Constants,
    servers: usize,
    /// The shares of the tenants, the greatest first.
    tenants: Vec<f64>,
    times: Times,
}

// === impl Effect ===

impl Effect {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Calls => "calls wait, then 503",
            Self::Backlog => "falls behind",
        }
    }
}

// === impl Line ===

impl Line {
    pub(super) fn of(self, events: f64) -> f64 {
        self.fixed + self.each * events
    }
}

// === impl Times ===

impl Times {
    /// The parts on a database with these times of a commit and a round trip.
    fn new(constants: &Constants, flush_us: f64, trip_us: f64) -> Self {
        let insert = constants.line(|group| group.counter_us);
        let all = constants.line(|group| group.relaxed_us);
        let insert = Line { fixed: insert.fixed.clamp(0.0, all.fixed), each: insert.each };
        let [begin, travel, commit] = TRIPS.map(|trips| trips * trip_us);
        let prepare =
            Line { fixed: all.fixed - insert.fixed, each: (all.each - insert.each).max(0.0) };
        Self { begin, prepare, travel, insert, commit: commit + flush_us }
    }

    /// How long the position counter is locked.
    fn counter(&self, events: f64) -> f64 {
        self.insert.of(events) + self.commit
    }

    /// How long the rows of the tenants are locked.
    fn locked(&self, events: f64) -> f64 {
        self.prepare.of(events) + self.travel + self.counter(events)
    }

    /// The time of a whole transaction that waits for no other.
    fn whole(&self, events: f64) -> f64 {
        self.begin + self.locked(events)
    }
}

/// Computes what limits `scenario`.
pub(super) fn report(constants: &Constants, scenario: &Scenario) -> Report {
    let cell = Cell::new(constants, scenario);
    let databases = scenario.databases.max(1) as f64;
    let offered = scenario.calls_per_second / databases;
    let mut resources: Vec<Resource> = cell
        .resources()
        .into_iter()
        .map(|(name, effect, load)| Resource {
            name,
            effect,
            utilisation: load(offered),
            max_calls_per_second: full(&load) * databases,
        })
        .collect();
    resources.sort_by(|a, b| a.max_calls_per_second.total_cmp(&b.max_calls_per_second));
    let first = |effect| resources.iter().find(|resource| resource.effect == effect);
    let (limit, max) = first(Effect::Calls)
        .map_or(("", f64::INFINITY), |resource| (resource.name, resource.max_calls_per_second));
    let falls_behind =
        first(Effect::Backlog).filter(|resource| resource.max_calls_per_second < max);
    let falls_behind = falls_behind.map(|resource| resource.name);
    let bytes = offered * EVENTS * constants.measured.disk_bytes_per_event * DAY;
    Report {
        limit,
        max_calls_per_second: max,
        falls_behind,
        commit_ms: cell.times.whole(1.0) / 1e3,
        gigabytes_per_day: bytes / 1e9,
        days_until_full: scenario.disk_tb * 1e12 / bytes,
        connections: cell.servers * CONNECTIONS,
        lock_wait_ms: cell.lock_wait().as_secs_f64() * 1e3,
        busiest_tenant: cell.tenants.first().copied().unwrap_or(1.0),
        scenario: scenario.clone(),
        resources,
    }
}

/// Finds the rate at which `load` is 1.
fn full(load: &dyn Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1e12_f64);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if load(middle) < 1.0 { low = middle } else { high = middle }
    }
    low
}

/// The shares of `count` tenants, which fall with the power `skew` of their rank (Zipf).
fn zipf(count: usize, skew: f64) -> Vec<f64> {
    let weights: Vec<f64> = (1..=count.max(1)).map(|rank| (rank as f64).powf(-skew)).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

type Utilisation<'a> = Box<dyn Fn(f64) -> f64 + 'a>;

impl<'a> Cell<'a> {
    fn new(constants: &'a Constants, scenario: &'a Scenario) -> Self {
        let databases = scenario.databases.max(1);
        let flush = scenario.commit_ms.map_or(constants.flush_us(), |ms| ms * 1e3);
        Self {
            scenario,
            constants,
            servers: (scenario.replicas / databases).max(1),
            tenants: zipf(scenario.tenants / databases, scenario.skew),
            times: Times::new(constants, flush, scenario.round_trip_us),
        }
    }

    /// The share of the busiest server.
    fn busiest_server(&self) -> f64 {
        let mut servers = vec![0.0; self.servers];
        if !self.scenario.sticky {
            return 1.0 / servers.len() as f64;
        }
        for (place, share) in self.tenants.iter().enumerate() {
            let server = place % servers.len();
            if let Some(load) = servers.get_mut(server) {
                *load += share;
            }
        }
        servers.into_iter().fold(0.0, f64::max)
    }

    /// The longest wait when all servers have a full group of common tenants.
    fn lock_wait(&self) -> Duration {
        let times = &self.times;
        let each = match self.scenario.sticky {
            true => times.counter(FULL),
            false => times.locked(FULL),
        };
        Duration::from_secs_f64(each * (self.servers - 1) as f64 / 1e6)
    }

    /// How likely two full groups have a tenant in common, so that one waits for the other.
    fn common_tenants(&self) -> f64 {
        let same: f64 = self.tenants.iter().map(|share| share * share).sum();
        1.0 - (-FULL * FULL * same).exp()
    }

    /// Every resource, with its utilisation at a rate of calls.
    fn resources(&self) -> Vec<(&'static str, Effect, Utilisation<'_>)> {
        let (scenario, constants, times) = (self.scenario, self.constants, &self.times);
        let measured = &constants.measured;
        let servers = self.servers as f64;
        // From microseconds per call, or per full group, to a utilisation.
        let per_call = |us: f64| -> Utilisation<'_> { Box::new(move |calls| calls * us / 1e6) };
        let per_group = |us: f64| per_call(us * EVENTS / FULL);

        let server = constants.call_us + EVENTS * measured.append_cpu_us;
        let transaction = constants.line(|group| group.database_us).of(FULL);
        let limits = match scenario.limits {
            Limits::Store => measured.limit_database_us,
            _ => 0.0,
        };
        let database = transaction * EVENTS / FULL
            + EVENTS * (servers * measured.news_database_us + measured.check_database_us)
            + limits;
        let idle = servers * IDLE_STATEMENTS * measured.statement_database_us / 1e6;
        let cores = scenario.database_cores.max(1) as f64;
        let wal = constants.line(|group| group.wal_bytes).of(FULL) * EVENTS / FULL;
        let page = PAGE_STATEMENTS * (measured.statement_us + scenario.round_trip_us);
        let forwarded = measured.page_us + (RECEIVER_US + page) / PAGE;

        let mut resources: Vec<(_, _, Utilisation<'_>)> = vec![
            (
                "processors of the servers",
                Effect::Calls,
                per_call(server / (servers * scenario.cores.max(1) as f64)),
            ),
            (
                "writer of the busiest server",
                Effect::Calls,
                per_group(times.whole(FULL) * self.busiest_server()),
            ),
            ("position counter and commit", Effect::Calls, per_group(times.counter(FULL))),
            (
                "processors of the database",
                Effect::Calls,
                Box::new(move |calls| (calls * database / 1e6 + idle) / cores),
            ),
            (
                "write-ahead log to disk",
                Effect::Calls,
                Box::new(move |calls| calls * wal / (scenario.disk_mb * 1e6)),
            ),
            ("one forwarder", Effect::Backlog, per_call(EVENTS * forwarded)),
            (
                "verification of a day in a day",
                Effect::Backlog,
                per_call(EVENTS * measured.verify_us),
            ),
            ("signatures of one server", Effect::Backlog, Box::new(|calls| self.signing(calls))),
        ];
        if !scenario.sticky {
            let rows = per_group(times.locked(FULL) * self.common_tenants());
            resources.push(("rows of shared tenants", Effect::Calls, rows));
        }
        if scenario.limits == Limits::Redis {
            let step = per_call(1e6 / constants.redis_per_second);
            resources.push(("rates in Redis (assumed)", Effect::Calls, step));
        }
        resources
    }

    /// The work of a server that signs all tenants alone.
    fn signing(&self, calls: f64) -> f64 {
        let measured = &self.constants.measured;
        let statement = measured.statement_us + self.scenario.round_trip_us;
        let signatures: f64 = self
            .tenants
            .iter()
            .map(|share| {
                let events = share * calls * EVENTS;
                (events / SIGNED_EVENTS).max(events.min(1.0 / SIGNED_SECONDS))
            })
            .sum();
        let signature = SIGNATURE_STATEMENTS * statement + self.times.commit;
        let work = IDLE_STATEMENTS * statement
            + calls * EVENTS * (measured.check_us + measured.news_database_us)
            + signatures * signature;
        work / 1e6
    }
}

#[cfg(test)]
mod tests;
