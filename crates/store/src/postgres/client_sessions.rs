//! Closed sessions of clients, and cancellations for other servers.

use async_trait::async_trait;
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    store::{ClientSession, ClientSessionStore, SessionNotice, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{bound, digest, execute, limit, one, rows, whole},
};

#[async_trait]
impl ClientSessionStore for PostgresStore {
    async fn end(&self, session: ClientSession, until: Timestamp) -> Result<(), StoreError> {
        within(insert(self, session, None, until)).await
    }

    async fn has_ended(&self, session: ClientSession) -> Result<bool, StoreError> {
        within(async {
            let sql = "SELECT EXISTS (SELECT 1 FROM session_notices \
                              WHERE session = $1 AND request IS NULL) \
                       OR $2 <= (SELECT value FROM meta WHERE name = 'sessions_ended')";
            let (id, opened) = (&session.id.0[..], session.opened.timestamp_millis());
            Ok(one(&self.client().await?, sql, &[&id, &opened]).await?.try_get(0)?)
        })
        .await
    }

    async fn cancel(
        &self,
        session: ClientSession,
        request: String,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        within(insert(self, session, Some(&request), until)).await
    }

    async fn notices(&self, after: u64) -> Result<Vec<SessionNotice>, StoreError> {
        within(async {
            let sql = "SELECT number, session, request FROM session_notices \
                       WHERE number > $1 ORDER BY number LIMIT $2";
            let params: [super::row::Param<'_>; 2] = [&bound(after), &limit(0)];
            rows(&self.client().await?, sql, &params).await?.iter().map(notice).collect()
        })
        .await
    }

    async fn sweep(&self, now: Timestamp, max_ended: usize) -> Result<usize, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let sql = "DELETE FROM session_notices WHERE until <= $1";
            let expired = execute(&transaction, sql, &[&now.timestamp_millis()]).await?;
            let sql = "DELETE FROM session_notices WHERE number IN \
                       (SELECT number FROM session_notices WHERE request IS NULL \
                        ORDER BY number DESC OFFSET $1) RETURNING opened";
            let surplus = rows(&transaction, sql, &[&bound(max_ended as u64)]).await?;
            let opened: Vec<i64> =
                surplus.iter().map(|row| row.try_get(0)).collect::<Result<_, _>>()?;
            if let Some(last) = opened.iter().max() {
                let sql = "UPDATE meta SET value = greatest(value, $1) \
                           WHERE name = 'sessions_ended'";
                execute(&transaction, sql, &[last]).await?;
            }
            transaction.commit().await?;
            Ok(surplus.len().saturating_add(usize::try_from(expired).unwrap_or(usize::MAX)))
        })
        .await
    }
}

async fn insert(
    store: &PostgresStore,
    session: ClientSession,
    request: Option<&str>,
    until: Timestamp,
) -> Result<(), Failure> {
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    // The row is locked, so that notices become visible in the order of their numbers.
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'session_notices' RETURNING value";
    let number: i64 = one(&transaction, sql, &[]).await?.try_get(0)?;
    let sql = "INSERT INTO session_notices (number, session, request, opened, until) \
               VALUES ($1, $2, $3, $4, $5) \
               ON CONFLICT (session) WHERE request IS NULL DO NOTHING";
    let (opened, until) = (session.opened.timestamp_millis(), until.timestamp_millis());
    let id = &session.id.0[..];
    execute(&transaction, sql, &[&number, &id, &request, &opened, &until]).await?;
    transaction.commit().await?;
    Ok(())
}

fn notice(row: &Row) -> Result<SessionNotice, Failure> {
    Ok(SessionNotice {
        number: whole(row.try_get(0)?)?,
        session: digest(row, 1)?.ok_or_else(|| Failure::corrupt("a session"))?,
        cancels: row.try_get(2)?,
    })
}
