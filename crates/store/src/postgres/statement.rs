//! The shared statements on PostgreSQL.

use bytes::BytesMut;
use deadpool_postgres::GenericClient;
use tokio_postgres::{
    Row,
    types::{IsNull, ToSql, Type, to_sql_checked},
};
use toolcrib_core::{clock::Timestamp, store::StoreError};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{self, Param, stored_time},
};
use crate::{
    Options,
    known_grants::KnownGrants,
    rows::{Columns, Database, FromRow, Statement, Value},
};

impl PostgresStore {
    /// Runs a statement, and returns the number of rows that it changed.
    pub(super) async fn run(&self, statement: Statement) -> Result<usize, StoreError> {
        within(async { run(&self.client().await?, &statement).await }).await
    }

    /// Runs a query, and converts its rows with `convert`.
    pub(super) async fn select<T>(
        &self,
        statement: Statement,
        convert: impl FnMut(&Row) -> Result<T, Failure>,
    ) -> Result<Vec<T>, StoreError> {
        within(async { read(&self.client().await?, &statement, convert).await }).await
    }
}

impl Database for PostgresStore {
    fn options(&self) -> &Options {
        self.options()
    }

    fn known_grants(&self) -> &KnownGrants {
        &self.inner.known_grants
    }

    async fn run(&self, statement: Statement) -> Result<usize, StoreError> {
        self.run(statement).await
    }

    async fn run_locked(
        &self,
        lock: String,
        statements: Vec<Statement>,
    ) -> Result<usize, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let sql = "SELECT pg_advisory_xact_lock(hashtextextended($1::text, 0))";
            row::one(&transaction, sql, &[&lock]).await?;
            let mut changed = 0;
            for statement in &statements {
                changed = run(&transaction, statement).await?;
            }
            transaction.commit().await?;
            Ok(changed)
        })
        .await
    }

    async fn take<T: FromRow>(&self, statement: Statement) -> Result<Option<T>, StoreError> {
        within(async { first(&self.client().await?, &statement, T::from_row).await }).await
    }

    async fn rows<T: FromRow>(&self, statement: Statement) -> Result<Vec<T>, StoreError> {
        self.select(statement, T::from_row).await
    }
}

/// Runs a statement, and returns the number of rows that it changed.
pub(super) async fn run(
    client: &impl GenericClient,
    statement: &Statement,
) -> Result<usize, Failure> {
    match row::execute(client, &numbered(statement), &params(statement)).await {
        Ok(changed) => Ok(usize::try_from(changed).unwrap_or(usize::MAX)),
        Err(failure) => Err(match statement.conflict {
            Some(what) => failure.conflict_over(what),
            None => failure,
        }),
    }
}

/// Runs a query, and converts its rows with `convert`.
pub(super) async fn read<T>(
    client: &impl GenericClient,
    statement: &Statement,
    convert: impl FnMut(&Row) -> Result<T, Failure>,
) -> Result<Vec<T>, Failure> {
    let rows = row::rows(client, &numbered(statement), &params(statement)).await?;
    rows.iter().map(convert).collect()
}

/// Runs a query, and converts its first row with `convert`.
pub(super) async fn first<T>(
    client: &impl GenericClient,
    statement: &Statement,
    convert: impl FnOnce(&Row) -> Result<T, Failure>,
) -> Result<Option<T>, Failure> {
    let found = row::first(client, &numbered(statement), &params(statement)).await?;
    found.as_ref().map(convert).transpose()
}

/// The text with the numbers of parameters as PostgreSQL writes them. No shared statement contains
/// another question mark.
fn numbered(statement: &Statement) -> String {
    statement.sql.replace('?', "$")
}

fn params(statement: &Statement) -> Vec<Param<'_>> {
    statement.params.iter().map(|value| value as Param<'_>).collect()
}

impl ToSql for Value {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Self::Null => Ok(IsNull::Yes),
            Self::Text(text) => text.to_sql_checked(kind, out),
            Self::Number(number) => number.to_sql_checked(kind, out),
            Self::Flag(flag) => flag.to_sql_checked(kind, out),
            Self::Time(at) => stored_time(*at).to_sql_checked(kind, out),
            Self::Bytes(bytes) => bytes.to_sql_checked(kind, out),
        }
    }

    /// The type of the value is compared by `to_sql`.
    fn accepts(_kind: &Type) -> bool {
        true
    }

    to_sql_checked!();
}

impl Columns for Row {
    type Failure = Failure;

    fn text(&self, column: usize) -> Result<Option<String>, Failure> {
        Ok(self.try_get(column)?)
    }

    fn number(&self, column: usize) -> Result<Option<i64>, Failure> {
        Ok(self.try_get(column)?)
    }

    fn flag(&self, column: usize) -> Result<bool, Failure> {
        Ok(self.try_get(column)?)
    }

    fn bytes(&self, column: usize) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.try_get(column)?)
    }

    fn time(
        &self,
        column: usize,
        _unreadable: impl FnOnce() -> Failure,
    ) -> Result<Option<Timestamp>, Failure> {
        Ok(self.try_get(column)?)
    }
}
