//! Idempotent calls and their answers on SQLite.
//!
//! Invariants:
//! - data is stored only with a seal key, and SQLite never sees the plain text;
//! - a call that a living process runs is never taken from it;
//! - calls and bytes are bounded, in total and per caller. A caller over its limits loses its own
//!   oldest answers. When the total is exceeded, the caller with the most loses its oldest.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    id::RunId,
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyKey, IdempotencyStore},
    store::StoreError,
};

use super::{
    compact::{Forms, Id, TOOL_RETURNED},
    failure::Failure,
    handle::SqliteStore,
    row::{execute, first, limit},
};
use crate::{
    IdempotencyBounds,
    rows::idempotency::{
        self, Decision, MOST_FORGOTTEN, OVERHEAD, SWEEP, StoredCall, decide, seal_answer, seal_call,
    },
};

#[async_trait]
impl IdempotencyStore for SqliteStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn claim(&self, claim: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        let call = seal_call(&self.options().call_keys, &claim)?;
        let key = claim.key.clone();
        let instance = self.instance();
        let (keys, bounds) = (self.options().call_keys.clone(), self.options().idempotency);
        let decision = self.on_writer(move |connection| {
            if let Some(stored) = stored_call(connection, &claim.key)? {
                match decide(&keys, &claim, &instance, stored)? {
                    Decision::Remove(id) => remove(connection, id)?,
                    decision => return Ok(decision),
                }
            }
            sweep(connection, millis(claim.now))?;
            put(connection, &claim, &call, &instance)?;
            make_room(connection, &claim.key, bounds)?;
            Ok(Decision::Outcome(ClaimOutcome::Taken))
        });
        match decision.await? {
            Decision::Outcome(outcome) => Ok(outcome),
            Decision::Answer(answer) => Ok(answer.open(&self.options().call_keys, &key)),
            Decision::Remove(_) => Ok(ClaimOutcome::Taken),
        }
    }

    async fn keep(
        &self,
        key: &IdempotencyKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let (keys, bounds) = (&self.options().call_keys, self.options().idempotency);
        let (sealed, bytes) = seal_answer(keys, key, run, body, bounds)?;
        let (key, run) = (key.clone(), run.clone());
        self.on_writer(move |connection| {
            let sql = "UPDATE once_calls SET state = ?5, answer = ?6, bytes = ?7, until = ?8 \
                         WHERE tenant = ?1 AND principal = ?2 AND key = ?3 AND run_id = ?4 \
                         AND state = 'running'";
            let kept = execute(
                connection,
                sql,
                params![
                    key.tenant.as_str(),
                    key.principal.as_str(),
                    key.key.0,
                    run.as_str(),
                    if sealed.is_some() { "ended" } else { "spent" },
                    sealed,
                    bytes,
                    millis(until),
                ],
            )?;
            if kept > 0 {
                make_room(connection, &key, bounds)?;
            }
            Ok(())
        })
        .await
    }

    async fn release(&self, key: &IdempotencyKey, run: &RunId) -> Result<(), StoreError> {
        let (key, run) = (key.clone(), run.clone());
        self.on_writer(move |connection| {
            let sql = "DELETE FROM once_calls WHERE tenant = ?1 AND principal = ?2 AND key = ?3 \
                         AND run_id = ?4 AND state = 'running'";
            execute(
                connection,
                sql,
                params![key.tenant.as_str(), key.principal.as_str(), key.key.0, run.as_str()],
            )?;
            Ok(())
        })
        .await
    }

    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError> {
        let now = millis(now);
        self.on_writer(move |connection| sweep(connection, now)).await
    }
}

fn stored_call(
    connection: &Connection,
    key: &IdempotencyKey,
) -> Result<Option<StoredCall>, Failure> {
    let sql = "SELECT id, state, instance, run_id, call_id, call, answer, until FROM once_calls \
               WHERE tenant = ?1 AND principal = ?2 AND key = ?3";
    let params = params![key.tenant.as_str(), key.principal.as_str(), key.key.0];
    first(connection, sql, params, |row| {
        let until = Timestamp::from_timestamp_millis(row.get(7)?);
        Ok::<_, Failure>(StoredCall {
            id: row.get(0)?,
            state: row.get(1)?,
            instance: row.get(2)?,
            run: row.get(3)?,
            call_id: row.get(4)?,
            call: row.get(5)?,
            answer: row.get(6)?,
            until: until.ok_or_else(|| Failure::corrupt("an idempotent call"))?,
        })
    })
}

fn put(
    connection: &Connection,
    claim: &IdempotencyClaim,
    call: &[u8],
    instance: &str,
) -> Result<(), Failure> {
    let sql = "INSERT INTO once_calls (tenant, principal, key, state, instance, run_id, call_id, \
             call, bytes, until) VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9)";
    execute(
        connection,
        sql,
        params![
            claim.key.tenant.as_str(),
            claim.key.principal.as_str(),
            claim.key.key.0,
            instance,
            claim.run.as_str(),
            claim.call_id.as_str(),
            call,
            i64::try_from(OVERHEAD).unwrap_or(i64::MAX),
            millis(claim.until),
        ],
    )?;
    Ok(())
}

fn remove(connection: &Connection, id: i64) -> Result<(), Failure> {
    let sql = "DELETE FROM once_calls WHERE id = ?1";
    execute(connection, sql, [id])?;
    Ok(())
}

fn sweep(connection: &Connection, now: i64) -> Result<usize, Failure> {
    let sql = "DELETE FROM once_calls WHERE id IN (SELECT id FROM once_calls \
             WHERE until <= ?1 AND state <> 'running' LIMIT ?2)";
    let swept = execute(connection, sql, params![now, SWEEP])?;
    Ok(swept)
}

/// Deletes answers until all bounds are met.
fn make_room(
    connection: &Connection,
    key: &IdempotencyKey,
    bounds: IdempotencyBounds,
) -> Result<(), Failure> {
    let holder = (key.tenant.as_str().to_owned(), key.principal.as_str().to_owned());
    for _ in 0..MOST_FORGOTTEN {
        let (calls, bytes) = held(connection, &holder)?;
        let over = calls > i64::from(bounds.calls.1) || bytes > i64::from(bounds.bytes.1);
        if !over || !forget_oldest(connection, &holder)? {
            break;
        }
    }
    for _ in 0..MOST_FORGOTTEN {
        let total = |name| meta(connection, name);
        let over = total("once_calls")? > i64::from(bounds.calls.0)
            || total("once_bytes")? > i64::from(bounds.bytes.0);
        if !over {
            break;
        }
        let most = connection
            .prepare_cached(
                "SELECT tenant, principal FROM once_holders ORDER BY bytes DESC LIMIT 1",
            )?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))
            .optional()?;
        match most {
            Some(most) if forget_oldest(connection, &most)? => {}
            Some(_) | None => break,
        }
    }
    Ok(())
}

fn held(
    connection: &Connection,
    (tenant, principal): &(String, String),
) -> Result<(i64, i64), Failure> {
    let sql = "SELECT calls, bytes FROM once_holders WHERE tenant = ?1 AND principal = ?2";
    let pair = |row: &Row<'_>| Ok::<(i64, i64), Failure>((row.get(0)?, row.get(1)?));
    let held = first(connection, sql, [tenant, principal], pair)?;
    Ok(held.unwrap_or_default())
}

fn meta(connection: &Connection, name: &str) -> Result<i64, Failure> {
    let value = connection
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))?;
    Ok(value)
}

/// Deletes the oldest answer of a caller; returns whether there was one.
fn forget_oldest(
    connection: &Connection,
    (tenant, principal): &(String, String),
) -> Result<bool, Failure> {
    let sql = "DELETE FROM once_calls WHERE id = (SELECT id FROM once_calls \
             INDEXED BY once_calls_by_age \
             WHERE tenant = ?1 AND principal = ?2 AND state <> 'running' ORDER BY id LIMIT 1)";
    let forgotten = execute(connection, sql, [tenant, principal])?;
    Ok(forgotten > 0)
}

/// Decides about up to `most` idempotent calls of the dead process `dead`. A call that did not run
/// frees its key; one that may have run becomes `lost`. Returns how many there were. Requires that
/// the calls of that process are closed in the record.
pub(super) fn settle(connection: &Connection, dead: &str, most: usize) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, tenant, run_id, call_id FROM once_calls \
         WHERE instance = ?1 AND state = 'running' LIMIT ?2",
    )?;
    let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
    let found = statement.query_map(params![dead, limit(most)], row)?;
    let found: Vec<(i64, String, String, String)> = found.collect::<Result<_, _>>()?;
    for (id, tenant, run, call) in &found {
        match may_have_run(connection, tenant, run, call)? {
            true => connection
                .prepare_cached("UPDATE once_calls SET state = 'lost' WHERE id = ?1")?
                .execute([id])?,
            false => {
                remove(connection, *id)?;
                1
            }
        };
    }
    Ok(found.len())
}

/// Whether the record shows that a call may have run. An open call runs or ran; one without events
/// did not start.
fn may_have_run(
    connection: &Connection,
    tenant: &str,
    run: &str,
    call: &str,
) -> Result<bool, Failure> {
    let open = connection
        .prepare_cached(
            "SELECT 1 FROM open_calls WHERE tenant = ?1 AND run_id = ?2 AND call_id = ?3",
        )?
        .exists([tenant, run, call])?;
    if open {
        return Ok(true);
    }
    let mut statement = connection.prepare_cached(
        "SELECT form, payload FROM events INDEXED BY events_by_run \
         WHERE run_id = ?1 AND tenant = ?2 AND type = ?3 ORDER BY position DESC",
    )?;
    let mut rows = statement.query(params![Id::new(run), tenant, TOOL_RETURNED])?;
    let mut forms = Forms::new(connection);
    while let Some(row) = rows.next()? {
        if let Some(ran) = idempotency::may_have_run(&forms.payload(row, 0)?, call)? {
            return Ok(ran);
        }
    }
    Ok(false)
}

fn millis(at: Timestamp) -> i64 {
    at.timestamp_millis()
}
