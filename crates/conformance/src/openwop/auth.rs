//! Authentication: 401 takes precedence over everything else under `/v1`.

use serde_json::json;

use super::common::{expect_flat_error, paths};
use crate::{
    Check, CheckResult, Target, checks,
    http::{Request, Response, UNKNOWN_TOKEN},
    skip,
    value::text,
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.auth.required", Must, "RFC 0078 §B, auth", required:
        "without a key, the catalog and each of its tools return 401 with the code `unauthenticated`";
    "openwop.auth.before-routing", Must, "auth", before_routing:
        "without a key, every path under `/v1` returns 401, whether it exists or not";
    "openwop.auth.unknown-key", Must, "auth", unknown_key:
        "an unknown key returns 401, never 403";
    "openwop.auth.malformed", Must, "auth", malformed:
        "malformed credentials return 401: another scheme, no token, no scheme";
    "openwop.auth.challenge", Should, "RFC 0200, RFC 9110 §11.6.1", challenge:
        "a 401 has the header `WWW-Authenticate: Bearer`";
    "openwop.auth.scheme-case", Should, "RFC 9110 §11.1", scheme_case:
        "the name of the authentication scheme is case-insensitive";
};

pub(crate) async fn required(target: &Target) -> CheckResult {
    let paths = paths(target);
    for path in [paths.tools, paths.compact, paths.absent[0]] {
        let response = expect_unauthenticated(target, target.get(path)).await?;
        let code = text(response.value(), "error");
        let seen = format!("`{code}`");
        response.expect(code == "unauthenticated", "`error` is `unauthenticated`", seen)?;
    }
    Ok(())
}

pub(crate) async fn before_routing(target: &Target) -> CheckResult {
    let runs = target.post("/v1/runs").json(&json!({}));
    for request in [
        target.get("/v1/conformance-nothing-is-here"),
        target.get("/v1/runs/conformance-absent"),
        runs.clone(),
        runs.with_unknown_key(),
    ] {
        expect_unauthenticated(target, request).await?;
    }
    Ok(())
}

pub(crate) async fn unknown_key(target: &Target) -> CheckResult {
    expect_unauthenticated(target, target.get(paths(target).tools).with_unknown_key())
        .await
        .map(drop)
}

pub(crate) async fn malformed(target: &Target) -> CheckResult {
    for value in ["Basic dXNlcjpwYXNz", "Bearer", "Bearer  ", UNKNOWN_TOKEN] {
        expect_unauthenticated(
            target,
            target.get(paths(target).tools).header("authorization", value),
        )
        .await?;
    }
    Ok(())
}

pub(crate) async fn challenge(target: &Target) -> CheckResult {
    expect_unauthenticated(target, target.get(paths(target).tools)).await?.expect_bearer_challenge()
}

pub(crate) async fn scheme_case(target: &Target) -> CheckResult {
    let Some(key) = target.host().key_text() else { return skip("needs a key: --key") };
    let request = target.get(paths(target).tools).header("authorization", format!("bearer {key}"));
    let response = target.send(request).await?;
    response.expect(!response.is_unauthorized(), "`bearer` equals `Bearer`", "it is rejected")
}

/// Sends `request` and fails the check unless the response is a flat 401.
async fn expect_unauthenticated(target: &Target, request: Request) -> CheckResult<Response> {
    let response = target.send_once(request).await?;
    response.expect_status(&[401])?;
    expect_flat_error(&response)?;
    Ok(response)
}
