//! `/connect`: what authorization servers and the browsers that come back from them request. Both have
//! no key, so nothing happens here: the page finishes the connection ([`crate::admin`]).

use axum::{
    Router,
    extract::State,
    response::{IntoResponse as _, Redirect, Response},
};
use http::{StatusCode, Uri};
use serde_json::{Value, json};
use toolcrib_core::id::SourceId;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{Access, Mount, Paths, Segment},
    ops::SURFACE,
    respond,
    route_set::RouteSet,
    state::AppState,
    v1::error::{ErrorEnvelope, Failure, refuse},
};

/// The longest query that is passed on to the page.
const MAX_QUERY: usize = 8 << 10;

pub(crate) const ROUTES: RouteSet = RouteSet {
    tags: &[("Connections", "Accounts that people connect to sources")],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts: |_| {
        vec![Mount::new(SURFACE, Paths::Under("/connect".to_owned()), Access::Open, refuse)]
    },
    separate: false,
    routes: |_| {
        OpenApiRouter::from(Router::new()).routes(routes!(callback)).routes(routes!(client))
    },
    description: || json!({}),
};

/// Leads a browser that comes back from a service to the page, which finishes the connection. The
/// response of the service moves to the fragment, which the page removes at once.
#[utoipa::path(
    get,
    path = "/connect/{source}/callback",
    operation_id = "connectCallback",
    security(()),
    params(("source" = String, Path, description = "The source")),
    responses(
        (status = 303, description = "The address of the page"),
        (status = 400, description = "The query is too long", body = ErrorEnvelope),
        (status = 404, description = "This cannot be a source", body = ErrorEnvelope),
    )
)]
async fn callback(
    State(state): State<AppState>,
    source: Segment,
    uri: Uri,
) -> Result<Response, Failure> {
    let source = SourceId::parse(source.as_str()).map_err(|_| Failure::no_route())?;
    let query = uri.query().unwrap_or_default();
    if query.len() > MAX_QUERY {
        return Err(Failure::invalid("the query is too long", None));
    }
    let page = match state.config.explorer.prefix.as_str() {
        "" => "/",
        prefix => prefix,
    };
    Ok(Redirect::to(&format!("{page}#/connected?source={source}&{query}")).into_response())
}

/// Describes this server as an OAuth client (draft-ietf-oauth-client-id-metadata-document). Its own
/// address is the id of the client.
#[utoipa::path(
    get,
    path = "/connect/client.json",
    operation_id = "connectClient",
    security(()),
    responses(
        (status = 200, description = "The description", body = Object),
        (status = 404, description = "This server has no https address for browsers", body = ErrorEnvelope),
    )
)]
async fn client(State(state): State<AppState>) -> Result<Response, Failure> {
    let document: Value = state.gateway.client_document().ok_or_else(Failure::no_route)?;
    Ok(respond::json(StatusCode::OK, &document))
}
