//! Receives notifications of changed tool lists, and reports them to the gateway at a bounded rate.
//!
//! A server of the handshake era sends its notification without a request: over stdio between
//! answers, over HTTP on a GET stream. One of the 2026-07-28 era sends it on a subscription.
//! Notifications are not replayed, so after every gap the list counts as changed.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, json};
use tokio::{sync::Notify, time::Instant};
use toolcrib_core::call::UpstreamError;
use toolcrib_mcp::{message, method};

use super::{
    call::Call, connection::Connection, failure::Failure, list_changes::ListChanges,
    message::Reply, peer::Interest, wire::Wire,
};

/// Waits for further notifications of the same change: servers often send one per tool.
const SETTLE: Duration = Duration::from_millis(200);
/// A list that changes all the time is read at most this often.
const AT_MOST_EVERY: Duration = Duration::from_secs(1);
/// The pause between two attempts to open a stream again.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// A subscription without an acknowledgement within this time is abandoned.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Calls `report` for every change, after it has settled.
pub(crate) async fn debounce(list_changed: &ListChanges, mut report: impl FnMut()) {
    loop {
        list_changed.changed().await;
        tokio::time::sleep(SETTLE).await;
        report();
        tokio::time::sleep(AT_MOST_EVERY).await;
    }
}

/// Keeps a stream of notifications open for as long as the connection lives. Completes when the
/// upstream does not offer one.
pub(crate) async fn watch(connection: Arc<Connection>) {
    if !connection.session.list_changed {
        return;
    }
    let mut pause = FIRST_PAUSE;
    loop {
        let opened = Instant::now();
        let stream = match (&connection.wire, connection.session.era.is_modern()) {
            (Wire::Stdio(_), false) => return,
            (Wire::Http(_), false) => get_stream(&connection).await,
            (Wire::Stdio(_) | Wire::Http(_), true) => subscription(&connection).await,
        };
        if stream.is_err() {
            tracing::debug!("the upstream offers no stream of notifications");
            return;
        }
        // A stream that held for a while is no reason to wait longer before the next one.
        pause = if opened.elapsed() > LONGEST_PAUSE { FIRST_PAUSE } else { pause };
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
        connection.list_changed.suspect();
    }
}

/// The upstream offers no stream.
struct NoStream;

async fn get_stream(connection: &Connection) -> Result<(), NoStream> {
    let Wire::Http(http) = &connection.wire else { return Err(NoStream) };
    match http.open_stream(&connection.session.era).await {
        Ok(stream) => {
            // Changes from before the stream was open are not announced.
            connection.list_changed.suspect();
            // However the stream closes, the next one is opened after a pause.
            if let Err(failure) = http.follow(stream).await {
                note(failure);
            }
            Ok(())
        }
        // The next call gets a new session, and the stream after it is opened with that.
        Err(Failure::SessionExpired) => Ok(()),
        Err(failure) => {
            note(failure);
            Err(NoStream)
        }
    }
}

async fn subscription(connection: &Connection) -> Result<(), NoStream> {
    let era = &connection.session.era;
    let acknowledged = Arc::new(Notify::new());
    let params = json!({
        "notifications": { "toolsListChanged": true }, "_meta": era.meta(&Map::new(), None),
    });
    let encode = |id| message::request(id, method::LISTEN, &params);
    let call = Call {
        cancellable: true,
        interest: Interest { progress: None, acknowledged: Some(Arc::clone(&acknowledged)) },
        ..Call::plain(method::LISTEN, era, &encode)
    };
    let mut listening = std::pin::pin!(connection.wire.request(&call));
    let ended = tokio::select! {
        ended = &mut listening => Some(ended),
        () = acknowledged.notified() => None,
        () = tokio::time::sleep(ACK_TIMEOUT) => return Err(NoStream),
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            // Changes from before the subscription are not announced.
            connection.list_changed.suspect();
            listening.await
        }
    };
    match ended {
        Ok(Reply::Result(_)) => Ok(()),
        Ok(Reply::Error(_)) => Err(NoStream),
        Err(failure) => {
            note(failure);
            Ok(())
        }
    }
}

fn note(failure: Failure) {
    // The upstream's text may contain anything, so only the kind is logged.
    let kind = UpstreamError::from(failure).kind.code();
    tracing::debug!(kind, "a stream of notifications was closed");
}
