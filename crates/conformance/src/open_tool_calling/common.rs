//! The dialects, and what several checks of both request and expect.

use serde_json::{Value, json};

use crate::{CheckResult, Protocol, Target, fail, http::Response, skip_unless, value::text};

/// The differences between the two dialects.
pub(super) struct Dialect {
    /// The value of `$schema`.
    pub(super) marker: &'static str,
    /// The same for an unsupported version.
    pub(super) unsupported: &'static str,
    /// The member of the list with the tools.
    pub(super) list: &'static str,
    /// The header for an API key.
    pub(super) key_header: &'static str,
}

impl Dialect {
    pub(super) fn of(target: &Target) -> &'static Self {
        match target.protocol() {
            Protocol::Oxp => &Self {
                marker: "urn:oxp:1.0",
                unsupported: "urn:oxp:9.9",
                list: "items",
                key_header: "oxp-api-key",
            },
            _ => &Self {
                marker: "otc://1.0",
                unsupported: "otc://9.9",
                list: "tools",
                key_header: "otc-api-key",
            },
        }
    }
}

/// Reads the list of tools in any form that hosts of this family use.
pub(super) async fn listed(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let response = target.send_authorized(target.get("/tools")).await?;
    response.expect_status(&[200])?;
    let tools = response.tool_list(&["tools", "items"])?;
    Ok((response, tools))
}

/// Like [`listed`], but skips the check if the list is empty.
pub(super) async fn listed_tools(target: &Target) -> CheckResult<(Response, Vec<Value>)> {
    let (response, tools) = listed(target).await?;
    skip_unless(!tools.is_empty(), "the host lists no tools")?;
    Ok((response, tools))
}

pub(super) fn id_of(tool: &Value) -> &str {
    text(tool, "id")
}

/// Splits an id into its name and its version, if it has one.
pub(super) fn split(id: &str) -> (&str, Option<&str>) {
    match id.split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (id, None),
    }
}

/// The schema of a tool's input, in the form of either dialect.
pub(super) fn parameters(tool: &Value) -> &Value {
    let schema = tool.get("input_schema").unwrap_or(&Value::Null);
    schema.get("parameters").filter(|inner| inner.is_object()).unwrap_or(schema)
}

/// Calls a tool with `request` in the envelope of the dialect.
pub(super) async fn call_tool(target: &Target, request: &Value) -> CheckResult<Response> {
    post_call(target, &envelope(target, request)).await
}

/// Wraps `request` in the body of a call.
pub(super) fn envelope(target: &Target, request: &Value) -> Value {
    json!({ "$schema": Dialect::of(target).marker, "request": request })
}

/// Sends a call with `body`.
pub(super) async fn post_call(target: &Target, body: &Value) -> CheckResult<Response> {
    post_text(target, &body.to_string()).await
}

/// Sends a call whose body is `text`, which may be invalid JSON.
pub(super) async fn post_text(target: &Target, text: &str) -> CheckResult<Response> {
    let is_locked = !target.host().has_key() && requires_credentials(target).await?;
    skip_unless(!is_locked, "the host requires a key: --key")?;
    target.send_once(target.post("/tools/call").json_text(text).with_key()).await
}

pub(super) async fn requires_credentials(target: &Target) -> CheckResult<bool> {
    Ok(target.send_once(target.get("/tools")).await?.is_unauthorized())
}

/// The result of a call, with or without an envelope.
pub(super) fn result(response: &Response) -> CheckResult<&Value> {
    response.expect_status(&[200])?;
    let body = response.json()?;
    match body.get("result").or_else(|| body.get("success").map(|_| body)) {
        Some(result) => Ok(result),
        None => fail("a result", "none", &[response]),
    }
}

/// Fails the check unless the call succeeded.
pub(super) fn expect_success(response: &Response) -> CheckResult {
    let is_success = result(response)?.get("success") == Some(&Value::Bool(true));
    response.expect(is_success, "`success` true", "something else")
}

/// Fails the check unless the body has a `message`.
pub(super) fn expect_message(response: &Response) -> CheckResult {
    response.expect(!text(response.json()?, "message").is_empty(), "a `message`", "none")
}

/// Creates an unused `call_id`.
pub(super) fn new_call_id() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static CREATED: AtomicUsize = AtomicUsize::new(0);
    let number = CREATED.fetch_add(1, Ordering::Relaxed);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    format!("conformance-{:x}-{number}", now.unwrap_or_default().as_micros())
}

/// Fails the check unless `$schema` has the version of the dialect.
pub(super) fn expect_marker(target: &Target, response: &Response) -> CheckResult {
    let marker = Dialect::of(target).marker;
    let seen = response.json()?.get("$schema");
    let is_marker = seen.and_then(Value::as_str) == Some(marker);
    let seen = seen.map_or_else(|| "none".to_owned(), Value::to_string);
    response.expect(is_marker, format!("`$schema` \"{marker}\""), seen)
}
