//! OpenWOP: discovery, the tool catalog (RFC 0078) and the record (RFC 0064).

pub(crate) mod discovery;
mod events;
mod runs;
#[cfg(feature = "test-routes")]
mod test_routes;
mod tools;

use axum::{
    Router,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, StatusCode};
use serde_json::json;
use toolcrib_config::{Config, MountAuth, OpenWopV2};
use toolcrib_gateway::metrics::Surface;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{Access, Credentials, Mount, Paths},
    parameters,
    protocol_version::{self, NamedVersion},
    route_set::{RouteSet, Setup},
    state::AppState,
    v1::{
        error::{self, invalid_query, refuse},
        schemas,
    },
};

const SURFACE: Surface = Surface::new("openwop", "OpenWop");

pub(crate) const DIALECT: RouteSet = RouteSet {
    tags: &[("OpenWOP", "The tool catalog of RFC 0078 and the record of RFC 0064")],
    surfaces: &[SURFACE],
    error: "ErrorEnvelope",
    mounts,
    separate: false,
    routes,
    description: || json!({ "components": { "schemas": schemas::components() } }),
};

/// Every path under `/v1` requires a key, whether it exists or not; only the description of the
/// interface is open (I-10).
fn mounts(config: &Config) -> Vec<Mount> {
    let open = ["/.well-known/openwop", "/v1/openapi.json"];
    let keyed = Access::Keyed(MountAuth::Required);
    let headers = match config.openwop.v2 {
        OpenWopV2::Header | OpenWopV2::Root => versioned,
        OpenWopV2::Off => |_: &mut HeaderMap| {},
    };
    let mounts = [
        Mount::new(SURFACE, Paths::exactly(open), Access::Open, refuse),
        Mount {
            credentials: Credentials::PAGE,
            ..Mount::new(SURFACE, Paths::Under("/v1".to_owned()), keyed, refuse)
        },
    ];
    mounts.map(|mount| Mount { negotiate, headers, ..mount }).into()
}

/// Refuses another version than the one in the path (OpenWOP v2, versioning.md, section 1.3).
fn negotiate(headers: &HeaderMap) -> Option<Response> {
    let failure = match NamedVersion::of(headers) {
        NamedVersion::None | NamedVersion::Major(1) => return None,
        NamedVersion::Major(_) => error::Failure::new(
            StatusCode::BAD_REQUEST,
            "protocol_version_mismatch",
            "paths under /v1 are OpenWOP v1; `OpenWOP-Version` names another version",
            None,
        ),
        NamedVersion::Malformed => error::Failure::invalid(
            "`OpenWOP-Version` must be sent once, with a version such as 1.0",
            None,
        ),
    };
    Some(failure.into_response())
}

/// Adds the version to a response, if the server supports more than one.
fn versioned(headers: &mut HeaderMap) {
    headers.insert(protocol_version::OPENWOP_VERSION, protocol_version::V1);
}

/// Builds the test routes, if they are configured. They have no description.
fn test_routes(config: &Config) -> Router<AppState> {
    #[cfg(feature = "test-routes")]
    if config.test_routes {
        return test_routes::routes();
    }
    if config.test_routes {
        tracing::error!(
            "the test routes are configured, but this build lacks them; build it with the feature \
             `test-routes`"
        );
    }
    Router::new()
}

fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let document = discovery::document(setup.config);
    let described = OpenApiRouter::new()
        .routes(routes!(discovery::discover))
        .layer(axum::Extension(document))
        .routes(routes!(tools::list))
        .routes(routes!(tools::by_id))
        .routes(routes!(runs::events))
        .routes(routes!(events::list))
        .routes(routes!(events::summary))
        .routes(routes!(events::export));
    parameters::checked(described, invalid_query)
        .merge(OpenApiRouter::from(test_routes(setup.config)))
}
