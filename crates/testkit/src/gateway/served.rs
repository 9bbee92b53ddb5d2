//! A router of an embedding program on a real socket.

use axum::Router;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Actor, client};

/// The running router; dropping it stops the server.
pub struct TestServer {
    /// `http://127.0.0.1:PORT`.
    pub url: String,
    client: reqwest::Client,
    stop: CancellationToken,
}

impl TestServer {
    /// Serves `router` at a free port of the loopback address.
    pub async fn start(router: Router) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let stop = CancellationToken::new();
        tokio::spawn(toolcrib::serve(listener, router, stop.clone().cancelled_owned()));
        Self { url, client: client(|builder| builder), stop }
    }

    /// Creates a caller without credentials.
    pub fn anonymous(&self) -> Actor {
        Actor::new(self.client.clone(), self.url.clone(), None)
    }

    /// Creates a caller with `key`, valid or not.
    pub fn bearer(&self, key: &str) -> Actor {
        Actor::new(self.client.clone(), self.url.clone(), Some(key.to_owned()))
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
