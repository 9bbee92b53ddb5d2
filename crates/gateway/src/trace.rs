//! Spans of requests and calls, and the ids for log lines.
//!
//! A [`Tracer`] starts spans and passes finished ones to the program's
//! [`SpanSink`](toolcrib_core::trace::SpanSink). Without a sink, spans only propagate the caller's
//! context to upstreams.
//!
//! Invariant (I-94): a call never waits for its spans: they are passed on after they finish, and
//! dropped if there is no room.

mod call;
mod context;
mod open;
mod recorder;
mod request;
mod span;
#[cfg(test)]
mod tests;
mod tracer;

pub(crate) use self::{call::CallSpan, context::note_run};
pub use self::{
    context::{LogIds, TaskContext, log_ids},
    request::RequestSpan,
    span::ActiveSpan,
    tracer::Tracer,
};
