//! The explorer: a web page to inspect and try tools, and its JSON endpoints, below a configurable
//! prefix.
//!
//! Responses follow the embedded-explorer protocol (features F1 to F7). A [`ToolsProvider`]
//! supplies the tools anew on every request: a gateway, with bytes it has already serialised, or
//! tools of the embedding program. A [`Host`] identifies the caller and runs calls.
//! [`ExplorerPolicy`] says which endpoints require credentials; the page itself holds no data.

mod assets;
mod call;
mod context;
mod embedded;
mod error;
mod gated;
mod mounted;
mod offer;
mod page;
mod settings;
mod tools;
mod validate;

use std::sync::Arc;

use http::request::Parts;
use serde_json::json;
use toolcrib_gateway::{
    Gateway,
    authn::AuthError,
    config::{self, ExplorerPolicy},
    metrics::Surface,
    provider::ToolsProvider,
};
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::error::refuse;
use self::{
    context::{Host, Visitor},
    gated::Gated,
    page::{Look, Page},
};
pub use self::{
    mounted::explorer,
    settings::ExplorerConfig,
    validate::{ValidateResult, ValidationFailure},
};
use crate::{
    dialect::Dialect,
    middleware::{Access, Mount, Paths, Refusal},
};

/// One explorer: the state that its handlers share.
struct Explorer {
    provider: Arc<dyn ToolsProvider>,
    host: Arc<dyn Host>,
    policy: ExplorerPolicy,
    allow_execute: bool,
    max_body: usize,
    /// The resource that denials are recorded under.
    resource: String,
    page: Page,
}

pub(crate) const DIALECT: Dialect = Dialect {
    tags: &[(
        "Explorer",
        "The page and its endpoints; the prefix is configurable, this is the default one",
    )],
    mounts: |config| vec![mount(&config.explorer.prefix)],
    routes: |setup| {
        let config = &setup.config.explorer;
        let explorer = match setup.gateway {
            Some(gateway) => {
                Explorer::of_gateway(gateway, config, setup.config.server.max_body_bytes)
            }
            None => Explorer::described(config),
        };
        routes(explorer, &config.prefix)
    },
    description: || json!({}),
};

/// Returns the mount of the explorer. Each endpoint authenticates by itself, because the order of
/// its checks depends on the policy.
fn mount(prefix: &str) -> Mount {
    let paths = match prefix {
        "" => Paths::All,
        prefix => Paths::Under(prefix.to_owned()),
    };
    Mount::new(Surface::Explorer, paths, Access::Open, refuse)
}

/// Returns the routes below `prefix`, with their description.
fn routes<S>(explorer: Explorer, prefix: &str) -> OpenApiRouter<S>
where
    S: Clone + Send + Sync + 'static,
{
    let json = OpenApiRouter::new()
        .routes(routes!(tools::list))
        .routes(routes!(tools::detail_of))
        .routes(routes!(validate::validate))
        .routes(routes!(call::call))
        .routes(routes!(assets::asset));
    let routes = match prefix {
        "" => json,
        // The page is served with and without the last slash, which nesting alone does not do.
        prefix => OpenApiRouter::new()
            .nest(prefix, json)
            .nest(prefix, OpenApiRouter::new().routes(routes!(page::page))),
    };
    let slash = format!("{prefix}/");
    routes.route(&slash, axum::routing::get(page::page)).with_state(Arc::new(explorer))
}

impl Explorer {
    /// Creates the explorer of `gateway` from its configuration.
    fn of_gateway(gateway: &Gateway, config: &config::ExplorerConfig, max_body: usize) -> Self {
        let host = Arc::new(Gated::new(gateway.clone()));
        Self::set_up(Arc::new(gateway.clone()), host, config, max_body)
    }

    /// Creates an explorer that serves nothing, for the description of its routes.
    fn described(config: &config::ExplorerConfig) -> Self {
        let host = embedded::Embedded::closed();
        Self::set_up(Arc::new(Vec::new()), Arc::new(host), config, 0)
    }

    fn set_up(
        provider: Arc<dyn ToolsProvider>,
        host: Arc<dyn Host>,
        config: &config::ExplorerConfig,
        max_body: usize,
    ) -> Self {
        let look = Look {
            title: config.title.clone(),
            project_name: config.project_name.clone(),
            project_url: config.project_url.clone(),
            allow_execute: config.allow_execute,
            approvals: true,
        };
        Self {
            provider,
            host,
            policy: config.policy,
            allow_execute: config.allow_execute,
            max_body,
            page: Page::new(look, &config.prefix),
            resource: resource(&config.prefix),
        }
    }

    /// Identifies the sender of a request for a list, a detail or a check of arguments.
    async fn reader(&self, head: &Parts) -> Result<Visitor, Refusal> {
        let who = match self.policy {
            ExplorerPolicy::All => self.host.holder(head).await,
            ExplorerPolicy::CallOnly | ExplorerPolicy::Nothing => {
                self.host.visitor(head, true).await
            }
            ExplorerPolicy::SpecPublic => self.host.visitor(head, false).await,
        };
        who.map_err(|error| self.turn_away(error))
    }

    /// Identifies the caller, when the policy checks credentials before everything else.
    async fn caller_first(&self, head: &Parts) -> Result<Option<Visitor>, Refusal> {
        let who = match self.policy {
            ExplorerPolicy::All | ExplorerPolicy::CallOnly => self.host.holder(head).await,
            ExplorerPolicy::Nothing => self.host.visitor(head, true).await,
            ExplorerPolicy::SpecPublic => return Ok(None),
        };
        who.map(Some).map_err(|error| self.turn_away(error))
    }

    /// Identifies the caller, when credentials are checked after everything else.
    async fn caller_last(&self, head: &Parts) -> Result<Visitor, Refusal> {
        self.host.holder(head).await.map_err(|error| self.turn_away(error))
    }

    fn turn_away(&self, error: AuthError) -> Refusal {
        if error != AuthError::Unavailable {
            self.host.record_unauthenticated(&self.resource);
        }
        Refusal::Unauthenticated(error)
    }
}

/// Returns the resource that the record names for the tool endpoints below `prefix`.
fn resource(prefix: &str) -> String {
    format!("{prefix}/tools/*")
}
