//! Which tools are called, which are looked at, and with what.

use serde_json::{Map, Value, json};

use super::{is_refused, name_of, path, running, summaries};
use crate::conformance::{Got, NamedTool, Site, Verdict, shape, skip};

/// Tools that are looked at beside those that may be called.
const MOST: usize = 24;

/// A tool with its schema.
#[derive(Debug, Clone)]
pub(super) struct Tool {
    pub(super) name: String,
    pub(super) summary: Value,
    /// What it answers for itself.
    pub(super) detail: Got,
    /// Whether the host calls it harmless, or the user named it.
    may_be_called: bool,
    /// Arguments that fit, if any are known.
    arguments: Option<Map<String, Value>>,
}

impl Tool {
    pub(super) fn schema(&self) -> &Value {
        self.detail.value().get("inputSchema").unwrap_or(&Value::Null)
    }

    /// Arguments that fit.
    pub(super) fn arguments(&self) -> Option<Value> {
        self.arguments.clone().map(Value::Object)
    }

    /// The parameters that arguments have to name.
    pub(super) fn required(&self) -> Vec<&str> {
        let required = self.schema().get("required").and_then(Value::as_array);
        required.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// Parameters of one type, each with a value of another.
    pub(super) fn wrong(&self) -> Vec<(&str, Value)> {
        let all = self.schema().get("properties").and_then(Value::as_object);
        let other = |schema: &Value| match schema.get("type")?.as_str()? {
            "string" => Some(json!({ "conformance": true })),
            "number" | "integer" | "boolean" | "object" | "array" => Some(json!("no such type")),
            _ => None,
        };
        let all = all.into_iter().flatten();
        all.filter_map(|(name, schema)| Some((name.as_str(), other(schema)?))).collect()
    }
}

/// The tools with their schemas: those that may be called first.
pub(super) async fn described(site: &Site) -> Verdict<Vec<Tool>> {
    let (_, listed) = summaries(site).await?;
    let named = site.options().tool.as_ref();
    let harmless = site.harmless().await;
    let (mut first, then): (Vec<Value>, Vec<Value>) =
        listed.into_iter().partition(|tool| is(tool, named) || harmless.contains(name_of(tool)));
    first.sort_by_key(|tool| !is(tool, named));
    let callable = first.len();
    let mut tools = Vec::new();
    for (place, summary) in first.into_iter().chain(then).take(MOST).enumerate() {
        if let Some(tool) = look(site, summary, place < callable).await? {
            tools.push(tool);
        }
    }
    match tools.is_empty() {
        true => skip("no listed tool has a detail"),
        false => Ok(tools),
    }
}

/// A tool for which `fits`; it is looked at, and not called.
pub(super) async fn some(site: &Site, fits: impl Fn(&Tool) -> bool) -> Verdict<Tool> {
    match described(site).await?.into_iter().find(fits) {
        Some(tool) => Ok(tool),
        None => skip("no tool gives an occasion for it"),
    }
}

/// A tool that may be called, and arguments for it.
pub(super) async fn callable(site: &Site) -> Verdict<(Tool, Value)> {
    running(site).await?;
    let found = described(site)
        .await?
        .into_iter()
        .filter(|tool| tool.may_be_called)
        .find_map(|tool| tool.arguments().map(|arguments| (tool, arguments)));
    match found {
        Some(found) => Ok(found),
        None => skip("no tool is known to be harmless; name one with --tool"),
    }
}

/// The tool that the user says will fail, and arguments for it.
pub(super) async fn failing(site: &Site) -> Verdict<(Tool, Value)> {
    let Some(named) = &site.options().failing_tool else {
        return skip("needs a tool that fails: --failing-tool");
    };
    let (_, listed) = summaries(site).await?;
    let Some(summary) = listed.into_iter().find(|tool| is(tool, Some(named))) else {
        return skip("the host lists no tool of the name given with --failing-tool");
    };
    let Some(tool) = look(site, summary, true).await? else {
        return skip("the tool given with --failing-tool has no detail");
    };
    let own = named.arguments.clone().map(Value::Object);
    match own.or_else(|| tool.arguments()) {
        Some(arguments) => Ok((tool, arguments)),
        None => skip("no arguments for the tool are known: --failing-arguments"),
    }
}

/// The answer to a call of `tool`, which must be one that may be called.
pub(super) async fn called(site: &Site, tool: &Tool, body: Vec<u8>) -> Verdict<Got> {
    let ask = site.post(&path(&tool.name, "/call")).header("content-type", "application/json");
    let got = site.once(ask.body(body).by_first()).await?;
    match is_refused(&got) && !site.host().has_key() {
        true => skip("the host wants a key: --key"),
        false => Ok(got),
    }
}

/// `summary` with its detail, if there is one.
async fn look(site: &Site, summary: Value, may_be_called: bool) -> Verdict<Option<Tool>> {
    let name = name_of(&summary).to_owned();
    let detail = site.once(site.get(&path(&name, "")).by_first()).await?;
    if name.is_empty() || detail.status() != 200 {
        return Ok(None);
    }
    let own = site.options().tool.as_ref().filter(|named| named.name == name);
    let mut tool = Tool { name, summary, detail, may_be_called, arguments: None };
    let given = own.and_then(|named| named.arguments.clone());
    tool.arguments = given.or_else(|| shape::arguments_for(tool.schema()));
    Ok(Some(tool))
}

fn is(tool: &Value, named: Option<&NamedTool>) -> bool {
    named.is_some_and(|named| named.name == name_of(tool))
}
