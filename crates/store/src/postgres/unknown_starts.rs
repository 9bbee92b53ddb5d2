//! The starts of calls and tool sessions with an unknown outcome: the connection was lost, or the
//! time limit passed, during their commit. Their callers were refused. Those that were stored are
//! closed as soon as the database answers: recovery closes only the calls of dead processes.

use std::time::Duration;

use deadpool_postgres::Pool;
use tokio::{sync::mpsc, time::timeout};
use toolcrib_core::event::EventBody;

use super::{
    closing::{CHUNK, close_unknown},
    entry::Record,
    failure::within,
};

/// The longest wait for the next append before a retry.
const RETRY: Duration = Duration::from_secs(2);

/// Ids of events.
#[derive(Default)]
pub(super) struct UnknownStarts(Vec<String>);

// === impl UnknownStarts ===

impl UnknownStarts {
    /// Waits for requests, or only a while if there are starts to close. Returns `false` when no
    /// more come.
    pub(super) async fn receive<T>(
        &self,
        requests: &mut mpsc::Receiver<T>,
        batch: &mut Vec<T>,
        most: usize,
    ) -> bool {
        let received = requests.recv_many(batch, most);
        match self.0.is_empty() {
            true => received.await > 0,
            false => !matches!(timeout(RETRY, received).await, Ok(0)),
        }
    }

    pub(super) fn add(&mut self, records: &[&Record]) {
        let starts = records.iter().filter(|record| {
            matches!(record.body(), EventBody::ToolCalled(_) | EventBody::ToolSessionOpened(_))
        });
        self.0.extend(starts.map(|record| record.event().event_id.to_string()));
    }

    /// Closes those that were stored. After a failure they are tried again the next time.
    pub(super) async fn close(&mut self, pool: &Pool, instance: &str) {
        while !self.0.is_empty() {
            let rest = self.0.len().saturating_sub(CHUNK);
            let starts: Vec<&str> = self.0.iter().skip(rest).map(String::as_str).collect();
            let closed =
                within(async { close_unknown(&mut pool.get().await?, instance, &starts).await });
            match closed.await {
                Ok(0) => {}
                Ok(count) => tracing::warn!(
                    count,
                    "closed calls whose start was stored although they were refused"
                ),
                Err(error) => {
                    tracing::warn!(%error, "calls of an unknown state are not closed yet");
                    return;
                }
            }
            self.0.truncate(rest);
        }
    }
}
