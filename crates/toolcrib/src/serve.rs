//! Serving a router until told to stop.

use std::{future::Future, io, time::Duration};

use axum::{Router, serve::ListenerExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// How long requests in flight may take to end after the signal to stop. Longer than most calls,
/// shorter than what service managers wait before they kill.
const PATIENCE: Duration = Duration::from_secs(10);

/// Serves `router` on `listener` until `shutdown` is ready; then takes no new connections and gives
/// requests in flight ten seconds.
///
/// # Errors
/// The listener fails for good.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    shutdown: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let listener = listener.tap_io(|connection| {
        // Without it an answer of two segments waits for a delayed acknowledgement, 40 ms.
        if let Err(error) = connection.set_nodelay(true) {
            tracing::debug!(%error, "TCP_NODELAY could not be set");
        }
    });
    let stopping = CancellationToken::new();
    let told = stopping.clone();
    let shutdown = async move {
        shutdown.await;
        told.cancel();
    };
    let late = async {
        stopping.cancelled().await;
        tokio::time::sleep(PATIENCE).await;
    };
    tokio::select! {
        served = axum::serve(listener, router).with_graceful_shutdown(shutdown) => served,
        () = late => {
            tracing::warn!("some requests did not end in time and were cut off");
            Ok(())
        }
    }
}
