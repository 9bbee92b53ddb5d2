//! The demo's tools. Each one exercises another feature of the gateway.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use toolcrib_mcp::message::{self, RpcError};

/// The tools, as in the result of `tools/list`.
const TOOLS: &str = include_str!("tools.json");
/// Limits of `slow`, as in its schema: the number of steps and the length of a step.
const MAX_STEPS: u64 = 100;
const MAX_STEP_MS: u64 = 10_000;

/// The tools as in the result of `tools/list`; `echo` in its changed form if `is_changed`.
pub(super) fn list(is_changed: bool) -> Value {
    let mut tools: Value = serde_json::from_str(TOOLS).unwrap_or_default();
    if is_changed {
        let tools = tools.as_array_mut().into_iter().flatten();
        for echo in tools.filter(|tool| tool.get("name").is_some_and(|name| name == "echo")) {
            change(echo);
        }
    }
    tools
}

/// Changes `echo` as a new version of a server may: another description, and one more argument.
fn change(echo: &mut Value) {
    if let Some(description) = echo.get_mut("description") {
        *description = json!("Answers the text it was given, in capitals if `loud` is true.");
    }
    let properties = echo.pointer_mut("/inputSchema/properties").and_then(Value::as_object_mut);
    if let Some(properties) = properties {
        let loud = json!({ "type": "boolean", "description": "Whether to answer in capitals." });
        properties.insert("loud".to_owned(), loud);
    }
}

/// Runs a tool, and sends progress notifications to `send`.
pub(super) async fn call(
    params: &Value,
    is_changed: bool,
    send: &mpsc::Sender<Vec<u8>>,
) -> Result<Value, RpcError> {
    let none = json!({});
    let arguments = params.get("arguments").unwrap_or(&none);
    let string = |name: &str| arguments.get(name).and_then(Value::as_str);
    let number = |name: &str| arguments.get(name).and_then(Value::as_f64);
    Ok(match params.get("name").and_then(Value::as_str) {
        Some("echo") => match string("text") {
            Some(text) if is_changed && arguments.get("loud") == Some(&Value::Bool(true)) => {
                text_result(&text.to_uppercase())
            }
            Some(text) => text_result(text),
            None => error_result("text is missing"),
        },
        Some("add") => match (number("a"), number("b")) {
            (Some(a), Some(b)) => text_result(&(a + b).to_string()),
            _ => error_result("a and b have to be numbers"),
        },
        Some("slow") => {
            let steps = arguments.get("steps").and_then(Value::as_u64).unwrap_or(5);
            let step = arguments.get("step_ms").and_then(Value::as_u64).unwrap_or(200);
            let token = params.pointer("/_meta/progressToken");
            slow(steps.clamp(1, MAX_STEPS), step.min(MAX_STEP_MS), token, send).await
        }
        Some("fail") => {
            error_result(string("message").unwrap_or("it did not work, as it never does"))
        }
        Some("structured") => match string("city") {
            Some(city) => {
                let windy = arguments.get("wind").and_then(Value::as_bool);
                structured(city, windy.unwrap_or_default())
            }
            None => error_result("city is missing"),
        },
        Some("wipe") => text_result("nothing was deleted"),
        _ => return Err(RpcError::invalid_params("no such tool")),
    })
}

async fn slow(
    steps: u64,
    step_ms: u64,
    token: Option<&Value>,
    send: &mpsc::Sender<Vec<u8>>,
) -> Value {
    for step in 1..=steps {
        tokio::time::sleep(Duration::from_millis(step_ms)).await;
        if let Some(token) = token {
            let words = format!("step {step} of {steps}");
            let progress = message::progress(
                &token.to_string(),
                &step.into(),
                Some(&steps.into()),
                Some(&words),
            );
            // An error means that the output is closed; sending the response then fails as well.
            send.send(progress).await.ok();
        }
    }
    text_result(&format!("counted to {steps}"))
}

fn structured(city: &str, wind: bool) -> Value {
    // The weather of a city is deterministic.
    let sum: u32 = city.bytes().map(u32::from).sum();
    let conditions = match sum % 3 {
        0 => "sunny",
        1 => "cloudy",
        _ => "rainy",
    };
    let mut report = json!({ "city": city, "celsius": sum % 35, "conditions": conditions });
    if wind && let Some(report) = report.as_object_mut() {
        report.insert("km/h".to_owned(), json!(sum % 60));
    }
    let mut result = text_result(&report.to_string());
    if let Some(result) = result.as_object_mut() {
        result.insert("structuredContent".to_owned(), report);
    }
    result
}

fn text_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": false })
}

fn error_result(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }], "isError": true })
}
