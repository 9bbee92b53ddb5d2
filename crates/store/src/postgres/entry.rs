//! An event on its way into the log.

use toolcrib_core::{
    event::{EventBody, NewEvent},
    id::EventId,
    store::StoreError,
};

use crate::event_text::event_time;

/// An event as its row.
#[derive(Debug)]
pub(super) struct Record {
    event: NewEvent,
    /// The time as it is hashed.
    pub(super) timestamp: String,
    /// The payload as it is hashed and stored.
    pub(super) payload: String,
}

// === impl Record ===

impl Record {
    pub(super) fn new(event: &NewEvent) -> Result<Self, StoreError> {
        let payload = event.body.payload_text().map_err(|_| {
            StoreError::Unavailable("an event's payload has no JSON form".to_owned())
        })?;
        Ok(Self { timestamp: event_time(event.timestamp), payload, event: event.clone() })
    }

    pub(super) fn tenant(&self) -> &str {
        self.event.tenant.as_str()
    }

    pub(super) fn run(&self) -> &str {
        self.event.run_id.as_str()
    }

    pub(super) fn cause(&self) -> Option<&str> {
        self.event.causation_id.as_ref().map(EventId::as_str)
    }

    pub(super) fn event(&self) -> &NewEvent {
        &self.event
    }

    pub(super) fn body(&self) -> &EventBody {
        &self.event.body
    }
}
