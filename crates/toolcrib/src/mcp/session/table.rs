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
    id::{PrincipalId, TenantId},
    principal::{AuthMethod, Principal},
};
use toolcrib_gateway::{CatalogScope, Gateway, config::McpConfig, tasks::Policy};

use super::{Hold, Session};

/// The key for counting per principal.
pub(crate) type Who = (TenantId, PrincipalId);

pub(crate) fn who(principal: &Principal) -> Who {
    (principal.tenant.clone(), principal.id.clone())
}

/// The sessions of one server.
pub(crate) struct Sessions {
    gateway: Gateway,
    idle: Duration,
    max: usize,
    max_of_principal: usize,
    table: Arc<Mutex<Table>>,
}

#[derive(Default)]
struct Table {
    /// By principal and session id, so that an id alone finds nothing.
    sessions: HashMap<(Who, Box<str>), Arc<Session>>,
    /// Whether a task removes expired sessions.
    swept: bool,
}

/// Bounds of that task's interval, which is a quarter of the idle time.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

impl Sessions {
    pub(crate) fn new(gateway: Gateway, config: &McpConfig) -> Self {
        Self {
            gateway,
            idle: config.session_idle,
            max: config.max_sessions.get(),
            max_of_principal: config.max_sessions_per_principal.get(),
            table: Arc::default(),
        }
    }

    /// Opens a session for `principal` in a part of the catalog, if there is room. `opens` is whether
    /// the client can open a URL.
    pub(crate) fn open(
        &self,
        principal: &Principal,
        within: &CatalogScope,
        opens: bool,
    ) -> Option<Arc<Session>> {
        let mut bits = [0_u8; 32];
        getrandom::fill(&mut bits)
            .inspect_err(|error| tracing::error!(%error, "no session without randomness"))
            .ok()?;
        let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bits).into_boxed_str();
        let session = Session::new(id.clone(), self.gateway.clone(), within.clone(), opens);
        let who = who(principal);
        // Callers without credentials share one principal.
        let max_own = match principal.auth == AuthMethod::Anonymous {
            true => self.max,
            false => self.max_of_principal,
        };
        let is_full =
            |table: &Table| table.count(&who) >= max_own || table.sessions.len() >= self.max;
        let mut table = self.table.lock();
        let mut ended = Vec::new();
        if is_full(&table) {
            ended = table.take_expired(self.now(), self.idle);
        }
        if table.count(&who) >= max_own {
            ended.extend(table.take_oldest(Some(&who)));
        }
        if table.sessions.len() >= self.max {
            ended.extend(table.take_oldest(None));
        }
        let room = !is_full(&table);
        if room {
            table.sessions.insert((who.clone(), id), Arc::clone(&session));
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
    pub(crate) fn find(&self, principal: &Principal, id: &str) -> Option<Hold> {
        let key = (who(principal), id.into());
        let mut table = self.table.lock();
        let session = Arc::clone(table.sessions.get(&key)?);
        if !expired(&session, self.now(), self.idle) {
            return Some(session.hold());
        }
        table.sessions.remove(&key);
        drop(table);
        end_all(vec![session]);
        None
    }

    /// Removes and returns the session `id` of `principal`.
    pub(crate) fn take(&self, principal: &Principal, id: &str) -> Option<Arc<Session>> {
        let _hold = self.find(principal, id)?;
        self.table.lock().sessions.remove(&(who(principal), id.into()))
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
            let now = gateway.clock().monotonic_nanos();
            let ended = table.take_expired(now, idle);
            table.swept = !table.sessions.is_empty();
            (ended, !table.swept)
        };
        end_all(ended);
        if over {
            return;
        }
    }
}

impl Table {
    /// Returns the number of sessions of one principal.
    fn count(&self, of: &Who) -> usize {
        self.sessions.keys().filter(|(who, _)| who == of).count()
    }

    fn take_expired(&mut self, now: u64, idle: Duration) -> Vec<Arc<Session>> {
        let expired = self.sessions.extract_if(|_, session| expired(session, now, idle));
        expired.map(|(_, session)| session).collect()
    }

    /// Removes and returns the longest idle session, of one principal or of all.
    fn take_oldest(&mut self, of: Option<&Who>) -> Option<Arc<Session>> {
        let own = self.sessions.iter().filter(|((who, _), _)| of.is_none_or(|of| of == who));
        let idle = own.filter_map(|(key, session)| Some((session.idle_since()?, key)));
        let (_, key) = idle.min_by_key(|(since, _)| *since)?;
        let key = key.clone();
        self.sessions.remove(&key)
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
