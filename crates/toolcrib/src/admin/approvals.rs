//! `/v1/approvals`: requests for approval, for their requesters and approvers.
//!
//! Every caller sees its own requests and those that it may answer, and learns of no others (I-9).

use axum::response::{Response, sse::Event};
use futures_util::stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{
    approval::{Approval, ApprovalState, Verdict, VoteRefusal},
    clock::Timestamp,
    descriptor,
    event::EventFilter,
    id::ApprovalId,
};
use toolcrib_gateway::{
    approvals::{ApprovalError, ApprovalListener, to_json},
    audit::search::Page,
};
use utoipa::{
    ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use crate::{
    body,
    middleware::{Payload, Refusal, Segment},
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        values::{Include, Limit, ListedInput, StateOfApproval},
    },
};

#[derive(Serialize, ToSchema)]
pub(super) struct Approvals {
    /// The newest first.
    #[schema(value_type = Vec<ApprovalView>)]
    approvals: Vec<Value>,
    /// Whether there are older ones, beyond `limit`.
    more: bool,
}

/// A request for approval, as a caller sees it.
#[derive(ToSchema)]
#[schema(as = Approval)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes what `to_json` and `described` write")]
pub(super) struct ApprovalView {
    approval_id: String,
    #[schema(schema_with = state)]
    state: String,
    tool_id: String,
    /// The caller.
    principal: String,
    run_id: String,
    /// The number of approvals required.
    quorum: u32,
    /// The number of approvals so far.
    granted: u32,
    /// The scope that a vote requires.
    required_scope: String,
    /// The role that a vote requires, too.
    required_role: Option<String>,
    /// Name, type and size in bytes of each argument.
    arguments: Vec<ArgumentShape>,
    /// The number of further arguments.
    more_arguments: Option<usize>,
    /// The oldest first.
    votes: Vec<CastVote>,
    created_at: String,
    expires_at: String,
    decided_at: Option<String>,
    may_respond: bool,
    may_override: bool,
    may_withdraw: bool,
    /// Why this caller cannot approve the pending request.
    why_not: Option<String>,
    tool_digest: Option<String>,
    /// The key of the caller.
    key_id: Option<String>,
    /// The answers of a further round of a call, like `arguments`.
    input_responses: Option<Vec<ArgumentShape>>,
    more_input_responses: Option<usize>,
    /// The size of the state of a further round, in bytes.
    request_state_bytes: Option<usize>,
    /// The size of the input in bytes, if it is too long to be shown.
    input_too_large: Option<usize>,
    /// The arguments without secrets, if the configuration shows them.
    redacted_arguments: Option<Object>,
    redacted_input_responses: Option<Object>,
    redacted_request_state: Option<String>,
    /// For callers that may vote: why the rule of the tool requires approval, if it has conditions and
    /// the arguments are shown.
    reasons: Option<Vec<String>>,
    /// For callers that may vote: the tool, in the words of its upstream.
    tool: Option<ApprovedTool>,
    /// The call that used the grant.
    used_by: Option<String>,
    /// The outcome of that call; only of a single approval.
    outcome: Option<CallOutcome>,
}

/// An argument without its value.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes JSON")]
pub(super) struct ArgumentShape {
    name: String,
    r#type: String,
    bytes: usize,
}

/// A vote on a request.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it only describes JSON")]
pub(super) struct CastVote {
    principal: String,
    key: Option<String>,
    makers: Option<Vec<String>>,
    #[schema(schema_with = verdict)]
    verdict: String,
    comment: Option<String>,
    at: String,
}

/// The tool of a request.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes JSON")]
pub(super) struct ApprovedTool {
    name: String,
    title: Option<String>,
    description: Option<String>,
    safety_tier: String,
    destructive: bool,
}

/// The outcome of a call.
#[derive(ToSchema)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "it only describes JSON")]
pub(super) struct CallOutcome {
    /// `ok` or `error`.
    status: String,
    run_id: String,
    duration_ms: Option<u32>,
}

/// A vote on a request for approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Vote {
    /// The decision.
    #[schema(schema_with = verdict)]
    verdict: Verdict,
    /// The reason in words, at most 1000 bytes. Required for an override.
    #[schema(max_length = 1000)]
    comment: Option<String>,
}

/// The states of an approval.
fn state() -> Object {
    let words = ApprovalState::ALL.iter().map(|state| state.as_str());
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// `Verdict` is in a crate without utoipa.
fn verdict() -> Object {
    let words = ["grant", "reject", "override", "withdraw"];
    ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words)).build()
}

/// Lists the approvals that the caller requested or may vote on.
#[utoipa::path(
    get,
    path = "/v1/approvals",
    operation_id = "listApprovals",
    tag = "Approvals",
    params(
        ("state" = inline(Option<StateOfApproval>), Query, description = "Only approvals in this state"),
        ("limit" = inline(Option<Limit>), Query, description = "The maximum number of approvals; 100 by default"),
        ("include" = inline(Option<Include>), Query, description = "`arguments`: with the redacted arguments of each call, if the configuration shows them"),
    ),
    responses((status = 200, description = "The approvals", body = Approvals))
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    let state = context.parameter("state")?.map(|StateOfApproval(state)| state);
    let limit = context.parameter("limit")?.unwrap_or(Limit::DEFAULT).size();
    let mut found = context.gateway.approvals().list(&context.caller, state, limit + 1).await?;
    let more = found.len() > limit;
    found.truncate(limit);
    let now = context.gateway.clock().now();
    let approvals = match context.parameter("include")? {
        None => found.iter().map(|approval| described(&context, approval, None, now)).collect(),
        Some(Include(ListedInput::Arguments)) => {
            let found = context.gateway.approvals().details(&context.caller, found).await?;
            let shown = found
                .iter()
                .map(|detail| described(&context, &detail.approval, detail.input.as_deref(), now));
            shown.collect()
        }
    };
    Ok(respond::json(StatusCode::OK, &Approvals { approvals, more }))
}

/// Describes an approval, with its tool for callers that can vote on it: consent requires it. The
/// text comes from the upstream.
fn described(
    context: &Context,
    approval: &Approval,
    arguments: Option<&str>,
    now: Timestamp,
) -> Value {
    let config = context.gateway.config();
    let mut shown = to_json(approval, arguments, &context.caller, &config.people, now);
    let may = |member: &str| shown.get(member) == Some(&Value::Bool(true));
    if !may("mayRespond") && !may("mayOverride") {
        return shown;
    }
    let snapshot = context.gateway.snapshot();
    let tool = snapshot.catalog.by_id(&approval.tenant, approval.tool_id.as_str());
    if let (Some(entry), Some(members)) = (tool, shown.as_object_mut()) {
        let tool = &entry.tool;
        let is_conditional = tool.approval == Some(descriptor::Approval::Conditional);
        if let (true, Some(when), Some(arguments)) =
            (is_conditional, &entry.consent.when, members.get("redactedArguments"))
        {
            let reasons = when.reasons(tool.safety_tier, arguments);
            members.insert("reasons".to_owned(), json!(reasons));
        }
        members.insert(
            "tool".to_owned(),
            json!({
                "name": entry.names.wire,
                "title": entry.title(),
                "description": tool.description,
                "safetyTier": tool.safety_tier,
                "destructive": entry.is_said_destructive(),
            }),
        );
    }
    shown
}

/// Returns one approval, with the redacted arguments if the configuration shows them.
#[utoipa::path(
    get,
    path = "/v1/approvals/{approvalId}",
    operation_id = "getApproval",
    tag = "Approvals",
    params(("approvalId" = String, Path, description = "The approval id, as returned by the call")),
    responses(
        (status = 200, description = "The approval", body = ApprovalView),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn by_id(context: Context, id: Segment) -> Result<Response, Failure> {
    let id = ApprovalId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let shown = context.gateway.approvals().find(&context.caller, &id).await?;
    let (arguments, now) = (shown.input.as_deref(), context.gateway.clock().now());
    let mut described = described(&context, &shown.approval, arguments, now);
    if let (Some(outcome), Some(members)) =
        (outcome(&context, &shown.approval).await?, described.as_object_mut())
    {
        members.insert("outcome".to_owned(), outcome);
    }
    Ok(respond::json(StatusCode::OK, &described))
}

/// Finds the outcome of the call that used the grant; `None` while it runs. Everyone who may see
/// the approval may also see its outcome.
async fn outcome(context: &Context, approval: &Approval) -> Result<Option<Value>, Failure> {
    let Some(call) = &approval.used_by else { return Ok(None) };
    let conditions = [("id", call.as_str()), ("type", "agent.toolReturned")];
    let (mut filter, now) = (EventFilter::default(), context.gateway.now());
    for (field, value) in conditions {
        // The id of a call of this server is long enough.
        if filter.set(field, value, now).is_err() {
            return Ok(None);
        }
    }
    let search = context.gateway.audit().search().await;
    let tenant = Some(&approval.tenant);
    let found = search.find(tenant, &filter, Page::Newest(None), 1).await?;
    Ok(found.events.into_iter().next_back().map(|last| {
        let mut outcome = json!({ "status": last.status, "runId": last.logged.event.run_id });
        if let (Some(time), Some(members)) = (last.run_time, outcome.as_object_mut()) {
            members.insert("durationMs".to_owned(), time.into());
        }
        outcome
    }))
}

/// Votes on a request for approval, or withdraws an unused grant. A caller cannot vote on its own
/// requests.
#[utoipa::path(
    post,
    path = "/v1/approvals/{approvalId}",
    operation_id = "respondToApproval",
    tag = "Approvals",
    params(("approvalId" = String, Path, description = "The approval id")),
    request_body = Vote,
    responses(
        (status = 200, description = "The approval after the vote", body = ApprovalView),
        (status = 403, description = "The caller may not vote on this approval", body = ErrorEnvelope),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
        (status = 409, description = "The approval accepts no more votes, or has no grant to withdraw", body = ErrorEnvelope),
    )
)]
pub(super) async fn answer(
    context: Context,
    id: Segment,
    Payload(bytes): Payload,
) -> Result<Response, Failure> {
    let id = ApprovalId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let (approvals, caller) = (context.gateway.approvals(), &context.caller);
    let vote = body::read(&bytes);
    if vote.is_err() {
        // A missing approval is reported before an invalid body.
        approvals.find(caller, &id).await?;
    }
    let Vote { verdict, comment } = vote?;
    let approval = approvals.respond(caller, &id, verdict, comment).await?;
    let now = context.gateway.clock().now();
    Ok(respond::json(StatusCode::OK, &described(&context, &approval, None, now)))
}

/// Streams new and changed approvals that are visible to the caller, as server-sent events of type
/// `approval`.
#[utoipa::path(
    get,
    path = "/v1/approvals/events",
    operation_id = "watchApprovals",
    tag = "Approvals",
    responses(
        (status = 200, description = "A stream of events", content_type = "text/event-stream", body = String),
        (status = 429, description = "The limit on open streams is reached", body = ErrorEnvelope),
    )
)]
pub(super) async fn events(context: Context) -> Result<Response, Failure> {
    let listener = context.gateway.approvals().listen(&context.caller).await;
    let listener = listener.map_err(|too_many| {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", too_many, None)
    })?;
    Ok(respond::endless_event_stream(stream::unfold((listener, Vec::new()), next)))
}

/// Waits for the next event, with the listener and the events that arrived at the same time.
async fn next(
    (mut listener, mut ready): (ApprovalListener, Vec<Value>),
) -> Option<(Event, (ApprovalListener, Vec<Value>))> {
    if ready.is_empty() {
        ready = listener.next().await?;
        ready.reverse();
    }
    let event = Event::default().event("approval").data(ready.pop()?.to_string());
    Some((event, (listener, ready)))
}

impl From<ApprovalError> for Failure {
    fn from(error: ApprovalError) -> Self {
        let refused = match &error {
            ApprovalError::NotFound => return Self::not_found(),
            ApprovalError::Unavailable => return Refusal::Unavailable.into(),
            ApprovalError::Refused(refused) => refused,
        };
        let reason = |reason: &str| Some(json!({ "reason": reason }));
        match refused {
            VoteRefusal::Scope(scope) => {
                Self::forbidden(&error, Some(json!({ "scopeRequired": scope })))
            }
            VoteRefusal::Own => Self::forbidden(&error, reason("own_request")),
            VoteRefusal::SameHand => Self::forbidden(&error, reason("same_hand")),
            VoteRefusal::Role => Self::forbidden(&error, reason("role")),
            VoteRefusal::Anonymous => Self::forbidden(&error, None),
            VoteRefusal::NotPending(state) | VoteRefusal::NotGranted(state) => {
                Self::conflict(&error, Some(json!({ "state": state })))
            }
            VoteRefusal::Again => Self::conflict(&error, reason("answered")),
            VoteRefusal::Comment | VoteRefusal::Unexplained => {
                Self::parameter("comment", &error.to_string())
            }
        }
    }
}
