//! Discrete events of the path that every appended event takes: the queue of its server, the rows of
//! the tenants, the position counter and the commit. The rules are those of
//! `crates/store/src/postgres/{writer,append}.rs`; time is a number, so a run depends on its seed alone.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::time::Duration;

use crate::histogram::Histogram;

/// The most appends in one transaction (`MAX_BATCH` of the store).
pub(super) const GROUP: u32 = 256;

/// A duration that grows with the number of events, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub(super) fixed: f64,
    pub(super) each: f64,
}

/// The parts of an appending transaction, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Until the rows of the tenants are locked, without waiting.
    pub(super) begin: f64,
    /// Chain, sequences and open calls, on a processor of the database.
    pub(super) prepare: Line,
    /// Round trips after the locks and before the position counter.
    pub(super) travel: f64,
    /// The rows of the events, under the lock of the position counter.
    pub(super) insert: Line,
    /// The round trip before the commit, and the flush of the write-ahead log.
    pub(super) commit: f64,
}

/// The shares of the tenants, in cumulative form.
#[derive(Debug, Clone)]
pub(super) struct Tenants(Vec<f64>);

/// One database with its servers.
#[derive(Debug, Clone)]
pub(super) struct Path {
    pub(super) servers: usize,
    pub(super) tenants: Tenants,
    /// Whether each tenant is served by one server.
    pub(super) sticky: bool,
    /// Processors of the database.
    pub(super) processors: usize,
    pub(super) times: Times,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Load {
    /// Every server always has a full group waiting.
    Saturated { transactions: u64 },
    /// Calls at random moments. Each appends an event, waits for its tool, and appends another one.
    Calls { per_second: f64, count: u64, tool: Duration },
}

/// The result of a run. Shares are parts of the simulated time.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) offered: u64,
    pub(super) stored: u64,
    pub(super) transactions: u64,
    pub(super) seconds: f64,
    pub(super) counter: f64,
    pub(super) busiest_tenant: f64,
    /// From an append until its commit.
    pub(super) latencies: Histogram,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Call,
    /// The tool of a call of this tenant has returned, on this server.
    Returned(usize, u32),
    Begun(usize),
    Prepared(usize),
    AtCounter(usize),
    Inserted(usize),
    Committed(usize),
}

/// An append of one event.
#[derive(Debug, Clone, Copy)]
struct Job {
    tenant: u32,
    since: u64,
    opens_call: bool,
}

#[derive(Debug, Default)]
struct Server {
    queue: VecDeque<Job>,
    group: Vec<Job>,
    /// The tenants of the group in the order of locking, and how many are locked.
    tenants: Vec<u32>,
    locked: usize,
}

#[derive(Debug, Default)]
struct Lock {
    is_held: bool,
    waiting: VecDeque<usize>,
    since: u64,
    held: u64,
}

struct Simulation<'a> {
    path: &'a Path,
    load: Load,
    now: u64,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    number: u64,
    random: Random,
    servers: Vec<Server>,
    rows: HashMap<u32, Lock>,
    counter: Lock,
    idle: usize,
    /// Work that waits for a processor of the database.
    ready: VecDeque<(u64, Event)>,
    begun_calls: u64,
    outcome: Outcome,
}

/// SplitMix64.
struct Random(u64);

// === impl Line ===

impl Line {
    pub(super) fn of(self, events: f64) -> f64 {
        self.fixed + self.each * events
    }
}

// === impl Times ===

impl Times {
    /// How long the position counter is locked.
    pub(super) fn counter(&self, events: f64) -> f64 {
        self.insert.of(events) + self.commit
    }

    /// How long the rows of the tenants are locked.
    pub(super) fn locked(&self, events: f64) -> f64 {
        self.prepare.of(events) + self.travel + self.counter(events)
    }

    /// The time of a whole transaction that waits for no other.
    pub(super) fn whole(&self, events: f64) -> f64 {
        self.begin + self.locked(events)
    }
}

// === impl Tenants ===

impl Tenants {
    /// Creates `count` tenants whose shares fall with the power `skew` of their rank (Zipf); 0 makes
    /// them equal.
    pub(super) fn zipf(count: usize, skew: f64) -> Self {
        let mut sum = 0.0;
        let ranks = 1..=count.max(1);
        let mut sums: Vec<f64> = ranks
            .map(|rank| {
                sum += (rank as f64).powf(-skew);
                sum
            })
            .collect();
        sums.iter_mut().for_each(|it| *it /= sum);
        Self(sums)
    }

    /// The share of each tenant, the greatest first.
    pub(super) fn shares(&self) -> impl Iterator<Item = f64> {
        let mut before = 0.0;
        self.0.iter().map(move |sum| sum - std::mem::replace(&mut before, *sum))
    }

    fn draw(&self, random: &mut Random) -> u32 {
        let at = random.share();
        self.0.partition_point(|sum| *sum <= at).min(self.0.len() - 1) as u32
    }
}

// === impl Random ===

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number from 0 to 1, without 1.
    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn below(&mut self, count: usize) -> usize {
        ((self.share() * count as f64) as usize).min(count.saturating_sub(1))
    }
}

// === impl Lock ===

impl Lock {
    /// Locks for `server`, or lets it wait.
    fn take(&mut self, server: usize, now: u64) -> bool {
        if self.is_held {
            self.waiting.push_back(server);
            return false;
        }
        (self.is_held, self.since) = (true, now);
        true
    }

    /// Releases the lock; returns the server that has it next.
    fn release(&mut self, now: u64) -> Option<usize> {
        self.held += now - std::mem::replace(&mut self.since, now);
        let next = self.waiting.pop_front();
        self.is_held = next.is_some();
        next
    }
}

/// Runs `load` on `path`. Equal seeds give equal results.
pub(super) fn run(path: &Path, load: Load, seed: u64) -> Outcome {
    let mut simulation = Simulation {
        path,
        load,
        now: 0,
        events: BinaryHeap::new(),
        number: 0,
        random: Random(seed),
        servers: (0..path.servers).map(|_| Server::default()).collect(),
        rows: HashMap::new(),
        counter: Lock::default(),
        idle: path.processors,
        ready: VecDeque::new(),
        begun_calls: 0,
        outcome: Outcome {
            offered: 0,
            stored: 0,
            transactions: 0,
            seconds: 0.0,
            counter: 0.0,
            busiest_tenant: 0.0,
            latencies: Histogram::new(),
        },
    };
    match load {
        Load::Saturated { .. } => (0..path.servers).for_each(|it| simulation.start(it)),
        Load::Calls { .. } => simulation.schedule_call(),
    }
    while let Some(Reverse((at, _, event))) = simulation.events.pop() {
        simulation.now = at;
        simulation.step(event);
    }
    simulation.conclude()
}

impl Simulation<'_> {
    fn after(&mut self, microseconds: f64, event: Event) {
        self.number += 1;
        let at = self.now + nanoseconds(microseconds);
        self.events.push(Reverse((at, self.number, event)));
    }

    fn step(&mut self, event: Event) {
        let times = self.path.times;
        match event {
            Event::Call => {
                let tenant = self.path.tenants.draw(&mut self.random);
                let server = match self.path.sticky {
                    true => tenant as usize % self.path.servers,
                    false => self.random.below(self.path.servers),
                };
                self.append(server, tenant, true);
                self.schedule_call();
            }
            Event::Returned(server, tenant) => self.append(server, tenant, false),
            Event::Begun(server) => self.lock_tenants(server),
            Event::Prepared(server) => {
                self.free_processor();
                self.after(times.travel, Event::AtCounter(server));
            }
            Event::AtCounter(server) => {
                if self.counter.take(server, self.now) {
                    self.insert(server);
                }
            }
            Event::Inserted(server) => {
                self.free_processor();
                self.after(times.commit, Event::Committed(server));
            }
            Event::Committed(server) => self.commit(server),
        }
    }

    fn schedule_call(&mut self) {
        let Load::Calls { per_second, count, .. } = self.load else { return };
        if self.begun_calls < count {
            self.begun_calls += 1;
            let pause = -(1.0 - self.random.share()).ln() / per_second * 1e6;
            self.after(pause, Event::Call);
        }
    }

    fn append(&mut self, server: usize, tenant: u32, opens_call: bool) {
        self.outcome.offered += 1;
        let job = Job { tenant, since: self.now, opens_call };
        if let Some(it) = self.servers.get_mut(server) {
            it.queue.push_back(job);
        }
        self.start(server);
    }

    /// Starts a transaction with the appends that wait, unless the server has one.
    fn start(&mut self, index: usize) {
        let Some(server) = self.servers.get_mut(index).filter(|it| it.group.is_empty()) else {
            return;
        };
        if let Load::Saturated { transactions } = self.load
            && self.outcome.transactions < transactions
        {
            while server.queue.len() < GROUP as usize {
                let mut tenant = self.path.tenants.draw(&mut self.random);
                if self.path.sticky {
                    // The nearest tenant of this server.
                    let (count, own) = (self.path.tenants.0.len(), self.path.servers);
                    let first = tenant as usize / own * own + index;
                    tenant = if first < count { first } else { index % count } as u32;
                }
                server.queue.push_back(Job { tenant, since: self.now, opens_call: false });
                self.outcome.offered += 1;
            }
        }
        let size = server.queue.len().min(GROUP as usize);
        if size == 0 {
            return;
        }
        server.group.extend(server.queue.drain(..size));
        server.tenants = server.group.iter().map(|job| job.tenant).collect();
        server.tenants.sort_unstable();
        server.tenants.dedup();
        server.locked = 0;
        self.after(self.path.times.begin, Event::Begun(index));
    }

    /// Locks the rows of the tenants in order, and waits at a locked one.
    fn lock_tenants(&mut self, index: usize) {
        let Some(server) = self.servers.get_mut(index) else { return };
        while let Some(tenant) = server.tenants.get(server.locked) {
            if !self.rows.entry(*tenant).or_default().take(index, self.now) {
                return;
            }
            server.locked += 1;
        }
        let work = self.path.times.prepare.of(server.group.len() as f64);
        self.on_processor(work, Event::Prepared(index));
    }

    fn insert(&mut self, index: usize) {
        let events = self.servers.get(index).map_or(0, |it| it.group.len());
        self.on_processor(self.path.times.insert.of(events as f64), Event::Inserted(index));
    }

    fn on_processor(&mut self, microseconds: f64, end: Event) {
        if self.idle == 0 {
            self.ready.push_back((nanoseconds(microseconds), end));
            return;
        }
        self.idle -= 1;
        self.after(microseconds, end);
    }

    fn free_processor(&mut self) {
        match self.ready.pop_front() {
            Some((work, end)) => self.after(work as f64 / 1e3, end),
            None => self.idle += 1,
        }
    }

    fn commit(&mut self, index: usize) {
        if let Some(next) = self.counter.release(self.now) {
            self.insert(next);
        }
        let Some(server) = self.servers.get_mut(index) else { return };
        let (group, tenants) =
            (std::mem::take(&mut server.group), std::mem::take(&mut server.tenants));
        for tenant in tenants {
            let next = self.rows.get_mut(&tenant).and_then(|row| row.release(self.now));
            if let Some(next) = next {
                if let Some(waiting) = self.servers.get_mut(next) {
                    waiting.locked += 1;
                }
                self.lock_tenants(next);
            }
        }
        self.outcome.transactions += 1;
        self.outcome.stored += group.len() as u64;
        for job in group {
            self.outcome.latencies.add(Duration::from_nanos(self.now - job.since));
            if let Load::Calls { tool, .. } = self.load
                && job.opens_call
            {
                self.after(tool.as_secs_f64() * 1e6, Event::Returned(index, job.tenant));
            }
        }
        self.start(index);
    }

    fn conclude(mut self) -> Outcome {
        let all = self.now.max(1) as f64;
        let busiest = self.rows.values().map(|row| row.held).max().unwrap_or(0);
        self.outcome.seconds = all / 1e9;
        self.outcome.counter = self.counter.held as f64 / all;
        self.outcome.busiest_tenant = busiest as f64 / all;
        self.outcome
    }
}

impl Outcome {
    pub(super) fn events_per_second(&self) -> f64 {
        self.stored as f64 / self.seconds
    }
}

fn nanoseconds(microseconds: f64) -> u64 {
    (microseconds * 1e3) as u64
}

#[cfg(test)]
mod tests;
