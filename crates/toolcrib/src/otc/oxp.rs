//! The Open eXecution Protocol under `/oxp`, the successor of Open Tool Calling. The list is called
//! `items`, the input schema is not nested, and every response has its version in a header. Calls
//! have an envelope, as in its OpenAPI document, or omit it, as in its later draft.

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
    routing::{get, post},
};
use http::HeaderMap;
use utoipa::openapi::{OpenApi, path::Operation};
use utoipa_axum::router::OpenApiRouter;

use super::{
    call::{self, CountedBody},
    dialect::{self, Dialect, OXP_1_0, OXP_VERSION},
    error, health, list,
};
use crate::{
    middleware::{Caller, MemoryShare, Payload, Refusal},
    route_set::described_response,
    state::AppState,
};

/// Builds the routes. They are described like those of Open Tool Calling in `otc`, with the
/// differences of OXP.
pub(super) fn routes(otc: OpenApi) -> OpenApiRouter<AppState> {
    let mut routes = OpenApiRouter::new()
        .route("/oxp/health", get(oxp_health))
        .route("/oxp/tools", get(oxp_list))
        .route("/oxp/tools/call", post(oxp_call));
    let description = routes.get_openapi_mut();
    for (path, mut item) in otc.paths.paths {
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            describe(operation, &path);
        }
        description.paths.paths.insert(format!("/oxp{path}"), item);
    }
    routes
}

/// Changes the description of an operation at `path` of Open Tool Calling into that of OXP.
fn describe(operation: &mut Operation, path: &str) {
    let id = operation.operation_id.take().unwrap_or_default();
    operation.operation_id = Some(id.replacen("otc", "oxp", 1));
    operation.tags = Some(vec!["OXP".to_owned()]);
    let responses = &mut operation.responses.responses;
    if path == "/tools" {
        let list = described_response("The visible tools", "OxpToolList");
        responses.insert("200".to_owned(), list.into());
    }
    responses.entry("400".to_owned()).or_insert_with(|| {
        let about = "`OXP-Version` names an unsupported version";
        described_response(about, "ServerError").into()
    });
}

/// Formats a refusal for OXP.
pub(super) fn refuse(refusal: &Refusal) -> Response {
    versioned(error::refused(Dialect::Oxp.marker(), refusal))
}

async fn oxp_health(headers: HeaderMap) -> Response {
    match dialect::check_header(&headers) {
        Ok(()) => versioned(health::health().await),
        Err(problem) => unsupported(problem),
    }
}

async fn oxp_list(
    State(state): State<AppState>,
    caller: Caller,
    request: Request,
) -> Result<Response, Refusal> {
    match dialect::check_header(request.headers()) {
        Ok(()) => list::answer(Dialect::Oxp, &state, &caller, request).await.map(versioned),
        Err(problem) => Ok(unsupported(problem)),
    }
}

/// As `POST /tools/call`. A body without an envelope gets a response without one.
async fn oxp_call(
    State(state): State<AppState>,
    Caller(caller): Caller,
    headers: HeaderMap,
    hold: Option<Extension<MemoryShare>>,
    Payload(body): Payload,
) -> Response {
    let body = CountedBody { bytes: &body, hold };
    match dialect::check_header(&headers) {
        Ok(()) => versioned(call::answer(Dialect::Oxp, &state, &caller, &headers, body).await),
        Err(problem) => unsupported(problem),
    }
}

fn unsupported(problem: dialect::UnsupportedVersion) -> Response {
    versioned(error::bad_request(Dialect::Oxp.marker(), problem.to_string()))
}

fn versioned(mut response: Response) -> Response {
    response.headers_mut().insert(OXP_VERSION, OXP_1_0);
    response
}
