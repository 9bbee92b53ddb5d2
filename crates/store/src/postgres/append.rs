//! Appends events: positions, sequences and the chain are assigned inside the transaction, under
//! the locks of the tenants.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use deadpool_postgres::Transaction;
use toolcrib_core::{
    canonical::Digest,
    clock::Timestamp,
    record::{HashedParts, genesis},
};

use super::{
    entry::Record,
    failure::Failure,
    instance::require,
    open_calls,
    partitions::MONTH,
    row::{Param, bound, digest, execute, rows, stored_time, whole},
};

/// Appends events in this order, records which calls they open and close, and returns their
/// positions. Locks the tenants, and at last the position of the whole log: the caller commits
/// next.
///
/// # Errors
/// Fails with a conflict when an id exists. Requires that the transaction is then rolled back.
pub(super) async fn append(
    transaction: &Transaction<'_>,
    records: &[&Record],
    instance: &str,
) -> Result<Vec<u64>, Failure> {
    // Sent together, in one round trip.
    let (_, mut heads) =
        tokio::try_join!(require(transaction, instance), heads(transaction, records))?;
    let mut sequences = sequences(transaction, records).await?;
    let mut places = Vec::with_capacity(records.len());
    let mut hashes = Vec::with_capacity(records.len());
    let mut counts = Vec::with_capacity(records.len());
    for record in records {
        let missing = || Failure::corrupt("a tenant has no row");
        let (position, hash) = heads.get_mut(record.tenant()).ok_or_else(missing)?;
        let sequence = sequences.entry((record.tenant(), record.run())).or_default();
        *position += 1;
        *hash = HashedParts {
            tenant: record.tenant(),
            tenant_position: *position,
            event_id: record.event().event_id.as_str(),
            run_id: record.run(),
            sequence: *sequence,
            kind: record.body().kind(),
            timestamp: &record.timestamp,
            causation_id: record.cause(),
            payload: &record.payload,
        }
        .hash_after(hash);
        places.push(bound(*position));
        hashes.push(hash.0.to_vec());
        counts.push(bound(*sequence));
        *sequence += 1;
    }
    open_calls::apply(transaction, records, &places, instance).await?;
    let tenants: Vec<&str> = heads.keys().copied().collect();
    let last: Vec<i64> = heads.values().map(|(position, _)| bound(*position)).collect();
    let ends: Vec<Vec<u8>> = heads.values().map(|(_, hash)| hash.0.to_vec()).collect();
    let sql = "UPDATE tenants t SET position = n.position, hash = n.hash \
               FROM unnest($1::text[], $2::bigint[], $3::bytea[]) AS n (tenant, position, hash) \
               WHERE t.tenant = n.tenant";
    execute(transaction, sql, &[&tenants, &last, &ends]).await?;
    insert(transaction, records, [&places, &counts], &hashes).await
}

/// Locks the tenants of `records`, in sorted order, and reads the last position and hash of their
/// logs.
async fn heads<'a>(
    transaction: &Transaction<'_>,
    records: &[&'a Record],
) -> Result<BTreeMap<&'a str, (u64, Digest)>, Failure> {
    let tenants: BTreeSet<&str> = records.iter().map(|record| record.tenant()).collect();
    let names: Vec<&str> = tenants.iter().copied().collect();
    let lock = "SELECT tenant, position, hash FROM tenants WHERE tenant = ANY($1) \
                ORDER BY tenant FOR UPDATE";
    let mut found = rows(transaction, lock, &[&names]).await?;
    if found.len() < names.len() {
        let sql = "INSERT INTO tenants (tenant, position, hash) \
                   SELECT n, 0, $2 FROM unnest($1::text[]) AS n ORDER BY n COLLATE \"C\" \
                   ON CONFLICT (tenant) DO NOTHING";
        execute(transaction, sql, &[&names, &genesis().0.as_slice()]).await?;
        found = rows(transaction, lock, &[&names]).await?;
    }
    let mut heads = BTreeMap::new();
    for row in found {
        let name: &str = row.try_get(0)?;
        let hash = digest(&row, 2)?.ok_or_else(|| Failure::corrupt("the hash of an event"))?;
        if let Some(tenant) = tenants.get(name) {
            heads.insert(*tenant, (whole(row.try_get(1)?)?, hash));
        }
    }
    Ok(heads)
}

/// Reads the next sequence of each run with events.
async fn sequences<'a>(
    transaction: &Transaction<'_>,
    records: &[&'a Record],
) -> Result<HashMap<(&'a str, &'a str), u64>, Failure> {
    let keys: BTreeSet<_> = records.iter().map(|record| (record.tenant(), record.run())).collect();
    let keys: Vec<_> = keys.into_iter().collect();
    let (tenants, runs): (Vec<&str>, Vec<&str>) = keys.iter().copied().unzip();
    let sql = "SELECT k.number, (SELECT e.sequence + 1 FROM events e \
                WHERE e.run_id = k.run AND e.tenant = k.tenant ORDER BY e.position DESC LIMIT 1) \
               FROM unnest($1::text[], $2::text[]) WITH ORDINALITY AS k (tenant, run, number)";
    let mut sequences = HashMap::new();
    for row in rows(transaction, sql, &[&tenants, &runs]).await? {
        let number = usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0);
        let next: Option<i64> = row.try_get(1)?;
        if let Some(key) = keys.get(number.wrapping_sub(1)) {
            sequences.insert(*key, whole(next.unwrap_or(0))?);
        }
    }
    Ok(sequences)
}

/// Takes the positions and inserts the rows, in one statement.
async fn insert(
    transaction: &Transaction<'_>,
    records: &[&Record],
    [places, counts]: [&Vec<i64>; 2],
    hashes: &Vec<Vec<u8>>,
) -> Result<Vec<u64>, Failure> {
    let ids: Vec<&str> = records.iter().map(|record| record.event().event_id.as_str()).collect();
    let tenants: Vec<&str> = records.iter().map(|record| record.tenant()).collect();
    let runs: Vec<&str> = records.iter().map(|record| record.run()).collect();
    let kinds: Vec<&str> = records.iter().map(|record| record.body().kind()).collect();
    let times: Vec<Timestamp> =
        records.iter().map(|record| stored_time(record.event().timestamp)).collect();
    let causes: Vec<Option<&str>> = records.iter().map(|record| record.cause()).collect();
    let payloads: Vec<&str> = records.iter().map(|record| record.payload.as_str()).collect();
    let count = bound(records.len() as u64);
    let sql = format!(
        "WITH counter AS (UPDATE log_position SET value = value + $1 WHERE id = 1 \
                          RETURNING value - $1 AS base, {MONTH}::date AS month) \
         INSERT INTO events (month, position, event_id, tenant, tenant_position, run_id, \
                             sequence, type, timestamp, causation_id, payload, hash) \
         SELECT counter.month, counter.base + e.ordinal, e.event_id, e.tenant, \
                e.tenant_position, e.run_id, e.sequence, e.type, e.timestamp, \
                e.causation_id, e.payload, e.hash \
         FROM counter, unnest($2::text[], $3::text[], $4::bigint[], $5::text[], $6::bigint[], \
              $7::text[], $8::timestamptz[], $9::text[], $10::text[], $11::bytea[]) \
              WITH ORDINALITY AS e (event_id, tenant, tenant_position, run_id, sequence, \
              type, timestamp, causation_id, payload, hash, ordinal) RETURNING position"
    );
    let params: [Param<'_>; 11] =
        [&count, &ids, &tenants, places, &runs, counts, &kinds, &times, &causes, &payloads, hashes];
    let mut positions = Vec::with_capacity(records.len());
    for row in rows(transaction, &sql, &params).await? {
        positions.push(whole(row.try_get(0)?)?);
    }
    positions.sort_unstable();
    if positions.len() != records.len() {
        return Err(Failure::corrupt("the position of the log is missing"));
    }
    Ok(positions)
}
