//! Sessions of handshake upstreams that belong to one account each.
//!
//! Invariant: every request in a session carries a token of its grant, and its id goes with no
//! other token. Its notifications reach nobody, because the shared connection follows the list.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::broadcast, time::Instant};
use toolcrib_core::{call::UpstreamError, credential::ResolvedCredential, id::CredentialId};

use super::{
    connection::Connection,
    http::{Http, HttpTarget},
    negotiation::initialize,
    peer::Peer,
    wire::Wire,
};
use crate::{context::SourceContext, error::unavailable};

/// The most sessions of one source.
const MAX_SESSIONS: usize = 64;
/// A session without a call for this long is closed.
const IDLE: Duration = Duration::from_secs(5 * 60);
const BETWEEN_LOOKS: Duration = Duration::from_secs(30);

/// The sessions of one source, by grant.
#[derive(Default)]
pub(crate) struct GrantSessions(Mutex<HashMap<CredentialId, Arc<GrantSession>>>);

/// The session of one grant. It is in use while there is a reference outside of the table.
pub(crate) struct GrantSession {
    /// `None` before the handshake. Held during it.
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    used_at: Mutex<Instant>,
}

// === impl GrantSessions ===

impl GrantSessions {
    /// The session of `grant`, and one that makes room for it. Fails if there are the most sessions
    /// and all of them are in use.
    pub(crate) fn of(
        &self,
        grant: &CredentialId,
        now: Instant,
    ) -> Result<(Arc<GrantSession>, Option<Arc<GrantSession>>), UpstreamError> {
        let mut table = self.0.lock();
        if let Some(session) = table.get(grant) {
            *session.used_at.lock() = now;
            return Ok((Arc::clone(session), None));
        }
        let mut evicted = None;
        if table.len() >= MAX_SESSIONS {
            let idle = table.iter().filter(|(_, session)| Arc::strong_count(session) == 1);
            let oldest = idle.min_by_key(|(_, session)| *session.used_at.lock());
            let oldest = oldest.map(|(id, _)| id.clone());
            let busy = || unavailable("calls of too many accounts run at once");
            evicted = table.remove(&oldest.ok_or_else(busy)?);
        }
        let session = Arc::new(GrantSession {
            connection: tokio::sync::Mutex::default(),
            used_at: Mutex::new(now),
        });
        table.insert(grant.clone(), Arc::clone(&session));
        Ok((session, evicted))
    }

    /// Closes sessions that are idle, and those of removed grants. Never completes.
    pub(crate) async fn keep_tidy(&self, removals: Option<broadcast::Receiver<CredentialId>>) {
        let Some(mut removals) = removals else { return std::future::pending().await };
        loop {
            let ended = tokio::select! {
                () = tokio::time::sleep(BETWEEN_LOOKS) => self.take_idle(Instant::now()),
                removed = removals.recv() => match removed {
                    Ok(grant) => self.0.lock().remove(&grant).into_iter().collect(),
                    // Missed ones end when they are idle.
                    Err(broadcast::error::RecvError::Lagged(_)) => Vec::new(),
                    Err(broadcast::error::RecvError::Closed) => return std::future::pending().await,
                },
            };
            close(ended).await;
        }
    }

    fn take_idle(&self, now: Instant) -> Vec<Arc<GrantSession>> {
        let mut table = self.0.lock();
        let is_idle = |session: &Arc<GrantSession>| {
            let used_at = *session.used_at.lock();
            Arc::strong_count(session) == 1 && now.duration_since(used_at) >= IDLE
        };
        table.extract_if(|_, session| is_idle(session)).map(|(_, session)| session).collect()
    }

    /// Closes all of them.
    pub(crate) async fn close(&self) {
        let all = std::mem::take(&mut *self.0.lock());
        close(all.into_values().collect()).await;
    }
}

async fn close(sessions: Vec<Arc<GrantSession>>) {
    let closed = sessions.iter().map(|session| session.close());
    futures_util::future::join_all(closed).await;
}

// === impl GrantSession ===

impl GrantSession {
    /// The connection of the session, opened with `account` if there is none. Later requests in it
    /// are sent with `account`.
    pub(crate) async fn connection(
        &self,
        target: &HttpTarget,
        context: &SourceContext,
        account: &Arc<ResolvedCredential>,
    ) -> Result<Arc<Connection>, UpstreamError> {
        let mut current = self.connection.lock().await;
        if let Some(connection) = current.as_ref().filter(|it| !it.wire.has_ended()) {
            if let Wire::Http(http) = &connection.wire {
                http.set_account(account);
            }
            return Ok(Arc::clone(connection));
        }
        let peer = Peer::new(Arc::default());
        let http = Http::of_account(target.clone(), Arc::clone(account), context, peer);
        let wire = Wire::Http(http);
        let session = tokio::time::timeout(context.limits.connect_timeout, initialize(&wire));
        let session = session.await.unwrap_or_else(|_| Err("it did not answer in time".to_owned()));
        let session = session.map_err(|reason| {
            unavailable(format!("no session of the account could be opened: {reason}"))
        })?;
        let connection = Arc::new(Connection::new(wire, session, Arc::default()));
        *current = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Drops a connection whose session the upstream has lost.
    pub(crate) async fn forget(&self, lost: &Arc<Connection>) {
        let mut current = self.connection.lock().await;
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, lost)) {
            *current = None;
        }
    }

    pub(crate) async fn close(&self) {
        let connection = self.connection.lock().await.take();
        if let Some(connection) = connection
            && let Wire::Http(http) = &connection.wire
        {
            http.close(&connection.session.era).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grant(number: usize) -> CredentialId {
        format!("grant-{number}").parse().unwrap()
    }

    #[test]
    fn the_oldest_idle_session_makes_room_and_idle_ones_end() {
        let sessions = GrantSessions::default();
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let in_use = sessions.of(&grant(0), start).unwrap().0;
        for (number, second) in (1..MAX_SESSIONS).zip(1..) {
            assert!(sessions.of(&grant(number), at(second)).unwrap().1.is_none());
        }
        let end = at(100);
        assert!(Arc::ptr_eq(&in_use, &sessions.of(&grant(0), end).unwrap().0));
        let (_, evicted) = sessions.of(&grant(100), end).unwrap();
        assert!(evicted.is_some() && !sessions.0.lock().contains_key(&grant(1)));
        assert_eq!(sessions.take_idle(end + IDLE).len(), MAX_SESSIONS - 1);
        assert_eq!(sessions.0.lock().keys().collect::<Vec<_>>(), [&grant(0)]);
        let all: Vec<_> =
            (1..MAX_SESSIONS).map(|number| sessions.of(&grant(number), end).unwrap()).collect();
        assert!(sessions.of(&grant(100), end).is_err(), "all of them are in use");
        drop(all);
        assert!(sessions.of(&grant(100), end).is_ok());
    }
}
