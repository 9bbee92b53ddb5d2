//! The embedding program as the host of the endpoints: its authenticator or hook, and its handler.
//!
//! Invariant: every request gets a response, whatever that code does. If authentication panics or
//! times out, the request is refused; if a call does, the call fails.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use async_trait::async_trait;
use axum::response::Response;
use futures_util::FutureExt as _;
use http::request::Parts;
use serde_json::Value;
use toolcrib_config::ExplorerPolicy;
use toolcrib_gateway::{
    authn::AuthError,
    provider::{Authenticator, RequestHead, ToolAnswer, ToolCall, ToolCallHandler},
};

use super::{
    error,
    host::{Call, Host, Sender},
    offer::OfferExt as _,
    result::CallToolResult,
    settings::{AuthHook, ExplorerConfig},
};

/// Time limit of the authenticator or hook.
const DECISION: Duration = Duration::from_secs(30);

pub(super) struct ProgramHost {
    authenticator: Option<Arc<dyn Authenticator>>,
    hook: Option<AuthHook>,
    handler: Option<Arc<dyn ToolCallHandler>>,
    timeout: Duration,
    /// Whether callers may call without an authenticator or hook.
    open: bool,
}

// === impl ProgramHost ===

impl ProgramHost {
    pub(super) fn new(config: &ExplorerConfig) -> Self {
        Self {
            authenticator: config.authenticator.clone(),
            hook: config.auth_hook.clone(),
            handler: config.handler.clone(),
            timeout: config.timeout,
            open: matches!(
                config.page.policy,
                ExplorerPolicy::SpecPublic | ExplorerPolicy::Nothing
            ),
        }
    }

    async fn decide(&self, head: &Parts) -> Result<Sender, AuthError> {
        if let Some(authenticator) = &self.authenticator {
            let identity = authenticator.authenticate(&head.headers).await;
            let identity = Some(identity.ok_or(AuthError::Invalid)?);
            return Ok(Sender { principal: None, identity, proven: true });
        }
        match &self.hook {
            Some(hook) => match hook(self::head(head)).await {
                Ok(()) => Ok(Sender { proven: true, ..Sender::default() }),
                Err(cause) => {
                    tracing::warn!(cause, "a caller was refused");
                    Err(AuthError::Invalid)
                }
            },
            None if self.open => Ok(Sender { proven: true, ..Sender::default() }),
            None => Err(AuthError::Missing),
        }
    }

    async fn run(&self, call: ToolCall) -> ToolAnswer {
        let Some(handler) = &self.handler else {
            return ToolAnswer::error("this program does not run tools from the explorer");
        };
        let name = call.name.clone();
        let running = AssertUnwindSafe(handler.call(call)).catch_unwind();
        match tokio::time::timeout(self.timeout, running).await {
            Ok(Ok(Ok(answer))) => answer,
            Ok(Ok(Err(error))) => {
                tracing::warn!(tool = name, %error, "a tool call failed");
                ToolAnswer::error(error.to_string())
            }
            Ok(Err(_panic)) => {
                tracing::error!(tool = name, "a tool call panicked");
                ToolAnswer::error("internal error")
            }
            Err(_elapsed) => ToolAnswer::error("the tool did not answer in time and was cancelled"),
        }
    }
}

#[async_trait]
impl Host for ProgramHost {
    /// Every sender sees the same tools, so no sender is identified.
    async fn identify(&self, _: &Parts, _: bool) -> Result<Sender, AuthError> {
        Ok(Sender::default())
    }

    async fn authenticate(&self, head: &Parts) -> Result<Sender, AuthError> {
        let decided = AssertUnwindSafe(self.decide(head)).catch_unwind();
        match tokio::time::timeout(DECISION, decided).await {
            Ok(Ok(decided)) => decided,
            Ok(Err(_panic)) => {
                tracing::error!("the authenticator or hook panicked; the request was refused");
                Err(AuthError::Invalid)
            }
            Err(_elapsed) => {
                tracing::error!("the authenticator or hook timed out; the request was refused");
                Err(AuthError::Invalid)
            }
        }
    }

    async fn call(&self, call: Call) -> Response {
        if call.offer.find(&call.name).is_none() {
            return error::no_such_tool(&call.name);
        }
        let Value::Object(arguments) = call.arguments else {
            return respond(ToolAnswer::error("the arguments must be a JSON object"));
        };
        let head = Some(head(&call.head));
        let identity = call.sender.identity;
        let call = ToolCall { name: call.name, arguments, identity, head };
        respond(self.run(call).await)
    }

    fn record_unauthenticated(&self, route: &str) {
        tracing::debug!(route, "a caller without valid credentials was refused");
    }
}

fn respond(mut answer: ToolAnswer) -> Response {
    let trace = answer.trace_id.take();
    CallToolResult::new(answer.into(), trace.as_deref()).answer()
}

fn head(parts: &Parts) -> RequestHead {
    RequestHead {
        method: parts.method.clone(),
        uri: parts.uri.clone(),
        headers: parts.headers.clone(),
    }
}
