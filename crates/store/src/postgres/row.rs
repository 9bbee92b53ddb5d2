//! Statements, and conversions between columns and values.

use chrono::SubsecRound as _;
use deadpool_postgres::GenericClient;
use tokio_postgres::{Row, types::ToSql};
use toolcrib_core::{canonical::Digest, clock::Timestamp};

use super::failure::Failure;
pub(super) use crate::page::{bound, limit};

/// A parameter of a statement.
pub(super) type Param<'a> = &'a (dyn ToSql + Sync);

/// Runs a statement without result rows, and returns the number of rows that it changed.
pub(super) async fn execute(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> Result<u64, Failure> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.execute(&statement, params).await?)
}

/// Runs a query.
pub(super) async fn rows(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>, Failure> {
    let statement = client.prepare_cached(sql).await?;
    Ok(client.query(&statement, params).await?)
}

/// Runs a query and takes its first row.
pub(super) async fn first(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Option<Row>, Failure> {
    Ok(rows(client, sql, params).await?.into_iter().next())
}

/// Runs a query and requires one row.
pub(super) async fn one(
    client: &impl GenericClient,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Row, Failure> {
    first(client, sql, params).await?.ok_or_else(|| Failure::corrupt("a row is missing"))
}

/// Parses a stored identifier; an invalid one was not written by this program.
pub(super) fn parse<T: TryFrom<String>>(
    text: String,
    unreadable: impl FnOnce() -> Failure,
) -> Result<T, Failure> {
    T::try_from(text).map_err(|_| unreadable())
}

/// A time as stored, in milliseconds.
pub(super) fn stored_time(at: Timestamp) -> Timestamp {
    at.trunc_subsecs(3)
}

/// Converts a stored number that is never negative.
pub(super) fn whole(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure::corrupt("a negative number"))
}

/// Reads a stored digest; `None` when it is missing or malformed.
pub(super) fn digest(row: &Row, column: usize) -> Result<Option<Digest>, Failure> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    Ok(bytes.and_then(|bytes| bytes.try_into().ok()).map(Digest))
}
