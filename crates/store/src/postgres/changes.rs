//! Follows the changes that any process makes. The database announces them (`NOTIFY`); it is also
//! polled, because an announcement is lost with its connection and not every database supports
//! them.
//!
//! Invariant: a caller gets numbers that were read after its request. Numbers from before a pause
//! of this process would confirm data that another server has changed since.

use std::{
    future::poll_fn,
    sync::Arc,
    time::{Duration, Instant},
};

use deadpool_postgres::{GenericClient, Pool};
use tokio::{
    sync::{Notify, mpsc, watch},
    task::AbortHandle,
};
use tokio_postgres::{AsyncMessage, Client};
use toolcrib_core::store::{Changes, StoreError};

use super::{
    connect::Place,
    failure::{Failure, closed, within, within_limit},
    instance::jittered,
    row::{one, whole},
};

/// How often the changes are read without announcements.
const POLL: Duration = Duration::from_millis(200);
/// How often they are read with announcements. Callers refuse to answer after two seconds without a
/// confirmation, so this must be clearly less.
const SELDOM: Duration = Duration::from_millis(500);
/// The pause before announcements are ordered again, and as much again by chance.
const REORDER: Duration = Duration::from_secs(2);
/// How long an order may take. The changes are not read meanwhile.
const ORDER_LIMIT: Duration = Duration::from_secs(1);
/// The longest wait for a read.
const PATIENCE: Duration = Duration::from_secs(2);

/// The last numbers of changes, or why they are unknown.
#[derive(Clone)]
struct Reading {
    began: Instant,
    changes: Result<Changes, StoreError>,
}

/// Handle to the task that follows the changes.
pub(super) struct Follower {
    /// `None` before the first answer.
    last: watch::Receiver<Option<Reading>>,
    /// Requests a read at once.
    wake: Arc<Notify>,
    task: AbortHandle,
}

/// The announcements of one connection.
struct Announcements {
    news: mpsc::Receiver<()>,
    /// Dropping it closes the connection.
    _client: Client,
}

// === impl Follower ===

impl Follower {
    pub(super) fn start(pool: Pool, place: Place) -> Self {
        let (sender, last) = watch::channel(None);
        let wake = Arc::new(Notify::new());
        let woken = Arc::clone(&wake);
        let task = tokio::spawn(async move {
            let mut announcements: Option<Announcements> = None;
            let mut order_at = Instant::now();
            loop {
                let began = Instant::now();
                let changes = within(async { now(&pool.get().await?).await }).await;
                let is_alive = changes.is_ok();
                sender.send_replace(Some(Reading { began, changes }));
                if announcements.is_none() && is_alive && order_at <= Instant::now() {
                    announcements = order(&place).await;
                    order_at = Instant::now() + jittered(REORDER);
                }
                let Some(Announcements { news, .. }) = &mut announcements else {
                    tokio::time::timeout(POLL, woken.notified()).await.ok();
                    continue;
                };
                tokio::select! {
                    // Without an announcement the connection was lost.
                    announced = news.recv() => if announced.is_none() {
                        announcements = None;
                    },
                    () = woken.notified() => {}
                    () = tokio::time::sleep(SELDOM) => {}
                }
            }
        });
        Self { last, wake, task: task.abort_handle() }
    }

    /// Reads the numbers again: with the next announcement, or after about half a second. Does not
    /// wait for either if they are known to differ from `seen`.
    pub(super) async fn after(&self, seen: Changes) -> Result<Changes, StoreError> {
        let asked = Instant::now();
        let mut last = self.last.clone();
        let differs = |reading: &Reading| reading.changes.as_ref().is_ok_and(|now| *now != seen);
        if last.borrow().as_ref().is_some_and(differs) {
            self.wake.notify_one();
        }
        let is_new = |latest: &Option<Reading>| {
            latest.as_ref().is_some_and(|reading| reading.began >= asked)
        };
        let reading = match tokio::time::timeout(PATIENCE, last.wait_for(is_new)).await {
            Ok(Ok(reading)) => reading.clone(),
            Ok(Err(_)) => return Err(closed()),
            Err(_) => None,
        };
        reading.map_or_else(|| Err(silent()), |reading| reading.changes)
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn silent() -> StoreError {
    StoreError::Unavailable(
        "the database did not report its changes in time; check its load".to_owned(),
    )
}

/// Reads the numbers, in one statement, so that they are of one moment.
pub(super) async fn now(client: &impl GenericClient) -> Result<Changes, Failure> {
    let sql = "SELECT (SELECT value FROM meta WHERE name = 'keys_epoch'), \
               (SELECT value FROM meta WHERE name = 'pins_epoch'), \
               (SELECT change FROM approval_state WHERE id = 1), \
               (SELECT value FROM meta WHERE name = 'cancellations'), \
               (SELECT value FROM meta WHERE name = 'session_notices'), \
               (SELECT value FROM meta WHERE name = 'catalogs_epoch')";
    let row = one(client, sql, &[]).await?;
    Ok(Changes {
        keys: whole(row.try_get(0)?)?,
        pins: whole(row.try_get(1)?)?,
        approvals: whole(row.try_get(2)?)?,
        cancellations: whole(row.try_get(3)?)?,
        sessions: whole(row.try_get(4)?)?,
        catalogs: whole(row.try_get(5)?)?,
    })
}

/// Orders announcements; `None` where the database does not have them.
async fn order(place: &Place) -> Option<Announcements> {
    match within_limit(ORDER_LIMIT, listen(place)).await {
        Ok(announcements) => Some(announcements),
        Err(error) => {
            tracing::debug!(%error, "the database announces no changes; they are polled");
            None
        }
    }
}

async fn listen(place: &Place) -> Result<Announcements, Failure> {
    let (client, mut connection) = place.config.connect(place.tls.clone()).await?;
    let (sender, news) = mpsc::channel(1);
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|cx| connection.poll_message(cx)).await {
            // One pending notification is enough: it only triggers a read.
            if let AsyncMessage::Notification(_) = message
                && let Err(mpsc::error::TrySendError::Closed(())) = sender.try_send(())
            {
                break;
            }
        }
    });
    client.batch_execute("LISTEN toolcrib_changes").await?;
    Ok(Announcements { news, _client: client })
}
