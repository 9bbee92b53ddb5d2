//! What a request of the stateless revision says about itself, in headers and in `_meta`.

use serde_json::json;

use super::{
    ABSENT, message,
    wire::{
        self, CAPABILITIES_KEY, CLIENT_KEY, METHOD_HEADER, NAME_HEADER, Rpc, SESSION_HEADER,
        VERSION_HEADER, VERSION_KEY, encoded,
    },
};
use crate::conformance::{Check, Site, Verdict, check, fail};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.headers.version-mismatch",
        Must,
        "2026-07-28 streamable-http §server-validation",
        "an `MCP-Protocol-Version` other than the version in `_meta` is 400 with -32020",
        version_mismatch
    ),
    check!(
        "mcp.headers.version-missing",
        Must,
        "2026-07-28 streamable-http §protocol-version-header",
        "a request without `MCP-Protocol-Version` is refused, or served as of 2025-03-26",
        version_missing
    ),
    check!(
        "mcp.headers.method-mismatch",
        Must,
        "2026-07-28 streamable-http §server-validation",
        "an `Mcp-Method` other than the method of the body is 400 with -32020",
        method_mismatch
    ),
    check!(
        "mcp.headers.method-missing",
        Must,
        "2026-07-28 streamable-http §server-validation",
        "a request without `Mcp-Method` is 400 with -32020",
        method_missing
    ),
    check!(
        "mcp.headers.name-mismatch",
        Must,
        "2026-07-28 streamable-http §server-validation",
        "an `Mcp-Name` other than the name in the body is 400 with -32020",
        name_mismatch
    ),
    check!(
        "mcp.headers.name-missing",
        Must,
        "2026-07-28 streamable-http §server-validation",
        "a call without `Mcp-Name` is 400 with -32020",
        name_missing
    ),
    check!(
        "mcp.headers.name-encoded",
        Must,
        "2026-07-28 streamable-http §value-encoding",
        "an `Mcp-Name` in base64 is decoded before it is compared",
        name_encoded
    ),
    check!(
        "mcp.headers.session-ignored",
        Should,
        "2026-07-28 streamable-http §earlier-revisions",
        "a request of the stateless revision is served whatever `Mcp-Session-Id` it bears, and \
         opens none",
        session_ignored
    ),
    check!(
        "mcp.meta.version",
        Must,
        "2026-07-28 basic §_meta",
        "a request without `protocolVersion` in `_meta` is 400 with -32602",
        meta_version
    ),
    check!(
        "mcp.meta.capabilities",
        Must,
        "2026-07-28 basic §_meta",
        "a request without `clientCapabilities` in `_meta` is 400 with -32602",
        meta_capabilities
    ),
    check!(
        "mcp.meta.client-info",
        Must,
        "2026-07-28 basic §_meta",
        "a request without `clientInfo` in `_meta` is served",
        meta_client
    ),
];

async fn version_mismatch(site: &Site) -> Verdict {
    mismatch(site, list(site).await?.says(VERSION_HEADER, "2025-11-25")).await
}

async fn version_missing(site: &Site) -> Verdict {
    let got = list(site).await?.silent(VERSION_HEADER).send(site).await?;
    match message::of(&got).and_then(|answer| Some(answer.get("result")?.clone())) {
        Some(result) => got.expect(
            result.get("resultType").is_none(),
            "a refusal, or a result of 2025-03-26",
            "a result of the stateless revision",
        ),
        None => {
            let is_refusal = (400..500).contains(&got.status());
            got.expect(is_refusal, "a status from 400 to 499", message::what(&got))
        }
    }
}

async fn method_mismatch(site: &Site) -> Verdict {
    mismatch(site, list(site).await?.says(METHOD_HEADER, "tools/call")).await
}

async fn method_missing(site: &Site) -> Verdict {
    mismatch(site, list(site).await?.silent(METHOD_HEADER)).await
}

async fn name_mismatch(site: &Site) -> Verdict {
    mismatch(site, call(site, ABSENT).await?.says(NAME_HEADER, format!("{ABSENT}-other"))).await
}

async fn name_missing(site: &Site) -> Verdict {
    mismatch(site, call(site, ABSENT).await?.silent(NAME_HEADER)).await
}

async fn name_encoded(site: &Site) -> Verdict {
    let plain = call(site, ABSENT).await?.says(NAME_HEADER, encoded(ABSENT));
    let beyond = call(site, "conformance-absent-größe").await?;
    for rpc in [plain, beyond] {
        let got = rpc.send(site).await?;
        if message::of(&got).is_none() || message::code(&got) == Some(-32020) {
            let expected = "an answer about the tool, since header and body agree";
            return fail(expected, message::what(&got), &[&got]);
        }
    }
    Ok(())
}

async fn session_ignored(site: &Site) -> Verdict {
    let stray = list(site).await?.says(SESSION_HEADER, "conformance-stray-session");
    let got = stray.send(site).await?;
    message::result(&got)?;
    got.expect(got.header(SESSION_HEADER).is_none(), "no `Mcp-Session-Id`", "one")
}

async fn meta_version(site: &Site) -> Verdict {
    let got = list(site).await?.meta(VERSION_KEY, None).send(site).await?;
    // What the header says then is not what the body says, which may be noticed first.
    message::expect_refused(&got, &[-32602, -32020])
}

async fn meta_capabilities(site: &Site) -> Verdict {
    let got = list(site).await?.meta(CAPABILITIES_KEY, None).send(site).await?;
    message::expect_refused(&got, &[-32602])
}

async fn meta_client(site: &Site) -> Verdict {
    let got = list(site).await?.meta(CLIENT_KEY, None).send(site).await?;
    message::result(&got).map(drop)
}

async fn list(site: &Site) -> Verdict<Rpc> {
    // Every server of this revision answers it, one without tools too.
    wire::stateless(site).await?;
    Ok(wire::discover())
}

async fn call(site: &Site, name: &str) -> Verdict<Rpc> {
    let wire = wire::stateless(site).await?;
    Ok(wire.request("tools/call", json!({ "name": name, "arguments": {} })))
}

async fn mismatch(site: &Site, rpc: Rpc) -> Verdict {
    message::expect_refused(&rpc.send(site).await?, &[-32020])
}
