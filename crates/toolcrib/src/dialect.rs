//! What a dialect is to the rest of the crate: an entry of the table [`DIALECTS`](crate::DIALECTS).

use serde_json::Value;
use toolcrib_gateway::{Gateway, config::Config};
use utoipa_axum::router::OpenApiRouter;

use crate::{middleware::Mount, state::AppState};

/// One dialect.
pub(crate) struct Dialect {
    /// The tags of its routes in the description, each with its meaning.
    pub(crate) tags: &'static [(&'static str, &'static str)],
    /// Returns its paths, each with the surface it counts as, the rule who may enter and the form of
    /// refusals.
    pub(crate) mounts: fn(&Config) -> Vec<Mount>,
    /// Returns its routes, with their description.
    pub(crate) routes: fn(&Setup<'_>) -> OpenApiRouter<AppState>,
    /// Returns the part of its description that routes cannot carry, as an OpenAPI document that is
    /// merged into that of the routes.
    pub(crate) description: fn() -> Value,
}

/// What the routes of a dialect are built with.
pub(crate) struct Setup<'a> {
    /// Absent where only the description is needed.
    pub(crate) gateway: Option<&'a Gateway>,
    /// The configuration, with the section of the dialect.
    pub(crate) config: &'a Config,
}
