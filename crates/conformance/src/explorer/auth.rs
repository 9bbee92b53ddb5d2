//! Authentication (F4). If a host protects all endpoints, the protection in front of the explorer
//! decides the order of its errors.

use serde_json::{Value, json};

use super::{
    common::{expect_body, is_guarded, name_of, path, summaries},
    tools::{Tool, callable},
};
use crate::{
    Check, CheckResult, Target, checks, fail,
    http::{Request, Response},
    skip, skip_unless,
};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.auth.discovery", Must, "F4 FR-2, TC-6; F7, gating rules", discovery:
        "list, details and validation have the same protection: all are public, or all are protected";
    "explorer.auth.invalid-ignored", Must, "F4 FR-2, TC-6; F7, criterion 9", junk_ignored:
        "if the list is public, invalid credentials are ignored";
    "explorer.auth.required", Must, "F4 EH-1", required:
        "a host that requires credentials returns 401 for a call without them";
    "explorer.auth.unknown-key", Must, "F4 EH-1, TC-2", unknown_key:
        "a call with unknown credentials returns 401";
    "explorer.auth.body", Must, "F4 SEC-1, TC-5", body:
        "a 401 is exactly `{\"error\":\"Unauthorized\"}`, whatever the reason";
};

async fn discovery(target: &Target) -> CheckResult {
    let (name, list) = visible(target).await?;
    let is_closed = list.is_unauthorized();
    for request in reads(target, &name) {
        let response = target.send_once(request).await?;
        let is_same = if is_closed { response.is_unauthorized() } else { response.status() == 200 };
        if !is_same {
            let expected = format!("status {}, as for the list", list.status());
            return fail(expected, format!("status {}", response.status()), &[&response, &list]);
        }
    }
    if is_closed {
        return Ok(());
    }
    for path in ["", "/"] {
        let page = target.send_once(target.get(path)).await?;
        page.expect(!page.is_unauthorized(), "a public page, like the list", "a protected page")?;
    }
    Ok(())
}

async fn junk_ignored(target: &Target) -> CheckResult {
    skip_unless(!is_guarded(target).await?, "the list requires credentials")?;
    let (name, _) = visible(target).await?;
    for request in [target.get("/tools")].into_iter().chain(reads(target, &name)) {
        target.send_once(request.with_unknown_key()).await?.expect_status(&[200])?;
    }
    Ok(())
}

async fn required(target: &Target) -> CheckResult {
    rejected_call(target).await?.1.expect_status(&[401])
}

async fn unknown_key(target: &Target) -> CheckResult {
    call_with_unknown_key(target).await?.expect_status(&[401])
}

async fn body(target: &Target) -> CheckResult {
    let responses = [rejected_call(target).await?.1, call_with_unknown_key(target).await?];
    for response in responses.iter().filter(|response| response.status() == 401) {
        expect_body(response, &json!({ "error": "Unauthorized" }))?;
    }
    Ok(())
}

/// Selects a callable tool that requires credentials, and calls it without them.
pub(super) async fn rejected_call(target: &Target) -> CheckResult<(Tool, Response)> {
    let (tool, arguments) = callable(target).await?;
    let list = target.send_once(target.get("/tools")).await?;
    let public = list.value().as_array().map(Vec::as_slice).unwrap_or_default();
    let is_listed = public.iter().any(|entry| name_of(entry) == tool.name);
    let reason = "the callable tool is not in the public list";
    skip_unless(list.is_unauthorized() || is_listed, reason)?;
    let request = target.post(&path(&tool.name, "/call")).json(&arguments);
    let response = target.send_once(request).await?;
    match response.value().get("isError") {
        Some(_) => skip("the host runs tools without credentials"),
        None => Ok((tool, response)),
    }
}

async fn call_with_unknown_key(target: &Target) -> CheckResult<Response> {
    let (tool, _) = rejected_call(target).await?;
    let request = target.post(&path(&tool.name, "/call")).json(&tool.arguments());
    target.send_once(request.with_unknown_key()).await
}

/// Requests the list without credentials, and selects a tool of it, or of the full list if it is
/// protected.
async fn visible(target: &Target) -> CheckResult<(String, Response)> {
    let list = target.send_once(target.get("/tools")).await?;
    let tools: Vec<Value> = match list.is_unauthorized() {
        true => summaries(target).await?.1,
        false => {
            list.json()?;
            list.tool_list(&["tools"]).unwrap_or_default()
        }
    };
    match tools.first().map(name_of) {
        Some(name) => Ok((name.to_owned(), list)),
        None => skip("the public list is empty"),
    }
}

/// Creates the requests for the detail of `name` and for a validation.
fn reads(target: &Target, name: &str) -> [Request; 2] {
    [target.get(&path(name, "")), target.post(&path(name, "/validate")).json(&json!({}))]
}
