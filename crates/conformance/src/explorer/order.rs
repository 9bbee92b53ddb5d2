//! The order in which errors take precedence (F3, F7).

use serde_json::json;

use super::{
    auth::rejected_call,
    common::{
        ABSENT, call_absent, expect_not_found, is_execution_enabled, is_guarded, path,
        require_execution, require_no_execution,
    },
};
use crate::{Check, CheckResult, Target, checks, skip_unless};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.order.disabled-before-unknown", Must, "F3, precondition checks", disabled_before_unknown:
        "a host that does not run tools returns 403 for unknown tools, too";
    "explorer.order.disabled-before-auth", Must, "F3, precondition checks; F4 FR-3", disabled_before_auth:
        "a host that does not run tools returns 403 before it requires credentials";
    "explorer.order.unknown-before-auth", Must, "F3, precondition checks; F4 FR-3", unknown_before_auth:
        "a call of an unknown tool returns 404 before credentials are required";
    "explorer.order.unknown-before-body", Must, "F3 and F7, precondition checks", unknown_before_body:
        "an unknown tool returns 404, whatever the body";
};

async fn disabled_before_unknown(target: &Target) -> CheckResult {
    require_no_execution(target).await?;
    call_absent(target).await?.expect_status(&[403])
}

async fn disabled_before_auth(target: &Target) -> CheckResult {
    require_no_execution(target).await?;
    skip_if_guarded(target).await?;
    let request = target.post(&path(ABSENT, "/call")).json(&json!({}));
    let response = target.send_once(request).await?;
    // `explorer.order.disabled-before-unknown` judges all other statuses.
    response.expect(response.status() != 401, "status 403", "status 401")
}

async fn unknown_before_auth(target: &Target) -> CheckResult {
    require_execution(target).await?;
    skip_if_guarded(target).await?;
    // Without required credentials there is no order.
    rejected_call(target).await?;
    let request = target.post(&path(ABSENT, "/call")).json(&json!({}));
    expect_not_found(&target.send_once(request).await?, ABSENT)
}

async fn unknown_before_body(target: &Target) -> CheckResult {
    for (endpoint, applies) in [("/validate", true), ("/call", is_execution_enabled(target).await?)]
    {
        if applies {
            let request = target.post(&path(ABSENT, endpoint)).json_text("not json");
            expect_not_found(&target.send_authorized(request).await?, ABSENT)?;
        }
    }
    Ok(())
}

/// Skips the check if credentials are required in front of the explorer.
async fn skip_if_guarded(target: &Target) -> CheckResult {
    skip_unless(!is_guarded(target).await?, "the host requires credentials for all endpoints")
}
