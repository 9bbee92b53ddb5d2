//! `GET tools` and `GET tools/{name}` (F2).

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{StatusCode, request::Parts};
use toolcrib_core::catalog::Parts as CatalogParts;

use super::{
    error::{self, Problem},
    offer::{Catalog, Detail, OfferExt as _, Summary},
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
        (status = 400, description = "Unknown toolset", body = Problem),
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

/// Returns the parts of the list, for a page that keeps them: after a change it loads only the
/// changed parts.
#[utoipa::path(
    get,
    path = "/catalog",
    operation_id = "explorerCatalog",
    params(("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset")),
    responses(
        (status = 200, description = "The parts, with the tools of the first one", body = Catalog<'static>),
        (status = 304, description = "Not modified"),
        (status = 400, description = "Unknown toolset", body = Problem),
    )
)]
pub(super) async fn catalog(
    State(explorer): State<Arc<Explorer>>,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    Ok(match parts(&explorer, &head).await? {
        Some(parts) => respond::tagged(&head.headers, &parts.overview, "application/json", PRIVATE),
        None => error::problem(StatusCode::BAD_REQUEST, respond::NO_TOOLSET, None),
    })
}

/// Returns the tools of one part of the list.
#[utoipa::path(
    get,
    path = "/catalog/{part}",
    operation_id = "explorerCatalogPart",
    params(
        ("part" = String, Path, description = "The tag of the part"),
        ("toolset" = inline(Option<ToolsetName>), Query, description = "Only tools of this toolset"),
    ),
    responses(
        (status = 200, description = "Summaries of the tools", body = Vec<Summary<'static>>),
        (status = 304, description = "Not modified"),
        (status = 400, description = "Unknown toolset", body = Problem),
        (status = 404, description = "The part does not exist, or the list has changed", body = Problem),
    )
)]
pub(super) async fn catalog_part(
    State(explorer): State<Arc<Explorer>>,
    part: Segment,
    request: Request,
) -> Result<Response, Refusal> {
    let (head, _) = request.into_parts();
    let Some(parts) = parts(&explorer, &head).await? else {
        return Ok(error::problem(StatusCode::BAD_REQUEST, respond::NO_TOOLSET, None));
    };
    Ok(match parts.find(part.as_str()) {
        Some(part) => respond::tagged(&head.headers, &part.body, "application/json", PRIVATE),
        None => error::problem(StatusCode::NOT_FOUND, NO_PART, None),
    })
}

const NO_PART: &str = "unknown part of the list; read the catalog again";

async fn parts(explorer: &Explorer, head: &Parts) -> Result<Option<Arc<CatalogParts>>, Refusal> {
    let sender = explorer.reader(head).await?;
    Ok(explorer.offer(&sender).await.parts(&respond::within(&head.uri)))
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
