//! `tools/call`, with tools that only read or that the user named.

use serde_json::{Map, Value, json};

use super::{
    ABSENT, message,
    tools::{self, name_of},
    wire::Wire,
};
use crate::conformance::{Check, Got, Site, Verdict, check, fail, shape, skip};

pub(super) const CHECKS: &[Check] = &[
    check!(
        "mcp.call.result",
        Must,
        "server/tools §tool-result, schema CallToolResult",
        "a tool answers with an array `content` of blocks of the types that there are, and \
         `isError` is a boolean",
        has_result
    ),
    check!(
        "mcp.call.structured",
        Must,
        "server/tools §output-schema",
        "a tool with an `outputSchema` answers with `structuredContent` that fits it",
        structured
    ),
    check!(
        "mcp.call.unknown-tool",
        Must,
        "server/tools §error-handling",
        "a call of a tool that there is not is a JSON-RPC error",
        unknown_tool
    ),
    check!(
        "mcp.call.unknown-tool-code",
        Should,
        "server/tools §error-handling, example",
        "its code is -32602",
        unknown_tool_code
    ),
    check!(
        "mcp.call.malformed",
        Must,
        "server/tools §error-handling",
        "a call that names no tool is a JSON-RPC error",
        malformed
    ),
    check!(
        "mcp.call.bad-arguments",
        Must,
        "server/tools §security-considerations",
        "arguments that do not fit the tool's schema are a result with `isError`, or the error \
         -32602",
        bad_arguments
    ),
    check!(
        "mcp.call.tool-failure",
        Must,
        "server/tools §error-handling",
        "a tool that fails is a result with `isError`",
        tool_failure
    ),
    check!(
        "mcp.call.capability",
        Must,
        "2026-07-28 basic §_meta, patterns/mrtr",
        "what the client did not declare is not asked of it; a call that cannot do without is 400 \
         with -32021 and `requiredCapabilities`",
        capability
    ),
];

/// At most so many tools are called for one check and era.
const MOST_CALLS: usize = 8;

/// A tool that may be called.
struct Callable {
    wire: Wire,
    listed: Value,
    arguments: Map<String, Value>,
}

async fn has_result(site: &Site) -> Verdict {
    let mut seen = Vec::new();
    for tool in callable(site).await? {
        if seen.contains(&tool.wire) {
            continue;
        }
        let got = called(site, &tool).await?;
        if message::code(&got) == Some(-32021) {
            continue;
        }
        is_result(&got)?;
        seen.push(tool.wire);
    }
    match seen.is_empty() {
        true => skip("every tool that may be called wants something of the client"),
        false => Ok(()),
    }
}

async fn structured(site: &Site) -> Verdict {
    let mut is_looked_at = false;
    for tool in callable(site).await? {
        let Some(schema) = tool.listed.get("outputSchema") else { continue };
        let got = called(site, &tool).await?;
        let result = message::result(&got)?;
        if result.get("isError") == Some(&json!(true)) || !is_complete(&result) {
            continue;
        }
        is_looked_at = true;
        let Some(content) = result.get("structuredContent") else {
            return fail("`structuredContent`", "none", &[&got]);
        };
        if let Some(what) = shape::violation(schema, content) {
            return fail("`structuredContent` by `outputSchema`", what, &[&got]);
        }
    }
    match is_looked_at {
        true => Ok(()),
        false => skip("no tool that may be called has an `outputSchema`"),
    }
}

async fn unknown_tool(site: &Site) -> Verdict {
    for got in absent(site).await? {
        let is_error = message::code(&got).is_some();
        got.expect(is_error, "a JSON-RPC error", message::what(&got))?;
    }
    Ok(())
}

async fn unknown_tool_code(site: &Site) -> Verdict {
    for got in absent(site).await? {
        message::expect_code(&got, &[-32602])?;
    }
    Ok(())
}

async fn malformed(site: &Site) -> Verdict {
    for list in tools::lists(site).await? {
        let got = list.wire.request("tools/call", json!({ "arguments": {} })).send(site).await?;
        let is_error = message::code(&got).is_some();
        got.expect(is_error, "a JSON-RPC error", message::what(&got))?;
    }
    Ok(())
}

async fn bad_arguments(site: &Site) -> Verdict {
    let mut is_looked_at = false;
    for tool in callable(site).await? {
        let schema = tool.listed.get("inputSchema").unwrap_or(&Value::Null);
        let Some(arguments) = misfit(schema, &tool.arguments) else { continue };
        is_looked_at = true;
        let tool = Callable { arguments, ..tool };
        let got = called(site, &tool).await?;
        let answer = message::of(&got).unwrap_or_default();
        let is_told = answer.pointer("/result/isError") == Some(&json!(true));
        let is_refused = matches!(message::code(&got), Some(-32602 | -32021));
        let expected = "a result with `isError`, or the error -32602";
        got.expect(is_told || is_refused, expected, message::what(&got))?;
    }
    match is_looked_at {
        true => Ok(()),
        false => skip("no arguments are wrong for the tools that may be called"),
    }
}

async fn tool_failure(site: &Site) -> Verdict {
    let Some(named) = &site.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    for list in tools::some(site).await? {
        let Some(tool) = list.tools.iter().find(|tool| name_of(tool) == named.name) else {
            return skip("the server lists no tool of the name given with --failing-tool");
        };
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        let arguments = named.arguments.clone().or_else(|| shape::arguments_for(schema));
        let Some(arguments) = arguments else {
            return skip("no arguments could be made for it: --failing-arguments");
        };
        let tool = Callable { wire: list.wire, listed: tool.clone(), arguments };
        let got = called(site, &tool).await?;
        is_result(&got)?;
        let failed = message::result(&got)?.get("isError") == Some(&json!(true));
        got.expect(failed, "`isError` true", "a success")?;
    }
    Ok(())
}

async fn capability(site: &Site) -> Verdict {
    super::wire::stateless(site).await?;
    // The requests of this runner declare none.
    for tool in callable(site).await?.into_iter().filter(|tool| tool.wire.is_stateless()) {
        let got = called(site, &tool).await?;
        let answer = message::of(&got).unwrap_or_default();
        let asks = answer.pointer("/result/inputRequests").and_then(Value::as_object);
        let asks = asks.is_some_and(|asks| !asks.is_empty());
        got.expect(!asks, "nothing is asked of a client that declares nothing", "it is asked")?;
        if message::code(&got) == Some(-32021) {
            got.expect_status(&[400])?;
            let needs = answer.pointer("/error/data/requiredCapabilities");
            let says = needs.and_then(Value::as_object).is_some_and(|needs| !needs.is_empty());
            got.expect(says, "`data.requiredCapabilities`", "none")?;
        }
    }
    Ok(())
}

/// The tools that may be called in each era: the one that the user named, then those that say of
/// themselves that they only read, or of which the host's explorer says so.
async fn callable(site: &Site) -> Verdict<Vec<Callable>> {
    let elsewhere = site.harmless().await;
    let mut all = Vec::new();
    for list in tools::some(site).await? {
        let mut here = Vec::new();
        for tool in &list.tools {
            let named = site.options().tool.as_ref().filter(|named| named.name == name_of(tool));
            let hint = |name: &str| tool.pointer(&format!("/annotations/{name}"));
            let only_reads = hint("readOnlyHint") == Some(&json!(true))
                && hint("destructiveHint") != Some(&json!(true));
            // Such a call has to repeat its arguments in headers.
            let is_plain = !tool.to_string().contains("x-mcp-header");
            if named.is_none() && !only_reads && !elsewhere.contains(name_of(tool)) || !is_plain {
                continue;
            }
            let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
            let given = named.and_then(|named| named.arguments.clone());
            let Some(arguments) = given.or_else(|| shape::arguments_for(schema)) else { continue };
            let tool = Callable { wire: list.wire.clone(), listed: tool.clone(), arguments };
            match named {
                Some(_) => here.insert(0, tool),
                None => here.push(tool),
            }
        }
        here.truncate(MOST_CALLS);
        all.extend(here);
    }
    match all.is_empty() {
        true => skip("no tool is known to be harmless; name one with --tool"),
        false => Ok(all),
    }
}

/// What calls of a tool that there is not are answered.
async fn absent(site: &Site) -> Verdict<Vec<Got>> {
    let mut all = Vec::new();
    for list in tools::lists(site).await? {
        let params = json!({ "name": ABSENT, "arguments": {} });
        all.push(list.wire.request("tools/call", params).send(site).await?);
    }
    Ok(all)
}

async fn called(site: &Site, tool: &Callable) -> Verdict<Got> {
    let params = json!({ "name": name_of(&tool.listed), "arguments": tool.arguments });
    tool.wire.request("tools/call", params).send(site).await
}

/// Fails unless a tool answered, well or badly.
fn is_result(got: &Got) -> Verdict {
    let text = json!({ "type": "string" });
    let block = |kind: &str, members: &[&str]| {
        let mut shape = json!({ "required": members, "properties": { "type": { "const": kind } } });
        for member in members.iter().filter(|member| **member != "resource") {
            if let Some(properties) = shape.get_mut("properties").and_then(Value::as_object_mut) {
                properties.entry((*member).to_owned()).or_insert(text.clone());
            }
        }
        shape
    };
    let shape = json!({
        "type": "object",
        "required": ["content"],
        "properties": {
            "isError": { "type": "boolean" },
            "content": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["type"],
                    "anyOf": [
                        block("text", &["text"]),
                        block("image", &["data", "mimeType"]),
                        block("audio", &["data", "mimeType"]),
                        block("resource_link", &["uri", "name"]),
                        block("resource", &["resource"]),
                    ],
                },
            },
        },
    });
    match shape::violation(&shape, &message::result(got)?) {
        None => Ok(()),
        Some(what) => fail("a result of a tool", what, &[got]),
    }
}

fn is_complete(result: &Value) -> bool {
    result.get("resultType").is_none_or(|kind| kind == "complete")
}

/// Arguments that `schema` does not accept, close to those that it does.
fn misfit(schema: &Value, fitting: &Map<String, Value>) -> Option<Map<String, Value>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let required = schema.get("required").and_then(Value::as_array);
    let required: Vec<&str> = required.into_iter().flatten().filter_map(Value::as_str).collect();
    let otherwise = properties.into_iter().flatten().map(|(name, _)| {
        let mut arguments = fitting.clone();
        // Few parameters take such an object.
        arguments.insert(name.clone(), json!({ "conformance": [null] }));
        arguments
    });
    let without = required.iter().map(|name| {
        let mut arguments = fitting.clone();
        arguments.remove(*name);
        arguments
    });
    let mut candidates = without.chain(otherwise);
    candidates.find(|it| shape::violation(schema, &Value::Object(it.clone())).is_some())
}
