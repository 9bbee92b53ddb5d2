//! Calls under keys, and their answers, on SQLite.
//!
//! Invariants:
//! - nothing is kept without a key to seal it with, and SQLite never sees what is sealed;
//! - a call that a living process runs is never taken from it;
//! - calls and bytes are bounded, in all and for each caller. A caller over its bounds loses its own
//!   oldest answers; when all together are over theirs, whoever holds most loses its oldest.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};
use toolcrib_core::{
    clock::Timestamp,
    id::{PrincipalId, RunId, TenantId},
    idempotency::{Claimed, IdempotencyStore, KeptAnswer, OnceClaim, OnceKey},
    store::StoreError,
};

use super::{SqliteStore, failure::Failure, log::parse};
use crate::seal::SealKeys;

/// Calls and bytes, for all and for one caller.
#[derive(Debug, Clone, Copy)]
pub struct OnceBounds {
    /// Calls, in all and of one caller.
    pub calls: (u32, u32),
    /// Bytes, in all and of one caller.
    pub bytes: (u32, u32),
}

impl Default for OnceBounds {
    fn default() -> Self {
        Self { calls: (262_144, 16_384), bytes: (512 << 20, 32 << 20) }
    }
}

/// Bytes that a call takes beside its answer, roughly.
const OVERHEAD: usize = 512;
/// Bytes of the largest answer that is kept; what is in memory is bounded by the same.
const LARGEST: usize = 8 << 20;
/// Calls that one step forgets because of their age.
const SWEEP: u32 = 256;
/// Answers that one step forgets because others need room; more wait for the next step.
const MOST_FORGOTTEN: usize = 256;

/// The calls under keys of a [`SqliteStore`], with the keys that they are sealed with.
#[derive(Debug, Clone)]
pub struct SqliteOnce {
    store: SqliteStore,
    keys: Arc<SealKeys>,
    bounds: OnceBounds,
}

/// What stands under a key, before it is opened.
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

/// What a claim found.
enum Seen {
    Nothing,
    Told(Claimed),
    /// The answer of a call of that run, sealed.
    Answer(String, Vec<u8>, i64),
}

impl SqliteOnce {
    pub(super) fn new(store: SqliteStore, keys: SealKeys) -> Self {
        Self { store, keys: Arc::new(keys), bounds: OnceBounds::default() }
    }

    /// The same with other bounds.
    #[must_use]
    pub fn bounded(self, bounds: OnceBounds) -> Self {
        Self { bounds, ..self }
    }
}

/// What `part` of a call is sealed together with, so that it opens nowhere else.
fn seal(keys: &SealKeys, key: &OnceKey, part: &str, text: &str) -> Result<Vec<u8>, StoreError> {
    let name = key.key.to_string();
    keys.seal_text(&place(&key.tenant, &key.principal, &name, part), text)
}

fn open(keys: &SealKeys, key: &OnceKey, part: &str, sealed: &[u8]) -> Option<String> {
    let name = key.key.to_string();
    keys.open_text(&place(&key.tenant, &key.principal, &name, part), sealed)
}

fn place<'a>(
    tenant: &'a TenantId,
    principal: &'a PrincipalId,
    key: &'a str,
    part: &'a str,
) -> [&'a str; 5] {
    ["toolcrib once 1", tenant.as_str(), principal.as_str(), key, part]
}

/// What an answer is sealed together with: it is that of one run alone.
fn answer_part(run: &str) -> String {
    format!("answer of {run}")
}

#[async_trait]
impl IdempotencyStore for SqliteOnce {
    fn seals(&self) -> bool {
        self.keys.can_seal()
    }

    async fn claim(&self, claim: OnceClaim) -> Result<Claimed, StoreError> {
        if !self.keys.can_seal() {
            return Err(no_key());
        }
        let call = seal(&self.keys, &claim.key, "call", &claim.call.to_string())?;
        let key = claim.key.clone();
        let instance = Arc::clone(&self.store.inner.instance);
        let (keys, bounds) = (Arc::clone(&self.keys), self.bounds);
        let seen = self.store.inner.writer.write(move |connection| {
            let seen = look(connection, &keys, &claim, &instance)?;
            if matches!(seen, Seen::Nothing) {
                sweep(connection, millis(claim.now))?;
                put(connection, &claim, &call, &instance)?;
                make_room(connection, &claim.key, bounds)?;
            }
            Ok(seen)
        });
        Ok(match seen.await? {
            Seen::Nothing => Claimed::Taken,
            Seen::Told(claimed) => claimed,
            Seen::Answer(run, sealed, until) => {
                let body = open(&self.keys, &key, &answer_part(&run), &sealed);
                let until = Timestamp::from_timestamp_millis(until);
                match (body, until) {
                    (Some(body), Some(until)) => {
                        let run = parse(run, || Failure::corrupt("a run under a key"));
                        let run = run.map_err(|failure| failure.at(self.store.path()))?;
                        Claimed::Ended(KeptAnswer { run, body, until })
                    }
                    _ => Claimed::Spent,
                }
            }
        })
    }

    async fn keep(
        &self,
        key: &OnceKey,
        run: &RunId,
        body: Option<String>,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        let largest = usize::try_from(self.bounds.bytes.1).unwrap_or(usize::MAX).min(LARGEST);
        let body = body.filter(|body| OVERHEAD + body.len() <= largest);
        let sealed = match body {
            Some(body) => Some(seal(&self.keys, key, &answer_part(run.as_str()), &body)?),
            None => None,
        };
        let (key, run, bounds) = (key.clone(), run.clone(), self.bounds);
        self.store
            .inner
            .writer
            .write(move |connection| {
                let bytes = OVERHEAD + sealed.as_ref().map_or(0, Vec::len);
                let kept = connection
                    .prepare_cached(
                        "UPDATE once_calls SET state = ?5, answer = ?6, bytes = ?7, until = ?8 \
                         WHERE tenant = ?1 AND principal = ?2 AND key = ?3 AND run_id = ?4 \
                         AND state = 'running'",
                    )?
                    .execute(params![
                        key.tenant.as_str(),
                        key.principal.as_str(),
                        key.key.0,
                        run.as_str(),
                        if sealed.is_some() { "ended" } else { "spent" },
                        sealed,
                        i64::try_from(bytes).unwrap_or(i64::MAX),
                        millis(until),
                    ])?;
                if kept > 0 {
                    make_room(connection, &key, bounds)?;
                }
                Ok(())
            })
            .await
    }

    async fn release(&self, key: &OnceKey, run: &RunId) -> Result<(), StoreError> {
        let (key, run) = (key.clone(), run.clone());
        self.store
            .inner
            .writer
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "DELETE FROM once_calls WHERE tenant = ?1 AND principal = ?2 AND key = ?3 \
                         AND run_id = ?4 AND state = 'running'",
                    )?
                    .execute(params![
                        key.tenant.as_str(),
                        key.principal.as_str(),
                        key.key.0,
                        run.as_str()
                    ])?;
                Ok(())
            })
            .await
    }

    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError> {
        let now = millis(now);
        self.store.inner.writer.write(move |connection| sweep(connection, now)).await
    }
}

/// What stands under the key of `claim`, as far as it stands in its way. What does not is removed.
fn look(
    connection: &Connection,
    keys: &SealKeys,
    claim: &OnceClaim,
    own: &str,
) -> Result<Seen, Failure> {
    let Some(standing) = standing(connection, &claim.key)? else { return Ok(Seen::Nothing) };
    let running = standing.state == "running";
    if !running && standing.until <= millis(claim.now) {
        remove(connection, standing.id)?;
        return Ok(Seen::Nothing);
    }
    // What does not open cannot be compared, and is nobody's answer any more.
    let Some(call) = open(keys, &claim.key, "call", &standing.call) else {
        return Ok(Seen::Told(Claimed::Spent));
    };
    if call != claim.call.to_string() {
        return Ok(Seen::Told(Claimed::OtherCall));
    }
    Ok(match standing.state.as_str() {
        // This process knows of the calls that it runs; one of that kind did not get so far as to
        // free its key.
        "running" if standing.instance != own => Seen::Told(Claimed::Running),
        "running" | "lost" if claim.repeatable => {
            remove(connection, standing.id)?;
            Seen::Nothing
        }
        "running" | "lost" => Seen::Told(Claimed::Lost {
            run: parse(standing.run, unreadable)?,
            call_id: parse(standing.call_id, unreadable)?,
        }),
        "ended" => match standing.answer {
            Some(answer) => Seen::Answer(standing.run, answer, standing.until),
            None => Seen::Told(Claimed::Spent),
        },
        _ => Seen::Told(Claimed::Spent),
    })
}

fn standing(connection: &Connection, key: &OnceKey) -> Result<Option<StoredCall>, Failure> {
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
    claim: &OnceClaim,
    call: &[u8],
    instance: &str,
) -> Result<(), Failure> {
    connection
        .prepare_cached(
            "INSERT INTO once_calls (tenant, principal, key, state, instance, run_id, call_id, \
             call, bytes, until) VALUES (?1, ?2, ?3, 'running', ?4, ?5, ?6, ?7, ?8, ?9)",
        )?
        .execute(params![
            claim.key.tenant.as_str(),
            claim.key.principal.as_str(),
            claim.key.key.0,
            instance,
            claim.run.as_str(),
            claim.call_id.as_str(),
            call,
            i64::try_from(OVERHEAD).unwrap_or(i64::MAX),
            millis(claim.until),
        ])?;
    Ok(())
}

fn remove(connection: &Connection, id: i64) -> Result<(), Failure> {
    connection.prepare_cached("DELETE FROM once_calls WHERE id = ?1")?.execute([id])?;
    Ok(())
}

fn sweep(connection: &Connection, now: i64) -> Result<usize, Failure> {
    let swept = connection
        .prepare_cached(
            "DELETE FROM once_calls WHERE id IN (SELECT id FROM once_calls \
             WHERE until <= ?1 AND state <> 'running' LIMIT ?2)",
        )?
        .execute(params![now, SWEEP])?;
    Ok(swept)
}

/// Forgets answers until all bounds hold.
fn make_room(connection: &Connection, key: &OnceKey, bounds: OnceBounds) -> Result<(), Failure> {
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
    let held = connection
        .prepare_cached(
            "SELECT calls, bytes FROM once_holders WHERE tenant = ?1 AND principal = ?2",
        )?
        .query_row([tenant, principal], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()?;
    Ok(held.unwrap_or_default())
}

fn meta(connection: &Connection, name: &str) -> Result<i64, Failure> {
    let value = connection
        .prepare_cached("SELECT value FROM meta WHERE name = ?1")?
        .query_row([name], |row| row.get(0))?;
    Ok(value)
}

/// Forgets the oldest answer of a caller; whether there was one.
fn forget_oldest(
    connection: &Connection,
    (tenant, principal): &(String, String),
) -> Result<bool, Failure> {
    let forgotten = connection
        .prepare_cached(
            "DELETE FROM once_calls WHERE id = (SELECT id FROM once_calls \
             INDEXED BY once_calls_by_age \
             WHERE tenant = ?1 AND principal = ?2 AND state <> 'running' ORDER BY id LIMIT 1)",
        )?
        .execute([tenant, principal])?;
    Ok(forgotten > 0)
}

/// Decides about up to `most` calls under keys that the dead process `dead` was running: what did not
/// run frees its key; of what may have run, nobody knows the outcome. How many there were. Comes after
/// the calls of that process have been closed in the record.
pub(super) fn settle(connection: &Connection, dead: &str, most: usize) -> Result<usize, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT id, tenant, run_id, call_id FROM once_calls \
         WHERE instance = ?1 AND state = 'running' LIMIT ?2",
    )?;
    let mut rows = statement.query(params![dead, i64::try_from(most).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let text = |column: usize| row.get::<_, String>(column);
        found.push((row.get::<_, i64>(0)?, text(1)?, text(2)?, text(3)?));
    }
    drop(rows);
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

/// What the record says of a call: one that is open runs or ran, one that has no event did not start,
/// and one that has returned ran if its time was taken or nobody saw its end.
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
        "SELECT payload FROM events INDEXED BY events_by_run \
         WHERE run_id = ?1 AND tenant = ?2 AND type = 'agent.toolReturned' \
         ORDER BY sequence DESC",
    )?;
    let mut rows = statement.query([run, tenant])?;
    while let Some(row) = rows.next()? {
        let payload: String = row.get(0)?;
        let payload: serde_json::Value =
            serde_json::from_str(&payload).map_err(|_| Failure::corrupt("an event"))?;
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
    Failure::corrupt("a call under a key")
}

fn no_key() -> StoreError {
    StoreError::Unavailable("answers are kept only where there is a seal key".to_owned())
}
