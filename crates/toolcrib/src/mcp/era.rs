//! Which revision a request speaks.
//!
//! Invariant: the answer depends on this one request and on nothing before it.

use serde_json::{Map, Value};

use super::{
    error::RpcError,
    protocol::{Rejected, Request},
};

/// The two families of revisions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    /// `initialize` first; results without `resultType`.
    Legacy,
    /// Every request says what it is.
    Modern,
}

/// The stateless revision.
pub(super) const MODERN: &str = "2026-07-28";
/// What a handshake settles on when it asked for something unknown.
const LATEST_LEGACY: &str = "2025-11-25";
/// Everything that is served, newest first.
pub(super) const SUPPORTED: [&str; 4] = [MODERN, LATEST_LEGACY, "2025-06-18", "2025-03-26"];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";

/// The revision of `request`. `header` is the transport's own word on it: `None` when the transport
/// has none (stdio), `Some(None)` when it could but did not say.
pub(super) fn detect(request: &Request, header: Option<Option<&str>>) -> Result<Era, Rejected> {
    decide(request, header).map_err(|error| Rejected { id: Some(request.id.clone()), error })
}

/// Whether a message without an answer may come under `version`.
pub(super) fn check_version(version: Option<&str>) -> Result<(), RpcError> {
    match version {
        Some(version) if !SUPPORTED.contains(&version) => {
            Err(RpcError::unsupported_version(version))
        }
        Some(_) | None => Ok(()),
    }
}

/// What an `initialize` that asks for `requested` gets.
pub(super) fn negotiate(requested: Option<&str>) -> &'static str {
    SUPPORTED
        .into_iter()
        .find(|&version| version != MODERN && Some(version) == requested)
        .unwrap_or(LATEST_LEGACY)
}

/// The `_meta` of `params`, if it is an object.
pub(super) fn meta(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    params.get("_meta").and_then(Value::as_object)
}

/// What the client says that it can do, if it says so.
pub(super) fn capabilities(params: &Map<String, Value>) -> Option<&Map<String, Value>> {
    meta(params)?.get(CAPABILITIES_KEY)?.as_object()
}

fn decide(request: &Request, header: Option<Option<&str>>) -> Result<Era, RpcError> {
    let said = header.flatten();
    let Some(version) = meta(&request.params).and_then(|meta| meta.get(VERSION_KEY)) else {
        // A handshake is only about to settle the version, so no header can contradict it.
        if request.method == "initialize" {
            return Ok(Era::Legacy);
        }
        check_version(said)?;
        // Only the stateless revision knows `server/discover`.
        return match said == Some(MODERN) || request.method == "server/discover" {
            true => Err(RpcError::invalid_params(NO_VERSION)),
            false => Ok(Era::Legacy),
        };
    };
    let Some(version) = version.as_str() else {
        return Err(RpcError::invalid_params(NO_VERSION));
    };
    if let Some(said) = header {
        match said {
            Some(said) if said == version => {}
            Some(_) => return Err(RpcError::header_mismatch(OTHER_VERSION)),
            None => {
                return Err(RpcError::header_mismatch(
                    "the MCP-Protocol-Version header is missing",
                ));
            }
        }
    }
    if !SUPPORTED.contains(&version) {
        return Err(RpcError::unsupported_version(version));
    }
    if version != MODERN {
        return Ok(Era::Legacy);
    }
    match meta(&request.params).and_then(|meta| meta.get(CAPABILITIES_KEY)) {
        Some(Value::Object(_)) => Ok(Era::Modern),
        Some(_) | None => Err(RpcError::invalid_params(NO_CAPABILITIES)),
    }
}

const NO_VERSION: &str = "`_meta` must hold \"io.modelcontextprotocol/protocolVersion\", a string such as \"2026-07-28\"";
const NO_CAPABILITIES: &str =
    "`_meta` must hold \"io.modelcontextprotocol/clientCapabilities\", an object";
const OTHER_VERSION: &str = "the MCP-Protocol-Version header differs from the version in `_meta`";

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::{error::code, protocol::Id};

    fn request(method: &str, meta: Value) -> Request {
        let mut params = Map::new();
        if !meta.is_null() {
            params.insert("_meta".to_owned(), meta);
        }
        Request { id: Id::of(&json!(1)).unwrap(), method: method.to_owned(), params }
    }

    fn full(version: &str) -> Value {
        json!({ VERSION_KEY: version, CAPABILITIES_KEY: {} })
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
            (list, json!({ VERSION_KEY: MODERN }), None, Err(code::INVALID_PARAMS)),
            (
                list,
                json!({ VERSION_KEY: 7, CAPABILITIES_KEY: {} }),
                None,
                Err(code::INVALID_PARAMS),
            ),
            (list, json!({ CAPABILITIES_KEY: {} }), http(Some(MODERN)), Err(code::INVALID_PARAMS)),
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

    #[test]
    fn a_handshake_gets_what_it_asks_for_or_the_latest() {
        for (requested, expected) in [
            (Some("2025-03-26"), "2025-03-26"),
            (Some("2025-06-18"), "2025-06-18"),
            (Some("2025-11-25"), "2025-11-25"),
            (Some("2026-07-28"), "2025-11-25"),
            (Some("2024-11-05"), "2025-11-25"),
            (Some("1999-01-01"), "2025-11-25"),
            (None, "2025-11-25"),
        ] {
            assert_eq!(negotiate(requested), expected);
        }
    }
}
