//! `POST /tools/{name}/call` (F3).

use serde_json::{Value, json};

use super::{
    ABSENT, disabled, exactly, not_found, path,
    pick::{Tool, callable, called, failing},
    running, unknown_call,
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "explorer.call.success",
        Must,
        "F3, Success (200)",
        "a call whose body is the arguments is 200 with `content` and `isError` false",
        success
    ),
    check!(
        "explorer.call.content",
        Must,
        "F3, response rules",
        "`content` is a list of MCP content blocks",
        content
    ),
    check!(
        "explorer.call.trace",
        Must,
        "F3, `_meta` omission",
        "`_meta._trace_id` is a text that names the call; what names none is left out",
        trace
    ),
    check!(
        "explorer.call.not-json",
        Must,
        "F3, precondition 3",
        "a body that is no JSON, or empty, is a call without arguments",
        not_json
    ),
    check!(
        "explorer.call.tool-failure",
        Must,
        "F3, Handler Error (500)",
        "a tool that fails is 500 with `content` and `isError` true",
        tool_failure
    ),
    check!(
        "explorer.call.failure-says",
        Must,
        "F3, Handler Exception (500)",
        "a failure says what went wrong, in a text",
        failure_says
    ),
    check!(
        "explorer.call.unknown",
        Must,
        "F3, precondition 2",
        "a tool that there is not is 404 `Tool not found: NAME`",
        unknown
    ),
    check!(
        "explorer.call.disabled",
        Must,
        "F3, precondition 1",
        "a host that does not run tools answers a call with 403 `Tool execution is disabled.`",
        refused
    ),
];

async fn success(site: &Site) -> Verdict {
    let (_, got) = any(site).await?;
    got.expect(got.value().get("isError") == Some(&json!(false)), "`isError` false", "none")?;
    got.expect(got.value().get("content").is_some_and(Value::is_array), "`content`", "none")
}

async fn content(site: &Site) -> Verdict {
    let (_, got) = any(site).await?;
    blocks(&got)
}

async fn trace(site: &Site) -> Verdict {
    let (_, got) = any(site).await?;
    traced(&got)?;
    // The failing one as well, if there is one.
    if site.options().failing_tool.is_some() {
        let (_, got) = failed(site).await?;
        traced(&got)?;
    }
    Ok(())
}

fn traced(got: &Got) -> Verdict {
    let Some(meta) = got.json()?.get("_meta") else { return Ok(()) };
    let full = meta.as_object().is_some_and(|meta| !meta.is_empty());
    got.expect(full, "`_meta` with something in it, or none", format!("`{meta}`"))?;
    let Some(trace) = meta.get("_trace_id") else { return Ok(()) };
    let named = trace.as_str().is_some_and(|trace| !trace.is_empty());
    got.expect(named, "`_trace_id`, a text, or none", format!("`{trace}`"))
}

async fn not_json(site: &Site) -> Verdict {
    let (tool, _) = callable(site).await?;
    let plain = called(site, &tool, b"{}".to_vec()).await?;
    let said = |got: &Got| got.value().get("isError").cloned();
    for body in [&b"not json"[..], b"", b"{\"a\":", b"\xff\xfe"] {
        let got = called(site, &tool, body.to_vec()).await?;
        if got.status() != plain.status() || said(&got) != said(&plain) {
            let seen = format!("status {} instead of {}", got.status(), plain.status());
            return fail("the answer to `{}`", seen, &[&got, &plain]);
        }
    }
    plain.expect_status(&[200, 500])
}

async fn tool_failure(site: &Site) -> Verdict {
    let (_, got) = failed(site).await?;
    got.expect_status(&[500])?;
    let is_error = got.json()?.get("isError") == Some(&json!(true));
    got.expect(is_error, "`isError` true", "something else")?;
    blocks(&got)
}

async fn failure_says(site: &Site) -> Verdict {
    let (_, got) = failed(site).await?;
    let blocks = got.json()?.get("content").and_then(Value::as_array);
    let text = |block: &Value| {
        block.get("text").and_then(Value::as_str).is_some_and(|text| !text.is_empty())
    };
    got.expect(blocks.is_some_and(|all| all.iter().any(text)), "a text", "none")
}

async fn unknown(site: &Site) -> Verdict {
    running(site).await?;
    not_found(&unknown_call(site).await?, ABSENT)
}

async fn refused(site: &Site) -> Verdict {
    disabled(site).await?;
    let body = json!({ "error": "Tool execution is disabled." });
    let mut asked = vec![ABSENT.to_owned()];
    // A tool that would be harmless, in case that the host runs it all the same.
    asked.extend(site.harmless().await.into_iter().next());
    asked.extend(site.options().tool.as_ref().map(|named| named.name.clone()));
    for name in asked {
        let ask = site.post(&path(&name, "/call")).json(&json!({})).by_first();
        let got = site.once(ask).await?;
        // That of no tool is looked at by the check of the order.
        if name == ABSENT && got.status() == 404 {
            continue;
        }
        got.expect_status(&[403])?;
        exactly(&got, &body)?;
    }
    Ok(())
}

/// A call that went well.
pub(super) async fn any(site: &Site) -> Verdict<(Tool, Got)> {
    let (tool, arguments) = callable(site).await?;
    let got = called(site, &tool, arguments.to_string().into_bytes()).await?;
    got.expect_status(&[200])?;
    got.json()?;
    Ok((tool, got))
}

/// A call that did not.
async fn failed(site: &Site) -> Verdict<(Tool, Got)> {
    running(site).await?;
    let (tool, arguments) = failing(site).await?;
    let got = called(site, &tool, arguments.to_string().into_bytes()).await?;
    Ok((tool, got))
}

fn blocks(got: &Got) -> Verdict {
    let text = json!({ "type": "string" });
    let shape = json!({
        "type": "object",
        "required": ["content"],
        "properties": { "content": { "type": "array", "items": {
            "type": "object",
            "required": ["type"],
            "properties": { "type": { "type": "string", "minLength": 1 } },
            "allOf": [
                {
                    "if": { "properties": { "type": { "const": "text" } } },
                    "then": { "required": ["text"], "properties": { "text": text } },
                },
                {
                    "if": { "properties": { "type": { "enum": ["image", "audio"] } } },
                    "then": {
                        "required": ["mimeType", "data"],
                        "properties": { "mimeType": text, "data": text },
                    },
                },
            ],
        } } },
    });
    match shape::violation(&shape, got.json()?) {
        None => Ok(()),
        Some(what) => fail("content blocks", what, &[got]),
    }
}
