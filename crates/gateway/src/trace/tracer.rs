//! Starts spans.

use std::sync::Arc;

use http::HeaderValue;
use toolcrib_config::Sampling;
use toolcrib_core::trace::{SpanKind, SpanName, SpanSink, TraceContext};

use super::{
    context::TaskContext,
    recorder::{Recorder, random},
    request::RequestSpan,
    span::ActiveSpan,
};

/// Starts spans. Clones share it.
#[derive(Clone, Default)]
pub struct Tracer(Option<Arc<Recorder>>);

// === impl Tracer ===

impl Tracer {
    pub(crate) fn new(sink: Arc<dyn SpanSink>, sampling: Sampling) -> Self {
        Self(Some(Arc::new(Recorder { sink, sampling })))
    }

    /// Returns whether spans are recorded at all.
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Returns the context for a request from outside, in the trace of its sender. The sender's
    /// decision to record the trace counts only if the configuration trusts it.
    pub fn join(&self, context: TraceContext) -> TraceContext {
        match &self.0 {
            Some(recorder) if !recorder.sampling.trust_parent => {
                let is_sampled = recorder.sampling.includes(random());
                context.with_sampled(is_sampled)
            }
            // Without a tracer, this server takes no part in the trace and passes it on unchanged.
            Some(_) | None => context,
        }
    }

    /// Starts a span below `parent`, or at the root of a new trace. `parent` is a context of this
    /// process or a [joined](Self::join) one.
    pub fn span(
        &self,
        parent: Option<TraceContext>,
        kind: SpanKind,
        name: impl FnOnce() -> SpanName,
    ) -> ActiveSpan {
        let Some(recorder) = &self.0 else { return ActiveSpan::unrecorded(parent) };
        ActiveSpan::begin(recorder, parent, false, kind, name)
    }

    /// Starts the span of a request whose sender is part of the trace `parent`. Returns the context
    /// of the tasks that serve it.
    pub fn request(
        &self,
        request_id: Option<HeaderValue>,
        parent: Option<TraceContext>,
    ) -> TaskContext {
        let span = self.0.as_ref().map(|recorder| {
            let parent = parent.clone().map(|parent| self.join(parent));
            Arc::new(RequestSpan::begin(recorder, parent))
        });
        TaskContext::of_request(request_id, span, parent)
    }
}
