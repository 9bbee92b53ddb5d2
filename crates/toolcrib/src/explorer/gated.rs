//! A gateway behind the endpoints: its keys, its gate, its record.

use std::time::Duration;

use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, request::Parts};
use serde_json::json;
use toolcrib_core::{
    call::{CallError, Outcome, UpstreamError},
    id::RunId,
    principal::AuthMethod,
};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, ToolRef,
    authn::AuthError,
    config::MountAuth,
    idempotency::{self, IdempotencyKey, Kept, Once, OnceError},
    metrics::Surface,
    provider::Offer,
};

use super::{
    call::{answer, outcome},
    error,
    host::{Call, Host, Visitor},
};
use crate::{
    middleware::{Caller, Credentials, Hold, authenticate},
    once, respond,
};

pub(super) struct Gated {
    gateway: Gateway,
}

// === impl Gated ===

impl Gated {
    pub(super) fn new(gateway: Gateway) -> Self {
        Self { gateway }
    }

    async fn who(&self, headers: &HeaderMap, auth: MountAuth) -> Result<Visitor, AuthError> {
        let Caller(principal) =
            authenticate::caller(&self.gateway, headers, auth, Credentials::BEARER).await?;
        let proven = principal.auth != AuthMethod::Anonymous;
        Ok(Visitor { principal: Some(principal), identity: None, proven })
    }
}

#[async_trait]
impl Host for Gated {
    async fn visitor(&self, head: &Parts, strict: bool) -> Result<Visitor, AuthError> {
        match self.who(&head.headers, MountAuth::Optional).await {
            // Without `[anonymous]` nobody is shown nothing.
            Err(_) if !strict => Ok(Visitor {
                principal: self.gateway.authenticator().anonymous(),
                identity: None,
                proven: false,
            }),
            who => who,
        }
    }

    async fn holder(&self, head: &Parts) -> Result<Visitor, AuthError> {
        self.who(&head.headers, MountAuth::Required).await
    }

    async fn call(&self, call: Call) -> Response {
        let Some(caller) = call.visitor.principal else { return error::no_such_tool(&call.name) };
        let snapshot = match &call.offer {
            Offer::View(view) => Arc::clone(view.snapshot()),
            Offer::Tools(_) => self.gateway.snapshot(),
        };
        let tool = ToolRef::Wire(&call.name);
        let request = CallRequest {
            charge: call.head.extensions.get().map(Hold::charge),
            ..CallRequest::new(snapshot, Surface::Explorer, tool, call.arguments)
        };
        let key = match once::key(&call.head.headers) {
            Ok(key) => key,
            Err(problem) => return error::problem(StatusCode::BAD_REQUEST, problem.to_string()),
        };
        let Some(key) = key else {
            let called = self.gateway.call(&caller, request).await;
            return told(&called, &call.name);
        };
        let key = IdempotencyKey { space: SPACE, text: &key };
        match self.gateway.call_once(&caller, key, request, kept).await {
            Ok(Once::Report(called)) => told(&called, &call.name),
            Ok(Once::Kept(kept)) => once::replayed(replay(&kept)),
            Err(problem) => not_once(problem),
        }
    }

    fn turned_away(&self, route: &str) {
        self.gateway.audit().unauthenticated(route);
    }
}

/// Whose answers the kept ones are: the status in three digits, and the body.
const SPACE: &str = "explorer-header";

/// The answer to a call that has been made.
fn told(called: &CallReport, name: &str) -> Response {
    let run = respond::run_to_tell(called);
    let response = match &called.result {
        Ok(ran) => answer(outcome(ran.clone(), Some(called.run_id.as_str()))),
        Err(error) => refused(error, name, &called.run_id),
    };
    respond::with_run(response, run.as_ref())
}

/// What is kept of a call that is not to be made again.
fn kept(called: &CallReport) -> Option<Bytes> {
    if !idempotency::is_final(called) {
        return None;
    }
    let run = Some(called.run_id.as_str());
    let result = match &called.result {
        Ok(ran) => outcome(ran.clone(), run),
        Err(error) => outcome(Outcome::text(&error.to_string(), true), run),
    };
    let mut bytes = result.status().as_str().as_bytes().to_vec();
    serde_json::to_writer(&mut bytes, &result).ok()?;
    Some(bytes.into())
}

/// The answer that was kept.
fn replay(kept: &Kept) -> Response {
    let status = kept.body.get(..3).and_then(|status| StatusCode::from_bytes(status).ok());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = kept.body.get(3..).unwrap_or_default().to_vec();
    respond::with_run(respond::json_bytes(status, body), Some(&kept.run_id))
}

/// A key that this call cannot have.
fn not_once(problem: OnceError) -> Response {
    let status = match problem {
        OnceError::Conflict => StatusCode::UNPROCESSABLE_ENTITY,
        OnceError::Unusable => StatusCode::BAD_REQUEST,
        OnceError::Spent | OnceError::Running => StatusCode::CONFLICT,
        OnceError::Busy => StatusCode::TOO_MANY_REQUESTS,
    };
    let response = error::problem(status, format!("`Idempotency-Key` {problem}"));
    match problem {
        OnceError::Running | OnceError::Busy => {
            respond::with_retry_after(response, Duration::from_secs(1))
        }
        OnceError::Conflict | OnceError::Unusable | OnceError::Spent => response,
    }
}

/// The one table of this dialect for calls that gave no outcome.
fn refused(error: &CallError, name: &str, run: &RunId) -> Response {
    let words = error.words();
    let failed = |text: &str| answer(outcome(Outcome::text(text, true), Some(run.as_str())));
    match error {
        CallError::NoSuchTool => error::no_such_tool(name),
        CallError::Forbidden { tool, required } => error::problem_with(
            StatusCode::FORBIDDEN,
            words,
            json!({ "scope": "tool", "toolName": tool.as_str(), "requiredScopes": required }),
        ),
        CallError::RateLimited { tool, retry_after, limit, daily: _ } => {
            let millis = toolcrib_core::limit::wait_millis(*retry_after);
            let details = json!({
                "scope": "tool", "toolName": tool.as_str(), "retryAfterMs": millis, "limit": limit,
            });
            let response = error::problem_with(StatusCode::TOO_MANY_REQUESTS, words, details);
            respond::with_retry_after(response, *retry_after)
        }
        CallError::ApprovalRequired { tool, asked } => {
            let mut details =
                json!({ "scope": "tool", "toolName": tool.as_str(), "approval": "required" });
            if let (Some(details), Some(asked)) = (details.as_object_mut(), asked) {
                let millis = toolcrib_core::limit::wait_millis(asked.retry_after);
                details.insert("approvalId".to_owned(), json!(asked.approval));
                details.insert("expiresAt".to_owned(), json!(asked.expires_at));
                details.insert("retryAfterMs".to_owned(), json!(millis));
            }
            error::problem_with(StatusCode::FORBIDDEN, words, details)
        }
        CallError::ApprovalRejected { tool, approval } => error::problem_with(
            StatusCode::FORBIDDEN,
            words,
            json!({
                "scope": "tool", "toolName": tool.as_str(),
                "approval": "rejected", "approvalId": approval,
            }),
        ),
        CallError::NotAccountable(_) => error::problem(StatusCode::SERVICE_UNAVAILABLE, words),
        CallError::InvalidArguments(violations) => {
            let mut text = words;
            for violation in violations {
                text.push('\n');
                if !violation.pointer.is_empty() {
                    text.push_str(&violation.pointer);
                    text.push_str(": ");
                }
                text.push_str(&violation.message);
            }
            failed(&text)
        }
        CallError::Upstream(UpstreamError { retry_after: Some(wait), .. }) => {
            respond::with_retry_after(failed(&words), *wait)
        }
        CallError::Upstream(_) | CallError::Cancelled | CallError::Internal => failed(&words),
    }
}
