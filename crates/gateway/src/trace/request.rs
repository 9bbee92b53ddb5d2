//! The span of a request.

use std::{
    sync::Arc,
    time::{Instant, SystemTime},
};

use parking_lot::Mutex;
use toolcrib_core::trace::{AttributeValue, Parent, SpanKind, SpanName, TraceContext};

use super::{
    open::OpenSpan,
    recorder::{Recorder, new_span, root},
};

/// The span of a request. Its dialect may add to it and find its parent in the body.
pub struct RequestSpan {
    recorder: Arc<Recorder>,
    began: (SystemTime, Instant),
    state: Mutex<RequestState>,
}

struct RequestState {
    context: TraceContext,
    open: Option<OpenSpan>,
}

// === impl RequestSpan ===

impl RequestSpan {
    pub(super) fn begin(recorder: &Arc<Recorder>, parent: Option<TraceContext>) -> Self {
        let began = (SystemTime::now(), Instant::now());
        let (context, parent) = match parent {
            Some(above) if above.is_sampled() => {
                let parent = Parent { span: above.span, is_remote: true };
                (above.at(new_span()), Some(parent))
            }
            Some(unsampled) => (unsampled, None),
            None => (root(recorder.sampling), None),
        };
        let open = context.is_sampled().then(|| {
            let name = SpanName::from("request");
            OpenSpan::new(recorder, context.clone(), parent, SpanKind::Server, name, began)
        });
        let state = Mutex::new(RequestState { context, open });
        Self { recorder: Arc::clone(recorder), began, state }
    }

    /// Moves the span below `parent`, the sender's context in the request's body. Call it before
    /// the span has parts. The sampling decision stays, unless the configuration trusts that of
    /// the sender.
    pub(super) fn join(&self, parent: &TraceContext) -> TraceContext {
        let mut state = self.state.lock();
        let RequestState { context, open } = &mut *state;
        let sampled = match self.recorder.sampling.trust_parent {
            true => parent.is_sampled(),
            false => context.is_sampled(),
        };
        let above = parent.clone().with_sampled(sampled);
        if !sampled {
            if let Some(mut unwanted) = open.take() {
                unwanted.span = None;
            }
            *context = above.clone();
            return above;
        }
        let below = above.at(new_span());
        let parent = Some(Parent { span: above.span, is_remote: true });
        match open.as_mut().and_then(|open| open.span.as_mut()) {
            Some(span) => (span.context, span.parent) = (below.clone(), parent),
            None => {
                let (name, kind) = (SpanName::from("request"), SpanKind::Server);
                let began = self.began;
                *open =
                    Some(OpenSpan::new(&self.recorder, below.clone(), parent, kind, name, began));
            }
        }
        *context = below.clone();
        below
    }

    /// The context of its parts.
    pub fn context(&self) -> TraceContext {
        self.state.lock().context.clone()
    }

    /// Sets its name.
    pub fn rename(&self, name: impl FnOnce() -> SpanName) {
        if let Some(span) = self.state.lock().open.as_mut().and_then(|open| open.span.as_mut()) {
            span.name = name();
        }
    }

    /// Adds an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<AttributeValue>) {
        if let Some(open) = &mut self.state.lock().open {
            open.set(key, value.into());
        }
    }

    /// Returns whether it has the attribute `key`.
    pub fn has(&self, key: &'static str) -> bool {
        let state = self.state.lock();
        let span = state.open.as_ref().and_then(|open| open.span.as_ref());
        span.is_some_and(|span| span.attributes.iter().any(|(name, _)| *name == key))
    }

    /// Sets the error code of the request.
    pub fn fail(&self, code: &'static str) {
        if let Some(open) = &mut self.state.lock().open {
            open.fail(code);
        }
    }
}
