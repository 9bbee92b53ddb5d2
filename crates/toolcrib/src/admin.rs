//! The host's own interface for operators and the console: keys, roles, sources, configuration, pins,
//! approvals, and all other routes under `/v1` that do not belong to OpenWOP. The errors and access
//! rules are those of OpenWOP, which has the mount of `/v1`.

mod approvals;
mod changes;
mod clients;
mod config;
mod connections;
mod explain;
mod keys;
mod pins;
mod record;
mod roles;
mod saved;
mod sessions;
mod sources;
mod whoami;
mod workflows;

use serde_json::json;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{parameters, route_set::RouteSet, state::AppState, v1::error::invalid_query};

pub(crate) const ROUTES: RouteSet = RouteSet {
    tags: &[
        ("Administration", "Keys, roles, sources, configuration and the state of the record"),
        ("Approvals", "Requests for approval, and votes on them"),
    ],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts: |_| Vec::new(),
    separate: false,
    routes: |_| routes(),
    description: || json!({}),
};

fn routes() -> OpenApiRouter<AppState> {
    let routes = OpenApiRouter::new()
        .routes(routes!(explain::explain))
        .routes(routes!(whoami::whoami))
        .routes(routes!(changes::watch))
        .routes(routes!(workflows::list))
        .routes(routes!(workflows::cancel))
        .routes(routes!(record::forwarders))
        .routes(routes!(record::checkpoints))
        .routes(routes!(sources::list))
        .routes(routes!(sources::logs))
        .routes(routes!(sources::refresh))
        .routes(routes!(roles::list))
        .routes(routes!(roles::get))
        .routes(routes!(config::get))
        .routes(routes!(config::propose))
        .routes(routes!(config::write))
        .routes(routes!(config::rules))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::rotate))
        .routes(routes!(keys::revoke))
        .routes(routes!(sessions::list, sessions::start))
        .routes(routes!(sessions::end))
        .routes(routes!(clients::list))
        .routes(routes!(clients::end))
        .routes(routes!(saved::list, saved::save))
        .routes(routes!(saved::remove))
        .routes(routes!(connections::list))
        .routes(routes!(connections::link))
        .routes(routes!(connections::preview))
        .routes(routes!(connections::begin))
        .routes(routes!(connections::finish))
        .routes(routes!(connections::remove))
        .routes(routes!(pins::list))
        .routes(routes!(pins::approve))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::events))
        .routes(routes!(approvals::by_id, approvals::answer));
    parameters::checked(routes, invalid_query)
}
