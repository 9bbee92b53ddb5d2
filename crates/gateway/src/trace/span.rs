//! Spans in progress.

use std::{
    future::Future,
    sync::Arc,
    time::{Instant, SystemTime},
};

use parking_lot::Mutex;
use toolcrib_core::{
    call::{CallError, Outcome},
    trace::{AttributeValue, Parent, SpanKind, SpanName, TraceContext},
};

use super::{
    context::TaskContext,
    open::OpenSpan,
    recorder::{Recorder, new_span, root},
};

/// A span in progress. Dropping it finishes it.
pub struct ActiveSpan {
    context: Option<TraceContext>,
    /// `None` for an unrecorded span. In a box, because spans are part of the futures of every
    /// call.
    open: Option<Box<Mutex<OpenSpan>>>,
}

/// The error code for a failure that the tool reports.
const TOOL_ERROR: &str = "tool_error";

// === impl ActiveSpan ===

impl ActiveSpan {
    /// An unrecorded span. Requests continue the trace of `context`.
    pub(super) fn unrecorded(context: Option<TraceContext>) -> Self {
        Self { context, open: None }
    }

    pub(super) fn begin(
        recorder: &Arc<Recorder>,
        parent: Option<TraceContext>,
        is_remote: bool,
        kind: SpanKind,
        name: impl FnOnce() -> SpanName,
    ) -> Self {
        let (context, parent) = match parent {
            Some(parent) if !parent.is_sampled() => return Self::unrecorded(Some(parent)),
            Some(above) => {
                let parent = Parent { span: above.span, is_remote };
                (above.at(new_span()), Some(parent))
            }
            None => match root(recorder.sampling) {
                root if root.is_sampled() => (root, None),
                unsampled => return Self::unrecorded(Some(unsampled)),
            },
        };
        let began = (SystemTime::now(), Instant::now());
        let open = OpenSpan::new(recorder, context.clone(), parent, kind, name(), began);
        Self { context: Some(context), open: Some(Box::new(Mutex::new(open))) }
    }

    /// Starts a span that is part of this one.
    pub fn child(&self, kind: SpanKind, name: impl FnOnce() -> SpanName) -> Self {
        match &self.open {
            Some(open) => {
                let recorder = Arc::clone(&open.lock().recorder);
                Self::begin(&recorder, self.context.clone(), false, kind, name)
            }
            None => Self::unrecorded(self.context.clone()),
        }
    }

    /// Returns the context for requests within it.
    pub fn context(&self) -> Option<&TraceContext> {
        self.context.as_ref()
    }

    /// Adds an attribute.
    pub fn set(&self, key: &'static str, value: impl Into<AttributeValue>) {
        if let Some(open) = &self.open {
            open.lock().set(key, value.into());
        }
    }

    /// Sets its name.
    pub(super) fn rename(&self, name: impl FnOnce() -> SpanName) {
        if let Some(open) = &self.open
            && let Some(span) = &mut open.lock().span
        {
            span.name = name();
        }
    }

    /// Sets the error code of the span.
    pub fn fail(&self, code: &'static str) {
        if let Some(open) = &self.open {
            open.lock().fail(code);
        }
    }

    /// Whether work within it has another place in a trace than the current task. Other work need
    /// not [`run`](Self::run) within it.
    pub(crate) fn leads_elsewhere(&self) -> bool {
        self.open.is_some() || self.context != TaskContext::current_trace()
    }

    /// Finishes it with the result of its work.
    pub(crate) fn close<T>(self, result: Result<T, CallError>) -> Result<T, CallError> {
        if let Err(error) = &result {
            self.fail(error.code());
        }
        result
    }

    /// Runs `work` within it, so that spans of `work` are its parts.
    pub async fn run<F: Future>(&self, work: F) -> F::Output {
        TaskContext::current().at(self.context.clone()).enter(work).await
    }

    /// Notes the result of a call.
    pub(crate) fn end(&self, result: &Result<Outcome, CallError>) {
        match result {
            Ok(outcome) if !outcome.is_error => {}
            Ok(_) => self.fail(TOOL_ERROR),
            Err(error) => self.fail(error.code()),
        }
    }
}
