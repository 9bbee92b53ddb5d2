//! The span of a call, and those of its steps.

use std::sync::Arc;

use toolcrib_core::{
    call::{CallError, Outcome},
    catalog::Entry,
    event::Transport,
    trace::{AttributeValue, SpanKind, SpanName, TraceContext},
};

use super::{span::ActiveSpan, tracer::Tracer};
use crate::metrics::Surface;

/// The span of a call, and of its steps.
#[derive(Clone)]
pub(crate) struct CallSpan(Arc<ActiveSpan>);

// === impl CallSpan ===

impl CallSpan {
    /// Starts the span of a call from `surface`, in the trace of the current request.
    pub(crate) fn begin(tracer: &Tracer, parent: Option<TraceContext>, surface: Surface) -> Self {
        let span = tracer.span(parent, SpanKind::Internal, || "execute_tool".into());
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("toolcrib.surface", surface.as_str());
        Self(Arc::new(span))
    }

    /// Sets the name of the tool, which its caller may know.
    pub(crate) fn name(&self, entry: &Entry) {
        self.0.rename(|| SpanName::of("execute_tool", &entry.id));
        self.set("gen_ai.tool.name", &entry.id);
        self.set("toolcrib.source", &entry.source);
    }

    /// Adds an attribute.
    pub(crate) fn set(&self, key: &'static str, value: impl Into<AttributeValue>) {
        self.0.set(key, value);
    }

    /// Starts the span of a step. Steps do not run inside of a future of their span: it would be
    /// moved with theirs.
    pub(crate) fn begin_step(&self, name: &'static str) -> ActiveSpan {
        self.0.child(SpanKind::Internal, || name.into())
    }

    /// Starts the span of an attempt at the tool's source.
    pub(crate) fn attempt(&self, entry: &Entry) -> ActiveSpan {
        let tool = &entry.id;
        let traits = entry.tool.source.traits();
        let kind = match traits.is_in_gateway {
            true => SpanKind::Internal,
            false => SpanKind::Client,
        };
        let span = self.0.child(kind, || SpanName::of(traits.span, tool));
        if traits.transport == Transport::Mcp {
            span.set("mcp.method.name", traits.span);
        }
        span.set("gen_ai.operation.name", "execute_tool");
        span.set("gen_ai.tool.name", tool);
        span.set("toolcrib.source", &entry.source);
        span
    }

    /// Notes the result of the call.
    pub(crate) fn end(&self, result: &Result<Outcome, CallError>) {
        self.0.end(result);
    }
}
