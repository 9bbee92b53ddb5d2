//! Quotas: the calls of each principal on each day.
//!
//! * A server sets calls aside at the store before it makes them, a few at a time. So the calls of all
//!   servers together never exceed a quota, also when processes are killed or stopped.
//! * A call counts when it starts. The place of a call that did not start is free for the next one.
//! * Places that are unused for [`PAUSE`] are returned, and all of them at shutdown. Until then
//!   another server may refuse calls early, up to
//!   [`MAX_RESERVED`](toolcrib_core::quota::MAX_RESERVED) for each server, and fewer the less of
//!   the quota is left. A killed process cannot return its places.
//! * While the store is unavailable, calls under a quota are refused after the places are used.
//!
//! Invariant (I-79): a call under a quota starts only in a place set aside at the store.
//! Invariant: memory is bounded. Only counts without places are forgotten.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use toolcrib_config::GateConfig;
use toolcrib_core::{
    call::CallError,
    catalog::Entry,
    clock::Timestamp,
    id::ToolId,
    principal::Principal,
    quota::{Day, Quota, QuotaKey, QuotaReservation, QuotaStore},
    store::StoreError,
};

use crate::{background::Services, metrics::Limit};

/// How often unused places are returned to the store.
const PAUSE: Duration = Duration::from_secs(1);
/// Counts held in memory.
const MAX_COUNTS: usize = 100_000;
/// Counts that are sent to the store together.
const BATCH: usize = 1_000;

/// The calls of a principal under its quota.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct QuotaReport {
    /// Calls that it may make on a day.
    pub limit: u32,
    /// Calls that it has made today.
    pub used: u64,
    /// The start of the next day.
    pub resets_at: Timestamp,
}

/// Why a call does not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QuotaError {
    /// Too many calls today.
    #[error("the quota of this day is used up")]
    Exceeded { limit: u32, retry_after: Duration },
    /// It could not be counted, so it is refused.
    #[error(transparent)]
    Unavailable(#[from] StoreError),
}

/// Counts of calls.
pub struct Quotas {
    store: Arc<dyn QuotaStore>,
    services: Services,
    counts: Mutex<Counts>,
    /// Locked while places are returned.
    returning: tokio::sync::Mutex<()>,
}

struct Counts {
    day: Day,
    of: HashMap<QuotaKey, Count>,
    /// The store has no counts of earlier days.
    forgotten: Day,
}

#[derive(Default)]
struct Count {
    /// The calls counted at the store when places were last set aside, including these places.
    known: u64,
    /// Places for calls that have not started.
    places: u64,
    /// The last use of a place, in monotonic nanoseconds.
    used_at: u64,
    /// The exhausted quota, and when that was found. Until another server may have returned places,
    /// refusals do not cost a request to the store.
    used_up: Option<(Quota, u64)>,
    /// Locked while places are set aside.
    reserving: Arc<tokio::sync::Mutex<()>>,
}

/// The result of looking for a place.
enum Place {
    Taken,
    /// The quota was found exhausted moments ago.
    UsedUp,
    /// Places must be set aside.
    Missing,
}

/// Whether an exhausted quota refuses a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enforcement {
    /// Calls over the quota are refused.
    Refuse,
    /// The call is counted, also over the quota, because its grant is spent.
    CountOnly,
}

/// A counted call. If it is dropped without [`keep`](Self::keep), the count is reverted.
#[must_use]
pub(crate) struct QuotaCharge {
    quotas: Arc<Quotas>,
    places: Vec<(Day, QuotaKey)>,
}

/// The quotas for a call of `entry` by `principal`.
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

/// Why a call does not start when the quota of `day` is used up.
fn exceeded(quota: Quota, day: Day, now: Timestamp) -> QuotaError {
    let retry_after = day.left(now).max(Duration::from_millis(1));
    QuotaError::Exceeded { limit: quota.calls(), retry_after }
}

impl Count {
    /// The calls that are known to have started.
    fn used(&self) -> u64 {
        self.known.saturating_sub(self.places)
    }

    /// Takes a place under `quota`, which may be lower than when it was set aside.
    fn take(&mut self, quota: Quota, enforcement: Enforcement, now: u64) -> Place {
        self.used_at = now;
        let is_refusable = enforcement == Enforcement::Refuse;
        if self.places > 0 && !(is_refusable && self.used() >= u64::from(quota.calls())) {
            self.places -= 1;
            return Place::Taken;
        }
        let is_recent = |at: u64| Duration::from_nanos(now.saturating_sub(at)) < PAUSE;
        match self.used_up {
            Some((limit, at)) if is_refusable && limit == quota && is_recent(at) => Place::UsedUp,
            Some(_) | None => Place::Missing,
        }
    }
}

impl Quotas {
    pub(crate) fn new(services: Services) -> Arc<Self> {
        let store = services.storage.quotas();
        let day = Day::of(services.now());
        let counts = Counts { day, of: HashMap::new(), forgotten: Day(i64::MIN) };
        let returning = tokio::sync::Mutex::default();
        Arc::new(Self { store, services, counts: Mutex::new(counts), returning })
    }

    /// Returns unused places every second until the gateway stops.
    pub(crate) fn start(self: &Arc<Self>) {
        let quotas = Arc::clone(self);
        self.services.background.every("quotas", PAUSE, move || {
            let quotas = Arc::clone(&quotas);
            async move {
                let now = quotas.services.clock.monotonic_nanos();
                let idle = now.saturating_sub(u64::try_from(PAUSE.as_nanos()).unwrap_or(u64::MAX));
                if let Err(error) = quotas.return_places(idle).await {
                    tracing::warn!(%error, "unused calls of quotas could not be returned; they count");
                }
            }
        });
    }

    /// Counts a call of `entry` under all of `quotas`.
    ///
    /// # Errors
    /// [`CallError::RateLimited`] and [`CallError::NotAccountable`]; in that case the counts are
    /// unchanged.
    pub(crate) async fn count(
        self: &Arc<Self>,
        entry: &Entry,
        quotas: &[(QuotaKey, Quota)],
        enforcement: Enforcement,
    ) -> Result<QuotaCharge, CallError> {
        let counted = self.take(quotas, enforcement).await;
        counted.map_err(|error| self.refused(entry, error))
    }

    /// Fails as [`count`](Self::count) would, without counting.
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

    /// The calls that `principal` has made today under its quota in `gate`; `None` without a quota.
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

    /// Counts a call under all of `quotas`, or on an error under none.
    pub(crate) async fn take(
        self: &Arc<Self>,
        quotas: &[(QuotaKey, Quota)],
        enforcement: Enforcement,
    ) -> Result<QuotaCharge, QuotaError> {
        // Most calls have no quota, and need no lock.
        let mut charge = QuotaCharge { quotas: Arc::clone(self), places: Vec::new() };
        for (key, quota) in quotas {
            let day = self.place(key, *quota, enforcement).await?;
            charge.places.push((day, key.clone()));
        }
        Ok(charge)
    }

    /// Takes a place of `key`, sets places aside if necessary, and returns its day.
    async fn place(
        self: &Arc<Self>,
        key: &QuotaKey,
        quota: Quota,
        enforcement: Enforcement,
    ) -> Result<Day, QuotaError> {
        let take = || {
            let mut counts = self.counts.lock();
            counts.turn(Day::of(self.services.now()));
            let day = counts.day;
            let count = counts.count(key)?;
            let place = count.take(quota, enforcement, self.services.clock.monotonic_nanos());
            Ok::<_, StoreError>((day, place, Arc::clone(&count.reserving)))
        };
        let used_up = |day| Err(exceeded(quota, day, self.services.now()));
        loop {
            let reserving = match take()? {
                (day, Place::Taken, _) => return Ok(day),
                (day, Place::UsedUp, _) => return used_up(day),
                (_, Place::Missing, reserving) => reserving,
            };
            // Of several concurrent calls, the first one sets places aside for all.
            let _one = reserving.lock_owned().await;
            let day = match take()? {
                (day, Place::Taken, _) => return Ok(day),
                (day, Place::UsedUp, _) => return used_up(day),
                (day, Place::Missing, _) => day,
            };
            // In a separate task: the places of a caller that disconnects are kept.
            let (quotas, quota_key) = (Arc::clone(self), key.clone());
            let reserved = self
                .services
                .background
                .spawn(async move { quotas.reserve(day, quota_key, quota, enforcement).await });
            let reserved = reserved.await.map_err(|error| {
                StoreError::Unavailable(format!("counting a call panicked: {error}"))
            })?;
            if reserved? == 0 {
                return used_up(day);
            }
        }
    }

    /// Sets places of `key` aside, and returns their number. A call that is only counted always
    /// gets one.
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
        enforcement: Enforcement,
    ) -> Result<u64, StoreError> {
        let mut reserved = self.store.reserve(day, key.clone(), quota).await?;
        if enforcement == Enforcement::CountOnly && reserved.granted == 0 {
            let used = self.store.add(day, vec![(key.clone(), 1)]).await?;
            reserved = QuotaReservation { used: used.first().copied().unwrap_or(0), granted: 1 };
        }
        let mut counts = self.counts.lock();
        if counts.day == day {
            let count = counts.of.entry(key).or_default();
            count.known = reserved.used;
            count.places += reserved.granted;
            let now = self.services.clock.monotonic_nanos();
            count.used_up = (reserved.granted == 0).then_some((quota, now));
        }
        Ok(reserved.granted)
    }

    /// Whether a call would be within `quotas` now, without counting it.
    pub(crate) async fn check(&self, quotas: &[(QuotaKey, Quota)]) -> Result<(), QuotaError> {
        for (key, quota) in quotas {
            let used = self.used(key).await?;
            if used >= u64::from(quota.calls()) {
                let now = self.services.now();
                return Err(exceeded(*quota, Day::of(now), now));
            }
        }
        Ok(())
    }

    /// The calls that count today, without the places of this server.
    async fn used(&self, key: &QuotaKey) -> Result<u64, StoreError> {
        let day = {
            let mut counts = self.counts.lock();
            counts.turn(Day::of(self.services.now()));
            counts.day
        };
        let stored = self.store.add(day, vec![(key.clone(), 0)]).await?;
        let stored = stored.first().copied().unwrap_or(0);
        let counts = self.counts.lock();
        let places =
            counts.of.get(key).filter(|_| counts.day == day).map_or(0, |count| count.places);
        Ok(stored.saturating_sub(places))
    }

    /// Returns the places of counts that are unused since `idle`.
    async fn return_places(&self, idle: u64) -> Result<(), StoreError> {
        let _in_order = self.returning.lock().await;
        loop {
            let (day, batch) = {
                let mut counts = self.counts.lock();
                counts.turn(Day::of(self.services.now()));
                (counts.day, counts.take_places(idle))
            };
            if batch.is_empty() {
                break;
            }
            // After a failure it is unknown whether they were returned, so they are not used again.
            self.store.add(day, batch).await?;
        }
        self.forget().await
    }

    /// Returns all places, at shutdown.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        self.return_places(u64::MAX).await
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

    fn give_back(&self, places: &[(Day, QuotaKey)]) {
        let mut counts = self.counts.lock();
        let today = counts.day;
        for (_, key) in places.iter().filter(|(day, _)| *day == today) {
            if let Some(count) = counts.of.get_mut(key) {
                count.places += 1;
            }
        }
    }
}

impl Counts {
    /// Starts the day `today` if it is later than the current one. Places of an earlier day are
    /// useless.
    fn turn(&mut self, today: Day) {
        if today > self.day {
            self.day = today;
            self.of.clear();
        }
    }

    fn count(&mut self, key: &QuotaKey) -> Result<&mut Count, StoreError> {
        if !self.of.contains_key(key) && self.of.len() >= MAX_COUNTS {
            let is_needed =
                |count: &Count| count.places > 0 || Arc::strong_count(&count.reserving) > 1;
            self.of.retain(|_, count| is_needed(count));
            if self.of.len() >= MAX_COUNTS {
                let reason = "too many principals are being counted at once".to_owned();
                return Err(StoreError::Unavailable(reason));
            }
        }
        Ok(self.of.entry(key.clone()).or_default())
    }

    /// Takes the places of some counts that are unused since `idle`. Returns them as numbers to add
    /// at the store.
    fn take_places(&mut self, idle: u64) -> Vec<(QuotaKey, i64)> {
        let idle =
            self.of.iter_mut().filter(|(_, count)| count.places > 0 && count.used_at <= idle);
        idle.take(BATCH)
            .map(|(key, count)| {
                let places = std::mem::take(&mut count.places);
                count.known = count.known.saturating_sub(places);
                (key.clone(), -places.cast_signed())
            })
            .collect()
    }
}

impl QuotaCharge {
    /// Keeps the count, because the call started.
    pub(crate) fn keep(mut self) {
        self.places.clear();
    }
}

impl Drop for QuotaCharge {
    fn drop(&mut self) {
        if !self.places.is_empty() {
            self.quotas.give_back(&self.places);
        }
    }
}
