//! A call on a running server.

use serde_json::{Value, json};

use super::answer;
use crate::{
    client::{self, CallEnd, Client, Listed},
    failure::{Exit, advised},
    printer::Printer,
};

/// Calls `tool`, which may be a tool id, a wire name or an OTC id.
pub(super) async fn run(
    tool: &str,
    arguments: &Value,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let tools = client.mcp_tools().await?;
    let listed = match known(tool, &tools) {
        None if tool.contains('.') => {
            let name = otc_name(tool, client).await?;
            name.and_then(|name| tools.iter().find(|it| it.name == name))
        }
        listed => listed,
    };
    let name = match listed {
        Some(listed) => listed.name.as_str(),
        // What the key may not use is not listed, but the server says which scopes it takes.
        None if is_wire_name(tool) => tool,
        None => return refused(json!({}), "not_found", "no such tool", &Value::Null, printer),
    };
    let progress = |progress| answer::progress(progress, printer);
    match client.mcp_call(name, listed, arguments, progress).await? {
        CallEnd::Answered { run_id, outcome } => {
            let ids = ids(run_id, printer);
            answer::answered(ids, &outcome, printer)
        }
        CallEnd::Refused { run_id, code, message, details } => {
            refused(ids(run_id, printer), &code, &message, &details, printer)
        }
    }
}

fn ids(run_id: Option<String>, printer: Printer) -> Value {
    match run_id {
        Some(run_id) => {
            printer.detail(format_args!("run {run_id}"));
            json!({ "runId": run_id })
        }
        None => json!({}),
    }
}

fn refused(
    ids: Value,
    code: &str,
    message: &str,
    details: &Value,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let error = match code {
        "not_found" => advised(message, "`toolcrib tools list` shows what the key may use"),
        "forbidden" => advised(message, client::missing_scopes(details)),
        "rate_limited" => advised(message, client::later(details)),
        "validation_error" => advised(message, answer::SEE_SCHEMA),
        "approval_required" => advised(message, answer::SEE_APPROVAL),
        code if code.starts_with("upstream") => advised(message, answer::SEE_SOURCES),
        _ => anyhow::Error::msg(message.to_owned()),
    };
    answer::refused(ids, code, details, error, printer)
}

fn known<'a>(tool: &str, tools: &'a [Listed]) -> Option<&'a Listed> {
    tools.iter().find(|it| it.tool_id() == Some(tool) || it.name == tool)
}

/// The wire name of the tool with OTC id `id`, with or without its version. Looked up where these
/// ids are at home, never made up.
async fn otc_name(id: &str, client: &Client) -> anyhow::Result<Option<String>> {
    let listed = client.get(&["tools"], &[]).await?;
    let tools = listed.get("tools").and_then(Value::as_array);
    let is_it = |full: &str| full == id || full.split_once('@').is_some_and(|(bare, _)| bare == id);
    let found = tools
        .into_iter()
        .flatten()
        .find(|tool| tool.get("id").and_then(Value::as_str).is_some_and(is_it));
    Ok(found.and_then(|tool| tool.get("name")?.as_str()).map(str::to_owned))
}

fn is_wire_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
