//! A relay of TCP connections with failures on demand at the other end.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Relays connections to a server. During an outage it closes all of them and accepts no data.
#[derive(Debug)]
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    is_down: watch::Sender<bool>,
    /// Aborted when this value is dropped.
    _connections: JoinSet<()>,
}

impl Relay {
    pub(crate) async fn start(to: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let (is_down, state) = watch::channel(false);
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, to, state));
        Ok(Self { address, is_down, _connections: connections })
    }

    /// Closes all connections and refuses new ones, or accepts them again.
    pub(crate) fn set_down(&self, is_down: bool) {
        self.is_down.send_replace(is_down);
    }
}

async fn accept(listener: TcpListener, to: SocketAddr, state: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else { continue };
                if *state.borrow() {
                    continue;
                }
                connections.spawn(relay(stream, to, state.clone()));
            }
            // Finished connections are removed.
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn relay(mut from: TcpStream, to: SocketAddr, mut state: watch::Receiver<bool>) {
    let copied = async {
        let mut to = TcpStream::connect(to).await.context("cannot connect")?;
        from.set_nodelay(true)?;
        to.set_nodelay(true)?;
        copy_bidirectional(&mut from, &mut to).await?;
        anyhow::Ok(())
    };
    tokio::select! {
        // Either end may close at any time; the caller notices it on its own connection.
        _ = copied => {}
        _ = state.wait_for(|is_down| *is_down) => {}
    }
}
