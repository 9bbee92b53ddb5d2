//! Open Tool Calling 1.0 (`otc://1.0`) at the root, and what it became, the Open eXecution Protocol
//! (`urn:oxp:1.0`), under `/oxp`. They are one family: the same requests, the same three kinds of
//! failure, and the same answers in two shapes ([`dialect`]).
//!
//! Three kinds of failure stay apart: before the tool is reached (400 and its like), arguments that
//! do not fit (422), and the tool itself (200 with `success: false`). A failure after the tool may
//! have run is never a 5xx, because clients of this protocol repeat those.

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
use toolcrib_gateway::{authn::Accepted, metrics::Surface};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{Access, Credentials, InvalidCredentialPolicy, Mount, Paths, Refusal},
    state::{AppState, Surfaces},
};

/// Headers that the members of this family of protocols use for a key.
const KEY_HEADERS: &[&str] = &["x-api-key", "otc-api-key", "oxp-api-key"];

/// Who may come in where. Health is open whatever the credentials.
pub(crate) fn mounts(surfaces: &Surfaces) -> Vec<Mount> {
    let otc = |path: &str| {
        let access = Access::Keyed(surfaces.otc.auth);
        keyed(Mount::new(Surface::Otc, Paths::exactly([path]), access, refuse))
    };
    let mut mounts = vec![
        Mount::new(Surface::Otc, Paths::exactly(["/health"]), Access::Open, refuse),
        otc("/tools"),
        otc("/tools/call"),
    ];
    if surfaces.oxp.enabled {
        let health = Paths::exactly(["/oxp/health"]);
        let access = Access::Keyed(surfaces.oxp.auth);
        let all = Paths::Under("/oxp".to_owned());
        mounts.push(Mount::new(Surface::Oxp, health, Access::Open, oxp::refuse));
        mounts.push(keyed(Mount::new(Surface::Oxp, all, access, oxp::refuse)));
    }
    mounts
}

/// The routes, with their description.
pub(crate) fn routes(surfaces: &Surfaces) -> OpenApiRouter<AppState> {
    let routes = OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(list::list))
        .routes(routes!(call::call));
    match surfaces.oxp.enabled {
        true => routes.merge(oxp::routes()),
        false => routes,
    }
}

/// A mount that takes keys as this family does.
fn keyed(mount: Mount) -> Mount {
    let credentials = Credentials {
        key_headers: KEY_HEADERS,
        strangers: InvalidCredentialPolicy::Anonymous,
        accepted: Accepted::Shared,
    };
    Mount { credentials, ..mount }
}

/// A refusal in Open Tool Calling.
fn refuse(refusal: &Refusal) -> Response {
    error::refused(dialect::Dialect::Otc.marker(), refusal)
}

/// Reads `body` as far as it is read before a tool is looked up.
#[cfg(fuzzing)]
pub(crate) fn fuzz(body: &[u8]) {
    call::fuzz(body);
}
