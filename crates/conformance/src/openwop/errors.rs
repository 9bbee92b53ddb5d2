//! Error responses.

use futures_util::future::join_all;
use reqwest::Method;
use serde_json::{Value, json};

use super::common::{DISCOVERY, expect_flat_error, paths};
use crate::{Check, CheckResult, Target, checks, fail, http::Response, skip, value::text};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop.errors.envelope", Must, "error-envelope.schema.json", envelope:
        "an error is a flat object with `error`, `message` and optionally `details`";
    "openwop.errors.json", Must, "rest-endpoints §errors", json_everywhere:
        "errors of the HTTP framework have the same form: wrong method, unknown route, invalid path, \
         invalid JSON";
    "openwop.errors.unknown-run", Must, "rest-endpoints", unknown_run:
        "an unknown run returns 403 or 404, and a run without a workflow is rejected, both with a \
         flat error";
    "openwop.errors.no-echo", Must, "invariant secret-leakage-error-envelope", no_echo:
        "an error does not repeat text of the request";
    "openwop.errors.rate-limit", Must, "rest-endpoints §rate limits", rate_limit:
        "a 429 has `Retry-After` in whole seconds, and its `details` agree";
};

pub(crate) async fn envelope(target: &Target) -> CheckResult {
    target.require_key()?;
    let response = target.fetch(paths(target).absent[0]).await?;
    response.expect_status(&[404])?;
    expect_flat_error(&response)
}

pub(crate) async fn json_everywhere(target: &Target) -> CheckResult {
    target.require_key()?;
    for request in [
        target.get("/v1/conformance-nothing-is-here"),
        target.request(Method::PATCH, paths(target).absent[0]),
        target.get("/v1/tools/%FF%FE"),
        target.post("/v1/runs").json_text("{not json"),
    ] {
        let response = target.send_once(request.with_key()).await?;
        response.expect_client_error()?;
        expect_flat_error(&response)?;
    }
    Ok(())
}

pub(crate) async fn unknown_run(target: &Target) -> CheckResult {
    target.require_key()?;
    let response = target.fetch("/v1/runs/conformance-absent").await?;
    response.expect_status(&[403, 404])?;
    expect_flat_error(&response)?;
    let request = target.post("/v1/runs").json(&json!({}));
    let response = target.send_once(request.with_key()).await?;
    response.expect_client_error()?;
    expect_flat_error(&response)
}

pub(crate) async fn no_echo(target: &Target) -> CheckResult {
    const CANARY: &str = "conformance-canary-7d1f";
    target.require_key()?;
    let tools = paths(target).tools;
    let beside = tools.replace("tools", CANARY);
    for path in [format!("{tools}/{CANARY}"), beside, format!("{tools}?source={CANARY}")] {
        let response = target.fetch(&path).await?;
        let is_leak = response.status() >= 400 && response.text().contains(CANARY);
        response.expect(!is_leak, "an error without text of the request", "text of the request")?;
    }
    Ok(())
}

pub(crate) async fn rate_limit(target: &Target) -> CheckResult {
    let (response, seconds) = limited(target).await?;
    let details = response.value().get("details").unwrap_or(&Value::Null);
    if let Some(scope) = details.get("scope") {
        let is_known = ["tenant", "route", "global", "key"].contains(&text(details, "scope"));
        let expected = "`details.scope` tenant, route, global or key";
        response.expect(is_known, expected, scope.to_string())?;
    }
    match details.get("retryAfterMs").and_then(Value::as_u64) {
        Some(millis) => response.expect_same_delay(seconds, millis),
        None => Ok(()),
    }
}

/// Sends requests until one is limited; skips the check if none is. Returns the 429, and its
/// `Retry-After` in seconds.
pub(crate) async fn limited(target: &Target) -> CheckResult<(Response, u64)> {
    const BURST: usize = 24;
    let requests = (0..BURST).map(|_| target.send(target.get(DISCOVERY)));
    let responses = join_all(requests).await.into_iter().collect::<CheckResult<Vec<_>>>()?;
    let Some(response) = responses.into_iter().find(|response| response.status() == 429) else {
        return skip(format!("{BURST} concurrent requests were not limited"));
    };
    expect_flat_error(&response)?;
    match response.header_text("retry-after").parse() {
        Ok(seconds) => Ok((response, seconds)),
        Err(_) => fail("`Retry-After` in whole seconds", "none", &[&response]),
    }
}
