//! Closed sessions of clients, and cancellations for other servers, on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    store::{ClientSession, ClientSessionStore, SessionNotice, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, bound, execute, limit, whole},
};

#[async_trait]
impl ClientSessionStore for SqliteStore {
    async fn end(&self, session: ClientSession, until: Timestamp) -> Result<(), StoreError> {
        self.on_writer(move |connection| insert(connection, session, None, until)).await
    }

    async fn has_ended(&self, session: ClientSession) -> Result<bool, StoreError> {
        self.on_reader(move |connection| {
            let sql = "SELECT EXISTS (SELECT 1 FROM session_notices \
                              WHERE session = ?1 AND request IS NULL) \
                       OR ?2 <= (SELECT value FROM meta WHERE name = 'sessions_ended')";
            let params = params![session.id.0, session.opened.timestamp_millis()];
            Ok(connection.prepare_cached(sql)?.query_row(params, |row| row.get(0))?)
        })
        .await
    }

    async fn cancel(
        &self,
        session: ClientSession,
        request: String,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.on_writer(move |connection| insert(connection, session, Some(&request), until)).await
    }

    async fn notices(&self, after: u64) -> Result<Vec<SessionNotice>, StoreError> {
        self.on_reader(move |connection| {
            let sql = "SELECT number, session, request FROM session_notices \
                       WHERE number > ?1 ORDER BY number LIMIT ?2";
            all(connection, sql, params![bound(after), limit(0)], notice)
        })
        .await
    }

    async fn sweep(&self, now: Timestamp, max_ended: usize) -> Result<usize, StoreError> {
        self.on_writer(move |connection| {
            let sql = "DELETE FROM session_notices WHERE until <= ?1";
            let expired = execute(connection, sql, [now.timestamp_millis()])?;
            let surplus = "SELECT number FROM session_notices WHERE request IS NULL \
                           ORDER BY number DESC LIMIT -1 OFFSET ?1";
            let most = bound(max_ended as u64);
            let sql = format!(
                "UPDATE meta SET value = max(value, \
                   (SELECT max(opened) FROM session_notices WHERE number IN ({surplus}))) \
                 WHERE name = 'sessions_ended' AND EXISTS ({surplus})"
            );
            execute(connection, &sql, [most])?;
            let sql = format!("DELETE FROM session_notices WHERE number IN ({surplus})");
            Ok(expired + execute(connection, &sql, [most])?)
        })
        .await
    }
}

fn insert(
    connection: &Connection,
    session: ClientSession,
    request: Option<&str>,
    until: Timestamp,
) -> Result<(), Failure> {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'session_notices'";
    execute(connection, sql, [])?;
    let sql = "INSERT INTO session_notices (number, session, request, opened, until) \
               SELECT value, ?1, ?2, ?3, ?4 FROM meta WHERE name = 'session_notices' \
               ON CONFLICT (session) WHERE request IS NULL DO NOTHING";
    let (opened, until) = (session.opened.timestamp_millis(), until.timestamp_millis());
    execute(connection, sql, params![session.id.0, request, opened, until])?;
    Ok(())
}

fn notice(row: &Row<'_>) -> Result<SessionNotice, Failure> {
    Ok(SessionNotice {
        number: whole(row.get(0)?)?,
        session: Digest(row.get(1)?),
        cancels: row.get(2)?,
    })
}
