//! Quotas: counting the calls of a principal on a day, here, and in the store so that a restart forgets
//! none.
//!
//! * What is counted here goes to the store every [`PAUSE`], and before a principal's call that would be
//!   the [`MAX_UNSETTLED`]th that the store does not know of. So a process that is killed forgets fewer
//!   calls than that of each principal and tool, and at most those of about a second.
//! * A call counts when it starts. One that never started gives its place back, and so does one that was
//!   refused after it was counted.
//! * A store that does not answer refuses calls that a quota is for, once what is counted here is no
//!   longer close to what it knows.
//! * Several processes on one store see each other's calls with that delay.
//!
//! Invariant: memory is bounded. Only counts that the store has are forgotten.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::Serialize;
use toolcrib_core::{
    catalog::Entry,
    clock::{Clock, Timestamp},
    id::ToolId,
    principal::Principal,
    quota::{Day, Quota, QuotaKey, QuotaStore},
    store::StoreError,
};

use crate::{Gateway, config::GateConfig};

/// How often counts go to the store.
const PAUSE: Duration = Duration::from_secs(1);
/// Calls of a principal, of one tool or of all, that the store need not know of yet.
pub const MAX_UNSETTLED: i64 = 64;
/// Counts that are held here.
const MAX_COUNTS: usize = 100_000;
/// Counts that go to the store at once.
const BATCH: usize = 1_000;

/// What a principal has used of its quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaReport {
    /// Calls that it may make on a day.
    pub limit: u32,
    /// Calls that it has made today.
    pub used: u64,
    /// When the next day begins.
    pub resets_at: Timestamp,
}

/// Why a call does not start.
#[derive(Debug)]
pub(crate) enum QuotaError {
    /// Too many calls today.
    Exceeded { limit: u32, retry_after: Duration },
    /// It could not be counted, which is a refusal.
    Unavailable(StoreError),
}

/// Counts of calls.
pub(crate) struct Quotas {
    store: Option<Arc<dyn QuotaStore>>,
    clock: Arc<dyn Clock>,
    counts: Mutex<Counts>,
    /// Held while counts go to the store, so that what it answers comes back in order.
    settling: tokio::sync::Mutex<()>,
}

struct Counts {
    day: Day,
    of: HashMap<QuotaKey, Count>,
    /// What the store does not know of earlier days.
    earlier: Vec<(Day, QuotaKey, i64)>,
    /// The day before which the store has nothing any more.
    forgotten: Day,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// What the store said last.
    known: u64,
    /// What it is being told.
    on_its_way: i64,
    /// What it has to be told.
    pending: i64,
}

/// A call that was counted. Dropped without [`keep`](Self::keep), it is taken back.
#[must_use]
pub(crate) struct Counted {
    quotas: Arc<Quotas>,
    day: Day,
    keys: Vec<QuotaKey>,
}

/// The quotas that a call of `entry` by `principal` falls under.
pub(crate) fn quotas_of(
    gate: &GateConfig,
    principal: &Principal,
    entry: &Entry,
) -> Vec<(QuotaKey, Quota)> {
    let of_all = gate.quota_of(principal).map(|quota| (key(principal, None), quota));
    let of_tool = entry.quota.map(|quota| (key(principal, Some(entry.id.clone())), quota));
    of_all.into_iter().chain(of_tool).collect()
}

fn key(principal: &Principal, tool: Option<ToolId>) -> QuotaKey {
    QuotaKey { tenant: principal.tenant.clone(), principal: principal.id.clone(), tool }
}

/// Whether one more call is within `quota` when `used` have been made on `day`.
fn within_quota(used: u64, quota: Quota, day: Day, now: Timestamp) -> Result<(), QuotaError> {
    let limit = quota.calls();
    if used < u64::from(limit) {
        return Ok(());
    }
    let retry_after = day.left(now).max(Duration::from_millis(1));
    Err(QuotaError::Exceeded { limit, retry_after })
}

impl GateConfig {
    /// What `principal` may call on a day: the most of what its roles give, and the quota of all where
    /// none of them says.
    pub fn quota_of(&self, principal: &Principal) -> Option<Quota> {
        let of_roles = principal.roles.iter().filter_map(|role| self.role_quotas.get(role));
        match of_roles.copied().reduce(|one, other| Some(one?.max(other?))) {
            Some(quota) => quota,
            None => self.quota,
        }
    }
}

impl Count {
    fn used(&self) -> u64 {
        self.known.saturating_add_signed(self.on_its_way + self.pending)
    }

    fn is_settled(&self) -> bool {
        self.on_its_way == 0 && self.pending == 0
    }
}

impl Quotas {
    pub(crate) fn new(store: Option<Arc<dyn QuotaStore>>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let day = Day::of(clock.now());
        let counts =
            Counts { day, of: HashMap::new(), earlier: Vec::new(), forgotten: Day(i64::MIN) };
        let settling = tokio::sync::Mutex::default();
        Arc::new(Self { store, clock, counts: Mutex::new(counts), settling })
    }

    /// Counts a call under all of `quotas`, or under none; beyond them unless `within`.
    pub(crate) async fn take(
        self: &Arc<Self>,
        quotas: &[(QuotaKey, Quota)],
        within: bool,
    ) -> Result<Counted, QuotaError> {
        if quotas.is_empty() {
            // Most calls: there is nothing to count, and nobody's lock to wait for.
            let day = Day::of(self.clock.now());
            return Ok(Counted { quotas: Arc::clone(self), day, keys: Vec::new() });
        }
        for (key, _) in quotas {
            self.know(key).await?;
        }
        let (day, many) = {
            let mut counts = self.counts.lock();
            let now = self.clock.now();
            counts.turn(Day::of(now));
            let day = counts.day;
            for (key, quota) in quotas.iter().filter(|_| within) {
                let used = counts.of.get(key).map_or(0, Count::used);
                within_quota(used, *quota, day, now)?;
            }
            let mut many = false;
            for (key, _) in quotas {
                let count = counts.of.entry(key.clone()).or_default();
                count.pending += 1;
                many |= count.pending + count.on_its_way >= MAX_UNSETTLED;
            }
            (day, many)
        };
        let keys = quotas.iter().map(|(key, _)| key.clone()).collect();
        let counted = Counted { quotas: Arc::clone(self), day, keys };
        if many && self.store.is_some() {
            self.settle().await.map_err(QuotaError::Unavailable)?;
        }
        Ok(counted)
    }

    /// Whether a call would be within `quotas` now. Counts nothing.
    pub(crate) async fn check(&self, quotas: &[(QuotaKey, Quota)]) -> Result<(), QuotaError> {
        for (key, quota) in quotas {
            let used = self.used(key).await?;
            let now = self.clock.now();
            within_quota(used, *quota, Day::of(now), now)?;
        }
        Ok(())
    }

    async fn used(&self, key: &QuotaKey) -> Result<u64, QuotaError> {
        self.know(key).await?;
        let mut counts = self.counts.lock();
        counts.turn(Day::of(self.clock.now()));
        Ok(counts.of.get(key).map_or(0, Count::used))
    }

    /// Sees to it that what the store has of `key` is here.
    async fn know(&self, key: &QuotaKey) -> Result<(), QuotaError> {
        let day = {
            let mut counts = self.counts.lock();
            counts.turn(Day::of(self.clock.now()));
            if counts.of.contains_key(key) {
                return Ok(());
            }
            if counts.of.len() >= MAX_COUNTS && self.store.is_some() {
                counts.of.retain(|_, count| !count.is_settled());
            }
            if counts.of.len() >= MAX_COUNTS {
                let reason = "too many principals are being counted at once".to_owned();
                return Err(QuotaError::Unavailable(StoreError::Unavailable(reason)));
            }
            counts.day
        };
        let known = match &self.store {
            None => 0,
            Some(store) => {
                let told = store.add(day, vec![(key.clone(), 0)]).await;
                told.map_err(QuotaError::Unavailable)?.first().copied().unwrap_or(0)
            }
        };
        let mut counts = self.counts.lock();
        if counts.day == day {
            counts.of.entry(key.clone()).or_insert(Count { known, ..Count::default() });
        }
        Ok(())
    }

    /// Tells the store everything that it does not know.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let Some(store) = &self.store else { return Ok(()) };
        let _in_order = self.settling.lock().await;
        loop {
            let earlier = {
                let mut counts = self.counts.lock();
                counts.turn(Day::of(self.clock.now()));
                counts.earlier.pop()
            };
            let Some((day, key, calls)) = earlier else { break };
            if let Err(error) = store.add(day, vec![(key.clone(), calls)]).await {
                self.counts.lock().earlier.push((day, key, calls));
                return Err(error);
            }
        }
        loop {
            let (day, batch) = self.counts.lock().batch();
            if batch.is_empty() {
                break;
            }
            let told = store.add(day, batch.clone()).await;
            self.counts.lock().settled(day, &batch, told.as_deref().ok());
            told?;
        }
        self.forget(store.as_ref()).await
    }

    async fn forget(&self, store: &dyn QuotaStore) -> Result<(), StoreError> {
        let day = {
            let counts = self.counts.lock();
            if counts.forgotten >= counts.day {
                return Ok(());
            }
            counts.day
        };
        while store.forget_before(day).await? > 0 {}
        self.counts.lock().forgotten = day;
        Ok(())
    }

    fn give_back(&self, day: Day, keys: &[QuotaKey]) {
        let mut counts = self.counts.lock();
        if counts.day != day {
            return;
        }
        for key in keys {
            if let Some(count) = counts.of.get_mut(key) {
                count.pending -= 1;
            }
        }
    }
}

impl Counts {
    /// Begins the day `today`, if it is a later one.
    fn turn(&mut self, today: Day) {
        if today <= self.day {
            return;
        }
        let day = self.day;
        self.day = today;
        let unknown = self.of.drain().filter(|(_, count)| count.pending != 0);
        let unknown = unknown.map(|(key, count)| (day, key, count.pending));
        self.earlier.extend(unknown);
    }

    /// Some of what the store does not know.
    fn batch(&mut self) -> (Day, Vec<(QuotaKey, i64)>) {
        let mut batch = Vec::new();
        for (key, count) in self.of.iter_mut().filter(|(_, count)| count.pending != 0).take(BATCH) {
            batch.push((key.clone(), count.pending));
            count.on_its_way += count.pending;
            count.pending = 0;
        }
        (self.day, batch)
    }

    /// What the store said to a batch; none is that it was not told.
    fn settled(&mut self, day: Day, batch: &[(QuotaKey, i64)], told: Option<&[u64]>) {
        if self.day != day {
            if told.is_none() {
                self.earlier.extend(batch.iter().map(|(key, calls)| (day, key.clone(), *calls)));
            }
            return;
        }
        for (index, (key, calls)) in batch.iter().enumerate() {
            let Some(count) = self.of.get_mut(key) else { continue };
            count.on_its_way -= calls;
            match told.map(|told| told.get(index)) {
                Some(Some(known)) => count.known = *known,
                Some(None) | None => count.pending += calls,
            }
        }
    }
}

impl Counted {
    /// The call started.
    pub(crate) fn keep(mut self) {
        self.keys.clear();
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.quotas.give_back(self.day, &self.keys);
        }
    }
}

impl Gateway {
    /// What `principal` has used of its quota today; `None` when it has none.
    ///
    /// # Errors
    /// [`StoreError`]: nobody can tell.
    pub async fn quota(&self, principal: &Principal) -> Result<Option<QuotaReport>, StoreError> {
        let Some(quota) = self.snapshot().gate.quota_of(principal) else { return Ok(None) };
        let now = self.clock().now();
        match self.quotas().used(&key(principal, None)).await {
            Ok(used) => Ok(Some(QuotaReport {
                limit: quota.calls(),
                used,
                resets_at: now + Day::of(now).left(now),
            })),
            Err(QuotaError::Unavailable(error)) => Err(error),
            Err(QuotaError::Exceeded { .. }) => Ok(None),
        }
    }
}

/// Tells the store what was counted, until the gateway ends.
pub(crate) fn follow(gateway: &Gateway) {
    gateway.spawn_each("quotas", PAUSE, |gateway| async move {
        if let Err(error) = gateway.quotas().settle().await {
            tracing::warn!(%error, "counts of quotas could not be stored; they are tried again");
        }
    });
}
