//! `server/discover`, and which revisions a server of the stateless era speaks.

use serde_json::{Value, json};

use super::{
    NO_VERSION, STATELESS, message,
    wire::{self, SERVER_KEY, VERSION_HEADER, VERSION_KEY, Wire},
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.discover.answered",
        Must,
        "2026-07-28 server/discover",
        "a server of the stateless revision answers `server/discover`",
        answered
    ),
    check!(
        "mcp.discover.shape",
        Must,
        "2026-07-28 server/discover",
        "the result has `supportedVersions`, texts and at least one, and `capabilities`, an object \
         of objects",
        has_shape
    ),
    check!(
        "mcp.discover.own-version",
        Must,
        "2026-07-28 basic/versioning",
        "`supportedVersions` names the revision in which it was asked",
        own_version
    ),
    check!(
        "mcp.discover.server-info",
        Should,
        "2026-07-28 basic §_meta",
        "`_meta` says which server this is, by name and version",
        server_info
    ),
    check!(
        "mcp.discover.caching",
        Must,
        "2026-07-28 server/utilities/caching",
        "it says how long and by whom it may be kept: `ttlMs` from 0, `cacheScope` public or \
         private",
        caching
    ),
    check!(
        "mcp.version.unsupported",
        Must,
        "2026-07-28 basic/versioning",
        "a revision that the server does not speak is refused as 400 with -32022",
        unsupported
    ),
    check!(
        "mcp.version.supported",
        Must,
        "2026-07-28 basic/versioning",
        "that refusal names what was `requested` and the same `supported` versions as discovery",
        supported
    ),
];

async fn answered(site: &Site) -> Verdict {
    discovered(site).await.map(drop)
}

async fn has_shape(site: &Site) -> Verdict {
    let shape = json!({
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
    let (got, result) = discovered(site).await?;
    match shape::violation(&shape, &result) {
        None => Ok(()),
        Some(what) => fail("the shape of a discovery", what, &[&got]),
    }
}

async fn own_version(site: &Site) -> Verdict {
    let (got, result) = discovered(site).await?;
    let versions = versions(&result, "supportedVersions");
    let seen = format!("{} versions without it", versions.len());
    got.expect(versions.contains(&STATELESS), format!("{STATELESS} among them"), seen)
}

async fn server_info(site: &Site) -> Verdict {
    let (got, result) = discovered(site).await?;
    says_server(&got, &result)
}

async fn caching(site: &Site) -> Verdict {
    let (got, result) = discovered(site).await?;
    says_caching(&got, &result)
}

async fn unsupported(site: &Site) -> Verdict {
    let got = refused_version(site).await?;
    message::expect_refused(&got, &[-32022])
}

async fn supported(site: &Site) -> Verdict {
    let got = refused_version(site).await?;
    message::expect_code(&got, &[-32022])?;
    let answer = message::of(&got).unwrap_or_default();
    let data = answer.pointer("/error/data").cloned().unwrap_or_default();
    let requested = data.get("requested").and_then(Value::as_str).unwrap_or_default();
    got.expect(
        requested == NO_VERSION,
        format!("`data.requested` {NO_VERSION}"),
        "something else",
    )?;
    let mut supported = versions(&data, "supported");
    let (discovery, result) = discovered(site).await?;
    let mut announced = versions(&result, "supportedVersions");
    supported.sort_unstable();
    announced.sort_unstable();
    match supported == announced {
        true => Ok(()),
        false => fail("`data.supported` as in discovery", "others", &[&got, &discovery]),
    }
}

/// The discovery of a server that speaks the stateless revision.
async fn discovered(site: &Site) -> Verdict<(Got, Value)> {
    wire::stateless(site).await?;
    let got = wire::discover().send(site).await?;
    let result = message::result(&got)?;
    Ok((got, result))
}

async fn refused_version(site: &Site) -> Verdict<Got> {
    let wire: Wire = wire::stateless(site).await?;
    let rpc = wire
        .request("tools/list", json!({}))
        .says(VERSION_HEADER, NO_VERSION)
        .meta(VERSION_KEY, Some(json!(NO_VERSION)));
    rpc.send(site).await
}

/// The texts in the array `name`.
pub(super) fn versions<'a>(document: &'a Value, name: &str) -> Vec<&'a str> {
    let all = document.get(name).and_then(Value::as_array);
    all.into_iter().flatten().filter_map(Value::as_str).collect()
}

/// Fails unless `result` says whose it is.
pub(super) fn says_server(got: &Got, result: &Value) -> Verdict {
    let info = result.get("_meta").and_then(|meta| meta.get(SERVER_KEY)).unwrap_or(&Value::Null);
    let says = |name: &str| info.get(name).is_some_and(Value::is_string);
    got.expect(
        says("name") && says("version"),
        format!("`_meta[\"{SERVER_KEY}\"]` with `name` and `version`"),
        "none",
    )
}

/// Fails unless `result` says how it may be kept.
pub(super) fn says_caching(got: &Got, result: &Value) -> Verdict {
    let shape = json!({
        "type": "object",
        "required": ["ttlMs", "cacheScope"],
        "properties": {
            "ttlMs": { "type": "integer", "minimum": 0 },
            "cacheScope": { "enum": ["public", "private"] },
        },
    });
    match shape::violation(&shape, result) {
        None => Ok(()),
        Some(what) => fail("`ttlMs` and `cacheScope`", what, &[got]),
    }
}
