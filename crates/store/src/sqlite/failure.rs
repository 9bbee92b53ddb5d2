//! Failures inside a connection, and their messages for the operator: what failed, where, and how
//! to fix it. No caller data is repeated.

use std::path::Path;

use rusqlite::ErrorCode;
use toolcrib_core::store::StoreError;

/// A failure that does not yet name its file.
#[derive(Debug)]
pub(crate) enum Failure {
    /// SQLite refused.
    Sqlite(rusqlite::Error),
    /// The store itself refused, with a complete message.
    Store(StoreError),
}

impl Failure {
    /// Creates the failure for malformed stored data.
    pub(super) fn corrupt(what: impl Into<String>) -> Self {
        Self::Store(StoreError::Corrupt(what.into()))
    }

    /// Turns a violated constraint into a conflict over `what`; other failures stay unchanged.
    pub(super) fn conflict_over(self, what: &str) -> Self {
        match self.code() {
            Some(ErrorCode::ConstraintViolation) => {
                Self::Store(StoreError::Conflict(what.to_owned()))
            }
            _ => self,
        }
    }

    /// Whether another process or connection holds the required lock.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self.code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
    }

    /// Whether the disk failed.
    pub(super) fn is_io(&self) -> bool {
        self.code() == Some(ErrorCode::SystemIoFailure)
    }

    /// The public form, for the store in the file `place`.
    pub(super) fn at(self, place: &Path) -> StoreError {
        let error = match self {
            Self::Store(error) => return error,
            Self::Sqlite(error) => error,
        };
        let file = place.display();
        let Some(code) = error.sqlite_error_code() else {
            // Not from SQLite: the type of a column differs from the written one.
            return StoreError::Corrupt(format!("{file}: a stored value has an unexpected type"));
        };
        match code {
            ErrorCode::DiskFull => StoreError::Unavailable(format!(
                "{file}: the disk is full, the data was not stored; free some space, the store recovers by itself"
            )),
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
                StoreError::Unavailable(format!(
                    "{file}: another process kept the file locked for too long, the data was not stored; \
                 look for a program that holds a transaction open on it"
                ))
            }
            ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen => {
                StoreError::Unavailable(format!(
                    "{file} cannot be opened for writing; check that the file and its directory \
                     exist and that this user may write both"
                ))
            }
            ErrorCode::NotADatabase => StoreError::Corrupt(format!(
                "{file} is not a SQLite database; move it away or choose another path"
            )),
            ErrorCode::DatabaseCorrupt => StoreError::Corrupt(format!(
                "{file} is damaged; stop every process that uses it and restore it from a backup, \
                 or salvage it with `sqlite3 FILE .recover`"
            )),
            ErrorCode::SystemIoFailure => StoreError::Unavailable(format!(
                "{file}: reading or writing the disk failed; check the disk and the system's log"
            )),
            ErrorCode::ConstraintViolation => {
                StoreError::Conflict(format!("{file}: a record with the same identity"))
            }
            _ => StoreError::Unavailable(format!("{file}: SQLite failed ({code:?})")),
        }
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Failure {
    fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Sqlite(error) => error.sqlite_error_code(),
            Self::Store(_) => None,
        }
    }
}
