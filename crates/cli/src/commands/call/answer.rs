//! The output of `call`, for calls in this process and on a server.

use serde_json::{Map, Value, json};
use toolcrib_core::{
    call::{CallError, Outcome},
    json,
};
use toolcrib_gateway::CallReport;

use crate::{
    failure::{self, Exit, advised},
    printer::Printer,
};

pub(super) const SEE_SCHEMA: &str = "see the schema with `toolcrib tools show`";
pub(super) const CONNECT: &str =
    "`toolcrib connections connect SOURCE` opens a link and waits; `connections list` shows all";
pub(super) const OPENED: &str =
    "the page was opened in your browser; connect the account there, then make the call again";
pub(super) const SEE_SOURCES: &str = "see the details with `toolcrib sources check`";

/// A hint with the requester of `approval` and the principals that can grant it.
pub(super) fn see_approval(approval: Option<&Value>) -> String {
    let text = |name| approval.and_then(|value| value.get(name)).and_then(Value::as_str);
    let (Some(id), Some(principal)) = (text("approvalId"), text("principal")) else {
        return "list the requests with `toolcrib approvals list`; a principal cannot grant its own"
            .to_owned();
    };
    let scope = text("requiredScope").map(|scope| format!(" with the scope `{scope}`"));
    let role = text("requiredRole").map(|role| format!(" and the role `{role}`"));
    format!(
        "the request was made as `{principal}`; another principal{}{} can grant it: `toolcrib \
         approvals grant {id}`",
        scope.unwrap_or_default(),
        role.unwrap_or_default()
    )
}

/// Prints the report of a call in this process. `approval` is the approval request that it made.
pub(super) fn print_report(
    report: CallReport,
    approval: Option<&Value>,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let CallReport { run_id, call_id, result, duration, .. } = report;
    let ids = json!({
        "runId": run_id,
        "callId": call_id,
        "durationMs": duration
            .map(|elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)),
    });
    printer.detail(format_args!("run {run_id}, call {call_id}"));
    match result {
        Ok(outcome) => print_outcome(ids, &outcome, printer),
        Err(error) => {
            print_error(ids, error.code(), &details(&error), explain(&error, approval), printer)
        }
    }
}

/// Prints the outcome of a tool; `ids` are its ids in the event log.
pub(super) fn print_outcome(
    ids: Value,
    outcome: &Outcome,
    printer: Printer,
) -> anyhow::Result<Exit> {
    match printer.wants_json() {
        true => printer.json(&with(ids, to_json(outcome)))?,
        false => print_text(outcome, printer)?,
    }
    Ok(if outcome.is_error { Exit::Failed } else { Exit::Done })
}

/// Prints the error of a call that did not run, or whose source failed.
pub(super) fn print_error(
    ids: Value,
    code: &str,
    details: &Value,
    error: anyhow::Error,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if !printer.wants_json() {
        return Err(error);
    }
    // More specific than the output for other errors.
    let mut members = Map::from_iter([("code".to_owned(), json!(code))]);
    if let Value::Object(rest) = failure::to_json(&error) {
        members.extend(rest);
    }
    if !details.is_null() {
        members.insert("details".to_owned(), details.clone());
    }
    printer.error(&error);
    printer.json(&with(ids, json!({ "error": members })))?;
    Ok(Exit::Failed)
}

fn with(mut ids: Value, rest: Value) -> Value {
    if let (Some(ids), Value::Object(rest)) = (ids.as_object_mut(), rest) {
        ids.extend(rest);
    }
    ids
}

fn to_json(outcome: &Outcome) -> Value {
    let mut members = json!({ "content": outcome.content, "isError": outcome.is_error });
    if let (Some(members), Some(structured)) = (members.as_object_mut(), &outcome.structured) {
        members.insert("structuredContent".to_owned(), json!(structured));
    }
    members
}

/// Prints the text blocks, and a placeholder for each other block.
fn print_text(outcome: &Outcome, printer: Printer) -> anyhow::Result<()> {
    let blocks: Vec<Value> = serde_json::from_str(outcome.content.get())?;
    if let (true, Some(structured)) = (blocks.is_empty(), &outcome.structured) {
        let structured = json::parse(structured.get())?;
        return printer.foreign(&serde_json::to_string_pretty(&structured)?);
    }
    for block in &blocks {
        let member = |name: &str| block.get(name).and_then(Value::as_str);
        match (member("type"), member("text")) {
            (Some("text"), Some(text)) => printer.foreign(text)?,
            (kind, _) => {
                let kind = kind.unwrap_or("unknown");
                let about = member("mimeType").or_else(|| member("uri")).unwrap_or_default();
                printer.foreign(&format!("[{kind} {about}; use --json]"))?;
            }
        }
    }
    Ok(())
}

fn details(error: &CallError) -> Value {
    match error {
        CallError::InvalidArguments(violations) => json!(violations),
        CallError::Forbidden { required, .. } => json!({ "requiredScopes": required }),
        CallError::ApprovalRequired { pending: Some(asked), .. } => {
            json!({ "approvalId": asked.approval, "expiresAt": asked.expires_at })
        }
        CallError::ApprovalRejected { approval, .. } => json!({ "approvalId": approval }),
        CallError::ConnectionRequired(required) => {
            let mut details = json!({ "source": required.source_id });
            if let (Some(details), Some(link)) = (details.as_object_mut(), &required.link) {
                details.insert("link".to_owned(), json!(link.expose()));
                details.insert("expiresAt".to_owned(), json!(required.expires_at));
            }
            details
        }
        _ => Value::Null,
    }
}

fn explain(error: &CallError, approval: Option<&Value>) -> anyhow::Error {
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
            advised(message, SEE_SCHEMA)
        }
        CallError::ApprovalRequired { .. } | CallError::ApprovalRejected { .. } => {
            advised(error.words(), see_approval(approval))
        }
        CallError::ConnectionRequired(_) => advised(error.words(), CONNECT),
        CallError::Upstream(_) => advised(error.to_string(), SEE_SOURCES),
        _ => anyhow::Error::msg(error.to_string()),
    }
}
