//! Plain SQLite: one table, one thread that commits everything that waits.

use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use async_trait::async_trait;
use rusqlite::Connection;
use tokio::sync::{Mutex, mpsc, oneshot};
use toolcrib_core::event::NewEvent;

use super::Log;

/// The most appends in one transaction, as in toolcrib.
const MAX_BATCH: usize = 256;

type AppendRequest = (Vec<Vec<u8>>, oneshot::Sender<()>);

pub(super) struct PlainLog {
    appends: Mutex<Option<mpsc::UnboundedSender<AppendRequest>>>,
    sender: mpsc::WeakUnboundedSender<AppendRequest>,
    thread: Mutex<Option<JoinHandle<Result<()>>>>,
}

impl PlainLog {
    pub(super) fn open(file: &Path) -> Result<Self> {
        let connection = Connection::open(file)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("CREATE TABLE rows (number INTEGER PRIMARY KEY, bytes BLOB)")?;
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        let (appends, waiting) = mpsc::unbounded_channel();
        let sender = appends.downgrade();
        let thread = std::thread::spawn(move || store(&connection, waiting));
        Ok(Self { appends: Mutex::new(Some(appends)), sender, thread: Mutex::new(Some(thread)) })
    }
}

#[async_trait]
impl Log for PlainLog {
    async fn append(&self, events: &[NewEvent]) -> Result<()> {
        let rows = events.iter().map(bytes).collect::<Result<Vec<_>>>()?;
        let (reply, stored) = oneshot::channel();
        let sender = self.sender.upgrade().context("closed")?;
        sender.send((rows, reply)).map_err(|_| anyhow!("the thread has stopped"))?;
        Ok(stored.await?)
    }

    async fn verify(&self) -> Result<Option<Duration>> {
        Ok(None)
    }

    async fn close(&self) -> Result<()> {
        drop(self.appends.lock().await.take());
        let Some(thread) = self.thread.lock().await.take() else { return Ok(()) };
        let ended = tokio::task::spawn_blocking(|| thread.join()).await?;
        ended.map_err(|_| anyhow!("the thread panicked"))?
    }
}

fn store(
    connection: &Connection,
    mut waiting: mpsc::UnboundedReceiver<AppendRequest>,
) -> Result<()> {
    let mut batch = Vec::with_capacity(MAX_BATCH);
    while waiting.blocking_recv_many(&mut batch, MAX_BATCH) > 0 {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = connection.prepare_cached("INSERT INTO rows (bytes) VALUES (?1)")?;
        for row in batch.iter().flat_map(|(rows, _)| rows) {
            insert.execute([row])?;
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        for (_, reply) in batch.drain(..) {
            // A caller after its time limit does not wait any more.
            reply.send(()).ok();
        }
    }
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

/// The texts of the event and the bytes of a hash, one after the other.
fn bytes(event: &NewEvent) -> Result<Vec<u8>> {
    let timestamp = event.timestamp.to_rfc3339();
    let payload = event.body.payload_text()?;
    let cause = event.causation_id.as_ref().map_or("", |cause| cause.as_str());
    let texts = [
        event.event_id.as_str(),
        event.tenant.as_str(),
        event.run_id.as_str(),
        event.body.kind(),
        &timestamp,
        cause,
        &payload,
    ];
    let mut bytes = texts.concat().into_bytes();
    bytes.extend([0x5a; 32]);
    Ok(bytes)
}
