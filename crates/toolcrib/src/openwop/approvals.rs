//! `/v1/approvals`: requests for approval, for their requesters and approvers.
//!
//! Every caller sees its own requests and those that it may answer, and learns of no others (I-9).

use axum::response::{Response, sse::Event};
use futures_util::stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{
    approval::{Approval, Verdict, VoteRefused},
    clock::Timestamp,
    id::ApprovalId,
};
use toolcrib_gateway::approvals::{ApprovalError, ApprovalListener, to_json};
use utoipa::{
    ToSchema,
    openapi::{Object, ObjectBuilder, Type},
};

use super::{
    error::{ErrorEnvelope, Failure},
    request::Context,
    values::{Limit, StateOfApproval},
};
use crate::{
    body,
    middleware::{Payload, Refusal, Segment},
    respond,
};

#[derive(Serialize, ToSchema)]
pub(super) struct Approvals {
    /// The newest first.
    #[schema(value_type = Vec<Object>)]
    approvals: Vec<Value>,
    /// Whether there are older ones, beyond `limit`.
    more: bool,
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
    let approvals = found.iter().map(|it| described(&context, it, None, now)).collect();
    Ok(respond::json(StatusCode::OK, &Approvals { approvals, more }))
}

/// Returns an approval with the description of its tool, for callers that can vote on it: consent
/// requires it. The text comes from the upstream.
fn described(
    context: &Context,
    approval: &Approval,
    arguments: Option<&str>,
    now: Timestamp,
) -> Value {
    let mut shown = to_json(approval, arguments, &context.caller, now);
    let may = |member: &str| shown.get(member) == Some(&Value::Bool(true));
    if !may("mayRespond") && !may("mayOverride") {
        return shown;
    }
    let snapshot = context.gateway.snapshot();
    let tool = snapshot.catalog.by_id(&approval.tenant, approval.tool_id.as_str());
    if let (Some(entry), Some(members)) = (tool, shown.as_object_mut()) {
        let tool = &entry.tool;
        members.insert(
            "tool".to_owned(),
            json!({
                "name": entry.names.wire,
                "title": tool.title,
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
        (status = 200, description = "The approval", body = Object),
        (status = 404, description = "Not found, or not visible to this caller", body = ErrorEnvelope),
    )
)]
pub(super) async fn by_id(context: Context, id: Segment) -> Result<Response, Failure> {
    let id = ApprovalId::parse(id.as_str()).map_err(|_| Failure::not_found())?;
    let shown = context.gateway.approvals().find(&context.caller, &id).await?;
    let (arguments, now) = (shown.input.as_deref(), context.gateway.clock().now());
    Ok(respond::json(StatusCode::OK, &described(&context, &shown.approval, arguments, now)))
}

/// Votes on a request for approval, or withdraws a grant that has not been used. A caller cannot vote
/// on its own requests.
#[utoipa::path(
    post,
    path = "/v1/approvals/{approvalId}",
    operation_id = "respondToApproval",
    tag = "Approvals",
    params(("approvalId" = String, Path, description = "The approval id")),
    request_body = Vote,
    responses(
        (status = 200, description = "The approval after the vote", body = Object),
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

/// Returns the next event, with the listener and the events that arrived at the same time.
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
            VoteRefused::Scope(scope) => {
                Self::forbidden(&error, Some(json!({ "scopeRequired": scope })))
            }
            VoteRefused::Own => Self::forbidden(&error, reason("own_request")),
            VoteRefused::SameHand => Self::forbidden(&error, reason("same_hand")),
            VoteRefused::Role => Self::forbidden(&error, reason("role")),
            VoteRefused::Anonymous => Self::forbidden(&error, None),
            VoteRefused::NotPending(state) | VoteRefused::NotGranted(state) => {
                Self::conflict(&error, Some(json!({ "state": state })))
            }
            VoteRefused::Again => Self::conflict(&error, reason("answered")),
            VoteRefused::Comment | VoteRefused::Unexplained => {
                Self::parameter("comment", &error.to_string())
            }
        }
    }
}
