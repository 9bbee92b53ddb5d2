//! OXP 1.0, according to its OpenAPI document and its SDK.

use serde_json::Value;

use crate::{
    Check, CheckResult, Protocol, Suite, Target, checks,
    open_tool_calling::{auth, call, errors, list, shared_checks, tool_for_call},
    skip_unless,
    value::text,
};

pub(crate) const SUITE: Suite = Suite {
    protocol: Protocol::Oxp,
    path: "/oxp",
    is_served: |target| Box::pin(target.serves(target.get("/tools").with_key())),
    checks: &[shared_checks!("oxp", Should), OWN],
};

const OWN: &[Check] = checks! {
    "oxp.list.parameters", Must, "ToolDefinition", list::flat_parameters:
        "`input_schema` is the schema of the input";
    "oxp.version.header", Should, "Versioning (header draft)", header:
        "every response has the header `OXP-Version`";
    "oxp.version.unsupported", Must, "Versioning (header draft)", unsupported:
        "a host with the header `OXP-Version` rejects an unsupported version with 400";
    "oxp.version.flat-call", Should, "Versioning (header draft)", flat_call:
        "a host with the header `OXP-Version` accepts a call without the envelope and returns no envelope";
};

async fn header(target: &Target) -> CheckResult {
    let tools = target.get("/tools");
    for request in [target.get("/health"), tools.clone().with_key(), tools] {
        let response = target.send_once(request).await?;
        let version = response.header("oxp-version").unwrap_or("none");
        response.expect(version.starts_with("1.0"), "`OXP-Version: 1.0`", version)?;
    }
    Ok(())
}

async fn unsupported(target: &Target) -> CheckResult {
    require_version_header(target).await?;
    let request = target.get("/tools").with_key().header("oxp-version", "9.0");
    target.send_once(request).await?.expect_status(&[400])
}

async fn flat_call(target: &Target) -> CheckResult {
    require_version_header(target).await?;
    let call = tool_for_call(target).await?.request();
    let request = target.post("/tools/call").json(&call).header("oxp-version", "1.0");
    let response = target.send_once(request.with_key()).await?;
    response.expect_status(&[200])?;
    let is_success = response.json()?.get("success") == Some(&Value::Bool(true));
    response.expect(is_success, "`success` at the root", "none")?;
    response.expect(response.value().get("result").is_none(), "no `result`", "an envelope")?;
    response.expect(!text(response.value(), "call_id").is_empty(), "a `call_id`", "none")
}

/// Skips the check unless the host sends its version in a header.
async fn require_version_header(target: &Target) -> CheckResult {
    let response = target.fetch("/tools").await?;
    let has_header = response.header("oxp-version").is_some();
    skip_unless(has_header, "the host does not send `OXP-Version`")
}
