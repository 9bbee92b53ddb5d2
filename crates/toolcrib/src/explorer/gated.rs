//! A gateway as the host of the endpoints: its keys, its gate, its record.

use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode, request::Parts};
use toolcrib_core::{
    call::{CallError, Outcome},
    id::RunId,
    principal::AuthMethod,
};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, ToolRef,
    authn::AuthError,
    config::MountAuth,
    idempotency::{ClientKey, IdempotencyError, IdempotentOutcome, StoredAnswer},
    metrics::Surface,
    provider::Offer,
};

use super::{
    call::{answer, outcome},
    context::{Call, Host, Visitor},
    error,
};
use crate::{
    call_error, idempotency,
    middleware::{Caller, Credentials, Hold, authenticate},
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
            // Counts as the `[anonymous]` principal; if none is configured, it sees no tools.
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
        let key = match idempotency::key(&call.head.headers) {
            Ok(key) => key,
            Err(problem) => return error::problem(StatusCode::BAD_REQUEST, problem.to_string()),
        };
        let key = key.as_deref().map(|text| ClientKey { space: SPACE, text });
        match idempotency::call(&self.gateway, &caller, key, request, kept).await {
            Ok(IdempotentOutcome::Report(report)) => call_response(&report, &call.name),
            Ok(IdempotentOutcome::Kept(kept)) => idempotency::replayed(replay(&kept)),
            Err(problem) => refused_key(problem),
        }
    }

    fn record_unauthenticated(&self, route: &str) {
        self.gateway.audit().unauthenticated(route);
    }
}

/// The dialect of stored responses. Their bytes are the status in three digits, then the body.
const SPACE: &str = "explorer-header";

/// Returns the response to a finished call.
fn call_response(called: &CallReport, name: &str) -> Response {
    let run = respond::run_to_tell(called);
    let response = match &called.result {
        Ok(ran) => answer(outcome(ran.clone(), Some(called.run_id.as_str()))),
        Err(error) => refused(error, name, &called.run_id),
    };
    respond::with_run(response, run.as_ref())
}

/// Returns the bytes to store for a call whose response is final.
fn kept(called: &CallReport) -> Option<Bytes> {
    let run = Some(called.run_id.as_str());
    let result = match &called.result {
        Ok(ran) => outcome(ran.clone(), run),
        Err(error) => outcome(Outcome::text(&error.to_string(), true), run),
    };
    let mut bytes = result.status().as_str().as_bytes().to_vec();
    serde_json::to_writer(&mut bytes, &result).ok()?;
    Some(bytes.into())
}

/// Rebuilds a response from its stored bytes.
fn replay(kept: &StoredAnswer) -> Response {
    let status = kept.body.get(..3).and_then(|status| StatusCode::from_bytes(status).ok());
    let status = status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = kept.body.get(3..).unwrap_or_default().to_vec();
    respond::with_run(respond::json_bytes(status, body), Some(&kept.run_id))
}

/// Returns the response to a call whose idempotency key was rejected.
fn refused_key(problem: IdempotencyError) -> Response {
    let message = format!("`Idempotency-Key` {problem}");
    let response = error::problem(idempotency::status(problem), message);
    match idempotency::retry_after(problem) {
        Some(wait) => respond::with_retry_after(response, wait),
        None => response,
    }
}

/// Returns the response to a call without an outcome. In this protocol a failure of the tool is a
/// result.
fn refused(error: &CallError, name: &str, run: &RunId) -> Response {
    let words = error.words();
    let failed = |text: &str| answer(outcome(Outcome::text(text, true), Some(run.as_str())));
    let response = match error {
        CallError::NoSuchTool => error::no_such_tool(name),
        CallError::Forbidden { .. }
        | CallError::RateLimited { .. }
        | CallError::ApprovalRequired { .. }
        | CallError::ApprovalRejected { .. }
        | CallError::NotAccountable(_) => {
            error::problem_with(call_error::status(error), words, call_error::details(error))
        }
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
        CallError::Upstream(_) | CallError::Cancelled | CallError::Internal => failed(&words),
    };
    match call_error::retry_after(error) {
        Some(wait) => respond::with_retry_after(response, wait),
        None => response,
    }
}
