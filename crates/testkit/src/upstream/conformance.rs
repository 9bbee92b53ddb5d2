//! The tools that the MCP conformance suites call (`list=conformance`), as far as a gateway for
//! tools can carry them.

use serde_json::{Map, Value, json};

use super::script::{Step, error, result, tool};

/// Wave and picture of the smallest kind.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const INPUT: &str = "test_input_required_result_";

/// The list; `grown` says whether the tool that comes and goes is there.
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

/// What a call does.
pub(super) fn call(request: &Value, modern: bool) -> Vec<Step> {
    let params = &request["params"];
    let name = params["name"].as_str().unwrap_or_default();
    let done = |content: Value| vec![result(request, modern, json!({ "content": content }))];
    let text = |text: &str| json!({ "type": "text", "text": text });
    let image = || json!({ "type": "image", "data": PNG, "mimeType": "image/png" });
    let resource = |mime: &str, text: &str| {
        json!({ "type": "resource",
            "resource": { "uri": "test://embedded", "mimeType": mime, "text": text } })
    };
    match name {
        "test_image_content" => done(json!([image()])),
        "test_audio_content" => {
            done(json!([{ "type": "audio", "data": WAV, "mimeType": "audio/wav" }]))
        }
        "test_embedded_resource" => done(json!([resource("text/plain", "embedded")])),
        "test_multiple_content_types" => {
            done(json!([text("several"), image(), resource("application/json", "{}")]))
        }
        "test_error_handling" => {
            let content = json!([text("failed as asked")]);
            vec![result(request, modern, json!({ "content": content, "isError": true }))]
        }
        "test_tool_with_progress" => {
            let mut steps: Vec<Step> = [0, 50, 100]
                .into_iter()
                .filter(|_| !params["_meta"]["progressToken"].is_null())
                .map(|progress| {
                    let params = json!({ "progressToken": params["_meta"]["progressToken"],
                        "progress": progress, "total": 100 });
                    Step::Say(json!({ "jsonrpc": "2.0", "method": "notifications/progress",
                        "params": params }))
                })
                .collect();
            steps.extend(done(json!([text("done")])));
            steps
        }
        "test_tool_with_logging" => {
            let log = json!({ "jsonrpc": "2.0", "method": "notifications/message",
                "params": { "level": "info", "data": "working" } });
            let mut steps = if modern { Vec::new() } else { vec![Step::Say(log)] };
            steps.extend(done(json!([text("done")])));
            steps
        }
        "test_trigger_tool_change" => {
            let mut steps = vec![Step::ListChanged];
            steps.extend(done(json!([text("changed")])));
            steps
        }
        "test_missing_capability" => match lacks(params, &["sampling"]) {
            Some(lacking) => vec![lacking_error(request, &lacking)],
            None => done(json!([text("sampling is declared")])),
        },
        _ => match name.strip_prefix(INPUT) {
            Some(what) if modern => vec![asked(request, what)],
            Some(_) => vec![error(request, -32602, "this tool asks for input")],
            None => done(json!([text("done")])),
        },
    }
}

/// Rounds of input. State is what the tool minted, or it is refused.
fn asked(request: &Value, what: &str) -> Step {
    let params = &request["params"];
    let state = params["requestState"].as_str();
    let given = |key: &str| params["inputResponses"][key].is_object();
    let ask = |requests: Map<String, Value>, state: Option<&str>| {
        let needed: Vec<&str> = requests
            .values()
            .map(|request| match request["method"].as_str() {
                Some("sampling/createMessage") => "sampling",
                Some("roots/list") => "roots",
                _ => "elicitation",
            })
            .collect();
        if let Some(lacking) = lacks(params, &needed) {
            return lacking_error(request, &lacking);
        }
        let mut body = json!({ "resultType": "input_required", "inputRequests": requests });
        if let Some(state) = state {
            body["requestState"] = state.into();
        }
        Step::Say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": body }))
    };
    let done = |text: &str| {
        result(request, true, json!({ "content": [{ "type": "text", "text": text }] }))
    };
    let one = |key: &str, value: Value| Map::from_iter([(key.to_owned(), value)]);
    match what {
        "elicitation" if given("user_name") => done("hello"),
        "elicitation" => ask(one("user_name", elicitation("name", "string")), None),
        "sampling" if given("capital_question") => done("an answer"),
        "sampling" => ask(one("capital_question", sampling()), None),
        "list_roots" if given("client_roots") => done("roots"),
        "list_roots" => ask(one("client_roots", roots()), None),
        "request_state" | "tampered_state" => match state {
            None => ask(one("confirm", elicitation("ok", "boolean")), Some(what)),
            Some(state) if state != what => error(request, -32602, "the state is not mine"),
            Some(_) => done("state-ok"),
        },
        "multiple_inputs" => match ["user_name", "greeting", "client_roots"].iter().all(|k| given(k)) {
            true => done("all"),
            false => {
                let requests = Map::from_iter([
                    ("user_name".to_owned(), elicitation("name", "string")),
                    ("greeting".to_owned(), sampling()),
                    ("client_roots".to_owned(), roots()),
                ]);
                ask(requests, Some("several"))
            }
        },
        "multi_round" => match state {
            Some("round-1") if given("step1") => {
                ask(one("step2", elicitation("color", "string")), Some("round-2"))
            }
            Some("round-2") if given("step2") => done("both"),
            _ => ask(one("step1", elicitation("name", "string")), Some("round-1")),
        },
        "capabilities" => {
            let all = [
                ("elicitation", "name", elicitation("name", "string")),
                ("sampling", "question", sampling()),
                ("roots", "roots", roots()),
            ];
            let may = all.into_iter().filter(|(needs, ..)| lacks(params, &[needs]).is_none());
            let requests: Map<String, Value> =
                may.map(|(_, key, ask)| (key.to_owned(), ask)).collect();
            if requests.is_empty() { done("nothing can be asked") } else { ask(requests, None) }
        }
        // What no honest server does: asks for more than the client declared.
        "undeclared" => {
            let body = json!({ "resultType": "input_required",
                "inputRequests": { "user_name": elicitation("name", "string") } });
            Step::Say(json!({ "jsonrpc": "2.0", "id": request["id"], "result": body }))
        }
        _ => error(request, -32602, "unknown tool"),
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

/// Those of `needed` that the client did not declare.
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
