//! Which tools are called, and with what.

use serde_json::{Map, Value, json};

use super::{id_of, parameters, split, tools};
use crate::conformance::{NamedTool, Site, Verdict, shape, skip};

/// A tool that may be called.
#[derive(Debug, Clone)]
pub(in crate::conformance) struct Callable {
    pub(super) id: String,
    pub(super) schema: Value,
    pub(super) arguments: Map<String, Value>,
    /// As it is listed.
    pub(super) listed: Value,
}

impl Callable {
    /// The request that calls it.
    pub(super) fn request(&self) -> Value {
        json!({ "tool_id": self.id, "input": self.arguments })
    }

    /// The id without its version.
    pub(super) fn bare(&self) -> &str {
        split(&self.id).0
    }

    /// The parameters that a call has to name.
    pub(super) fn required(&self) -> Vec<&str> {
        let required = self.schema.get("required").and_then(Value::as_array);
        required.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Whether calls must bring secrets or the like.
    pub(super) fn has_requirements(&self) -> bool {
        let Some(needs) = self.listed.get("requirements") else { return false };
        let some = |name: &str| {
            needs.get(name).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
        };
        some("secrets") || some("authorization") || needs.get("user_id") == Some(&json!(true))
    }

    fn is(&self, named: &NamedTool) -> bool {
        let name = self.listed.get("name").and_then(Value::as_str);
        self.id == named.name || self.bare() == named.name || name == Some(named.name.as_str())
    }
}

/// A tool that may be called and for which `fits`.
pub(super) async fn callable(site: &Site, fits: impl Fn(&Callable) -> bool) -> Verdict<Callable> {
    let all = every(site).await?;
    if all.is_empty() {
        return skip("no tool is known to be harmless; name one with --tool");
    }
    match all.into_iter().find(fits) {
        Some(tool) => Ok(tool),
        None => skip("no tool that may be called gives an occasion for it"),
    }
}

/// A tool that may be called without bringing anything.
pub(super) async fn plain(site: &Site) -> Verdict<Callable> {
    callable(site, |tool| !tool.has_requirements()).await
}

/// The tool that the user says will fail.
pub(super) async fn failing(site: &Site) -> Verdict<Callable> {
    let Some(named) = &site.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    let (_, tools) = tools(site).await?;
    match tools
        .iter()
        .filter_map(|tool| made(tool, named.arguments.as_ref()))
        .find(|it| it.is(named))
    {
        Some(tool) => Ok(tool),
        None => skip("the host lists no tool of the name given with --failing-tool"),
    }
}

/// Every tool that may be called: the one that the user named, then those that are harmless.
async fn every(site: &Site) -> Verdict<Vec<Callable>> {
    let (_, tools) = tools(site).await?;
    let mut all = Vec::new();
    if let Some(named) = &site.options().tool {
        let mine = tools.iter().filter_map(|tool| made(tool, named.arguments.as_ref()));
        all.extend(mine.filter(|tool| tool.is(named)));
    }
    let harmless = site.harmless().await;
    let says_so = |tool: &&Value| {
        tool.get("name").and_then(Value::as_str).is_some_and(|name| harmless.contains(name))
    };
    all.extend(tools.iter().filter(says_so).filter_map(|tool| made(tool, None)));
    Ok(all)
}

fn made(tool: &Value, arguments: Option<&Map<String, Value>>) -> Option<Callable> {
    let schema = parameters(tool);
    Some(Callable {
        id: id_of(tool).to_owned(),
        schema: schema.clone(),
        arguments: match arguments {
            Some(arguments) => arguments.clone(),
            None => shape::arguments_for(schema)?,
        },
        listed: tool.clone(),
    })
}
