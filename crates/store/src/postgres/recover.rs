//! Closing the calls and then the tool sessions that a dead process left open.

use toolcrib_core::{clock::Timestamp, store::StoreError};

use super::{
    closing::{CHUNK, ENDED, OF_INSTANCE, append_all, close_calls, close_sessions},
    failure::{Failure, within},
    handle::PostgresStore,
    idempotency, instance,
    row::{first, rows},
    runs,
};

/// Closes the calls and sessions that dead instances left open. An instance is dead if it has
/// released its lease, or if its lease has expired while this process could renew its own. One
/// process recovers at a time; the others wait and then find no work left.
pub(super) async fn recover(store: &PostgresStore, now: Timestamp) -> Result<usize, StoreError> {
    let mut closed = 0;
    loop {
        let (count, is_done) = within(step(store, now)).await?;
        closed += count;
        if is_done {
            return Ok(closed);
        }
    }
}

/// Closes up to [`CHUNK`] calls and sessions of one dead instance. Returns how many, and whether
/// all work was done.
async fn step(store: &PostgresStore, now: Timestamp) -> Result<(usize, bool), Failure> {
    let own = store.instance();
    let mut client = store.client().await?;
    let transaction = client.transaction().await?;
    let sql = "SELECT value FROM meta WHERE name = 'recovery' FOR UPDATE";
    rows(&transaction, sql, &[]).await?;
    let sql = "SELECT d.id FROM (SELECT id FROM instances \
                UNION SELECT instance FROM open_calls UNION SELECT instance FROM open_sessions \
                UNION SELECT instance FROM runs WHERE state = 'running' \
                UNION SELECT instance FROM once_calls WHERE state = 'running') d \
               WHERE d.id <> $1 AND NOT EXISTS (SELECT 1 FROM instances i WHERE i.id = d.id \
                AND (i.expires_at > clock_timestamp() OR NOT $2)) ORDER BY d.id LIMIT 1";
    let steady = store.is_steady();
    let Some(row) = first(&transaction, sql, &[&own, &steady]).await? else { return Ok((0, true)) };
    let dead: String = row.try_get(0)?;
    // The lock makes a renewal wait. One that came before it shows that the process lives.
    let sql = "SELECT expires_at > clock_timestamp() FROM instances WHERE id = $1 FOR UPDATE";
    if let Some(row) = first(&transaction, sql, &[&dead]).await?
        && row.try_get(0)?
    {
        return Ok((0, false));
    }
    runs::adopt(&transaction, &dead, own, now).await?;
    let calls = close_calls(&transaction, OF_INSTANCE, &dead, ENDED, now).await?;
    let mut closed = append_all(&transaction, &calls, own).await?;
    if closed < CHUNK {
        let sessions = close_sessions(&transaction, OF_INSTANCE, &dead, now).await?;
        let count = append_all(&transaction, &sessions, own).await?;
        closed += count;
        if count < CHUNK {
            // The record is complete for them once the calls are closed.
            idempotency::settle(&transaction, &dead).await?;
            instance::release(&transaction, &dead).await?;
        }
    }
    transaction.commit().await?;
    Ok((closed, false))
}
