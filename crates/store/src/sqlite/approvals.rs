//! Approval requests on SQLite.
//!
//! Invariants:
//! - a request and its events are stored in one transaction;
//! - a change must be based on the last revision, so only one of several callers uses a grant;
//! - with a seal key the fingerprint key is sealed. The displayable arguments of a call are stored
//!   only then, and deleted when the request is not in force any more.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
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
    failure::Failure,
    handle::SqliteStore,
    log::Record,
    row::{all, bound, execute, first, limit, time_text, whole},
};
use crate::{fingerprint::FingerprintKey, key_text, seal_places};

/// The fingerprint key, the same in every process. Creates it at the first use.
async fn fingerprint_key(store: &SqliteStore) -> Result<FingerprintKey, StoreError> {
    let keys = &store.options().seal_keys;
    let mine = keys.pack(&seal_places::FINGERPRINT_KEY, key_text::generate()?.expose())?;
    let stored = store.on_writer(move |connection| {
        let sql = "SELECT key FROM approval_state WHERE id = 1";
        let kept: Option<Vec<u8>> = connection.query_row(sql, [], |row| row.get(0))?;
        if let Some(kept) = kept {
            return Ok(kept);
        }
        let sql = "UPDATE approval_state SET key = ?1 WHERE id = 1";
        execute(connection, sql, [&mine])?;
        Ok(mine.clone())
    });
    let stored = stored.await?;
    let (key, text) = FingerprintKey::open(keys, &stored)?;
    // Stored when there was no seal key, or sealed with an old one.
    if keys.can_seal() && !keys.is_current(&stored) {
        let sealed = keys.pack(&seal_places::FINGERPRINT_KEY, &text)?;
        let again = store.on_writer(move |connection| {
            let sql = "UPDATE approval_state SET key = ?1 WHERE id = 1 AND key = ?2";
            execute(connection, sql, [&sealed, &stored])?;
            Ok(())
        });
        again.await?;
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
        let (tenant, fingerprint) = (tenant.clone(), fingerprint.clone());
        let read = move |connection: &Connection| live(connection, &tenant, &fingerprint);
        self.on_reader(read).await
    }

    async fn open(
        &self,
        approval: Approval,
        arguments: Option<String>,
        event: NewEvent,
    ) -> Result<OpenOutcome, StoreError> {
        let (keys, place) =
            (&self.options().seal_keys, seal_places::approval(&approval.tenant, &approval.id));
        let shown = arguments.filter(|_| keys.can_seal());
        let shown = shown.map(|text| keys.seal_text(&place, &text)).transpose()?;
        let mut record = Record::new(&event)?;
        self.on_writer(move |connection| {
            if let Some(known) = live(connection, &approval.tenant, &approval.fingerprint)? {
                return Ok(OpenOutcome::Existing(Box::new(known)));
            }
            if pending(connection, &approval)? >= MAX_PENDING {
                return Ok(OpenOutcome::LimitReached);
            }
            let approval = Approval { change: next_change(connection)?, ..approval.clone() };
            insert(connection, &approval, shown.as_deref())?;
            record.insert(connection)?;
            Ok(OpenOutcome::Opened(Box::new(approval)))
        })
        .await
    }

    async fn change(&self, approval: Approval, events: Vec<NewEvent>) -> Result<bool, StoreError> {
        let mut records = events.iter().map(Record::new).collect::<Result<Vec<_>, _>>()?;
        self.on_writer(move |connection| {
            let approval = Approval {
                change: next_change(connection)?,
                revision: approval.revision + 1,
                ..approval.clone()
            };
            if !replace(connection, &approval)? {
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
        let (whose, which) = (tenant.clone(), id.clone());
        let found = self.on_reader(move |connection| {
            let sql = "SELECT body, shown FROM approvals WHERE tenant = ?1 AND id = ?2";
            first(connection, sql, [whose.as_str(), which.as_str()], |row| {
                Ok::<_, Failure>((approval(row)?, row.get::<_, Option<Vec<u8>>>(1)?))
            })
        });
        let Some((approval, shown)) = found.await? else { return Ok(None) };
        let shown = shown.and_then(|shown| {
            self.options().seal_keys.open_text(&seal_places::approval(tenant, id), &shown)
        });
        Ok(Some((approval, shown)))
    }

    async fn list(&self, query: ApprovalQuery) -> Result<Vec<Approval>, StoreError> {
        self.on_reader(move |connection| select(connection, &query)).await
    }

    async fn pending(&self) -> Result<u64, StoreError> {
        self.on_reader(|connection| {
            let sql = "SELECT count(*) FROM approvals WHERE state = 'pending'";
            whole(connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?)
        })
        .await
    }

    async fn cursor(&self, reader: &str) -> Result<u64, StoreError> {
        let reader = reader.to_owned();
        self.on_writer(move |connection| {
            let sql = "INSERT INTO approval_readers (reader, change) \
                           SELECT ?1, change FROM approval_state WHERE id = 1 \
                           ON CONFLICT (reader) DO NOTHING";
            execute(connection, sql, [&reader])?;
            let sql = "SELECT change FROM approval_readers WHERE reader = ?1";
            whole(connection.query_row(sql, [&reader], |row| row.get(0))?)
        })
        .await
    }

    async fn acknowledge(&self, reader: &str, change: u64) -> Result<(), StoreError> {
        let reader = reader.to_owned();
        self.on_writer(move |connection| {
            let sql = "UPDATE approval_readers SET change = max(change, ?2) WHERE reader = ?1";
            execute(connection, sql, params![reader, bound(change)])?;
            Ok(())
        })
        .await
    }

    async fn prune(&self, before: Timestamp) -> Result<usize, StoreError> {
        let before = time_text(before);
        self.on_writer(move |connection| {
            let sql = "DELETE FROM approvals WHERE created_at < ?1 AND live IS NULL";
            execute(connection, sql, [&before])
        })
        .await
    }
}

fn next_change(connection: &Connection) -> Result<u64, Failure> {
    let sql = "UPDATE approval_state SET change = change + 1 WHERE id = 1 RETURNING change";
    let change = connection.prepare_cached(sql)?.query_row([], |row| row.get(0))?;
    whole(change)
}

fn live(
    connection: &Connection,
    tenant: &TenantId,
    fingerprint: &Fingerprint,
) -> Result<Option<Approval>, Failure> {
    let sql = "SELECT body FROM approvals WHERE tenant = ?1 AND live = ?2";
    first(connection, sql, [tenant.as_str(), fingerprint.0.as_str()], approval)
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
    let sql = "INSERT INTO approvals (tenant, id, principal, state, live, revision, change, \
             created_at, expires_at, body, shown) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
    execute(
        connection,
        sql,
        params![
            it.tenant.as_str(),
            it.id.as_str(),
            it.principal.as_str(),
            it.state.as_str(),
            it.live.then_some(it.fingerprint.0.as_str()),
            bound(it.revision),
            bound(it.change),
            time_text(it.created_at),
            time_text(it.expires_at),
            text(it)?,
            shown,
        ],
    )
    .map_err(|failure| failure.conflict_over("an approval with this id"))?;
    Ok(())
}

/// Replaces the stored approval if it has the previous revision; false otherwise.
fn replace(connection: &Connection, it: &Approval) -> Result<bool, Failure> {
    let sql = "UPDATE approvals SET state = ?3, live = ?4, revision = ?5, change = ?6, \
             expires_at = ?7, body = ?8, shown = CASE WHEN ?4 IS NULL THEN NULL ELSE shown END \
             WHERE tenant = ?1 AND id = ?2 AND revision = ?5 - 1";
    let replaced = execute(
        connection,
        sql,
        params![
            it.tenant.as_str(),
            it.id.as_str(),
            it.state.as_str(),
            it.live.then_some(it.fingerprint.0.as_str()),
            bound(it.revision),
            bound(it.change),
            time_text(it.expires_at),
            text(it)?,
        ],
    )?;
    Ok(replaced > 0)
}

fn select(connection: &Connection, query: &ApprovalQuery) -> Result<Vec<Approval>, Failure> {
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
         AND (?3 IS NULL OR state = ?3) AND {overdue} AND {after} \
         AND (?7 IS NULL OR (created_at, id) < (?7, ?8)) ORDER BY {order} LIMIT ?6"
    );
    let params = params![
        query.tenant.as_ref().map(|it| it.as_str()),
        query.principal.as_ref().map(|it| it.as_str()),
        query.state.map(ApprovalState::as_str),
        query.overdue.map(time_text),
        query.changed_after.map(bound),
        limit(query.limit),
        query.older_than.as_ref().map(|(at, _)| time_text(*at)),
        query.older_than.as_ref().map(|(_, id)| id.as_str()),
    ];
    all(connection, &sql, params, approval)
}

fn approval(row: &Row<'_>) -> Result<Approval, Failure> {
    let body: String = row.get(0)?;
    serde_json::from_str(&body).map_err(|_| Failure::corrupt("an approval"))
}
