//! Approval requests on SQLite.
//!
//! Invariants:
//! - a request and its events are stored in one transaction;
//! - a change must be based on the last revision, so only one of several callers uses a grant;
//! - with a seal key the fingerprint key is sealed. The displayable arguments of a call are stored
//!   only then, and deleted when the request is no longer in force.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use tokio::sync::OnceCell;
use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalState, ApprovalStore, Fingerprint, OpenOutcome,
        store::MAX_PENDING,
    },
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, TenantId},
    store::StoreError,
};

use super::{
    SqliteStore,
    failure::Failure,
    log::{Record, time_text},
};
use crate::{MAX_READ, fingerprint::FingerprintKey, seal::SealKeys};

/// The approval requests of a [`SqliteStore`].
#[derive(Debug, Clone)]
pub struct SqliteApprovals {
    store: SqliteStore,
    keys: Arc<SealKeys>,
    key: Arc<OnceCell<FingerprintKey>>,
}

/// First byte of an unsealed key; a sealed text begins with a version, which is never this.
const PLAIN: u8 = 0;

/// The associated data of the sealed fingerprint key.
const KEY_PLACE: [&str; 1] = ["toolcrib approvals key 1"];

impl SqliteApprovals {
    pub(super) fn new(store: SqliteStore, keys: SealKeys) -> Self {
        Self { store, keys: Arc::new(keys), key: Arc::default() }
    }

    /// Returns the fingerprint key, the same in every process.
    async fn key(&self) -> Result<&FingerprintKey, StoreError> {
        self.key
            .get_or_try_init(|| async {
                let (_, text) = FingerprintKey::generate()?;
                let mine = self.pack_key(&text)?;
                let seals = self.keys.can_seal();
                let stored = self.store.inner.writer.write(move |connection| {
                    let sql = "SELECT key FROM approval_state WHERE id = 1";
                    let kept: Option<Vec<u8>> = connection.query_row(sql, [], |row| row.get(0))?;
                    if let Some(kept) = kept {
                        return Ok(kept);
                    }
                    let sql = "UPDATE approval_state SET key = ?1 WHERE id = 1";
                    connection.execute(sql, [&mine])?;
                    Ok(mine.clone())
                });
                let stored = stored.await?;
                let (key, text) = self.open_key(&stored)?;
                // Stored when there was no seal key, or sealed with an old one.
                if seals && !self.keys.is_current(&stored) {
                    let sealed = self.pack_key(&text)?;
                    let again = self.store.inner.writer.write(move |connection| {
                        let sql = "UPDATE approval_state SET key = ?1 WHERE id = 1 AND key = ?2";
                        connection.execute(sql, [&sealed, &stored])?;
                        Ok(())
                    });
                    again.await?;
                }
                Ok(key)
            })
            .await
    }

    fn pack_key(&self, text: &str) -> Result<Vec<u8>, StoreError> {
        if self.keys.can_seal() {
            return self.keys.seal_text(&KEY_PLACE, text);
        }
        let mut plain = vec![PLAIN];
        plain.extend_from_slice(text.as_bytes());
        Ok(plain)
    }

    fn open_key(&self, stored: &[u8]) -> Result<(FingerprintKey, String), StoreError> {
        let text = match stored.split_first() {
            Some((&PLAIN, plain)) => String::from_utf8(plain.to_vec()).ok(),
            _ => self.keys.open_text(&KEY_PLACE, stored),
        };
        let opened = text.and_then(|text| Some((FingerprintKey::parse(&text)?, text)));
        opened.ok_or_else(|| {
            StoreError::Corrupt(
                "the key of the approvals cannot be opened with this seal key".to_owned(),
            )
        })
    }
}

/// Returns the associated data of the sealed arguments of a call.
fn place<'a>(tenant: &'a TenantId, id: &'a ApprovalId) -> [&'a str; 3] {
    ["toolcrib approval 1", tenant.as_str(), id.as_str()]
}

#[async_trait]
impl ApprovalStore for SqliteApprovals {
    async fn fingerprint(&self, parts: Vec<Vec<u8>>) -> Result<Fingerprint, StoreError> {
        Ok(self.key().await?.of(&parts))
    }

    async fn live(
        &self,
        tenant: &TenantId,
        fingerprint: &Fingerprint,
    ) -> Result<Option<Approval>, StoreError> {
        let (tenant, fingerprint) = (tenant.clone(), fingerprint.clone());
        let read = move |connection: &Connection| live(connection, &tenant, &fingerprint);
        self.store.inner.readers.read(read).await
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let shown = match arguments.filter(|_| self.keys.can_seal()) {
            Some(text) => Some(self.keys.seal_text(&place(&approval.tenant, &approval.id), &text)?),
            None => None,
        };
        let record = Record::new(event)?;
        let instance = Arc::clone(&self.store.inner.instance);
        self.store
            .inner
            .writer
            .write(move |connection| {
                if let Some(known) = live(connection, &approval.tenant, &approval.fingerprint)? {
                    return Ok(OpenOutcome::Existing(Box::new(known)));
                }
                if pending(connection, &approval)? >= MAX_PENDING {
                    return Ok(OpenOutcome::LimitReached);
                }
                let approval = Approval { change: next_change(connection)?, ..approval.clone() };
                insert(connection, &approval, shown.as_deref())?;
                record.insert(connection, &instance)?;
                Ok(OpenOutcome::Opened(Box::new(approval)))
            })
            .await
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let records = events.into_iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        let instance = Arc::clone(&self.store.inner.instance);
        self.store
            .inner
            .writer
            .write(move |connection| {
                let approval = Approval {
                    change: next_change(connection)?,
                    revision: approval.revision + 1,
                    ..approval.clone()
                };
                if !replace(connection, &approval)? {
                    return Ok(false);
                }
                for record in &records {
                    record.insert(connection, &instance)?;
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
        let (whose, which) = (tenant.clone(), id.clone());
        let found = self.store.inner.readers.read(move |connection| {
            let sql = "SELECT body, shown FROM approvals WHERE tenant = ?1 AND id = ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let mut rows = statement.query([whose.as_str(), which.as_str()])?;
            match rows.next()? {
                Some(row) => Ok(Some((approval(row)?, row.get::<_, Option<Vec<u8>>>(1)?))),
                None => Ok(None),
            }
        });
        let Some((approval, shown)) = found.await? else { return Ok(None) };
        let shown = shown.and_then(|shown| self.keys.open_text(&place(tenant, id), &shown));
        Ok(Some((approval, shown)))
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        self.store.inner.readers.read(move |connection| select(connection, &query)).await
    }

    async fn epoch(&self) -> Result<u64, StoreError> {
        self.store
            .inner
            .readers
            .read(|connection| {
                let sql = "SELECT change FROM approval_state WHERE id = 1";
                let change = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
                counted(change)
            })
            .await
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        let reader = reader.to_owned();
        self.store
            .inner
            .writer
            .write(move |connection| {
                let sql = "INSERT INTO approval_readers (reader, change) \
                           SELECT ?1, change FROM approval_state WHERE id = 1 \
                           ON CONFLICT (reader) DO NOTHING";
                connection.execute(sql, [&reader])?;
                let sql = "SELECT change FROM approval_readers WHERE reader = ?1";
                counted(connection.query_row(sql, [&reader], |row| row.get(0))?)
            })
            .await
    }

    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError> {
        let reader = reader.to_owned();
        self.store
            .inner
            .writer
            .write(move |connection| {
                let sql = "UPDATE approval_readers SET change = max(change, ?2) WHERE reader = ?1";
                connection.execute(sql, params![reader, stored(change)])?;
                Ok(())
            })
            .await
    }

    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError> {
        let before = time_text(before);
        self.store
            .inner
            .writer
            .write(move |connection| {
                let sql = "DELETE FROM approvals WHERE created_at < ?1 AND live IS NULL";
                Ok(connection.execute(sql, [&before])?)
            })
            .await
    }
}

fn counted(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure::corrupt("a negative count of approvals"))
}

fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn next_change(connection: &Connection) -> Result<u64, Failure> {
    let sql = "UPDATE approval_state SET change = change + 1 WHERE id = 1 RETURNING change";
    let change = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    counted(change)
}

fn live(
    connection: &Connection,
    tenant: &TenantId,
    fingerprint: &Fingerprint,
) -> Result<Option<Approval>, Failure> {
    let sql = "SELECT body FROM approvals WHERE tenant = ?1 AND live = ?2";
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([tenant.as_str(), fingerprint.0.as_str()])?;
    rows.next()?.map(approval).transpose()
}

fn pending(connection: &Connection, approval: &Approval) -> Result<usize, Failure> {
    let sql = "SELECT count(*) FROM approvals INDEXED BY approvals_pending \
               WHERE tenant = ?1 AND principal = ?2 AND state = 'pending'";
    let of = [approval.tenant.as_str(), approval.principal.as_str()];
    let count: i64 = connection.prepare_cached(sql)?.query_row(of, |row| row.get(0))?;
    Ok(usize::try_from(count).unwrap_or(usize::MAX))
}

fn text(approval: &Approval) -> Result<String, Failure> {
    serde_json::to_string(approval)
        .map_err(|_| StoreError::Unavailable("an approval has no JSON form".to_owned()).into())
}

fn insert(connection: &Connection, it: &Approval, shown: Option<&[u8]>) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO approvals (tenant, id, principal, state, live, revision, change, \
             created_at, expires_at, body, shown) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
        )?
        .execute(params![
            it.tenant.as_str(),
            it.id.as_str(),
            it.principal.as_str(),
            it.state.as_str(),
            it.live.then_some(it.fingerprint.0.as_str()),
            stored(it.revision),
            stored(it.change),
            time_text(it.created_at),
            time_text(it.expires_at),
            text(it)?,
            shown,
        ])
        .map_err(|error| Failure::from(error).conflict_over("an approval with this id"))?;
    Ok(())
}

/// Replaces the stored approval; returns whether it had the previous revision.
fn replace(connection: &Connection, it: &Approval) -> Result<bool, Failure> {
    let replaced = connection
        .prepare_cached(
            "UPDATE approvals SET state = ?3, live = ?4, revision = ?5, change = ?6, \
             expires_at = ?7, body = ?8, shown = CASE WHEN ?4 IS NULL THEN NULL ELSE shown END \
             WHERE tenant = ?1 AND id = ?2 AND revision = ?5 - 1",
        )?
        .execute(params![
            it.tenant.as_str(),
            it.id.as_str(),
            it.state.as_str(),
            it.live.then_some(it.fingerprint.0.as_str()),
            stored(it.revision),
            stored(it.change),
            time_text(it.expires_at),
            text(it)?,
        ])?;
    Ok(replaced > 0)
}

fn select(connection: &Connection, query: &ApprovalQuery) -> Result<Vec<Approval>, Failure> {
    let limit = match query.limit {
        0 => MAX_READ,
        limit => limit.min(MAX_READ),
    };
    let whose = if query.tenant.is_some() { "tenant = ?1" } else { "?1 IS NULL" };
    let overdue = match query.overdue {
        Some(_) => "live IS NOT NULL AND expires_at <= ?4",
        None => "?4 IS NULL",
    };
    let (after, order) = match query.changed_after {
        Some(_) => ("change > ?5", "change"),
        None => ("?5 IS NULL", "created_at DESC, id DESC"),
    };
    let sql = format!(
        "SELECT body FROM approvals WHERE {whose} AND (?2 IS NULL OR principal = ?2) \
         AND (?3 IS NULL OR state = ?3) AND {overdue} AND {after} ORDER BY {order} LIMIT ?6"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![
        query.tenant.as_ref().map(|it| it.as_str()),
        query.principal.as_ref().map(|it| it.as_str()),
        query.state.map(ApprovalState::as_str),
        query.overdue.map(time_text),
        query.changed_after.map(stored),
        i64::try_from(limit).unwrap_or(i64::MAX),
    ])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(approval(row)?);
    }
    Ok(found)
}

fn approval(row: &Row<'_>) -> Result<Approval, Failure> {
    let body: String = row.get(0)?;
    serde_json::from_str(&body).map_err(|_| Failure::corrupt("an approval"))
}
