//! Traces: the context that joins the spans of several services (W3C Trace Context), and finished
//! spans.
//!
//! Invariant (I-95): a span has no place for an argument, a result, a header or a text of an
//! upstream. Its names and attributes are words of this program, numbers, identifiers, and names
//! chosen by the operator.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use serde_json::{Map, Value};

use crate::{
    hex,
    id::{ApprovalId, CallId, PrincipalId, RunId, SourceId, TenantId, ToolId},
};

/// The header, and the member of `_meta`, with the ids of a trace.
pub const TRACEPARENT: &str = "traceparent";
/// The header, and the member of `_meta`, with the data that other systems add to a trace.
pub const TRACESTATE: &str = "tracestate";

/// Longest `tracestate` that is passed on, in bytes; W3C requires at least this.
const MAX_STATE: usize = 512;
/// The flag of a recorded trace.
const SAMPLED: u8 = 1;

/// The id of a trace: 16 bytes, not all of them zero (W3C Trace Context).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span in its trace: 8 bytes, not all of them zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// A place in a trace, as requests carry it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The id that all spans of the trace share.
    pub trace: TraceId,
    /// The parent of the next span.
    pub span: SpanId,
    flags: u8,
    state: Option<Arc<str>>,
}

/// A finished span.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    /// Its place in its trace.
    pub context: TraceContext,
    /// The span that contains it.
    pub parent: Option<Parent>,
    /// Its name.
    pub name: SpanName,
    /// Its side of an exchange.
    pub kind: SpanKind,
    /// When it started.
    pub start: SystemTime,
    /// How long it took.
    pub duration: Duration,
    /// Its attributes.
    pub attributes: Vec<(&'static str, AttributeValue)>,
    /// The code of the error with which it failed.
    pub error: Option<&'static str>,
}

/// The parent of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Its id.
    pub span: SpanId,
    /// Whether it belongs to another process.
    pub is_remote: bool,
}

/// The side of an exchange that a span describes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    /// The answer to a request.
    Server,
    /// A request.
    Client,
    /// Neither.
    Internal,
}

/// The name of a span: a word, and possibly the name of its object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanName {
    word: &'static str,
    object: Option<Name>,
}

/// The value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    /// A word of this program.
    Word(&'static str),
    /// A number.
    Number(i64),
    /// An identifier, or a name chosen by the operator.
    Name(Name),
}

/// An identifier, or a name chosen by the operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name(Arc<str>);

/// Receives finished spans.
pub trait SpanSink: Send + Sync + 'static {
    /// Takes a span. Must not block; drops and counts the span if there is no room.
    fn record(&self, span: Span);

    /// The numbers so far.
    fn counts(&self) -> SpanCounts;
}

/// Numbers of spans since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SpanCounts {
    /// Accepted by the receiver.
    pub exported: u64,
    /// Lost, because the queue was full or the receiver did not accept them.
    pub dropped: u64,
}

// === impl TraceId ===

impl TraceId {
    /// Wraps random bytes; all zeros are invalid.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// The bytes, in the order of the hexadecimal form.
    pub fn bytes(self) -> [u8; 16] {
        self.0
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl SpanId ===

impl SpanId {
    /// Wraps random bytes; all zeros are invalid.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// The bytes, in the order of the hexadecimal form.
    pub fn bytes(self) -> [u8; 8] {
        self.0
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(&self.0))
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

// === impl TraceContext ===

impl TraceContext {
    /// Creates the context of a trace that starts here.
    pub fn new(trace: TraceId, span: SpanId, is_sampled: bool) -> Self {
        Self { trace, span, flags: u8::from(is_sampled), state: None }
    }

    /// Parses the two headers. Returns `None` for an invalid `traceparent`, and omits an invalid
    /// `tracestate`.
    pub fn parse(traceparent: &str, tracestate: Option<&str>) -> Option<Self> {
        let mut parts = traceparent.splitn(5, '-');
        let [version, trace, span, flags] =
            [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let version: [u8; 1] = hex::decode(version)?;
        // Later versions may append parts; version 255 is invalid.
        if version == [0xff] || (version == [0] && parts.next().is_some()) {
            return None;
        }
        let trace = TraceId::new(hex::decode(trace)?)?;
        let span = SpanId::new(hex::decode(span)?)?;
        let [flags] = hex::decode(flags)?;
        let is_valid = |state: &&str| {
            (1..=MAX_STATE).contains(&state.len())
                && state.bytes().all(|byte| (0x20..0x7f).contains(&byte))
        };
        // Only the optional white space of a header is trimmed.
        let trimmed = tracestate.map(|state| state.trim_matches([' ', '\t']));
        let state = trimmed.filter(is_valid).map(Arc::from);
        Some(Self { trace, span, flags, state })
    }

    /// Removes `tracestate`, which callers choose.
    #[must_use]
    pub fn without_state(self) -> Self {
        Self { state: None, ..self }
    }

    /// Reads the context from a caller's `_meta`.
    pub fn from_meta(meta: &Map<String, Value>) -> Option<Self> {
        let text = |key| meta.get(key).and_then(Value::as_str);
        Self::parse(text(TRACEPARENT)?, text(TRACESTATE))
    }

    /// Replaces the context in `_meta` by `context`.
    pub fn write_meta(context: Option<&Self>, meta: &mut Map<String, Value>) {
        let Some(context) = context else {
            meta.shift_remove(TRACEPARENT);
            meta.shift_remove(TRACESTATE);
            return;
        };
        meta.insert(TRACEPARENT.to_owned(), Value::String(context.traceparent()));
        match context.state() {
            Some(state) => meta.insert(TRACESTATE.to_owned(), Value::String(state.to_owned())),
            None => meta.shift_remove(TRACESTATE),
        };
    }

    /// The value of the header `traceparent`.
    pub fn traceparent(&self) -> String {
        format!("00-{}-{}-{}", self.trace, self.span, hex::encode(&[self.flags]))
    }

    /// The value of the header `tracestate`.
    pub fn state(&self) -> Option<&str> {
        self.state.as_deref()
    }

    /// Whether the trace is recorded.
    pub fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Sets whether the trace is recorded.
    #[must_use]
    pub fn with_sampled(self, is_sampled: bool) -> Self {
        Self { flags: self.flags & !SAMPLED | u8::from(is_sampled), ..self }
    }

    /// The context of `span` in the same trace.
    #[must_use]
    pub fn at(&self, span: SpanId) -> Self {
        Self { span, ..self.clone() }
    }
}

// === impl SpanName ===

impl SpanName {
    /// Creates a name of a word and the name of its object, such as `execute_tool mcp:files.read`.
    pub fn of(word: &'static str, object: impl Into<Name>) -> Self {
        Self { word, object: Some(object.into()) }
    }
}

impl From<&'static str> for SpanName {
    fn from(word: &'static str) -> Self {
        Self { word, object: None }
    }
}

impl fmt::Display for SpanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word)?;
        match &self.object {
            Some(object) => write!(f, " {}", object.0),
            None => Ok(()),
        }
    }
}

// === impl Name ===

impl Name {
    /// Wraps a name chosen by this program or its operator: a route, a step of a workflow file, the
    /// id of a session. Never a text of a caller or an upstream.
    pub fn chosen_here(text: &str) -> Self {
        Self(text.into())
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

macro_rules! names {
    ($($id:ty),*) => {$(
        impl From<&$id> for Name {
            fn from(id: &$id) -> Self {
                Self(id.as_str().into())
            }
        }
        impl From<&$id> for AttributeValue {
            fn from(id: &$id) -> Self {
                Self::Name(id.into())
            }
        }
    )*};
}

names!(ToolId, SourceId, TenantId, PrincipalId, RunId, CallId, ApprovalId);

impl From<&'static str> for AttributeValue {
    fn from(word: &'static str) -> Self {
        Self::Word(word)
    }
}

impl From<u16> for AttributeValue {
    fn from(number: u16) -> Self {
        Self::Number(number.into())
    }
}

impl From<Name> for AttributeValue {
    fn from(name: Name) -> Self {
        Self::Name(name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_read_and_written_without_a_change() {
        let state = "congo=t61rcWkgMzE,rojo=00f067aa0ba902b7";
        for parent in [PARENT, &PARENT.replace("-01", "-00"), &PARENT.replace("-01", "-03")] {
            let context = TraceContext::parse(parent, Some(state)).unwrap();
            assert_eq!(context.traceparent(), parent);
            assert_eq!(context.state(), Some(state));
            assert_eq!(context.is_sampled(), !parent.ends_with("00"));
            let kept = context.clone().with_sampled(context.is_sampled());
            assert_eq!(kept, context);
        }
        let off = TraceContext::parse(PARENT, None).unwrap().with_sampled(false);
        assert_eq!(off.traceparent(), PARENT.replace("-01", "-00"));
    }

    #[test]
    fn a_malformed_parent_is_ignored_and_a_later_version_is_understood() {
        for bad in [
            "",
            "00",
            "garbage",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-1",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            " 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(TraceContext::parse(bad, None), None, "{bad}");
        }
        let later = PARENT.replacen("00", "01", 1) + "-more";
        assert_eq!(TraceContext::parse(&later, None).unwrap().traceparent(), PARENT);
        let long = "a=".to_owned() + &"x".repeat(600);
        for state in ["", "a=\u{e9}", "a=\n", &long] {
            let context = TraceContext::parse(PARENT, Some(state)).unwrap();
            assert_eq!(context.state(), None, "{state:?}");
        }
    }

    #[test]
    fn a_context_in_meta_replaces_the_one_that_was_there() {
        let mut meta = Map::new();
        meta.insert("baggage".to_owned(), json!("a=b"));
        meta.insert(TRACEPARENT.to_owned(), json!(PARENT));
        meta.insert(TRACESTATE.to_owned(), json!("a=b"));
        let context = TraceContext::from_meta(&meta).unwrap();
        let next = context.at(SpanId::new([7; 8]).unwrap());
        TraceContext::write_meta(Some(&next), &mut meta);
        assert_eq!(TraceContext::from_meta(&meta), Some(next));
        TraceContext::write_meta(None, &mut meta);
        assert_eq!(Value::Object(meta), json!({ "baggage": "a=b" }));
        let number = json!({ TRACEPARENT: 7 });
        assert_eq!(TraceContext::from_meta(number.as_object().unwrap()), None);
    }

    // I-95
    #[test]
    fn names_are_a_word_and_its_object() {
        let tool = ToolId::parse("mcp:files.read").unwrap();
        assert_eq!(SpanName::of("execute_tool", &tool).to_string(), "execute_tool mcp:files.read");
        assert_eq!(SpanName::from("toolcrib.limit").to_string(), "toolcrib.limit");
    }
}
