//! HTTP headers of MCP, and the encoding of values that a header cannot hold.

use std::borrow::Cow;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::{HeaderName, HeaderValue};

/// The revision that a request speaks.
pub const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session that a request of the handshake revisions belongs to.
pub const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method of a request.
pub const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The tool, prompt or resource of a request.
pub const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The prefix of the headers that repeat arguments.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// The `Accept` of a client that reads both forms of an answer, as the specification requires.
pub const ACCEPT_BOTH: HeaderValue =
    HeaderValue::from_static("application/json, text/event-stream");

/// The first and the last characters of an encoded value.
const SENTINEL: (&str, &str) = ("=?base64?", "?=");

/// Encodes `text` as the value of a header: unchanged if a header can hold it, else as
/// `=?base64?…?=`.
pub fn encode(text: &str) -> Option<HeaderValue> {
    let (open, close) = SENTINEL;
    let plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    let at_edge = text.starts_with(' ') || text.ends_with(' ');
    let like_sentinel = text.starts_with(open) && text.ends_with(close);
    if plain && !at_edge && !like_sentinel {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{open}{}{close}", BASE64_STANDARD.encode(text))).ok()
}

/// Decodes the output of [`encode`]; `None` if it is not base64 of UTF-8.
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let (open, close) = SENTINEL;
    let Some(coded) = value.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = BASE64_STANDARD.decode(coded).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_plain_travel_as_base64() {
        for (text, expected) in [
            ("eu-west 1", "eu-west 1"),
            ("", ""),
            (" x", "=?base64?IHg=?="),
            ("x\t", "=?base64?eAk=?="),
            ("Zürich", "=?base64?WsO8cmljaA==?="),
            ("a\nb", "=?base64?YQpi?="),
            ("=?base64?eA==?=", "=?base64?PT9iYXNlNjQ/ZUE9PT89?="),
        ] {
            let encoded = encode(text).unwrap();
            assert_eq!(encoded, expected, "{text:?}");
            assert_eq!(decode(encoded.to_str().unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn the_sentinel_is_decoded_and_checked() {
        assert_eq!(decode("us-west1").as_deref(), Some("us-west1"));
        assert_eq!(decode("=?base64?IHBhZGRlZCA=?=").as_deref(), Some(" padded "));
        assert_eq!(decode("=?base64?%%%?="), None);
        assert_eq!(decode("=?base64?/w==?="), None, "not UTF-8");
    }
}
