//! Approval requests on SQLite.
//!
//! Invariants:
//! - a request and its events are stored in one transaction;
//! - a change must be based on the last revision, so only one of several callers uses a grant;
//! - with a seal key the fingerprint key is sealed. The displayable arguments of a call are stored
//!   only then, and deleted when the request is not in force any more.

use async_trait::async_trait;
use rusqlite::Connection;
use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalStore, Fingerprint, OpenOutcome, store::MAX_PENDING,
    },
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, TenantId},
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    log::Record,
    row::whole,
    statement::{first, run},
};
use crate::{
    fingerprint::FingerprintKey,
    rows::{Statement, approvals},
};

/// The fingerprint key, the same in every process. Creates it at the first use.
async fn fingerprint_key(store: &SqliteStore) -> Result<FingerprintKey, StoreError> {
    let keys = &store.options().seal_keys;
    let take = approvals::fingerprint_key(keys)?;
    let stored = store.on_writer(move |connection| {
        let stored = first(connection, &take, |row| Ok(row.get(0)?))?;
        stored.ok_or_else(|| Failure::corrupt("the fingerprint key"))
    });
    let stored: Vec<u8> = stored.await?;
    let (key, text) = FingerprintKey::open(keys, &stored)?;
    if let Some(reseal) = approvals::reseal_fingerprint_key(keys, &text, stored)? {
        store.run(reseal).await?;
    }
    Ok(key)
}

#[async_trait]
impl ApprovalStore for SqliteStore {
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError> {
        let key = self.inner.fingerprint_key.get_or_try_init(|| fingerprint_key(self));
        Ok(key.await?.of(&parts))
    }

    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError> {
        let live = approvals::live(tenant, fingerprint);
        Ok(self.select(live, |row| approvals::approval(row)).await?.pop())
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let shown = approvals::shown(&self.options().seal_keys, &approval, arguments)?;
        let live = approvals::live(&approval.tenant, &approval.fingerprint);
        let pending = approvals::pending_of(&approval, " INDEXED BY approvals_pending");
        let mut record = Record::new(&event)?;
        self.on_writer(move |connection| {
            if let Some(known) = first(connection, &live, |row| approvals::approval(row))? {
                return Ok(OpenOutcome::Existing(Box::new(known)));
            }
            if number(connection, &pending)? >= MAX_PENDING as u64 {
                return Ok(OpenOutcome::LimitReached);
            }
            let change = number(connection, &approvals::next_change())?;
            let approval = Approval { change, ..approval.clone() };
            run(connection, &approvals::insert(&approval, shown.clone())?)?;
            record.insert(connection)?;
            Ok(OpenOutcome::Opened(Box::new(approval)))
        })
        .await
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let mut records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        self.on_writer(move |connection| {
            let change = number(connection, &approvals::next_change())?;
            let approval = Approval { change, revision: approval.revision + 1, ..approval.clone() };
            if run(connection, &approvals::replace(&approval)?)? == 0 {
                return Ok(false);
            }
            for record in &mut records {
                record.insert(connection)?;
            }
            Ok(true)
        })
        .await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError> {
        let row =
            self.select(approvals::find(tenant, id), |row| approvals::found(row)).await?.pop();
        Ok(row.map(|row| approvals::open(&self.options().seal_keys, row)))
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        self.select(approvals::select(&query), |row| approvals::approval(row)).await
    }

    async fn pending(&self) -> Result<u64, StoreError> {
        self.on_reader(|connection| number(connection, &approvals::pending())).await
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        let (add, cursor) = (approvals::add_reader(reader), approvals::cursor(reader));
        self.on_writer(move |connection| {
            run(connection, &add)?;
            number(connection, &cursor)
        })
        .await
    }

    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError> {
        self.run(approvals::acknowledge(reader, change)).await.map(drop)
    }

    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError> {
        self.run(approvals::prune(before)).await
    }
}

/// Runs a statement with one row, which is a number.
fn number(connection: &Connection, statement: &Statement) -> Result<u64, Failure> {
    whole(first(connection, statement, |row| Ok(row.get(0)?))?.unwrap_or_default())
}
