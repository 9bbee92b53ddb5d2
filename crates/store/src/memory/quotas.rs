//! Counts of quotas in memory.

use std::{collections::BTreeMap, sync::Mutex};

use async_trait::async_trait;
use toolcrib_core::{
    quota::{Day, Quota, QuotaKey, QuotaReservation, QuotaStore},
    store::StoreError,
};

use super::shared::lock;

#[derive(Debug, Default)]
pub(super) struct MemoryQuotas(Mutex<BTreeMap<(Day, QuotaKey), u64>>);

#[async_trait]
impl QuotaStore for MemoryQuotas {
    async fn reserve(
        &self,
        day: Day,
        key: QuotaKey,
        quota: Quota,
    ) -> Result<QuotaReservation, StoreError> {
        let mut held = lock(&self.0);
        let count = held.entry((day, key)).or_default();
        let reserved = QuotaReservation::new(*count, quota);
        *count = reserved.used;
        Ok(reserved)
    }

    async fn add(&self, day: Day, counts: Vec<(QuotaKey, i64)>) -> Result<Vec<u64>, StoreError> {
        let mut held = lock(&self.0);
        let add = |(key, calls): (QuotaKey, i64)| {
            if calls == 0 {
                return held.get(&(day, key)).copied().unwrap_or(0);
            }
            let count = held.entry((day, key)).or_default();
            *count = count.saturating_add_signed(calls);
            *count
        };
        Ok(counts.into_iter().map(add).collect())
    }

    async fn forget_before(&self, day: Day) -> Result<usize, StoreError> {
        let mut held = lock(&self.0);
        let before = held.len();
        held.retain(|(of, _), _| *of >= day);
        Ok(before - held.len())
    }
}
