//! The calls of a run before this process, from the log and the store of runs.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use toolcrib_core::{
    event::{EventBody, EventQuery, ToolSessionOpened},
    id::{CallId, EventId, RunId, SessionId, TenantId, ToolId},
    store::{KeptRun, StoreError},
};

use super::failure::StepOutcome;
use crate::audit::Audit;

/// Events of one run per page, and the most pages of one run.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 200;

/// The calls of a run before this process.
#[derive(Default)]
pub(super) struct EarlierCalls {
    pub(super) kept: HashMap<CallId, StepOutcome>,
    pub(super) history: Arc<History>,
}

/// The state of a call before this process.
pub(super) enum EarlierCall {
    /// It has finished.
    Kept(StepOutcome),
    /// It called a workflow whose run must continue.
    Child(Box<KeptRun>),
    /// It was refused.
    Refused,
    /// It started, and its result is unknown.
    Interrupted,
}

/// The calls of a run in the log, and its nested runs that have not continued so far.
#[derive(Default)]
pub(super) struct History {
    pub(super) calls: HashMap<CallId, Trace>,
    pub(super) open_sessions: HashMap<(SessionId, ToolId), EventId>,
    pub(super) children: Mutex<HashMap<CallId, KeptRun>>,
}

pub(super) struct Trace {
    pub(super) opened: EventId,
    refused: bool,
}

// === impl EarlierCalls ===

impl EarlierCalls {
    /// The state of `call` before this process; `None` if it was never made.
    pub(super) fn of(&self, call: &CallId) -> Option<EarlierCall> {
        if let Some(ended) = self.kept.get(call) {
            return Some(EarlierCall::Kept(ended.clone()));
        }
        let trace = self.history.calls.get(call)?;
        let child = self.history.children.lock().remove(call);
        Some(match child {
            Some(child) => EarlierCall::Child(Box::new(child)),
            None if trace.refused => EarlierCall::Refused,
            None => EarlierCall::Interrupted,
        })
    }
}

// === impl History ===

impl History {
    pub(super) async fn read(
        audit: &Audit,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<Self, StoreError> {
        let mut query = EventQuery {
            tenant: Some(tenant.clone()),
            run: Some(run.clone()),
            limit: PAGE,
            ..EventQuery::default()
        };
        let mut history = Self::default();
        for _ in 0..MAX_PAGES {
            let page = audit.read(query.clone()).await?;
            query.after = page.last().map(|last| last.position);
            let full = page.len() >= PAGE;
            for logged in page {
                history.add(logged.event.event_id, logged.event.body);
            }
            if !full {
                return Ok(history);
            }
        }
        Err(StoreError::Unavailable("the run has more events than are read".to_owned()))
    }

    fn add(&mut self, id: EventId, body: EventBody) {
        match body {
            EventBody::ToolCalled(called) => {
                self.calls.insert(called.call_id, Trace { opened: id, refused: false });
            }
            EventBody::ToolReturned(returned) => {
                let interrupted =
                    returned.error.as_ref().is_some_and(|error| error.code == "interrupted");
                if let Some(trace) = self.calls.get_mut(&returned.call_id) {
                    trace.refused = returned.duration_ms.is_none() && !interrupted;
                }
            }
            EventBody::ToolSessionOpened(ToolSessionOpened { session_id, tool_id }) => {
                self.open_sessions.insert((session_id, tool_id), id);
            }
            EventBody::ToolSessionClosed(closed) => {
                self.open_sessions.remove(&(closed.session_id, closed.tool_id));
            }
            // No other type opens or closes anything.
            _ => {}
        }
    }
}
