//! Credentials on SQLite, sealed.
//!
//! Invariant: values are sealed before they reach the writer and opened after they left a reader;
//! SQLite never sees them.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{self, execute, first, moment, parse, time_text},
};

/// A row: all fields, with the values sealed.
struct Stored {
    credential: Credential,
    sealed: Vec<u8>,
}

const COLUMNS: &str = "id, tenant, principal, name, kind, audiences, created_at, rotated_at, \
                       expires_at, revision, sealed";

/// Reseals the secrets of older keys; see [`Storage::reseal`].
///
/// [`Storage::reseal`]: toolcrib_core::store::Storage::reseal
pub(super) async fn reseal(store: &SqliteStore) -> Result<usize, CredentialStoreError> {
    let keys = &store.options().seal_keys;
    let mut resealed = 0;
    for Stored { credential, sealed: old } in store.on_reader(all).await? {
        if keys.is_current(&old) {
            continue;
        }
        let material = keys.open(&credential, &old)?;
        let new = keys.seal(&credential, &material)?;
        // A concurrent rotation has resealed it already.
        let changed = store.on_writer(move |connection| {
            let sql = "UPDATE credentials SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
            execute(connection, sql, params![credential.id.as_str(), old, new])
        });
        resealed += changed.await?;
    }
    Ok(resealed)
}

#[async_trait]
impl CredentialStore for SqliteStore {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        Ok(self.on_reader(all).await?.into_iter().map(|stored| stored.credential).collect())
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let (owner, name) = (owner.clone(), name.clone());
        let found = self
            .on_reader(move |connection| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM credentials \
                     WHERE tenant = ?1 AND ifnull(principal, '') = ?2 AND name = ?3"
                );
                let principal = owner.principal.as_ref().map_or("", |it| it.as_str());
                first(connection, &sql, [owner.tenant.as_str(), principal, name.as_str()], stored)
            })
            .await?;
        let Some(Stored { credential, sealed }) = found else { return Ok(None) };
        let material = self.options().seal_keys.open(&credential, &sealed)?;
        Ok(Some(UnsealedCredential { credential, material }))
    }

    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let sealed = self.options().seal_keys.seal(&credential, &material)?;
        let stored = Stored { credential, sealed };
        Ok(self.on_writer(move |connection| insert(connection, &stored)).await?)
    }

    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let id = id.clone();
        let of_id = move |connection: &Connection| {
            let sql = format!("SELECT {COLUMNS} FROM credentials WHERE id = ?1");
            first(connection, &sql, [id.as_str()], stored)
        };
        let Some(Stored { mut credential, sealed: before }) = self.on_reader(of_id).await? else {
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
        let changed = self
            .on_writer(move |connection| {
                let revision = revision(&credential)?;
                let sql = "UPDATE credentials SET sealed = ?4, expires_at = ?5, rotated_at = ?6, \
                           revision = ?3 WHERE id = ?1 AND sealed = ?2";
                let expires = credential.expires_at.map(time_text);
                let id = credential.id.as_str();
                execute(
                    connection,
                    sql,
                    params![id, before, revision, sealed, expires, time_text(at)],
                )
            })
            .await?;
        Ok(changed > 0)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let id = id.clone();
        let removed = self
            .on_writer(move |connection| {
                Ok(connection.execute("DELETE FROM credentials WHERE id = ?1", [id.as_str()])?)
            })
            .await?;
        Ok(removed > 0)
    }
}

fn insert(connection: &Connection, stored: &Stored) -> Result<(), Failure> {
    let Stored { credential: it, sealed } = stored;
    let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
    let sql = "INSERT INTO credentials (id, tenant, principal, name, kind, audiences, created_at, \
             rotated_at, expires_at, revision, sealed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    execute(
        connection,
        sql,
        params![
            it.id.as_str(),
            it.owner.tenant.as_str(),
            it.owner.principal.as_ref().map(|principal| principal.as_str()),
            it.name.as_str(),
            serde_json::to_string(&it.kind).map_err(unwritable)?,
            serde_json::to_string(&it.audiences).map_err(unwritable)?,
            time_text(it.created_at),
            time_text(it.rotated_at),
            it.expires_at.map(time_text),
            revision(it)?,
            sealed,
        ],
    )
    .map_err(|failure| failure.conflict_over("a credential of this name or id"))?;
    Ok(())
}

fn revision(credential: &Credential) -> Result<i64, Failure> {
    i64::try_from(credential.revision).map_err(|_| Failure::corrupt("the revision of a credential"))
}

fn all(connection: &Connection) -> Result<Vec<Stored>, Failure> {
    let sql =
        format!("SELECT {COLUMNS} FROM credentials ORDER BY tenant, ifnull(principal, ''), name");
    row::all(connection, &sql, [], stored)
}

fn stored(row: &Row<'_>) -> Result<Stored, Failure> {
    let id: String = row.get(0)?;
    // An id is not a secret; it identifies the credential to set again.
    let unreadable = || Failure::corrupt(format!("the credential with id {id}"));
    let moment = |column| moment(row, column, unreadable);
    let text = |column: usize| row.get::<_, String>(column);
    let principal: Option<String> = row.get(2)?;
    let credential = Credential {
        owner: Owner {
            tenant: parse(text(1)?, unreadable)?,
            principal: principal.map(|principal| parse(principal, unreadable)).transpose()?,
        },
        name: parse(text(3)?, unreadable)?,
        kind: serde_json::from_str(&text(4)?).map_err(|_| unreadable())?,
        audiences: serde_json::from_str(&text(5)?).map_err(|_| unreadable())?,
        created_at: moment(6)?.ok_or_else(unreadable)?,
        rotated_at: moment(7)?.ok_or_else(unreadable)?,
        expires_at: moment(8)?,
        revision: row.get::<_, i64>(9)?.try_into().map_err(|_| unreadable())?,
        id: parse(id.clone(), unreadable)?,
    };
    Ok(Stored { credential, sealed: row.get(10)? })
}
