//! `tools/call`, with tools that are read-only or that the user names.

use serde_json::{Map, Value, json};

use super::{
    common::ABSENT,
    message,
    tools::{lists, name_of, non_empty_lists},
    wire::{self, Wire},
};
use crate::{
    Check, CheckResult, Target, checks, fail, http::Response, schema, skip, skip_unless,
    value::is_read_only,
};

pub(super) const CHECKS: &[Check] = checks! {
    "mcp.call.result", Must, "server/tools §tool-result, schema CallToolResult", has_result:
        "the result has an array `content` of blocks with known types, and `isError` is a boolean";
    "mcp.call.structured", Must, "server/tools §output-schema", structured:
        "the `structuredContent` of a tool with an `outputSchema` is valid against it";
    "mcp.call.unknown-tool", Must, "server/tools §error-handling", unknown_tool:
        "a call of an unknown tool returns a JSON-RPC error";
    "mcp.call.unknown-tool-code", Should, "server/tools §error-handling, example", unknown_tool_code:
        "its code is -32602";
    "mcp.call.malformed", Must, "server/tools §error-handling", malformed:
        "a call without a tool name returns a JSON-RPC error";
    "mcp.call.bad-arguments", Must, "server/tools §security-considerations", bad_arguments:
        "arguments that are invalid against the schema return a result with `isError` or the error \
         -32602";
    "mcp.call.tool-failure", Must, "server/tools §error-handling", tool_failure:
        "a failing tool returns a result with `isError`";
    "mcp.call.capability", Must, "2026-07-28 basic §_meta, patterns/mrtr", capability:
        "a server uses only capabilities that the client declares; a call that needs another one \
         returns 400 with -32021 and `requiredCapabilities`";
};

/// How many tools a check calls in one era.
const SAMPLE: usize = 8;

/// A tool that checks may call.
struct CallableMcpTool {
    wire: Wire,
    tool: Value,
    arguments: Map<String, Value>,
}

impl CallableMcpTool {
    fn schema(&self) -> &Value {
        self.tool.get("inputSchema").unwrap_or(&Value::Null)
    }

    async fn call(&self, target: &Target) -> CheckResult<Response> {
        let params = json!({ "name": name_of(&self.tool), "arguments": self.arguments });
        self.wire.request("tools/call", params).send(target).await
    }
}

async fn has_result(target: &Target) -> CheckResult {
    let mut checked = Vec::new();
    for tool in callable(target).await? {
        if checked.contains(&tool.wire) {
            continue;
        }
        let response = tool.call(target).await?;
        if message::code(&response) == Some(-32021) {
            continue;
        }
        expect_result(&response)?;
        checked.push(tool.wire);
    }
    skip_unless(!checked.is_empty(), "every callable tool requires a client capability")
}

async fn structured(target: &Target) -> CheckResult {
    let mut has_schema = false;
    for tool in callable(target).await? {
        let Some(schema) = tool.tool.get("outputSchema") else { continue };
        let response = tool.call(target).await?;
        let result = message::result(&response)?;
        let is_complete = result.get("resultType").is_none_or(|kind| kind == "complete");
        if result.get("isError") == Some(&json!(true)) || !is_complete {
            continue;
        }
        has_schema = true;
        let Some(content) = result.get("structuredContent") else {
            return fail("`structuredContent`", "none", &[&response]);
        };
        let expected = "`structuredContent` valid against `outputSchema`";
        response.expect_valid(content, schema, expected)?;
    }
    skip_unless(has_schema, "no callable tool has an `outputSchema`")
}

async fn unknown_tool(target: &Target) -> CheckResult {
    let params = json!({ "name": ABSENT, "arguments": {} });
    call_in_each_era(target, &params).await?.iter().try_for_each(message::expect_error)
}

async fn unknown_tool_code(target: &Target) -> CheckResult {
    let params = json!({ "name": ABSENT, "arguments": {} });
    let responses = call_in_each_era(target, &params).await?;
    responses.iter().try_for_each(|response| message::expect_code(response, &[-32602]))
}

async fn malformed(target: &Target) -> CheckResult {
    let params = json!({ "arguments": {} });
    call_in_each_era(target, &params).await?.iter().try_for_each(message::expect_error)
}

async fn bad_arguments(target: &Target) -> CheckResult {
    let mut has_invalid = false;
    for tool in callable(target).await? {
        let Some(arguments) = invalid_arguments(tool.schema(), &tool.arguments) else { continue };
        has_invalid = true;
        let response = CallableMcpTool { arguments, ..tool }.call(target).await?;
        let is_result = message::reply_part(&response, "/result/isError") == json!(true);
        let is_error = matches!(message::code(&response), Some(-32602 | -32021));
        let expected = "a result with `isError`, or the error -32602";
        response.expect(is_result || is_error, expected, message::summary(&response))?;
    }
    skip_unless(has_invalid, "the callable tools accept all arguments")
}

async fn tool_failure(target: &Target) -> CheckResult {
    let Some(named) = &target.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    for list in non_empty_lists(target).await? {
        let Some(tool) = list.tools.iter().find(|tool| name_of(tool) == named.name) else {
            return skip("the server does not list the tool of --failing-tool");
        };
        let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
        let arguments = named.arguments.clone().or_else(|| schema::arguments_for(schema));
        let Some(arguments) = arguments else {
            return skip("no arguments for the tool are known: --failing-arguments");
        };
        let tool = CallableMcpTool { wire: list.wire, tool: tool.clone(), arguments };
        let response = tool.call(target).await?;
        expect_result(&response)?;
        let is_error = message::reply_part(&response, "/result/isError") == json!(true);
        response.expect(is_error, "`isError` true", "a success")?;
    }
    Ok(())
}

async fn capability(target: &Target) -> CheckResult {
    wire::stateless(target).await?;
    // The requests of this crate declare no capabilities.
    for tool in callable(target).await?.into_iter().filter(|tool| tool.wire.is_stateless()) {
        let response = tool.call(target).await?;
        let has_members = |pointer: &str| {
            message::reply_part(&response, pointer)
                .as_object()
                .is_some_and(|members| !members.is_empty())
        };
        let has_requests = has_members("/result/inputRequests");
        response.expect(!has_requests, "no `inputRequests`", "`inputRequests`")?;
        if message::code(&response) == Some(-32021) {
            response.expect_status(&[400])?;
            let has_required = has_members("/error/data/requiredCapabilities");
            response.expect(has_required, "`data.requiredCapabilities`", "none")?;
        }
    }
    Ok(())
}

/// Selects the callable tools of each era: first the one that the user names, then those that are
/// read-only according to their annotations or to the host's explorer.
async fn callable(target: &Target) -> CheckResult<Vec<CallableMcpTool>> {
    let read_only = target.read_only_tools().await;
    let mut all = Vec::new();
    for list in non_empty_lists(target).await? {
        let mut tools = Vec::new();
        for tool in &list.tools {
            let named =
                target.options().tool.as_ref().filter(|chosen| chosen.name == name_of(tool));
            let is_callable =
                named.is_some() || is_read_only(tool) || read_only.contains(name_of(tool));
            // A call of such a tool has to repeat its arguments in headers.
            let has_headers = tool.to_string().contains("x-mcp-header");
            if !is_callable || has_headers {
                continue;
            }
            let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
            let given = named.and_then(|named| named.arguments.clone());
            let Some(arguments) = given.or_else(|| schema::arguments_for(schema)) else { continue };
            let tool = CallableMcpTool { wire: list.wire.clone(), tool: tool.clone(), arguments };
            match named {
                Some(_) => tools.insert(0, tool),
                None => tools.push(tool),
            }
        }
        tools.truncate(SAMPLE);
        all.extend(tools);
    }
    skip_unless(!all.is_empty(), "no tool is marked as read-only; name one with --tool")?;
    Ok(all)
}

/// Sends `tools/call` with `params` in each era in which the server has tools.
async fn call_in_each_era(target: &Target, params: &Value) -> CheckResult<Vec<Response>> {
    let mut all = Vec::new();
    for list in lists(target).await? {
        all.push(list.wire.request("tools/call", params.clone()).send(target).await?);
    }
    Ok(all)
}

/// Fails the check unless the response is a valid result of a tool, a success or a failure.
fn expect_result(response: &Response) -> CheckResult {
    let block = |kind: &str, strings: &[&str]| {
        let strings = strings.iter().map(|name| ((*name).to_owned(), json!({ "type": "string" })));
        let mut properties: Map<String, Value> = strings.collect();
        let required: Vec<String> = properties.keys().cloned().collect();
        properties.insert("type".to_owned(), json!({ "const": kind }));
        json!({ "required": required, "properties": properties })
    };
    let schema = json!({
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
                        { "required": ["resource"], "properties": { "type": { "const": "resource" } } },
                    ],
                },
            },
        },
    });
    response.expect_valid(&message::result(response)?, &schema, "a valid result of a tool")
}

/// Derives arguments that are invalid against `schema` from the `valid` ones.
fn invalid_arguments(schema: &Value, valid: &Map<String, Value>) -> Option<Map<String, Value>> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let changed = properties.into_iter().flatten().map(|(name, _)| {
        let mut arguments = valid.clone();
        // Few parameters accept such an object.
        arguments.insert(name.clone(), json!({ "conformance": [null] }));
        arguments
    });
    let removed = schema::required(schema).into_iter().map(|name| {
        let mut arguments = valid.clone();
        arguments.remove(name);
        arguments
    });
    let mut candidates = removed.chain(changed);
    candidates
        .find(|candidate| schema::violation(schema, &Value::Object(candidate.clone())).is_some())
}
