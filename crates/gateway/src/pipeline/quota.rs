//! Quotas: the calls of each principal on each day, counted in memory and in the store.
//!
//! * Counts are stored every [`PAUSE`], and before the [`MAX_UNSETTLED`]th call of a principal that is
//!   not stored. So a process that is killed loses fewer calls of each principal and tool than that, and
//!   at most those of about a second.
//! * A call is counted when it starts. A call that never started is taken back, and so is one that was
//!   refused after it was counted.
//! * When the store does not answer, calls under a quota are refused once [`MAX_UNSETTLED`] of them are
//!   not stored.
//! * Several processes with one store see each other's calls with that delay.
//!
//! Invariant: memory is bounded. Only counts that the store has are forgotten.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use toolcrib_core::{
    call::CallError,
    catalog::Entry,
    clock::Timestamp,
    id::ToolId,
    principal::Principal,
    quota::{Day, Quota, QuotaKey, QuotaStore},
    store::StoreError,
};

use crate::{background::Services, config::GateConfig, metrics::Limit};

/// How often counts go to the store.
const PAUSE: Duration = Duration::from_secs(1);
/// Calls of a principal, of one tool or of all, that the store need not know of yet.
pub const MAX_UNSETTLED: i64 = 64;
/// Counts that are held here.
const MAX_COUNTS: usize = 100_000;
/// Counts that go to the store at once.
const BATCH: usize = 1_000;

/// The calls of a principal under its quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuotaError {
    /// Too many calls today.
    #[error("the quota of this day is used up")]
    Exceeded { limit: u32, retry_after: Duration },
    /// It could not be counted, which is a refusal.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Counts of calls.
pub struct Quotas {
    store: Arc<dyn QuotaStore>,
    services: Services,
    counts: Mutex<Counts>,
    /// Locked while counts are stored, so that the answers of the store keep their order.
    settling: tokio::sync::Mutex<()>,
}

struct Counts {
    day: Day,
    of: HashMap<QuotaKey, Count>,
    /// Counts of earlier days that are not stored.
    earlier: Vec<(Day, QuotaKey, i64)>,
    /// The day before which the store has nothing any more.
    forgotten: Day,
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    /// The last answer of the store.
    known: u64,
    /// Calls that are being stored.
    on_its_way: i64,
    /// Calls that are not stored.
    pending: i64,
}

/// A call that was counted. Dropped without [`keep`](Self::keep), it is taken back.
#[must_use]
pub(crate) struct QuotaCharge {
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
    pub(crate) fn new(services: Services) -> Arc<Self> {
        let store = services.storage.quotas();
        let day = Day::of(services.now());
        let counts =
            Counts { day, of: HashMap::new(), earlier: Vec::new(), forgotten: Day(i64::MIN) };
        let settling = tokio::sync::Mutex::default();
        Arc::new(Self { store, services, counts: Mutex::new(counts), settling })
    }

    /// Stores the counts every second until the gateway ends.
    pub(crate) fn start(self: &Arc<Self>) {
        let quotas = Arc::clone(self);
        self.services.background.every("quotas", PAUSE, move || {
            let quotas = Arc::clone(&quotas);
            async move {
                if let Err(error) = quotas.settle().await {
                    tracing::warn!(%error, "counts of quotas could not be stored; retrying");
                }
            }
        });
    }

    /// Counts a call of `entry` under all of `quotas`; even over them if `is_granted`.
    ///
    /// # Errors
    /// [`CallError::RateLimited`] and [`CallError::NotAccountable`]: nothing was counted.
    pub(crate) async fn count(
        self: &Arc<Self>,
        entry: &Entry,
        quotas: &[(QuotaKey, Quota)],
        is_granted: bool,
    ) -> Result<QuotaCharge, CallError> {
        let counted = self.take(quotas, !is_granted).await;
        counted.map_err(|error| self.refused(entry, error))
    }

    /// Fails as [`count`](Self::count) would, and counts nothing.
    ///
    /// # Errors
    /// As [`count`](Self::count).
    pub(crate) async fn check_call(
        &self,
        entry: &Entry,
        quotas: &[(QuotaKey, Quota)],
    ) -> Result<(), CallError> {
        self.check(quotas).await.map_err(|error| self.refused(entry, error))
    }

    fn refused(&self, entry: &Entry, error: QuotaError) -> CallError {
        match error {
            QuotaError::Exceeded { limit, retry_after } => {
                self.services.metrics.refused(&entry.source, Limit::Quota);
                CallError::RateLimited { tool: entry.id.clone(), retry_after, limit, daily: true }
            }
            QuotaError::Unavailable(error) => {
                tracing::error!(%error, "a call was refused because it could not be counted");
                CallError::NotAccountable("counted")
            }
        }
    }

    /// The calls that `principal` has made today under its quota in `gate`; `None` when it has none.
    ///
    /// # Errors
    /// [`StoreError`]: the count is unknown.
    pub async fn report(
        &self,
        gate: &GateConfig,
        principal: &Principal,
    ) -> Result<Option<QuotaReport>, StoreError> {
        let Some(quota) = gate.quota_of(principal) else { return Ok(None) };
        let now = self.services.now();
        let used = self.used(&key(principal, None)).await?;
        let resets_at = now + Day::of(now).left(now);
        Ok(Some(QuotaReport { limit: quota.calls(), used, resets_at }))
    }

    /// Counts a call under all of `quotas`, or under none; beyond them unless `within`.
    pub(crate) async fn take(
        self: &Arc<Self>,
        quotas: &[(QuotaKey, Quota)],
        within: bool,
    ) -> Result<QuotaCharge, QuotaError> {
        if quotas.is_empty() {
            // Most calls have no quota, and take no lock.
            let day = Day::of(self.services.now());
            return Ok(QuotaCharge { quotas: Arc::clone(self), day, keys: Vec::new() });
        }
        for (key, _) in quotas {
            self.know(key).await?;
        }
        let (day, many) = {
            let mut counts = self.counts.lock();
            let now = self.services.now();
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
        let counted = QuotaCharge { quotas: Arc::clone(self), day, keys };
        if many {
            self.settle().await?;
        }
        Ok(counted)
    }

    /// Whether a call would be within `quotas` now. Counts nothing.
    pub(crate) async fn check(&self, quotas: &[(QuotaKey, Quota)]) -> Result<(), QuotaError> {
        for (key, quota) in quotas {
            let used = self.used(key).await?;
            let now = self.services.now();
            within_quota(used, *quota, Day::of(now), now)?;
        }
        Ok(())
    }

    async fn used(&self, key: &QuotaKey) -> Result<u64, StoreError> {
        self.know(key).await?;
        let mut counts = self.counts.lock();
        counts.turn(Day::of(self.services.now()));
        Ok(counts.of.get(key).map_or(0, Count::used))
    }

    /// Loads the count of `key` from the store, unless it is in memory.
    async fn know(&self, key: &QuotaKey) -> Result<(), StoreError> {
        let day = {
            let mut counts = self.counts.lock();
            counts.turn(Day::of(self.services.now()));
            if counts.of.contains_key(key) {
                return Ok(());
            }
            if counts.of.len() >= MAX_COUNTS {
                counts.of.retain(|_, count| !count.is_settled());
            }
            if counts.of.len() >= MAX_COUNTS {
                let reason = "too many principals are being counted at once".to_owned();
                return Err(StoreError::Unavailable(reason));
            }
            counts.day
        };
        let stored = self.store.add(day, vec![(key.clone(), 0)]).await;
        let known = stored?.first().copied().unwrap_or(0);
        let mut counts = self.counts.lock();
        if counts.day == day {
            counts.of.entry(key.clone()).or_insert(Count { known, ..Count::default() });
        }
        Ok(())
    }

    /// Stores every count.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let _in_order = self.settling.lock().await;
        loop {
            let earlier = {
                let mut counts = self.counts.lock();
                counts.turn(Day::of(self.services.now()));
                counts.earlier.pop()
            };
            let Some((day, key, calls)) = earlier else { break };
            if let Err(error) = self.store.add(day, vec![(key.clone(), calls)]).await {
                self.counts.lock().earlier.push((day, key, calls));
                return Err(error);
            }
        }
        loop {
            let (day, batch) = self.counts.lock().batch();
            if batch.is_empty() {
                break;
            }
            let stored = self.store.add(day, batch.clone()).await;
            self.counts.lock().settled(day, &batch, stored.as_deref().ok());
            stored?;
        }
        self.forget().await
    }

    async fn forget(&self) -> Result<(), StoreError> {
        let day = {
            let counts = self.counts.lock();
            if counts.forgotten >= counts.day {
                return Ok(());
            }
            counts.day
        };
        while self.store.forget_before(day).await? > 0 {}
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

    /// Takes some of the counts that are not stored.
    fn batch(&mut self) -> (Day, Vec<(QuotaKey, i64)>) {
        let mut batch = Vec::new();
        for (key, count) in self.of.iter_mut().filter(|(_, count)| count.pending != 0).take(BATCH) {
            batch.push((key.clone(), count.pending));
            count.on_its_way += count.pending;
            count.pending = 0;
        }
        (self.day, batch)
    }

    /// Takes over the answer of the store to a batch; `None` when it failed.
    fn settled(&mut self, day: Day, batch: &[(QuotaKey, i64)], stored: Option<&[u64]>) {
        if self.day != day {
            if stored.is_none() {
                self.earlier.extend(batch.iter().map(|(key, calls)| (day, key.clone(), *calls)));
            }
            return;
        }
        for (index, (key, calls)) in batch.iter().enumerate() {
            let Some(count) = self.of.get_mut(key) else { continue };
            count.on_its_way -= calls;
            match stored.map(|stored| stored.get(index)) {
                Some(Some(known)) => count.known = *known,
                Some(None) | None => count.pending += calls,
            }
        }
    }
}

impl QuotaCharge {
    /// The call started.
    pub(crate) fn keep(mut self) {
        self.keys.clear();
    }
}

impl Drop for QuotaCharge {
    fn drop(&mut self) {
        if !self.keys.is_empty() {
            self.quotas.give_back(self.day, &self.keys);
        }
    }
}
