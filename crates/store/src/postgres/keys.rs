//! API keys. The row of the epoch is locked first, so that changes happen one after the other.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId},
    scope::Grant,
    store::{KeyRecord, KeyRotation, KeyStore, SESSION_ROWS_KEPT, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{bound, execute, one, parse, rows, stored_time},
};

const COLUMNS: &str = "id, name, tenant, principal, digest, roles, scopes, created_at, expires_at, \
                       revoked_at, last_used_at, replaces, makers, session";

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
            // Principals of tokens have no key, so the other tables count too.
            for table in [
                "keys",
                "approvals",
                "runs",
                "quotas",
                "once_holders",
                "credentials",
                "account_grants",
                "saved",
            ] {
                let sql = format!(
                    "SELECT EXISTS (SELECT 1 FROM {table} WHERE tenant = $1 AND principal = $2)"
                );
                let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
                if one(&transaction, &sql, &[&tenant, &principal]).await?.try_get(0)? {
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
        within(async {
            let sql = format!("SELECT {COLUMNS} FROM keys ORDER BY created_at, inserted");
            rows(&self.client().await?, &sql, &[]).await?.iter().map(record).collect()
        })
        .await
    }

    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        within(async {
            let sql = format!("SELECT {COLUMNS} FROM keys WHERE changed > $1");
            let client = self.client().await?;
            rows(&client, &sql, &[&bound(epoch)]).await?.iter().map(record).collect()
        })
        .await
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let epoch = next_epoch(&transaction).await?;
            let sql = "UPDATE keys SET revoked_at = $2, changed = $3 \
                       WHERE id = $1 AND revoked_at IS NULL";
            let at = stored_time(at);
            if execute(&transaction, sql, &[&id.as_str(), &at, &epoch]).await? == 0 {
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
            let sql = "SELECT EXISTS (SELECT 1 FROM keys WHERE replaces = $1 \
                       AND revoked_at IS NULL)";
            if one(&transaction, sql, &[&old.as_str()]).await?.try_get(0)? {
                return Ok(KeyRotation::AlreadyReplaced);
            }
            let sql = "UPDATE keys SET expires_at = least(expires_at, $3), changed = $4 \
                       WHERE id = $1 AND revoked_at IS NULL \
                       AND (expires_at IS NULL OR expires_at > $2)";
            let (now, until) = (stored_time(new.created_at), stored_time(until));
            if execute(&transaction, sql, &[&old.as_str(), &now, &until, &epoch]).await? == 0 {
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
            let sql = "UPDATE keys SET last_used_at = $2 \
                       WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < $2)";
            for (id, at) in &used {
                execute(&transaction, sql, &[&id.as_str(), &stored_time(*at)]).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }
}

async fn next_epoch(transaction: &Transaction<'_>) -> Result<i64, Failure> {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'keys_epoch' RETURNING value";
    Ok(one(transaction, sql, &[]).await?.try_get(0)?)
}

async fn insert(client: &impl GenericClient, key: &KeyRecord, epoch: i64) -> Result<(), Failure> {
    let unwritable = |_| StoreError::Unavailable("a key has no JSON form".to_owned());
    let json = |texts: Vec<&str>| serde_json::to_string(&texts).map_err(unwritable);
    let session = key.session.as_ref().map(serde_json::to_string).transpose();
    let session = session.map_err(unwritable)?;
    if session.is_some() {
        let sql = "DELETE FROM keys WHERE session IS NOT NULL AND expires_at < $1";
        execute(client, sql, &[&stored_time(key.created_at - SESSION_ROWS_KEPT)]).await?;
    }
    let sql = format!(
        "INSERT INTO keys ({COLUMNS}, inserted, changed) \
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $15)"
    );
    let inserted = execute(
        client,
        &sql,
        &[
            &key.id.as_str(),
            &key.name,
            &key.tenant.as_str(),
            &key.principal.as_str(),
            &key.digest.as_slice(),
            &json(key.roles.iter().map(String::as_str).collect())?,
            &json(key.scopes.iter().map(Grant::as_str).collect())?,
            &stored_time(key.created_at),
            &key.expires_at.map(stored_time),
            &key.revoked_at.map(stored_time),
            &key.last_used_at.map(stored_time),
            &key.replaces.as_ref().map(KeyId::as_str),
            &json(key.makers.iter().map(PrincipalId::as_str).collect())?,
            &session,
            &epoch,
        ],
    )
    .await;
    inserted.map_err(|failure| failure.conflict_over("a key with this id or digest"))?;
    Ok(())
}

fn record(row: &Row) -> Result<KeyRecord, Failure> {
    let id: String = row.try_get(0)?;
    // An id is not a secret; it identifies the key to create again.
    let unreadable = || Failure::corrupt(format!("the key with id {id}"));
    let json = |column: usize| -> Result<Vec<String>, Failure> {
        serde_json::from_str(row.try_get(column)?).map_err(|_| unreadable())
    };
    let digest: &[u8] = row.try_get(4)?;
    Ok(KeyRecord {
        name: row.try_get(1)?,
        tenant: parse(row.try_get(2)?, unreadable)?,
        principal: parse(row.try_get(3)?, unreadable)?,
        digest: digest.try_into().map_err(|_| unreadable())?,
        roles: json(5)?,
        scopes: json(6)?.into_iter().map(|it| parse(it, unreadable)).collect::<Result<_, _>>()?,
        created_at: row.try_get(7)?,
        expires_at: row.try_get(8)?,
        revoked_at: row.try_get(9)?,
        last_used_at: row.try_get(10)?,
        replaces: row
            .try_get::<_, Option<String>>(11)?
            .map(|id| parse(id, unreadable))
            .transpose()?,
        makers: json(12)?.into_iter().map(|it| parse(it, unreadable)).collect::<Result<_, _>>()?,
        session: row
            .try_get::<_, Option<&str>>(13)?
            .map(|text| serde_json::from_str(text).map_err(|_| unreadable()))
            .transpose()?,
        id: parse(id.clone(), unreadable)?,
    })
}
