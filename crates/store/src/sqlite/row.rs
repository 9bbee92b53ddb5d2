//! Conversions between columns and values.

use rusqlite::{Connection, Params, Row};

use super::failure::Failure;
pub(super) use crate::{
    event_text::{time, time_text},
    page::{bound, limit},
};

/// Parses a stored identifier; an invalid one was not written by this program.
pub(super) fn parse<T: TryFrom<String>>(
    text: String,
    unreadable: impl FnOnce() -> Failure,
) -> Result<T, Failure> {
    T::try_from(text).map_err(|_| unreadable())
}

/// Converts a stored number that is never negative.
pub(super) fn whole(number: i64) -> Result<u64, Failure> {
    u64::try_from(number).map_err(|_| Failure::corrupt("a negative number"))
}

/// Runs a statement without result rows, and returns the number of rows that it changed.
pub(super) fn execute(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<usize, Failure> {
    Ok(connection.prepare_cached(sql)?.execute(params)?)
}

/// Runs a query and converts its first row with `convert`.
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

/// Runs a query and converts all its rows with `convert`.
pub(super) fn all<T>(
    connection: &Connection,
    sql: &str,
    params: impl Params,
    convert: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    connection.prepare_cached(sql)?.query_and_then(params, convert)?.collect()
}
