//! Assembles every mount and route into one router.

use std::{path::Path, sync::Arc};

use axum::{Extension, Router};
use serde_json::Value;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::{Gateway, config::Config};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    DIALECTS,
    dialect::Setup,
    middleware,
    openapi::{complete, document},
    ops,
    state::AppState,
};

/// Returns a router with all surfaces of `gateway`, set up according to `config`.
pub fn router(gateway: Gateway, config: &Config) -> Router {
    let mounts = DIALECTS.iter().flat_map(|dialect| (dialect.mounts)(config)).collect();
    let setup = Setup { gateway: Some(&gateway), config };
    let (routes, collected) = routes(&setup).split_for_parts();
    let description = Body::new(document(&collected).to_string());
    let routes = routes.layer(Extension(Arc::new(ops::OpenApiDocument(description))));
    let state = AppState::new(gateway, config);
    let host = state.host.clone();
    middleware::guarded(routes, mounts, ops::elsewhere(), state, host)
}

/// Adds `gateway.router()`, for programs that embed a gateway.
pub trait RouterExt {
    /// Returns a router with all surfaces, set up according to the current configuration. Serve it,
    /// or merge it into a router that has no fallback: it responds to every path.
    fn router(&self) -> Router;
}

impl RouterExt for Gateway {
    fn router(&self) -> Router {
        router(self.clone(), &self.config())
    }
}

/// Returns the OpenAPI description of all routes, for an empty configuration.
pub fn openapi() -> Value {
    let config = Config::empty(Path::new(""));
    document(&routes(&Setup { gateway: None, config: &config }).into_openapi())
}

fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    DIALECTS.iter().fold(OpenApiRouter::new(), |all, dialect| {
        let mut routes = (dialect.routes)(setup);
        complete(routes.get_openapi_mut(), dialect);
        all.merge(routes)
    })
}

#[cfg(test)]
mod tests {
    use toolcrib_gateway::config::{self, NoSecrets};

    use super::*;
    use crate::{explorer, middleware::Paths};

    #[test]
    fn the_page_cannot_have_a_path_of_another_surface() {
        let config = Config::empty(Path::new(""));
        let others = DIALECTS.iter().filter(|it| it.tags != explorer::DIALECT.tags);
        for mount in others.flat_map(|dialect| (dialect.mounts)(&config)) {
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
