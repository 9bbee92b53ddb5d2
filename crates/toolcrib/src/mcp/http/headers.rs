//! Request headers: the accepted response types, and values repeated from the body.
//!
//! Invariant: a proxy that decides by a header decides about the request that runs. A repeated
//! value that is missing, duplicated or different from the body is rejected.

use std::{borrow::Cow, fmt::Display};

use axum::http::{HeaderMap, HeaderName, header};
use serde_json::Value;
use toolcrib_mcp::{
    header::{METHOD, NAME, PROTOCOL_VERSION, decode},
    message::RpcError,
    method::named_parameter,
    param_header::ParamHeader,
    revision::Era,
};

use crate::{mcp::protocol::Request, respond};

/// The response types that a client accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AcceptedTypes {
    /// JSON, but no event stream.
    Json,
    /// Both, as the specification requires.
    JsonAndEvents,
}

/// Returns the response types that a client of `era` accepts; `None` if it accepts none that this
/// server sends. Older clients (and people with curl) may leave events out; the stateless revision
/// requires both.
pub(super) fn readable(headers: &HeaderMap, era: Era) -> Option<AcceptedTypes> {
    let (mut json, mut events, mut any) = (false, false, false);
    for kind in respond::accepted(headers) {
        match kind.as_str() {
            "application/json" => json = true,
            "text/event-stream" => events = true,
            "*/*" | "application/*" => any = true,
            _ => {}
        }
    }
    let any = any || !headers.contains_key(header::ACCEPT);
    match (era, json, events) {
        (_, true, true) => Some(AcceptedTypes::JsonAndEvents),
        (Era::Modern, _, _) => None,
        (Era::Legacy, true, false) => Some(AcceptedTypes::Json),
        (Era::Legacy, false, _) if any => Some(AcceptedTypes::Json),
        (Era::Legacy, false, _) => None,
    }
}

/// Returns whether the client accepts a stream of events.
pub(super) fn reads_events(headers: &HeaderMap) -> bool {
    respond::accepted(headers).any(|kind| kind == "text/event-stream")
}

/// Returns whether the Content-Type is JSON.
pub(super) fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next()).unwrap_or_default();
    kind.trim().eq_ignore_ascii_case("application/json")
}

/// Returns the value of the single `MCP-Protocol-Version` header.
pub(super) fn version(headers: &HeaderMap) -> Result<Option<&str>, RpcError> {
    single(headers, &PROTOCOL_VERSION)
}

/// Checks the headers in which a client of the stateless revision repeats parts of every request.
pub(super) fn check_request(headers: &HeaderMap, request: &Request) -> Result<(), RpcError> {
    match single(headers, &METHOD)? {
        Some(method) if method == request.method => {}
        Some(_) => return Err(differs(&METHOD)),
        None => return Err(missing(&METHOD)),
    }
    let Some(name) = name_of(request) else { return Ok(()) };
    match single(headers, &NAME)? {
        Some(said) if decoded(&NAME, said)? == name => Ok(()),
        Some(_) => Err(differs(&NAME)),
        None => Err(missing(&NAME)),
    }
}

/// Checks the headers in which a client repeats arguments of a tool that requires it.
pub(super) fn check_params(
    headers: &HeaderMap,
    params: &[ParamHeader],
    arguments: &Value,
) -> Result<(), RpcError> {
    let arguments = arguments.as_object();
    for param in params {
        let Ok(header) = HeaderName::try_from(param.header.as_str()) else { continue };
        match (single(headers, &header)?, arguments.and_then(|arguments| param.text(arguments))) {
            (None, None) => {}
            (Some(said), Some(expected)) if same(&decoded(&header, said)?, &expected) => {}
            (Some(_), _) => return Err(differs(&header)),
            (None, Some(_)) => return Err(missing(&header)),
        }
    }
    Ok(())
}

/// Returns the value that `Mcp-Name` must repeat.
fn name_of(request: &Request) -> Option<&str> {
    request.params.get(named_parameter(&request.method)?)?.as_str()
}

/// Returns whether the values are equal as texts or as numbers (`42` and `42.0`).
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
    decode(value).ok_or_else(|| mismatch(name, "is not valid base64 of a text"))
}

fn differs(name: &HeaderName) -> RpcError {
    mismatch(name, "differs from the body")
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
        use AcceptedTypes::{Json, JsonAndEvents};
        use Era::{Legacy, Modern};
        for (accept, legacy, modern) in [
            ("application/json, text/event-stream", Some(JsonAndEvents), Some(JsonAndEvents)),
            ("text/event-stream;q=0.9,Application/JSON", Some(JsonAndEvents), Some(JsonAndEvents)),
            ("application/json", Some(Json), None),
            ("*/*", Some(Json), None),
            ("text/event-stream", None, None),
            ("text/html", None, None),
            ("application/json, text/event-stream;q=0", Some(Json), None),
        ] {
            let headers = headers(&[("accept", accept)]);
            assert_eq!(readable(&headers, Legacy), legacy, "{accept}");
            assert_eq!(readable(&headers, Modern), modern, "{accept}");
        }
        assert_eq!(readable(&HeaderMap::new(), Legacy), Some(Json));
        let split = headers(&[("accept", "application/json"), ("accept", "text/event-stream")]);
        assert_eq!(readable(&split, Modern), Some(JsonAndEvents));
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(same("42", "42") && same("42.0", "42") && same("a", "a"));
        assert!(!same("43", "42") && !same("a", "b") && !same("nan", "NaN"));
    }
}
