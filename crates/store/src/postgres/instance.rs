//! Liveness of processes: every open store renews a lease, by the clock of the database.
//!
//! Invariants:
//! - a process whose calls another one has closed appends no more events: every transaction of the
//!   log locks the row of its process, and recovery removes that row ([`require`]);
//! - after an outage of the database no process is regarded as dead until the living had the time
//!   to renew their leases (`is_steady` in `postgres/lease.rs`).

use std::time::Duration;

use deadpool_postgres::GenericClient;
use toolcrib_core::store::StoreError;

use super::{
    failure::Failure,
    row::{execute, first, rows},
};

/// Creates the lease of a new instance, for 30 s: several renewals may fail before others regard it
/// as dead.
pub(super) async fn begin(client: &impl GenericClient, instance: &str) -> Result<(), Failure> {
    let sql = "INSERT INTO instances (id, expires_at) \
               VALUES ($1, clock_timestamp() + interval '30 seconds')";
    execute(client, sql, &[&instance]).await?;
    Ok(())
}

/// Renews the lease of `instance`. Returns `false` when another process has removed it.
pub(super) async fn renew(client: &impl GenericClient, instance: &str) -> Result<bool, Failure> {
    let sql = "UPDATE instances SET expires_at = clock_timestamp() + interval '30 seconds' \
               WHERE id = $1";
    Ok(execute(client, sql, &[&instance]).await? > 0)
}

pub(super) async fn release(client: &impl GenericClient, instance: &str) -> Result<(), Failure> {
    execute(client, "DELETE FROM instances WHERE id = $1", &[&instance]).await?;
    Ok(())
}

/// Keeps others from taking over `instance` until the end of the transaction.
///
/// # Errors
/// [`StoreError::TakenOver`] if another process has taken it over.
pub(super) async fn require(client: &impl GenericClient, instance: &str) -> Result<(), Failure> {
    let sql = "SELECT 1 FROM instances WHERE id = $1 FOR KEY SHARE";
    match first(client, sql, &[&instance]).await? {
        Some(_) => Ok(()),
        None => Err(Failure::Store(StoreError::TakenOver)),
    }
}

/// Whether `instance` does the work `duty`; takes it over from a dead instance.
pub(super) async fn leads(
    client: &impl GenericClient,
    instance: &str,
    duty: &str,
) -> Result<bool, Failure> {
    let sql = "INSERT INTO duties AS d (name, instance) SELECT $1, $2 WHERE EXISTS \
                 (SELECT 1 FROM instances WHERE id = $2 AND expires_at > clock_timestamp()) \
               ON CONFLICT (name) DO UPDATE SET instance = $2 WHERE d.instance = $2 OR NOT EXISTS \
                 (SELECT 1 FROM instances i WHERE i.id = d.instance \
                  AND i.expires_at > clock_timestamp()) \
               RETURNING 1";
    Ok(first(client, sql, &[&duty, &instance]).await?.is_some())
}

/// Leaves the work `duty` to another instance.
pub(super) async fn resign(
    client: &impl GenericClient,
    instance: &str,
    duty: &str,
) -> Result<(), Failure> {
    let sql = "DELETE FROM duties WHERE name = $1 AND instance = $2";
    execute(client, sql, &[&duty, &instance]).await?;
    Ok(())
}

/// The ids of all instances with a valid lease.
pub(super) async fn alive(client: &impl GenericClient) -> Result<Vec<String>, Failure> {
    let sql = "SELECT id FROM instances WHERE expires_at > clock_timestamp() ORDER BY id";
    rows(client, sql, &[]).await?.iter().map(|row| Ok(row.try_get(0)?)).collect()
}

/// One to two times `pause`, so that servers do not come all at once.
pub(super) fn jittered(pause: Duration) -> Duration {
    let [random, ..] = uuid::Uuid::new_v4().into_bytes();
    pause + pause * u32::from(random) / 255
}
