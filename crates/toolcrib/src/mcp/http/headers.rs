//! Request headers: the accepted response types, and values repeated from the body.
//!
//! Invariant: a proxy that decides by a header decides about the request that runs. A repeated
//! value is rejected if it is missing, duplicated or different from the body.

use std::{borrow::Cow, fmt::Display};

use axum::http::{HeaderMap, HeaderName, header};
use serde_json::Value;
use toolcrib_mcp::{
    header::{METHOD, NAME, PROTOCOL_VERSION, decode},
    message::RpcError,
    method::named_parameter,
    param_header::ParamHeader,
};

use crate::{
    mcp::{error, protocol::Request},
    respond,
};

/// The response types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedTypes {
    /// JSON, but no event stream.
    Json,
    /// An event stream, but no JSON.
    Events,
    /// Both, as the specification requires.
    JsonAndEvents,
}

/// The response types that a client accepts; `None` if this server sends none of them. The
/// specification requires both, but many clients (and people with curl) leave one out.
pub(super) fn readable(headers: &HeaderMap) -> Option<AcceptedTypes> {
    let (mut json, mut events) = (!headers.contains_key(header::ACCEPT), false);
    for kind in respond::accepted(headers) {
        match kind.as_str() {
            "application/json" | "*/*" | "application/*" => json = true,
            "text/event-stream" | "text/*" => events = true,
            _ => {}
        }
    }
    match (json, events) {
        (true, true) => Some(AcceptedTypes::JsonAndEvents),
        (true, false) => Some(AcceptedTypes::Json),
        (false, true) => Some(AcceptedTypes::Events),
        (false, false) => None,
    }
}

pub(super) fn reads_events(headers: &HeaderMap) -> bool {
    respond::accepted(headers).any(|kind| kind == "text/event-stream")
}

pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// The value of the single `MCP-Protocol-Version` header.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    single(headers, &PROTOCOL_VERSION)
}

/// Checks the headers in which a client of the stateless revision repeats parts of every request.
/// If they are not `required`, only those present are checked.
pub(super) fn check_request(
    headers: &HeaderMap,
    request: &Request,
    required: bool,
) -> Result<(), RpcError> {
    let name = name_of(request).map(|name| (NAME, name));
    for (header, expected) in [(METHOD, &*request.method)].into_iter().chain(name) {
        match single(headers, &header)? {
            Some(value) => same_text(&header, &decoded(&header, value)?, expected)?,
            None if required => return Err(missing(&header)),
            None => {}
        }
    }
    Ok(())
}

/// Checks the headers in which a client repeats arguments of a tool that requires it.
pub(super) fn check_params(
    headers: &HeaderMap,
    params: &[ParamHeader],
    arguments: &Value,
    required: bool,
) -> Result<(), RpcError> {
    let arguments = arguments.as_object();
    for param in params {
        let Ok(header) = HeaderName::try_from(param.header.as_str()) else { continue };
        match (single(headers, &header)?, arguments.and_then(|arguments| param.text(arguments))) {
            (None, None) => {}
            (Some(value), Some(expected)) => {
                let value = decoded(&header, value)?;
                if !same(&value, &expected) {
                    return Err(differs(&header, &value, &expected));
                }
            }
            (Some(value), None) => return Err(differs(&header, value, "")),
            (None, Some(_)) if required => return Err(missing(&header)),
            (None, Some(_)) => {}
        }
    }
    Ok(())
}

/// The value that `Mcp-Name` must repeat.
fn name_of(request: &Request) -> Option<&str> {
    request.params.get(named_parameter(&request.method)?)?.as_str()
}

/// Whether the values are equal as texts or as numbers (`42` and `42.0`).
fn same(said: &str, expected: &str) -> bool {
    let numbers = || Some((said.parse::<f64>().ok()?, expected.parse::<f64>().ok()?));
    said == expected
        || numbers().is_some_and(|(said, expected)| said.is_finite() && said == expected)
}

pub(super) fn single<'a>(
    headers: &'a HeaderMap,
    name: &HeaderName,
) -> Result<Option<&'a str>, RpcError> {
    let mut values = headers.get_all(name).iter();
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(mismatch(name, "appears more than once"));
    }
    match value.to_str() {
        Ok(text) => Ok(Some(text)),
        Err(_) => Err(mismatch(name, "contains invalid characters")),
    }
}

fn decoded<'a>(name: &HeaderName, value: &'a str) -> Result<Cow<'a, str>, RpcError> {
    decode(value).ok_or_else(|| mismatch(name, "is not valid base64 text"))
}

fn same_text(name: &HeaderName, value: &str, expected: &str) -> Result<(), RpcError> {
    if value == expected { Ok(()) } else { Err(differs(name, value, expected)) }
}

fn differs(name: &HeaderName, value: &str, expected: &str) -> RpcError {
    mismatch(name, error::differing(value, expected))
}

fn missing(name: &HeaderName) -> RpcError {
    mismatch(name, "is missing")
}

/// The name is fixed or comes from the tool's schema, never from the request.
fn mismatch(name: &HeaderName, problem: impl Display) -> RpcError {
    RpcError::header_mismatch(format!("header mismatch: {name} {problem}"))
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        headers
    }

    #[test]
    fn accept_decides_the_form_of_the_answer() {
        use AcceptedTypes::{Events, Json, JsonAndEvents};
        for (accept, expected) in [
            ("application/json, text/event-stream", Some(JsonAndEvents)),
            ("text/event-stream;q=0.9,Application/JSON", Some(JsonAndEvents)),
            ("text/event-stream, */*;q=0.1", Some(JsonAndEvents)),
            ("application/json", Some(Json)),
            ("application/*", Some(Json)),
            ("*/*", Some(Json)),
            ("text/event-stream", Some(Events)),
            ("text/html", None),
            ("application/json, text/event-stream;q=0", Some(Json)),
        ] {
            assert_eq!(readable(&headers(&[("accept", accept)])), expected, "{accept}");
        }
        assert_eq!(readable(&HeaderMap::new()), Some(Json));
        let split = headers(&[("accept", "application/json"), ("accept", "text/event-stream")]);
        assert_eq!(readable(&split), Some(JsonAndEvents));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(same("42", "42") && same("42.0", "42") && same("a", "a"));
        assert!(!same("43", "42") && !same("a", "b") && !same("nan", "NaN"));
    }
}
