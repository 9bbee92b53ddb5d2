//! The calls in flight at one source: bounded in number, and ended when the source closes.

use std::pin::Pin;

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{call::UpstreamError, source::SourceLimits};

use crate::error::{died, unavailable};

const CLOSED: &str = "the source is closed";

/// Limits the calls of a source, and ends them when it closes.
pub(crate) struct Calls {
    slots: Semaphore,
    /// Cancelled when the source closes.
    pub(crate) closed: CancellationToken,
}

impl Calls {
    pub(crate) fn new(limits: &SourceLimits) -> Self {
        let slots = limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS);
        Self { slots: Semaphore::new(slots), closed: CancellationToken::new() }
    }

    /// Waits until fewer calls than the limit are in flight.
    pub(crate) async fn slot(&self) -> Result<SemaphorePermit<'_>, UpstreamError> {
        self.slots.acquire().await.map_err(|_| unavailable(CLOSED))
    }

    /// Fails if the source is closed.
    pub(crate) fn check_open(&self) -> Result<(), UpstreamError> {
        match self.closed.is_cancelled() {
            true => Err(unavailable(CLOSED)),
            false => Ok(()),
        }
    }

    /// Runs `call` until it ends or the source closes. It is borrowed, because a future that is passed
    /// on by value is copied each time.
    pub(crate) async fn run<T>(
        &self,
        call: Pin<&mut (dyn Future<Output = Result<T, UpstreamError>> + Send)>,
    ) -> Result<T, UpstreamError> {
        self.check_open()?;
        tokio::select! {
            biased;
            result = call => result,
            () = self.closed.cancelled() => Err(died(CLOSED)),
        }
    }
}
