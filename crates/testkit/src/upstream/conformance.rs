//! The tools that the MCP conformance suites call (`list=conformance`), under the names of the
//! suites. They do only what the scenarios require.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::script::{Step, error, result, tool};

/// A picture of one pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
/// A sound without a sample.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
/// The prefix of most tools that require input.
const INPUT: &str = "test_input_required_result_";

/// Returns the list; `grown` adds the tool that is present only at times.
pub(super) fn tools(grown: bool) -> Vec<Value> {
    let mut tools: Vec<Value> = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_reconnection",
        "test_sampling",
        "test_elicitation",
        "test_elicitation_sep1034_defaults",
        "test_elicitation_sep1330_enums",
        "test_streaming_elicitation",
        "test_missing_capability",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_input_required_result_elicitation",
        "test_input_required_result_sampling",
        "test_input_required_result_list_roots",
        "test_input_required_result_request_state",
        "test_input_required_result_multiple_inputs",
        "test_input_required_result_multi_round",
        "test_input_required_result_tampered_state",
        "test_input_required_result_capabilities",
        "greet",
        "slow_compute",
        "failing_job",
    ]
    .into_iter()
    .map(tool)
    .collect();
    let mut schema = tool("json_schema_2020_12_tool");
    schema["inputSchema"] = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": { "address": { "$anchor": "addressDef", "type": "object", "properties": {
            "street": { "type": "string" }, "city": { "type": "string" } } } },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } },
            "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    });
    tools.push(schema);
    let mut region = tool("test_header_parameter");
    region["inputSchema"]["properties"] =
        json!({ "region": { "type": "string", "x-mcp-header": "Region" } });
    tools.push(region);
    if grown {
        tools.push(tool("test_dynamic_tool"));
    }
    tools
}

/// Returns the steps of a call.
pub(super) fn call(request: &Value, modern: bool) -> Vec<Step> {
    let params = &request["params"];
    let name = params["name"].as_str().unwrap_or_default();
    let done = |content: Value| result(request, modern, json!({ "content": content }));
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = || json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let resource = |mime: &str, text: &str| {
        json!({ "type": "resource",
            "resource": { "uri": "test://embedded", "mimeType": mime, "text": text } })
    };
    let input = match name {
        "test_sampling" => Some("sampling"),
        "test_elicitation"
        | "test_elicitation_sep1034_defaults"
        | "test_elicitation_sep1330_enums"
        | "test_streaming_elicitation" => Some("elicitation"),
        _ => name.strip_prefix(INPUT),
    };
    if let Some(kind) = input {
        // A gateway cannot carry the requests to the client that the handshake era uses.
        let refused = || error(request, -32603, "the client cannot be asked");
        return vec![if modern { input_round(request, kind) } else { refused() }];
    }
    match name {
        "test_image_content" => vec![done(json!([image()]))],
        "test_audio_content" => {
            vec![done(json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]))]
        }
        "test_embedded_resource" => vec![done(json!([resource("text/plain", "embedded")]))],
        "test_multiple_content_types" => {
            vec![done(json!([text("several"), image(), resource("application/json", "{}")]))]
        }
        "greet" => {
            let whom = params["arguments"]["name"].as_str().unwrap_or_default();
            vec![done(json!([text(&format!("Hello, {whom}!"))]))]
        }
        // Other servers may run these calls as tasks; this one completes them immediately.
        "test_error_handling" | "failing_job" => {
            let content = json!([text("failed as asked")]);
            vec![result(request, modern, json!({ "content": content, "isError": true }))]
        }
        "test_tool_with_progress" => {
            let mut steps = progress(params);
            steps.push(done(json!([text("done")])));
            steps
        }
        "test_tool_with_logging" | "test_logging_tool" => {
            let mut steps = log(params, modern);
            steps.push(done(json!([text("done")])));
            steps
        }
        // Longer than clients wait for plain JSON.
        "test_reconnection" => {
            vec![Step::Wait(Duration::from_millis(1500)), done(json!([text("done")]))]
        }
        "test_trigger_tool_change" => vec![Step::ListChanged, done(json!([text("changed")]))],
        "test_missing_capability" => match lacks(params, &["sampling"]) {
            Some(lacking) => vec![lacking_error(request, &lacking)],
            None => vec![done(json!([text("sampling is declared")]))],
        },
        _ => vec![done(json!([text("done")]))],
    }
}

fn progress(params: &Value) -> Vec<Step> {
    let token = &params["_meta"]["progressToken"];
    if token.is_null() {
        return Vec::new();
    }
    let report = |progress: u32| {
        let params = json!({ "progressToken": token, "progress": progress, "total": 100 });
        Step::Say(json!({ "jsonrpc": "2.0", "method": "notifications/progress",
            "params": params }))
    };
    [0, 50, 100].into_iter().map(report).collect()
}

/// Since 2026-07-28 only requests with a log level receive log messages.
fn log(params: &Value, modern: bool) -> Vec<Step> {
    if modern && params["_meta"]["io.modelcontextprotocol/logLevel"].is_null() {
        return Vec::new();
    }
    vec![Step::Say(json!({ "jsonrpc": "2.0", "method": "notifications/message",
        "params": { "level": "info", "data": "working" } }))]
}

/// Runs a round of input. A state that the tool did not create is refused.
fn input_round(request: &Value, kind: &str) -> Step {
    let params = &request["params"];
    let state = params["requestState"].as_str();
    let given = |key: &str| params["inputResponses"][key].is_object();
    let done = |text: &str| {
        result(request, true, json!({ "content": [{ "type": "text", "text": text }] }))
    };
    let name = || elicitation("name", "string");
    match kind {
        "elicitation" if given("user_name") => done("hello"),
        "elicitation" => ask(request, &[("user_name", name())], None),
        "sampling" if given("capital_question") => done("an answer"),
        "sampling" => ask(request, &[("capital_question", sampling())], None),
        "list_roots" if given("client_roots") => done("roots"),
        "list_roots" => ask(request, &[("client_roots", roots())], None),
        "request_state" | "tampered_state" => match state {
            None => ask(request, &[("confirm", elicitation("ok", "boolean"))], Some(kind)),
            Some(state) if state != kind => error(request, -32602, "the state is not mine"),
            Some(_) => done("state-ok"),
        },
        "multiple_inputs" => {
            let all = [("user_name", name()), ("greeting", sampling()), ("client_roots", roots())];
            match all.iter().all(|(key, _)| given(key)) {
                true => done("all"),
                false => ask(request, &all, Some("several")),
            }
        }
        "multi_round" => match state {
            Some("round-1") if given("step1") => {
                ask(request, &[("step2", elicitation("color", "string"))], Some("round-2"))
            }
            Some("round-2") if given("step2") => done("both"),
            _ => ask(request, &[("step1", name())], Some("round-1")),
        },
        // Requests everything that the client can provide.
        "capabilities" => {
            let mut all = vec![("name", name()), ("question", sampling()), ("roots", roots())];
            all.retain(|(_, asks)| lacks(params, &[needs(asks)]).is_none());
            match all.is_empty() {
                true => done("nothing can be asked"),
                false => ask(request, &all, None),
            }
        }
        _ => error(request, -32602, "unknown tool"),
    }
}

/// Requests input, if the client has declared the capability for it.
fn ask(request: &Value, inputs: &[(&str, Value)], state: Option<&str>) -> Step {
    let needed: Vec<&str> = inputs.iter().map(|(_, input)| needs(input)).collect();
    if let Some(lacking) = lacks(&request["params"], &needed) {
        return lacking_error(request, &lacking);
    }
    let inputs: Map<String, Value> =
        inputs.iter().map(|(key, input)| ((*key).to_owned(), input.clone())).collect();
    let mut body = json!({ "resultType": "input_required", "inputRequests": inputs });
    if let Some(state) = state {
        body["requestState"] = state.into();
    }
    Step::Say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": body }))
}

/// Returns the capability that an input requires.
fn needs(input: &Value) -> &'static str {
    match input["method"].as_str() {
        Some("sampling/createMessage") => "sampling",
        Some("roots/list") => "roots",
        _ => "elicitation",
    }
}

fn elicitation(member: &str, kind: &str) -> Value {
    json!({ "method": "elicitation/create", "params": {
        "message": format!("What is the {member}?"),
        "requestedSchema": { "type": "object", "properties": { member: { "type": kind } },
            "required": [member] },
    } })
}

fn sampling() -> Value {
    let content = json!({ "type": "text", "text": "What is the capital of France?" });
    json!({ "method": "sampling/createMessage",
        "params": { "messages": [{ "role": "user", "content": content }], "maxTokens": 100 } })
}

fn roots() -> Value {
    json!({ "method": "roots/list", "params": {} })
}

/// Returns the capabilities of `needed` that the client did not declare.
fn lacks(params: &Value, needed: &[&str]) -> Option<Value> {
    let declared = &params["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    let lacking = needed.iter().filter(|needed| declared[**needed].is_null());
    let lacking: Map<String, Value> =
        lacking.map(|needed| ((*needed).to_owned(), json!({}))).collect();
    (!lacking.is_empty()).then_some(Value::Object(lacking))
}

fn lacking_error(request: &Value, lacking: &Value) -> Step {
    let error = json!({ "code": -32021, "message": "a client capability is missing",
        "data": { "requiredCapabilities": lacking } });
    Step::Say(json!({ "jsonrpc": "2.0", "id": request["id"], "error": error }))
}
