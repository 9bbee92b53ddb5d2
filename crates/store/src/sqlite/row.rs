//! Conversions between columns and values.

use chrono::{DateTime, SecondsFormat, Utc};
use rusqlite::{Connection, Params, Row};
use toolcrib_core::clock::Timestamp;

use super::failure::Failure;

/// Parses a stored identifier; an invalid one was not written by this program.
pub(super) fn parse<T: TryFrom<String>>(
    text: String,
    unreadable: impl FnOnce() -> Failure,
) -> Result<T, Failure> {
    T::try_from(text).map_err(|_| unreadable())
}

/// Formats as RFC 3339 in UTC with milliseconds, so that text order is time order.
pub(super) fn time_text(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

pub(super) fn time(text: &str) -> Option<Timestamp> {
    DateTime::parse_from_rfc3339(text).ok().map(|at| at.with_timezone(&Utc))
}

/// Returns the time in a column that may be null.
pub(super) fn moment(
    row: &Row<'_>,
    column: usize,
    unreadable: impl FnOnce() -> Failure,
) -> Result<Option<Timestamp>, Failure> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| time(&text).ok_or_else(unreadable)).transpose()
}

/// Returns a stored number that is never negative.
pub(super) fn whole(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure::corrupt("a negative number"))
}

/// Returns a number as stored.
pub(super) fn bound(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns the SQL `LIMIT` of a query for `limit` rows.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(crate::capped(limit)).unwrap_or(i64::MAX)
}

/// Runs a statement that returns no rows, and returns the number of rows that it changed.
pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, Failure> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Returns the first row of a query, converted by `convert`.
pub(super) fn first<T, E>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    convert: impl FnMut(&Row<'_>) -> Result<T, E>,
) -> Result<Option<T>, Failure>
where
    E: From<rusqlite::Error>,
    Failure: From<E>,
{
    let mut statement = connection.prepare_cached(sql)?;
    Ok(statement.query_and_then(params, convert)?.next().transpose()?)
}

/// Returns all rows of a query, converted by `convert`.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    convert: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    connection.prepare_cached(sql)?.query_and_then(params, convert)?.collect()
}
