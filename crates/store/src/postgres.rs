//! One PostgreSQL database for all durable data, shared by any number of processes.
//!
//! Invariants:
//! - positions of the whole log become visible in their order: they are taken by the last statement
//!   of a transaction, from a row that stays locked until its end (`postgres/append.rs`);
//! - every operation completes within 15 s, also while the database does not answer
//!   (`postgres/failure.rs`);
//! - [`Storage::recover`] closes the calls of a process whose lease has expired, by the clock of
//!   the database, and never those of another (`postgres/instance.rs`).
//!
//! Locks are taken in one order: `approval_state` or the row `recovery`, then tenants by name, then
//! the position of the log.

mod append;
mod approvals;
mod catalogs;
mod changes;
mod client_sessions;
mod closing;
mod connect;
mod copy;
mod entry;
mod failure;
mod handle;
mod idempotency;
mod instance;
mod keys;
mod lease;
mod log;
mod open_calls;
mod partitions;
mod pins;
mod quotas;
mod rates;
mod record;
mod recover;
mod row;
mod runs;
mod saved;
mod schema_check;
mod segments;
mod statement;
mod unknown_starts;
mod witnesses;
mod writer;

use std::sync::Arc;

use async_trait::async_trait;
use toolcrib_core::{
    bridge::BridgeStore,
    clock::Timestamp,
    credential::{CredentialStore, CredentialStoreError, GrantStore},
    limit::RateLimiter,
    record::SharedWitnesses,
    store::{Changes, CommitObserver, Storage, StoreError, StoreMeasures},
};

use self::failure::within;
pub use self::handle::PostgresStore;
use crate::{
    Options,
    rows::{
        bridge::{self, Bridge},
        credentials::{self, Credentials},
        grants::{self, Grants},
    },
};

/// Fails if `url` is invalid. Makes no connection.
pub(crate) fn check_url(url: &str) -> Result<(), StoreError> {
    connect::place(url, &Options::default()).map(drop)
}

#[async_trait]
impl Storage for PostgresStore {
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

    fn witnesses(&self) -> Option<Arc<dyn SharedWitnesses>> {
        Some(Arc::new(self.clone()))
    }

    fn limiter(&self) -> Option<Arc<dyn RateLimiter>> {
        Some(Arc::new(self.clone()))
    }

    async fn changes(&self, seen: Option<Changes>) -> Result<Changes, StoreError> {
        match seen {
            Some(seen) => self.inner.changes.after(seen).await,
            None => within(async { changes::now(&self.client().await?).await }).await,
        }
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn resign(&self, duty: &str) -> Result<(), StoreError> {
        within(async { instance::resign(&self.client().await?, self.instance(), duty).await }).await
    }

    async fn leads(&self, duty: &str) -> Result<bool, StoreError> {
        within(async { instance::leads(&self.client().await?, self.instance(), duty).await }).await
    }

    async fn is_alive(&self) -> Result<bool, StoreError> {
        within(async { instance::renew(&self.client().await?, self.instance()).await }).await
    }

    async fn instances(&self) -> Result<Vec<String>, StoreError> {
        within(async { instance::alive(&self.client().await?).await }).await
    }

    async fn recover(&self, now: Timestamp) -> Result<usize, StoreError> {
        rates::sweep(self).await?;
        within(async { partitions::ensure(&mut self.client().await?).await }).await?;
        recover::recover(self, now).await
    }

    async fn reseal(&self) -> Result<usize, CredentialStoreError> {
        Ok(credentials::reseal(self).await?
            + grants::reseal(self).await?
            + bridge::reseal(self).await?
            + saved::reseal(self).await?)
    }

    /// PostgreSQL checks its own files; this only confirms that it can be read.
    async fn damage(&self) -> Result<Vec<String>, StoreError> {
        within(async { changes::now(&self.client().await?).await }).await.map(|_| Vec::new())
    }

    fn free_space(&self) -> Result<Option<u64>, StoreError> {
        Ok(None)
    }

    fn observe_commits(&self, observer: CommitObserver) {
        self.inner.writer.observe(observer);
    }

    async fn measure(&self) -> Result<StoreMeasures, StoreError> {
        let bytes = within(async {
            let sql = "SELECT pg_database_size(current_database())";
            row::whole(row::one(&self.client().await?, sql, &[]).await?.try_get(0)?)
        });
        Ok(StoreMeasures { bytes: Some(bytes.await?), waiting: self.inner.writer.waiting() })
    }

    async fn close(&self) {
        self.shut().await;
    }

    async fn ended(&self) {
        self.inner.writer.ended().await;
    }
}
