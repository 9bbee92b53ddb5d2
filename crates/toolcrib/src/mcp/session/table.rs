//! The table of open sessions.
//!
//! Invariant (I-27): their number is limited, in total and per principal. Unused sessions expire,
//! and the longest idle one is closed for a new one. When all are in use, no new session is opened,
//! and its client is served without one.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use base64::Engine as _;
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    event::SessionOutcome,
    principal::{AuthMethod, Principal},
};
use toolcrib_gateway::{CatalogScope, Gateway, config::McpConfig, tasks::Policy};

use super::{Hold, Session};
use crate::mcp::host::{Who, who};

/// The sessions of one server.
pub(in crate::mcp) struct Sessions {
    gateway: Gateway,
    idle: Duration,
    max: usize,
    max_of_principal: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    by_principal: HashMap<Who, HashMap<Box<str>, Arc<Session>>>,
    count: usize,
    /// Whether a task removes expired sessions.
    swept: bool,
}

/// Bounds of that task's interval, which is a quarter of the idle time.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

impl Sessions {
    pub(in crate::mcp) fn new(gateway: Gateway, config: &McpConfig) -> Self {
        Self {
            gateway,
            idle: config.session_idle,
            max: config.max_sessions.get(),
            max_of_principal: config.max_sessions_per_principal.get(),
            table: Arc::default(),
        }
    }

    /// Opens a session for `principal` in a part of the catalog, if there is room.
    pub(in crate::mcp) fn open(
        &self,
        principal: &Principal,
        within: &CatalogScope,
    ) -> Option<Arc<Session>> {
        let mut bits = [0_u8; 32];
        getrandom::fill(&mut bits)
            .inspect_err(|error| tracing::error!(%error, "no session without randomness"))
            .ok()?;
        let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bits).into_boxed_str();
        let session = Session::new(id.clone(), self.gateway.clone(), within.clone());
        let who = who(principal);
        // Callers without credentials share one principal.
        let max_own = match principal.auth == AuthMethod::Anonymous {
            true => self.max,
            false => self.max_of_principal,
        };
        let mut table = self.table.lock();
        let mut ended = Vec::new();
        if table.is_full(&who, max_own, self.max) {
            ended = table.take_expired(self.now(), self.idle);
        }
        if table.own(&who) >= max_own {
            ended.extend(table.take_oldest(Some(&who)));
        }
        if table.count >= self.max {
            ended.extend(table.take_oldest(None));
        }
        let room = !table.is_full(&who, max_own, self.max);
        if room {
            table.by_principal.entry(who).or_default().insert(id, Arc::clone(&session));
            table.count += 1;
        }
        let sweep = room && !std::mem::replace(&mut table.swept, true);
        drop(table);
        end_all(ended);
        if sweep {
            self.sweep();
        }
        room.then_some(session)
    }

    /// Returns the session `id` of `principal`, and keeps it alive.
    pub(in crate::mcp) fn find(&self, principal: &Principal, id: &str) -> Option<Hold> {
        let who = who(principal);
        let mut table = self.table.lock();
        let session = Arc::clone(table.by_principal.get(&who)?.get(id)?);
        if !expired(&session, self.now(), self.idle) {
            return Some(session.hold());
        }
        table.remove(&who, id);
        drop(table);
        end_all(vec![session]);
        None
    }

    /// Removes and returns the session `id` of `principal`.
    pub(in crate::mcp) fn take(&self, principal: &Principal, id: &str) -> Option<Arc<Session>> {
        let _hold = self.find(principal, id)?;
        self.table.lock().remove(&who(principal), id)
    }

    fn now(&self) -> u64 {
        self.gateway.clock().monotonic_nanos()
    }

    /// Starts a task that removes expired sessions, as long as there are sessions.
    fn sweep(&self) {
        let (table, idle) = (Arc::downgrade(&self.table), self.idle);
        let gateway = self.gateway.clone();
        let tasks = gateway.tasks().clone();
        // The task ends when the gateway is closed or the last session is gone.
        tasks.spawn("sessions", Policy::UntilDone, CancellationToken::new(), move || {
            sweep_expired(gateway.clone(), Weak::clone(&table), idle)
        });
    }
}

async fn sweep_expired(gateway: Gateway, table: Weak<Mutex<Table>>, idle: Duration) {
    let pause = (idle / 4).clamp(SWEEP.0, SWEEP.1);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = gateway.until_closed() => return,
        }
        let Some(table) = Weak::upgrade(&table) else { return };
        let (ended, over) = {
            let mut table = table.lock();
            let ended = table.take_expired(gateway.clock().monotonic_nanos(), idle);
            table.swept = table.count > 0;
            (ended, !table.swept)
        };
        end_all(ended);
        if over {
            return;
        }
    }
}

impl Table {
    fn own(&self, who: &Who) -> usize {
        self.by_principal.get(who).map_or(0, HashMap::len)
    }

    fn is_full(&self, who: &Who, max_own: usize, max: usize) -> bool {
        self.own(who) >= max_own || self.count >= max
    }

    fn remove(&mut self, who: &Who, id: &str) -> Option<Arc<Session>> {
        let own = self.by_principal.get_mut(who)?;
        let session = own.remove(id)?;
        if own.is_empty() {
            self.by_principal.remove(who);
        }
        self.count = self.count.saturating_sub(1);
        Some(session)
    }

    fn take_expired(&mut self, now: u64, idle: Duration) -> Vec<Arc<Session>> {
        self.take(|session| expired(session, now, idle))
    }

    /// Removes and returns the longest idle session, of one principal or of all.
    fn take_oldest(&mut self, of: Option<&Who>) -> Option<Arc<Session>> {
        let (_, who, id) = self
            .by_principal
            .iter()
            .filter(|(who, _)| of.is_none_or(|of| of == *who))
            .flat_map(|(who, own)| own.values().map(move |session| (who, session)))
            .filter_map(|(who, session)| Some((session.idle_since()?, who, &session.id)))
            .min_by_key(|(since, ..)| *since)?;
        let (who, id) = (who.clone(), id.clone());
        self.remove(&who, &id)
    }

    fn take(&mut self, wanted: impl Fn(&Session) -> bool) -> Vec<Arc<Session>> {
        let mut taken = Vec::new();
        self.by_principal.retain(|_, own| {
            taken.extend(own.extract_if(|_, session| wanted(session)).map(|(_, session)| session));
            !own.is_empty()
        });
        self.count = self.count.saturating_sub(taken.len());
        taken
    }
}

fn expired(session: &Session, now: u64, idle: Duration) -> bool {
    let idle_for = session.idle_since().map(|since| u128::from(now.saturating_sub(since)));
    idle_for.is_some_and(|idle_for| idle_for > idle.as_nanos())
}

/// Ends sessions that were removed from the table, in the background.
fn end_all(sessions: Vec<Arc<Session>>) {
    for session in sessions {
        tokio::spawn(async move { session.end(SessionOutcome::Failed).await });
    }
}
