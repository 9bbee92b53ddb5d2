//! The open store: the handle that every part shares.

use std::sync::Arc;

use deadpool_postgres::{Client, Pool};
use tokio::sync::OnceCell;
use toolcrib_core::store::StoreError;

use super::{
    changes::Follower,
    connect::{self, MIGRATION_LIMIT},
    failure::{Failure, within, within_limit},
    instance,
    lease::Lease,
    schema_check,
    writer::Writer,
};
use crate::{Options, fingerprint::FingerprintKey, known_grants::KnownGrants};

/// An open store in a PostgreSQL database. Clones are handles to the same store.
///
/// It is the [`Storage`](toolcrib_core::store::Storage) and each of its parts. Times are kept with
/// millisecond precision. Everything needs the Tokio runtime in which it was opened.
///
/// Close it with [`close`](toolcrib_core::store::Storage::close). Otherwise other processes regard
/// this one as alive for up to 30 s.
#[derive(Clone)]
pub struct PostgresStore {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pool: Pool,
    pub(super) writer: Writer,
    instance: Arc<str>,
    /// The task that renews the lease of this process.
    lease: Lease,
    pub(super) changes: Follower,
    options: Options,
    pub(super) known_grants: KnownGrants,
    pub(super) fingerprint_key: OnceCell<FingerprintKey>,
}

// === impl PostgresStore ===

impl PostgresStore {
    /// Opens the store in the database at `url` (`postgres://…`), and creates or migrates its
    /// tables.
    ///
    /// # Errors
    /// [`StoreError::TooNew`] for a newer schema, [`StoreError::Unavailable`] for everything that
    /// the operator can fix.
    pub async fn open(url: &str, options: Options) -> Result<Self, StoreError> {
        let place = connect::place(url, &options)?;
        let pool = connect::pool(&place)?;
        let instance: Arc<str> = uuid::Uuid::new_v4().simple().to_string().into();
        let mut client = within(async { Ok(pool.get().await?) }).await?;
        within_limit(MIGRATION_LIMIT, connect::migrate(&mut client)).await?;
        within(schema_check::run(&client)).await?;
        within(instance::begin(&client, &instance)).await?;
        drop(client);
        let writer = Writer::start(pool.clone(), Arc::clone(&instance), options.durability);
        let lease = Lease::keep(pool.clone(), Arc::clone(&instance), writer.stopper());
        let changes = Follower::start(pool.clone(), place);
        let inner = Inner {
            pool,
            writer,
            instance,
            lease,
            changes,
            options,
            known_grants: KnownGrants::default(),
            fingerprint_key: OnceCell::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the number of transactions of appended events. With concurrent callers it is well
    /// below the number of appends.
    pub fn commits(&self) -> u64 {
        self.inner.writer.commits()
    }

    pub(super) async fn client(&self) -> Result<Client, Failure> {
        Ok(self.inner.pool.get().await?)
    }

    /// Whether the lease of this process was renewed for long enough that the others could renew
    /// theirs, too.
    pub(super) fn is_steady(&self) -> bool {
        self.inner.lease.is_steady()
    }

    pub(super) fn instance(&self) -> &str {
        &self.inner.instance
    }

    pub(super) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Stores accepted events, releases the lease and closes all connections.
    pub(super) async fn shut(&self) {
        self.inner.writer.stop();
        self.inner.writer.ended().await;
        self.inner.lease.end();
        let released = within(async {
            let client = self.client().await?;
            instance::release(&client, &self.inner.instance).await
        });
        if let Err(error) = released.await {
            tracing::debug!(%error, "the lease of this process was not released; it expires");
        }
        self.inner.pool.close();
    }
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}
