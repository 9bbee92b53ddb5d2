//! Selects the refusals with separate events, and counts all others.
//!
//! A refusal is free for its caller, so it must be almost free for the event log. Each principal
//! and each tenant has a bucket (GCRA, as rate limits have). A refusal that both admit gets a
//! separate event. Any other is counted in a [`Row`], and each row becomes one event with a count.
//!
//! Invariant: memory is bounded: [`MAX_BUCKETS`] buckets of about 150 bytes, and at most twice
//! [`MAX_ROWS`] rows of about 1 KiB. Rows hold no arguments.
//! Invariant: no refusal is lost. When the table is full, refusals are counted in a less specific
//! row.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use parking_lot::Mutex;
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, EventId, PrincipalId, RunId, TenantId},
    limit::{self, BucketKey, Rate},
};

use crate::snapshot::Miss;

/// Separate events for refusals of one principal: more than a conformance suite or a faulty agent
/// needs.
const OF_PRINCIPAL: Rate = rate(20, 60, 100);
/// Separate events for refusals of all principals of a tenant.
const OF_TENANT: Rate = rate(100, 60, 500);
/// Separate events for refusals of callers without credentials on one route.
const OF_ROUTE: Rate = rate(1, 1, 1);
/// How long refusals are counted before the count is recorded.
const WINDOW: u64 = 10_000_000_000;

/// Buckets in all.
const MAX_BUCKETS: usize = 32_768;
/// Nanoseconds between two searches for buckets that are full again.
const SWEEP: u64 = 1_000_000_000;
/// Rows in all, of one tenant, and of one principal.
const MAX_ROWS: usize = 4_096;
const MAX_ROWS_OF_TENANT: usize = 64;
const MAX_ROWS_OF_PRINCIPAL: usize = 8;
/// The name for several tools, routes or reasons together.
pub(super) const SEVERAL: &str = "*";

const fn rate(calls: u32, seconds: u64, burst: u32) -> Rate {
    let calls = NonZeroU32::MIN.saturating_add(calls.saturating_sub(1));
    Rate { calls, period: Duration::from_secs(seconds), burst: NonZeroU32::new(burst) }
}

/// A refused request.
#[derive(Clone)]
pub(crate) struct Refusal {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    /// The refused action, for example `tools:call`.
    pub(crate) action: Box<str>,
    pub(crate) subject: RefusalSubject,
    pub(crate) at: Timestamp,
}

#[derive(Clone)]
pub(crate) enum RefusalSubject {
    /// A subject with a known reason.
    Known {
        resource: Box<str>,
        reason: Box<str>,
        /// The scope that the caller does not have.
        missing: Option<Box<str>>,
    },
    /// A name that matches no tool of the caller. Whether such a tool exists, and why the caller
    /// may not use it, is decided when the refusal is recorded, so that the response time does not
    /// depend on it.
    Miss(Box<(Miss, Option<MissedCall>)>),
}

/// A call of a tool that the caller may not use.
#[derive(Clone)]
pub(crate) struct MissedCall {
    /// Who acts for the caller.
    pub(crate) actors: Vec<PrincipalId>,
    pub(crate) run: RunId,
    pub(crate) call: CallId,
    /// The event of the call that this one is a step of.
    pub(crate) cause: Option<EventId>,
}

/// Refusals that were counted together.
pub(super) struct Row {
    /// The first of them.
    pub(super) first: Refusal,
    pub(super) count: u64,
    /// When it was counted, in nanoseconds.
    since: u64,
}

/// The common part of the refusals of one row. They are of one tenant.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Topic {
    principal: PrincipalId,
    action: Box<str>,
    resource: Box<str>,
    /// `None` if it is decided when the row is recorded.
    reason: Option<Box<str>>,
}

#[derive(Default)]
struct Buckets {
    /// Theoretical arrival times.
    arrivals: HashMap<BucketKey, u64>,
    swept: u64,
}

#[derive(Default)]
struct Rows {
    of: HashMap<TenantId, HashMap<Topic, Row>>,
    len: usize,
}

/// The buckets and the rows.
#[derive(Default)]
pub(super) struct Refusals {
    buckets: Mutex<Buckets>,
    rows: Mutex<Rows>,
}

// === impl Refusals ===

impl Refusals {
    /// Whether a refusal of `principal` gets separate events. If so, takes a token from both
    /// buckets.
    pub(super) fn admit(&self, tenant: &TenantId, principal: &PrincipalId, now: u64) -> bool {
        let buckets = [
            (BucketKey::refusals(tenant, principal), OF_PRINCIPAL),
            (BucketKey::tenant_refusals(tenant), OF_TENANT),
        ];
        self.buckets.lock().take(buckets, now)
    }

    /// Like [`admit`](Self::admit), for a caller without credentials.
    pub(super) fn admit_stranger(&self, route: &str, now: u64) -> bool {
        self.buckets.lock().take([(BucketKey::route_refusals(route), OF_ROUTE)], now)
    }

    /// Refills the buckets of `tenant`.
    pub(super) fn reset(&self, tenant: &TenantId) {
        self.buckets.lock().arrivals.retain(|bucket, _| bucket.tenant() != tenant.as_str());
    }

    /// Counts `more` refusals like `first`.
    pub(super) fn count(&self, first: Refusal, more: u64, now: u64) {
        self.rows.lock().count(first, more, now);
    }

    /// Removes and returns the rows after their counting window, or all rows.
    pub(super) fn take(&self, now: u64, all: bool) -> Vec<Row> {
        let due = |row: &Row| all || now.saturating_sub(row.since) >= WINDOW;
        let mut rows = self.rows.lock();
        let mut taken = Vec::new();
        for of_tenant in rows.of.values_mut() {
            taken.extend(of_tenant.extract_if(|_, row| due(row)).map(|(_, row)| row));
        }
        rows.of.retain(|_, of_tenant| !of_tenant.is_empty());
        rows.len = rows.len.saturating_sub(taken.len());
        taken
    }
}

// === impl Buckets ===

impl Buckets {
    /// Takes a token from every bucket in `wanted`, or fails without a change if one of them is
    /// empty.
    fn take<const N: usize>(&mut self, wanted: [(BucketKey, Rate); N], now: u64) -> bool {
        let mut next = Vec::with_capacity(N);
        for (bucket, rate) in wanted {
            let arrival = self.arrivals.get(&bucket).copied();
            if arrival.is_none() && !self.has_room(N, now) {
                return false;
            }
            match limit::take(arrival.unwrap_or(0), now, &rate) {
                Ok(arrival) => next.push((bucket, arrival)),
                Err(_wait) => return false,
            }
        }
        self.arrivals.extend(next);
        true
    }

    /// Whether `more` buckets fit. Only full buckets are forgotten.
    fn has_room(&mut self, more: usize, now: u64) -> bool {
        let full = |buckets: &Self| buckets.arrivals.len() + more > MAX_BUCKETS;
        if full(self) && now.saturating_sub(self.swept) >= SWEEP {
            self.swept = now;
            self.arrivals.retain(|_, arrival| *arrival > now);
        }
        !full(self)
    }
}

// === impl Rows ===

impl Rows {
    fn count(&mut self, first: Refusal, more: u64, now: u64) {
        let topic = Topic::of(&first);
        let Some(first) = self.add(topic, first, more, now) else { return };
        let first = first.of_several();
        let topic = Topic::of(&first);
        let Some(mut first) = self.add(topic, first, more, now) else { return };
        // Real callers never have this id.
        if let Ok(several) = PrincipalId::parse("-") {
            first.principal = several;
        }
        let room = self.of.contains_key(&first.tenant) || self.of.len() < MAX_ROWS;
        if let (false, Ok(operator)) = (room, TenantId::parse(TenantId::OPERATOR)) {
            first.tenant = operator;
        }
        let topic = Topic::of(&first);
        self.put(topic, first, more, now);
    }

    /// Counts `first` in the row of `topic`; gives it back if the row is missing and the table is
    /// full.
    fn add(&mut self, topic: Topic, first: Refusal, more: u64, now: u64) -> Option<Refusal> {
        let of_tenant = self.of.get(&first.tenant);
        let known = of_tenant.is_some_and(|rows| rows.contains_key(&topic));
        let (rows, own) = of_tenant.map_or((0, 0), |rows| {
            let own = rows.keys().filter(|other| other.principal == topic.principal).count();
            (rows.len(), own)
        });
        // The less specific row has a reserved place.
        let most = match topic.is_of_several() {
            true => MAX_ROWS_OF_PRINCIPAL + 1,
            false => MAX_ROWS_OF_PRINCIPAL,
        };
        if !known && (rows >= MAX_ROWS_OF_TENANT || own >= most || self.len >= MAX_ROWS) {
            return Some(first);
        }
        self.put(topic, first, more, now);
        None
    }

    fn put(&mut self, topic: Topic, first: Refusal, more: u64, now: u64) {
        let rows = self.of.entry(first.tenant.clone()).or_default();
        match rows.get_mut(&topic) {
            Some(row) => row.count = row.count.saturating_add(more),
            None => {
                rows.insert(topic, Row { first, count: more, since: now });
                self.len += 1;
            }
        }
    }
}

// === impl Topic ===

impl Topic {
    fn of(refusal: &Refusal) -> Self {
        let (resource, reason) = match &refusal.subject {
            RefusalSubject::Known { resource, reason, .. } => {
                (resource.clone(), Some(reason.clone()))
            }
            RefusalSubject::Miss(missed) => {
                let tool = missed.0.entry.as_ref().map_or("unknown", |entry| entry.id.as_str());
                (tool.into(), None)
            }
        };
        let (principal, action) = (refusal.principal.clone(), refusal.action.clone());
        Self { principal, action, resource, reason }
    }

    fn is_of_several(&self) -> bool {
        &*self.action == SEVERAL
    }
}

// === impl Refusal ===

impl RefusalSubject {
    pub(super) fn of(resource: &str, reason: &str) -> Self {
        Self::Known { resource: resource.into(), reason: reason.into(), missing: None }
    }
}

impl Refusal {
    /// The same refusal without its subject.
    fn of_several(self) -> Self {
        let subject = RefusalSubject::of(SEVERAL, "refused");
        Self { action: SEVERAL.into(), subject, ..self }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn tenant(name: &str) -> TenantId {
        TenantId::parse(name).unwrap()
    }

    fn principal(name: &str) -> PrincipalId {
        PrincipalId::parse(name).unwrap()
    }

    fn refusal(of: &str, who: &str, resource: &str) -> Refusal {
        Refusal {
            tenant: tenant(of),
            principal: principal(who),
            action: "tools:call".into(),
            subject: RefusalSubject::of(resource, "scope"),
            at: DateTime::UNIX_EPOCH,
        }
    }

    fn admitted(refusals: &Refusals, of: &str, who: &str, times: usize, now: u64) -> usize {
        (0..times).filter(|_| refusals.admit(&tenant(of), &principal(who), now)).count()
    }

    #[test]
    fn a_principal_has_a_burst_and_then_a_trickle() {
        let refusals = Refusals::default();
        assert_eq!(admitted(&refusals, "t", "p", 1_000, 0), 100);
        assert_eq!(admitted(&refusals, "t", "q", 10, 0), 10, "of nobody else");
        assert_eq!(admitted(&refusals, "u", "p", 10, 0), 10, "and in no other tenant");
        assert_eq!(admitted(&refusals, "t", "p", 1_000, 60 * SECOND), 20);
        refusals.reset(&tenant("t"));
        assert_eq!(admitted(&refusals, "t", "p", 1_000, 60 * SECOND), 100);
    }

    #[test]
    fn a_tenant_has_a_bucket_for_all_its_principals() {
        let refusals = Refusals::default();
        let of_each: usize =
            (0..100).map(|i| admitted(&refusals, "t", &format!("p{i}"), 10, 0)).sum();
        assert_eq!(of_each, 500);
        assert_eq!(admitted(&refusals, "u", "p", 10, 0), 10);
    }

    #[test]
    fn buckets_are_bounded() {
        let refusals = Refusals::default();
        for i in 0..MAX_BUCKETS * 2 {
            refusals.admit(&tenant(&format!("t{i}")), &principal("p"), SECOND);
        }
        assert!(refusals.buckets.lock().arrivals.len() <= MAX_BUCKETS);
        // Once they are full again there is room.
        assert_eq!(admitted(&refusals, "new", "p", 1, 3_600 * SECOND), 1);
    }

    #[test]
    fn rows_are_bounded_and_count_every_refusal() {
        let refusals = Refusals::default();
        let mut counted = 0;
        for of in 0..200 {
            for who in 0..20 {
                for tool in 0..20 {
                    let one = refusal(&format!("t{of}"), &format!("p{who}"), &format!("x{tool}"));
                    refusals.count(one, 1, 0);
                    counted += 1;
                }
            }
        }
        let rows = refusals.take(0, true);
        // One of several in each tenant is beyond the bound.
        assert!(rows.len() <= MAX_ROWS + 201, "{}", rows.len());
        assert_eq!(rows.iter().map(|row| row.count).sum::<u64>(), counted);
        assert_eq!(refusals.rows.lock().len, 0);
    }

    #[test]
    fn one_principal_cannot_take_the_rows_of_others() {
        let refusals = Refusals::default();
        for tool in 0..1_000 {
            refusals.count(refusal("t", "loud", &format!("x{tool}")), 1, 0);
        }
        refusals.count(refusal("t", "other", "x"), 1, 0);
        let rows = refusals.take(0, true);
        let of =
            |who: &str| rows.iter().filter(|row| row.first.principal == principal(who)).count();
        assert_eq!((of("loud"), of("other")), (MAX_ROWS_OF_PRINCIPAL + 1, 1));
    }

    #[test]
    fn rows_are_due_after_their_window() {
        let refusals = Refusals::default();
        refusals.count(refusal("t", "p", "x"), 1, SECOND);
        refusals.count(refusal("t", "p", "x"), 2, 5 * SECOND);
        assert!(refusals.take(10 * SECOND, false).is_empty());
        let rows = refusals.take(11 * SECOND, false);
        assert_eq!(rows.iter().map(|row| row.count).collect::<Vec<_>>(), [3]);
        assert!(refusals.take(99 * SECOND, true).is_empty());
    }
}
