//! In-memory implementations of the storage traits, for tests and for embedders that need no
//! durability.
//!
//! Nothing here is bounded or survives the process. Every type is a handle; clones share the
//! content. Times have millisecond precision, as in the durable engines.

mod pins;
mod quotas;
mod record;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use chrono::{SecondsFormat, SubsecRound};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    event::{EventLog, EventQuery, LoggedEvent, NewEvent, RunEvent},
    id::{CallId, CredentialId, CredentialName, EventId, KeyId, RunId, SourceId, TenantId},
    record::{Checkpoint, Cursor, Link, StoredEvent, genesis},
    store::{
        CatalogStore, KeptRun, KeyRecord, KeyRotation, KeyStore, RunQuery, RunRecord, RunState,
        RunStore, StoreError,
    },
};

mod approvals;

pub use self::approvals::MemoryApprovals;
use crate::MAX_READ;

pub use self::{pins::MemoryPins, quotas::MemoryQuotas};

/// An event log in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog(Arc<Mutex<Events>>);

/// API keys in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryKeys(Arc<Mutex<Keys>>);

/// Credentials in memory, where nothing is sealed.
#[derive(Debug, Clone, Default)]
pub struct MemoryCredentials(Arc<Mutex<Vec<UnsealedCredential>>>);

/// Last valid catalogs in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryCatalogs(Arc<Mutex<HashMap<SourceId, (String, Timestamp)>>>);

/// Runs of workflows in memory: none of them outlives the process.
#[derive(Debug, Clone, Default)]
pub struct MemoryRuns(Arc<Mutex<Vec<MemoryRun>>>);

#[derive(Debug)]
struct MemoryRun {
    record: RunRecord,
    cancelled: bool,
}

#[derive(Debug, Default)]
struct Events {
    /// In ascending position.
    log: Vec<Kept>,
    /// The position that was assigned last.
    last: u64,
    ids: HashSet<EventId>,
    next_sequence: HashMap<(TenantId, RunId), u64>,
    /// Position and hash of each tenant's last event.
    heads: HashMap<TenantId, (u64, Digest)>,
    checkpoints: BTreeMap<TenantId, Vec<Checkpoint>>,
    cursors: BTreeMap<String, Cursor>,
}

#[derive(Debug)]
struct Kept {
    /// With its position in the whole log.
    logged: LoggedEvent,
    /// The payload as it was hashed.
    payload: String,
}

#[derive(Debug, Default)]
struct Keys {
    records: Vec<KeyRecord>,
    epoch: u64,
}

// === impl MemoryLog ===

impl MemoryLog {
    /// Creates an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns all events in order, with positions in the whole log.
    pub fn events(&self) -> Vec<LoggedEvent> {
        lock(&self.0).log.iter().map(|kept| kept.logged.clone()).collect()
    }
}

#[async_trait]
impl EventLog for MemoryLog {
    async fn append(&self, events: Vec<NewEvent>) -> Result<Vec<u64>, StoreError> {
        lock(&self.0).append(events)
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        Ok(lock(&self.0).read(&query))
    }
}

// === impl Events ===

impl Events {
    fn append(&mut self, events: Vec<NewEvent>) -> Result<Vec<u64>, StoreError> {
        let mut fresh = HashSet::new();
        for event in &events {
            if self.ids.contains(&event.event_id) || !fresh.insert(event.event_id.clone()) {
                return Err(StoreError::Conflict("an event with this id".to_owned()));
            }
        }
        let unwritable =
            |_| StoreError::Unavailable("an event's payload has no JSON form".to_owned());
        let payloads = events.iter().map(|event| event.body.payload_text());
        let payloads = payloads.collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        self.ids.extend(fresh);
        let events = events.into_iter().zip(payloads);
        Ok(events.map(|(event, payload)| self.push(event, payload)).collect())
    }

    fn push(&mut self, event: NewEvent, payload: String) -> u64 {
        let run = (event.tenant.clone(), event.run_id.clone());
        let next = self.next_sequence.entry(run).or_default();
        let sequence = *next;
        *next += 1;
        self.last += 1;
        let head = self.heads.entry(event.tenant.clone()).or_insert_with(|| (0, genesis()));
        let link = Link { position: head.0 + 1, prev: head.1, hash: genesis() };
        let logged = LoggedEvent {
            position: self.last,
            tenant: event.tenant,
            link,
            event: RunEvent {
                event_id: event.event_id,
                run_id: event.run_id,
                body: event.body,
                timestamp: event.timestamp.trunc_subsecs(3),
                sequence,
                causation_id: event.causation_id,
            },
        };
        let mut kept = Kept { logged, payload };
        let hash = kept.stored().hash_after(&link.prev);
        kept.logged.link.hash = hash;
        *head = (link.position, hash);
        self.log.push(kept);
        self.last
    }

    fn read(&self, query: &EventQuery) -> Vec<LoggedEvent> {
        let limit = match query.limit {
            0 => MAX_READ,
            limit => limit.min(MAX_READ),
        };
        let position = |kept: &Kept| match query.tenant {
            Some(_) => kept.logged.link.position,
            None => kept.logged.position,
        };
        let wanted = self.log.iter().filter(|kept| {
            query.tenant.as_ref().is_none_or(|tenant| kept.logged.tenant == *tenant)
                && query.run.as_ref().is_none_or(|run| kept.logged.event.run_id == *run)
                && query.after.is_none_or(|after| position(kept) > after)
        });
        let read = |kept: &Kept| LoggedEvent { position: position(kept), ..kept.logged.clone() };
        if query.newest {
            let mut newest: Vec<_> = wanted.rev().take(limit).map(read).collect();
            newest.reverse();
            newest
        } else {
            wanted.take(limit).map(read).collect()
        }
    }
}

// === impl Kept ===

impl Kept {
    /// Returns the event in the form of a durable engine.
    fn stored(&self) -> StoredEvent {
        let LoggedEvent { position, tenant, link, event } = &self.logged;
        StoredEvent {
            position: *position,
            tenant: tenant.to_string(),
            tenant_position: link.position,
            event_id: event.event_id.to_string(),
            run_id: event.run_id.to_string(),
            sequence: event.sequence,
            kind: event.body.kind().to_owned(),
            timestamp: event.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true),
            causation_id: event.causation_id.as_ref().map(ToString::to_string),
            payload: self.payload.clone(),
            prev: None,
            hash: Some(link.hash),
        }
    }
}

// === impl MemoryKeys ===

impl MemoryKeys {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl Keys {
    fn insert(&mut self, mut key: KeyRecord) -> Result<(), StoreError> {
        if self.records.iter().any(|held| held.id == key.id || held.digest == key.digest) {
            return Err(StoreError::Conflict("a key with this id or digest".to_owned()));
        }
        key.created_at = key.created_at.trunc_subsecs(3);
        key.expires_at = key.expires_at.map(|at| at.trunc_subsecs(3));
        key.revoked_at = key.revoked_at.map(|at| at.trunc_subsecs(3));
        key.last_used_at = key.last_used_at.map(|at| at.trunc_subsecs(3));
        self.records.push(key);
        self.records.sort_by_key(|key| key.created_at);
        self.epoch += 1;
        Ok(())
    }
}

#[async_trait]
impl KeyStore for MemoryKeys {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        lock(&self.0).insert(key)
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        let mut keys = lock(&self.0);
        let same = |held: &KeyRecord| held.tenant == key.tenant && held.principal == key.principal;
        if keys.records.iter().any(same) {
            return Ok(false);
        }
        keys.insert(key)?;
        Ok(true)
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        Ok(lock(&self.0).records.clone())
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        let mut keys = lock(&self.0);
        let held = keys.records.iter_mut().find(|key| key.id == *id && key.revoked_at.is_none());
        let Some(key) = held else { return Ok(false) };
        key.revoked_at = Some(at.trunc_subsecs(3));
        keys.epoch += 1;
        Ok(true)
    }

    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError> {
        let (now, until) = (new.created_at.trunc_subsecs(3), until.trunc_subsecs(3));
        let lasts = |key: &KeyRecord| {
            key.id == *old && key.revoked_at.is_none() && key.expires_at.is_none_or(|end| end > now)
        };
        let replaces =
            |key: &KeyRecord| key.replaces.as_ref() == Some(old) && key.revoked_at.is_none();
        let mut keys = lock(&self.0);
        if keys.records.iter().any(replaces) {
            return Ok(KeyRotation::AlreadyReplaced);
        }
        if !keys.records.iter().any(lasts) {
            return Ok(KeyRotation::NoActiveKey);
        }
        keys.insert(new)?;
        if let Some(key) = keys.records.iter_mut().find(|key| key.id == *old) {
            key.expires_at = Some(key.expires_at.map_or(until, |end| end.min(until)));
        }
        Ok(KeyRotation::Rotated)
    }

    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        let mut keys = lock(&self.0);
        for (id, at) in used {
            let at = Some(at.trunc_subsecs(3));
            if let Some(key) = keys.records.iter_mut().find(|key| key.id == id) {
                key.last_used_at = key.last_used_at.max(at);
            }
        }
        Ok(())
    }

    async fn epoch(&self) -> Result<u64, StoreError> {
        Ok(lock(&self.0).epoch)
    }
}

// === impl MemoryCredentials ===

impl MemoryCredentials {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl CredentialStore for MemoryCredentials {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        let mut all: Vec<_> = lock(&self.0).iter().map(|held| held.credential.clone()).collect();
        all.sort_by(|a, b| (&a.owner, &a.name).cmp(&(&b.owner, &b.name)));
        Ok(all)
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let held = lock(&self.0);
        let found = held.iter().map(|held| (held, &held.credential));
        let found = found.filter(|(_, it)| it.owner == *owner && it.name == *name);
        Ok(found.map(|(held, _)| held.clone()).next())
    }

    async fn put(
        &self,
        mut credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let mut held = lock(&self.0);
        let taken = |it: &Credential| {
            it.id == credential.id || (it.owner == credential.owner && it.name == credential.name)
        };
        if held.iter().any(|held| taken(&held.credential)) {
            let what = "a credential of this name or id".to_owned();
            return Err(StoreError::Conflict(what).into());
        }
        credential.created_at = credential.created_at.trunc_subsecs(3);
        credential.rotated_at = credential.rotated_at.trunc_subsecs(3);
        credential.expires_at = credential.expires_at.map(|at| at.trunc_subsecs(3));
        held.push(UnsealedCredential { credential, material });
        Ok(())
    }

    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let mut held = lock(&self.0);
        let known = |it: &Credential| it.id == *id && it.revision == seen;
        let Some(held) = held.iter_mut().find(|held| known(&held.credential)) else {
            return Ok(false);
        };
        held.material = material;
        held.credential.revision += 1;
        held.credential.rotated_at = at.trunc_subsecs(3);
        held.credential.expires_at = expires_at.map(|at| at.trunc_subsecs(3));
        Ok(true)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let mut held = lock(&self.0);
        let before = held.len();
        held.retain(|held| held.credential.id != *id);
        Ok(held.len() < before)
    }
}

// === impl MemoryCatalogs ===

impl MemoryCatalogs {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl CatalogStore for MemoryCatalogs {
    async fn save(
        &self,
        source: &SourceId,
        catalog: String,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        lock(&self.0).insert(source.clone(), (catalog, at.trunc_subsecs(3)));
        Ok(())
    }

    async fn load(&self, source: &SourceId) -> Result<Option<(String, Timestamp)>, StoreError> {
        Ok(lock(&self.0).get(source).cloned())
    }
}

// === impl MemoryRuns ===

impl MemoryRuns {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

#[async_trait]
impl RunStore for MemoryRuns {
    fn seals(&self) -> bool {
        false
    }

    async fn begin(&self, mut run: RunRecord, _inputs: Option<String>) -> Result<(), StoreError> {
        let mut runs = lock(&self.0);
        let same = |held: &MemoryRun| {
            held.record.tenant == run.tenant && held.record.call_id == run.call_id
        };
        if runs.iter().any(same) {
            return Err(StoreError::Conflict("a run of this call".to_owned()));
        }
        run.started_at = run.started_at.trunc_subsecs(3);
        runs.push(MemoryRun { record: run, cancelled: false });
        Ok(())
    }

    async fn keep(
        &self,
        _tenant: &TenantId,
        _call: &CallId,
        _step: &CallId,
        _result: String,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn end(
        &self,
        tenant: &TenantId,
        call: &CallId,
        state: RunState,
        code: Option<&str>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut runs = lock(&self.0);
        let wanted = |it: &&mut MemoryRun| {
            it.record.tenant == *tenant
                && it.record.call_id == *call
                && it.record.state == RunState::Running
        };
        let Some(run) = runs.iter_mut().find(wanted) else { return Ok(false) };
        run.record.state = state;
        run.record.code = code.map(str::to_owned);
        run.record.ended_at = Some(at.trunc_subsecs(3));
        Ok(true)
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let limit = match query.limit {
            0 => MAX_READ,
            limit => limit.min(MAX_READ),
        };
        let wanted = |run: &&RunRecord| {
            query.tenant.as_ref().is_none_or(|it| run.tenant == *it)
                && query.principal.as_ref().is_none_or(|it| run.principal == *it)
                && query.run.as_ref().is_none_or(|it| run.run_id == *it)
                && query.state.is_none_or(|it| run.state == it)
        };
        let runs = lock(&self.0);
        let mut found: Vec<_> = runs.iter().map(|it| &it.record).filter(wanted).cloned().collect();
        found.sort_by(|a, b| (b.started_at, &b.call_id).cmp(&(a.started_at, &a.call_id)));
        found.truncate(limit);
        Ok(found)
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError> {
        let mut runs = lock(&self.0);
        let wanted = runs.iter_mut().filter(|it| {
            it.record.tenant == *tenant
                && it.record.run_id == *run
                && it.record.state == RunState::Running
        });
        Ok(wanted.map(|it| it.cancelled = true).count())
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        let runs = lock(&self.0);
        let cancelled = |it: &&MemoryRun| it.cancelled && it.record.state == RunState::Running;
        Ok(runs.iter().filter(cancelled).map(|it| it.record.call_id.clone()).collect())
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
