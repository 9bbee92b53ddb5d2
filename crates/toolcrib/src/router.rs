//! Every mount on one router.

use std::{path::Path, sync::Arc};

use axum::{Extension, Router};
use serde_json::Value;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::{Gateway, config::Config};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    explorer, mcp, middleware,
    openapi::document,
    openwop, ops, otc, resource,
    state::{AppState, Surfaces},
};

/// All surfaces of `gateway`, set up as `config` says.
pub fn router(gateway: Gateway, config: &Config) -> Router {
    let state = AppState::new(gateway, config);
    let surfaces = &*state.surfaces;
    let mounts = [
        ops::mounts(surfaces),
        openwop::mounts(),
        otc::mounts(surfaces),
        explorer::mounts(surfaces),
        mcp::mounts(surfaces),
        resource::mounts(),
    ];
    let (routes, collected) = routes(surfaces).split_for_parts();
    let description = Body::new(document(&collected).to_string());
    let routes = routes.layer(Extension(Arc::new(ops::OpenApiDocument(description))));
    middleware::guarded(routes, mounts.into_iter().flatten().collect(), ops::elsewhere(), state)
}

/// The description of all routes, for a configuration without settings.
pub fn openapi() -> Value {
    let surfaces = Surfaces::of(&Config::empty(Path::new("")));
    document(&routes(&surfaces).into_openapi())
}

fn routes(surfaces: &Surfaces) -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(openwop::routes(surfaces))
        .merge(OpenApiRouter::from(openwop::seams(surfaces)))
        .merge(otc::routes())
        .merge(explorer::routes(surfaces))
        .merge(OpenApiRouter::from(mcp::routes()))
        .merge(ops::routes())
        .merge(resource::routes(surfaces))
        .routes(routes!(ops::openapi))
}
