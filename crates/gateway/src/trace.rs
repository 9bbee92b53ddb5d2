//! Spans of requests and calls, and the ids that log lines carry.
//!
//! A [`Tracer`] begins spans and hands those that have ended to the program's
//! [`SpanSink`](toolcrib_core::trace::SpanSink). Without one, a span is nothing but the place in the
//! caller's trace that requests to upstreams carry.
//!
//! Invariant (I-94): a call never waits for its spans: they are handed over when they have ended, and
//! dropped where there is no room.

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
