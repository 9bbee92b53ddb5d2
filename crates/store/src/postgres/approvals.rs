//! Approval requests.
//!
//! Invariants:
//! - a request and its events are stored in one transaction;
//! - `approval_state` is locked first, so that changes become visible in the order of their
//!   numbers;
//! - a change must be based on the last revision, so only one of several callers uses a grant.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
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
    append::append,
    entry::Record,
    failure::{Failure, within},
    handle::PostgresStore,
    row::whole,
    statement::{first, run},
};
use crate::{
    fingerprint::FingerprintKey,
    rows::{Statement, approvals},
};

/// The fingerprint key, the same in every process. Creates it at the first use.
async fn fingerprint_key(store: &PostgresStore) -> Result<FingerprintKey, StoreError> {
    let keys = &store.options().seal_keys;
    let take = approvals::fingerprint_key(keys)?;
    let stored = within(async {
        let stored = first(&store.client().await?, &take, |row| Ok(row.try_get(0)?)).await?;
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
impl ApprovalStore for PostgresStore {
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError> {
        let key = self.inner.fingerprint_key.get_or_try_init(|| fingerprint_key(self));
        Ok(key.await?.of(&parts))
    }

    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError> {
        Ok(self.select(approvals::live(tenant, fingerprint), approvals::approval).await?.pop())
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let shown = approvals::shown(&self.options().seal_keys, &approval, arguments)?;
        let live = approvals::live(&approval.tenant, &approval.fingerprint);
        let record = Record::new(&event)?;
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let change = number(&transaction, &approvals::next_change()).await?;
            if let Some(known) = first(&transaction, &live, approvals::approval).await? {
                return Ok(OpenOutcome::Existing(Box::new(known)));
            }
            let pending = number(&transaction, &approvals::pending_of(&approval, "")).await?;
            if pending >= MAX_PENDING as u64 {
                return Ok(OpenOutcome::LimitReached);
            }
            let approval = Approval { change, ..approval.clone() };
            run(&transaction, &approvals::insert(&approval, shown)?).await?;
            append_events(&transaction, &[record], self.instance()).await?;
            transaction.commit().await?;
            Ok(OpenOutcome::Opened(Box::new(approval)))
        })
        .await
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let change = number(&transaction, &approvals::next_change()).await?;
            let approval = Approval { change, revision: approval.revision + 1, ..approval.clone() };
            if run(&transaction, &approvals::replace(&approval)?).await? == 0 {
                return Ok(false);
            }
            append_events(&transaction, &records, self.instance()).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn find(
        &self,
        tenant: &TenantId,
        id: &ApprovalId,
    ) -> Result<Option<(Approval, Option<String>)>, StoreError> {
        let row = self.select(approvals::find(tenant, id), approvals::found).await?.pop();
        Ok(row.map(|row| approvals::open(&self.options().seal_keys, row)))
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        self.select(approvals::select(&query), approvals::approval).await
    }

    async fn pending(&self) -> Result<u64, StoreError> {
        within(async { number(&self.client().await?, &approvals::pending()).await }).await
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        within(async {
            let client = self.client().await?;
            run(&client, &approvals::add_reader(reader)).await?;
            number(&client, &approvals::cursor(reader)).await
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

async fn append_events(
    transaction: &Transaction<'_>,
    records: &[Record],
    instance: &str,
) -> Result<(), Failure> {
    if records.is_empty() {
        return Ok(());
    }
    let records: Vec<&Record> = records.iter().collect();
    let appended = append(transaction, &records, instance).await;
    appended.map(drop).map_err(|failure| failure.conflict_over("an event with this id"))
}

/// Runs a statement with one row, which is a number.
async fn number(client: &impl GenericClient, statement: &Statement) -> Result<u64, Failure> {
    let number = first(client, statement, |row| Ok(row.try_get(0)?)).await?;
    whole(number.unwrap_or_default())
}
