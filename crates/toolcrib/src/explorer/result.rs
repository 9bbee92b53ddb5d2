//! `CallToolResult`: the result of a call in this protocol.

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use serde_json::value::RawValue;
use toolcrib_core::call::Outcome;
use utoipa::ToSchema;

use crate::respond;

/// The result of a tool.
#[derive(Serialize, ToSchema)]
pub(super) struct CallToolResult {
    /// MCP content blocks.
    #[schema(value_type = Vec<Object>)]
    content: Box<RawValue>,
    #[serde(rename = "isError")]
    is_error: bool,
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    structured: Option<Box<RawValue>>,
    /// Absent if the call is not recorded.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    meta: Option<TraceMeta>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TraceMeta {
    /// The run with the events of the call.
    #[serde(rename = "_trace_id")]
    trace_id: String,
}

impl CallToolResult {
    /// Converts `outcome` to this protocol; `trace` is the id of the call's run, if there is one.
    pub(super) fn new(outcome: Outcome, trace: Option<&str>) -> Self {
        let Outcome { content, structured, is_error, .. } = outcome;
        let trace = trace.filter(|trace| !trace.is_empty()).map(str::to_owned);
        let meta = trace.map(|trace_id| TraceMeta { trace_id });
        Self { content, is_error, structured, meta }
    }

    /// The HTTP status for this result.
    pub(super) fn status(&self) -> StatusCode {
        match self.is_error {
            true => StatusCode::INTERNAL_SERVER_ERROR,
            false => StatusCode::OK,
        }
    }

    pub(super) fn answer(&self) -> Response {
        respond::json(self.status(), self)
    }
}
