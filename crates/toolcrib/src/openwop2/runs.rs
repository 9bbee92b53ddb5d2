//! `/runs`: lists, shows and cancels runs of workflows (runs.md). A run without a workflow has
//! events, and no snapshot.

use axum::response::Response;
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use chrono::{DateTime, SecondsFormat};
use http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use serde_json::{Value, json};
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    catalog::Body,
    clock::Timestamp,
    id::CallId,
    store::{RunQuery, RunRecord, RunState},
};
use utoipa::ToSchema;

use super::{
    error::{Code, ErrorEnvelopeV2, Failure},
    events::subject,
    ids,
    request::Context,
};
use crate::{
    body,
    middleware::{Payload, Segment},
    protocol_version::PRIVATE,
    respond,
};

/// Maximum number of runs per page, as in discovery.
pub(super) const MAX_PAGE: usize = 1_000;
/// Default number of runs per page.
const DEFAULT_PAGE: usize = 100;
/// The version of stored events (persistence.md, "the era key").
pub(super) const EVENT_LOG_VERSION: u32 = 3;

/// The reason of a cancellation. It is not stored: the record has no place for texts (I-20).
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Cancellation {
    /// A reason in words.
    #[serde(default, rename = "reason")]
    _reason: Option<String>,
}

/// The statuses of v2; runs of this server have four of them.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
enum RunStatus {
    Pending,
    Running,
    Paused,
    WaitingApproval,
    WaitingInput,
    WaitingExternal,
    Completed,
    Failed,
    Cancelling,
    Cancelled,
}

/// Lists runs of workflows, the newest first: those that the caller started, or all of its tenant
/// with the scope `audit:read`.
#[utoipa::path(
    get,
    path = "/runs",
    operation_id = "listRuns",
    params(
        ("limit" = Option<i64>, Query, minimum = 1, description = "The maximum number of runs; 100 by default, and at most 1 000"),
        ("cursor" = Option<String>, Query, min_length = 1, max_length = 2048, description = "The `nextCursor` of the previous page"),
        ("status" = inline(Option<RunStatus>), Query, description = "Only runs with this status"),
    ),
    responses(
        (status = 200, description = "A page of runs", body = ref("#/components/schemas/RunListV2")),
        (status = 400, description = "A parameter is invalid", body = ErrorEnvelopeV2),
    )
)]
pub(super) async fn list(context: Context, uri: Uri) -> Result<Response, Failure> {
    // The description has the integers of most languages, with 64 bits and a sign.
    let limit = match respond::query(uri.query(), "limit").map(|text| text.parse::<i64>()) {
        None => DEFAULT_PAGE,
        Some(Ok(limit @ 1..)) => usize::try_from(limit).unwrap_or(MAX_PAGE).min(MAX_PAGE),
        Some(_) => return Err(Failure::parameter("limit", "must be a number from 1")),
    };
    let before = match respond::query(uri.query(), "cursor") {
        None => None,
        Some(cursor) => {
            let foreign = || Failure::parameter("cursor", "is not a cursor of this server");
            Some(place(&cursor).ok_or_else(foreign)?)
        }
    };
    let state = match respond::query(uri.query(), "status").as_deref().map(state) {
        None => None,
        Some(Some(Some(state))) => Some(state),
        Some(Some(None)) => return Ok(page(&[], false)),
        Some(None) => return Err(Failure::parameter("status", "is not a status of runs")),
    };
    let query = context.runs(RouteScope::AuditRead);
    // One more than fits shows whether another page follows.
    let query = RunQuery { before, state, one_per_run: true, limit: limit + 1, ..query };
    let mut runs = context.gateway.workflows().runs(query).await?;
    let more = runs.len() > limit;
    runs.truncate(limit);
    Ok(page(&runs, more))
}

/// Returns a run of a workflow that the caller started, or of any one of its tenant with the scope
/// `audit:read`.
#[utoipa::path(
    get,
    path = "/runs/{runId}",
    operation_id = "getRun",
    params(("runId" = String, Path, description = "The run id as one segment: `acme~2F0195…`")),
    responses(
        (status = 200, description = "The run", body = ref("#/components/schemas/RunSnapshotV2")),
        (status = 400, description = "The run id is malformed", body = ErrorEnvelopeV2),
        (status = 403, description = "The run id is bound to another tenant", body = ErrorEnvelopeV2),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelopeV2),
    )
)]
pub(super) async fn by_id(
    context: Context,
    run: Segment,
    headers: HeaderMap,
) -> Result<Response, Failure> {
    let record = find(&context, &run, RouteScope::AuditRead).await?;
    let body = Body::once(snapshot(&record).to_string().into_bytes());
    Ok(respond::tagged(&headers, &body, "application/json", PRIVATE))
}

/// Cancels the workflows of a run that the caller started, or of any run of its tenant with the
/// scope `runs:cancel`. Responds before they have stopped.
#[utoipa::path(
    post,
    path = "/runs/{runId}/cancel",
    operation_id = "cancelRun",
    params(("runId" = String, Path, description = "The run id as one segment: `acme~2F0195…`")),
    request_body(content = Option<Cancellation>, description = "May be empty"),
    responses(
        (status = 200, description = "The workflows are being cancelled", body = ref("#/components/schemas/RunCancelledV2")),
        (status = 400, description = "The body is invalid", body = ErrorEnvelopeV2),
        (status = 403, description = "The run id is bound to another tenant", body = ErrorEnvelopeV2),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelopeV2),
        (status = 409, description = "The run is already finished", body = ErrorEnvelopeV2),
    )
)]
pub(super) async fn cancel(
    context: Context,
    run: Segment,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    let record = find(&context, &run, RouteScope::RunsCancel).await?;
    if !bytes.is_empty() && bytes.trim_ascii() != b"null" {
        let Cancellation { .. } = body::read(&bytes)?;
    }
    let run = &record.run_id;
    let workflows = context.gateway.workflows();
    let is_over = record.state != RunState::Running;
    if is_over || workflows.cancel(&context.caller.tenant, run).await? == 0 {
        return Err(Failure::new(Code::RunTerminal, "the run is already finished", None));
    }
    let id = ids::bound(&record.tenant, run.as_str());
    let answer = json!({ "runId": id, "status": "cancelling" });
    Ok(respond::json(StatusCode::OK, &answer))
}

/// Finds the newest workflow of a run.
async fn find(context: &Context, run: &Segment, scope: RouteScope) -> Result<RunRecord, Failure> {
    context.workflow(context.run(run)?, scope).await?.ok_or_else(Failure::not_found)
}

fn page(runs: &[RunRecord], more: bool) -> Response {
    let mut page = json!({ "runs": runs.iter().map(snapshot).collect::<Vec<_>>() });
    if let (true, Some(last), Some(page)) = (more, runs.last(), page.as_object_mut()) {
        page.insert("nextCursor".to_owned(), cursor(last).into());
    }
    respond::json(StatusCode::OK, &page)
}

/// The state of `run` as clients see it.
fn snapshot(run: &RunRecord) -> Value {
    let mut snapshot = json!({
        "runId": ids::bound(&run.tenant, run.run_id.as_str()),
        "workflowId": ids::authored(run.tool_id.as_str()),
        "status": run.state.as_str(),
        "owner": {
            "tenant": ids::tenant_id(&run.tenant),
            "subject": subject(&run.tenant, &run.principal, run.key.as_ref()),
        },
        "eventLogSchemaVersion": EVENT_LOG_VERSION,
        "startedAt": text(run.started_at),
    });
    let Some(members) = snapshot.as_object_mut() else { return snapshot };
    if let Some(ended) = run.ended_at {
        members.insert("completedAt".to_owned(), text(ended).into());
    }
    if run.state == RunState::Failed {
        let code = run.code.as_deref().unwrap_or("failed");
        let error = json!({ "code": code, "message": "the workflow failed" });
        members.insert("error".to_owned(), error);
    }
    snapshot
}

/// Parses a status: `None` if it is unknown, `Some(None)` for a status that no run of this server
/// has.
fn state(status: &str) -> Option<Option<RunState>> {
    let status: RunStatus = serde_json::from_value(status.into()).ok()?;
    Some(match status {
        RunStatus::Running => Some(RunState::Running),
        RunStatus::Completed => Some(RunState::Completed),
        RunStatus::Failed => Some(RunState::Failed),
        RunStatus::Cancelled => Some(RunState::Cancelled),
        RunStatus::Pending
        | RunStatus::Paused
        | RunStatus::WaitingApproval
        | RunStatus::WaitingInput
        | RunStatus::WaitingExternal
        | RunStatus::Cancelling => None,
    })
}

fn text(at: Timestamp) -> String {
    at.to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// The place of `run` in the list, opaque to clients.
fn cursor(run: &RunRecord) -> String {
    let at = run.started_at.to_rfc3339_opts(SecondsFormat::AutoSi, true);
    URL_SAFE_NO_PAD.encode(format!("{at} {}", run.call_id))
}

/// Reads a place in the list.
fn place(cursor: &str) -> Option<(Timestamp, CallId)> {
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (at, call) = text.split_once(' ')?;
    let at = DateTime::parse_from_rfc3339(at).ok()?.to_utc();
    Some((at, CallId::parse(call).ok()?))
}
