//! API keys on SQLite.

use async_trait::async_trait;
use rusqlite::Connection;
use toolcrib_core::{
    clock::Timestamp,
    id::KeyId,
    store::{KeyRecord, KeyRotation, KeyStore, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::execute,
    statement::{first, run},
};
use crate::rows::{Statement, keys};

#[async_trait]
impl KeyStore for SqliteStore {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        self.on_writer(move |connection| insert(connection, &key)).await
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        let known = keys::principals(&key);
        self.on_writer(move |connection| {
            for statement in &known {
                if is_so(connection, statement)? {
                    return Ok(false);
                }
            }
            insert(connection, &key)?;
            Ok(true)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.select(keys::list("rowid"), |row| keys::record(row)).await
    }

    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        self.select(keys::changed_since(epoch), |row| keys::record(row)).await
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        let id = id.clone();
        self.on_writer(move |connection| {
            let revoke = keys::revoke(&id, at, next_epoch(connection)?);
            let revoked = run(connection, &revoke)? > 0;
            if revoked {
                count(connection)?;
            }
            Ok(revoked)
        })
        .await
    }

    async fn rotate(
        &self,
        old: &KeyId,
        new: KeyRecord,
        until: Timestamp,
    ) -> Result<KeyRotation, StoreError> {
        let old = old.clone();
        self.on_writer(move |connection| {
            if is_so(connection, &keys::is_replaced(&old))? {
                return Ok(KeyRotation::AlreadyReplaced);
            }
            let expire = keys::expire(&old, new.created_at, until, next_epoch(connection)?);
            if run(connection, &expire)? == 0 {
                return Ok(KeyRotation::NoActiveKey);
            }
            insert(connection, &new)?;
            Ok(KeyRotation::Rotated)
        })
        .await
    }

    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        let notes: Vec<_> = used.iter().map(|(id, at)| keys::note_used(id, *at)).collect();
        self.on_writer(move |connection| {
            notes.iter().try_for_each(|note| run(connection, note).map(drop))
        })
        .await
    }
}

fn insert(connection: &Connection, key: &KeyRecord) -> Result<(), Failure> {
    if let Some(sweep) = keys::sweep_sessions(key) {
        run(connection, &sweep)?;
    }
    run(connection, &keys::insert(key, &["changed"], next_epoch(connection)?)?)?;
    count(connection)
}

/// The epoch of a change, before it is counted.
fn next_epoch(connection: &Connection) -> Result<i64, Failure> {
    let sql = "SELECT value + 1 FROM meta WHERE name = 'keys_epoch'";
    Ok(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
}

/// Counts and announces a change.
fn count(connection: &Connection) -> Result<(), Failure> {
    execute(connection, "UPDATE meta SET value = value + 1 WHERE name = 'keys_epoch'", [])?;
    Ok(())
}

fn is_so(connection: &Connection, statement: &Statement) -> Result<bool, Failure> {
    Ok(first(connection, statement, |row| Ok(row.get(0)?))?.unwrap_or(false))
}
