//! Detects changes of the list of tools that one caller sees.
//!
//! Invariant: only the list in a response counts. A new snapshot with the same list is no change,
//! and changes in quick succession count as one.
//! Invariant: a listener costs a timer and two receivers; lists are built once per view, not once
//! per listener.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};
use toolcrib_core::{canonical::Digest, catalog::Generation, principal::Principal};
use toolcrib_gateway::CatalogScope;
use toolcrib_mcp::revision::Era;

use super::{host::Host, pages};

/// Time without a change after which a change is complete.
const QUIET: Duration = Duration::from_millis(250);
/// Longest wait for that time.
const AT_MOST: Duration = Duration::from_secs(2);
/// How often a listener's credentials are checked, because expiry sends no notification.
const RECHECK: Duration = Duration::from_secs(15);

/// The list that the client saw last or was notified of.
#[derive(Default)]
pub(super) struct Known(Mutex<Option<Digest>>);

impl Known {
    /// Stores `digest`; returns whether it replaced another digest.
    pub(super) fn put(&self, digest: Digest) -> bool {
        let before = self.0.lock().replace(digest);
        before.is_some_and(|before| before != digest)
    }
}

/// Watches one caller's list.
pub(super) struct ListWatch {
    host: Arc<Host>,
    principal: Arc<Principal>,
    within: CatalogScope,
    era: Era,
    known: Arc<Known>,
    lists: watch::Receiver<Generation>,
    callers: watch::Receiver<u64>,
    /// The first and the last change that have not been evaluated.
    pending: Option<(Instant, Instant)>,
    recheck: Instant,
}

/// The reason why a watch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The caller's credentials are no longer valid.
    Refused,
    /// The server shuts down.
    Closing,
}

impl ListWatch {
    /// Watches the list of `principal`, starting from `known` if it has a digest, or else from the
    /// current list.
    pub(super) fn new(
        host: &Arc<Host>,
        principal: &Arc<Principal>,
        within: &CatalogScope,
        era: Era,
        known: Arc<Known>,
    ) -> Self {
        // Subscribes before reading the list, so that no change is missed.
        let (lists, callers) =
            (host.gateway.supply().changes(), host.gateway.authenticator().changes());
        let now = Instant::now();
        let mut watch = Self {
            host: Arc::clone(host),
            principal: Arc::clone(principal),
            within: within.clone(),
            era,
            known,
            lists,
            callers,
            pending: None,
            recheck: now + RECHECK,
        };
        let first = *watch.known.0.lock();
        match first {
            // The digest may already be out of date.
            Some(_) => watch.note(now),
            None => {
                watch.known.put(watch.digest());
            }
        }
        watch
    }

    /// Waits until the list has changed. Cancel safe: dropping the future loses nothing.
    pub(super) async fn changed(&mut self) -> Result<(), Ended> {
        loop {
            let look = self.pending.map(|(first, last)| (first + AT_MOST).min(last + QUIET));
            let wake = look.map_or(self.recheck, |look| look.min(self.recheck));
            tokio::select! {
                () = self.host.gateway.until_closed() => return Err(Ended::Closing),
                changed = self.lists.changed() => match changed {
                    Ok(()) => self.note(Instant::now()),
                    Err(_) => return Err(Ended::Closing),
                },
                changed = self.callers.changed() => match changed {
                    Ok(()) => self.renew()?,
                    Err(_) => return Err(Ended::Closing),
                },
                () = sleep_until(wake) => {
                    let now = Instant::now();
                    if now >= self.recheck {
                        self.recheck = now + RECHECK;
                        self.renew()?;
                    }
                    if look.is_some_and(|look| now >= look) {
                        self.pending = None;
                        if self.known.put(self.digest()) {
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
    fn renew(&mut self) -> Result<(), Ended> {
        let renewed = self.host.gateway.authenticator().renew(&self.principal);
        let renewed = renewed.map_err(|_| Ended::Refused)?;
        if *renewed != *self.principal {
            self.principal = renewed;
            self.note(Instant::now());
        }
        Ok(())
    }

    fn digest(&self) -> Digest {
        pages::digest(&self.host, &self.principal, &self.within, self.era)
    }
}
