//! Follows the changes that any process makes. The database announces them (`NOTIFY`); it is also
//! read again and again, because an announcement is lost with its connection and not every database
//! has them.

use std::{future::poll_fn, time::Duration};

use deadpool_postgres::{GenericClient, Pool};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
};
use tokio_postgres::{AsyncMessage, Client};
use toolcrib_core::store::{Changes, StoreError};

use super::{
    connect::Place,
    failure::{Failure, within},
    instance::jittered,
    row::{one, whole},
};

/// How often the changes are read without announcements.
const POLL: Duration = Duration::from_millis(200);
/// How often they are read with them.
const SELDOM: Duration = Duration::from_secs(1);
/// The pause before announcements are ordered again, and as much again by chance.
const REORDER: Duration = Duration::from_secs(2);
/// The longest wait for a change.
const PATIENCE: Duration = Duration::from_millis(200);

/// The last numbers of changes, or why they are unknown; `None` before the first answer.
type State = watch::Receiver<Option<Result<Changes, StoreError>>>;

/// Handle to the task that follows the changes.
pub(super) struct Follower {
    state: State,
    task: AbortHandle,
}

/// The announcements of one connection.
struct Announcements {
    news: mpsc::Receiver<()>,
    /// The connection ends with it.
    _client: Client,
}

// === impl Follower ===

impl Follower {
    pub(super) fn start(pool: Pool, place: Place) -> Self {
        let (sender, state) = watch::channel(None);
        let task = tokio::spawn(async move {
            let mut announcements: Option<Announcements> = None;
            loop {
                let now = within(async { now(&pool.get().await?).await }).await;
                let is_alive = now.is_ok();
                sender.send_replace(Some(now));
                if announcements.is_none() && is_alive {
                    announcements = order(&place).await;
                }
                let Some(Announcements { news, .. }) = &mut announcements else {
                    tokio::time::sleep(POLL).await;
                    continue;
                };
                // The connection was lost, or there is nothing new.
                if let Ok(None) = tokio::time::timeout(SELDOM, news.recv()).await {
                    announcements = None;
                    tokio::time::sleep(jittered(REORDER)).await;
                }
            }
        });
        Self { state, task: task.abort_handle() }
    }

    /// Returns the numbers once they differ from `seen`, and otherwise after about 200 ms.
    pub(super) async fn after(&self, seen: Changes) -> Result<Changes, StoreError> {
        let mut state = self.state.clone();
        let differs = |it: &Option<Result<Changes, StoreError>>| {
            it.as_ref().is_some_and(|it| it.as_ref().is_ok_and(|now| *now != seen))
        };
        // Without a change the last answer stands.
        drop(tokio::time::timeout(PATIENCE, state.wait_for(differs)).await);
        let now = state.borrow().clone();
        now.unwrap_or(Ok(seen))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Reads the numbers, in one statement, so that they are of one moment.
pub(super) async fn now(client: &impl GenericClient) -> Result<Changes, Failure> {
    let sql = "SELECT (SELECT value FROM meta WHERE name = 'keys_epoch'), \
               (SELECT value FROM meta WHERE name = 'pins_epoch'), \
               (SELECT change FROM approval_state WHERE id = 1), \
               (SELECT value FROM meta WHERE name = 'cancellations'), \
               (SELECT value FROM meta WHERE name = 'catalogs_epoch')";
    let row = one(client, sql, &[]).await?;
    Ok(Changes {
        keys: whole(row.try_get(0)?)?,
        pins: whole(row.try_get(1)?)?,
        approvals: whole(row.try_get(2)?)?,
        cancellations: whole(row.try_get(3)?)?,
        catalogs: whole(row.try_get(4)?)?,
    })
}

/// Orders announcements; `None` where the database has none.
async fn order(place: &Place) -> Option<Announcements> {
    match within(listen(place)).await {
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
            // One that waits is enough: it only says that there is something to read.
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
