//! Checkpoints and cursors of a log in memory.

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    event::EventBody,
    id::{EventId, TenantId},
    record::{
        Checkpoint, CheckpointKind, Cursor, Head, LogGrowth, RecordStore, StoredEvent, StoredQuery,
    },
    store::StoreError,
};

use super::{
    log::{Events, HashedEvent, MemoryLog},
    shared::lock,
};
use crate::{MAX_READ, capped, rows::record::continues};

#[async_trait]
impl RecordStore for MemoryLog {
    async fn stored(&self, query: StoredQuery) -> Result<Vec<StoredEvent>, StoreError> {
        let limit = capped(query.limit);
        let events = lock(&self.0);
        let wanted = events.log.iter().filter(|kept| match &query.tenant {
            Some(tenant) => {
                kept.logged.tenant == *tenant && kept.logged.link.position > query.after
            }
            None => kept.logged.position > query.after,
        });
        let prev = |kept: &HashedEvent| query.with_prev.then_some(kept.logged.link.prev);
        let stored = |kept: &HashedEvent| StoredEvent { prev: prev(kept), ..kept.stored() };
        Ok(wanted.take(limit).map(stored).collect())
    }

    async fn last_position(&self) -> Result<u64, StoreError> {
        Ok(lock(&self.0).last)
    }

    async fn head(&self, tenant: &TenantId) -> Result<Option<Head>, StoreError> {
        let head = lock(&self.0).heads.get(tenant).copied();
        Ok(head.map(|(position, hash)| Head { tenant: tenant.clone(), position, hash }))
    }

    async fn tenants(&self, after: Option<&TenantId>) -> Result<Vec<TenantId>, StoreError> {
        let events = lock(&self.0);
        let mut tenants: Vec<_> = events
            .heads
            .keys()
            .filter(|tenant| after.is_none_or(|after| *tenant > after))
            .collect();
        tenants.sort_unstable();
        Ok(tenants.into_iter().take(MAX_READ).cloned().collect())
    }

    async fn news(&self, after: u64, to: u64) -> Result<Vec<LogGrowth>, StoreError> {
        let events = lock(&self.0);
        let mut last = std::collections::BTreeMap::new();
        for kept in &events.log {
            if kept.logged.position > after && kept.logged.position <= to {
                last.insert(kept.logged.tenant.clone(), kept.logged.link);
            }
        }
        let news = last.into_iter().map(|(tenant, link)| {
            let signed = events
                .of(&tenant)
                .filter(|checkpoint| checkpoint.kind != CheckpointKind::Pruned)
                .last();
            let checkpointed = signed.map_or(0, |checkpoint| checkpoint.position);
            LogGrowth { tenant, position: link.position, hash: Some(link.hash), checkpointed }
        });
        Ok(news.collect())
    }

    async fn add_checkpoint(&self, new: Checkpoint) -> Result<bool, StoreError> {
        let mut events = lock(&self.0);
        let here = |kept: &&HashedEvent| {
            let logged = &kept.logged;
            logged.tenant == new.tenant && logged.link.position == new.position
        };
        let stored = events.log.iter().find(here).map(|kept| kept.logged.link.hash);
        if !continues(&new, events.of(&new.tenant).last(), stored) {
            return Ok(false);
        }
        events.checkpoints.entry(new.tenant.clone()).or_default().push(new);
        Ok(true)
    }

    async fn checkpoints(
        &self,
        tenant: &TenantId,
        after: u64,
    ) -> Result<Vec<Checkpoint>, StoreError> {
        let events = lock(&self.0);
        let wanted = events.of(tenant).filter(|checkpoint| checkpoint.number > after);
        Ok(wanted.take(MAX_READ).cloned().collect())
    }

    async fn last_checkpoint(&self, tenant: &TenantId) -> Result<Option<Checkpoint>, StoreError> {
        Ok(lock(&self.0).of(tenant).last().cloned())
    }

    async fn prunable(
        &self,
        tenant: &TenantId,
        before: Timestamp,
        delivered: u64,
    ) -> Result<Option<Checkpoint>, StoreError> {
        let events = lock(&self.0);
        let pruned = events.pruned(tenant);
        let mine = || events.log.iter().filter(|kept| kept.logged.tenant == *tenant);
        let ended: std::collections::HashSet<&EventId> =
            mine().filter_map(|kept| kept.logged.event.causation_id.as_ref()).collect();
        let kept = mine().filter(|kept| {
            let open = matches!(
                kept.logged.event.body,
                EventBody::ToolCalled(_) | EventBody::ToolSessionOpened(_)
            ) && !ended.contains(&kept.logged.event.event_id);
            open || kept.logged.position > delivered
        });
        let end = events.heads.get(tenant).map_or(0, |head| head.0);
        let bound = kept.map(|kept| kept.logged.link.position).min().unwrap_or(end).min(end);
        let wanted = events.of(tenant).filter(|checkpoint| {
            checkpoint.kind == CheckpointKind::Head
                && checkpoint.at < before
                && checkpoint.position > pruned
                && checkpoint.position < bound
        });
        Ok(wanted.max_by_key(|checkpoint| checkpoint.position).cloned())
    }

    async fn prune(&self, tenant: &TenantId, limit: usize) -> Result<usize, StoreError> {
        let mut events = lock(&self.0);
        let mark = events.pruned(tenant);
        let mut removed = 0;
        events.log.retain(|kept| {
            let gone = kept.logged.tenant == *tenant
                && kept.logged.link.position <= mark
                && removed < limit;
            removed += usize::from(gone);
            !gone
        });
        if removed < limit
            && let Some(checkpoints) = events.checkpoints.get_mut(tenant)
        {
            // By number: a mark of retention has an earlier position, so positions do not rise
            // along the chain.
            let needed = |checkpoint: &Checkpoint| {
                checkpoint.kind != CheckpointKind::Pruned && checkpoint.position == mark
            };
            let first = checkpoints.iter().rposition(needed).unwrap_or(0);
            checkpoints.drain(..first);
        }
        Ok(removed)
    }

    async fn cursors(&self) -> Result<Vec<Cursor>, StoreError> {
        Ok(lock(&self.0).cursors.values().cloned().collect())
    }

    async fn set_cursor(&self, cursor: Cursor) -> Result<(), StoreError> {
        lock(&self.0).cursors.insert(cursor.name.clone(), cursor);
        Ok(())
    }
}

impl Events {
    fn of(&self, tenant: &TenantId) -> impl Iterator<Item = &Checkpoint> {
        self.checkpoints.get(tenant).into_iter().flatten()
    }

    /// The position up to which events of `tenant` may be pruned.
    fn pruned(&self, tenant: &TenantId) -> u64 {
        let marks = self.of(tenant).filter(|checkpoint| checkpoint.kind == CheckpointKind::Pruned);
        marks.map(|checkpoint| checkpoint.position).max().unwrap_or(0)
    }
}
