//! What several checks of the explorer request and expect.

use serde_json::{Value, json};

use crate::{
    CheckResult, Target, fail, http::Response, skip_unless, target::encode_segment, value::text,
};

/// A name that no tool has.
pub(super) const ABSENT: &str = "conformance-absent-5f1d0c93";
/// How many tools a check reads one by one.
pub(super) const SAMPLE: usize = 24;

pub(super) fn path(name: &str, endpoint: &str) -> String {
    format!("/tools/{}{endpoint}", encode_segment(name))
}

/// Reads the summaries, in any form in which hosts list them.
pub(super) async fn listed(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let response = target.send_authorized(target.get("/tools")).await?;
    response.expect_status(&[200])?;
    let tools = response.tool_list(&["tools"])?;
    Ok((response, tools))
}

/// Like [`listed`], but skips the check if the list is empty.
pub(super) async fn summaries(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let (response, tools) = listed(target).await?;
    skip_unless(!tools.is_empty(), "the host lists no tools")?;
    Ok((response, tools))
}

pub(super) fn name_of(tool: &Value) -> &str {
    text(tool, "name")
}

pub(super) async fn page(target: &Target) -> CheckResult<Response> {
    let mut responses = Vec::new();
    for path in ["", "/"] {
        for request in [target.get(path), target.get(path).with_key()] {
            let response = target.send_once(request).await?;
            if response.status() == 200 {
                return Ok(response);
            }
            responses.push(response);
        }
    }
    let shown: Vec<&Response> = responses.iter().collect();
    fail("a page with status 200", "another status", &shown)
}

/// Whether tools run according to the page; `None` if the page does not say.
pub(super) async fn flag(target: &Target) -> Option<bool> {
    let text = page(target).await.ok()?.text();
    [true, false].into_iter().find(|is_enabled| text.contains(&statement(*is_enabled)))
}

/// The statement on the page about whether tools run.
pub(super) fn statement(is_enabled: bool) -> String {
    format!("var executeEnabled = {is_enabled};")
}

/// Checks whether tools run: neither the page nor a 403 of the host denies it.
pub(super) async fn is_execution_enabled(target: &Target) -> CheckResult<bool> {
    Ok(flag(target).await != Some(false) && call_absent(target).await?.status() != 403)
}

/// Skips the check unless tools run.
pub(super) async fn require_execution(target: &Target) -> CheckResult {
    skip_unless(is_execution_enabled(target).await?, "the host does not run tools in the explorer")
}

/// Skips the check if tools run.
pub(super) async fn require_no_execution(target: &Target) -> CheckResult {
    skip_unless(!is_execution_enabled(target).await?, "the host runs tools in the explorer")
}

/// Calls an unknown tool.
pub(super) async fn call_absent(target: &Target) -> CheckResult<Response> {
    let request = target.post(&path(ABSENT, "/call")).json(&json!({}));
    let response = target.send_once(request.with_key()).await?;
    // A host that does not run tools returns 403, too.
    if response.status() != 403 {
        target.skip_if_locked(&response)?;
    }
    Ok(response)
}

/// Checks whether the list requires credentials. The protocol leaves that to the host.
pub(super) async fn is_guarded(target: &Target) -> CheckResult<bool> {
    Ok(target.send_once(target.get("/tools")).await?.is_unauthorized())
}

/// Fails the check unless the body is exactly `body`.
pub(super) fn expect_body(response: &Response, body: &Value) -> CheckResult {
    response.expect(response.json()? == body, format!("exactly `{body}`"), "something else")
}

/// Fails the check unless the response says that the tool `name` does not exist.
pub(super) fn expect_not_found(response: &Response, name: &str) -> CheckResult {
    response.expect_status(&[404])?;
    expect_body(response, &json!({ "error": format!("Tool not found: {name}") }))
}
