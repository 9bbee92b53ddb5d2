//! Signs checkpoints: for each tenant that has news after so many events or so much time. Prunes
//! what is older than the configuration keeps.
//!
//! Invariant: an event is removed only under a checkpoint that was signed after it, after the mark
//! that says so is stored, and after every forwarder has it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use tokio::sync::{broadcast, watch};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    id::TenantId,
    record::{Checkpoint, CheckpointKind, News},
    store::StoreError,
};

use super::Shared;
use crate::config::RecordConfig;

/// How often it is looked whether somebody has news.
const LOOK: Duration = Duration::from_secs(1);
/// How often it is looked whether something is old enough to go.
const LOOK_BACK: Duration = Duration::from_secs(60);
/// Events of the whole log that are looked at together.
const STRIDE: u64 = 10_000;
/// Events removed in one transaction.
const CHUNK: usize = 500;

struct Signing {
    shared: Arc<Shared>,
    signed: broadcast::Sender<Checkpoint>,
    /// Position in the whole log up to which news are known; none before the first look.
    seen: Option<u64>,
    waiting: HashMap<TenantId, Waiting>,
    looked_back: Option<u64>,
}

/// A tenant whose last events are not signed.
struct Waiting {
    events: u64,
    /// Monotonic time of the first look that found news.
    since: u64,
}

pub(super) async fn run(
    shared: Arc<Shared>,
    config: watch::Receiver<RecordConfig>,
    signed: broadcast::Sender<Checkpoint>,
    end: CancellationToken,
) {
    let (waiting, seen, looked_back) = (HashMap::new(), None, None);
    let mut signing = Signing { shared, signed, seen, waiting, looked_back };
    loop {
        let config = config.borrow().clone();
        // In one piece: an end in between would leave a checkpoint that no anchor hears of.
        if let Err(error) = signing.look(&config, end.is_cancelled()).await {
            tracing::error!(%error, "the record could not be signed; it is tried again");
        }
        if end.is_cancelled() {
            return;
        }
        if let Err(error) = signing.look_back(&config, &end).await {
            tracing::error!(%error, "old events could not be removed; it is tried again");
        }
        tokio::select! {
            () = end.cancelled() => {}
            () = tokio::time::sleep(LOOK.min(config.checkpoint_interval)) => {}
        }
    }
}

impl Signing {
    /// Signs what is due; at the end everything.
    async fn look(&mut self, config: &RecordConfig, ending: bool) -> Result<(), StoreError> {
        let last = self.shared.store.last_position().await?;
        let now = self.shared.clock.monotonic_nanos();
        match self.seen {
            None => self.begin(now).await?,
            Some(mut seen) => {
                while seen < last {
                    let to = last.min(seen + STRIDE);
                    for news in self.shared.store.news(seen, to).await? {
                        self.note(news, now);
                    }
                    seen = to;
                    self.seen = Some(seen);
                }
            }
        }
        if self.seen.is_none() {
            self.seen = Some(last);
        }
        let interval = u64::try_from(config.checkpoint_interval.as_nanos()).unwrap_or(u64::MAX);
        let due: Vec<TenantId> = self
            .waiting
            .iter()
            .filter(|(_, it)| {
                ending
                    || it.events >= config.checkpoint_every
                    || now.saturating_sub(it.since) >= interval
            })
            .map(|(tenant, _)| tenant.clone())
            .collect();
        for tenant in due {
            if self.sign(&tenant).await? {
                self.waiting.remove(&tenant);
            }
        }
        Ok(())
    }

    /// What an earlier process, or a command beside this one, has left unsigned.
    async fn begin(&mut self, now: u64) -> Result<(), StoreError> {
        let mut after = None;
        loop {
            let tenants = self.shared.store.tenants(after.as_ref()).await?;
            for tenant in &tenants {
                let Some(head) = self.shared.store.head(tenant).await? else { continue };
                let last = self.shared.store.last_checkpoint(tenant).await?;
                let checkpointed = last.map_or(0, |last| last.position);
                let (tenant, position) = (tenant.clone(), head.position);
                self.note(News { tenant, position, checkpointed }, now);
            }
            after = tenants.last().cloned();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn note(&mut self, news: News, now: u64) {
        let events = news.position.saturating_sub(news.checkpointed);
        if events > 0 {
            let waiting = self.waiting.entry(news.tenant);
            waiting.or_insert(Waiting { events: 0, since: now }).events = events;
        }
    }

    /// Signs where the log of `tenant` ends; `false` when somebody else did at the same time.
    async fn sign(&self, tenant: &TenantId) -> Result<bool, StoreError> {
        let store = &self.shared.store;
        let Some(head) = store.head(tenant).await? else { return Ok(true) };
        let place = (head.position, head.hash);
        let last = store.last_checkpoint(tenant).await?;
        if last
            .as_ref()
            .is_some_and(|last| last.kind == CheckpointKind::Head && last.position == head.position)
        {
            return Ok(true);
        }
        self.add(CheckpointKind::Head, tenant, place, last).await
    }

    async fn add(
        &self,
        kind: CheckpointKind,
        tenant: &TenantId,
        place: (u64, toolcrib_core::canonical::Digest),
        last: Option<Checkpoint>,
    ) -> Result<bool, StoreError> {
        let now = self.shared.clock.now();
        let signer = &self.shared.signer;
        let checkpoint = signer.checkpoint(kind, tenant.clone(), place, last.as_ref(), now)?;
        let added = self.shared.store.add_checkpoint(checkpoint.clone()).await?;
        if added {
            self.shared.metrics.checkpoint();
            // Nobody listens when there are no anchors.
            self.signed.send(checkpoint).ok();
        }
        Ok(added)
    }

    /// Prunes what is older than is kept, and what an earlier process has begun to.
    async fn look_back(
        &mut self,
        config: &RecordConfig,
        end: &CancellationToken,
    ) -> Result<(), StoreError> {
        let Some(keep) = config.keep else { return Ok(()) };
        let now = self.shared.clock.monotonic_nanos();
        let pause = u64::try_from(LOOK_BACK.min(keep).as_nanos()).unwrap_or(u64::MAX);
        if self.looked_back.is_some_and(|last| now.saturating_sub(last) < pause) {
            return Ok(());
        }
        self.looked_back = Some(now);
        let age = chrono::TimeDelta::from_std(keep).unwrap_or(chrono::TimeDelta::MAX);
        let Some(before) = self.shared.clock.now().checked_sub_signed(age) else { return Ok(()) };
        let delivered = self.delivered(config).await?;
        let mut after = None;
        loop {
            let tenants = self.shared.store.tenants(after.as_ref()).await?;
            for tenant in &tenants {
                let store = &self.shared.store;
                if let Some(found) = store.prunable(tenant, before, delivered).await? {
                    let last = store.last_checkpoint(tenant).await?;
                    let place = (found.position, found.hash);
                    self.add(CheckpointKind::Pruned, tenant, place, last).await?;
                }
                loop {
                    let removed = store.prune(tenant, CHUNK).await?;
                    self.shared.metrics.pruned(removed);
                    if removed < CHUNK || end.is_cancelled() {
                        break;
                    }
                }
                if end.is_cancelled() {
                    return Ok(());
                }
            }
            after = tenants.last().cloned();
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Position in the whole log that every configured forwarder has delivered.
    async fn delivered(&self, config: &RecordConfig) -> Result<u64, StoreError> {
        if config.forwards.is_empty() {
            return Ok(u64::MAX);
        }
        let cursors = self.shared.store.cursors().await?;
        let of = |name: &str| {
            cursors.iter().find(|cursor| cursor.name == name).map_or(0, |cursor| cursor.position)
        };
        Ok(config.forwards.iter().map(|forward| of(&forward.name)).min().unwrap_or(u64::MAX))
    }
}
