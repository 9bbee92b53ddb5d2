//! Error responses.

use serde_json::json;

use super::{
    call,
    common::{envelope, expect_marker, expect_message, post_call},
};
use crate::{CheckResult, Target, http::Response, value::text};

pub(crate) async fn message(target: &Target) -> CheckResult {
    expect_message(&rejected(target).await?)
}

pub(crate) async fn marker(target: &Target) -> CheckResult {
    expect_marker(target, &rejected(target).await?)
}

pub(crate) async fn developer(target: &Target) -> CheckResult {
    let response = call::call_unknown_version(target).await?;
    let message = text(response.value(), "message");
    let developer = text(response.value(), "developer_message");
    response.expect(!developer.is_empty(), "a `developer_message`", "none")?;
    let is_separate = !message.contains(developer);
    response.expect(is_separate, "a different `message`", "the text for developers")
}

pub(crate) async fn no_secrets(target: &Target) -> CheckResult {
    const CANARY: &str = "conformance-secret-7d1f0c";
    let context = json!({ "secrets": [{ "id": "key", "value": CANARY }] });
    for request in [
        json!({ "tool_id": "Conformance.Absent", "input": {}, "context": context }),
        json!({ "input": {}, "context": context }),
    ] {
        let response = post_call(target, &envelope(target, &request)).await?;
        response.expect(!response.text().contains(CANARY), "no secret", "the secret")?;
    }
    Ok(())
}

/// Sends a call that is rejected before a tool runs.
async fn rejected(target: &Target) -> CheckResult<Response> {
    let response = call::call_unknown_tool(target).await?;
    response.expect_client_error()?;
    Ok(response)
}
