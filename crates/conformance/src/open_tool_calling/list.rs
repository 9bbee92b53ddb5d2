//! `GET /tools`.

use serde_json::{Value, json};

use super::common::{
    Dialect, expect_marker, expect_message, id_of, listed, listed_tools, parameters, split,
};
use crate::{CheckResult, Protocol, Target, require, schema, skip_unless, value::text};

pub(crate) async fn object(target: &Target) -> CheckResult {
    let (response, _) = listed(target).await?;
    let name = Dialect::of(target).list;
    let seen = if response.value().is_array() { "a bare array" } else { "something else" };
    let has_list = response.value().get(name).is_some_and(Value::is_array);
    response.expect(has_list, format!("an object with the array `{name}`"), seen)
}

pub(crate) async fn marker(target: &Target) -> CheckResult {
    expect_marker(target, &listed(target).await?.0)
}

pub(crate) async fn with_schema(target: &Target) -> CheckResult {
    let (plain, _) = listed(target).await?;
    let body = json!({ "$schema": Dialect::of(target).marker });
    let response = target.send_once(target.get("/tools").json(&body).with_key()).await?;
    response.expect_status(&[200])?;
    let is_same = response.json()? == plain.value();
    require(is_same, "the same list", "another list", &[&response, &plain])
}

pub(crate) async fn unsupported(target: &Target) -> CheckResult {
    listed(target).await?;
    let body = json!({ "$schema": Dialect::of(target).unsupported });
    let response = target.send_once(target.get("/tools").json(&body).with_key()).await?;
    response.expect_status(&[400])?;
    expect_message(&response)
}

pub(crate) async fn empty_body(target: &Target) -> CheckResult {
    listed(target).await?;
    let request = target.get("/tools").header("content-type", "application/json").with_key();
    target.send_once(request).await?.expect_status(&[200])
}

pub(crate) async fn definitions(target: &Target) -> CheckResult {
    let required = match target.protocol() {
        Protocol::Oxp => json!(["id", "name", "description", "version"]),
        _ => json!(["id", "name", "description", "version", "input_schema", "output_schema"]),
    };
    let definition = json!({
        "type": "object",
        "required": required,
        "additionalProperties": false,
        "properties": {
            "id": { "type": "string" },
            "name": { "type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}$" },
            "description": { "type": "string" },
            "version": { "type": "string" },
            "input_schema": { "type": "object" },
            "output_schema": { "type": ["object", "null"] },
            "requirements": {
                "type": "object",
                "properties": {
                    "authorization": { "type": "array", "items": { "type": "object" } },
                    "secrets": { "type": "array", "items": {
                        "type": "object",
                        "required": ["id"],
                        "properties": { "id": { "type": "string" } },
                    } },
                    "user_id": { "type": "boolean" },
                },
            },
        },
    });
    expect_no_tool(target, "a valid ToolDefinition", |tool| {
        let schemas = [parameters(tool), tool.get("output_schema").unwrap_or(&Value::Null)];
        let is_invalid = |value: &&Value| value.is_object() && !schema::is_valid(value);
        let invalid =
            || schemas.into_iter().find(is_invalid).map(|_| "an invalid schema".to_owned());
        schema::violation(&definition, tool).or_else(invalid)
    })
    .await
}

pub(crate) async fn ids(target: &Target) -> CheckResult {
    let is_word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    expect_no_tool(target, "ids of the form `Toolkit.Tool@x.y.z`", |tool| {
        let (name, version) = split(id_of(tool));
        let is_name = name.split_once('.').is_some_and(|(kit, tool)| is_word(kit) && is_word(tool));
        let is_id = is_name && version.is_some_and(is_version);
        (!is_id).then(|| "another form".to_owned())
    })
    .await
}

pub(crate) async fn unique_ids(target: &Target) -> CheckResult {
    let (response, tools) = listed_tools(target).await?;
    response.expect_unique(tools.iter().map(id_of), "unique ids")
}

pub(crate) async fn versions(target: &Target) -> CheckResult {
    expect_no_tool(target, "the version of the id in the form `x.y.z`", |tool| {
        let version = text(tool, "version");
        let is_same = split(id_of(tool)).1.is_none_or(|own| own == version);
        (!is_version(version) || !is_same).then(|| format!("`version` `{version}`"))
    })
    .await
}

pub(crate) async fn descriptions(target: &Target) -> CheckResult {
    let properties = |tool: &Value| parameters(tool).get("properties")?.as_object().cloned();
    let (_, tools) = listed_tools(target).await?;
    let has_parameters = tools.iter().filter_map(properties).any(|all| !all.is_empty());
    skip_unless(has_parameters, "no tool has parameters")?;
    expect_no_tool(target, "a description for every parameter", |tool| {
        let mut all = properties(tool)?.into_iter();
        let (name, _) = all.find(|(_, schema)| text(schema, "description").trim().is_empty())?;
        Some(format!("no description for `{name}`"))
    })
    .await
}

pub(crate) async fn no_refs(target: &Target) -> CheckResult {
    expect_no_tool(target, "schemas without references", |tool| {
        let mut schemas =
            ["input_schema", "output_schema"].iter().filter_map(|member| tool.get(*member));
        schemas.find_map(reference).map(|keyword| format!("the keyword `{keyword}`"))
    })
    .await
}

/// For Open Tool Calling.
pub(crate) async fn wrapped_parameters(target: &Target) -> CheckResult {
    expect_no_tool(target, "`input_schema.parameters`", |tool| {
        let is_wrapped = tool.pointer("/input_schema/parameters").is_some_and(Value::is_object);
        (!is_wrapped).then(|| "a missing member, or another type".to_owned())
    })
    .await
}

/// For OXP.
pub(crate) async fn flat_parameters(target: &Target) -> CheckResult {
    expect_no_tool(target, "the schema in `input_schema`", |tool| {
        let schema = tool.get("input_schema").and_then(Value::as_object)?;
        let is_wrapped = schema.get("parameters").is_some_and(Value::is_object)
            && !schema.contains_key("type")
            && !schema.contains_key("properties");
        is_wrapped.then(|| "the schema in `parameters`".to_owned())
    })
    .await
}

/// Fails the check with the first problem that `problem` finds in a tool.
async fn expect_no_tool(
    target: &Target,
    expected: &str,
    problem: impl Fn(&Value) -> Option<String>,
) -> CheckResult {
    let (response, tools) = listed_tools(target).await?;
    response.expect_no_problem(&tools, id_of, expected, problem)
}

fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    text.split('.').count() == 3 && text.split('.').all(is_number)
}

/// Finds a keyword for references anywhere in `schema`. Names of properties are not keywords.
fn reference(schema: &Value) -> Option<&'static str> {
    const KEYWORDS: [&str; 4] = ["$ref", "$defs", "definitions", "$dynamicRef"];
    match schema {
        Value::Object(members) => {
            let own = KEYWORDS.into_iter().find(|keyword| members.contains_key(*keyword));
            let inner = || {
                members.iter().find_map(|(name, inner)| match (name.as_str(), inner) {
                    ("properties", Value::Object(named)) => named.values().find_map(reference),
                    // These contain data instead of schemas.
                    ("const" | "enum" | "default" | "examples", _) => None,
                    _ => reference(inner),
                })
            };
            own.or_else(inner)
        }
        Value::Array(items) => items.iter().find_map(reference),
        _ => None,
    }
}
