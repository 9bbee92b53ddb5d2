//! A recorded span in progress.

use std::{
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use toolcrib_core::trace::{AttributeValue, Parent, Span, SpanKind, SpanName, TraceContext};

use super::recorder::Recorder;

/// A recorded span. Dropping it finishes it and passes it on.
pub(super) struct OpenSpan {
    pub(super) recorder: Arc<Recorder>,
    began: Instant,
    /// `None` if it was passed on, or must not be.
    pub(super) span: Option<Span>,
}

// === impl OpenSpan ===

impl OpenSpan {
    pub(super) fn new(
        recorder: &Arc<Recorder>,
        context: TraceContext,
        parent: Option<Parent>,
        kind: SpanKind,
        name: SpanName,
        (start, began): (SystemTime, Instant),
    ) -> Self {
        let duration = Duration::ZERO;
        let attributes = Vec::with_capacity(8);
        let span = Span { context, parent, name, kind, start, duration, attributes, error: None };
        Self { recorder: Arc::clone(recorder), began, span: Some(span) }
    }

    pub(super) fn set(&mut self, key: &'static str, value: AttributeValue) {
        if let Some(span) = &mut self.span {
            span.attributes.push((key, value));
        }
    }

    pub(super) fn fail(&mut self, code: &'static str) {
        if let Some(span) = &mut self.span {
            span.error = Some(code);
        }
    }
}

impl Drop for OpenSpan {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            span.duration = self.began.elapsed();
            self.recorder.sink.record(span);
        }
    }
}
