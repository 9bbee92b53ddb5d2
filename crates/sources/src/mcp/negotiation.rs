//! Which era of the protocol an upstream speaks.
//!
//! The first request is `server/discover`. A server of the 2026-07-28 era answers it, or refuses it
//! with an error code of that era. Any other answer (an error, an empty result), or no answer in
//! time, means the handshake era, and `initialize` follows.

use std::time::Duration;

use serde_json::{Map, Value, json};
use toolcrib_mcp::{
    code,
    message::{self, RpcError},
    meta, method,
    revision::{LATEST_LEGACY, LEGACY, MODERN},
};

use super::{
    call::Call,
    era::{CLIENT_INFO, Era},
    failure::Failure,
    message::Reply,
    wire::Wire,
};
use crate::process::stderr::ProbeOutcome;

/// How long `server/discover` may take before `initialize` is sent as well: servers that ignore
/// unknown methods never answer, slow ones answer both.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// The result of the negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Session {
    pub(crate) era: Era,
    /// Whether the upstream declares notifications of changed tools.
    pub(crate) list_changed: bool,
    /// Whether it declares tools.
    pub(crate) has_tools: bool,
    /// Whether it declares resources.
    pub(crate) has_resources: bool,
    /// Whether it declares prompts.
    pub(crate) has_prompts: bool,
    /// The characters of its instructions.
    pub(crate) instructions: u64,
    /// Whether the server has icons.
    pub(crate) has_icons: bool,
    /// Its own version, as it declares it.
    pub(crate) version: Option<String>,
}

/// The first request of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approach {
    /// `server/discover`.
    Probe,
    /// `initialize`: the upstream is known to exit at any other request.
    Handshake,
}

/// Negotiates the era with the upstream, and enters it.
pub(crate) async fn negotiate(wire: &Wire, approach: Approach) -> Result<Session, String> {
    if approach == Approach::Handshake {
        wire.probe_ended(ProbeOutcome::Understood);
        return initialize(wire).await;
    }
    let mut probe = std::pin::pin!(discover(wire));
    if let Ok(verdict) = tokio::time::timeout(PROBE_TIMEOUT, &mut probe).await {
        return match verdict? {
            Some(session) => {
                wire.probe_ended(ProbeOutcome::Understood);
                Ok(session)
            }
            None => {
                wire.probe_ended(ProbeOutcome::Refused);
                initialize(wire).await
            }
        };
    }
    let mut handshake = std::pin::pin!(initialize(wire));
    let session = tokio::select! {
        verdict = &mut probe => match verdict? {
            Some(session) => Ok(session),
            None => handshake.await,
        },
        session = &mut handshake => match session {
            Ok(session) => Ok(session),
            Err(refused) => match probe.await? {
                Some(session) => Ok(session),
                None => Err(refused),
            },
        },
    }?;
    wire.probe_ended(match session.era.is_modern() {
        true => ProbeOutcome::Understood,
        false => ProbeOutcome::Refused,
    });
    Ok(session)
}

/// Returns the session of an upstream of the 2026-07-28 era; `None` for the handshake era.
async fn discover(wire: &Wire) -> Result<Option<Session>, String> {
    let era = Era::Modern;
    let params = json!({ "_meta": era.meta(&Map::new(), None) });
    let encode = |id| message::request(id, method::DISCOVER, &params);
    let call = Call::plain(method::DISCOVER, &era, &encode);
    let mut reply = wire.request(&call).await;
    // An upstream that refuses the version it offers gets a second request.
    if matches!(&reply, Ok(Reply::Error(error)) if refused_versions(error).contains(&MODERN)) {
        reply = wire.request(&call).await;
    }
    match reply {
        Ok(Reply::Result(result)) => {
            judge_discovered(&serde_json::from_str(result.get()).unwrap_or_default())
        }
        Ok(Reply::Error(error)) if error.code == code::UNSUPPORTED_VERSION => {
            judge_versions(&refused_versions(&error)).map(|_| None)
        }
        Ok(Reply::Error(error)) if code::is_modern(error.code) => {
            Ok(Some(session(Era::Modern, &Value::Null, None)))
        }
        Ok(Reply::Error(_)) => Ok(None),
        Err(failure) if failure.is_final() => Err(failure.reason()),
        Err(_) => Ok(None),
    }
}

/// Returns the versions that an upstream offers in its refusal of the requested one.
fn refused_versions(error: &RpcError) -> Vec<&str> {
    let refused = error.code == code::UNSUPPORTED_VERSION;
    let data = error.data.as_deref().filter(|_| refused);
    strings(data.and_then(|data| data.get("supported")))
}

fn judge_discovered(result: &Value) -> Result<Option<Session>, String> {
    let Some(Value::Array(_)) = result.get("supportedVersions") else {
        // An old server that answers every unknown method with an empty result.
        return Ok(None);
    };
    if !judge_versions(&strings(result.get("supportedVersions")))? {
        return Ok(None);
    }
    let server = result.get("_meta").and_then(|meta| meta.get(meta::SERVER_INFO));
    let server = server.or_else(|| result.get("serverInfo"));
    Ok(Some(session(Era::Modern, result, server)))
}

/// Whether the modern version is among them; fails if all of them are unknown here.
fn judge_versions(versions: &[&str]) -> Result<bool, String> {
    if versions.contains(&MODERN) {
        return Ok(true);
    }
    if versions.iter().any(|version| LEGACY.contains(version)) {
        return Ok(false);
    }
    Err("the upstream speaks no protocol version known here".to_owned())
}

/// Performs the handshake of the versions up to 2025-11-25.
pub(crate) async fn initialize(wire: &Wire) -> Result<Session, String> {
    let params = json!({
        "protocolVersion": LATEST_LEGACY, "capabilities": {}, "clientInfo": CLIENT_INFO,
    });
    let encode = |id| message::request(id, method::INITIALIZE, &params);
    let call = Call::plain(method::INITIALIZE, &Era::Handshake, &encode);
    let result = match wire.request(&call).await.map_err(Failure::reason)? {
        Reply::Result(result) => result,
        Reply::Error(error) => {
            return Err(format!("the upstream refused the handshake (error {})", error.code));
        }
    };
    let result: Value = serde_json::from_str(result.get()).unwrap_or_default();
    let version = result.get("protocolVersion").and_then(Value::as_str);
    let Some(version) = version.and_then(|v| LEGACY.iter().find(|known| **known == v)) else {
        let reason = "the upstream answered the handshake without a protocol version known here";
        return Err(reason.to_owned());
    };
    let era = Era::Legacy((*version).to_owned());
    if let Wire::Http(http) = wire {
        http.set_version(version);
    }
    let initialized = message::notification(method::INITIALIZED, &json!({}));
    wire.notify(&era, initialized).await.map_err(Failure::reason)?;
    Ok(session(era, &result, result.get("serverInfo")))
}

/// The session described by `result` of the first request.
fn session(era: Era, result: &Value, server: Option<&Value>) -> Session {
    let declared =
        |name| result.get("capabilities").and_then(|capabilities| capabilities.get(name));
    let tools = declared("tools");
    let list_changed = tools.and_then(|tools| tools.get("listChanged"));
    let version = server.and_then(|server| server.get("version")).and_then(Value::as_str);
    Session {
        era,
        list_changed: list_changed == Some(&Value::Bool(true)),
        has_tools: tools.is_some(),
        has_resources: declared("resources").is_some(),
        has_prompts: declared("prompts").is_some(),
        instructions: result
            .get("instructions")
            .and_then(Value::as_str)
            .map_or(0, |text| text.chars().count() as u64),
        has_icons: server.and_then(|server| server.get("icons")).is_some_and(has_content),
        version: version.map(|version| crate::text::tidy(version, 100)),
    }
}

/// Whether a member is present and not empty.
pub(super) fn has_content(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        _ => true,
    }
}

fn strings(value: Option<&Value>) -> Vec<&str> {
    let items = value.and_then(Value::as_array).into_iter().flatten();
    items.filter_map(Value::as_str).collect()
}
