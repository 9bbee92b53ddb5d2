//! A gateway behind the endpoints: its keys, its gate, its record.

use async_trait::async_trait;
use axum::response::Response;
use http::{HeaderMap, StatusCode, request::Parts};
use serde_json::json;
use toolcrib_core::{
    call::{CallError, Outcome, UpstreamError},
    id::RunId,
    principal::AuthMethod,
};
use toolcrib_gateway::{
    Gateway, authn::AuthError, call::CallRequest, config::MountAuth, list::ToolRef,
    metrics::Surface,
};

use super::{
    call::{answer, outcome},
    error,
    host::{Call, Host, Visitor},
};
use crate::{
    middleware::{Caller, Credentials, authenticate},
    respond,
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
        let request =
            CallRequest::new(Surface::Explorer, ToolRef::Wire(&call.name), call.arguments);
        let called = self.gateway.call(&caller, request).await;
        let run = respond::run_to_tell(&called);
        let response = match called.result {
            Ok(ran) => answer(outcome(ran, Some(called.run_id.as_str()))),
            Err(error) => refused(&error, &call.name, &called.run_id),
        };
        respond::with_run(response, run.as_ref())
    }

    fn turned_away(&self, route: &str) {
        self.gateway.record_unauthenticated(route);
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
        CallError::RateLimited { tool, retry_after, limit } => {
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
