//! The shared statements on SQLite.

use rusqlite::{
    Connection, Row, params_from_iter,
    types::{ToSql, ToSqlOutput, Value as Stored, ValueRef},
};
use toolcrib_core::{clock::Timestamp, store::StoreError};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{self, time, time_text},
};
use crate::{
    Options,
    known_grants::KnownGrants,
    rows::{Columns, Database, FromRow, Statement, Value},
};

impl SqliteStore {
    /// Runs a statement in a separate transaction, and returns the number of rows that it changed.
    pub(super) async fn run(&self, statement: Statement) -> Result<usize, StoreError> {
        self.on_writer(move |connection| run(connection, &statement)).await
    }

    /// Runs a query, and converts its rows with `convert`.
    pub(super) async fn select<T: Send + 'static>(
        &self,
        statement: Statement,
        convert: impl FnMut(&Row<'_>) -> Result<T, Failure> + Send + 'static,
    ) -> Result<Vec<T>, StoreError> {
        self.on_reader(move |connection| read(connection, &statement, convert)).await
    }
}

impl Database for SqliteStore {
    fn options(&self) -> &Options {
        self.options()
    }

    fn known_grants(&self) -> &KnownGrants {
        &self.inner.known_grants
    }

    async fn run(&self, statement: Statement) -> Result<usize, StoreError> {
        self.run(statement).await
    }

    /// The writer runs one transaction at a time, so no lock is needed.
    async fn run_locked(
        &self,
        _lock: String,
        statements: Vec<Statement>,
    ) -> Result<usize, StoreError> {
        self.on_writer(move |connection| {
            statements.iter().try_fold(0, |_, statement| run(connection, statement))
        })
        .await
    }

    async fn take<T: FromRow>(&self, statement: Statement) -> Result<Option<T>, StoreError> {
        self.on_writer(move |connection| first(connection, &statement, |row| T::from_row(row)))
            .await
    }

    async fn rows<T: FromRow>(&self, statement: Statement) -> Result<Vec<T>, StoreError> {
        self.select(statement, |row| T::from_row(row)).await
    }
}

/// Runs a statement, and returns the number of rows that it changed.
pub(super) fn run(connection: &Connection, statement: &Statement) -> Result<usize, Failure> {
    let done = row::execute(connection, &statement.sql, params_from_iter(&statement.params));
    done.map_err(|failure| match statement.conflict {
        Some(what) => failure.conflict_over(what),
        None => failure,
    })
}

/// Runs a query, and converts its rows with `convert`.
pub(super) fn read<T>(
    connection: &Connection,
    statement: &Statement,
    convert: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    row::all(connection, &statement.sql, params_from_iter(&statement.params), convert)
}

/// Runs a query, and converts its first row with `convert`.
pub(super) fn first<T>(
    connection: &Connection,
    statement: &Statement,
    convert: impl FnMut(&Row<'_>) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    row::first(connection, &statement.sql, params_from_iter(&statement.params), convert)
}

impl ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self {
            Self::Null => ToSqlOutput::Owned(Stored::Null),
            Self::Text(text) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Self::Number(number) => ToSqlOutput::Owned(Stored::Integer(*number)),
            Self::Flag(flag) => ToSqlOutput::Owned(Stored::Integer((*flag).into())),
            Self::Time(at) => ToSqlOutput::Owned(Stored::Text(time_text(*at))),
            Self::Bytes(bytes) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
        })
    }
}

impl Columns for Row<'_> {
    type Failure = Failure;

    fn text(&self, column: usize) -> Result<Option<String>, Failure> {
        Ok(self.get(column)?)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, Failure> {
        Ok(self.get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, Failure> {
        Ok(self.get(column)?)
    }

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.get(column)?)
    }

    fn time(
        &self,
        column: usize,
        unreadable: impl FnOnce() -> Failure,
    ) -> Result<Option<Timestamp>, Failure> {
        let text: Option<String> = self.get(column)?;
        text.map(|text| time(&text).ok_or_else(unreadable)).transpose()
    }
}
