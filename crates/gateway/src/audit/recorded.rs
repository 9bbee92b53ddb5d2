//! What the record has of a call.

use toolcrib_core::id::EventId;

use super::CallIdentity;

/// Proof that the opening event is durable.
pub(crate) struct Started {
    pub(super) call: CallIdentity,
    pub(super) event: EventId,
}

/// Whose closing event of a call the record has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordedEnd {
    /// That of this process, now or soon.
    Own,
    /// That of another server, which has recorded the call as interrupted.
    ClosedByAnother,
}

impl Started {
    /// The opening event.
    pub(crate) fn event(&self) -> &EventId {
        &self.event
    }
}
