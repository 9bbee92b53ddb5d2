//! The table of open sessions.
//!
//! Invariant (I-27): their number is limited, in total and per principal. Unused sessions leave the
//! table. If the table is full, the longest idle session of one principal makes room for a new one,
//! and is restored by its next request. If all sessions that could make room are in use, no new
//! session is opened, and its client is served without one.
//!
//! Invariant (I-105): a tenant beyond its share closes only its sessions, never those of a tenant
//! within its share.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use toolcrib_config::McpConfig;
use toolcrib_core::{
    canonical::Digest,
    event::SessionOutcome,
    principal::{AuthMethod, Principal, PrincipalKey},
    share::Shares,
    store::StoreError,
};
use toolcrib_gateway::{CatalogScope, Gateway, client_sessions::SessionListener, tasks::Policy};

use super::{Handshake, Session, SessionHold};
use crate::mcp::protocol::Id;

/// The sessions of one server.
pub(crate) struct Sessions {
    gateway: Gateway,
    idle: Duration,
    max: usize,
    max_of_principal: usize,
    table: Arc<OpenSessions>,
}

struct OpenSessions(Mutex<Table>);

struct Table {
    /// By principal, then by session id, so that an id alone matches no session.
    sessions: HashMap<PrincipalKey, HashMap<Box<str>, Arc<Session>>>,
    shares: Shares,
    /// Whether a task removes expired sessions.
    swept: bool,
}

/// Bounds of that task's interval, a quarter of the idle time.
const SWEEP: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(30));

impl Sessions {
    pub(crate) fn new(gateway: Gateway, config: &McpConfig) -> Self {
        let table = Arc::new(OpenSessions(Mutex::new(Table::new(config.max_sessions.get()))));
        let listener = Arc::downgrade(&table);
        gateway.client_sessions().listen(listener);
        Self {
            gateway,
            idle: config.session_idle,
            max: config.max_sessions.get(),
            max_of_principal: config.max_sessions_per_principal.get(),
            table,
        }
    }

    /// Opens a session for `principal` in a part of the catalog, if there is room and the store can be
    /// read.
    pub(crate) async fn open(
        &self,
        principal: &Principal,
        within: &CatalogScope,
        handshake: Handshake,
    ) -> Option<SessionHold> {
        let sessions = self.gateway.client_sessions();
        let issued = sessions.issue(principal, within, &handshake.content()).await;
        let issued = issued
            .inspect_err(|error| tracing::warn!(%error, "a client is served without a session"))
            .ok()?;
        let gateway = self.gateway.clone();
        let session = Session::new(Some(issued), gateway, within.clone(), handshake);
        self.insert(principal, &session)
    }

    /// Finds the session `id` that `principal` has in a part of the catalog, and keeps it alive.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub(crate) async fn find(
        &self,
        principal: &Principal,
        within: &CatalogScope,
        id: &str,
    ) -> Result<Option<SessionHold>, StoreError> {
        if let Some(hold) = self.find_here(principal, id) {
            // The session belongs to another URL, so it is unknown here.
            return Ok((hold.session().within == *within).then_some(hold));
        }
        let issued = self.gateway.client_sessions().open(principal, within, id).await?;
        let handshake = issued.as_ref().and_then(|stored| Handshake::of_content(&stored.content));
        let Some(handshake) = handshake else { return Ok(None) };
        let session = Session::new(issued, self.gateway.clone(), within.clone(), handshake);
        // The client may have missed changes.
        session.known.make_unknown();
        let hold = self.insert(principal, &session);
        Ok(Some(hold.unwrap_or_else(|| session.hold_without_room())))
    }

    /// Closes `session` of `principal` for every server.
    pub(crate) async fn end(
        &self,
        principal: &Principal,
        session: &Session,
    ) -> Result<(), StoreError> {
        if let Some(shared) = session.shared {
            self.gateway.client_sessions().end(shared).await?;
        }
        self.table.0.lock().remove(&PrincipalKey::of(principal), &session.id);
        session.end(SessionOutcome::Completed).await;
        Ok(())
    }

    fn find_here(&self, principal: &Principal, id: &str) -> Option<SessionHold> {
        let owner = PrincipalKey::of(principal);
        let mut table = self.table.0.lock();
        let session = table.sessions.get(&owner)?.get(id)?;
        if !expired(session, self.now(), self.idle) {
            return Some(session.hold());
        }
        let session = table.remove(&owner, id)?;
        drop(table);
        end_all(vec![session]);
        None
    }

    /// Adds `session` to the table, or finds it there, and keeps it alive; `None` without room.
    fn insert(&self, principal: &Principal, session: &Arc<Session>) -> Option<SessionHold> {
        let owner = PrincipalKey::of(principal);
        // Callers without credentials share one principal.
        let max_own = match principal.auth == AuthMethod::Anonymous {
            true => self.max,
            false => self.max_of_principal,
        };
        let mut table = self.table.0.lock();
        if let Some(open) = table.sessions.get(&owner).and_then(|own| own.get(&session.id)) {
            return Some(open.hold());
        }
        let mut ended = Vec::new();
        let mut room = table.take(&owner, max_own);
        if !room {
            ended = table.take_expired(self.now(), self.idle);
            room = table.take(&owner, max_own);
        }
        if !room && let Some((giver, session)) = table.take_idle(&owner, max_own) {
            ended.push(session);
            room = match giver.tenant == owner.tenant {
                // The tenant holds no more than before.
                true => {
                    table.shares.add(&owner, 1);
                    true
                }
                false => table.take(&owner, max_own),
            };
        }
        let hold = room.then(|| session.hold());
        if room {
            let own = table.sessions.entry(owner).or_default();
            own.insert(session.id.clone(), Arc::clone(session));
        }
        let sweep = room && !std::mem::replace(&mut table.swept, true);
        drop(table);
        end_all(ended);
        if sweep {
            self.sweep();
        }
        hold
    }

    fn now(&self) -> u64 {
        self.gateway.clock().monotonic_nanos()
    }

    /// Starts a task that removes expired sessions, as long as there are sessions.
    fn sweep(&self) {
        let (table, idle) = (Arc::downgrade(&self.table), self.idle);
        let gateway = self.gateway.clone();
        let tasks = gateway.tasks().clone();
        // The task stops when the gateway is closed or the last session is gone.
        tasks.spawn("sessions", Policy::UntilDone, CancellationToken::new(), move || {
            sweep_expired(gateway.clone(), Weak::clone(&table), idle)
        });
    }
}

async fn sweep_expired(gateway: Gateway, table: Weak<OpenSessions>, idle: Duration) {
    let pause = (idle / 4).clamp(SWEEP.0, SWEEP.1);
    loop {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = gateway.until_closed() => return,
        }
        let Some(table) = Weak::upgrade(&table) else { return };
        let (ended, over) = {
            let mut table = table.0.lock();
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

impl SessionListener for OpenSessions {
    fn ended(&self, session: &Digest) {
        let mut table = self.0.lock();
        let ended = table.find(session).and_then(|(owner, id)| table.remove(&owner, &id));
        drop(table);
        if let Some(session) = ended {
            tokio::spawn(async move { session.end(SessionOutcome::Completed).await });
        }
    }

    fn cancelled(&self, session: &Digest, request: &str) {
        let table = self.0.lock();
        let found = table.find(session);
        let found = found.and_then(|(owner, id)| table.sessions.get(&owner)?.get(&id).cloned());
        drop(table);
        let request = serde_json::from_str(request).ok().as_ref().and_then(Id::of);
        if let (Some(session), Some(request)) = (found, request) {
            session.cancel_here(&request);
        }
    }
}

impl Table {
    fn new(max: usize) -> Self {
        Self { sessions: HashMap::new(), shares: Shares::new(max), swept: false }
    }

    fn all(&self) -> impl Iterator<Item = (&PrincipalKey, &Arc<Session>)> {
        self.sessions
            .iter()
            .flat_map(|(owner, own)| own.values().map(move |session| (owner, session)))
    }

    /// Finds the owner and the id of the session whose id has the hash `session`. Looks at every
    /// session, but is called rarely.
    fn find(&self, session: &Digest) -> Option<(PrincipalKey, Box<str>)> {
        let found = self
            .all()
            .find(|(_, candidate)| candidate.shared.is_some_and(|shared| shared.id == *session));
        found.map(|(owner, session)| (owner.clone(), session.id.clone()))
    }

    /// Returns whether `owner` may have one more session, and counts it.
    fn take(&mut self, owner: &PrincipalKey, max_own: usize) -> bool {
        self.shares.used_by(owner) < max_own && self.shares.take(owner, 1)
    }

    fn remove(&mut self, owner: &PrincipalKey, id: &str) -> Option<Arc<Session>> {
        let own = self.sessions.get_mut(owner)?;
        let session = own.remove(id)?;
        if own.is_empty() {
            self.sessions.remove(owner);
        }
        self.shares.give_back(owner, 1);
        Some(session)
    }

    fn take_expired(&mut self, now: u64, idle: Duration) -> Vec<Arc<Session>> {
        let expired = self.all().filter(|(_, session)| expired(session, now, idle));
        let expired: Vec<_> =
            expired.map(|(owner, session)| (owner.clone(), session.id.clone())).collect();
        expired.iter().filter_map(|(owner, id)| self.remove(owner, id)).collect()
    }

    /// Removes the longest idle session of one principal, to make room for a session of `owner`. It
    /// is one of `owner` if `owner` already has `max_own` sessions.
    fn take_idle(
        &mut self,
        owner: &PrincipalKey,
        max_own: usize,
    ) -> Option<(PrincipalKey, Arc<Session>)> {
        let oldest = |table: &Self, of: PrincipalKey| {
            let idle = table.sessions.get(&of)?.values();
            let idle = idle.filter_map(|session| Some((session.idle_since()?, &session.id)));
            let (_, id) = idle.min_by_key(|(since, _)| *since)?;
            Some((of, id.clone()))
        };
        let (of, id) = match self.shares.used_by(owner) >= max_own {
            true => oldest(self, owner.clone()),
            false => self.shares.givers(owner, 1).find_map(|of| oldest(self, of)),
        }?;
        let session = self.remove(&of, &id)?;
        Some((of, session))
    }
}

fn expired(session: &Session, now: u64, idle: Duration) -> bool {
    let idle_for = session.idle_since().map(|since| u128::from(now.saturating_sub(since)));
    idle_for.is_some_and(|idle_for| idle_for > idle.as_nanos())
}

/// Closes removed sessions in the background.
fn end_all(sessions: Vec<Arc<Session>>) {
    for session in sessions {
        tokio::spawn(async move { session.end(SessionOutcome::Failed).await });
    }
}
