//! The messages to write.

use std::{io, pin::pin};

use tokio::{
    io::{AsyncWrite, AsyncWriteExt as _},
    sync::mpsc,
};
use toolcrib_mcp::message::{self, RpcError};

/// The queue of messages to write.
#[derive(Clone)]
pub(super) struct Outbox(pub(super) mpsc::Sender<Vec<u8>>);

impl Outbox {
    /// Queues `message`, which becomes one line. A closed output is ignored here: it stops the
    /// bridge.
    pub(super) async fn send(&self, mut message: Vec<u8>) {
        // Line breaks of JSON are between its tokens.
        for byte in &mut message {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
        message.push(b'\n');
        self.0.send(message).await.ok();
    }

    /// Answers the request with the JSON text `id`.
    pub(super) async fn reject(&self, id: Option<&str>, error: &RpcError) {
        self.send(message::error(id, error)).await;
    }
}

/// Writes messages until all senders are dropped.
pub(super) async fn write(
    mut messages: mpsc::Receiver<Vec<u8>>,
    output: impl AsyncWrite,
) -> io::Result<()> {
    let mut output = pin!(output);
    while let Some(message) = messages.recv().await {
        output.write_all(&message).await?;
        if messages.is_empty() {
            output.flush().await?;
        }
    }
    output.flush().await
}
