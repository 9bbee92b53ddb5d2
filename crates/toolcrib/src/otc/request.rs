//! The body of a call: its schema and its parser.

use serde_json::{Map, Value};
use toolcrib_core::json::parse_strict;
use toolcrib_gateway::{ToolRef, idempotency::MAX_KEY};
use utoipa::ToSchema;

use super::dialect::{Dialect, Marker};

/// A call.
#[derive(Debug, PartialEq, ToSchema)]
pub(super) struct CallBody {
    /// The version of the request; the newest when absent.
    // How the answer names its version.
    #[schema(
        rename = "$schema",
        value_type = Option<String>,
        nullable = false,
        pattern = r"^(otc://1\.0|urn:oxp:1\.0|https://.*/http/1\.0/openapi\.json)$"
    )]
    pub(super) marker: Marker,
    pub(super) request: CallToolRequest,
    /// Whether the request came in an envelope, and its answer goes in one.
    #[schema(ignore)]
    pub(super) envelope: bool,
}

#[derive(Debug, PartialEq, ToSchema)]
pub(super) struct CallToolRequest {
    /// `Toolkit.Tool`, optionally `@x.y.z` or `@x` (which is `@x.0.0`); the tool's `name` is accepted
    /// too.
    pub(super) tool_id: String,
    /// Comes back in the result, and makes the call idempotent for 24 hours; made up when absent.
    #[schema(min_length = 1, max_length = 256)]
    pub(super) call_id: Option<String>,
    trace_id: Option<String>,
    /// The arguments; none when absent.
    #[schema(value_type = Option<Object>)]
    pub(super) input: Map<String, Value>,
    #[schema(value_type = Option<Object>)]
    context: Option<Map<String, Value>>,
}

/// The reason why a body is rejected.
#[derive(Debug, PartialEq)]
pub(super) struct NotACall {
    /// The marker of the response.
    pub(super) marker: Marker,
    pub(super) problem: String,
}

impl CallBody {
    /// Parses the body of a call. Unknown members and the content of `context` are ignored, because
    /// no tool here needs them.
    pub(super) fn read(dialect: Dialect, body: &[u8]) -> Result<Self, NotACall> {
        let marker = dialect.marker();
        let mut message = parse_strict(body).map_err(|problem| NotACall {
            marker,
            problem: format!("the body is not JSON: {problem}"),
        })?;
        let marker = dialect
            .answer_to(&message)
            .map_err(|problem| NotACall { marker, problem: problem.to_string() })?;
        let envelope = !is_flat(dialect, &message);
        let request = match envelope {
            true => message.get_mut("request").map(Value::take),
            false => Some(message),
        };
        let Some(Value::Object(request)) = request else {
            let problem = "the body must be an object with an object `request`".to_owned();
            return Err(NotACall { marker, problem });
        };
        match CallToolRequest::read(request) {
            Ok(request) => Ok(Self { marker, request, envelope }),
            Err(problem) => Err(NotACall { marker, problem }),
        }
    }
}

impl CallToolRequest {
    fn read(mut request: Map<String, Value>) -> Result<Self, String> {
        let tool_id = text(&mut request, "tool_id")?.ok_or("`tool_id` is missing")?;
        let call_id = text(&mut request, "call_id")?;
        if call_id.as_ref().is_some_and(|id| id.is_empty() || id.len() > MAX_KEY) {
            return Err(format!("`call_id` must have 1 to {MAX_KEY} characters"));
        }
        let trace_id = text(&mut request, "trace_id")?;
        let context = object(&mut request, "context")?;
        // The text of the protocol says `inputs`, its schema and examples say `input`.
        let name = if request.contains_key("input") { "input" } else { "inputs" };
        let input = match request.remove(name) {
            None => Map::new(),
            Some(Value::Object(input)) => input,
            Some(_) => return Err("`input` must be an object".to_owned()),
        };
        Ok(Self { tool_id, call_id, trace_id, input, context })
    }
}

/// Returns whether `message` is a call without an envelope, as in later OXP.
fn is_flat(dialect: Dialect, message: &Value) -> bool {
    let has = |member| message.get(member).is_some();
    dialect == Dialect::Oxp && has("tool_id") && !has("request")
}

fn text(request: &mut Map<String, Value>, member: &str) -> Result<Option<String>, String> {
    match request.remove(member) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(format!("`{member}` must be a string")),
    }
}

fn object(
    request: &mut Map<String, Value>,
    member: &str,
) -> Result<Option<Map<String, Value>>, String> {
    match request.remove(member) {
        None => Ok(None),
        Some(Value::Object(members)) => Ok(Some(members)),
        Some(_) => Err(format!("`{member}` must be an object")),
    }
}

/// Parses a tool id; `None` when `id` is not one.
pub(super) fn tool(id: &str) -> Option<ToolRef<'_>> {
    let (name, version) = match id.split_once('@') {
        Some((name, version)) => (name, Some(numbers(version)?)),
        None => (id, None),
    };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    match name.split_once('.') {
        Some((toolkit, tool)) if word(toolkit) && word(tool) => {
            Some(ToolRef::Otc { name, version })
        }
        // Some clients send the tool's `name` as its id.
        None if version.is_none() && !name.is_empty() && name.len() <= 64 => name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
            .then_some(ToolRef::Wire(name)),
        Some(_) | None => None,
    }
}

/// Parses `x.y.z`, or `x` as `x.0.0`.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let number = |part: &str| match part.bytes().all(|byte| byte.is_ascii_digit()) {
        true => part.parse().ok(),
        false => None,
    };
    let parts: Vec<&str> = version.split('.').collect();
    match parts.as_slice() {
        [major] => Some([number(major)?, 0, 0]),
        [major, minor, patch] => Some([number(major)?, number(minor)?, number(patch)?]),
        _ => None,
    }
}

/// Parses `body` and the tool id in it.
#[cfg(fuzzing)]
pub(super) fn fuzz(body: &[u8]) {
    for dialect in [Dialect::Otc, Dialect::Oxp] {
        if let Ok(call) = CallBody::read(dialect, body) {
            tool(&call.request.tool_id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_one_or_three_numbers() {
        assert_eq!(numbers("1.2.3"), Some([1, 2, 3]));
        assert_eq!(numbers("01.2.3"), Some([1, 2, 3]));
        assert_eq!(numbers("2"), Some([2, 0, 0]));
        for bad in ["", "1.2", "v1", "1.2.3.4", "1..3", "+1", "1.2.3@4", "99999999999999999999"] {
            assert_eq!(numbers(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_call_without_an_envelope_is_one_in_oxp_alone() {
        let flat = br#"{"tool_id":"a.b","input":{"request":1}}"#;
        let call = CallBody::read(Dialect::Oxp, flat).unwrap();
        assert_eq!((call.envelope, call.request.tool_id.as_str()), (false, "a.b"));
        assert!(CallBody::read(Dialect::Otc, flat).is_err());
        let both = br#"{"tool_id":"a.b","request":{"tool_id":"c.d"},"$schema":"otc://1.0"}"#;
        let call = CallBody::read(Dialect::Oxp, both).unwrap();
        assert_eq!((call.envelope, call.request.tool_id.as_str()), (true, "c.d"));
        assert_eq!(call.marker, Marker::Otc);
        let wrong = CallBody::read(Dialect::Otc, br#"{"$schema":"urn:oxp:1.0"}"#).unwrap_err();
        assert_eq!(wrong.marker, Marker::Oxp, "also a refusal is in the caller's words");
    }
}
