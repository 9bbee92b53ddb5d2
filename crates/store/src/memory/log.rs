//! An event log in memory.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use chrono::{SecondsFormat, SubsecRound};
use toolcrib_core::{
    canonical::Digest,
    event::{EventLog, EventQuery, LoggedEvent, NewEvent, RunEvent},
    id::{EventId, RunId, TenantId},
    record::{Checkpoint, Cursor, Link, StoredEvent, genesis},
    store::StoreError,
};

use super::shared::lock;
use crate::capped;

/// An event log in memory.
#[derive(Debug, Clone, Default)]
pub struct MemoryLog(pub(super) Arc<Mutex<Events>>);

#[derive(Debug, Default)]
pub(super) struct Events {
    /// The events, in ascending position.
    pub(super) log: Vec<HashedEvent>,
    /// The last assigned position.
    pub(super) last: u64,
    ids: HashSet<EventId>,
    next_sequence: HashMap<(TenantId, RunId), u64>,
    /// Position and hash of each tenant's last event.
    pub(super) heads: HashMap<TenantId, (u64, Digest)>,
    pub(super) checkpoints: BTreeMap<TenantId, Vec<Checkpoint>>,
    pub(super) cursors: BTreeMap<String, Cursor>,
}

#[derive(Debug)]
pub(super) struct HashedEvent {
    /// The event, with its position in the whole log.
    pub(super) logged: LoggedEvent,
    /// The payload as it was hashed.
    payload: String,
}

// === impl MemoryLog ===

impl MemoryLog {
    /// All events in order, with positions in the whole log.
    pub fn events(&self) -> Vec<LoggedEvent> {
        lock(&self.0).log.iter().map(|kept| kept.logged.clone()).collect()
    }
}

#[async_trait]
impl EventLog for MemoryLog {
    async fn append(&self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        lock(&self.0).append(events)
    }

    async fn read(&self, query: EventQuery) -> Result<Vec<LoggedEvent>, StoreError> {
        Ok(lock(&self.0).read(&query))
    }

    async fn at(&self, positions: &[u64]) -> Result<Vec<LoggedEvent>, StoreError> {
        let wanted: HashSet<_> = positions.iter().copied().collect();
        let events = lock(&self.0);
        let found = events.log.iter().filter(|kept| wanted.contains(&kept.logged.position));
        Ok(found.map(|kept| kept.logged.clone()).collect())
    }
}

// === impl Events ===

impl Events {
    fn append(&mut self, events: &[NewEvent]) -> Result<Vec<u64>, StoreError> {
        let mut fresh = HashSet::new();
        for event in events {
            if self.ids.contains(&event.event_id) || !fresh.insert(event.event_id.clone()) {
                return Err(StoreError::Conflict("an event with this id".to_owned()));
            }
        }
        let unwritable =
            |_| StoreError::Unavailable("an event's payload has no JSON form".to_owned());
        let payloads = events.iter().map(|event| event.body.payload_text());
        let payloads = payloads.collect::<Result<Vec<_>, _>>().map_err(unwritable)?;
        self.ids.extend(fresh);
        let events = events.iter().cloned().zip(payloads);
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
        let mut kept = HashedEvent { logged, payload };
        let hash = kept.stored().hash_after(&link.prev);
        kept.logged.link.hash = hash;
        *head = (link.position, hash);
        self.log.push(kept);
        self.last
    }

    fn read(&self, query: &EventQuery) -> Vec<LoggedEvent> {
        let limit = capped(query.limit);
        let position = |kept: &HashedEvent| match query.tenant {
            Some(_) => kept.logged.link.position,
            None => kept.logged.position,
        };
        let wanted = self.log.iter().filter(|kept| {
            query.tenant.as_ref().is_none_or(|tenant| kept.logged.tenant == *tenant)
                && query.run.as_ref().is_none_or(|run| kept.logged.event.run_id == *run)
                && query.after.is_none_or(|after| position(kept) > after)
        });
        let read =
            |kept: &HashedEvent| LoggedEvent { position: position(kept), ..kept.logged.clone() };
        if query.newest {
            let mut newest: Vec<_> = wanted.rev().take(limit).map(read).collect();
            newest.reverse();
            newest
        } else {
            wanted.take(limit).map(read).collect()
        }
    }
}

// === impl HashedEvent ===

impl HashedEvent {
    /// The event in the form of a durable engine.
    pub(super) fn stored(&self) -> StoredEvent {
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
