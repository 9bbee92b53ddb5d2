//! Converts spans to those of the OpenTelemetry SDK.

use std::sync::LazyLock;

use opentelemetry::{
    InstrumentationScope, KeyValue, StringValue, Value,
    trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use toolcrib_core::trace::{self, AttributeValue, Span};

/// The scope of all spans.
static SCOPE: LazyLock<InstrumentationScope> = LazyLock::new(|| {
    InstrumentationScope::builder("toolcrib").with_version(env!("CARGO_PKG_VERSION")).build()
});

pub(crate) fn span_data(span: Span) -> SpanData {
    let Span { context, parent, name, kind, start, duration, attributes, error } = span;
    let state = context.state().and_then(|state| state.parse::<TraceState>().ok());
    let span_context = SpanContext::new(
        TraceId::from_bytes(context.trace.bytes()),
        SpanId::from_bytes(context.span.bytes()),
        TraceFlags::SAMPLED,
        false,
        state.unwrap_or_default(),
    );
    let mut attributes: Vec<_> =
        attributes.into_iter().map(|(key, value)| KeyValue::new(key, attribute(value))).collect();
    let status = match error {
        Some(code) => {
            attributes.push(KeyValue::new("error.type", code));
            Status::error("")
        }
        None => Status::Unset,
    };
    SpanData {
        span_context,
        parent_span_id: parent
            .map_or(SpanId::INVALID, |parent| SpanId::from_bytes(parent.span.bytes())),
        parent_span_is_remote: parent.is_some_and(|parent| parent.is_remote),
        span_kind: match kind {
            trace::SpanKind::Server => SpanKind::Server,
            trace::SpanKind::Client => SpanKind::Client,
            trace::SpanKind::Internal => SpanKind::Internal,
        },
        name: name.to_string().into(),
        start_time: start,
        end_time: start + duration,
        attributes,
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status,
        instrumentation_scope: SCOPE.clone(),
    }
}

fn attribute(value: AttributeValue) -> Value {
    match value {
        AttributeValue::Word(word) => Value::from(word),
        AttributeValue::Number(number) => Value::from(number),
        AttributeValue::Name(name) => Value::String(StringValue::from(name.as_str().to_owned())),
    }
}
