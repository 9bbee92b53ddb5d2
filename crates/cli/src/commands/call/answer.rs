//! What `call` prints, wherever the call ran.

use serde_json::{Map, Value, json};
use toolcrib_core::call::{CallError, Outcome};
use toolcrib_gateway::CallReport;

use crate::{
    failure::{self, Exit, advised},
    printer::Printer,
};

pub(super) const SEE_SCHEMA: &str = "`toolcrib tools show` shows the schema";
pub(super) const SEE_SOURCES: &str = "`toolcrib sources check` says more";

/// Who asked for consent, and who can give it. `approval` is the request, where it can be read.
pub(super) fn see_approval(approval: Option<&Value>) -> String {
    let text = |name| approval.and_then(|it| it.get(name)).and_then(Value::as_str);
    let (Some(id), Some(principal)) = (text("approvalId"), text("principal")) else {
        return "`toolcrib approvals list` shows the requests; a principal cannot grant its own"
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

/// How a call of our own ended. `approval` is the request for consent that it made, if it made one.
pub(super) fn called(
    called: CallReport,
    approval: Option<&Value>,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let CallReport { run_id, call_id, result, duration, .. } = called;
    let ids = json!({
        "runId": run_id,
        "callId": call_id,
        "durationMs": duration.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX)),
    });
    printer.detail(format_args!("run {run_id}, call {call_id}"));
    match result {
        Ok(outcome) => answered(ids, &outcome, printer),
        Err(error) => {
            refused(ids, error.code(), &details(&error), explain(&error, approval), printer)
        }
    }
}

/// The tool answered; `ids` say where that is recorded.
pub(super) fn answered(ids: Value, outcome: &Outcome, printer: Printer) -> anyhow::Result<Exit> {
    match printer.wants_json() {
        true => printer.json(&with(ids, whole(outcome)))?,
        false => text(outcome, printer)?,
    }
    Ok(if outcome.is_error { Exit::Failed } else { Exit::Done })
}

/// The tool did not run, or its source failed.
pub(super) fn refused(
    ids: Value,
    code: &str,
    details: &Value,
    error: anyhow::Error,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if !printer.wants_json() {
        return Err(error);
    }
    // In place of what is printed of any error, because more is known.
    let mut told = Map::from_iter([("code".to_owned(), json!(code))]);
    if let Value::Object(rest) = failure::told(&error) {
        told.extend(rest);
    }
    if !details.is_null() {
        told.insert("details".to_owned(), details.clone());
    }
    printer.error(&error);
    printer.json(&with(ids, json!({ "error": told })))?;
    Ok(Exit::Failed)
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

fn details(error: &CallError) -> Value {
    match error {
        CallError::InvalidArguments(violations) => json!(violations),
        CallError::Forbidden { required, .. } => json!({ "requiredScopes": required }),
        CallError::ApprovalRequired { asked: Some(asked), .. } => {
            json!({ "approvalId": asked.approval, "expiresAt": asked.expires_at })
        }
        CallError::ApprovalRejected { approval, .. } => json!({ "approvalId": approval }),
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
        CallError::Upstream(_) => advised(error.to_string(), SEE_SOURCES),
        _ => anyhow::Error::msg(error.to_string()),
    }
}
