//! The Open eXecution Protocol under `/oxp`, the successor of Open Tool Calling. The list is called
//! `items`, the input schema is not nested, and every response has its version in a header. Calls
//! have an envelope, as in its OpenAPI document, or none, as in its later draft.

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
    routing::{get, post},
};
use http::HeaderMap;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;

use super::{
    call::{self, CountedBody},
    dialect::{self, Dialect, OXP_1_0, OXP_VERSION},
    error, health, list,
};
use crate::{
    dialect::described_response,
    middleware::{Caller, MemoryShare, Payload, Refusal},
    state::AppState,
};

/// Adds the routes, with their description, to those of Open Tool Calling.
pub(super) fn add(routes: OpenApiRouter<AppState>) -> OpenApiRouter<AppState> {
    let mut routes = routes
        .route("/oxp/health", get(oxp_health))
        .route("/oxp/tools", get(oxp_list))
        .route("/oxp/tools/call", post(oxp_call));
    describe(routes.get_openapi_mut());
    routes
}

/// Describes the routes like those of Open Tool Calling, with the differences of OXP.
fn describe(description: &mut OpenApi) {
    let paths = &mut description.paths.paths;
    for (path, id) in [("/health", "oxpHealth"), ("/tools", "oxpTools"), ("/tools/call", "oxpCall")]
    {
        let Some(mut item) = paths.get(path).cloned() else { continue };
        for operation in [&mut item.get, &mut item.post].into_iter().flatten() {
            operation.operation_id = Some(id.to_owned());
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
        paths.insert(format!("/oxp{path}"), item);
    }
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

fn unsupported(problem: dialect::Unsupported) -> Response {
    versioned(error::bad_request(Dialect::Oxp.marker(), problem.to_string()))
}

fn versioned(mut response: Response) -> Response {
    response.headers_mut().insert(OXP_VERSION, OXP_1_0);
    response
}
