//! Approval requests in memory; they do not survive the process.

use std::{collections::HashMap, sync::Arc};

use async_trait::async_trait;
use tokio::sync::Mutex;
use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalState, ApprovalStore, Fingerprint, OpenOutcome,
        store::MAX_PENDING,
    },
    clock::Timestamp,
    event::{EventLog, NewEvent},
    id::{ApprovalId, TenantId},
    store::StoreError,
};

use super::shared::ChangeCounter;
use crate::{capped, fingerprint::FingerprintKey, key_text};

/// Approval requests in memory, whose events go to the given log.
pub(super) struct MemoryApprovals {
    log: Arc<dyn EventLog>,
    held: Mutex<State>,
    changes: Arc<ChangeCounter>,
}

#[derive(Default)]
struct State {
    key: Option<FingerprintKey>,
    all: Vec<(Approval, Option<String>)>,
    readers: HashMap<String, u64>,
}

impl MemoryApprovals {
    pub(super) fn new(log: Arc<dyn EventLog>, changes: &Arc<ChangeCounter>) -> Self {
        Self { log, held: Mutex::default(), changes: Arc::clone(changes) }
    }

    fn next_change(&self) -> u64 {
        self.changes.count(|changes| &mut changes.approvals)
    }
}

#[async_trait]
impl ApprovalStore for MemoryApprovals {
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError> {
        let mut held = self.held.lock().await;
        if let Some(key) = &held.key {
            return Ok(key.of(&parts));
        }
        let key = FingerprintKey::parse(key_text::generate()?.expose());
        let key = key.ok_or_else(|| StoreError::Corrupt("a new key is not a key".to_owned()))?;
        let fingerprint = key.of(&parts);
        held.key = Some(key);
        Ok(fingerprint)
    }

    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError> {
        Ok(self.held.lock().await.live(tenant, fingerprint))
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let mut held = self.held.lock().await;
        if let Some(known) = held.live(&approval.tenant, &approval.fingerprint) {
            return Ok(OpenOutcome::Existing(Box::new(known)));
        }
        let pending = held.all.iter().filter(|(stored, _)| {
            stored.state == ApprovalState::Pending
                && stored.tenant == approval.tenant
                && stored.principal == approval.principal
        });
        if pending.count() >= MAX_PENDING {
            return Ok(OpenOutcome::LimitReached);
        }
        let same = |stored: &Approval| stored.tenant == approval.tenant && stored.id == approval.id;
        if held.all.iter().any(|(stored, _)| same(stored)) {
            return Err(StoreError::Conflict("an approval with this id".to_owned()));
        }
        self.log.append(&[event]).await?;
        let approval = Approval { change: self.next_change(), ..approval };
        held.all.push((approval.clone(), arguments));
        Ok(OpenOutcome::Opened(Box::new(approval)))
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let mut held = self.held.lock().await;
        let place = held.all.iter().position(|(stored, _)| {
            stored.tenant == approval.tenant
                && stored.id == approval.id
                && stored.revision == approval.revision
        });
        let Some(place) = place else { return Ok(false) };
        if !events.is_empty() {
            self.log.append(&events).await?;
        }
        let (change, revision) = (self.next_change(), approval.revision + 1);
        if let Some((stored, shown)) = held.all.get_mut(place) {
            if !approval.live {
                *shown = None;
            }
            *stored = Approval { change, revision, ..approval };
        }
        Ok(true)
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError> {
        let held = self.held.lock().await;
        let mut all = held.all.iter();
        Ok(all.find(|(approval, _)| approval.tenant == *tenant && approval.id == *id).cloned())
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        let held = self.held.lock().await;
        let fits = |approval: &&Approval| {
            query.tenant.as_ref().is_none_or(|tenant| approval.tenant == *tenant)
                && query.principal.as_ref().is_none_or(|principal| approval.principal == *principal)
                && query.state.is_none_or(|state| approval.state == state)
                && query.overdue.is_none_or(|by| approval.live && approval.expires_at <= by)
                && query.changed_after.is_none_or(|after| approval.change > after)
                && query
                    .older_than
                    .as_ref()
                    .is_none_or(|(at, id)| (approval.created_at, &approval.id) < (*at, id))
        };
        let mut found: Vec<_> =
            held.all.iter().map(|(approval, _)| approval).filter(fits).cloned().collect();
        match query.changed_after {
            Some(_) => found.sort_by_key(|approval| approval.change),
            None => {
                found.sort_by(|one, two| (two.created_at, &two.id).cmp(&(one.created_at, &one.id)))
            }
        }
        found.truncate(capped(query.limit));
        Ok(found)
    }

    async fn pending(&self) -> Result<u64, StoreError> {
        let held = self.held.lock().await;
        let pending =
            held.all.iter().filter(|(approval, _)| approval.state == ApprovalState::Pending);
        Ok(pending.count() as u64)
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        let mut held = self.held.lock().await;
        let change = self.changes.now().approvals;
        Ok(*held.readers.entry(reader.to_owned()).or_insert(change))
    }

    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError> {
        if let Some(cursor) = self.held.lock().await.readers.get_mut(reader) {
            *cursor = change.max(*cursor);
        }
        Ok(())
    }

    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError> {
        let mut held = self.held.lock().await;
        let had = held.all.len();
        held.all.retain(|(approval, _)| approval.live || approval.created_at >= before);
        Ok(had - held.all.len())
    }
}

impl State {
    fn live(&self, tenant: &TenantId, fingerprint: &Fingerprint) -> Option<Approval> {
        let counts = |approval: &&Approval| {
            approval.live && approval.tenant == *tenant && approval.fingerprint == *fingerprint
        };
        self.all.iter().map(|(approval, _)| approval).find(counts).cloned()
    }
}
