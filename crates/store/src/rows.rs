//! Rows and statements of the tables that both databases have, so that each column is named once.
//! An engine adds its transactions and locks, and what the other one does not understand.

pub(crate) mod approvals;
mod authorizations;
pub(crate) mod bridge;
pub(crate) mod credentials;
mod grant_columns;
pub(crate) mod grants;
pub(crate) mod idempotency;
pub(crate) mod keys;
mod oauth_clients;
pub(crate) mod pins;
pub(crate) mod record;
pub(crate) mod runs;
pub(crate) mod saved;

use std::{borrow::Cow, future::Future};

use serde::de::DeserializeOwned;
use toolcrib_core::{canonical::Digest, clock::Timestamp, store::StoreError};

use crate::{Options, known_grants::KnownGrants, page::bound};

/// A statement and its parameters, which are numbered (`?1`).
#[derive(Debug, Clone)]
pub(crate) struct Statement {
    pub(crate) sql: Cow<'static, str>,
    pub(crate) params: Vec<Value>,
    /// The subject of the conflict when a constraint is violated.
    pub(crate) conflict: Option<&'static str>,
}

/// A parameter of a statement.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Text(String),
    Number(i64),
    Flag(bool),
    /// Stored in milliseconds.
    Time(Timestamp),
    Bytes(Vec<u8>),
}

/// Lists parameters of different types.
macro_rules! values {
    ($($value:expr),* $(,)?) => { vec![$($crate::rows::Value::from($value)),*] };
}
pub(crate) use values;

/// A row of either database. A column that may be null is `None` then.
pub(crate) trait Columns {
    type Failure: From<StoreError>;

    fn text(&self, column: usize) -> Result<Option<String>, Self::Failure>;

    fn number(&self, column: usize) -> Result<Option<i64>, Self::Failure>;

    fn flag(&self, column: usize) -> Result<bool, Self::Failure>;

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Self::Failure>;

    fn time(
        &self,
        column: usize,
        unreadable: impl FnOnce() -> Self::Failure,
    ) -> Result<Option<Timestamp>, Self::Failure>;
}

/// A database that runs shared statements. A part that needs no special transactions is written once
/// for both databases.
pub(crate) trait Database: Send + Sync + 'static {
    fn options(&self) -> &Options;

    fn known_grants(&self) -> &KnownGrants;

    /// Runs a statement, and returns the number of rows that it changed.
    fn run(&self, statement: Statement) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Runs `statements` in one transaction, which holds the lock called `lock`. Returns the number of
    /// rows that the last one changed.
    fn run_locked(
        &self,
        lock: String,
        statements: Vec<Statement>,
    ) -> impl Future<Output = Result<usize, StoreError>> + Send;

    /// Runs a statement that returns the row that it removes, if any.
    fn take<T: FromRow>(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Option<T>, StoreError>> + Send;

    /// Runs a query.
    fn rows<T: FromRow>(
        &self,
        statement: Statement,
    ) -> impl Future<Output = Result<Vec<T>, StoreError>> + Send;
}

/// A value that is read from a row.
pub(crate) trait FromRow: Send + Sized + 'static {
    fn from_row<R: Columns>(row: &R) -> Result<Self, R::Failure>;
}

/// Converts the columns of a row, and names the row in errors.
pub(crate) struct Reader<'a, R> {
    row: &'a R,
    what: Cow<'a, str>,
    /// The column of the public id, which names a damaged row in errors.
    id: Option<usize>,
}

// === impl Statement ===

impl Statement {
    pub(crate) fn new(sql: impl Into<Cow<'static, str>>, params: Vec<Value>) -> Self {
        Self { sql: sql.into(), params, conflict: None }
    }

    /// Inserts a row with a parameter for each of `columns`.
    pub(crate) fn insert(table: &str, columns: &str, params: Vec<Value>) -> Self {
        let places: Vec<String> = (1..=params.len()).map(|number| format!("?{number}")).collect();
        let places = places.join(", ");
        Self::new(format!("INSERT INTO {table} ({columns}) VALUES ({places})"), params)
    }

    /// Makes a violated constraint a conflict over `what`.
    pub(crate) fn or_conflict(self, what: &'static str) -> Self {
        Self { conflict: Some(what), ..self }
    }

    /// Adds a condition if there is a value for its parameter, which is written `?`.
    pub(crate) fn and(self, condition: &str, value: Option<impl Into<Value>>) -> Self {
        self.and_all(condition, value.map(|value| vec![value.into()]))
    }

    /// Adds a condition if there are values for its parameters, each of which is written `?`.
    pub(crate) fn and_all(mut self, condition: &str, values: Option<Vec<Value>>) -> Self {
        let Some(values) = values else { return self };
        let mut parts = condition.split('?');
        let sql = self.sql.to_mut();
        sql.push_str(" AND ");
        sql.push_str(parts.next().unwrap_or_default());
        for (value, part) in values.into_iter().zip(parts) {
            self.params.push(value);
            sql.push_str(&format!("?{}{part}", self.params.len()));
        }
        self
    }

    /// Adds text.
    pub(crate) fn then(mut self, text: &str) -> Self {
        self.sql.to_mut().push_str(text);
        self
    }
}

// === impl Value ===

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Self {
        Self::Number(bound(number))
    }
}

impl From<bool> for Value {
    fn from(flag: bool) -> Self {
        Self::Flag(flag)
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Self {
        Self::Time(at)
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl From<[u8; 32]> for Value {
    fn from(bytes: [u8; 32]) -> Self {
        Self::Bytes(bytes.to_vec())
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, T::into)
    }
}

// === impl Reader ===

impl<'a, R: Columns> Reader<'a, R> {
    pub(crate) fn new(row: &'a R, what: impl Into<Cow<'a, str>>) -> Self {
        Self { row, what: what.into(), id: None }
    }

    /// Names the row by its first column.
    pub(crate) fn with_id(row: &'a R, what: &'a str) -> Self {
        Self { row, what: what.into(), id: Some(0) }
    }

    /// The failure for a row that this program has not written.
    pub(crate) fn unreadable(&self) -> R::Failure {
        let id = self.id.and_then(|column| self.row.text(column).ok().flatten());
        let what = match id {
            Some(id) => format!("{} with id {id}", self.what),
            None => self.what.clone().into_owned(),
        };
        StoreError::Corrupt(what).into()
    }

    fn some<T>(&self, value: Option<T>) -> Result<T, R::Failure> {
        value.ok_or_else(|| self.unreadable())
    }

    pub(crate) fn maybe_text(&self, column: usize) -> Result<Option<String>, R::Failure> {
        self.row.text(column)
    }

    pub(crate) fn text(&self, column: usize) -> Result<String, R::Failure> {
        self.some(self.row.text(column)?)
    }

    pub(crate) fn parse<T: TryFrom<String>>(&self, text: String) -> Result<T, R::Failure> {
        T::try_from(text).map_err(|_| self.unreadable())
    }

    /// Reads an identifier.
    pub(crate) fn id<T: TryFrom<String>>(&self, column: usize) -> Result<T, R::Failure> {
        self.parse(self.text(column)?)
    }

    pub(crate) fn maybe_id<T: TryFrom<String>>(
        &self,
        column: usize,
    ) -> Result<Option<T>, R::Failure> {
        self.row.text(column)?.map(|text| self.parse(text)).transpose()
    }

    /// Reads a text that is empty if there is no identifier.
    pub(crate) fn id_or_empty<T: TryFrom<String>>(
        &self,
        column: usize,
    ) -> Result<Option<T>, R::Failure> {
        let text = self.row.text(column)?.filter(|text| !text.is_empty());
        text.map(|text| self.parse(text)).transpose()
    }

    pub(crate) fn json<T: DeserializeOwned>(&self, column: usize) -> Result<T, R::Failure> {
        serde_json::from_str(&self.text(column)?).map_err(|_| self.unreadable())
    }

    pub(crate) fn maybe_json<T: DeserializeOwned>(
        &self,
        column: usize,
    ) -> Result<Option<T>, R::Failure> {
        let text = self.row.text(column)?;
        text.map(|text| serde_json::from_str(&text).map_err(|_| self.unreadable())).transpose()
    }

    /// Reads identifiers in a JSON array.
    pub(crate) fn ids<T: TryFrom<String>>(&self, column: usize) -> Result<Vec<T>, R::Failure> {
        let texts: Vec<String> = self.json(column)?;
        texts.into_iter().map(|text| self.parse(text)).collect()
    }

    pub(crate) fn maybe_time(&self, column: usize) -> Result<Option<Timestamp>, R::Failure> {
        self.row.time(column, || self.unreadable())
    }

    pub(crate) fn time(&self, column: usize) -> Result<Timestamp, R::Failure> {
        self.some(self.maybe_time(column)?)
    }

    /// Reads a number that is never negative.
    pub(crate) fn whole(&self, column: usize) -> Result<u64, R::Failure> {
        let number = self.some(self.row.number(column)?)?;
        u64::try_from(number).map_err(|_| self.unreadable())
    }

    pub(crate) fn flag(&self, column: usize) -> Result<bool, R::Failure> {
        self.row.flag(column)
    }

    pub(crate) fn maybe_bytes(&self, column: usize) -> Result<Option<Vec<u8>>, R::Failure> {
        self.row.bytes(column)
    }

    pub(crate) fn bytes(&self, column: usize) -> Result<Vec<u8>, R::Failure> {
        self.some(self.row.bytes(column)?)
    }

    pub(crate) fn maybe_digest(&self, column: usize) -> Result<Option<Digest>, R::Failure> {
        let bytes = self.row.bytes(column)?;
        let digest = |bytes: Vec<u8>| bytes.try_into().map(Digest).map_err(|_| self.unreadable());
        bytes.map(digest).transpose()
    }

    pub(crate) fn digest(&self, column: usize) -> Result<Digest, R::Failure> {
        self.some(self.maybe_digest(column)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_without_a_value_are_left_out() {
        let statement = Statement::new("SELECT 1 WHERE a = ?1", values!["a"])
            .and("b = ?", None::<&str>)
            .and("c < ?", Some(3_u64))
            .and_all("(d, e) < (?, ?)", Some(values![1_i64, "e"]))
            .then(" LIMIT 1");
        let sql = "SELECT 1 WHERE a = ?1 AND c < ?2 AND (d, e) < (?3, ?4) LIMIT 1";
        assert_eq!(statement.sql, sql);
        assert_eq!(statement.params.len(), 4);
    }

    #[test]
    fn an_insertion_has_a_parameter_for_each_value() {
        let statement = Statement::insert("t", "a, b", values!["a", None::<i64>]);
        assert_eq!(statement.sql, "INSERT INTO t (a, b) VALUES (?1, ?2)");
    }
}
