//! Error responses: a closed envelope with registered codes, each with its one status.

use reqwest::Method;
use serde_json::Value;

use super::common::{ABSENT_RUN, RUNS, expect_error, with_version};
use crate::{
    Check, CheckResult, Target, checks, fail,
    openwop::{
        common::{expect_flat_error, paths},
        errors as v1,
    },
};

pub(super) const CHECKS: &[Check] = checks! {
    "openwop2.errors.envelope", Must, "schemas/v2/error-envelope", v1::envelope:
        "an error is a closed object with `error`, `message` and optionally `details`";
    "openwop2.errors.codes", Must, "errors, v2-error-registry", codes:
        "an error has the registered code for its cause, with the status of that code";
    "openwop2.errors.framework", Must, "errors", framework:
        "errors of the HTTP framework have the same form: wrong method, invalid path";
    "openwop2.errors.no-echo", Must, "invariant secret-leakage-error-envelope", v1::no_echo:
        "an error does not repeat text of the request";
    "openwop2.errors.rate-limit", Must, "errors", rate_limit:
        "a 429 is `rate_limited` with `Retry-After`, and its `details` do not repeat the delay";
};

async fn codes(target: &Target) -> CheckResult {
    target.require_key()?;
    let paths = paths(target);
    for (request, status, code) in [
        (target.get(paths.tools), 401, "unauthenticated"),
        (target.get(paths.absent[0]).with_key(), 404, "not_found"),
        (target.get(ABSENT_RUN).with_key(), 404, "not_found"),
        (with_version(target, RUNS, "97.0").with_key(), 406, "protocol_version_unsupported"),
    ] {
        expect_error(&target.send_once(request).await?, status, code)?;
    }
    Ok(())
}

async fn framework(target: &Target) -> CheckResult {
    target.require_key()?;
    for request in [
        target.request(Method::PATCH, paths(target).absent[0]),
        target.get(&format!("{}/%FF%FE", paths(target).tools)),
        target.request(Method::DELETE, RUNS),
    ] {
        let response = target.send_once(request.with_key()).await?;
        response.expect_client_error()?;
        expect_flat_error(&response)?;
    }
    Ok(())
}

async fn rate_limit(target: &Target) -> CheckResult {
    let (response, _) = v1::limited(target).await?;
    expect_error(&response, 429, "rate_limited")?;
    let details = response.value().get("details").unwrap_or(&Value::Null);
    for member in ["retryAfter", "retryAfterMs", "retryAfterSeconds"] {
        if details.get(member).is_some() {
            let seen = format!("`details.{member}`");
            return fail("the delay in `Retry-After` alone", seen, &[&response]);
        }
    }
    Ok(())
}
