//! Measures the constants of the model on a real PostgreSQL, with the store's own engine.
//!
//! The database must be empty and its server quiet. Processor time of the database is the time that
//! its sessions were active in unflushed transactions (`pg_stat_database.active_time`).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio_postgres::{Client, NoTls};
use toolcrib_core::canonical::Digest;
use toolcrib_core::event::{EventLog, NewEvent};
use toolcrib_core::id::TenantId;
use toolcrib_core::limit::{BucketKey, Rate, RateLimiter};
use toolcrib_core::record::{RecordStore, StoredQuery};
use toolcrib_core::store::Storage;
use toolcrib_store::verify::{self, Scope};
use toolcrib_store::{Durability, Options, PostgresStore};

use super::constants::{Constants, Group, UnitFigures};
use crate::log::calls::Calls;
use crate::machine::Machine;
use crate::process::own_processor_time;

/// Sizes of transactions, in events.
const GROUPS: [u32; 3] = [1, 16, 256];
/// Tenants of the events.
const TENANTS: usize = 100;
/// Events before the first measurement, so that the indexes have some depth.
const PREFILL: u64 = 50_000;
/// The pause between two checks of the locks.
const LOOK: Duration = Duration::from_micros(700);
/// After this time an idle session has reported its statistics.
const REPORTED: Duration = Duration::from_secs(11);

struct Bench {
    url: String,
    strict: PostgresStore,
    relaxed: PostgresStore,
    observer: Client,
    time: Duration,
    tenants: Vec<TenantId>,
    /// Calls that have not returned.
    open: VecDeque<NewEvent>,
    made: usize,
}

/// The cost of transactions of one size.
struct Cost {
    median: Duration,
    total: Duration,
    count: u64,
    processor: Duration,
}

pub(super) async fn run(url: &str, seconds: u32) -> Result<Constants> {
    let (observer, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let open = async |durability| {
        PostgresStore::open(url, Options { durability, ..Options::default() }).await
    };
    let (strict, relaxed) = (open(Durability::Strict).await?, open(Durability::Relaxed).await?);
    ensure!(strict.last_position().await? == 0, "the database is not empty");
    let tenants =
        (0..TENANTS).map(|number| format!("tenant-{number}").parse()).collect::<Result<_, _>>()?;
    let time = Duration::from_secs(seconds.into());
    let (url, open, made) = (url.to_owned(), VecDeque::new(), 0);
    let mut bench = Bench { url, strict, relaxed, observer, time, tenants, open, made };
    let constants = bench.measure().await;
    Storage::close(&bench.strict).await;
    Storage::close(&bench.relaxed).await;
    constants
}

impl Bench {
    async fn measure(&mut self) -> Result<Constants> {
        while self.relaxed.last_position().await? < PREFILL {
            self.append(false, 256).await?;
        }
        let mut groups = Vec::new();
        let mut append_cpu_us = 0.0;
        for events in GROUPS {
            let strict = self.transactions(true, events).await?;
            let (wal, active) = (self.wal().await?, self.active().await?);
            let relaxed = self.transactions(false, events).await?;
            let (wal, active) = (self.wal().await? - wal, self.active().await? - active);
            append_cpu_us = per(
                strict.processor + relaxed.processor,
                strict.events(events) + relaxed.events(events),
            );
            groups.push(Group {
                events,
                strict_us: round(strict.median.as_secs_f64() * 1e6),
                relaxed_us: round(relaxed.median.as_secs_f64() * 1e6),
                counter_us: round(
                    self.counter_share(events).await? * relaxed.median.as_secs_f64() * 1e6,
                ),
                database_us: round(active / relaxed.count.max(1) as f64),
                wal_bytes: round(wal / relaxed.count.max(1) as f64),
            });
        }
        let measured = UnitFigures {
            disk_bytes_per_event: round(self.disk().await?),
            append_cpu_us: round(append_cpu_us),
            ..self.read().await?
        };
        let machine = Machine::read();
        let version = "SELECT current_setting('server_version')";
        Ok(Constants {
            date: machine.date,
            commit: machine.commit,
            machine: format!("{} cores, {}", machine.cores, machine.processor),
            postgres: self.observer.query_one(version, &[]).await?.try_get(0)?,
            build: if cfg!(debug_assertions) { "debug" } else { "release" }.to_owned(),
            measured,
            groups,
            ..Constants::embedded()?
        })
    }

    /// Measures everything that reads, and the shared rates.
    async fn read(&self) -> Result<UnitFigures> {
        let store = &self.relaxed;
        let events = store.last_position().await?;
        let begun = Instant::now();
        let report =
            verify::record(store, &Scope::default(), Vec::new(), &[], &[], |_, _| ()).await?;
        ensure!(report.findings.is_empty(), "the log is damaged: {:?}", report.findings);
        let verify_us = per(begun.elapsed(), report.events);

        let (begun, mut after) = (Instant::now(), 0);
        loop {
            let query = StoredQuery { tenant: None, after, limit: 500, with_prev: true };
            let page = store.stored(query).await?;
            let Some(last) = page.last() else { break };
            after = last.position;
        }
        let page_us = per(begun.elapsed(), events);

        let active = self.active().await?;
        for after in (0..events).step_by(2_000) {
            store.news(after, after + 2_000).await?;
        }
        let news_us = (self.active().await? - active) / events as f64;

        let (mut times, active, mut links) = (Vec::new(), self.active().await?, 0_u64);
        for tenant in &self.tenants {
            let (mut position, mut hash) = (0, Digest([0; 32]));
            loop {
                let begun = Instant::now();
                let page = store.check_links(tenant, position, hash).await?;
                let Some(last) = page.last() else { break };
                (position, hash) = (last.position, last.computed);
                links += page.len() as u64;
                times.push(begun.elapsed() / u32::try_from(page.len())?);
            }
        }
        let check_us = per(median(&mut times), 1);
        let check_database_us = (self.active().await? - active) / links.max(1) as f64;

        let count = 4_000;
        let (mut times, active) = (Vec::new(), self.active().await?);
        for _ in 0..count {
            let begun = Instant::now();
            store.last_position().await?;
            times.push(begun.elapsed());
        }
        let statement_us = per(median(&mut times), 1);
        let statement_database_us = (self.active().await? - active) / count as f64;

        let rate =
            Rate { calls: u32::MAX.try_into()?, period: Duration::from_secs(1), burst: None };
        let (principal, tool) = ("alice".parse()?, "mcp:files.read_file".parse()?);
        let active = self.active().await?;
        for tenant in self.tenants.iter().cycle().take(count as usize) {
            let key = BucketKey::calls(tenant, &principal, &tool);
            store.take(&key, rate).await.ok().context("a rate was exceeded")?;
        }
        let limit_database_us = (self.active().await? - active) / count as f64;
        Ok(UnitFigures {
            verify_us: round(verify_us),
            page_us: round(page_us),
            news_database_us: round(news_us),
            check_us: round(check_us),
            check_database_us: round(check_database_us),
            statement_us: round(statement_us),
            statement_database_us: round(statement_database_us),
            limit_database_us: round(limit_database_us),
            ..UnitFigures::default()
        })
    }

    /// Appends transactions of `events` events, one after the other, for the measured time.
    async fn transactions(&mut self, is_strict: bool, events: u32) -> Result<Cost> {
        let (begun, processor) = (Instant::now(), own_processor_time()?);
        let mut times = Vec::new();
        while begun.elapsed() < self.time {
            times.push(self.append(is_strict, events).await?);
        }
        let processor = own_processor_time()?.saturating_sub(processor);
        let total = times.iter().sum();
        let count = times.len() as u64;
        Ok(Cost { median: median(&mut times), total, count, processor })
    }

    /// Appends one transaction: as many calls as returns, of calls that earlier ones have opened.
    async fn append(&mut self, is_strict: bool, count: u32) -> Result<Duration> {
        let mut opened = Vec::new();
        let mut events = Vec::new();
        for _ in 0..count {
            self.made += 1;
            let is_return = self.made.is_multiple_of(2);
            match is_return.then(|| self.open.pop_front()).flatten() {
                Some(returned) => events.push(returned),
                None => {
                    let place = self.made % self.tenants.len();
                    let tenant = self.tenants.get(place).context("a tenant")?.clone();
                    let (called, mut ending) = Calls::new(tenant)?.next()?;
                    events.push(called);
                    opened.extend(ending.pop());
                }
            }
        }
        self.open.extend(opened);
        let store = if is_strict { &self.strict } else { &self.relaxed };
        let begun = Instant::now();
        EventLog::append(store, &events).await?;
        Ok(begun.elapsed())
    }

    /// Measures the part of relaxed transactions in which the position counter is locked: how often
    /// another session sees the lock while they run.
    async fn counter_share(&mut self, events: u32) -> Result<f64> {
        let sql = "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'log_position'::regclass \
                   AND mode = 'RowExclusiveLock')";
        let (observer, connection) = tokio_postgres::connect(&self.url, NoTls).await?;
        tokio::spawn(connection);
        let statement = observer.prepare(sql).await?;
        let time = self.time;
        let looks = tokio::spawn(async move {
            let (begun, mut looks, mut locked) = (Instant::now(), 0_u32, 0_u32);
            while begun.elapsed() < time {
                looks += 1;
                let row = observer.query_one(&statement, &[]).await?;
                locked += u32::from(row.try_get::<_, bool>(0)?);
                tokio::time::sleep(LOOK).await;
            }
            anyhow::Ok(f64::from(locked) / f64::from(looks))
        });
        let begun = Instant::now();
        let cost = self.transactions(false, events).await?;
        // Events are made between the transactions.
        let busy = cost.total.as_secs_f64() / begun.elapsed().as_secs_f64();
        Ok(looks.await?? / busy)
    }

    /// The bytes of the events with their indexes, per event.
    async fn disk(&self) -> Result<f64> {
        let sql = "SELECT sum(pg_total_relation_size(inhrelid))::float8 \
                   / (SELECT value FROM log_position) \
                   FROM pg_inherits WHERE inhparent = 'events'::regclass";
        Ok(self.observer.query_one(sql, &[]).await?.try_get(0)?)
    }

    /// The written bytes of the write-ahead log.
    async fn wal(&self) -> Result<f64> {
        let sql = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8";
        Ok(self.observer.query_one(sql, &[]).await?.try_get(0)?)
    }

    /// The time that sessions of the database were active, in microseconds.
    async fn active(&self) -> Result<f64> {
        tokio::time::sleep(REPORTED).await;
        let sql = "SELECT active_time * 1000 FROM pg_stat_database \
                   WHERE datname = current_database()";
        Ok(self.observer.query_one(sql, &[]).await?.try_get(0)?)
    }
}

impl Cost {
    fn events(&self, each: u32) -> u64 {
        self.count * u64::from(each)
    }
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// The microseconds of each of `count`.
fn per(time: Duration, count: u64) -> f64 {
    time.as_secs_f64() * 1e6 / count.max(1) as f64
}

/// Rounds to a tenth.
fn round(figure: f64) -> f64 {
    (figure * 10.0).round() / 10.0
}
