//! Selection of the tools to read and to call, and of their arguments.

use serde_json::{Map, Value, json};

use super::common::{SAMPLE, name_of, path, require_execution, summaries};
use crate::{CheckResult, NamedTool, Target, http::Response, schema, skip, skip_unless};

/// A tool with its schema.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) summary: Value,
    pub(super) detail: Response,
    /// Whether the host marks it as read-only or the user names it.
    is_callable: bool,
    /// Valid arguments, if any are known.
    arguments: Option<Map<String, Value>>,
}

impl Tool {
    pub(super) fn schema(&self) -> &Value {
        self.detail.value().get("inputSchema").unwrap_or(&Value::Null)
    }

    pub(super) fn has_valid_schema(&self) -> bool {
        schema::is_valid(self.schema())
    }

    /// The known valid arguments, or an empty object.
    pub(super) fn arguments(&self) -> Value {
        Value::Object(self.arguments.clone().unwrap_or_default())
    }

    pub(super) fn has_arguments(&self) -> bool {
        self.arguments.is_some()
    }

    pub(super) fn required(&self) -> Vec<&str> {
        schema::required(self.schema())
    }

    pub(super) fn wrong_types(&self) -> Vec<(&str, Value)> {
        schema::wrong_types(self.schema())
    }
}

/// Reads the tools with their schemas, the callable ones first.
async fn described(target: &Target) -> CheckResult<Vec<Tool>> {
    let (_, listed) = summaries(target).await?;
    let named = target.options().tool.as_ref();
    let read_only = target.read_only_tools().await;
    let (mut callable, others): (Vec<Value>, Vec<Value>) = listed
        .into_iter()
        .partition(|tool| has_name(tool, named) || read_only.contains(name_of(tool)));
    callable.sort_by_key(|tool| !has_name(tool, named));
    let count = callable.len();
    let mut tools = Vec::new();
    for (at, summary) in callable.into_iter().chain(others).take(SAMPLE).enumerate() {
        tools.extend(read(target, summary, at < count).await?);
    }
    skip_unless(!tools.is_empty(), "no listed tool has a detail")?;
    Ok(tools)
}

/// Selects a tool to read but not to call.
pub(super) async fn any_tool(target: &Target) -> CheckResult<Tool> {
    find_tool(target, |_| true).await
}

/// Selects a tool for which `is_suitable`, to read but not to call.
pub(super) async fn find_tool(
    target: &Target,
    is_suitable: impl Fn(&Tool) -> bool,
) -> CheckResult<Tool> {
    match described(target).await?.into_iter().find(is_suitable) {
        Some(tool) => Ok(tool),
        None => skip("no tool is suitable"),
    }
}

/// Selects a callable tool with its arguments.
pub(super) async fn callable(target: &Target) -> CheckResult<(Tool, Value)> {
    require_execution(target).await?;
    let tools = described(target).await?;
    match tools.into_iter().find(|tool| tool.is_callable && tool.has_arguments()) {
        Some(tool) => Ok((tool.clone(), tool.arguments())),
        None => skip("no tool is marked as read-only; name one with --tool"),
    }
}

/// Selects the tool of `--failing-tool` with its arguments.
pub(super) async fn failing(target: &Target) -> CheckResult<(Tool, Value)> {
    let Some(named) = &target.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    let (_, listed) = summaries(target).await?;
    let Some(summary) = listed.into_iter().find(|tool| has_name(tool, Some(named))) else {
        return skip("the host does not list the tool of --failing-tool");
    };
    let Some(tool) = read(target, summary, true).await? else {
        return skip("the tool of --failing-tool has no detail");
    };
    match named.arguments.as_ref().or(tool.arguments.as_ref()).cloned() {
        Some(arguments) => Ok((tool, Value::Object(arguments))),
        None => skip("no arguments for the tool are known: --failing-arguments"),
    }
}

/// Calls `tool`, which must be callable.
pub(super) async fn call_tool(
    target: &Target,
    tool: &Tool,
    body: Vec<u8>,
) -> CheckResult<Response> {
    target.send_authorized(target.post(&path(&tool.name, "/call")).json_text(body)).await
}

/// Adds its detail to `summary`, if it has one.
async fn read(target: &Target, summary: Value, is_callable: bool) -> CheckResult<Option<Tool>> {
    let name = name_of(&summary).to_owned();
    let detail = target.fetch(&path(&name, "")).await?;
    if name.is_empty() || detail.status() != 200 {
        return Ok(None);
    }
    let named = target.options().tool.as_ref().filter(|named| named.name == name);
    let schema = detail.value().get("inputSchema").cloned().unwrap_or_else(|| json!(null));
    let given = named.and_then(|named| named.arguments.clone());
    let arguments = given.or_else(|| schema::arguments_for(&schema));
    Ok(Some(Tool { name, summary, detail, is_callable, arguments }))
}

fn has_name(tool: &Value, named: Option<&NamedTool>) -> bool {
    named.is_some_and(|named| named.name == name_of(tool))
}
