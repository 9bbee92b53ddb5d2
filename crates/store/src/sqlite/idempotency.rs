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
    idempotency::{AnswerRecord, ClaimOutcome, IdempotencyClaim, IdempotencyKey, IdempotencyStore},
    store::StoreError,
};

use super::{
    compact::{Forms, Id, TOOL_RETURNED},
    failure::Failure,
    handle::SqliteStore,
    row::{execute, first, limit, parse},
};
use crate::{
    IdempotencyBounds,
    seal::SealKeys,
    seal_places::{answer_part, open_idempotent, seal_idempotent},
};

/// The approximate bytes of a call without its answer.
const OVERHEAD: usize = 512;
/// The bytes of the largest stored answer; also bounds the memory per answer.
const LARGEST: usize = 8 << 20;
/// The most expired calls that one step deletes.
const SWEEP: u32 = 256;
/// The most answers that one step deletes to make room; more wait for the next step.
const MOST_FORGOTTEN: usize = 256;

/// The call under a key, still sealed.
struct StoredCall {
    id: i64,
    state: String,
    instance: String,
    run: String,
    call_id: String,
    call: Vec<u8>,
    answer: Option<Vec<u8>>,
    until: i64,
}

/// The result of looking up a claim.
enum Seen {
    Nothing,
    Decided(ClaimOutcome),
    /// The sealed answer of a call, with its run and expiry.
    Answer(String, Vec<u8>, i64),
}

#[async_trait]
impl IdempotencyStore for SqliteStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn claim(&self, claim: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        if !self.options().call_keys.can_seal() {
            return Err(no_key());
        }
        let call = seal_idempotent(
            &self.options().call_keys,
            &claim.key,
            "call",
            &claim.call.to_string(),
        )?;
        let key = claim.key.clone();
        let instance = self.instance();
        let (keys, bounds) = (self.options().call_keys.clone(), self.options().idempotency);
        let seen = self.on_writer(move |connection| {
            let seen = look(connection, &keys, &claim, &instance)?;
            if matches!(seen, Seen::Nothing) {
                sweep(connection, millis(claim.now))?;
                put(connection, &claim, &call, &instance)?;
                make_room(connection, &claim.key, bounds)?;
            }
            Ok(seen)
        });
        Ok(match seen.await? {
            Seen::Nothing => ClaimOutcome::Taken,
            Seen::Decided(claimed) => claimed,
            Seen::Answer(run, sealed, until) => {
                let body =
                    open_idempotent(&self.options().call_keys, &key, &answer_part(&run), &sealed);
                let until = Timestamp::from_timestamp_millis(until);
                match (body, until) {
                    (Some(body), Some(until)) => {
                        let run = parse(run, || Failure::corrupt("the run of an idempotent call"));
                        let run = run.map_err(|failure| failure.at(self.path()))?;
                        ClaimOutcome::Ended(AnswerRecord { run, body, until })
                    }
                    _ => ClaimOutcome::Spent,
                }
            }
        })
    }

    async fn keep(
        &self,
        key: &IdempotencyKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let largest =
            usize::try_from(self.options().idempotency.bytes.1).unwrap_or(usize::MAX).min(LARGEST);
        let body = body.filter(|body| OVERHEAD + body.len() <= largest);
        let sealed = match body {
            Some(body) => Some(seal_idempotent(
                &self.options().call_keys,
                key,
                &answer_part(run.as_str()),
                &body,
            )?),
            None => None,
        };
        let (key, run, bounds) = (key.clone(), run.clone(), self.options().idempotency);
        self.on_writer(move |connection| {
            let bytes = OVERHEAD + sealed.as_ref().map_or(0, Vec::len);
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
                    i64::try_from(bytes).unwrap_or(i64::MAX),
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

/// Looks up the call under the key of `claim`. Removes one that does not conflict with the claim.
fn look(
    connection: &Connection,
    keys: &SealKeys,
    claim: &IdempotencyClaim,
    own: &str,
) -> Result<Seen, Failure> {
    let Some(stored) = stored_call(connection, &claim.key)? else { return Ok(Seen::Nothing) };
    let running = stored.state == "running";
    if !running && stored.until <= millis(claim.now) {
        remove(connection, stored.id)?;
        return Ok(Seen::Nothing);
    }
    // A call that cannot be opened cannot be compared, and its answer is lost.
    let Some(call) = open_idempotent(keys, &claim.key, "call", &stored.call) else {
        return Ok(Seen::Decided(ClaimOutcome::Spent));
    };
    if call != claim.call.to_string() {
        return Ok(Seen::Decided(ClaimOutcome::OtherCall));
    }
    Ok(match stored.state.as_str() {
        // This process knows the calls that it runs, so a listed call stopped before it freed its
        // key.
        "running" if stored.instance != own => Seen::Decided(ClaimOutcome::Running),
        "running" | "lost" if claim.repeatable => {
            remove(connection, stored.id)?;
            Seen::Nothing
        }
        "running" | "lost" => Seen::Decided(ClaimOutcome::Lost {
            run: parse(stored.run, unreadable)?,
            call_id: parse(stored.call_id, unreadable)?,
        }),
        "ended" => match stored.answer {
            Some(answer) => Seen::Answer(stored.run, answer, stored.until),
            None => Seen::Decided(ClaimOutcome::Spent),
        },
        _ => Seen::Decided(ClaimOutcome::Spent),
    })
}

fn stored_call(
    connection: &Connection,
    key: &IdempotencyKey,
) -> Result<Option<StoredCall>, Failure> {
    let found = connection
        .prepare_cached(
            "SELECT id, state, instance, run_id, call_id, call, answer, until FROM once_calls \
             WHERE tenant = ?1 AND principal = ?2 AND key = ?3",
        )?
        .query_row(params![key.tenant.as_str(), key.principal.as_str(), key.key.0], |row| {
            Ok(StoredCall {
                id: row.get(0)?,
                state: row.get(1)?,
                instance: row.get(2)?,
                run: row.get(3)?,
                call_id: row.get(4)?,
                call: row.get(5)?,
                answer: row.get(6)?,
                until: row.get(7)?,
            })
        })
        .optional()?;
    Ok(found)
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
/// did not start. A call that has returned ran if its duration was recorded or it was interrupted.
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
        let payload: serde_json::Value = serde_json::from_str(&forms.payload(row, 0)?)
            .map_err(|_| Failure::corrupt("an event"))?;
        if payload.get("callId").and_then(|id| id.as_str()) != Some(call) {
            continue;
        }
        let ran = payload.get("durationMs").is_some();
        let code = payload.pointer("/error/code").and_then(|code| code.as_str());
        return Ok(ran || code == Some("interrupted"));
    }
    Ok(false)
}

fn millis(at: Timestamp) -> i64 {
    at.timestamp_millis()
}

fn unreadable() -> Failure {
    Failure::corrupt("an idempotent call")
}

fn no_key() -> StoreError {
    StoreError::Unavailable("idempotent answers require `[store] seal_key`".to_owned())
}
