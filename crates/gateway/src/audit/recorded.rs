//! A call as the record has it: its identity, its opening event and its end.

use std::sync::Arc;

use toolcrib_core::{
    catalog::Entry,
    id::{AgentId, CallId, EventId, PrincipalId, RunId, TenantId},
};

/// The identity of a call in the log: its caller, its tool and its ids.
#[derive(Clone)]
pub(crate) struct CallIdentity {
    pub(crate) tenant: TenantId,
    pub(crate) principal: PrincipalId,
    /// Who acts for the principal.
    pub(crate) actors: Vec<PrincipalId>,
    pub(crate) agent: AgentId,
    pub(crate) run: RunId,
    pub(crate) call: CallId,
    pub(crate) args_hash: Option<String>,
    pub(crate) entry: Arc<Entry>,
    /// The event of the call that this one is a step of.
    pub(crate) cause: Option<EventId>,
}

/// Proof that the opening event is durable.
pub(crate) struct StartedCall {
    pub(super) call: CallIdentity,
    pub(super) event: EventId,
}

/// The origin of the closing event of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordedEnd {
    /// This process, now or soon.
    Own,
    /// Another server, which has recorded the call as interrupted.
    ClosedByAnother,
}

impl StartedCall {
    /// The opening event.
    pub(crate) fn event(&self) -> &EventId {
        &self.event
    }
}
