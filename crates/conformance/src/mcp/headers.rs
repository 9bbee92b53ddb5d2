//! The description of a request of the stateless revision, in headers and in `_meta`.

use serde_json::json;

use super::{
    common::ABSENT,
    message,
    wire::{
        self, CAPABILITIES_KEY, CLIENT_KEY, METHOD_HEADER, NAME_HEADER, Rpc, SESSION_HEADER,
        VERSION_HEADER, VERSION_KEY, base64_value,
    },
};
use crate::{Check, CheckResult, Target, checks};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.headers.version-mismatch", Must, "2026-07-28 streamable-http §server-validation", version_mismatch:
        "an `MCP-Protocol-Version` that differs from `_meta` returns 400 with -32020, or the answer of the revision in `_meta`";
    "mcp.headers.version-missing", Must, "2026-07-28 streamable-http §protocol-version-header", version_missing:
        "a request without `MCP-Protocol-Version` is rejected, or handled as 2025-03-26";
    "mcp.headers.method-mismatch", Must, "2026-07-28 streamable-http §server-validation", method_mismatch:
        "an `Mcp-Method` that differs from the body returns 400 with -32020";
    "mcp.headers.method-missing", Must, "2026-07-28 streamable-http §server-validation", method_missing:
        "a request without `Mcp-Method` returns 400 with -32020";
    "mcp.headers.name-mismatch", Must, "2026-07-28 streamable-http §server-validation", name_mismatch:
        "an `Mcp-Name` that differs from the body returns 400 with -32020";
    "mcp.headers.name-missing", Must, "2026-07-28 streamable-http §server-validation", name_missing:
        "a call without `Mcp-Name` returns 400 with -32020";
    "mcp.headers.name-encoded", Must, "2026-07-28 streamable-http §value-encoding", name_encoded:
        "an `Mcp-Name` in base64 is decoded before the comparison";
    "mcp.headers.session-ignored", Should, "2026-07-28 streamable-http §earlier-revisions", session_ignored:
        "a request of the stateless revision succeeds with any `Mcp-Session-Id` and opens no session";
    "mcp.meta.version", Must, "2026-07-28 basic §_meta", meta_version:
        "a request without `protocolVersion` in `_meta` returns 400 with -32602";
    "mcp.meta.capabilities", Must, "2026-07-28 basic §_meta", meta_capabilities:
        "a request without `clientCapabilities` in `_meta` returns 400 with -32602";
    "mcp.meta.client-info", Must, "2026-07-28 basic §_meta", meta_client:
        "a request without `clientInfo` in `_meta` succeeds";
};

/// Clients in use send such requests, so a server may decide by the body alone.
async fn version_mismatch(target: &Target) -> CheckResult {
    let response =
        discover(target).await?.header(VERSION_HEADER, "2025-11-25").send(target).await?;
    if message::reply_part(&response, "/result/resultType").is_string() {
        return Ok(());
    }
    message::expect_bad_request(&response, &[-32020])
}

async fn version_missing(target: &Target) -> CheckResult {
    let response = discover(target).await?.without_header(VERSION_HEADER).send(target).await?;
    let result = message::reply_part(&response, "/result");
    if result.is_null() {
        return message::expect_client_error(&response);
    }
    let is_old = result.get("resultType").is_none();
    let expected = "a rejection, or a result of 2025-03-26";
    response.expect(is_old, expected, "a result of the stateless revision")
}

async fn method_mismatch(target: &Target) -> CheckResult {
    expect_mismatch(target, discover(target).await?.header(METHOD_HEADER, "tools/call")).await
}

async fn method_missing(target: &Target) -> CheckResult {
    expect_mismatch(target, discover(target).await?.without_header(METHOD_HEADER)).await
}

async fn name_mismatch(target: &Target) -> CheckResult {
    let rpc = call(target, ABSENT).await?.header(NAME_HEADER, format!("{ABSENT}-other"));
    expect_mismatch(target, rpc).await
}

async fn name_missing(target: &Target) -> CheckResult {
    expect_mismatch(target, call(target, ABSENT).await?.without_header(NAME_HEADER)).await
}

async fn name_encoded(target: &Target) -> CheckResult {
    let ascii = call(target, ABSENT).await?.header(NAME_HEADER, base64_value(ABSENT));
    let unicode = call(target, "conformance-absent-größe").await?;
    for rpc in [ascii, unicode] {
        let response = rpc.send(target).await?;
        let is_equal =
            message::reply(&response).is_some() && message::code(&response) != Some(-32020);
        let expected = "a reply about the tool, because header and body are equal";
        response.expect(is_equal, expected, message::summary(&response))?;
    }
    Ok(())
}

async fn session_ignored(target: &Target) -> CheckResult {
    let rpc = discover(target).await?.header(SESSION_HEADER, "conformance-stray-session");
    let response = rpc.send(target).await?;
    message::result(&response)?;
    let has_session = response.header(SESSION_HEADER).is_some();
    response.expect(!has_session, "no `Mcp-Session-Id`", "an `Mcp-Session-Id`")
}

async fn meta_version(target: &Target) -> CheckResult {
    let response = discover(target).await?.meta(VERSION_KEY, None).send(target).await?;
    // The header then differs from the body, too, and a server may report that first.
    message::expect_bad_request(&response, &[-32602, -32020])
}

async fn meta_capabilities(target: &Target) -> CheckResult {
    let response = discover(target).await?.meta(CAPABILITIES_KEY, None).send(target).await?;
    message::expect_bad_request(&response, &[-32602])
}

async fn meta_client(target: &Target) -> CheckResult {
    let response = discover(target).await?.meta(CLIENT_KEY, None).send(target).await?;
    message::result(&response).map(drop)
}

/// Creates a request that every server of this revision supports, even one without tools.
async fn discover(target: &Target) -> CheckResult<Rpc> {
    wire::stateless(target).await?;
    Ok(wire::discover())
}

async fn call(target: &Target, name: &str) -> CheckResult<Rpc> {
    let wire = wire::stateless(target).await?;
    Ok(wire.request("tools/call", json!({ "name": name, "arguments": {} })))
}

async fn expect_mismatch(target: &Target, rpc: Rpc) -> CheckResult {
    message::expect_bad_request(&rpc.send(target).await?, &[-32020])
}
