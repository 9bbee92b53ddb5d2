//! Selection of the tools to call, and of their arguments.

use serde_json::{Map, Value, json};

use super::common::{id_of, listed_tools, parameters, split};
use crate::{
    CheckResult, NamedTool, Target,
    schema::{arguments_for, required},
    skip, skip_unless,
    value::{array, text},
};

/// A tool that checks may call.
#[derive(Debug, Clone)]
pub(crate) struct CallableTool {
    pub(super) id: String,
    pub(super) schema: Value,
    pub(super) arguments: Map<String, Value>,
    /// The definition in the list.
    definition: Value,
}

impl CallableTool {
    /// Builds the request that calls the tool.
    pub(crate) fn request(&self) -> Value {
        json!({ "tool_id": self.id, "input": self.arguments })
    }

    /// The id without the version.
    pub(super) fn name(&self) -> &str {
        split(&self.id).0
    }

    pub(super) fn required(&self) -> Vec<&str> {
        required(&self.schema)
    }

    /// Whether calls need secrets, authorization or a user.
    pub(super) fn has_requirements(&self) -> bool {
        let requirements = self.definition.get("requirements").unwrap_or(&Value::Null);
        ["secrets", "authorization"].iter().any(|name| !array(requirements, name).is_empty())
            || requirements.get("user_id") == Some(&json!(true))
    }

    fn matches(&self, named: &NamedTool) -> bool {
        [self.id.as_str(), self.name(), text(&self.definition, "name")].contains(&&*named.name)
    }
}

/// Selects a callable tool for which `is_suitable`.
pub(super) async fn callable(
    target: &Target,
    is_suitable: impl Fn(&CallableTool) -> bool,
) -> CheckResult<CallableTool> {
    let all = all_callable(target).await?;
    skip_unless(!all.is_empty(), "no tool is marked as read-only; name one with --tool")?;
    match all.into_iter().find(is_suitable) {
        Some(tool) => Ok(tool),
        None => skip("no callable tool is suitable"),
    }
}

/// Selects a callable tool without requirements.
pub(crate) async fn tool_for_call(target: &Target) -> CheckResult<CallableTool> {
    callable(target, |tool| !tool.has_requirements()).await
}

/// Selects the tool of `--failing-tool`.
pub(super) async fn failing(target: &Target) -> CheckResult<CallableTool> {
    let Some(named) = &target.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    let (_, tools) = listed_tools(target).await?;
    let all = tools.iter().filter_map(|tool| with_arguments(tool, named.arguments.as_ref()));
    match all.into_iter().find(|tool| tool.matches(named)) {
        Some(tool) => Ok(tool),
        None => skip("the host does not list the tool of --failing-tool"),
    }
}

/// Selects every callable tool: first the one that the user names, then the read-only ones.
async fn all_callable(target: &Target) -> CheckResult<Vec<CallableTool>> {
    let (_, tools) = listed_tools(target).await?;
    let mut all = Vec::new();
    if let Some(named) = &target.options().tool {
        let own = tools.iter().filter_map(|tool| with_arguments(tool, named.arguments.as_ref()));
        all.extend(own.filter(|tool| tool.matches(named)));
    }
    let read_only = target.read_only_tools().await;
    let read_only = tools.iter().filter(|tool| read_only.contains(text(tool, "name")));
    all.extend(read_only.filter_map(|tool| with_arguments(tool, None)));
    Ok(all)
}

fn with_arguments(tool: &Value, arguments: Option<&Map<String, Value>>) -> Option<CallableTool> {
    let schema = parameters(tool);
    let arguments = arguments.cloned().or_else(|| arguments_for(schema))?;
    let (id, schema) = (id_of(tool).to_owned(), schema.clone());
    Some(CallableTool { id, schema, arguments, definition: tool.clone() })
}
