//! `GET /tools`: the caller's tools as `ToolDefinition`s.

use axum::{
    body::Body,
    extract::{FromRequest as _, Request, State},
    response::Response,
};
use http_body::Body as _;
use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    catalog::{Entry, ListFormat},
    json::parse_strict,
};
use utoipa::ToSchema;

use super::{
    error::{self, ServerError},
    schema::{described, self_contained},
    version,
};
use crate::{
    middleware::{Caller, Payload, Refusal},
    respond::{self, PRIVATE},
    state::AppState,
};

static TOOLS: ListFormat = ListFormat {
    key: "otc",
    open: "{\"$schema\":\"otc://1.0\",\"tools\":[",
    close: "]}",
    item: definition,
};

/// The caller's tools.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used; the bytes are written by `TOOLS`")]
pub(super) struct ToolList {
    /// The dialect of this answer.
    #[schema(rename = "$schema")]
    schema: String,
    tools: Vec<ToolDefinition>,
}

/// One tool. Closed: what has no place here is in the other dialects.
#[derive(Serialize, ToSchema)]
pub(super) struct ToolDefinition {
    /// `Toolkit.Tool@x.y.z`.
    id: String,
    name: String,
    description: String,
    version: String,
    input_schema: InputSchema,
    /// Without references; `{}` when any value may come back.
    #[schema(value_type = Object)]
    output_schema: Value,
}

#[derive(Serialize, ToSchema)]
pub(super) struct InputSchema {
    /// JSON Schema without references, every parameter described.
    #[schema(value_type = Object)]
    parameters: Value,
}

fn definition(entry: &Entry, out: &mut Vec<u8>) {
    let tool = &entry.tool;
    let parameters = tool.input_schema.as_ref().map_or(json!({}), self_contained);
    let definition = ToolDefinition {
        id: entry.names.otc_id(),
        name: entry.names.wire.clone(),
        description: tool.description.clone().or(tool.title.clone()).unwrap_or_default(),
        version: entry.names.version.clone(),
        input_schema: InputSchema { parameters: described(parameters) },
        output_schema: tool
            .output_schema
            .as_ref()
            .map_or_else(|| Value::Object(Map::new()), self_contained),
    };
    if let Err(error) = serde_json::to_writer(out, &definition) {
        tracing::error!(tool = %entry.id, %error, "a definition could not be serialised");
    }
}

/// The tools that the caller may use.
///
/// The request may carry a JSON body with `$schema`; an empty one is fine.
#[utoipa::path(
    get,
    path = "/tools",
    tag = "Open Tool Calling",
    responses(
        (status = 200, description = "The visible tools", body = ToolList),
        (status = 304, description = "Not modified"),
        (status = 400, description = "A body that is not JSON or names another version", body = ServerError),
        (status = 401, description = "No valid key", body = ServerError),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    if !body.is_end_stream()
        && let Some(refused) = refused(&state, body).await?
    {
        return Ok(refused);
    }
    let body = state.gateway.list(&caller, &TOOLS, None);
    Ok(respond::tagged(&head.headers, &body, "application/json", PRIVATE))
}

/// Looks at a request's body; `Some` when it cannot be accepted.
async fn refused(state: &AppState, body: Body) -> Result<Option<Response>, Refusal> {
    let Payload(bytes) = Payload::from_request(Request::new(body), state).await?;
    if bytes.is_empty() {
        return Ok(None);
    }
    Ok(match parse_strict(&bytes) {
        Ok(message @ Value::Object(_)) => {
            version::check(&message).err().map(|problem| error::bad_request(problem.to_string()))
        }
        Ok(_) => Some(error::bad_request("the body must be a JSON object")),
        Err(problem) => Some(error::bad_request(format!("the body is not JSON: {problem}"))),
    })
}
