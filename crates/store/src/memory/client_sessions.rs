//! Closed sessions of clients in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use toolcrib_core::{
    clock::Timestamp,
    store::{ClientSession, ClientSessionStore, SessionNotice, StoreError},
};

use super::shared::{ChangeCounter, lock};
use crate::page::MAX_READ;

/// Closed sessions of clients in memory, where no other server sees them.
#[derive(Debug)]
pub(super) struct MemoryClientSessions {
    state: Mutex<State>,
    changes: Arc<ChangeCounter>,
}

#[derive(Debug, Default)]
struct State {
    notices: Vec<(SessionNotice, Timestamp, Timestamp)>,
    /// Sessions opened up to here are closed.
    ended: Option<Timestamp>,
}

impl MemoryClientSessions {
    pub(super) fn new(changes: &Arc<ChangeCounter>) -> Self {
        Self { state: Mutex::default(), changes: Arc::clone(changes) }
    }

    fn add(&self, session: ClientSession, cancels: Option<String>, until: Timestamp) {
        let mut state = lock(&self.state);
        let number = self.changes.count(|changes| &mut changes.sessions);
        let notice = SessionNotice { number, session: session.id, cancels };
        state.notices.push((notice, session.opened, until));
    }
}

#[async_trait]
impl ClientSessionStore for MemoryClientSessions {
    async fn end(&self, session: ClientSession, until: Timestamp) -> Result<(), StoreError> {
        if !self.has_ended(session).await? {
            self.add(session, None, until);
        }
        Ok(())
    }

    async fn has_ended(&self, session: ClientSession) -> Result<bool, StoreError> {
        let state = lock(&self.state);
        let ends =
            |notice: &SessionNotice| notice.session == session.id && notice.cancels.is_none();
        Ok(state.ended.is_some_and(|ended| session.opened <= ended)
            || state.notices.iter().any(|(notice, ..)| ends(notice)))
    }

    async fn cancel(
        &self,
        session: ClientSession,
        request: String,
        until: Timestamp,
    ) -> Result<(), StoreError> {
        self.add(session, Some(request), until);
        Ok(())
    }

    async fn notices(&self, after: u64) -> Result<Vec<SessionNotice>, StoreError> {
        let state = lock(&self.state);
        let new = state.notices.iter().map(|(notice, ..)| notice);
        Ok(new.filter(|notice| notice.number > after).take(MAX_READ).cloned().collect())
    }

    async fn sweep(&self, now: Timestamp, max_ended: usize) -> Result<usize, StoreError> {
        let mut state = lock(&self.state);
        let before = state.notices.len();
        state.notices.retain(|(_, _, until)| *until > now);
        let ends = state.notices.iter().filter(|(notice, ..)| notice.cancels.is_none()).count();
        let mut surplus = ends.saturating_sub(max_ended);
        let State { notices, ended } = &mut *state;
        notices.retain(|(notice, opened, _)| {
            let goes = surplus > 0 && notice.cancels.is_none();
            if goes {
                surplus -= 1;
                *ended = (*ended).max(Some(*opened));
            }
            !goes
        });
        Ok(before - state.notices.len())
    }
}
