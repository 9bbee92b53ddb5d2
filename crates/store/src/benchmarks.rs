//! Entry points for the benchmarks in `benches/`. No part of the interface.

use crate::sqlite::compact::{Payload, join};

/// The small form of an event's payload.
#[derive(Debug)]
pub struct CompactPayload(Payload);

impl CompactPayload {
    /// Splits a JSON text into its form and parts.
    pub fn split(payload: &str) -> Option<Self> {
        Payload::split(payload).map(Self)
    }

    /// Joins form and parts to the JSON text.
    pub fn join(&self) -> Option<String> {
        let mut payload = String::new();
        join(&self.0.form, &self.0.parts, &mut payload).map(|()| payload)
    }
}
