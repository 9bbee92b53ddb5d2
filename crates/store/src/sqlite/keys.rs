//! API keys on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    id::{KeyId, PrincipalId},
    scope::Grant,
    store::{KeyRecord, KeyRotation, KeyStore, SESSION_ROWS_KEPT, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, bound, execute, moment, parse, time_text},
};

/// The columns of a key, in the order of [`record`].
const COLUMNS: &str = "id, name, tenant, principal, digest, roles, scopes, created_at, expires_at, \
     revoked_at, last_used_at, replaces, makers, session";
/// The epoch of a change, before [`next_epoch`] counts it.
const NEXT_EPOCH: &str = "(SELECT value + 1 FROM meta WHERE name = 'keys_epoch')";

#[async_trait]
impl KeyStore for SqliteStore {
    async fn insert(&self, key: KeyRecord) -> Result<(), StoreError> {
        self.on_writer(move |connection| insert(connection, &key)).await
    }

    async fn insert_for_new_principal(&self, key: KeyRecord) -> Result<bool, StoreError> {
        self.on_writer(move |connection| {
            if knows_principal(connection, &key)? {
                return Ok(false);
            }
            insert(connection, &key)?;
            Ok(true)
        })
        .await
    }

    async fn list(&self) -> Result<Vec<KeyRecord>, StoreError> {
        self.on_reader(list).await
    }

    async fn changed_since(&self, epoch: u64) -> Result<Vec<KeyRecord>, StoreError> {
        self.on_reader(move |connection| {
            let sql = format!("SELECT {COLUMNS} FROM keys WHERE changed > ?1");
            all(connection, &sql, [bound(epoch)], record)
        })
        .await
    }

    async fn revoke(&self, id: &KeyId, at: Timestamp) -> Result<bool, StoreError> {
        let id = id.clone();
        self.on_writer(move |connection| {
            let sql = format!(
                "UPDATE keys SET revoked_at = ?2, changed = {NEXT_EPOCH} \
                     WHERE id = ?1 AND revoked_at IS NULL"
            );
            let revoked = execute(connection, &sql, params![id.as_str(), time_text(at)])? > 0;
            if revoked {
                next_epoch(connection)?;
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
            if is_replaced(connection, &old)? {
                return Ok(KeyRotation::AlreadyReplaced);
            }
            let (now, until) = (time_text(new.created_at), time_text(until));
            let sql = format!(
                "UPDATE keys SET expires_at = min(coalesce(expires_at, ?3), ?3), \
                     changed = {NEXT_EPOCH} \
                     WHERE id = ?1 AND revoked_at IS NULL \
                     AND (expires_at IS NULL OR expires_at > ?2)"
            );
            let found = execute(connection, &sql, params![old.as_str(), now, until])? > 0;
            if !found {
                return Ok(KeyRotation::NoActiveKey);
            }
            insert(connection, &new)?;
            Ok(KeyRotation::Rotated)
        })
        .await
    }

    async fn note_used(&self, used: Vec<(KeyId, Timestamp)>) -> Result<(), StoreError> {
        self.on_writer(move |connection| {
            let mut note = connection.prepare_cached(
                "UPDATE keys SET last_used_at = ?2 \
                     WHERE id = ?1 AND (last_used_at IS NULL OR last_used_at < ?2)",
            )?;
            for (id, at) in &used {
                note.execute(params![id.as_str(), time_text(*at)])?;
            }
            Ok(())
        })
        .await
    }
}

fn insert(connection: &Connection, key: &KeyRecord) -> Result<(), Failure> {
    let json = |texts: Vec<&str>| serde_json::to_string(&texts);
    let unwritable = |_| StoreError::Unavailable("a key has no JSON form".to_owned());
    let roles = json(key.roles.iter().map(String::as_str).collect()).map_err(unwritable)?;
    let scopes = json(key.scopes.iter().map(Grant::as_str).collect()).map_err(unwritable)?;
    let makers = json(key.makers.iter().map(PrincipalId::as_str).collect()).map_err(unwritable)?;
    let session = key.session.as_ref().map(serde_json::to_string).transpose();
    let session = session.map_err(unwritable)?;
    if session.is_some() {
        let sql = "DELETE FROM keys WHERE session IS NOT NULL AND expires_at < ?1";
        execute(connection, sql, params![time_text(key.created_at - SESSION_ROWS_KEPT)])?;
    }
    let sql = format!(
        "INSERT INTO keys ({COLUMNS}, changed) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, {NEXT_EPOCH})"
    );
    execute(
        connection,
        &sql,
        params![
            key.id.as_str(),
            key.name,
            key.tenant.as_str(),
            key.principal.as_str(),
            key.digest,
            roles,
            scopes,
            time_text(key.created_at),
            key.expires_at.map(time_text),
            key.revoked_at.map(time_text),
            key.last_used_at.map(time_text),
            key.replaces.as_ref().map(KeyId::as_str),
            makers,
            session,
        ],
    )
    .map_err(|failure| failure.conflict_over("a key with this id or digest"))?;
    next_epoch(connection)
}

/// Whether any table with principals contains that of `key`. Principals of tokens have no key, so
/// the other tables count too.
fn knows_principal(connection: &Connection, key: &KeyRecord) -> Result<bool, Failure> {
    const TABLES: [&str; 8] = [
        "keys",
        "approvals",
        "runs",
        "quotas",
        "once_holders",
        "credentials",
        "account_grants",
        "saved",
    ];
    for table in TABLES {
        let known: bool = connection
            .prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM {table} WHERE tenant = ?1 AND principal = ?2)"
            ))?
            .query_row(params![key.tenant.as_str(), key.principal.as_str()], |row| row.get(0))?;
        if known {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether an unrevoked key replaces the key `id`.
fn is_replaced(connection: &Connection, id: &KeyId) -> Result<bool, Failure> {
    let replaced = connection
        .prepare_cached(
            "SELECT EXISTS (SELECT 1 FROM keys WHERE replaces = ?1 AND revoked_at IS NULL)",
        )?
        .query_row([id.as_str()], |row| row.get(0))?;
    Ok(replaced)
}

fn next_epoch(connection: &Connection) -> Result<(), Failure> {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'keys_epoch'";
    execute(connection, sql, [])?;
    Ok(())
}

fn list(connection: &Connection) -> Result<Vec<KeyRecord>, Failure> {
    let sql = format!("SELECT {COLUMNS} FROM keys ORDER BY created_at, rowid");
    all(connection, &sql, [], record)
}

fn record(row: &Row<'_>) -> Result<KeyRecord, Failure> {
    let id: String = row.get(0)?;
    // An id is not a secret; it identifies the key to create again.
    let unreadable = || Failure::corrupt(format!("the key with id {id}"));
    let json = |column: usize| -> Result<Vec<String>, Failure> {
        serde_json::from_str(&row.get::<_, String>(column)?).map_err(|_| unreadable())
    };
    let moment = |column| moment(row, column, unreadable);
    Ok(KeyRecord {
        name: row.get(1)?,
        tenant: parse(row.get(2)?, unreadable)?,
        principal: parse(row.get(3)?, unreadable)?,
        digest: row.get(4)?,
        roles: json(5)?,
        scopes: json(6)?
            .into_iter()
            .map(|scope| parse(scope, unreadable))
            .collect::<Result<_, _>>()?,
        created_at: moment(7)?.ok_or_else(unreadable)?,
        expires_at: moment(8)?,
        revoked_at: moment(9)?,
        last_used_at: moment(10)?,
        replaces: row.get::<_, Option<String>>(11)?.map(|id| parse(id, unreadable)).transpose()?,
        makers: json(12)?
            .into_iter()
            .map(|maker| parse(maker, unreadable))
            .collect::<Result<_, _>>()?,
        session: row
            .get::<_, Option<String>>(13)?
            .map(|text| serde_json::from_str(&text).map_err(|_| unreadable()))
            .transpose()?,
        id: parse(id.clone(), unreadable)?,
    })
}
