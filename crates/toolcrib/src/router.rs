//! Every mount on one router.

use std::{path::Path, sync::Arc};

use axum::{Extension, Router};
use serde_json::Value;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::{Gateway, config::Config};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    explorer::{self, Explorer},
    mcp, middleware,
    openapi::document,
    openwop, ops, otc, parameters, resource,
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
        vec![explorer::mount(&surfaces.explorer.prefix)],
        mcp::mounts(surfaces),
        resource::mounts(),
    ];
    let explorer =
        Explorer::of_gateway(&state.gateway, &surfaces.explorer, surfaces.server.max_body_bytes);
    let (routes, collected) = routes(surfaces, explorer).split_for_parts();
    let description = Body::new(document(&collected).to_string());
    let routes = routes.layer(Extension(Arc::new(ops::OpenApiDocument(description))));
    middleware::guarded(routes, mounts.into_iter().flatten().collect(), ops::elsewhere(), state)
}

/// `gateway.router()`, for programs that embed a gateway.
pub trait RouterExt {
    /// All surfaces, set up as the configuration in force says. Merge it into a router without a
    /// fallback of its own, or serve it: it answers for every path.
    fn router(&self) -> Router;
}

impl RouterExt for Gateway {
    fn router(&self) -> Router {
        router(self.clone(), &self.config())
    }
}

/// The description of all routes, for a configuration without settings.
pub fn openapi() -> Value {
    let surfaces = Surfaces::of(&Config::empty(Path::new("")));
    document(&routes(&surfaces, Explorer::described(&surfaces.explorer)).into_openapi())
}

fn routes(surfaces: &Surfaces, explorer: Explorer) -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .merge(parameters::checked(openwop::routes(surfaces).routes(routes!(ops::openapi))))
        .merge(OpenApiRouter::from(openwop::test_routes(surfaces)))
        .merge(otc::routes(surfaces))
        .merge(explorer::routes(explorer, &surfaces.explorer.prefix))
        .merge(OpenApiRouter::from(mcp::routes()))
        .merge(ops::routes())
        .merge(resource::routes(surfaces))
}
