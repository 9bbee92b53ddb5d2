//! The interface between a dialect, or a part of the host itself, and the rest of the crate: one entry
//! of [`DIALECTS`](crate::DIALECTS) or [`HOST`](crate::HOST).

use serde_json::Value;
use toolcrib_config::Config;
use toolcrib_gateway::{Gateway, metrics::Surface};
use utoipa::openapi::{Content, Ref, Response, ResponseBuilder};
use utoipa_axum::router::OpenApiRouter;

use crate::{middleware::Mount, state::AppState};

pub(crate) struct RouteSet {
    /// The tags of its routes in the description, each with its meaning. Routes without a tag get
    /// the first one.
    pub(crate) tags: &'static [(&'static str, &'static str)],
    /// The surfaces of its calls, for policies and metrics; empty for routes without calls.
    pub(crate) surfaces: &'static [Surface],
    /// The schema of its errors.
    pub(crate) error: &'static str,
    /// Its paths, each with its surface, access rule and format of refusals.
    pub(crate) mounts: fn(&Config) -> Vec<Mount>,
    /// Whether its routes have a separate router and description, because they share paths with
    /// other dialects. Its mounts then select its requests.
    pub(crate) separate: bool,
    /// Its routes, with their description.
    pub(crate) routes: fn(&Setup<'_>) -> OpenApiRouter<AppState>,
    /// The part of its description that routes cannot carry, as an OpenAPI document to merge into
    /// that of the routes.
    pub(crate) description: fn() -> Value,
}

/// The arguments for building the routes of a dialect.
pub(crate) struct Setup<'a> {
    /// Absent where only the description is needed.
    pub(crate) gateway: Option<&'a Gateway>,
    /// The configuration, with the section of the dialect.
    pub(crate) config: &'a Config,
}

/// Describes a JSON response with the schema of this name.
pub(crate) fn described_response(description: &str, schema: &str) -> Response {
    let content = Content::new(Some(Ref::from_schema_name(schema)));
    ResponseBuilder::new().description(description).content("application/json", content).build()
}
