//! `GET tools` and `GET tools/{name}` (F2).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::StatusCode;

use super::{
    error::{self, Problem},
    offer::{Detail, OfferExt as _, Summary},
    state::Explorer,
};
use crate::{
    middleware::{Refusal, Segment},
    parameters::ToolsetName,
    respond::{self, PRIVATE},
};

/// Lists the tools that the caller may use.
#[utoipa::path(
    get,
    path = "/tools",
    operation_id = "explorerTools",
    params(("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset")),
    responses(
        (status = 200, description = "Summaries of the tools", body = Vec<Summary<'static>>),
        (status = 304, description = "Not modified"),
        (status = 400, description = "No such toolset", body = Problem),
    )
)]
pub(super) async fn list(
    State(explorer): State<Arc<Explorer>>,
    // The request is taken whole: an extractor of headers would copy them, on a hot path.
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let sender = explorer.reader(&head).await?;
    Ok(match explorer.offer(&sender).await.list(&respond::within(&head.uri)) {
        Some(body) => respond::tagged(&head.headers, &body, "application/json", PRIVATE),
        None => error::problem(StatusCode::BAD_REQUEST, respond::NO_TOOLSET, None),
    })
}

/// Returns one tool that the caller may use.
#[utoipa::path(
    get,
    path = "/tools/{name}",
    operation_id = "explorerTool",
    params(("name" = String, Path, description = "The name of the tool, percent-encoded")),
    responses(
        (status = 200, description = "The tool", body = Detail<'static>),
        (status = 304, description = "Not modified"),
        (status = 404, description = "Not found, or not visible to this caller", body = Problem),
    )
)]
pub(super) async fn detail_of(
    State(explorer): State<Arc<Explorer>>,
    name: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let sender = explorer.reader(&head).await?;
    Ok(match explorer.offer(&sender).await.find(name.as_str()) {
        Some(tool) => respond::tagged(&head.headers, &tool.detail(), "application/json", PRIVATE),
        None => error::no_such_tool(name.as_str()),
    })
}
