//! The MCP attributes of the span of a request, by the semantic conventions for MCP.
//!
//! A request names its place in a trace in `_meta`, which takes precedence over the headers that
//! carried it.

use serde_json::{Map, Value};
use toolcrib_core::trace::{Name, SpanName, TRACEPARENT, TRACESTATE, TraceContext};
use toolcrib_gateway::{CallReport, metrics::Surface, trace::TaskContext};
use toolcrib_mcp::{
    method::{CALL_TOOL, DISCOVER, INITIALIZE, LIST_TOOLS, LISTEN, PING},
    revision,
};

use super::{era, protocol::Request};

/// Methods that have their name in a span.
const METHODS: [&str; 6] = [CALL_TOOL, LIST_TOOLS, INITIALIZE, DISCOVER, LISTEN, PING];

/// Members of `_meta` that belong to a trace and are forwarded to the upstream.
const MEMBERS: [&str; 3] = [TRACEPARENT, TRACESTATE, "baggage"];
/// Longest value of such a member, in bytes; W3C requires 8 192 for baggage.
const MAX_MEMBER: usize = 8_192;

/// Names the span of the current request, and moves it into the trace of its `_meta`.
pub(super) fn request(request: &Request) {
    if let Some(trace) = era::meta(&request.params).and_then(TraceContext::from_meta) {
        TaskContext::join(&trace);
    }
    let Some(method) = METHODS.into_iter().find(|known| *known == request.method) else { return };
    TaskContext::with_request(|span| {
        span.rename(|| method.into());
        span.set("mcp.method.name", method);
    });
}

/// Notes the protocol version of the current request.
pub(super) fn version(version: Option<&str>) {
    let known = revision::ALL.iter().find(|known| Some(**known) == version);
    if let Some(known) = known.copied() {
        TaskContext::with_request(|span| span.set("mcp.protocol.version", known));
    }
}

/// Notes the session of the current request, which this server has opened.
pub(super) fn session(id: &str) {
    TaskContext::with_request(|span| span.set("mcp.session.id", Name::chosen_here(id)));
}

/// Notes that the current request came over a pair of pipes.
pub(super) fn pipe(surface: Surface) {
    TaskContext::with_request(|span| {
        span.set("network.transport", "pipe");
        span.set("toolcrib.surface", surface.as_str());
    });
}

/// Notes the tool and the result of the current request's call.
pub(super) fn called(report: &CallReport) {
    TaskContext::with_request(|span| {
        span.set("gen_ai.operation.name", "execute_tool");
        if let Some(entry) = &report.entry {
            span.rename(|| SpanName::of(CALL_TOOL, &entry.id));
            span.set("gen_ai.tool.name", &entry.id);
        }
        match &report.result {
            Ok(outcome) if outcome.is_error => span.fail("tool_error"),
            Ok(_) => {}
            Err(error) => span.fail(error.code()),
        }
    });
}

/// The members of a trace in the parameters of a call.
pub(super) fn members(params: &Map<String, Value>) -> Map<String, Value> {
    let Some(meta) = era::meta(params) else { return Map::new() };
    MEMBERS
        .into_iter()
        .filter_map(|key| Some((key, meta.get(key)?)))
        .filter(|(_, value)| value.as_str().is_some_and(|text| text.len() <= MAX_MEMBER))
        .map(|(key, value)| (key.to_owned(), value.clone()))
        .collect()
}
