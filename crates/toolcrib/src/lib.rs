#![doc = include_str!("../README.md")]
//!
//! ## Modules
//!
//! One folder per dialect, all over one catalog, one gate and one record.
//!
//! * [`router`](fn@router) mounts everything.
//! * `openwop/`, `openwop2/`, `otc/`, `explorer/` and `mcp/` are the dialects. They are independent
//!   of each other (I-4); each has its own types, routes and error format. `call_error` and
//!   `idempotency` hold the parts that they share.
//! * `admin/`, `ops`, `resource`, `connect` and `bridge/` are the routes of the host itself. `v1/` has the errors and
//!   parameters of all routes under `/v1`.
//! * `middleware/` has the checks before every request.
#![warn(missing_docs)]

mod admin;
mod body;
mod bridge;
mod call_error;
mod connect;
mod explorer;
#[cfg(fuzzing)]
pub mod fuzzing;
mod html;
mod idempotency;
mod mcp;
mod middleware;
mod openapi;
mod openwop;
mod openwop2;
mod ops;
mod otc;
mod parameters;
mod protocol_version;
mod resource;
mod respond;
mod route_set;
mod router;
mod serve;
mod session_start;
mod state;
mod tls;
mod v1;
mod visible_runs;

/// The protocols, in the order in which a path is matched against their mounts. A new one needs a
/// folder, its `mod`, an entry here, and its section of the configuration.
const DIALECTS: &[route_set::RouteSet] =
    &[openwop2::DIALECT, openwop::DIALECT, otc::DIALECT, explorer::DIALECT, mcp::DIALECT];

/// The routes of the host itself. Their mounts come before those of the protocols.
const HOST: &[route_set::RouteSet] =
    &[ops::ROUTES, resource::ROUTES, connect::ROUTES, bridge::ROUTES, admin::ROUTES];

/// Returns everything that has routes.
fn route_sets() -> impl Iterator<Item = &'static route_set::RouteSet> {
    HOST.iter().chain(DIALECTS)
}

pub use explorer::{
    ClientSetup, ExplorerConfig, ValidateResult, ValidationFailure, client_setups, explorer,
};
pub use mcp::{serve_stdio, serve_stdio_within};
pub use middleware::GuardedRouter;
pub use router::{RouterExt, openapi, openapi_v2, router, service};

/// Returns the names of the surfaces of calls, as policies see them.
pub fn surfaces() -> impl Iterator<Item = &'static str> {
    let own = [gateway::metrics::Surface::CLI, gateway::metrics::Surface::WORKFLOW];
    let dialects = DIALECTS.iter().flat_map(|dialect| dialect.surfaces).copied();
    dialects.chain(own).map(gateway::metrics::Surface::as_str)
}

/// Returns the published JSON Schemas with their names, as served under
/// `/schemas/NAME.schema.json`.
pub fn schemas() -> Vec<(&'static str, serde_json::Value)> {
    v1::schemas::all()
}

/// Whether this build can serve the test routes under `/v1/host/sample`: the feature `test-routes`.
pub const HAS_TEST_ROUTES: bool = cfg!(feature = "test-routes");

pub use serve::{Server, bind, serve};
pub use tls::{HandshakeFailure, Tls, TlsError, TlsIdentity};
pub use toolcrib_core as core;
pub use toolcrib_gateway::{
    self as gateway, Gateway, GatewayBuilder,
    config::ExplorerPolicy,
    provider::{
        Annotations, Authenticator, HandlerError, Identity, NativeTools, NoArguments, Offer,
        RequestHead, Tool, ToolAnswer, ToolCall, ToolCallHandler, ToolDefinition, ToolsProvider,
        TypedTool, TypedTools,
    },
};
pub use toolcrib_tasks::cores::Cores;
