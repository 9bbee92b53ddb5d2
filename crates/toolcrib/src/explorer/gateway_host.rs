//! A gateway as the host of the endpoints, with its keys, its gate and its record.

use std::sync::Arc;

use async_trait::async_trait;
use axum::response::Response;
use bytes::Bytes;
use http::{StatusCode, request::Parts};
use toolcrib_config::MountAuth;
use toolcrib_core::{
    call::{CallError, Outcome},
    id::RunId,
    principal::AuthMethod,
};
use toolcrib_gateway::{
    CallReport, CallRequest, Gateway, ToolRef,
    authn::AuthError,
    idempotency::{ClientKey, IdempotencyError, IdempotentOutcome, StoredAnswer},
    provider::Offer,
};

use super::{
    error,
    host::{Call, Host, SURFACE, Sender},
    result::CallToolResult,
};
use crate::{
    call_error, idempotency,
    middleware::{Caller, Credentials, MemoryShare, authenticate},
    respond,
};

pub(super) struct GatewayHost(pub(super) Gateway);

impl GatewayHost {
    async fn sender(&self, head: &Parts, auth: MountAuth) -> Result<Sender, AuthError> {
        let credentials = Credentials::PAGE;
        let Caller(principal) =
            authenticate::caller(&self.0, &head.uri, &head.headers, auth, credentials).await?;
        let proven = principal.auth != AuthMethod::Anonymous;
        Ok(Sender { principal: Some(principal), identity: None, proven })
    }
}

#[async_trait]
impl Host for GatewayHost {
    async fn identify(&self, head: &Parts, strict: bool) -> Result<Sender, AuthError> {
        match self.sender(head, MountAuth::Optional).await {
            // Counts as the `[anonymous]` principal; if it is not configured, it sees no tools.
            Err(AuthError::Missing | AuthError::Invalid) if !strict => {
                Ok(Sender { principal: self.0.authenticator().anonymous(), ..Sender::default() })
            }
            sender => sender,
        }
    }

    async fn authenticate(&self, head: &Parts) -> Result<Sender, AuthError> {
        self.sender(head, MountAuth::Required).await
    }

    async fn call(&self, call: Call) -> Response {
        let Some(caller) = call.sender.principal else { return error::no_such_tool(&call.name) };
        let snapshot = match &call.offer {
            Offer::View(view) => Arc::clone(view.snapshot()),
            Offer::Tools(_) => self.0.snapshot(),
        };
        let tool = ToolRef::Wire(&call.name);
        let request = CallRequest {
            charge: call.head.extensions.get().map(MemoryShare::charge),
            ..CallRequest::new(snapshot, SURFACE, tool, call.arguments)
        };
        let key = match idempotency::key(&call.head.headers) {
            Ok(key) => key,
            Err(problem) => {
                let status = StatusCode::BAD_REQUEST;
                return error::problem(status, problem.to_string(), None);
            }
        };
        let key = key.as_deref().map(|text| ClientKey { space: SPACE, text });
        match idempotency::call(&self.0, &caller, key, request, kept).await {
            Ok(IdempotentOutcome::Report(report)) => call_response(&report, &call.name),
            Ok(IdempotentOutcome::Kept(kept)) => idempotency::replayed(replay(&kept)),
            Err(problem) => refused_key(problem),
        }
    }

    fn record_unauthenticated(&self, route: &str) {
        self.0.audit().denials().unauthenticated(route);
    }
}

/// The dialect of stored responses. Their bytes are the status in three digits, then the body.
const SPACE: &str = "explorer-header";

/// Builds the response to a finished call.
fn call_response(report: &CallReport, name: &str) -> Response {
    let response = match &report.result {
        Ok(outcome) => CallToolResult::new(outcome.clone(), Some(report.run_id.as_str())).answer(),
        Err(error) => refused(error, name, &report.run_id),
    };
    respond::with_run(response, respond::visible_run(report).as_ref())
}

/// Encodes the response of a finished call for storage.
fn kept(report: &CallReport) -> Option<Bytes> {
    let outcome = match &report.result {
        Ok(outcome) => outcome.clone(),
        Err(error) => Outcome::text(&error.to_string(), true),
    };
    let result = CallToolResult::new(outcome, Some(report.run_id.as_str()));
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

/// Builds the response to a call whose idempotency key was rejected.
fn refused_key(problem: IdempotencyError) -> Response {
    let message = format!("`Idempotency-Key` {problem}");
    let response = error::problem(idempotency::status(problem), message, None);
    respond::with_retry_after(response, idempotency::retry_after(problem))
}

/// Builds the response to a call without an outcome. In this protocol a failure of the tool is a
/// result.
fn refused(error: &CallError, name: &str, run: &RunId) -> Response {
    let words = error.words();
    let failed =
        |text: &str| CallToolResult::new(Outcome::text(text, true), Some(run.as_str())).answer();
    let response = match error {
        CallError::NoSuchTool => error::no_such_tool(name),
        CallError::Forbidden { .. }
        | CallError::RateLimited { .. }
        | CallError::ApprovalRequired { .. }
        | CallError::ApprovalRejected { .. }
        | CallError::ConnectionRequired(_)
        | CallError::NotAccountable(_) => {
            error::problem(call_error::status(error), words, call_error::details(error))
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
        CallError::Upstream(_)
        | CallError::NeedsInput(_)
        | CallError::Cancelled
        | CallError::Internal => failed(&words),
    };
    respond::with_retry_after(response, call_error::retry_after(error))
}
