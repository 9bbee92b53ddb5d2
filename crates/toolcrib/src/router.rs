//! Assembles every mount and route into one router.

use std::{path::Path, sync::Arc};

use axum::Router;
use serde_json::Value;
use toolcrib_config::Config;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::Gateway;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    middleware::{self, GuardedRouter},
    openapi::{complete, document},
    openwop2, ops,
    route_set::{RouteSet, Setup},
    route_sets,
    state::AppState,
};

/// Returns a router with all surfaces of `gateway`, set up according to `config`.
pub fn router(gateway: Gateway, config: &Config) -> Router {
    service(gateway, config).into_router()
}

/// Returns a service with all surfaces of `gateway`, set up according to `config`.
pub fn service(gateway: Gateway, config: &Config) -> GuardedRouter {
    let setup = Setup { gateway: Some(&gateway), config };
    let state = AppState::new(gateway.clone(), config);
    let mut routers = vec![finished(routes(&setup), is_shared, &setup, &state)];
    let mut mounts = Vec::new();
    for set in route_sets() {
        let mut own = (set.mounts)(config);
        if set.separate {
            for mount in &mut own {
                mount.router = routers.len();
            }
            routers.push(finished(described(set, &setup), is_separate, &setup, &state));
        }
        mounts.append(&mut own);
    }
    mounts.push(openwop2::elsewhere(config));
    middleware::guarded(routers, mounts, ops::elsewhere(), state.host)
}

/// Adds `gateway.router()`, for programs that embed a gateway. Only gateways have it.
pub trait RouterExt: sealed::Sealed {
    /// Returns a router with all surfaces, set up according to the current configuration. Serve it,
    /// or merge it into a router that has no fallback: it responds to every path.
    fn router(&self) -> Router;
}

mod sealed {
    /// Keeps [`RouterExt`](super::RouterExt) free to get more methods.
    pub trait Sealed {}
    impl Sealed for toolcrib_gateway::Gateway {}
}

impl RouterExt for Gateway {
    fn router(&self) -> Router {
        router(self.clone(), &self.config())
    }
}

/// Returns the OpenAPI description of all routes but those of OpenWOP v2, for an empty
/// configuration.
pub fn openapi() -> Value {
    let config = Config::empty(Path::new(""));
    document(&routes(&Setup { gateway: None, config: &config }).into_openapi(), is_shared, &config)
}

/// Returns the OpenAPI description of OpenWOP v2, a separate document because it shares paths with
/// Open Tool Calling.
pub fn openapi_v2() -> Value {
    let config = Config::empty(Path::new(""));
    let setup = Setup { gateway: None, config: &config };
    let routes = described(&openwop2::DIALECT, &setup);
    document(&routes.into_openapi(), is_separate, &config)
}

fn is_shared(set: &RouteSet) -> bool {
    !is_separate(set)
}

fn is_separate(set: &RouteSet) -> bool {
    set.separate
}

/// Adds the state, with the description of the `included` sets, to `routes`.
fn finished(
    routes: OpenApiRouter<AppState>,
    included: fn(&RouteSet) -> bool,
    setup: &Setup<'_>,
    state: &AppState,
) -> Router {
    let (routes, collected) = routes.split_for_parts();
    let document = document(&collected, included, setup.config);
    let description = Arc::new(Body::new(document.to_string()));
    middleware::complete(routes, AppState { description, ..state.clone() }, &state.host)
}

/// Collects the routes of the sets that share a router.
fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let shared = route_sets().filter(|set| is_shared(set));
    shared.fold(OpenApiRouter::new(), |all, set| all.merge(described(set, setup)))
}

/// Builds the routes of `set` with their whole description.
fn described(set: &RouteSet, setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let mut routes = (set.routes)(setup);
    complete(routes.get_openapi_mut(), set);
    routes
}

#[cfg(test)]
mod tests {
    use toolcrib_config::{self as config, NoSecrets};

    use super::*;
    use crate::{explorer, middleware::Paths};

    #[test]
    fn the_page_cannot_have_a_path_of_another_surface() {
        let config = Config::empty(Path::new(""));
        let others = route_sets().filter(|set| set.tags != explorer::DIALECT.tags);
        for mount in others.flat_map(|set| (set.mounts)(&config)) {
            let paths = match mount.paths {
                Paths::Exactly(paths) => paths,
                Paths::Under(path) => vec![path],
                Paths::All => Vec::new(),
            };
            for path in paths {
                let text = format!("[explorer]\nprefix = {path:?}");
                let refused = config::parse("toolcrib.toml", &text, Path::new("/"), &NoSecrets);
                assert!(refused.is_err(), "{path} may be the prefix of the page");
            }
        }
    }
}
