//! `/v1/approvals`: requests for approval, for their requesters and approvers.
//!
//! Every caller sees its own requests and those that it may answer, and learns of no others (I-9).

use std::{convert::Infallible, time::Duration};

use axum::{
    extract::{RawQuery, State},
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{
    approval::{ApprovalQuery, Verdict, VoteRefused},
    id::ApprovalId,
    json::parse_strict,
};
use toolcrib_gateway::approvals::{ApprovalError, ApprovalListener, to_json};
use utoipa::ToSchema;

use super::{
    error::{self, ErrorEnvelope},
    values::{self, BadParameter, Limit, StateOfApproval},
};
use crate::{
    middleware::{Caller, Payload, Refusal, Segment},
    respond,
    state::AppState,
};

/// Silence after which a comment keeps a stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

#[derive(Serialize, ToSchema)]
pub(super) struct Approvals {
    /// The newest first.
    #[schema(value_type = Vec<Object>)]
    approvals: Vec<Value>,
}

/// An answer to a request for approval.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Answer {
    /// The decision.
    verdict: VerdictWord,
    /// Why, for people, in at most 1000 bytes; an override needs one.
    #[schema(max_length = 1000)]
    comment: Option<String>,
}

/// The decisions of an approver.
// `Verdict` is in a crate without utoipa.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
enum VerdictWord {
    Grant,
    Reject,
    Override,
}

impl From<VerdictWord> for Verdict {
    fn from(word: VerdictWord) -> Self {
        match word {
            VerdictWord::Grant => Self::Grant,
            VerdictWord::Reject => Self::Reject,
            VerdictWord::Override => Self::Override,
        }
    }
}

/// The approvals that the caller requested or may answer.
#[utoipa::path(
    get,
    path = "/v1/approvals",
    operation_id = "listApprovals",
    tag = "Approvals",
    params(
        ("state" = inline(Option<StateOfApproval>), Query, description = "Only in this state"),
        ("limit" = inline(Option<Limit>), Query, description = "At most this many; 100 when absent"),
    ),
    responses(
        (status = 200, description = "The approvals", body = Approvals),
        (status = 400, description = "A parameter has none of its values", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 503, description = "The approvals cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let read = || -> Result<_, BadParameter> {
        let state = values::read(query.as_deref(), "state")?;
        Ok((state, values::read(query.as_deref(), "limit")?.unwrap_or(Limit::DEFAULT)))
    };
    let (wanted, Limit(limit)) = match read() {
        Ok(read) => read,
        Err(bad) => return Ok(bad.into_response()),
    };
    let state_of = |StateOfApproval(state)| state;
    let query = ApprovalQuery { state: wanted.map(state_of), ..ApprovalQuery::default() };
    match state.gateway.approvals().list(&caller, query).await {
        Ok(mut found) => {
            found.truncate(limit);
            let now = state.gateway.clock().now();
            let approvals = found.iter().map(|it| to_json(it, None, &caller, now)).collect();
            Ok(respond::json(StatusCode::OK, &Approvals { approvals }))
        }
        Err(error) => Ok(refused(error)),
    }
}

/// One approval, with the redacted arguments where the operator has them shown.
#[utoipa::path(
    get,
    path = "/v1/approvals/{approvalId}",
    operation_id = "getApproval",
    tag = "Approvals",
    params(("approvalId" = String, Path, description = "The approval, as in the answer to a call")),
    responses(
        (status = 200, description = "The approval", body = Object),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = ErrorEnvelope),
        (status = 503, description = "The approvals cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn by_id(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
) -> Response {
    let Ok(id) = ApprovalId::parse(id.as_str()) else { return error::not_found() };
    match state.gateway.approvals().find(&caller, &id).await {
        Ok(shown) => {
            let now = state.gateway.clock().now();
            let arguments = shown.arguments.as_deref();
            respond::json(StatusCode::OK, &to_json(&shown.approval, arguments, &caller, now))
        }
        Err(error) => refused(error),
    }
}

/// Answers a request for approval. A caller cannot answer its own requests.
#[utoipa::path(
    post,
    path = "/v1/approvals/{approvalId}",
    operation_id = "respondToApproval",
    tag = "Approvals",
    params(("approvalId" = String, Path, description = "The approval")),
    request_body = Answer,
    responses(
        (status = 200, description = "The approval after the answer", body = Object),
        (status = 400, description = "The body is not an answer", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The caller may not answer this one", body = ErrorEnvelope),
        (status = 404, description = "Unknown to this caller, for whatever reason", body = ErrorEnvelope),
        (status = 413, description = "The body is longer than `server.max_body`", body = ErrorEnvelope),
        (status = 409, description = "It takes no answer any more", body = ErrorEnvelope),
        (status = 503, description = "The approvals cannot be changed right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn answer(
    State(state): State<AppState>,
    Caller(caller): Caller,
    id: Segment,
    Payload(body): Payload,
) -> Response {
    let Ok(id) = ApprovalId::parse(id.as_str()) else { return error::not_found() };
    let answer = parse_strict(&body).ok().and_then(|body| serde_json::from_value(body).ok());
    let Some(Answer { verdict, comment }) = answer else {
        let problem = "the body must be {\"verdict\": \"grant\", \"reject\" or \"override\", \
                       \"comment\"?: text}";
        // A missing approval is reported before an invalid body.
        return match state.gateway.approvals().find(&caller, &id).await {
            Ok(_) => error::bad_body("", problem),
            Err(error) => refused(error),
        };
    };
    match state.gateway.approvals().respond(&caller, &id, verdict.into(), comment).await {
        Ok(approval) => {
            let now = state.gateway.clock().now();
            respond::json(StatusCode::OK, &to_json(&approval, None, &caller, now))
        }
        Err(error) => refused(error),
    }
}

/// Streams every approval that is new or changes from now on, if the caller may see it: server-sent
/// events of type `approval`.
#[utoipa::path(
    get,
    path = "/v1/approvals/events",
    operation_id = "watchApprovals",
    tag = "Approvals",
    responses(
        (status = 200, description = "A stream of events", content_type = "text/event-stream", body = String),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 429, description = "Too many listen already", body = ErrorEnvelope),
    )
)]
pub(super) async fn events(State(state): State<AppState>, Caller(caller): Caller) -> Response {
    let listener = match state.gateway.approvals().listen(&caller).await {
        Ok(listener) => listener,
        Err(too_many) => {
            let words = too_many.to_string();
            return error::error(StatusCode::TOO_MANY_REQUESTS, "rate_limited", words, None);
        }
    };
    let first = stream::iter([Ok::<_, Infallible>(Event::default().comment("listening"))]);
    let events = stream::unfold((listener, Vec::new()), next);
    let stream = futures_util::StreamExt::chain(first, events);
    let mut response =
        Sse::new(stream).keep_alive(KeepAlive::new().interval(KEEP_ALIVE)).into_response();
    let unbuffered = http::HeaderValue::from_static("no");
    response.headers_mut().insert("x-accel-buffering", unbuffered);
    response
}

/// Returns the next event, with the listener and the events that arrived at the same time.
async fn next(
    (mut listener, mut ready): (ApprovalListener, Vec<Value>),
) -> Option<(Result<Event, Infallible>, (ApprovalListener, Vec<Value>))> {
    if ready.is_empty() {
        ready = listener.next().await?;
        ready.reverse();
    }
    let event = Event::default().event("approval").data(ready.pop()?.to_string());
    Some((Ok(event), (listener, ready)))
}

fn refused(error: ApprovalError) -> Response {
    let words = error.to_string();
    let (status, code, details) = match error {
        ApprovalError::NotFound => return error::not_found(),
        ApprovalError::Unavailable => return Refusal::Unavailable.into_response(),
        ApprovalError::Refused(refused) => match refused {
            VoteRefused::Scope(scope) => {
                (StatusCode::FORBIDDEN, "forbidden", Some(json!({ "scopeRequired": scope })))
            }
            VoteRefused::Own => {
                (StatusCode::FORBIDDEN, "forbidden", Some(json!({ "reason": "own_request" })))
            }
            VoteRefused::SameHand => {
                (StatusCode::FORBIDDEN, "forbidden", Some(json!({ "reason": "same_hand" })))
            }
            VoteRefused::Role => {
                (StatusCode::FORBIDDEN, "forbidden", Some(json!({ "reason": "role" })))
            }
            VoteRefused::Anonymous => (StatusCode::FORBIDDEN, "forbidden", None),
            VoteRefused::NotPending(state) => {
                (StatusCode::CONFLICT, "conflict", Some(json!({ "state": state })))
            }
            VoteRefused::Again => {
                (StatusCode::CONFLICT, "conflict", Some(json!({ "reason": "answered" })))
            }
            VoteRefused::Comment | VoteRefused::Unexplained => (
                StatusCode::BAD_REQUEST,
                "validation_error",
                Some(json!({ "parameter": "comment" })),
            ),
        },
    };
    error::error(status, code, words, details)
}
