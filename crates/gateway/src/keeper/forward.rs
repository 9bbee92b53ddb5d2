//! One forwarder: reads the whole log in order and delivers it, at least once.
//!
//! Invariant: the cursor moves after a delivery and never before; a page is all that is held in
//! memory.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    record::{Cursor, Delivery, StoredQuery},
    store::StoreError,
};

use super::{Shared, backoff};
use crate::config::ForwardConfig;

/// Events in one delivery.
const PAGE: usize = 500;
/// How often a forwarder that has delivered everything looks for news.
const LOOK: Duration = Duration::from_millis(500);
/// How long a delivery that is under way may take at the end.
const PARTING: Duration = Duration::from_secs(3);
/// Pause after the store did not answer.
const STORE_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    shared: Arc<Shared>,
    config: ForwardConfig,
    delivery: Arc<dyn Delivery>,
    end: CancellationToken,
) {
    let name = config.name.as_str();
    shared.metrics.forwards(name);
    let mut cursor: Option<Cursor> = None;
    loop {
        let step = async {
            let cursor = match &mut cursor {
                Some(cursor) => cursor,
                None => cursor.insert(stored_cursor(&shared, name).await?),
            };
            forward(&shared, &config, &*delivery, cursor).await
        };
        let mut step = std::pin::pin!(step);
        let outcome = tokio::select! {
            outcome = &mut step => outcome,
            () = end.cancelled() => {
                // What is cut off here is delivered again by the next one.
                drop(tokio::time::timeout(PARTING, step).await);
                return;
            }
        };
        let pause = outcome.unwrap_or_else(|error| {
            tracing::error!(%error, forwarder = name, "the record could not be read");
            STORE_PAUSE
        });
        if pause.is_zero() {
            continue;
        }
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

pub(super) async fn stored_cursor(shared: &Shared, name: &str) -> Result<Cursor, StoreError> {
    let cursors = shared.store.cursors().await?;
    let known = cursors.into_iter().find(|cursor| cursor.name == name);
    Ok(known.unwrap_or_else(|| backoff::new_cursor(name)))
}

/// Delivers one page, and says how long to wait for the next.
async fn forward(
    shared: &Shared,
    config: &ForwardConfig,
    delivery: &dyn Delivery,
    cursor: &mut Cursor,
) -> Result<Duration, StoreError> {
    let name = config.name.as_str();
    let query = StoredQuery { tenant: None, after: cursor.position, limit: PAGE, with_prev: true };
    let page = shared.store.stored(query).await?;
    let Some(last) = page.last().map(|event| event.position) else {
        shared.metrics.forward_lag(name, 0);
        // Known from the first moment on, so that nothing is pruned before it has begun.
        if cursor.moved_at.is_none() && cursor.failures == 0 {
            backoff::moved(cursor, cursor.position, shared.clock.now());
            shared.store.set_cursor(cursor.clone()).await?;
        }
        return Ok(LOOK);
    };
    let mut body = Vec::new();
    let left_out = config.format.write(&page, &mut body);
    if left_out > 0 {
        tracing::error!(
            forwarder = name,
            left_out,
            "events of the store are none and were not forwarded; run `toolcrib audit verify`"
        );
    }
    let delivered = match body.is_empty() {
        true => Ok(()),
        false => delivery.deliver(config.format.content_type(), body).await,
    };
    let now = shared.clock.now();
    let pause = match delivered {
        Ok(()) => {
            if cursor.failures > 0 {
                tracing::info!(forwarder = name, "the record is forwarded again");
            }
            backoff::moved(cursor, last, now);
            shared.metrics.forwarded(name, page.len());
            if page.len() < PAGE { LOOK } else { Duration::ZERO }
        }
        Err(error) => {
            if cursor.failures == 0 {
                tracing::warn!(forwarder = name, %error, "the record is not forwarded for now");
            }
            backoff::failed(cursor, &error, now);
            shared.metrics.forward_failed(name);
            backoff::pause(cursor.failures)
        }
    };
    let end = shared.store.last_position().await?;
    shared.metrics.forward_lag(name, end.saturating_sub(cursor.position));
    shared.store.set_cursor(cursor.clone()).await?;
    Ok(pause)
}
