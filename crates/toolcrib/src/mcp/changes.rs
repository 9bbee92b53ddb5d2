//! Detects changes of the list of tools that one caller sees.
//!
//! Invariant: only the list in a response counts. A new snapshot with the same list is no change,
//! and changes in quick succession count as one.
//! Invariant: a listener costs a timer and two receivers; lists are built once per view, not once
//! per listener.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::catalog::Generation;
use toolcrib_mcp::{message, revision::Era};

use super::{connected::ConnectedPrompts, host::Client, pages, session::LastList};

/// Time without a change after which a change is complete.
const QUIET: Duration = Duration::from_millis(250);
/// Longest wait for that time.
const AT_MOST: Duration = Duration::from_secs(2);
/// How often a listener's credentials are checked, because expiry sends no notification.
const RECHECK: Duration = Duration::from_secs(15);

/// Watches one caller's list.
pub(super) struct ListWatch {
    client: Client,
    era: Era,
    known: Arc<LastList>,
    lists: watch::Receiver<Generation>,
    callers: watch::Receiver<u64>,
    /// The first and the last change that have not been evaluated.
    pending: Option<(Instant, Instant)>,
    recheck: Instant,
}

/// The reason why a watch stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WatchEnd {
    /// The caller's credentials have become invalid.
    Refused,
    /// The server shuts down.
    Closing,
}

impl ListWatch {
    /// Watches the list of `client`, starting from `known` if it has a digest, or else from the
    /// current list.
    pub(super) fn new(client: &Client, era: Era, known: Arc<LastList>) -> Self {
        let (client, now) = (client.clone(), Instant::now());
        let gateway = &client.host.gateway;
        let mut watch = Self {
            // Subscribes before reading the list, so that no change is missed.
            lists: gateway.supply().changes(),
            callers: gateway.authenticator().changes(),
            client,
            era,
            known,
            pending: None,
            recheck: now + RECHECK,
        };
        match watch.known.is_empty() {
            true => drop(watch.known.put(pages::digest(&watch.client, era))),
            // The digest may already be out of date.
            false => watch.note(now),
        }
        watch
    }

    /// The notifications of changes and of `connected` accounts, until `over` or `stop` is cancelled.
    pub(super) fn notifications(
        self,
        connected: ConnectedPrompts,
        over: CancellationToken,
        stop: CancellationToken,
    ) -> impl Stream<Item = Bytes> + Send + 'static {
        let changes = stream::unfold((self, connected), async |(mut watch, mut connected)| {
            let message = tokio::select! {
                changed = watch.changed() => {
                    changed.ok()?;
                    message::tools_changed()
                }
                id = connected.next() => message::elicited(&id),
            };
            Some((Bytes::from(message), (watch, connected)))
        });
        changes.take_until(over.cancelled_owned()).take_until(stop.cancelled_owned())
    }

    /// Waits until the list has changed. Cancel safe: dropping the future loses no change.
    pub(super) async fn changed(&mut self) -> Result<(), WatchEnd> {
        loop {
            let look = self.pending.map(|(first, last)| (first + AT_MOST).min(last + QUIET));
            let wake = look.map_or(self.recheck, |look| look.min(self.recheck));
            tokio::select! {
                () = self.client.host.gateway.until_closed() => return Err(WatchEnd::Closing),
                changed = self.lists.changed() => match changed {
                    Ok(()) => self.note(Instant::now()),
                    Err(_) => return Err(WatchEnd::Closing),
                },
                changed = self.callers.changed() => match changed {
                    Ok(()) => self.renew().await?,
                    Err(_) => return Err(WatchEnd::Closing),
                },
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= self.recheck {
                        self.recheck = now + RECHECK;
                        self.renew().await?;
                    }
                    if look.is_some_and(|look| now >= look) {
                        self.pending = None;
                        if self.known.put(pages::digest(&self.client, self.era)) {
                            return Ok(());
                        }
                    }
                }
            }
        }
    }

    fn note(&mut self, now: Instant) {
        let first = self.pending.map_or(now, |(first, _)| first);
        self.pending = Some((first, now));
    }

    /// Updates the principal to its current roles and scopes.
    async fn renew(&mut self) -> Result<(), WatchEnd> {
        let Client { host, principal, .. } = &mut self.client;
        let renewed =
            host.gateway.authenticator().renew(principal).await.map_err(|_| WatchEnd::Refused)?;
        if *renewed != **principal {
            *principal = renewed;
            self.note(Instant::now());
        }
        Ok(())
    }
}
