//! `POST /tools/call`.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{
    common::{
        Dialect, call_tool, envelope, expect_marker, expect_message, expect_success, id_of,
        listed_tools, new_call_id, post_call, post_text, result, split,
    },
    tools::{CallableTool, callable, failing, tool_for_call},
};
use crate::{
    CheckResult, Target, fail,
    http::Response,
    require, schema, skip, skip_unless,
    value::{text, with},
};

/// A version that no tool has.
const UNKNOWN_VERSION: &str = "999.999.999";

pub(crate) async fn success(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    let id = new_call_id();
    let response = call_tool(target, &with(tool.request(), "call_id", id.as_str())).await?;
    response.expect_status(&[200])?;
    let Some(result) = response.json()?.get("result") else {
        return fail("an object with `result`", "none", &[&response]);
    };
    let is_same = text(result, "call_id") == id;
    response.expect(is_same, "the `call_id` of the request", "another")?;
    expect_success(&response)?;
    response.expect(result.get("error").is_none(), "no `error`", "an `error`")
}

pub(crate) async fn marker(target: &Target) -> CheckResult {
    expect_marker(target, &call_any(target).await?)
}

pub(crate) async fn duration(target: &Target) -> CheckResult {
    let response = call_any(target).await?;
    let duration = result(&response)?.get("duration").and_then(Value::as_f64);
    response.expect(duration.is_some_and(|value| value >= 0.0), "`duration`, a number", "none")
}

pub(crate) async fn generated_id(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    call_any(target).await?;
    let body = envelope(target, &tool.request());
    let call = || target.send(target.post("/tools/call").json(&body).with_key());
    let (first, second) = (call().await?, call().await?);
    let id = |response| Ok(text(result(response)?, "call_id"));
    for response in [&first, &second] {
        response.expect(!id(response)?.is_empty(), "a `call_id`", "none")?;
    }
    let is_new = id(&first)? != id(&second)?;
    require(is_new, "a new `call_id` for each call", "the same twice", &[&first, &second])
}

pub(crate) async fn input_omitted(target: &Target) -> CheckResult {
    let needs_no_input = |tool: &CallableTool| {
        tool.required().is_empty() && !tool.has_requirements() && tool.arguments.is_empty()
    };
    let tool = callable(target, needs_no_input).await?;
    expect_success(&call_tool(target, &json!({ "tool_id": tool.id })).await?)
}

pub(crate) async fn no_version(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    expect_success(&call_as(target, &tool, tool.name()).await?)
}

pub(crate) async fn major_version(target: &Target) -> CheckResult {
    const SAMPLE: usize = 3;
    let tool = tool_for_call(target).await?;
    let (_, listed) = listed_tools(target).await?;
    let same = listed.iter().map(id_of).map(split).filter(|(name, _)| *name == tool.name());
    let versions: BTreeSet<&str> = same.filter_map(|(_, version)| version).collect();
    let majors: BTreeSet<&str> =
        versions.iter().filter_map(|version| version.split('.').next()).collect();
    skip_unless(!majors.is_empty(), "the callable tool has no version in its id")?;
    for major in majors.into_iter().take(SAMPLE) {
        let response = call_as(target, &tool, &format!("{}@{major}", tool.name())).await?;
        match versions.contains(format!("{major}.0.0").as_str()) {
            true => expect_success(&response)?,
            false => response.expect_status(&[400])?,
        }
    }
    Ok(())
}

pub(crate) async fn malformed_version(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    let version = split(&tool.id).1.unwrap_or("1.0.0");
    let two_parts = version.rsplit_once('.').map_or(version, |(start, _)| start);
    for malformed in [two_parts, "v1"] {
        let response = call_as(target, &tool, &format!("{}@{malformed}", tool.name())).await?;
        response.expect_status(&[400])?;
    }
    Ok(())
}

pub(crate) async fn unknown_tool(target: &Target) -> CheckResult {
    call_unknown_tool(target).await?.expect_status(&[400])
}

pub(crate) async fn unknown_version(target: &Target) -> CheckResult {
    call_unknown_version(target).await?.expect_status(&[400])
}

pub(crate) async fn invalid_input(target: &Target) -> CheckResult {
    let (response, _) = call_with_wrong_type(target).await?;
    response.expect_status(&[422])?;
    expect_message(&response)
}

pub(crate) async fn missing_input(target: &Target) -> CheckResult {
    call_without_required(target).await?.0.expect_status(&[422])
}

pub(crate) async fn parameter_errors(target: &Target) -> CheckResult {
    for (response, name) in
        [call_with_wrong_type(target).await?, call_without_required(target).await?]
    {
        let error = response.json()?.get("parameter_errors").and_then(|all| all.get(&name));
        let expected = format!("`parameter_errors` with `{name}`");
        response.expect(error.is_some_and(Value::is_string), expected, "none")?;
    }
    Ok(())
}

pub(crate) async fn tool_failure(target: &Target) -> CheckResult {
    let tool = failing(target).await?;
    let response = call_tool(target, &tool.request()).await?;
    let result = result(&response)?;
    let is_failure = result.get("success") == Some(&json!(false));
    response.expect(is_failure, "`success` false", "something else")?;
    let message = text(result.get("error").unwrap_or(&Value::Null), "message");
    response.expect(!message.is_empty(), "`error.message`", "none")?;
    response.expect(result.get("value").is_none(), "no `value`", "a `value`")
}

pub(crate) async fn not_json(target: &Target) -> CheckResult {
    for body in ["{not json", ""] {
        post_text(target, body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(crate) async fn malformed_request(target: &Target) -> CheckResult {
    for body in [
        json!({ "$schema": Dialect::of(target).marker }),
        json!({ "request": {} }),
        json!({ "request": "a text" }),
        json!({ "request": { "tool_id": 1 } }),
    ] {
        post_call(target, &body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(crate) async fn unsupported(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    for marker in [json!(Dialect::of(target).unsupported), json!(1)] {
        let body = json!({ "$schema": marker, "request": tool.request() });
        post_call(target, &body).await?.expect_status(&[400])?;
    }
    Ok(())
}

pub(crate) async fn content_type(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    call_any(target).await?;
    let body = json!({ "request": tool.request() }).to_string();
    let response = target.send_once(target.post("/tools/call").body(body).with_key()).await?;
    match response.status() {
        200 => expect_success(&response),
        _ => response.expect_status(&[200, 400, 415]),
    }
}

pub(crate) async fn repeated(target: &Target) -> CheckResult {
    let tool = tool_for_call(target).await?;
    let (first, body) = call_with_id(target, &tool).await?;
    let second = target.send(target.post("/tools/call").json(&body).with_key()).await?;
    let is_same = first.body() == second.body() && first.status() == second.status();
    require(is_same, "the response to the first call", "another", &[&first, &second])
}

pub(crate) async fn conflict(target: &Target) -> CheckResult {
    let has_variant = |tool: &CallableTool| !tool.has_requirements() && other_input(tool).is_some();
    let tool = callable(target, has_variant).await?;
    let Some(input) = other_input(&tool) else { return skip("the tool has no variable input") };
    let (first, mut body) = call_with_id(target, &tool).await?;
    if let Some(request) = body.get_mut("request") {
        *request = with(request.take(), "input", input);
    }
    let second = target.send(target.post("/tools/call").json(&body).with_key()).await?;
    let seen = format!("status {}", second.status());
    require(second.status() == 400, "status 400", seen, &[&first, &second])
}

pub(crate) async fn requirements(target: &Target) -> CheckResult {
    let tool = callable(target, CallableTool::has_requirements).await?;
    call_tool(target, &tool.request()).await?.expect_status(&[400])
}

/// Makes one ordinary call.
async fn call_any(target: &Target) -> CheckResult<Response> {
    let tool = tool_for_call(target).await?;
    let response = call_tool(target, &tool.request()).await?;
    result(&response)?;
    Ok(response)
}

/// Calls `tool` under another id.
async fn call_as(target: &Target, tool: &CallableTool, id: &str) -> CheckResult<Response> {
    call_tool(target, &with(tool.request(), "tool_id", id)).await
}

/// Makes a successful call with a new `call_id` and returns its body too.
async fn call_with_id(target: &Target, tool: &CallableTool) -> CheckResult<(Response, Value)> {
    let body = envelope(target, &with(tool.request(), "call_id", new_call_id()));
    let response = post_call(target, &body).await?;
    expect_success(&response)?;
    Ok((response, body))
}

pub(super) async fn call_unknown_tool(target: &Target) -> CheckResult<Response> {
    call_tool(target, &json!({ "tool_id": "Conformance.Absent", "input": {} })).await
}

pub(super) async fn call_unknown_version(target: &Target) -> CheckResult<Response> {
    let tool = tool_for_call(target).await?;
    call_as(target, &tool, &format!("{}@{UNKNOWN_VERSION}", tool.name())).await
}

/// Calls a tool with a value of a wrong type and returns the name of its parameter too.
async fn call_with_wrong_type(target: &Target) -> CheckResult<(Response, String)> {
    let is_typed = |tool: &CallableTool| {
        !tool.has_requirements() && !schema::wrong_types(&tool.schema).is_empty()
    };
    let tool = callable(target, is_typed).await?;
    let Some((name, value)) = schema::wrong_types(&tool.schema).into_iter().next() else {
        return skip("no parameter has a type");
    };
    let input = with(Value::Object(tool.arguments.clone()), name, value);
    let response = call_tool(target, &with(tool.request(), "input", input)).await?;
    Ok((response, name.to_owned()))
}

/// Calls a tool without a required parameter and returns its name too.
async fn call_without_required(target: &Target) -> CheckResult<(Response, String)> {
    let needs_input = |tool: &CallableTool| !tool.has_requirements() && !tool.required().is_empty();
    let tool = callable(target, needs_input).await?;
    let name = tool.required().first().map(|name| (*name).to_owned()).unwrap_or_default();
    let mut input = tool.arguments.clone();
    input.remove(&name);
    Ok((call_tool(target, &with(tool.request(), "input", input)).await?, name))
}

/// Derives other input that the tool accepts.
fn other_input(tool: &CallableTool) -> Option<Value> {
    let all = tool.schema.get("properties")?.as_object()?;
    all.iter().find_map(|(name, schema)| {
        let value = match (schema.get("type")?.as_str()?, tool.arguments.get(name)) {
            ("string", Some(Value::String(text))) => json!(format!("{text}b")),
            ("number" | "integer", Some(Value::Number(number))) => json!(number.as_i64()? + 1),
            ("boolean", Some(Value::Bool(is_true))) => json!(!is_true),
            _ => return None,
        };
        let input = with(Value::Object(tool.arguments.clone()), name, value);
        schema::violation(&tool.schema, &input).is_none().then_some(input)
    })
}
