//! A transaction of the writer: the connection, and the state of the log that changes with it.

use std::ops::Deref;

use rusqlite::{CachedStatement, Connection};

use super::{
    failure::Failure,
    log_state::{LogState, Place, RunKey},
    open::SchemaCheck,
    open_calls::CallName,
};

/// A transaction that holds the write lock. It reads like a [`Connection`].
pub(super) struct WriteTransaction<'a> {
    connection: &'a Connection,
    pub(super) log: &'a mut LogState,
    /// The statement that appends an event, once one was appended.
    append: Option<CachedStatement<'a>>,
}

impl<'a> WriteTransaction<'a> {
    /// Takes the write lock, and checks the file when another connection has changed it.
    pub(super) fn begin(
        connection: &'a Connection,
        log: &'a mut LogState,
        schema: &SchemaCheck,
    ) -> Result<Self, Failure> {
        run(connection, "BEGIN IMMEDIATE")?;
        let mut transaction = Self { connection, log, append: None };
        // Inside the transaction, so that no other process can change the file in between.
        match transaction.log.begin(connection, schema) {
            Ok(()) => Ok(transaction),
            Err(failure) => {
                transaction.roll_back()?;
                Err(failure)
            }
        }
    }

    /// Runs `work`, and undoes it alone when it fails.
    ///
    /// # Errors
    /// The outer failure aborts the whole transaction; the inner one is the failure of the work.
    pub(super) fn attempt<T>(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<T, Failure>,
    ) -> Result<Result<T, Failure>, Failure> {
        let mark = self.log.mark();
        run(self.connection, "SAVEPOINT job")?;
        let outcome = work(self);
        if outcome.is_err() {
            // A full disk can abort the whole transaction; then no savepoint is left.
            if self.is_over() {
                return outcome.map(Ok);
            }
            run(self.connection, "ROLLBACK TO job")?;
            self.log.roll_back_to(mark);
        }
        run(self.connection, "RELEASE job")?;
        Ok(outcome)
    }

    /// Whether SQLite has closed the transaction by itself.
    pub(super) fn is_over(&self) -> bool {
        self.connection.is_autocommit()
    }

    /// The statement `sql`, which appends an event, prepared once per transaction.
    pub(super) fn append(&mut self, sql: &str) -> Result<&mut CachedStatement<'a>, Failure> {
        match &mut self.append {
            Some(statement) => Ok(statement),
            empty => Ok(empty.insert(self.connection.prepare_cached(sql)?)),
        }
    }

    /// The place of the next event of a run.
    pub(super) fn place(&mut self, run: &RunKey) -> Result<Place, Failure> {
        self.log.place(self.connection, run)
    }

    /// The number of a form of payloads; see [`LogState::form`].
    pub(super) fn form(&mut self, text: &str) -> Result<Option<i64>, Failure> {
        self.log.form(self.connection, text)
    }

    /// Closes the call that a return names; see [`LogState::close`].
    pub(super) fn close_call(
        &mut self,
        name: CallName<'_>,
        cause: Option<&str>,
    ) -> Result<Option<i64>, Failure> {
        self.log.close(self.connection, name, cause)
    }

    /// Stores the open calls of this process in their table; see [`LogState::clear`].
    pub(super) fn clear(&mut self) -> Result<(), Failure> {
        self.log.clear(self.connection)
    }

    /// Makes everything durable, or undoes it.
    pub(super) fn commit(mut self) -> Result<(), Failure> {
        self.append = None;
        let committed = run(self.connection, "COMMIT");
        if committed.is_err() {
            self.roll_back()?;
        }
        committed
    }

    /// Undoes everything.
    pub(super) fn roll_back(&mut self) -> Result<(), Failure> {
        self.log.roll_back_to(0);
        match self.is_over() {
            true => Ok(()),
            false => run(self.connection, "ROLLBACK"),
        }
    }
}

impl Deref for WriteTransaction<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

fn run(connection: &Connection, sql: &str) -> Result<(), Failure> {
    connection.prepare_cached(sql)?.execute([])?;
    Ok(())
}
