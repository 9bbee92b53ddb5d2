//! The task that renews the lease of this process.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use deadpool_postgres::Pool;
use tokio::task::AbortHandle;
use toolcrib_core::store::StoreError;

use super::{
    failure::within,
    instance::{jittered, renew},
    writer::Stopper,
};

/// How often a lease is renewed.
const RENEWAL: Duration = Duration::from_secs(5);

/// The longest pause after a failed renewal.
const MAX_PAUSE: Duration = Duration::from_secs(4);

/// Renewals in a row after which the others have had the time for theirs.
const STEADY: u32 = 3;

/// The renewed lease of this process.
pub(super) struct Lease {
    /// Renewals since the last failure.
    renewals: Arc<AtomicU32>,
    task: AbortHandle,
}

// === impl Lease ===

impl Lease {
    /// Starts the task that renews the lease. After a failure it retries with jittered backoff;
    /// when the lease is lost it stops the writer, which shuts the server down.
    pub(super) fn keep(pool: Pool, instance: Arc<str>, writer: Stopper) -> Self {
        let renewals = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&renewals);
        let task = tokio::spawn(async move {
            let mut failures: u32 = 0;
            loop {
                tokio::time::sleep(if failures == 0 { RENEWAL } else { pause(failures) }).await;
                match within(async { renew(&pool.get().await?, &instance).await }).await {
                    Ok(true) => {
                        failures = 0;
                        counted.fetch_add(1, Ordering::Relaxed);
                    }
                    Ok(false) => {
                        let error = StoreError::TakenOver;
                        tracing::error!(%error, "writes to the store have stopped");
                        return writer.stop(error);
                    }
                    Err(error) => {
                        tracing::warn!(%error, failures, "the lease of this server was not renewed");
                        failures = failures.saturating_add(1);
                        counted.store(0, Ordering::Relaxed);
                    }
                }
            }
        });
        Self { renewals, task: task.abort_handle() }
    }

    pub(super) fn is_steady(&self) -> bool {
        self.renewals.load(Ordering::Relaxed) >= STEADY
    }

    /// Stops renewing.
    pub(super) fn end(&self) {
        self.task.abort();
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.end();
    }
}

/// The pause after `failures` failures: up to a limit that doubles from 100 ms to 4 s.
fn pause(failures: u32) -> Duration {
    let most = Duration::from_millis(100).saturating_mul(1 << failures.min(6)).min(MAX_PAUSE);
    jittered(most / 2)
}
