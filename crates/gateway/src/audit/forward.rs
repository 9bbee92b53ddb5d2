//! One forwarder: reads the whole log in order and delivers each event at least once.
//!
//! Invariant: the cursor moves after a delivery and never before. Memory holds one page at most.

use std::{sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;
use toolcrib_config::ForwardConfig;
use toolcrib_core::{
    record::{Cursor, Delivery, StoredQuery},
    store::StoreError,
};

use super::context::{self, Context, DELIVERY_RETRY};
use crate::export;

/// Events in one delivery.
const PAGE: usize = 500;
/// Pause before a forwarder without undelivered events reads again.
const LOOK: Duration = Duration::from_millis(500);
/// Interval at which a server checks whether the server that runs the forwarder has died.
const LOOK_FOR_WORK: Duration = Duration::from_secs(5);
/// Time limit of a delivery in progress at shutdown.
const PARTING: Duration = Duration::from_secs(3);
/// Pause after an error of the store.
const STORE_PAUSE: Duration = Duration::from_secs(2);

pub(super) async fn run(
    context: Arc<Context>,
    config: ForwardConfig,
    delivery: Arc<dyn Delivery>,
    end: CancellationToken,
) {
    let name = config.name.as_str();
    context.metrics.forwards(name);
    let duty = format!("forwarder {name}");
    let mut cursor: Option<Cursor> = None;
    loop {
        let step = async {
            if !context.storage.leads(&duty).await? {
                cursor = None;
                return Ok(LOOK_FOR_WORK);
            }
            let cursor = match &mut cursor {
                Some(cursor) => cursor,
                None => cursor.insert(context.cursor(name).await?),
            };
            forward(&context, &config, &*delivery, cursor).await
        };
        let mut step = std::pin::pin!(step);
        let outcome = tokio::select! {
            outcome = &mut step => outcome,
            () = end.cancelled() => {
                // An interrupted delivery is repeated by the next start.
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

/// Delivers one page. Returns the pause before the next one.
async fn forward(
    context: &Context,
    config: &ForwardConfig,
    delivery: &dyn Delivery,
    cursor: &mut Cursor,
) -> Result<Duration, StoreError> {
    let name = config.name.as_str();
    let query = StoredQuery { tenant: None, after: cursor.position, limit: PAGE, with_prev: true };
    let page = context.store.stored(query).await?;
    let Some(last) = page.last().map(|event| event.position) else {
        context.metrics.forward_lag(name, 0);
        // Stored before the first delivery, so that retention waits for it.
        if cursor.moved_at.is_none() && cursor.failures == 0 {
            context::moved(cursor, cursor.position, context.clock.now());
            context.store.set_cursor(cursor.clone()).await?;
        }
        return Ok(LOOK);
    };
    let mut body = Vec::new();
    let left_out = export::write(config.format, &page, &mut body);
    if left_out > 0 {
        tracing::error!(
            forwarder = name,
            left_out,
            "malformed events were skipped; run `toolcrib audit verify`"
        );
    }
    let delivered = match body.is_empty() {
        true => Ok(()),
        false => delivery.deliver(config.format.content_type(), body).await,
    };
    let now = context.clock.now();
    let pause = match delivered {
        Ok(()) => {
            if cursor.failures > 0 {
                tracing::info!(forwarder = name, "the record is forwarded again");
            }
            context::moved(cursor, last, now);
            context.metrics.forwarded(name, page.len());
            if page.len() < PAGE { LOOK } else { Duration::ZERO }
        }
        Err(error) => {
            if cursor.failures == 0 {
                tracing::warn!(forwarder = name, %error, "the record is not forwarded for now");
            }
            context::failed(cursor, &error, now);
            context.metrics.forward_failed(name);
            DELIVERY_RETRY.after(cursor.failures)
        }
    };
    let end = context.store.last_position().await?;
    context.metrics.forward_lag(name, end.saturating_sub(cursor.position));
    context.store.set_cursor(cursor.clone()).await?;
    Ok(pause)
}
