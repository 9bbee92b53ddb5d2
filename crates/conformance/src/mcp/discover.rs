//! `server/discover`, and the revisions that a server of the stateless era supports.

use serde_json::{Value, json};

use super::{
    common::{STATELESS, UNKNOWN_VERSION},
    message,
    wire::{self, SERVER_KEY, VERSION_HEADER, VERSION_KEY},
};
use crate::{
    Check, CheckResult, Target, checks,
    http::Response,
    require,
    value::{text, texts},
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.discover.answered", Must, "2026-07-28 server/discover", answered:
        "a server of the stateless revision supports `server/discover`";
    "mcp.discover.shape", Must, "2026-07-28 server/discover", has_shape:
        "the result has the non-empty array `supportedVersions` of strings and the object \
         `capabilities` of objects";
    "mcp.discover.own-version", Must, "2026-07-28 basic/versioning", own_version:
        "`supportedVersions` contains the revision of the request";
    "mcp.discover.server-info", Should, "2026-07-28 basic §_meta", server_info:
        "`_meta` contains the name and version of the server";
    "mcp.discover.caching", Must, "2026-07-28 server/utilities/caching", caching:
        "the result has caching rules: `ttlMs` from 0, `cacheScope` public or private";
    "mcp.version.unsupported", Must, "2026-07-28 basic/versioning", unsupported:
        "an unsupported revision returns 400 with -32022";
    "mcp.version.supported", Must, "2026-07-28 basic/versioning", supported:
        "that error has the `requested` version and the same `supported` versions as discovery";
};

async fn answered(target: &Target) -> CheckResult {
    discovered(target).await.map(drop)
}

async fn has_shape(target: &Target) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["supportedVersions", "capabilities"],
        "properties": {
            "supportedVersions": {
                "type": "array", "minItems": 1, "items": { "type": "string", "minLength": 1 },
            },
            "capabilities": { "type": "object", "additionalProperties": { "type": "object" } },
            "instructions": { "type": "string" },
        },
    });
    let (response, result) = discovered(target).await?;
    response.expect_valid(&result, &schema, "a valid result of `server/discover`")
}

async fn own_version(target: &Target) -> CheckResult {
    let (response, result) = discovered(target).await?;
    let versions = texts(&result, "supportedVersions");
    let seen = format!("{} other versions", versions.len());
    response.expect(versions.contains(&STATELESS), format!("the version {STATELESS}"), seen)
}

async fn server_info(target: &Target) -> CheckResult {
    let (response, result) = discovered(target).await?;
    expect_server_info(&response, &result)
}

async fn caching(target: &Target) -> CheckResult {
    let (response, result) = discovered(target).await?;
    expect_caching(&response, &result)
}

async fn unsupported(target: &Target) -> CheckResult {
    message::expect_bad_request(&request_unknown_version(target).await?, &[-32022])
}

async fn supported(target: &Target) -> CheckResult {
    let response = request_unknown_version(target).await?;
    message::expect_code(&response, &[-32022])?;
    let data = message::reply_part(&response, "/error/data");
    let is_same = text(&data, "requested") == UNKNOWN_VERSION;
    let expected = format!("`data.requested` {UNKNOWN_VERSION}");
    response.expect(is_same, expected, "something else")?;
    let (discovery, result) = discovered(target).await?;
    let (mut supported, mut advertised) =
        (texts(&data, "supported"), texts(&result, "supportedVersions"));
    supported.sort_unstable();
    advertised.sort_unstable();
    let is_same = supported == advertised;
    let expected = "`data.supported` equal to `supportedVersions`";
    require(is_same, expected, "other versions", &[&response, &discovery])
}

/// Reads the discovery of a server that supports the stateless revision.
async fn discovered(target: &Target) -> CheckResult<(Response, Value)> {
    wire::stateless(target).await?;
    let response = wire::discover().send(target).await?;
    let result = message::result(&response)?;
    Ok((response, result))
}

async fn request_unknown_version(target: &Target) -> CheckResult<Response> {
    let rpc = wire::stateless(target).await?.request("tools/list", json!({}));
    let rpc = rpc.header(VERSION_HEADER, UNKNOWN_VERSION);
    rpc.meta(VERSION_KEY, Some(json!(UNKNOWN_VERSION))).send(target).await
}

/// Fails the check unless `result` contains the name and version of the server.
pub(super) fn expect_server_info(response: &Response, result: &Value) -> CheckResult {
    let info = result.get("_meta").and_then(|meta| meta.get(SERVER_KEY)).unwrap_or(&Value::Null);
    let has_info =
        ["name", "version"].iter().all(|member| info.get(member).is_some_and(Value::is_string));
    let expected = format!("`_meta[\"{SERVER_KEY}\"]` with `name` and `version`");
    response.expect(has_info, expected, "none")
}

/// Fails the check unless `result` has caching rules.
pub(super) fn expect_caching(response: &Response, result: &Value) -> CheckResult {
    let schema = json!({
        "type": "object",
        "required": ["ttlMs", "cacheScope"],
        "properties": {
            "ttlMs": { "type": "integer", "minimum": 0 },
            "cacheScope": { "enum": ["public", "private"] },
        },
    });
    response.expect_valid(result, &schema, "`ttlMs` and `cacheScope`")
}
