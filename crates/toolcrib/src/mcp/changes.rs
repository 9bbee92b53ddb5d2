//! Noticing that the list, as one caller sees it, has become another one.
//!
//! Invariant: what counts is the list as it would be answered. A new snapshot in which it is the
//! same says nothing, and changes that come close together are one.
//! Invariant: a listener costs a timer and two receivers; lists are made once per view, not per
//! listener.

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

/// Silence after which a change is complete.
const QUIET: Duration = Duration::from_millis(250);
/// Longest wait for that silence.
const AT_MOST: Duration = Duration::from_secs(2);
/// How often a listener's credentials are looked at; that they expire is announced by nobody.
const RECHECK: Duration = Duration::from_secs(15);

/// The list that a client has seen or has been told of.
#[derive(Default)]
pub(super) struct Known(Mutex<Option<Digest>>);

impl Known {
    /// It is `digest` now; whether it was something else before.
    pub(super) fn put(&self, digest: Digest) -> bool {
        let before = self.0.lock().replace(digest);
        before.is_some_and(|before| before != digest)
    }
}

/// Follows one caller's list.
pub(super) struct ListWatch {
    host: Arc<Host>,
    principal: Arc<Principal>,
    within: CatalogScope,
    era: Era,
    known: Arc<Known>,
    lists: watch::Receiver<Generation>,
    callers: watch::Receiver<u64>,
    /// The first and the last change that has not been looked at.
    pending: Option<(Instant, Instant)>,
    recheck: Instant,
}

/// Why a list is not followed any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// The caller is nobody now.
    Refused,
    /// The server ends.
    Closing,
}

impl ListWatch {
    /// Follows the list of `principal` from what is `known` of it, or else from now on.
    pub(super) fn new(
        host: &Arc<Host>,
        principal: &Arc<Principal>,
        within: &CatalogScope,
        era: Era,
        known: Arc<Known>,
    ) -> Self {
        // Subscribed before looking, so that nothing falls between.
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
            // What the client knows may be old already.
            Some(_) => watch.note(now),
            None => {
                watch.known.put(watch.digest());
            }
        }
        watch
    }

    /// Ready when the list has become another one. Dropping the future loses nothing.
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

    /// Takes over what the caller holds now.
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
