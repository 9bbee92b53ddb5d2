//! `POST /tools/call`.
//!
//! A `call_id` makes a call idempotent; without one, the header `Idempotency-Key` does. A repeated
//! call gets the same bytes, and the tool runs once (I-31). Both dialects share the ids of a
//! caller, so that a call is not repeated because it used the other path.

use std::sync::Arc;

use axum::{Extension, extract::State, response::Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use serde_json::{Value, value::RawValue};
use toolcrib_core::{call::CallError, id::RunId, principal::Principal};
use toolcrib_gateway::{
    CallReport, CallRequest, Snapshot, ToolRef,
    idempotency::{ClientKey, IdempotentOutcome},
};

use super::{
    dialect::{Dialect, Marker},
    error::{self, ServerError, ValidationError},
    request::{self, CallBody, CallToolRequest},
    result::{self, CallReply},
};
use crate::{
    idempotency::{self, IdempotencyKeyText},
    middleware::{Caller, MemoryShare, Payload},
    respond,
    state::AppState,
};

/// The dialect of stored responses: the `CallToolResponse`, which both dialects share.
const SPACE: &str = "otc";
/// The same for calls with the header `Idempotency-Key`.
const HEADER_SPACE: &str = "otc-header";

/// Calls a tool.
///
/// A failure that the tool itself reports is a 200 with `success: false`. The header
/// `toolcrib-run-id` contains the id of the run with the events of the call, if the tool exists. The
/// header `idempotent-replayed` marks the stored response of an earlier call with the same `call_id`
/// or, without a `call_id`, the same header `Idempotency-Key`.
#[utoipa::path(
    post,
    path = "/tools/call",
    operation_id = "otcCall",
    params(("Idempotency-Key" = inline(Option<IdempotencyKeyText>), Header, description = "Idempotency key of a call without `call_id`. A repeated request with the same key and the same body returns the stored response.")),
    request_body(content = CallBody, content_type = "application/json"),
    responses(
        (status = 200, description = "The tool ran, and succeeded or failed", body = CallReply<'static>),
        (status = 400, description = "The body is not a call, the tool or version is unknown, its source is unavailable, or `call_id` was used for another call", body = ServerError),
        (status = 403, description = "The caller lacks a scope of the tool", body = ServerError),
        (status = 409, description = "The response for `Idempotency-Key` cannot be replayed, or the call is running in another process", body = ServerError),
        (status = 422, description = "The arguments are invalid, or `Idempotency-Key` was used for another call", body = ValidationError),
        (status = 429, description = "The rate limit of the tool is exceeded; see Retry-After", body = ServerError),
        (status = 503, description = "The call could not be recorded, so the tool did not run", body = ServerError),
    )
)]
pub(super) async fn call(
    State(state): State<AppState>,
    Caller(caller): Caller,
    headers: HeaderMap,
    hold: Option<Extension<MemoryShare>>,
    Payload(body): Payload,
) -> Response {
    let body = CountedBody { bytes: &body, hold };
    answer(Dialect::Otc, &state, &caller, &headers, body).await
}

/// The bytes of a body, and their share of the memory budget.
pub(super) struct CountedBody<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) hold: Option<Extension<MemoryShare>>,
}

/// Runs the call in `body`, and responds in `dialect`.
pub(super) async fn answer(
    dialect: Dialect,
    state: &AppState,
    caller: &Arc<Principal>,
    headers: &HeaderMap,
    body: CountedBody<'_>,
) -> Response {
    let CallBody { marker, mut request, envelope } = match CallBody::read(dialect, body.bytes) {
        Ok(body) => body,
        Err((marker, problem)) => return error::bad_request(marker, problem),
    };
    let arguments = Value::Object(request.arguments());
    let CallToolRequest { tool_id, call_id, .. } = request;
    let Some(tool) = request::tool(&tool_id) else {
        return error::bad_request(
            marker,
            "`tool_id` must look like Toolkit.Tool, Toolkit.Tool@1.2.3 or Toolkit.Tool@1",
        );
    };
    let snapshot = state.gateway.snapshot();
    let request = CallRequest {
        charge: body.hold.map(|Extension(hold)| hold.charge()),
        ..CallRequest::new(Arc::clone(&snapshot), dialect.surface(), tool, arguments)
    };
    let frame = Frame { marker, envelope };
    let named = match (&call_id, idempotency::key(headers)) {
        (Some(id), _) => Some((SPACE, id.clone())),
        (None, Ok(key)) => key.map(|key| (HEADER_SPACE, key)),
        (None, Err(problem)) => return error::bad_request(marker, problem.to_string()),
    };
    let key = named.as_ref().map(|(space, text)| ClientKey { space, text });
    let id = call_id.clone();
    let keep = move |report: &CallReport| {
        let id = id.as_deref().unwrap_or(report.call_id.as_str());
        result::written(report, id).map(|json| Bytes::from(json.get().to_owned()))
    };
    match idempotency::call(&state.gateway, caller, key, request, keep).await {
        Ok(IdempotentOutcome::Report(report)) => {
            let id = call_id.as_deref().unwrap_or(report.call_id.as_str());
            frame.called(&snapshot, caller, &report, id, tool)
        }
        Ok(IdempotentOutcome::Kept(kept)) => {
            match serde_json::from_slice::<&RawValue>(&kept.body) {
                Ok(result) => idempotency::replayed(frame.result(result, Some(&kept.run_id))),
                Err(_) => error::refused_call(marker, &CallError::Internal),
            }
        }
        Err(problem) if call_id.is_some() => error::refused_call_id(marker, problem),
        Err(problem) => error::refused_key(marker, problem),
    }
}

/// The frame of a response.
#[derive(Clone, Copy)]
struct Frame {
    marker: Marker,
    envelope: bool,
}

impl Frame {
    /// Builds the response to a finished call.
    fn called(
        self,
        snapshot: &Snapshot,
        caller: &Principal,
        called: &CallReport,
        call_id: &str,
        tool: ToolRef<'_>,
    ) -> Response {
        let run = respond::visible_run(called);
        match (result::written(called, call_id), &called.result) {
            (Some(result), _) => self.result(&result, run.as_ref()),
            (None, Err(CallError::NoSuchTool)) => {
                error::no_such_tool(self.marker, &offered(snapshot, caller, tool))
            }
            (None, Err(refused)) => {
                respond::with_run(error::refused_call(self.marker, refused), run.as_ref())
            }
            (None, Ok(_)) => error::refused_call(self.marker, &CallError::Internal),
        }
    }

    /// Builds a response with `result`, a `CallToolResponse`, in its envelope if it has one.
    fn result(self, result: &RawValue, run: Option<&RunId>) -> Response {
        let response = match self.envelope {
            false => respond::json(StatusCode::OK, result),
            true => {
                let reply = CallReply { schema: self.marker.as_str(), result };
                respond::json(StatusCode::OK, &reply)
            }
        };
        respond::with_run(response, run)
    }
}

/// The versions of a tool that the caller may use, if it requested another one.
fn offered(snapshot: &Snapshot, caller: &Principal, tool: ToolRef<'_>) -> Vec<String> {
    let ToolRef::Otc { name, version: Some(_) } = tool else { return Vec::new() };
    let versions = snapshot.otc_versions(caller, name);
    versions.iter().map(|entry| entry.names.version.clone()).collect()
}

/// Parses `body` and the tool id in it.
#[cfg(fuzzing)]
pub(super) fn fuzz(body: &[u8]) {
    request::fuzz(body);
}
