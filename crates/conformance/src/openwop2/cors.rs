//! Pages of other origins.

use reqwest::Method;

use crate::{
    Check, CheckResult, Target, checks, fail, http::Response, openwop::common::paths, skip,
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.cors.preflight", Must, "headers, v2-cors-preflight", preflight:
        "a page of a granted origin may send `Authorization`, `OpenWOP-Version` and \
         `OpenWOP-Client-Version`";
    "openwop2.cors.exposed", Should, "headers", exposed:
        "it may read `OpenWOP-Version`, `ETag` and `Retry-After`";
};

async fn preflight(target: &Target) -> CheckResult {
    let names = "authorization,openwop-client-version,openwop-version";
    let request = target
        .plain_request(Method::OPTIONS, paths(target).tools)
        .header("origin", origin(target)?)
        .header("access-control-request-method", "GET")
        .header("access-control-request-headers", names);
    let response = target.send_once(request).await?;
    response.expect_status(&[200, 204])?;
    let allowed = response.header_text("access-control-allow-origin");
    let is_granted = allowed == origin(target)? || allowed == "*";
    response.expect(is_granted, "`Access-Control-Allow-Origin` with the origin", allowed)?;
    // `*` never means `Authorization`.
    expect_names(&response, "access-control-allow-headers", names)
}

async fn exposed(target: &Target) -> CheckResult {
    let request = target.get(paths(target).tools).with_key().header("origin", origin(target)?);
    let response = target.send_once(request).await?;
    expect_names(&response, "access-control-expose-headers", "etag,openwop-version,retry-after")
}

/// The origin that the host grants access to; skips the check if the user names none.
fn origin(target: &Target) -> CheckResult<&str> {
    match &target.options().origin {
        Some(origin) => Ok(origin),
        None => skip("needs an origin that the host grants access to: --origin"),
    }
}

/// Fails the check unless the list `header` contains all `names`.
fn expect_names(response: &Response, header: &str, names: &str) -> CheckResult {
    let listed = response.header_text(header).to_ascii_lowercase();
    let has = |name: &str| listed.split(',').any(|own| own.trim() == name);
    match names.split(',').find(|name| !has(name)) {
        Some(missing) => fail(format!("`{header}` with `{missing}`"), listed, &[response]),
        None => Ok(()),
    }
}
