//! The explorer: a page to look at tools and try them, and the JSON endpoints behind it, below a
//! configurable prefix.
//!
//! Answers are those of the embedded-explorer protocol (features F1 to F7), with one deliberate
//! difference: the catalog is private, so its JSON endpoints ask for a key before anything else,
//! where the operator did not say `explorer.auth = "optional"`. The page itself holds no data.

mod assets;
mod call;
mod error;
mod page;
mod tools;
mod validate;

use toolcrib_gateway::metrics::Surface;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::error::refuse;
use crate::{
    middleware::{Access, Mount, Paths},
    state::{AppState, Surfaces},
};

/// Who may come in where.
pub(crate) fn mounts(surfaces: &Surfaces) -> Vec<Mount> {
    let prefix = &surfaces.explorer.prefix;
    let under =
        |path: String, access| Mount::new(Surface::Explorer, Paths::Under(path), access, refuse);
    vec![
        under(format!("{prefix}/tools"), Access::Keyed(surfaces.explorer.auth)),
        under(prefix.clone(), Access::Open),
    ]
}

/// The routes, with their description.
pub(crate) fn routes(surfaces: &Surfaces) -> OpenApiRouter<AppState> {
    let prefix = &surfaces.explorer.prefix;
    let json = OpenApiRouter::new()
        .routes(routes!(tools::list))
        .routes(routes!(tools::detail_of))
        .routes(routes!(validate::validate))
        .routes(routes!(call::call))
        .routes(routes!(assets::asset));
    // The page answers with and without the last slash, which nesting alone does not do.
    OpenApiRouter::new()
        .nest(prefix, json)
        .nest(prefix, OpenApiRouter::new().routes(routes!(page::page)))
        .route(&format!("{prefix}/"), axum::routing::get(page::page))
        .layer(axum::Extension(page::Page::render(&surfaces.explorer)))
}
