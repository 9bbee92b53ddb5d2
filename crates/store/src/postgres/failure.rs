//! Failures of statements, and their messages for the operator. No caller data is repeated.

use std::{future::Future, time::Duration};

use deadpool_postgres::PoolError;
use tokio_postgres::error::SqlState;
use toolcrib_core::store::StoreError;

/// The longest operation. The server cancels a statement earlier; this limit is for a network that
/// does not answer any more.
const LIMIT: Duration = Duration::from_secs(15);

/// Why an operation failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// PostgreSQL or the connection to it.
    Postgres(tokio_postgres::Error),
    /// The store itself refused, with a complete message.
    Store(StoreError),
}

/// Runs an operation. Fails with [`StoreError::Unavailable`] when it takes longer than 15 s.
pub(super) async fn within<T>(
    operation: impl Future<Output = Result<T, Failure>>,
) -> Result<T, StoreError> {
    within_limit(LIMIT, operation).await
}

/// Does the same as [`within`], with another limit.
pub(super) async fn within_limit<T>(
    limit: Duration,
    operation: impl Future<Output = Result<T, Failure>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, operation).await {
        Ok(result) => result.map_err(Failure::into_store),
        Err(_) => Err(StoreError::Unavailable(format!(
            "the database did not answer within {} seconds; check it and the network",
            limit.as_secs()
        ))),
    }
}

impl Failure {
    /// Creates the failure for malformed stored data.
    pub(super) fn corrupt(what: impl Into<String>) -> Self {
        Self::Store(StoreError::Corrupt(what.into()))
    }

    /// Turns a violated constraint into a conflict over `what`; other failures stay unchanged.
    pub(super) fn conflict_over(self, what: &str) -> Self {
        match self.is_conflict() {
            true => Self::Store(StoreError::Conflict(what.to_owned())),
            false => self,
        }
    }

    /// Whether a row with the same identity exists.
    pub(super) fn is_conflict(&self) -> bool {
        matches!(self, Self::Postgres(error) if error.code() == Some(&SqlState::UNIQUE_VIOLATION))
    }

    /// Whether the server refused a statement, so that the connection still works.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            Self::Postgres(error) => error.code().is_some_and(|code| {
                !code.code().starts_with("57") && !code.code().starts_with("08")
            }),
            Self::Store(_) => true,
        }
    }

    pub(super) fn into_store(self) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Postgres(error) => error,
        };
        let Some(code) = error.code() else {
            if error.is_closed()
                || std::error::Error::source(&error)
                    .is_some_and(|cause| cause.is::<std::io::Error>())
            {
                return StoreError::Unavailable(
                    "the connection to the database was lost; check that it runs".to_owned(),
                );
            }
            if error.to_string().contains("deserializing") {
                return StoreError::Corrupt("a stored value has an unexpected type".to_owned());
            }
            return StoreError::Unavailable(format!("the database cannot be used ({error})"));
        };
        match *code {
            SqlState::UNIQUE_VIOLATION => {
                StoreError::Conflict("a record with the same identity".to_owned())
            }
            SqlState::QUERY_CANCELED => StoreError::Unavailable(
                "a statement took too long; look for locks and load in the database".to_owned(),
            ),
            SqlState::DISK_FULL => StoreError::Unavailable(
                "the disk of the database is full, the data was not stored; free some space"
                    .to_owned(),
            ),
            SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
                StoreError::Unavailable(
                    "the database rejected user or password; check the URL of the store".to_owned(),
                )
            }
            SqlState::UNDEFINED_TABLE | SqlState::UNDEFINED_COLUMN => {
                StoreError::Corrupt("its schema was changed; restore it".to_owned())
            }
            _ => StoreError::Unavailable(format!("PostgreSQL failed (code {})", code.code())),
        }
    }
}

impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Postgres(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<PoolError> for Failure {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Postgres(error),
            PoolError::Timeout(_) => Self::Store(StoreError::Unavailable(
                "no connection to the database within 5 seconds; check that it runs".to_owned(),
            )),
            PoolError::Closed => Self::Store(closed()),
            PoolError::NoRuntimeSpecified | PoolError::PostCreateHook(_) => Self::Store(
                StoreError::Unavailable("a connection to the database cannot be set up".to_owned()),
            ),
        }
    }
}

/// The error of every operation after the store was closed.
pub(super) fn closed() -> StoreError {
    StoreError::Unavailable("it has been closed".to_owned())
}
