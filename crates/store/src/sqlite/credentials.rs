//! Credentials on SQLite, sealed.
//!
//! Invariant: values are sealed before they reach the writer and opened after they left a reader;
//! SQLite never sees them.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    credential::{
        Credential, CredentialStore, CredentialStoreError, Material, Owner, UnsealedCredential,
    },
    id::{CredentialId, CredentialName},
    store::StoreError,
};

use super::{
    SqliteStore,
    failure::Failure,
    log::{parse, time, time_text},
};
use crate::seal::SealKeys;

/// The credentials of a [`SqliteStore`], with the keys that seal them.
#[derive(Debug, Clone)]
pub struct SqliteCredentials {
    store: SqliteStore,
    keys: Arc<SealKeys>,
}

/// A row: all fields, with the values sealed.
struct Stored {
    credential: Credential,
    sealed: Vec<u8>,
}

const COLUMNS: &str = "id, tenant, principal, name, kind, audiences, created_at, rotated_at, \
                       expires_at, revision, sealed";

// === impl SqliteCredentials ===

impl SqliteCredentials {
    pub(super) fn new(store: SqliteStore, keys: SealKeys) -> Self {
        Self { store, keys: Arc::new(keys) }
    }

    /// Reseals values that an older key has sealed with the current key, and returns how many there
    /// were. Servers that know both keys may run meanwhile.
    ///
    /// # Errors
    /// Fails at the first value that cannot be opened; those before it are resealed.
    pub async fn reseal(&self) -> Result<usize, CredentialStoreError> {
        let mut resealed = 0;
        for stored in self.all().await? {
            if self.keys.is_current(&stored.sealed) {
                continue;
            }
            let Stored { credential, sealed: old } = stored;
            let material = self.keys.open(&credential, &old)?;
            let new = self.keys.seal(&credential, &material)?;
            let id = credential.id;
            // A concurrent rotation has resealed it already.
            let changed = self
                .store
                .inner
                .writer
                .write(move |connection| {
                    let sql = "UPDATE credentials SET sealed = ?3 WHERE id = ?1 AND sealed = ?2";
                    Ok(connection.execute(sql, params![id.as_str(), old, new])?)
                })
                .await?;
            resealed += changed;
        }
        Ok(resealed)
    }

    async fn all(&self) -> Result<Vec<Stored>, StoreError> {
        self.store.inner.readers.read(all).await
    }

    async fn by_id(&self, id: &CredentialId) -> Result<Option<Stored>, StoreError> {
        let id = id.clone();
        self.store
            .inner
            .readers
            .read(move |connection| {
                let sql = format!("SELECT {COLUMNS} FROM credentials WHERE id = ?1");
                one(connection, &sql, &[id.as_str()])
            })
            .await
    }
}

#[async_trait]
impl CredentialStore for SqliteCredentials {
    async fn list(&self) -> Result<Vec<Credential>, CredentialStoreError> {
        Ok(self.all().await?.into_iter().map(|stored| stored.credential).collect())
    }

    async fn get(
        &self,
        owner: &Owner,
        name: &CredentialName,
    ) -> Result<Option<UnsealedCredential>, CredentialStoreError> {
        let (owner, name) = (owner.clone(), name.clone());
        let found = self
            .store
            .inner
            .readers
            .read(move |connection| {
                let sql = format!(
                    "SELECT {COLUMNS} FROM credentials \
                     WHERE tenant = ?1 AND ifnull(principal, '') = ?2 AND name = ?3"
                );
                let principal = owner.principal.as_ref().map_or("", |it| it.as_str());
                one(connection, &sql, &[owner.tenant.as_str(), principal, name.as_str()])
            })
            .await?;
        let Some(Stored { credential, sealed }) = found else { return Ok(None) };
        let material = self.keys.open(&credential, &sealed)?;
        Ok(Some(UnsealedCredential { credential, material }))
    }

    async fn put(
        &self,
        credential: Credential,
        material: Material,
    ) -> Result<(), CredentialStoreError> {
        let sealed = self.keys.seal(&credential, &material)?;
        let stored = Stored { credential, sealed };
        Ok(self.store.inner.writer.write(move |connection| insert(connection, &stored)).await?)
    }

    async fn rotate(
        &self,
        id: &CredentialId,
        seen: u64,
        material: Material,
        expires_at: Option<Timestamp>,
        at: Timestamp,
    ) -> Result<bool, CredentialStoreError> {
        let Some(Stored { mut credential, sealed: before }) = self.by_id(id).await? else {
            return Ok(false);
        };
        if credential.revision != seen {
            return Ok(false);
        }
        // A row that was changed by other means must not get a new seal.
        self.keys.open(&credential, &before)?;
        credential.revision += 1;
        credential.expires_at = expires_at;
        let sealed = self.keys.seal(&credential, &material)?;
        let changed = self
            .store
            .inner
            .writer
            .write(move |connection| {
                let revision = revision(&credential)?;
                let sql = "UPDATE credentials SET sealed = ?4, expires_at = ?5, rotated_at = ?6, \
                           revision = ?3 WHERE id = ?1 AND sealed = ?2";
                let expires = credential.expires_at.map(time_text);
                let id = credential.id.as_str();
                Ok(connection
                    .execute(sql, params![id, before, revision, sealed, expires, time_text(at)])?)
            })
            .await?;
        Ok(changed > 0)
    }

    async fn remove(&self, id: &CredentialId) -> Result<bool, CredentialStoreError> {
        let id = id.clone();
        let removed = self
            .store
            .inner
            .writer
            .write(move |connection| {
                Ok(connection.execute("DELETE FROM credentials WHERE id = ?1", [id.as_str()])?)
            })
            .await?;
        Ok(removed > 0)
    }
}

fn insert(connection: &Connection, stored: &Stored) -> Result<(), Failure> {
    let Stored { credential: it, sealed } = stored;
    let unwritable = |_| StoreError::Unavailable("a credential has no JSON form".to_owned());
    connection
        .execute(
            "INSERT INTO credentials (id, tenant, principal, name, kind, audiences, created_at, \
             rotated_at, expires_at, revision, sealed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
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
        .map_err(|error| Failure::from(error).conflict_over("a credential of this name or id"))?;
    Ok(())
}

fn revision(credential: &Credential) -> Result<i64, Failure> {
    i64::try_from(credential.revision).map_err(|_| Failure::corrupt("the revision of a credential"))
}

fn all(connection: &Connection) -> Result<Vec<Stored>, Failure> {
    let sql =
        format!("SELECT {COLUMNS} FROM credentials ORDER BY tenant, ifnull(principal, ''), name");
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query([])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(stored(row)?);
    }
    Ok(found)
}

fn one(connection: &Connection, sql: &str, keys: &[&str]) -> Result<Option<Stored>, Failure> {
    let mut statement = connection.prepare_cached(sql)?;
    let read = |row: &Row<'_>| Ok(stored(row));
    statement.query_row(rusqlite::params_from_iter(keys), read).optional()?.transpose()
}

fn stored(row: &Row<'_>) -> Result<Stored, Failure> {
    let id: String = row.get(0)?;
    // An id is not a secret; it identifies the credential to set again.
    let unreadable = || Failure::corrupt(format!("the credential with id {id}"));
    let moment = |column: usize| -> Result<Option<Timestamp>, Failure> {
        match row.get::<_, Option<String>>(column)? {
            Some(text) => time(&text).map(Some).ok_or_else(unreadable),
            None => Ok(None),
        }
    };
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
