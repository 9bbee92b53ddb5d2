//! API keys. The row of the epoch is locked first, so that changes happen one after the other.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use toolcrib_core::{
    clock::Timestamp,
    id::KeyId,
    store::{KeyRecord, KeyRotation, KeyStore, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::one,
    statement::{first, run},
};
use crate::rows::{Statement, keys};

#[async_trait]
impl KeyStore for PostgresStore {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let epoch = next_epoch(&transaction).await?;
            insert(&transaction, &key, epoch).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let epoch = next_epoch(&transaction).await?;
            for statement in keys::principals(&key) {
                if is_so(&transaction, &statement).await? {
                    return Ok(false);
                }
            }
            insert(&transaction, &key, epoch).await?;
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.select(keys::list("inserted"), keys::record).await
    }

    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        self.select(keys::changed_since(epoch), keys::record).await
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let epoch = next_epoch(&transaction).await?;
            if run(&transaction, &keys::revoke(id, at, epoch)).await? == 0 {
                return Ok(false);
            }
            transaction.commit().await?;
            Ok(true)
        })
        .await
    }

    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let epoch = next_epoch(&transaction).await?;
            if is_so(&transaction, &keys::is_replaced(old)).await? {
                return Ok(KeyRotation::AlreadyReplaced);
            }
            let expire = keys::expire(old, new.created_at, until, epoch);
            if run(&transaction, &expire).await? == 0 {
                return Ok(KeyRotation::NoActiveKey);
            }
            insert(&transaction, &new, epoch).await?;
            transaction.commit().await?;
            Ok(KeyRotation::Rotated)
        })
        .await
    }

    async fn note_used(&self, mut used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        // In one order, so that two processes do not wait for one another.
        used.sort_unstable_by(|a, b| (a.0.as_str(), a.1).cmp(&(b.0.as_str(), b.1)));
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            for (id, at) in &used {
                run(&transaction, &keys::note_used(id, *at)).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }
}

async fn insert(client: &impl GenericClient, key: &KeyRecord, epoch: i64) -> Result<(), Failure> {
    if let Some(sweep) = keys::sweep_sessions(key) {
        run(client, &sweep).await?;
    }
    run(client, &keys::insert(key, &["inserted", "changed"], epoch)?).await?;
    Ok(())
}

async fn next_epoch(transaction: &Transaction<'_>) -> Result<i64, Failure> {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'keys_epoch' RETURNING value";
    Ok(one(transaction, sql, &[]).await?.try_get(0)?)
}

async fn is_so(client: &impl GenericClient, statement: &Statement) -> Result<bool, Failure> {
    Ok(first(client, statement, |row| Ok(row.try_get(0)?)).await?.unwrap_or(false))
}
