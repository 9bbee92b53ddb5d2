//! Determines the protocol revision of a request.
//!
//! Invariant: the result depends only on this one request, never on earlier ones.

use serde_json::{Map, Value};
use toolcrib_mcp::{
    message::RpcError,
    meta::{CLIENT_CAPABILITIES, META, PROTOCOL_VERSION},
    method,
    revision::{Era, MODERN, STREAMABLE_HTTP},
};

use super::protocol::{InvalidMessage, Request};

/// The supported revisions, newest first.
pub(super) const SERVED: &[&str] = STREAMABLE_HTTP;

/// Returns the era of `request`. `header` is the version in the transport: `None` when the
/// transport has none (stdio), `Some(None)` when its header is missing.
pub(super) fn detect(
    request: &Request,
    header: Option<Option<&str>>,
) -> Result<Era, InvalidMessage> {
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

/// Returns the `_meta` of `params`, if it is an object.
pub(super) fn meta(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    params.get(META).and_then(Value::as_object)
}

/// Returns the capabilities that the client declares, if any.
pub(super) fn capabilities(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    meta(params)?.get(CLIENT_CAPABILITIES)?.as_object()
}

fn decide(request: &Request, header: Option<Option<&str>>) -> Result<Era, RpcError> {
    let said = header.flatten();
    let Some(version) = meta(&request.params).and_then(|meta| meta.get(PROTOCOL_VERSION)) else {
        // A handshake negotiates the version, so no header can contradict it.
        if request.method == method::INITIALIZE {
            return Ok(Era::Legacy);
        }
        check_version(said)?;
        // Only the stateless revision has `server/discover`.
        return match said == Some(MODERN) || request.method == method::DISCOVER {
            true => Err(RpcError::invalid_params(NO_VERSION)),
            false => Ok(Era::Legacy),
        };
    };
    let Some(version) = version.as_str() else {
        return Err(RpcError::invalid_params(NO_VERSION));
    };
    match header {
        None => {}
        Some(Some(said)) if said == version => {}
        Some(Some(_)) => return Err(RpcError::header_mismatch(OTHER_VERSION)),
        Some(None) => return Err(RpcError::header_mismatch(MISSING_VERSION)),
    }
    if !SERVED.contains(&version) {
        return Err(RpcError::unsupported_version(version, SERVED));
    }
    if version != MODERN {
        return Ok(Era::Legacy);
    }
    match meta(&request.params).and_then(|meta| meta.get(CLIENT_CAPABILITIES)) {
        Some(Value::Object(_)) => Ok(Era::Modern),
        Some(_) | None => Err(RpcError::invalid_params(NO_CAPABILITIES)),
    }
}

const NO_VERSION: &str = "`_meta` must hold \"io.modelcontextprotocol/protocolVersion\", a string such as \"2026-07-28\"";
const NO_CAPABILITIES: &str =
    "`_meta` must hold \"io.modelcontextprotocol/clientCapabilities\", an object";
const MISSING_VERSION: &str = "the MCP-Protocol-Version header is missing";
const OTHER_VERSION: &str = "the MCP-Protocol-Version header differs from the version in `_meta`";

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
        let list = "tools/list";
        let http = Some;
        for (method, meta, header, expected) in [
            (list, full(MODERN), http(Some(MODERN)), Ok(Modern)),
            (list, full(MODERN), None, Ok(Modern)),
            (list, full(MODERN), http(None), Err(code::HEADER_MISMATCH)),
            (list, full(MODERN), http(Some("2025-11-25")), Err(code::HEADER_MISMATCH)),
            (list, full("1999-01-01"), http(Some("1999-01-01")), Err(code::UNSUPPORTED_VERSION)),
            (list, full("1999-01-01"), None, Err(code::UNSUPPORTED_VERSION)),
            (list, full("2025-11-25"), http(Some("2025-11-25")), Ok(Legacy)),
            (list, json!({ PROTOCOL_VERSION: MODERN }), None, Err(code::INVALID_PARAMS)),
            (
                list,
                json!({ PROTOCOL_VERSION: 7, CLIENT_CAPABILITIES: {} }),
                None,
                Err(code::INVALID_PARAMS),
            ),
            (
                list,
                json!({ CLIENT_CAPABILITIES: {} }),
                http(Some(MODERN)),
                Err(code::INVALID_PARAMS),
            ),
            (list, Value::Null, http(Some(MODERN)), Err(code::INVALID_PARAMS)),
            (list, Value::Null, http(Some("1999-01-01")), Err(code::UNSUPPORTED_VERSION)),
            (list, Value::Null, http(Some("2025-06-18")), Ok(Legacy)),
            (list, Value::Null, http(None), Ok(Legacy)),
            (list, json!({ "progressToken": 1 }), None, Ok(Legacy)),
            ("server/discover", Value::Null, None, Err(code::INVALID_PARAMS)),
            ("initialize", Value::Null, http(Some(MODERN)), Ok(Legacy)),
            ("initialize", Value::Null, http(None), Ok(Legacy)),
        ] {
            let got = detect(&request(method, meta.clone()), header).map_err(|r| r.error.code);
            assert_eq!(got, expected, "{method} {meta} {header:?}");
        }
    }
}
