//! The shared parts of recorded spans: their receiver, the sampling decision, and ids.

use std::sync::Arc;

use toolcrib_config::Sampling;
use toolcrib_core::trace::{SpanId, SpanSink, TraceContext, TraceId};
use uuid::Uuid;

/// The receiver of spans, and the selection of traces.
pub(super) struct Recorder {
    pub(super) sink: Arc<dyn SpanSink>,
    pub(super) sampling: Sampling,
}

/// Creates the context of a new trace.
pub(super) fn root(sampling: Sampling) -> TraceContext {
    TraceContext::new(new_trace(), new_span(), sampling.includes(random()))
}

pub(super) fn random() -> u64 {
    // The last seven bytes of a UUIDv4 are random.
    let [.., a, b, c, d, e, f, g] = Uuid::new_v4().into_bytes();
    u64::from_be_bytes([0, a, b, c, d, e, f, g])
}

fn new_trace() -> TraceId {
    loop {
        if let Some(id) = TraceId::new(Uuid::new_v4().into_bytes()) {
            return id;
        }
    }
}

pub(super) fn new_span() -> SpanId {
    loop {
        let [a, b, c, d, _, _, _, _, _, e, f, g, h, ..] = Uuid::new_v4().into_bytes();
        if let Some(id) = SpanId::new([a, b, c, d, e, f, g, h]) {
            return id;
        }
    }
}
