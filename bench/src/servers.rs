//! The servers that set the limits, as minimal as a fair comparison permits.

pub(crate) mod fixed;
pub(crate) mod proxy;
pub(crate) mod upstream;

use std::io::Write;

use anyhow::Result;
use axum::Router;
use axum::serve::ListenerExt;
use tokio::net::TcpListener;

/// Serves on a free loopback port and prints its address.
async fn listen(router: Router) -> Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "listening on http://{}", listener.local_addr()?)?;
    stdout.flush()?;
    // Without this a response in two writes waits for the peer's delayed acknowledgement.
    let listener = listener.tap_io(|stream| {
        stream.set_nodelay(true).ok();
    });
    axum::serve(listener, router).await?;
    Ok(())
}
