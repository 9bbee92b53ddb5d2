//! Observation of requests: the span, the line in the access log, and the ids of log lines.
//!
//! Invariant: no observation contains the path, the query, a header or the body of a request. A
//! route is its template, and a method outside the standard is `_OTHER`.

use std::{
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    body::Body,
    extract::{MatchedPath, Request},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, StatusCode, Version};
use http_body::{Body as _, Frame, SizeHint};
use toolcrib_core::{
    principal::Principal,
    trace::{Name, SpanName, TRACEPARENT, TRACESTATE, TraceContext, TraceId},
};
use toolcrib_gateway::{
    metrics::Surface,
    trace::{RequestSpan, TaskContext, Tracer},
};

use super::authenticate::Caller;

/// A request, until its response has been sent.
pub(super) struct ObservedRequest {
    task: TaskContext,
    method: &'static str,
    /// Waits for the end of the response; `None` if the request is not observed.
    seen: Option<RequestObservation>,
}

/// An observed request. Dropping it closes its span and writes its line.
struct RequestObservation {
    span: Option<Arc<RequestSpan>>,
    access: Option<AccessLine>,
}

/// A line of the access log.
struct AccessLine {
    began: Instant,
    request_id: HeaderValue,
    trace: OnceLock<TraceId>,
    surface: Surface,
    method: &'static str,
    route: Name,
    /// `None` if the caller disconnected before the response.
    status: Option<StatusCode>,
    caller: OnceLock<Caller>,
    /// The bytes of the response's body so far.
    bytes: u64,
}

/// The route of a request, which the router has found. It travels in the extensions of the response.
#[derive(Clone)]
pub(super) struct Route(MatchedPath);

/// A body whose end completes its observation.
struct ObservedBody {
    body: Body,
    seen: RequestObservation,
}

/// Adds the template of its route to a response.
pub(super) async fn note_route(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().cloned();
    let mut response = next.run(request).await;
    if let Some(route) = route {
        response.extensions_mut().insert(Route(route));
    }
    response
}

/// Takes the route from a response.
pub(super) fn take_route(response: &mut Response) -> Option<Route> {
    response.extensions_mut().remove()
}

/// The place in a trace that the sender of `headers` names.
fn trace_of(headers: &HeaderMap) -> Option<TraceContext> {
    let parent = headers.get(TRACEPARENT)?;
    // With two of them, neither can be trusted.
    if headers.get_all(TRACEPARENT).iter().count() > 1 {
        return None;
    }
    let state: Vec<_> =
        headers.get_all(TRACESTATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let state = (!state.is_empty()).then(|| state.join(","));
    TraceContext::parse(parent.to_str().ok()?, state.as_deref())
}

/// The name of a standard method.
fn method_name(method: &Method) -> &'static str {
    const NAMES: [&str; 9] =
        ["GET", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PATCH", "CONNECT", "TRACE"];
    NAMES.into_iter().find(|name| *name == method.as_str()).unwrap_or("_OTHER")
}

fn version_name(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}

/// The code of an error of this server.
fn error_type(status: StatusCode) -> Option<&'static str> {
    match status.as_u16() {
        500 => Some("500"),
        501 => Some("501"),
        502 => Some("502"),
        503 => Some("503"),
        504 => Some("504"),
        505.. => Some("5xx"),
        _ => None,
    }
}

// === impl ObservedRequest ===

impl ObservedRequest {
    /// Starts the observation of `request` on `surface`.
    pub(super) fn begin(
        tracer: &Tracer,
        logs_access: bool,
        request: &Request,
        request_id: &HeaderValue,
        surface: Surface,
    ) -> Self {
        let method = method_name(request.method());
        let trace = trace_of(request.headers());
        let task = tracer.request(Some(request_id.clone()), trace);
        let span = task.request().cloned();
        if let Some(span) = &span {
            span.set("http.request.method", method);
            span.set("network.protocol.name", "http");
            span.set("network.protocol.version", version_name(request.version()));
            span.set("network.transport", "tcp");
            span.set("toolcrib.surface", surface.as_str());
        }
        let access = logs_access.then(|| AccessLine {
            began: Instant::now(),
            request_id: request_id.clone(),
            trace: OnceLock::new(),
            surface,
            method,
            route: Name::chosen_here(""),
            status: None,
            caller: OnceLock::new(),
            bytes: 0,
        });
        let is_seen = span.is_some() || access.is_some();
        Self { task, method, seen: is_seen.then_some(RequestObservation { span, access }) }
    }

    /// Runs `work`, which answers the request.
    pub(super) async fn run<F: Future>(&self, work: F) -> F::Output {
        let access = self.seen.as_ref().and_then(|seen| seen.access.as_ref());
        let Some(access) = access else { return self.task.clone().enter(work).await };
        let noting = async {
            let output = work.await;
            // The body may have named another trace than the headers.
            if let Some(trace) = TaskContext::current().trace() {
                access.trace.get_or_init(|| trace.trace);
            }
            output
        };
        self.task.clone().enter(noting).await
    }

    /// Notes the caller of the request.
    pub(super) fn caller(&self, caller: &Caller) {
        let Some(seen) = &self.seen else { return };
        if let Some(access) = &seen.access {
            access.caller.get_or_init(|| caller.clone());
        }
        if let Some(span) = &seen.span {
            let Principal { tenant, id, .. } = &*caller.0;
            span.set("toolcrib.tenant", tenant);
            span.set("toolcrib.principal", id);
        }
    }

    /// Completes the observation after the body of `response` has been sent. `template` is the
    /// route of requests without a `route`.
    pub(super) fn end(self, response: Response, route: Option<Route>, template: &str) -> Response {
        let Some(mut seen) = self.seen else { return response };
        let route = Name::chosen_here(route.as_ref().map_or(template, |route| route.0.as_str()));
        let status = response.status();
        if let Some(span) = &seen.span {
            span.set("http.route", route.clone());
            span.set("http.response.status_code", status.as_u16());
            if let Some(code) = error_type(status) {
                span.fail(code);
            }
            if !span.has("mcp.method.name") {
                span.rename(|| SpanName::of(self.method, route.clone()));
            }
        }
        if let Some(access) = &mut seen.access {
            access.status = Some(status);
            access.route = route;
        }
        response.map(|body| match body.is_end_stream() {
            // Completed now: the length of an empty body must stay known.
            true => body,
            false => Body::new(ObservedBody { body, seen }),
        })
    }
}

// === impl AccessLine ===

impl Drop for AccessLine {
    fn drop(&mut self) {
        let principal = self.caller.get().map(|Caller(principal)| principal);
        tracing::info!(
            target: "toolcrib::access",
            method = self.method,
            route = self.route.as_str(),
            status = self.status.map(|status| status.as_u16()),
            duration_ms = self.began.elapsed().as_secs_f64() * 1_000.0,
            bytes = self.bytes,
            surface = self.surface.as_str(),
            tenant = principal.map(|principal| principal.tenant.as_str()),
            principal = principal.map(|principal| principal.id.as_str()),
            request_id = self.request_id.to_str().unwrap_or_default(),
            trace_id = self.trace.get().map(tracing::field::display),
            "request"
        );
    }
}

// === impl ObservedBody ===

impl http_body::Body for ObservedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let next = ready!(Pin::new(&mut this.body).poll_frame(context));
        if let (Some(Ok(frame)), Some(access)) = (&next, &mut this.seen.access)
            && let Some(data) = frame.data_ref()
        {
            access.bytes += data.len() as u64;
        }
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_standard_methods_have_their_name() {
        assert_eq!(method_name(&Method::PATCH), "PATCH");
        assert_eq!(method_name(&Method::from_bytes(b"CANARY").unwrap()), "_OTHER");
    }

    #[test]
    fn a_trace_is_read_from_exactly_one_header() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let mut headers = HeaderMap::new();
        assert_eq!(trace_of(&headers), None);
        headers.append(TRACEPARENT, HeaderValue::from_static(parent));
        headers.append(TRACESTATE, HeaderValue::from_static("a=1"));
        headers.append(TRACESTATE, HeaderValue::from_static("b=2"));
        let trace = trace_of(&headers).unwrap();
        assert_eq!((trace.traceparent().as_str(), trace.state()), (parent, Some("a=1,b=2")));
        headers.append(TRACEPARENT, HeaderValue::from_static(parent));
        assert_eq!(trace_of(&headers), None);
    }
}
