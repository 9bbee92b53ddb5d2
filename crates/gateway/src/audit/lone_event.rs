//! Events outside of calls.

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, NewEvent},
    id::TenantId,
};

use crate::ids::new_id;

/// Creates an event in a new run, without a cause.
pub(crate) fn lone_event(tenant: TenantId, body: EventBody, now: Timestamp) -> NewEvent {
    NewEvent {
        event_id: new_id(),
        tenant,
        run_id: new_id(),
        body,
        timestamp: now,
        causation_id: None,
    }
}
