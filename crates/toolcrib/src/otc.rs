//! Open Tool Calling 1.0 (`otc://1.0`) at the root and under `/otc`, and its successor, the Open
//! eXecution Protocol (`urn:oxp:1.0`), under `/oxp`. They are one family: the same requests and kinds of failure, and
//! the same responses in two shapes ([`dialect`]).
//!
//! There are three kinds of failure: before the tool is reached (400 and similar), invalid
//! arguments (422), and a failure of the tool itself (200 with `success: false`). A failure after
//! the tool may have run is never a 5xx, because clients of this protocol retry those.

mod call;
mod definition;
mod dialect;
mod error;
mod health;
mod list;
mod oxp;
mod request;
mod result;
mod schema;

use axum::response::Response;
use serde_json::{Value, json};
use toolcrib_config::{Config, OpenWopV2};
use toolcrib_gateway::authn::AcceptedCredentials;
use utoipa::{
    PartialSchema as _,
    openapi::{OpenApi, RefOr, Schema, path::Operation},
};
use utoipa_axum::{router::OpenApiRouter, routes};

use self::{
    definition::{Definition, FlatSchema, NestedSchema},
    dialect::{OTC, OXP},
};
use crate::{
    middleware::{
        Access, Credentials, InvalidCredentialPolicy, Mount, Paths, Refusal, SessionPolicy,
        authenticate::KEY_HEADERS,
    },
    protocol_version,
    route_set::{RouteSet, Setup},
    state::AppState,
};

pub(crate) const DIALECT: RouteSet = RouteSet {
    tags: &[
        ("Open Tool Calling", "The protocol `otc://1.0`, at the root"),
        ("OXP", "The Open eXecution Protocol, the successor of Open Tool Calling"),
    ],
    surfaces: &[OTC, OXP],
    error: "ServerError",
    mounts,
    separate: false,
    routes,
    description,
};

/// Health checks are open, whatever the credentials.
fn mounts(config: &Config) -> Vec<Mount> {
    let access = Access::Keyed(config.otc.auth);
    let open = |path: &str| Mount::new(OTC, Paths::exactly([path]), Access::Open, refuse);
    let otc = |paths| keyed(Mount::new(OTC, paths, access, refuse));
    let list = otc(Paths::exactly(["/tools"]));
    // The page reads the ids of tools there.
    let sessions = SessionPolicy::Accepted;
    let list = Mount { credentials: Credentials { sessions, ..list.credentials }, ..list };
    let mut mounts = vec![open("/otc/health"), otc(Paths::Under("/otc".to_owned()))];
    if at_root(config) {
        mounts.push(open("/health"));
        // OpenWOP v2 has this path too.
        mounts.push(Mount { headers: protocol_version::shared_path, ..list });
        mounts.push(otc(Paths::exactly(["/tools/call"])));
    }
    if config.oxp.enabled {
        let health = Paths::exactly(["/oxp/health"]);
        let access = Access::Keyed(config.oxp.auth);
        let all = Paths::Under("/oxp".to_owned());
        mounts.push(Mount::new(OXP, health, Access::Open, oxp::refuse));
        mounts.push(keyed(Mount::new(OXP, all, access, oxp::refuse)));
    }
    mounts
}

/// Whether the paths at the root are Open Tool Calling's.
fn at_root(config: &Config) -> bool {
    match config.openwop.v2 {
        OpenWopV2::Header | OpenWopV2::Off => true,
        OpenWopV2::Root => false,
    }
}

fn routes(setup: &Setup<'_>) -> OpenApiRouter<AppState> {
    let root = || {
        OpenApiRouter::new()
            .routes(routes!(health::health))
            .routes(routes!(list::list))
            .routes(routes!(call::call))
    };
    let mut all = OpenApiRouter::new().nest("/otc", root());
    for operation in operations(all.get_openapi_mut()) {
        let id = operation.operation_id.take().unwrap_or_default();
        operation.operation_id = Some(id.replacen("otc", "otcMount", 1));
    }
    if at_root(setup.config) {
        all = all.merge(root());
    }
    match setup.config.oxp.enabled {
        true => all.merge(oxp::routes(root().into_openapi())),
        false => all,
    }
}

/// All operations of `description`.
fn operations(description: &mut OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = description.paths.paths.values_mut();
    items.flat_map(|item| [&mut item.get, &mut item.post].into_iter().flatten())
}

/// The schemas of the lists, which consist of bytes of the catalog.
fn description() -> Value {
    let list = |name: &str, tool: RefOr<Schema>| {
        json!({
            "type": "object",
            "required": ["$schema", name],
            "properties": {
                "$schema": {
                    "type": "string",
                    "description": "The version of the response, in the family of names that the \
                        caller used.",
                },
                name: { "type": "array", "items": tool },
            },
        })
    };
    json!({ "components": { "schemas": {
        "ToolList": list("tools", Definition::<NestedSchema>::schema()),
        "OxpToolList": list("items", Definition::<FlatSchema>::schema()),
    } } })
}

/// Makes `mount` accept keys in the headers of this family.
fn keyed(mount: Mount) -> Mount {
    let credentials = Credentials {
        key_headers: KEY_HEADERS,
        invalid: InvalidCredentialPolicy::Anonymous,
        accepted: AcceptedCredentials::Shared,
        sessions: SessionPolicy::Ignored,
    };
    Mount { credentials, ..mount }
}

/// Formats a refusal for Open Tool Calling.
fn refuse(refusal: &Refusal) -> Response {
    error::refused(dialect::Dialect::Otc.marker(), refusal)
}

/// Parses `body` up to the lookup of the tool.
#[cfg(fuzzing)]
pub(crate) fn fuzz(body: &[u8]) {
    call::fuzz(body);
}
