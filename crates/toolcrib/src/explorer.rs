//! The explorer: a web page to inspect and try tools, and its JSON endpoints, below a configurable
//! prefix.
//!
//! Responses follow the embedded-explorer protocol (features F1 to F7). A `ToolsProvider`
//! supplies the tools anew on every request: a gateway, with bytes it has already serialised, or
//! tools of the embedding program. A [`Host`] identifies the caller and runs calls.
//! `ExplorerPolicy` says which endpoints require credentials; the page itself holds no data.

mod assets;
mod call;
mod clients;
mod error;
mod gateway_host;
mod host;
mod offer;
mod page;
mod program_host;
mod result;
mod settings;
mod sign_in;
mod standalone;
mod state;
mod tools;
mod validate;

use std::{future::ready, sync::Arc};

use axum::{
    extract::{OriginalUri, State},
    response::{IntoResponse as _, Redirect, Response},
};
use http::{HeaderMap, header};
use serde_json::json;
use toolcrib_gateway::provider::ToolsProvider;
use utoipa_axum::{router::OpenApiRouter, routes};

pub use self::{
    clients::{ClientSetup, client_setups},
    offer::ValidationFailure,
    settings::ExplorerConfig,
    standalone::explorer,
    validate::ValidateResult,
};
use self::{
    error::refuse, gateway_host::GatewayHost, host::Host, page::Page, program_host::ProgramHost,
    state::Explorer,
};
use crate::{
    middleware::{Access, Credentials, Mount, Paths, Refusal},
    route_set::{RouteSet, Setup},
    state::AppState,
};

pub(crate) const DIALECT: RouteSet = RouteSet {
    tags: &[("Explorer", "A web page and its endpoints, shown here at the default prefix")],
    surfaces: &[host::SURFACE],
    error: "Problem",
    mounts: |config| vec![mount(&config.explorer.prefix)],
    separate: false,
    routes: set_up,
    description: || json!({}),
};

/// Each endpoint authenticates by itself, because the order of its checks depends on the policy;
/// all accept the credentials listed here.
fn mount(prefix: &str) -> Mount {
    let paths = match prefix {
        "" => Paths::All,
        prefix => Paths::Under(prefix.to_owned()),
    };
    let mount = Mount::new(host::SURFACE, paths, Access::Open, refuse);
    Mount { credentials: Credentials::PAGE, ..mount }
}

/// Builds the routes of the explorer of a gateway. Without a gateway, they serve an empty list and
/// exist only for their description.
fn set_up(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let (provider, host): (Arc<dyn ToolsProvider>, Arc<dyn Host>) = match setup.gateway {
        Some(gateway) => (Arc::new(gateway.clone()), Arc::new(GatewayHost(gateway.clone()))),
        None => (Arc::new(Vec::new()), Arc::new(ProgramHost::new(&ExplorerConfig::new()))),
    };
    let max_body = setup.config.server.max_body_bytes;
    let prefix = &setup.config.explorer.prefix;
    let page = Page::new(setup.config.explorer.clone(), true, max_body);
    let explorer = Explorer { provider, host, max_body, page };
    let start = format!("{prefix}/");
    let root = move |headers: HeaderMap| ready(root(&start, &headers));
    let no_route = || ready(Refusal::NoRoute);
    routes(explorer, prefix)
        .merge(sign_in::routes(setup))
        .route("/", axum::routing::get(root).fallback(no_route))
}

/// Redirects a browser from the root of the server to the page at `start`. Programs get the
/// response for an unknown path.
fn root(start: &str, headers: &HeaderMap) -> Response {
    let accept = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    let mut kinds = accept.flat_map(|text| text.split([',', ';']));
    match kinds.any(|kind| kind.trim().eq_ignore_ascii_case("text/html")) {
        true => Redirect::to(start).into_response(),
        false => Refusal::NoRoute.into_response(),
    }
}

/// Builds the routes below `prefix`, with their description.
fn routes<S>(explorer: Explorer, prefix: &str) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let json = OpenApiRouter::new()
        .routes(routes!(tools::list))
        .routes(routes!(tools::detail_of))
        .routes(routes!(tools::catalog))
        .routes(routes!(tools::catalog_part))
        .routes(routes!(validate::validate))
        .routes(routes!(call::call))
        .routes(routes!(assets::asset));
    let routes = match prefix {
        "" => json,
        // The page is served with and without the last slash, which nesting alone does not do.
        prefix => OpenApiRouter::new()
            .nest(prefix, json)
            .nest(prefix, OpenApiRouter::new().routes(routes!(page))),
    };
    let slash = format!("{prefix}/");
    routes.route(&slash, axum::routing::get(page)).with_state(Arc::new(explorer))
}

/// Returns the page.
#[utoipa::path(
    get,
    path = "",
    operation_id = "explorerPage",
    security(()),
    responses((status = 200, description = "The page", body = String, content_type = "text/html"))
)]
async fn page(
    State(explorer): State<Arc<Explorer>>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Response {
    explorer.page.answer(uri.path(), &headers)
}
