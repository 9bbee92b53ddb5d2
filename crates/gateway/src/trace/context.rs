//! The request, run and trace that the current task works for.

use std::{cell::RefCell, future::Future, pin::Pin, sync::Arc};

use http::HeaderValue;
use toolcrib_core::{
    id::RunId,
    trace::{TraceContext, TraceId},
};

use super::request::RequestSpan;

tokio::task_local! {
    static CURRENT: RefCell<TaskContext>;
}

/// The request, run and trace that a task works for.
#[derive(Clone, Default)]
pub struct TaskContext {
    request_id: Option<HeaderValue>,
    request: Option<Arc<RequestSpan>>,
    run: Option<RunId>,
    trace: Option<TraceContext>,
}

/// The ids for log lines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogIds {
    /// The id of the HTTP request.
    pub request: Option<HeaderValue>,
    /// The run of the call.
    pub run: Option<RunId>,
    /// The trace.
    pub trace: Option<TraceId>,
}

/// The ids of the request, run and trace that the current task works for.
pub fn log_ids() -> LogIds {
    let ids = CURRENT.try_with(|task| {
        let task = task.borrow();
        LogIds {
            request: task.request_id.clone(),
            run: task.run.clone(),
            trace: task.trace.as_ref().map(|context| context.trace),
        }
    });
    ids.unwrap_or_default()
}

/// Notes the run that the current task works for.
pub(crate) fn note_run(run: &RunId) {
    // Outside of a request, log lines contain no run.
    CURRENT.try_with(|task| task.borrow_mut().run = Some(run.clone())).ok();
}

// === impl TaskContext ===

impl TaskContext {
    /// Creates the context of a request with `span`, whose sender is part of the trace `parent`.
    pub(super) fn of_request(
        request_id: Option<HeaderValue>,
        span: Option<Arc<RequestSpan>>,
        parent: Option<TraceContext>,
    ) -> Self {
        let trace = span.as_ref().map(|span| span.context()).or(parent);
        Self { request_id, request: span, run: None, trace }
    }

    /// The context of the current task; an empty one outside of a request.
    pub fn current() -> Self {
        CURRENT.try_with(|task| task.borrow().clone()).unwrap_or_default()
    }

    pub(crate) fn current_trace() -> Option<TraceContext> {
        CURRENT.try_with(|task| task.borrow().trace.clone()).ok().flatten()
    }

    /// Moves the current request into the trace in its body.
    pub fn join(parent: &TraceContext) {
        let join = |task: &RefCell<Self>| {
            let mut task = task.borrow_mut();
            let trace = match &task.request {
                Some(request) => request.join(parent),
                None => parent.clone(),
            };
            task.trace = Some(trace);
        };
        CURRENT.try_with(join).ok();
    }

    /// Runs `act` with the span of the current request, if it is recorded.
    pub fn with_request(act: impl FnOnce(&RequestSpan)) {
        let request = CURRENT.try_with(|task| task.borrow().request.clone());
        if let Some(request) = request.ok().flatten() {
            act(&request);
        }
    }

    /// Returns the span of the request.
    pub fn request(&self) -> Option<&Arc<RequestSpan>> {
        self.request.as_ref()
    }

    /// Returns the place in the trace.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// Runs `act` in this context.
    pub fn run<T>(self, act: impl FnOnce() -> T) -> T {
        CURRENT.sync_scope(RefCell::new(self), act)
    }

    /// Runs `work` in this context.
    pub fn enter<F: Future>(self, work: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(RefCell::new(self), work)
    }

    /// Wraps `work` for another task, in the context of this one.
    pub fn carry<'a, F: Future + Send + 'a>(
        work: F,
    ) -> Pin<Box<dyn Future<Output = F::Output> + Send + 'a>> {
        Box::pin(Self::current().enter(work))
    }

    /// Returns the context at another place of the trace.
    #[must_use]
    pub(crate) fn at(self, trace: Option<TraceContext>) -> Self {
        Self { trace, ..self }
    }
}
