//! Events that belong to no call.

use toolcrib_core::{
    clock::Timestamp,
    event::{EventBody, NewEvent},
    id::TenantId,
};

use crate::ids::new_id;

/// Returns an event in a run of its own, which no other event caused.
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
