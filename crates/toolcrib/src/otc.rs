//! Open Tool Calling 1.0 (`otc://1.0`): `/health`, `/tools`, `/tools/call` at the root.
//!
//! Three kinds of failure stay apart: before the tool is reached (400 and its like), arguments that
//! do not fit (422), and the tool itself (200 with `success: false`). A failure after the tool may
//! have run is never a 5xx, because clients of this protocol repeat those.

mod call;
mod error;
mod health;
mod list;
mod schema;
mod version;

use toolcrib_gateway::metrics::Surface;
use utoipa_axum::{router::OpenApiRouter, routes};

pub(crate) use self::error::refuse;
use crate::{
    middleware::{Access, Mount, Paths},
    state::{AppState, Surfaces},
};

/// Headers that the members of this family of protocols use for a key.
const KEY_HEADERS: &[&str] = &["x-api-key", "otc-api-key", "oxp-api-key"];

/// Who may come in where. Health is open whatever the credentials.
pub(crate) fn mounts(surfaces: &Surfaces) -> Vec<Mount> {
    let keyed = |path: &str| Mount {
        key_headers: KEY_HEADERS,
        ..Mount::new(Surface::Otc, Paths::exactly([path]), Access::Keyed(surfaces.otc.auth), refuse)
    };
    vec![
        Mount::new(Surface::Otc, Paths::exactly(["/health"]), Access::Open, refuse),
        keyed("/tools"),
        keyed("/tools/call"),
    ]
}

/// The routes, with their description.
pub(crate) fn routes() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(health::health))
        .routes(routes!(list::list))
        .routes(routes!(call::call))
}

/// Reads `body` as far as it is read before a tool is looked up.
#[cfg(fuzzing)]
pub(crate) fn fuzz(body: &[u8]) {
    call::fuzz(body);
}
