//! `call`: one call through the gate, here or on a running server.

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_core::{
    call::{CallError, Outcome, Progress, ProgressSink},
    id::TenantId,
};
use toolcrib_gateway::{
    Gateway,
    call::{CallRequest, Called},
    list::ToolRef,
    metrics::Surface,
};

use super::input;
use crate::{
    args::{CallArgs, Global},
    client::{self, Answer, Client},
    failure::{Exit, advised, usage},
    local::{self, Local},
    printer::Printer,
    settings::Settings,
};

pub(crate) async fn run(args: CallArgs, global: &Global, printer: Printer) -> anyhow::Result<Exit> {
    let arguments = input::document(&args.arguments)?;
    if !arguments.is_object() {
        return Err(usage("the arguments must be a JSON object such as '{\"path\": \"a.md\"}'"));
    }
    match Client::connect(global, printer)? {
        Some(client) => remote(&args.tool, &arguments, &client, printer).await,
        None => here(&args.tool, arguments, global, printer).await,
    }
}

async fn here(
    tool: &str,
    arguments: Value,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            let entry = local::awaited(gateway, tool).await?;
            // The operator stands in whatever tenant the tool exists for.
            let tenant = match &entry.tenants {
                toolcrib_core::catalog::Tenants::Only(tenants) => tenants.first().cloned(),
                toolcrib_core::catalog::Tenants::All => None,
            };
            let tenant = tenant.map_or_else(|| TenantId::parse("default"), Ok)?;
            let operator = local::operator(tenant, Vec::new())?;
            let mut request =
                CallRequest::new(Surface::Cli, ToolRef::Id(entry.id.as_str()), arguments);
            request.progress = Some(Arc::new(ProgressLines(printer)));
            print(gateway.call(&operator, request).await, printer)
        })
        .await
}

/// Prints progress as it comes.
struct ProgressLines(Printer);

impl ProgressSink for ProgressLines {
    fn report(&self, progress: Progress) {
        let Progress { progress, total, message } = progress;
        let total = total.map(|total| format!("/{total}")).unwrap_or_default();
        let message = message.map(|text| format!(" {text}")).unwrap_or_default();
        self.0.note_foreign(&format!("progress {progress}{total}{message}"));
    }
}

fn print(called: Called, printer: Printer) -> anyhow::Result<Exit> {
    let Called { run_id, call_id, result, duration, .. } = called;
    let ids = json!({
        "runId": run_id,
        "callId": call_id,
        "durationMs": duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    });
    printer.detail(format_args!("run {run_id}, call {call_id}"));
    match result {
        Ok(outcome) => {
            match printer.wants_json() {
                true => printer.json(&with(ids, whole(&outcome)))?,
                false => text(&outcome, printer)?,
            }
            Ok(if outcome.is_error { Exit::Failed } else { Exit::Done })
        }
        Err(error) => {
            if printer.wants_json() {
                printer.json(&with(ids, json!({ "error": failure(&error) })))?;
            }
            Err(explain(&error))
        }
    }
}

fn with(mut ids: Value, rest: Value) -> Value {
    if let (Some(ids), Value::Object(rest)) = (ids.as_object_mut(), rest) {
        ids.extend(rest);
    }
    ids
}

fn whole(outcome: &Outcome) -> Value {
    let mut whole = json!({ "content": outcome.content, "isError": outcome.is_error });
    if let (Some(whole), Some(structured)) = (whole.as_object_mut(), &outcome.structured) {
        whole.insert("structuredContent".to_owned(), json!(structured));
    }
    whole
}

/// The text of the answer; what is not text is named.
fn text(outcome: &Outcome, printer: Printer) -> anyhow::Result<()> {
    let blocks: Vec<Value> = serde_json::from_str(outcome.content.get())?;
    if let (true, Some(structured)) = (blocks.is_empty(), &outcome.structured) {
        let structured: Value = serde_json::from_str(structured.get())?;
        return printer.foreign(&serde_json::to_string_pretty(&structured)?);
    }
    for block in &blocks {
        let member = |name: &str| block.get(name).and_then(Value::as_str);
        match (member("type"), member("text")) {
            (Some("text"), Some(text)) => printer.foreign(text)?,
            (kind, _) => {
                let kind = kind.unwrap_or("unknown");
                let about = member("mimeType").or_else(|| member("uri")).unwrap_or_default();
                printer.foreign(&format!("[{kind} {about}; --json shows it]"))?;
            }
        }
    }
    Ok(())
}

fn failure(error: &CallError) -> Value {
    let mut failure = json!({ "code": error.code(), "message": error.to_string() });
    let details = match error {
        CallError::InvalidArguments(violations) => json!(violations),
        CallError::Forbidden { required, .. } => json!({ "requiredScopes": required }),
        _ => Value::Null,
    };
    if let (Some(failure), false) = (failure.as_object_mut(), details.is_null()) {
        failure.insert("details".to_owned(), details);
    }
    failure
}

fn explain(error: &CallError) -> anyhow::Error {
    match error {
        CallError::InvalidArguments(violations) => {
            let mut message = error.to_string();
            for violation in violations {
                let place = match violation.pointer.as_str() {
                    "" => "(root)",
                    pointer => pointer,
                };
                message.push_str(&format!("\n  {place}: {}", violation.message));
            }
            advised(message, "`toolcrib tools show` shows the schema")
        }
        CallError::ApprovalRequired { .. } => {
            advised(error.to_string(), "the configuration says `approval` for this tool")
        }
        CallError::Upstream(_) => advised(error.to_string(), "`toolcrib sources check` says more"),
        _ => anyhow::Error::msg(error.to_string()),
    }
}

/// By Open Tool Calling, whose answers are JSON and tell a failed tool from a refused call.
async fn remote(
    tool: &str,
    arguments: &Value,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let tool = match tool.contains([':', '/']) {
        true => wire_name(tool, client).await?,
        false => tool.to_owned(),
    };
    let request = json!({ "request": { "tool_id": tool, "input": arguments } });
    let Answer { status, body } = client.post(&["tools", "call"], &request).await?;
    if printer.wants_json() {
        printer.json(&body)?;
    }
    if !status.is_success() {
        let mut error = client::refused(status, &body).to_string();
        let wrong = body.get("parameter_errors").and_then(Value::as_object);
        for (name, problem) in wrong.into_iter().flatten() {
            error.push_str(&format!("\n  {name}: {}", problem.as_str().unwrap_or_default()));
        }
        return Err(advised(error, "`toolcrib tools show` shows what the tool wants"));
    }
    let result = body.get("result").unwrap_or(&Value::Null);
    if result.get("success") == Some(&Value::Bool(true)) {
        if !printer.wants_json() {
            match result.get("value") {
                None | Some(Value::Null) => {}
                Some(Value::String(text)) => printer.foreign(text)?,
                Some(value) => printer.foreign(&serde_json::to_string_pretty(value)?)?,
            }
        }
        return Ok(Exit::Done);
    }
    let message = result.pointer("/error/message").and_then(Value::as_str);
    Err(anyhow::anyhow!("the tool failed: {}", message.unwrap_or("it did not say why")))
}

/// The wire name of tool `id`, which Open Tool Calling does not know. Looked up, never made up.
async fn wire_name(id: &str, client: &Client) -> anyhow::Result<String> {
    let listed = client.mcp("tools/list").await?;
    let tools = listed.get("tools").and_then(Value::as_array);
    let found = tools.into_iter().flatten().find(|tool| {
        tool.get("_meta").and_then(|meta| meta.get("dev.toolcrib/toolId")?.as_str()) == Some(id)
    });
    let name = found.and_then(|tool| tool.get("name")?.as_str());
    name.map(str::to_owned)
        .ok_or_else(|| advised("no such tool", "`toolcrib tools list` shows what the key may use"))
}
