//! One SQLite file for all durable data, shared by the processes of one machine.
//!
//! Invariants:
//! - one thread per open store writes (`sqlite/writer.rs`) and keeps the end of the log in memory
//!   (`sqlite/log_state.rs`); readers have their own connections (`sqlite/readers.rs`);
//! - acknowledged data survives the exit of the process, and in strict mode a power failure;
//! - [`Storage::recover`] closes the calls that a dead process left open (`sqlite/recover.rs`),
//!   and never those of a living process (`sqlite/instance.rs`).

mod approvals;
mod catalogs;
pub(crate) mod chain;
mod client_sessions;
pub(crate) mod compact;
mod copier;
mod copy;
mod failure;
mod handle;
mod idempotency;
mod instance;
mod keys;
mod log;
mod log_state;
mod open;
mod open_calls;
mod pins;
mod place;
mod quotas;
mod readers;
mod record;
mod recover;
mod row;
mod runs;
mod saved;
mod segments;
mod statement;
mod transaction;
mod writer;

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use rusqlite::Connection;
use tokio::time::{Instant, sleep_until};
use toolcrib_core::{
    bridge::BridgeStore,
    clock::Timestamp,
    credential::{CredentialStore, CredentialStoreError, GrantStore},
    store::{Changes, CommitObserver, Storage, StoreError, StoreMeasures},
};

pub use self::handle::SqliteStore;
use self::{failure::Failure, handle::LastPoll, row::whole};
use crate::rows::{
    bridge::{self, Bridge},
    credentials::{self, Credentials},
    grants::{self, Grants},
};

/// How often the file is polled for changes by other processes.
const POLL: Duration = Duration::from_millis(200);

#[async_trait]
impl Storage for SqliteStore {
    crate::parts::parts_of_itself!();

    fn grants(&self) -> Arc<dyn GrantStore> {
        Arc::new(Grants(self.clone()))
    }

    fn bridge(&self) -> Arc<dyn BridgeStore> {
        Arc::new(Bridge(self.clone()))
    }

    fn credentials(&self) -> Arc<dyn CredentialStore> {
        Arc::new(Credentials(self.clone()))
    }

    /// All waiting callers share one poll, if it started after their requests: numbers read before
    /// a pause of this process do not confirm current data.
    async fn changes(&self, seen: Option<Changes>) -> Result<Changes, StoreError> {
        let Some(seen) = seen else { return self.on_reader(changes).await };
        let asked = Instant::now();
        let mut polled = self.inner.polled.lock().await;
        match *polled {
            Some(LastPoll { at, changes }) if at > asked => return Ok(changes),
            Some(LastPoll { at, changes }) if changes == seen => sleep_until(at + POLL).await,
            Some(_) | None => {}
        }
        let at = Instant::now();
        let changes = self.on_reader(changes).await?;
        *polled = Some(LastPoll { at, changes });
        Ok(changes)
    }

    async fn instances(&self) -> Result<Vec<String>, StoreError> {
        let place = self.path().to_owned();
        self.on_reader(move |_| Ok(instance::alive(&place)?)).await
    }

    async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        recover::recover(self, now).await
    }

    async fn reseal(&self) -> Result<usize, CredentialStoreError> {
        Ok(credentials::reseal(self).await?
            + grants::reseal(self).await?
            + bridge::reseal(self).await?
            + saved::reseal(self).await?)
    }

    async fn damage(&self) -> Result<Vec<String>, StoreError> {
        self.on_reader(|connection| {
            let mut statement = connection.prepare("PRAGMA integrity_check(20)")?;
            let rows = statement.query_map([], |row| row.get::<_, String>(0))?;
            let lines = rows.collect::<Result<Vec<_>, _>>()?;
            Ok(lines.into_iter().filter(|line| line != "ok").collect())
        })
        .await
    }

    fn free_space(&self) -> Result<Option<u64>, StoreError> {
        let stats = rustix::fs::statvfs(self.path())
            .map_err(|error| StoreError::Unavailable(error.to_string()))?;
        Ok(Some(stats.f_bavail.saturating_mul(stats.f_frsize)))
    }

    fn observe_commits(&self, observer: CommitObserver) {
        self.inner.writer.observe(observer);
    }

    async fn measure(&self) -> Result<StoreMeasures, StoreError> {
        let place = Arc::clone(&self.inner.place);
        // The file system may be slow, so a thread of the readers measures.
        let bytes = self.on_reader(move |_| Ok(place.size())).await?;
        Ok(StoreMeasures { waiting: self.inner.writer.waiting(), bytes: Some(bytes) })
    }

    async fn close(&self) {
        self.inner.writer.stop();
        self.inner.readers.close();
        self.inner.writer.ended().await;
    }

    async fn ended(&self) {
        self.inner.writer.ended().await;
    }
}

fn changes(connection: &Connection) -> Result<Changes, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT (SELECT value FROM meta WHERE name = 'keys_epoch'), \
         (SELECT value FROM meta WHERE name = 'pins_epoch'), \
         (SELECT change FROM approval_state WHERE id = 1), \
         (SELECT value FROM meta WHERE name = 'cancellations'), \
         (SELECT value FROM meta WHERE name = 'session_notices')",
    )?;
    let [keys, pins, approvals, cancellations, sessions]: [i64; 5] = statement
        .query_row([], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?])
        })?;
    Ok(Changes {
        keys: whole(keys)?,
        pins: whole(pins)?,
        approvals: whole(approvals)?,
        cancellations: whole(cancellations)?,
        sessions: whole(sessions)?,
        catalogs: 0,
    })
}
