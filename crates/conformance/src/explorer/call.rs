//! `POST /tools/{name}/call` (F3).

use serde_json::{Value, json};

use super::{
    common::{
        ABSENT, call_absent, expect_body, expect_not_found, path, require_execution,
        require_no_execution,
    },
    tools::{call_tool, callable, failing},
};
use crate::{
    Check, CheckResult, Target, checks,
    http::Response,
    require,
    value::{array, text},
};

pub(super) const CHECKS: &[Check] = checks! {
    "explorer.call.success", Must, "F3, Success (200)", success:
        "a call with the arguments as its body returns 200 with `content` and `isError` false";
    "explorer.call.content", Must, "F3, response rules", content:
        "`content` is a list of MCP content blocks";
    "explorer.call.trace", Must, "F3, `_meta` omission", trace:
        "`_meta._trace_id` is a non-empty string or missing";
    "explorer.call.not-json", Must, "F3, precondition 3", not_json:
        "a body that is empty or not JSON is a call without arguments";
    "explorer.call.tool-failure", Must, "F3, Handler Error (500)", tool_failure:
        "a failing tool returns 500 with `content` and `isError` true";
    "explorer.call.failure-text", Must, "F3, Handler Exception (500)", failure_text:
        "a failure explains itself in a text block";
    "explorer.call.unknown", Must, "F3, precondition 2", unknown:
        "an unknown tool returns 404 `Tool not found: NAME`";
    "explorer.call.disabled", Must, "F3, precondition 1", disabled:
        "a host that does not run tools returns 403 `Tool execution is disabled.`";
};

async fn success(target: &Target) -> CheckResult {
    let response = call_any(target).await?;
    let value = response.value();
    response.expect(value.get("isError") == Some(&json!(false)), "`isError` false", "none")?;
    response.expect(value.get("content").is_some_and(Value::is_array), "`content`", "none")
}

async fn content(target: &Target) -> CheckResult {
    expect_blocks(&call_any(target).await?)
}

async fn trace(target: &Target) -> CheckResult {
    expect_trace(&call_any(target).await?)?;
    match target.options().failing_tool {
        Some(_) => expect_trace(&call_failing(target).await?),
        None => Ok(()),
    }
}

fn expect_trace(response: &Response) -> CheckResult {
    let Some(meta) = response.json()?.get("_meta") else { return Ok(()) };
    let has_members = meta.as_object().is_some_and(|meta| !meta.is_empty());
    response.expect(has_members, "`_meta` with members, or no `_meta`", format!("`{meta}`"))?;
    let Some(trace) = meta.get("_trace_id") else { return Ok(()) };
    let expected = "`_trace_id` as a non-empty string, or no `_trace_id`";
    response.expect(!text(meta, "_trace_id").is_empty(), expected, format!("`{trace}`"))
}

async fn not_json(target: &Target) -> CheckResult {
    let (tool, _) = callable(target).await?;
    let empty = call_tool(target, &tool, b"{}".to_vec()).await?;
    for body in [&b"not json"[..], b"", b"{\"a\":", b"\xff\xfe"] {
        let response = call_tool(target, &tool, body.to_vec()).await?;
        let is_same = response.status() == empty.status()
            && response.value().get("isError") == empty.value().get("isError");
        let seen = format!("status {} instead of {}", response.status(), empty.status());
        require(is_same, "the response to `{}`", seen, &[&response, &empty])?;
    }
    empty.expect_status(&[200, 500])
}

async fn tool_failure(target: &Target) -> CheckResult {
    let response = call_failing(target).await?;
    response.expect_status(&[500])?;
    let is_error = response.json()?.get("isError") == Some(&json!(true));
    response.expect(is_error, "`isError` true", "something else")?;
    expect_blocks(&response)
}

async fn failure_text(target: &Target) -> CheckResult {
    let response = call_failing(target).await?;
    let blocks = array(response.json()?, "content");
    let has_text = blocks.iter().any(|block| !text(block, "text").is_empty());
    response.expect(has_text, "a text block", "none")
}

async fn unknown(target: &Target) -> CheckResult {
    require_execution(target).await?;
    expect_not_found(&call_absent(target).await?, ABSENT)
}

async fn disabled(target: &Target) -> CheckResult {
    require_no_execution(target).await?;
    let mut names = vec![ABSENT.to_owned()];
    // A read-only tool, in case the host runs tools although the page says otherwise.
    names.extend(target.read_only_tools().await.into_iter().next());
    names.extend(target.options().tool.as_ref().map(|named| named.name.clone()));
    for name in names {
        let request = target.post(&path(&name, "/call")).json(&json!({}));
        let response = target.send_once(request.with_key()).await?;
        // `explorer.order.disabled-before-unknown` judges this response.
        if name == ABSENT && response.status() == 404 {
            continue;
        }
        response.expect_status(&[403])?;
        expect_body(&response, &json!({ "error": "Tool execution is disabled." }))?;
    }
    Ok(())
}

/// Makes a successful call.
pub(super) async fn call_any(target: &Target) -> CheckResult<Response> {
    let (tool, arguments) = callable(target).await?;
    let response = call_tool(target, &tool, arguments.to_string().into_bytes()).await?;
    response.expect_status(&[200])?;
    response.json()?;
    Ok(response)
}

/// Calls the tool of `--failing-tool`.
async fn call_failing(target: &Target) -> CheckResult<Response> {
    require_execution(target).await?;
    let (tool, arguments) = failing(target).await?;
    call_tool(target, &tool, arguments.to_string().into_bytes()).await
}

fn expect_blocks(response: &Response) -> CheckResult {
    let string = json!({ "type": "string" });
    let schema = json!({
        "type": "object",
        "required": ["content"],
        "properties": { "content": { "type": "array", "items": {
            "type": "object",
            "required": ["type"],
            "properties": { "type": { "type": "string", "minLength": 1 } },
            "allOf": [
                {
                    "if": { "properties": { "type": { "const": "text" } } },
                    "then": { "required": ["text"], "properties": { "text": string } },
                },
                {
                    "if": { "properties": { "type": { "enum": ["image", "audio"] } } },
                    "then": {
                        "required": ["mimeType", "data"],
                        "properties": { "mimeType": string, "data": string },
                    },
                },
            ],
        } } },
    });
    response.expect_valid(response.json()?, &schema, "content blocks")
}
