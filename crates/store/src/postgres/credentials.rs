//! Credentials, sealed.
//!
//! Invariant: values are sealed before they reach the database and opened after they left it.

use async_trait::async_trait;
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{bound, execute, first, parse, rows, stored_time, whole},
};

/// A row: all fields, with the values sealed.
struct Stored {
    credential: Credential,
    sealed: Vec<u8>,
}

const COLUMNS: &str = "id, tenant, principal, name, kind, audiences, created_at, rotated_at, \
                       expires_at, revision, sealed";

/// Reseals the secrets of older keys.
pub(super) async fn reseal(store: &PostgresStore) -> Result<usize, CredentialStoreError> {
    let keys = &store.options().seal_keys;
    let mut resealed = 0;
    for Stored { credential, sealed: old } in all(store).await? {
        if keys.is_current(&old) {
            continue;
        }
        let material = keys.open(&credential, &old)?;
        let new = keys.seal(&credential, &material)?;
        // A concurrent rotation has resealed it already.
        let changed = within(async {
            let sql = "UPDATE credentials SET sealed = $3 WHERE id = $1 AND sealed = $2";
            execute(&store.client().await?, sql, &[&credential.id.as_str(), &old, &new]).await
        });
        resealed += usize::try_from(changed.await?).unwrap_or(0);
    }
    Ok(resealed)
}

async fn all(store: &PostgresStore) -> Result<Vec<Stored>, StoreError> {
    within(async {
        let sql = format!("SELECT {COLUMNS} FROM credentials ORDER BY tenant, principal, name");
        rows(&store.client().await?, &sql, &[]).await?.iter().map(stored).collect()
    })
    .await
}

#[async_trait]
impl CredentialStore for PostgresStore {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        Ok(all(self).await?.into_iter().map(|stored| stored.credential).collect())
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let found = within(async {
            let sql = format!(
                "SELECT {COLUMNS} FROM credentials \
                 WHERE tenant = $1 AND principal = $2 AND name = $3"
            );
            let principal = owner.principal.as_ref().map_or("", |it| it.as_str());
            let client = self.client().await?;
            let params: [super::row::Param<'_>; 3] =
                [&owner.tenant.as_str(), &principal, &name.as_str()];
            first(&client, &sql, &params).await?.as_ref().map(stored).transpose()
        });
        let Some(Stored { credential, sealed }) = found.await? else { return Ok(None) };
        let material = self.options().seal_keys.open(&credential, &sealed)?;
        Ok(Some(UnsealedCredential { credential, material }))
    }

    async fn put(&self, it: Credential, material: Material) -> Result<(), CredentialStoreError> {
        let sealed = self.options().seal_keys.seal(&it, &material)?;
        let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
        let kind = serde_json::to_string(&it.kind).map_err(unwritable)?;
        let audiences = serde_json::to_string(&it.audiences).map_err(unwritable)?;
        within(async {
            let sql = format!(
                "INSERT INTO credentials ({COLUMNS}) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)"
            );
            let client = self.client().await?;
            let inserted = execute(
                &client,
                &sql,
                &[
                    &it.id.as_str(),
                    &it.owner.tenant.as_str(),
                    &it.owner.principal.as_ref().map_or("", |principal| principal.as_str()),
                    &it.name.as_str(),
                    &kind,
                    &audiences,
                    &stored_time(it.created_at),
                    &stored_time(it.rotated_at),
                    &it.expires_at.map(stored_time),
                    &bound(it.revision),
                    &sealed,
                ],
            )
            .await;
            let conflict = |it: Failure| it.conflict_over("a credential of this name or id");
            inserted.map_err(conflict)?;
            Ok(())
        })
        .await?;
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
        let found = within(async {
            let sql = format!("SELECT {COLUMNS} FROM credentials WHERE id = $1");
            let client = self.client().await?;
            first(&client, &sql, &[&id.as_str()]).await?.as_ref().map(stored).transpose()
        });
        let Some(Stored { mut credential, sealed: before }) = found.await? else {
            return Ok(false);
        };
        if credential.revision != seen {
            return Ok(false);
        }
        // A row changed by other means must not get a new seal.
        self.options().seal_keys.open(&credential, &before)?;
        credential.revision += 1;
        credential.expires_at = expires_at;
        let sealed = self.options().seal_keys.seal(&credential, &material)?;
        let changed = within(async {
            let sql = "UPDATE credentials SET sealed = $4, expires_at = $5, rotated_at = $6, \
                       revision = $3 WHERE id = $1 AND sealed = $2";
            let (expires, at) = (expires_at.map(stored_time), stored_time(at));
            let revision = bound(credential.revision);
            let client = self.client().await?;
            let params: [super::row::Param<'_>; 6] =
                [&id.as_str(), &before, &revision, &sealed, &expires, &at];
            execute(&client, sql, &params).await
        });
        Ok(changed.await? > 0)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let removed = within(async {
            let sql = "DELETE FROM credentials WHERE id = $1";
            execute(&self.client().await?, sql, &[&id.as_str()]).await
        });
        Ok(removed.await? > 0)
    }
}

fn stored(row: &Row) -> Result<Stored, Failure> {
    let id: String = row.try_get(0)?;
    // An id is not a secret; it identifies the credential to set again.
    let unreadable = || Failure::corrupt(format!("the credential with id {id}"));
    let principal: String = row.try_get(2)?;
    let principal = Some(principal).filter(|it| !it.is_empty());
    let credential = Credential {
        owner: Owner {
            tenant: parse(row.try_get(1)?, unreadable)?,
            principal: principal.map(|principal| parse(principal, unreadable)).transpose()?,
        },
        name: parse(row.try_get(3)?, unreadable)?,
        kind: serde_json::from_str(row.try_get(4)?).map_err(|_| unreadable())?,
        audiences: serde_json::from_str(row.try_get(5)?).map_err(|_| unreadable())?,
        created_at: row.try_get(6)?,
        rotated_at: row.try_get(7)?,
        expires_at: row.try_get(8)?,
        revision: whole(row.try_get(9)?)?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(Stored { credential, sealed: row.try_get(10)? })
}
