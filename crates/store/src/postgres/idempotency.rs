//! Idempotent calls and their answers.
//!
//! Invariants:
//! - data is stored only with a seal key, and the database never sees the plain text;
//! - changes lock the row of the caller first, so that one of several claims takes a key;
//! - calls and bytes are bounded, in total and per caller.

use async_trait::async_trait;
use deadpool_postgres::{GenericClient, Transaction};
use toolcrib_core::{
    clock::Timestamp,
    id::RunId,
    idempotency::{ClaimOutcome, IdempotencyClaim, IdempotencyKey, IdempotencyStore},
    store::StoreError,
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{Param, execute, first, one, rows, stored_time},
};
use crate::{
    IdempotencyBounds,
    rows::idempotency::{
        self, Decision, MOST_FORGOTTEN, OVERHEAD, SWEEP, StoredCall, decide, seal_answer, seal_call,
    },
};

/// Runs `sql`, which deletes calls, and takes them from the counts of their callers.
async fn delete(
    client: &impl GenericClient,
    condition: &str,
    params: &[Param<'_>],
) -> Result<u64, Failure> {
    let sql = format!(
        "WITH gone AS (DELETE FROM once_calls WHERE {condition} \
                       RETURNING tenant, principal, bytes), \
         sums AS (SELECT tenant, principal, count(*)::bigint AS calls, \
                  sum(bytes)::bigint AS bytes FROM gone GROUP BY tenant, principal), \
         counted AS (UPDATE once_holders h SET calls = h.calls - s.calls, \
                     bytes = h.bytes - s.bytes FROM sums s \
                     WHERE h.tenant = s.tenant AND h.principal = s.principal) \
         SELECT count(*) FROM gone"
    );
    let count: i64 = one(client, &sql, params).await?.try_get(0)?;
    super::row::whole(count)
}

#[async_trait]
impl IdempotencyStore for PostgresStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn claim(&self, claim: IdempotencyClaim) -> Result<ClaimOutcome, StoreError> {
        let keys = &self.options().call_keys;
        let call = seal_call(keys, &claim)?;
        let decision = within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            lock(&transaction, &claim.key).await?;
            if let Some(stored) = stored_call(&transaction, &claim.key).await? {
                match decide(keys, &claim, self.instance(), stored)? {
                    Decision::Remove(id) => {
                        delete(&transaction, "id = $1", &[&id]).await?;
                    }
                    decision => {
                        transaction.commit().await?;
                        return Ok(decision);
                    }
                }
            }
            put(&transaction, &claim, &call, self.instance()).await?;
            make_room(&transaction, &claim.key, self.options().idempotency).await?;
            transaction.commit().await?;
            Ok(Decision::Outcome(ClaimOutcome::Taken))
        });
        match decision.await? {
            Decision::Outcome(outcome) => Ok(outcome),
            Decision::Answer(answer) => Ok(answer.open(keys, &claim.key)),
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
        let bounds = self.options().idempotency;
        let (sealed, bytes) = seal_answer(&self.options().call_keys, key, run, body, bounds)?;
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            lock(&transaction, key).await?;
            let sql = "WITH old AS (SELECT id, bytes FROM once_calls WHERE tenant = $1 \
                        AND principal = $2 AND key = $3 AND run_id = $4 AND state = 'running') \
                       UPDATE once_calls c SET state = $5, answer = $6, bytes = $7, until = $8 \
                       FROM old WHERE c.id = old.id RETURNING old.bytes";
            let (digest, until) = (key.key.0.as_slice(), stored_time(until));
            let state = if sealed.is_some() { "ended" } else { "spent" };
            let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
            let params: [Param<'_>; 8] =
                [&tenant, &principal, &digest, &run.as_str(), &state, &sealed, &bytes, &until];
            if let Some(row) = first(&transaction, sql, &params).await? {
                count(&transaction, key, 0, bytes - row.try_get::<_, i64>(0)?).await?;
                make_room(&transaction, key, bounds).await?;
            }
            Ok(transaction.commit().await?)
        })
        .await
    }

    async fn release(&self, key: &IdempotencyKey, run: &RunId) -> Result<(), StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            lock(&transaction, key).await?;
            let condition = "tenant = $1 AND principal = $2 AND key = $3 AND run_id = $4 \
                             AND state = 'running'";
            let digest = key.key.0.as_slice();
            let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
            delete(&transaction, condition, &[&tenant, &principal, &digest, &run.as_str()]).await?;
            Ok(transaction.commit().await?)
        })
        .await
    }

    async fn sweep(&self, now: Timestamp) -> Result<usize, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let now = stored_time(now);
            // The callers are locked before their calls, as everywhere.
            let sql = "SELECT tenant, principal FROM once_holders h WHERE EXISTS (SELECT 1 FROM once_calls c \
                        WHERE c.tenant = h.tenant AND c.principal = h.principal \
                        AND c.until <= $1 AND c.state <> 'running') \
                       ORDER BY tenant, principal LIMIT $2 FOR UPDATE OF h SKIP LOCKED";
            let mut swept = 0;
            for holder in rows(&transaction, sql, &[&now, &SWEEP]).await? {
                let (tenant, principal): (&str, &str) = (holder.try_get(0)?, holder.try_get(1)?);
                let condition = "id IN (SELECT id FROM once_calls WHERE tenant = $1 \
                                 AND principal = $2 AND until <= $3 AND state <> 'running' \
                                 ORDER BY id LIMIT $4)";
                let left = SWEEP - i64::try_from(swept).unwrap_or(SWEEP);
                let params: [Param<'_>; 4] = [&tenant, &principal, &now, &left];
                swept += delete(&transaction, condition, &params).await?;
                let sql = "DELETE FROM once_holders \
                           WHERE tenant = $1 AND principal = $2 AND calls <= 0";
                execute(&transaction, sql, &[&tenant, &principal]).await?;
            }
            transaction.commit().await?;
            Ok(usize::try_from(swept).unwrap_or(usize::MAX))
        })
        .await
    }
}

/// Locks the row of a caller.
async fn lock(transaction: &Transaction<'_>, key: &IdempotencyKey) -> Result<(), Failure> {
    let sql = "INSERT INTO once_holders AS h (tenant, principal, calls, bytes) \
               VALUES ($1, $2, 0, 0) \
               ON CONFLICT (tenant, principal) DO UPDATE SET calls = h.calls";
    execute(transaction, sql, &[&key.tenant.as_str(), &key.principal.as_str()]).await?;
    Ok(())
}

async fn count(
    transaction: &Transaction<'_>,
    key: &IdempotencyKey,
    calls: i64,
    bytes: i64,
) -> Result<(), Failure> {
    let sql = "UPDATE once_holders SET calls = calls + $3, bytes = bytes + $4 \
               WHERE tenant = $1 AND principal = $2";
    let params: [Param<'_>; 4] = [&key.tenant.as_str(), &key.principal.as_str(), &calls, &bytes];
    execute(transaction, sql, &params).await?;
    Ok(())
}

async fn stored_call(
    transaction: &Transaction<'_>,
    key: &IdempotencyKey,
) -> Result<Option<StoredCall>, Failure> {
    let sql = "SELECT id, state, instance, run_id, call_id, call, answer, until FROM once_calls \
               WHERE tenant = $1 AND principal = $2 AND key = $3";
    let digest = key.key.0.as_slice();
    let params: [Param<'_>; 3] = [&key.tenant.as_str(), &key.principal.as_str(), &digest];
    let Some(row) = first(transaction, sql, &params).await? else { return Ok(None) };
    Ok(Some(StoredCall {
        id: row.try_get(0)?,
        state: row.try_get(1)?,
        instance: row.try_get(2)?,
        run: row.try_get(3)?,
        call_id: row.try_get(4)?,
        call: row.try_get(5)?,
        answer: row.try_get(6)?,
        until: row.try_get(7)?,
    }))
}

async fn put(
    transaction: &Transaction<'_>,
    claim: &IdempotencyClaim,
    call: &[u8],
    instance: &str,
) -> Result<(), Failure> {
    let sql = "INSERT INTO once_calls (tenant, principal, key, state, instance, run_id, call_id, \
               call, bytes, until) VALUES ($1, $2, $3, 'running', $4, $5, $6, $7, $8, $9)";
    let key = &claim.key;
    let bytes = i64::try_from(OVERHEAD).unwrap_or(i64::MAX);
    let digest = key.key.0.as_slice();
    let params: [Param<'_>; 9] = [
        &key.tenant.as_str(),
        &key.principal.as_str(),
        &digest,
        &instance,
        &claim.run.as_str(),
        &claim.call_id.as_str(),
        &call,
        &bytes,
        &stored_time(claim.until),
    ];
    execute(transaction, sql, &params).await?;
    count(transaction, key, 1, bytes).await
}

/// Deletes answers until all bounds are met.
async fn make_room(
    transaction: &Transaction<'_>,
    key: &IdempotencyKey,
    bounds: IdempotencyBounds,
) -> Result<(), Failure> {
    let (tenant, principal) = (key.tenant.as_str(), key.principal.as_str());
    for _ in 0..MOST_FORGOTTEN {
        let sql = "SELECT calls > $3 OR bytes > $4 FROM once_holders \
                   WHERE tenant = $1 AND principal = $2";
        let (calls, bytes) = (i64::from(bounds.calls.1), i64::from(bounds.bytes.1));
        let params: [Param<'_>; 4] = [&tenant, &principal, &calls, &bytes];
        let over: bool = one(transaction, sql, &params).await?.try_get(0)?;
        if !over || !forget_oldest(transaction, tenant, principal).await? {
            break;
        }
    }
    for _ in 0..MOST_FORGOTTEN {
        let sql = "SELECT sum(calls) > $1::bigint OR sum(bytes) > $2::bigint FROM once_holders";
        let params: [Param<'_>; 2] = [&i64::from(bounds.calls.0), &i64::from(bounds.bytes.0)];
        if one(transaction, sql, &params).await?.try_get::<_, Option<bool>>(0)? != Some(true) {
            break;
        }
        // A caller whose row is locked is busy, and waiting for it could end in a deadlock.
        let sql = "SELECT tenant, principal FROM once_holders ORDER BY bytes DESC LIMIT 1 \
                   FOR UPDATE SKIP LOCKED";
        let Some(most) = first(transaction, sql, &[]).await? else { break };
        if !forget_oldest(transaction, most.try_get(0)?, most.try_get(1)?).await? {
            break;
        }
    }
    Ok(())
}

/// Deletes the oldest answer of a caller; returns whether there was one.
async fn forget_oldest(
    transaction: &Transaction<'_>,
    tenant: &str,
    principal: &str,
) -> Result<bool, Failure> {
    let condition = "id = (SELECT id FROM once_calls WHERE tenant = $1 AND principal = $2 \
                     AND state <> 'running' ORDER BY id LIMIT 1)";
    Ok(delete(transaction, condition, &[&tenant, &principal]).await? > 0)
}

/// Decides about the idempotent calls of the dead process `dead`. A call that did not run frees its
/// key; one that may have run becomes `lost`. Requires that its calls are closed in the record.
pub(super) async fn settle(transaction: &Transaction<'_>, dead: &str) -> Result<(), Failure> {
    // The callers are locked before their calls, as everywhere.
    let sql = "SELECT 1 FROM once_holders h WHERE EXISTS (SELECT 1 FROM once_calls c \
                WHERE c.tenant = h.tenant AND c.principal = h.principal \
                AND c.instance = $1 AND c.state = 'running') \
               ORDER BY tenant, principal FOR UPDATE OF h";
    rows(transaction, sql, &[&dead]).await?;
    let sql = "SELECT id, tenant, run_id, call_id FROM once_calls \
               WHERE instance = $1 AND state = 'running' ORDER BY tenant, principal, id";
    for row in rows(transaction, sql, &[&dead]).await? {
        let id: i64 = row.try_get(0)?;
        let name = [row.try_get(1)?, row.try_get(2)?, row.try_get(3)?];
        match may_have_run(transaction, name).await? {
            true => {
                let sql = "UPDATE once_calls SET state = 'lost' WHERE id = $1";
                execute(transaction, sql, &[&id]).await?;
            }
            false => {
                delete(transaction, "id = $1", &[&id]).await?;
            }
        }
    }
    Ok(())
}

/// Whether the record shows that a call may have run. An open call runs or ran; one without events
/// did not start.
async fn may_have_run(
    transaction: &Transaction<'_>,
    [tenant, run, call]: [&str; 3],
) -> Result<bool, Failure> {
    let sql = "SELECT 1 FROM open_calls WHERE tenant = $1 AND run_id = $2 AND call_id = $3";
    if first(transaction, sql, &[&tenant, &run, &call]).await?.is_some() {
        return Ok(true);
    }
    let sql = "SELECT payload FROM events WHERE run_id = $1 AND tenant = $2 \
               AND type = 'agent.toolReturned' ORDER BY position DESC";
    for row in rows(transaction, sql, &[&run, &tenant]).await? {
        if let Some(ran) = idempotency::may_have_run(row.try_get(0)?, call)? {
            return Ok(ran);
        }
    }
    Ok(false)
}
