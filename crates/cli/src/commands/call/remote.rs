//! A call on a running server.

use serde_json::{Value, json};
use toolcrib_core::{call::ProgressSink as _, suggest};

use super::{answer, arguments::ParsedArguments};
use crate::{
    browser,
    client::{self, CallEnd, Client, ListedTool},
    commands::tools,
    failure::{Exit, advised},
    meter::Meter,
    printer::Printer,
};

/// Calls `tool`, which may be a tool id, a wire name or an OTC id.
pub(super) async fn run(
    tool: &str,
    arguments: ParsedArguments,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let tools = client.mcp_tools().await?;
    let listed = ListedTool::find(&tools, tool);
    let name = match listed {
        Some(listed) => listed.name.as_str(),
        // The list omits tools that the key may not use, but the error names the required scopes.
        None if is_wire_name(tool) => tool,
        None => {
            let error = tools::unknown(tool, tools.iter().map(|listed| listed.name.as_str()));
            return answer::print_error(json!({}), "not_found", &Value::Null, error, printer);
        }
    };
    let arguments = arguments.for_schema(listed.map(ListedTool::input_schema))?;
    let meter = Meter::new(printer);
    let ended = client.mcp_call(name, listed, &arguments, |progress| meter.report(progress)).await;
    meter.end();
    match ended? {
        CallEnd::Answered { run_id, outcome } => {
            let ids = ids(run_id, printer);
            answer::print_outcome(ids, &outcome, printer)
        }
        CallEnd::Refused { run_id, code, message, details } => {
            let ids = ids(run_id, printer);
            let approval = match details.get("approvalId").and_then(Value::as_str) {
                Some(id) => client.get(&["v1", "approvals", id], &[]).await.ok(),
                None => None,
            };
            let error =
                to_error(tool, &tools, &code, &message, &details, approval.as_ref(), printer);
            answer::print_error(ids, &code, &details, error, printer)
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

fn to_error(
    tool: &str,
    known: &[ListedTool],
    code: &str,
    message: &str,
    details: &Value,
    approval: Option<&Value>,
    printer: Printer,
) -> anyhow::Error {
    match code {
        "not_found" => {
            let suggestion =
                suggest::did_you_mean(tool, known.iter().map(|listed| listed.name.as_str()));
            advised(
                format!("{message}{suggestion}"),
                "`toolcrib tools list` shows what the key may use",
            )
        }
        "forbidden" => advised(message, client::missing_scopes(details)),
        "rate_limited" => advised(message, client::later(details)),
        "validation_error" => advised(message, answer::SEE_SCHEMA),
        "approval_required" => advised(message, answer::see_approval(approval)),
        "connection_required" => {
            let link = details.get("link").and_then(Value::as_str);
            let can_open = !printer.wants_json() && printer.can_ask();
            let is_open = can_open && link.is_some_and(browser::open);
            advised(message, if is_open { answer::OPENED } else { answer::CONNECT })
        }
        code if code.starts_with("upstream") => advised(message, answer::SEE_SOURCES),
        _ => anyhow::Error::msg(message.to_owned()),
    }
}

fn is_wire_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
}
