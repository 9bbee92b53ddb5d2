//! Determines the protocol revision of a request.
//!
//! Invariant: the result depends only on this one request, never on earlier ones.

use serde_json::{Map, Value};
use toolcrib_mcp::{
    message::RpcError,
    meta::{CLIENT_CAPABILITIES, CLIENT_INFO, META, PROTOCOL_VERSION},
    method,
    revision::{Era, MODERN, STREAMABLE_HTTP},
};

use super::{
    error,
    protocol::{InvalidMessage, Request},
};

/// The supported revisions, newest first.
pub(super) const SERVED: &[&str] = STREAMABLE_HTTP;

/// The version header of a request.
#[derive(Debug, Clone, Copy)]
pub(super) enum VersionHeader<'h> {
    /// The transport has no such header (stdio).
    Never,
    /// `MCP-Protocol-Version`.
    Http {
        value: Option<&'h str>,
        /// Whether it must be the version of the body. Otherwise any supported version is accepted,
        /// because only the body is checked and run.
        strict: bool,
    },
}

/// The revision of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DetectedEra {
    pub(super) era: Era,
    /// Whether the header names another revision than the body.
    pub(super) is_mixed: bool,
}

pub(super) fn detect(
    request: &Request,
    header: VersionHeader<'_>,
) -> Result<DetectedEra, InvalidMessage> {
    decide(request, header).map_err(|error| InvalidMessage { id: Some(request.id.clone()), error })
}

/// Checks the version header of a message without a response.
pub(super) fn check_version(version: Option<&str>) -> Result<(), RpcError> {
    match version {
        Some(version) if !SERVED.contains(&version) => {
            Err(RpcError::unsupported_version(version, SERVED))
        }
        Some(_) | None => Ok(()),
    }
}

/// The `_meta` of `params`, if it is an object.
pub(super) fn meta(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    params.get(META).and_then(Value::as_object)
}

/// Whether clients of a handshake revision read `structuredContent`. A request over HTTP without
/// the version header counts as one of 2025-03-26.
pub(super) fn reads_structured(revision: Option<&str>) -> bool {
    revision.is_some_and(|revision| revision >= "2025-06-18")
}

/// The name that the client declares, if any.
pub(super) fn client_name(params: &Map<String, Value>) -> Option<&str> {
    meta(params)?.get(CLIENT_INFO)?.get("name")?.as_str()
}

/// The revision that the body names, if any.
pub(super) fn revision(params: &Map<String, Value>) -> Option<&str> {
    meta(params)?.get(PROTOCOL_VERSION)?.as_str()
}

/// The capabilities that the client declares, if any.
pub(super) fn capabilities(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    meta(params)?.get(CLIENT_CAPABILITIES)?.as_object()
}

fn decide(request: &Request, header: VersionHeader<'_>) -> Result<DetectedEra, RpcError> {
    let said = match header {
        VersionHeader::Never => None,
        VersionHeader::Http { value, .. } => value,
    };
    let plain = |era| Ok(DetectedEra { era, is_mixed: false });
    let Some(version) = meta(&request.params).and_then(|meta| meta.get(PROTOCOL_VERSION)) else {
        // A handshake negotiates the version, so no header can contradict it.
        if request.method == method::INITIALIZE {
            return plain(Era::Legacy);
        }
        check_version(said)?;
        // Only the stateless revision has `server/discover`.
        return match said == Some(MODERN) || request.method == method::DISCOVER {
            true => Err(RpcError::invalid_params(NO_VERSION)),
            false => plain(Era::Legacy),
        };
    };
    let Some(version) = version.as_str() else {
        return Err(RpcError::invalid_params(NO_VERSION));
    };
    let is_mixed = match header {
        VersionHeader::Never => false,
        VersionHeader::Http { value: Some(said), .. } if said == version => false,
        VersionHeader::Http { value: Some(said), strict: false } if SERVED.contains(&said) => true,
        VersionHeader::Http { value: Some(said), .. } => {
            let problem = error::differing(said, version);
            return Err(RpcError::header_mismatch(format!("MCP-Protocol-Version {problem}")));
        }
        VersionHeader::Http { value: None, .. } => {
            let problem = "the MCP-Protocol-Version header is missing; the body has";
            return Err(RpcError::header_mismatch(format!("{problem} {}", error::quoted(version))));
        }
    };
    if !SERVED.contains(&version) {
        return Err(RpcError::unsupported_version(version, SERVED));
    }
    if version != MODERN {
        return Ok(DetectedEra { era: Era::Legacy, is_mixed });
    }
    match meta(&request.params).and_then(|meta| meta.get(CLIENT_CAPABILITIES)) {
        Some(Value::Object(_)) => Ok(DetectedEra { era: Era::Modern, is_mixed }),
        Some(_) | None => Err(RpcError::invalid_params(NO_CAPABILITIES)),
    }
}

const NO_VERSION: &str = "`_meta` must hold \"io.modelcontextprotocol/protocolVersion\", a string such as \"2026-07-28\"";
const NO_CAPABILITIES: &str =
    "`_meta` must hold \"io.modelcontextprotocol/clientCapabilities\", an object";

#[cfg(test)]
mod tests {
    use serde_json::json;
    use toolcrib_mcp::code;

    use super::*;
    use crate::mcp::protocol::Id;

    fn request(method: &str, meta: Value) -> Request {
        let mut params = Map::new();
        if !meta.is_null() {
            params.insert("_meta".to_owned(), meta);
        }
        Request { id: Id::of(&json!(1)).unwrap(), method: method.to_owned(), params }
    }

    fn full(version: &str) -> Value {
        json!({ PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {} })
    }

    #[test]
    fn the_era_follows_from_the_request_alone() {
        use Era::{Legacy, Modern};
        const OLD: &str = "2025-11-25";
        let list = "tools/list";
        let lenient = |value| VersionHeader::Http { value, strict: false };
        let strict = |value| VersionHeader::Http { value, strict: true };
        let stdio = VersionHeader::Never;
        let same = |era| Ok((era, false));
        for (method, meta, header, expected) in [
            (list, full(MODERN), lenient(Some(MODERN)), same(Modern)),
            (list, full(MODERN), stdio, same(Modern)),
            (list, full(MODERN), lenient(None), Err(code::HEADER_MISMATCH)),
            (list, full(MODERN), lenient(Some(OLD)), Ok((Modern, true))),
            (list, full(OLD), lenient(Some(MODERN)), Ok((Legacy, true))),
            (list, full(MODERN), strict(Some(OLD)), Err(code::HEADER_MISMATCH)),
            (list, full(MODERN), lenient(Some("1999-01-01")), Err(code::HEADER_MISMATCH)),
            (list, full("1999-01-01"), lenient(Some(MODERN)), Err(code::UNSUPPORTED_VERSION)),
            (list, full("1999-01-01"), lenient(Some("1999-01-01")), Err(code::UNSUPPORTED_VERSION)),
            (list, full("1999-01-01"), stdio, Err(code::UNSUPPORTED_VERSION)),
            (list, full(OLD), strict(Some(OLD)), same(Legacy)),
            (list, json!({ PROTOCOL_VERSION: MODERN }), stdio, Err(code::INVALID_PARAMS)),
            (
                list,
                json!({ PROTOCOL_VERSION: 7, CLIENT_CAPABILITIES: {} }),
                stdio,
                Err(code::INVALID_PARAMS),
            ),
            (
                list,
                json!({ CLIENT_CAPABILITIES: {} }),
                lenient(Some(MODERN)),
                Err(code::INVALID_PARAMS),
            ),
            (list, Value::Null, lenient(Some(MODERN)), Err(code::INVALID_PARAMS)),
            (list, Value::Null, lenient(Some("1999-01-01")), Err(code::UNSUPPORTED_VERSION)),
            (list, Value::Null, lenient(Some("2025-06-18")), same(Legacy)),
            (list, Value::Null, lenient(None), same(Legacy)),
            (list, json!({ "progressToken": 1 }), stdio, same(Legacy)),
            ("server/discover", Value::Null, stdio, Err(code::INVALID_PARAMS)),
            ("initialize", Value::Null, lenient(Some(MODERN)), same(Legacy)),
            ("initialize", Value::Null, lenient(None), same(Legacy)),
        ] {
            let got = detect(&request(method, meta.clone()), header);
            let got = got
                .map(|detected| (detected.era, detected.is_mixed))
                .map_err(|rejected| rejected.error.code);
            assert_eq!(got, expected, "{method} {meta} {header:?}");
        }
    }

    #[test]
    fn a_refused_version_is_named_together_with_the_other() {
        let request = request("tools/list", full(MODERN));
        let header = VersionHeader::Http { value: Some("2025-11-25"), strict: true };
        let message = detect(&request, header).unwrap_err().error.message;
        assert!(message.contains("2025-11-25") && message.contains(MODERN), "{message}");
    }
}
