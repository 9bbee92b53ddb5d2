//! This server as an OAuth 2.0 protected resource (RFC 9728): clients learn here which servers
//! issue tokens for it. The document is public, so it names no tool, no tenant and none of their
//! scopes.

use std::sync::Arc;

use axum::{Extension, Router, response::Response, routing::get};
use http::{HeaderMap, Uri};
use serde_json::json;
use toolcrib_core::catalog::Body;
use toolcrib_gateway::{
    config::{Config, ResourceConfig},
    metrics::Surface,
};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{Access, Mount, Paths, Refusal, WELL_KNOWN},
    openwop,
    respond::{self, Caching},
    state::AppState,
};

/// For a document that changes only with a restart.
const CACHING: Caching = Caching { control: "public, max-age=300", vary: "" };
/// The usual path of the resource. A different configured path is served as well.
const MCP: &str = "/mcp";

/// The document, if `[auth.resource]` is configured.
#[derive(Clone)]
struct Document(Option<Arc<Body>>);

/// Returns its mount, which is open.
pub(crate) fn mounts() -> Vec<Mount> {
    let paths = Paths::Under(WELL_KNOWN.to_owned());
    vec![Mount::new(Surface::Ops, paths, Access::Open, openwop::refuse)]
}

/// Returns the routes, with their description.
pub(crate) fn routes(config: &Config) -> OpenApiRouter<AppState> {
    let resource = config.resource.as_ref();
    let routes = OpenApiRouter::new().routes(routes!(root)).routes(routes!(mcp));
    let routes = match resource.and_then(own_path) {
        Some(path) => {
            routes.merge(Router::new().route(&format!("{WELL_KNOWN}{path}"), get(root)).into())
        }
        None => routes,
    };
    routes.layer(Extension(Document(resource.map(document))))
}

/// Returns the path of `resource` if it differs from the two fixed ones.
fn own_path(resource: &ResourceConfig) -> Option<String> {
    let uri = Uri::try_from(resource.resource.as_str()).ok()?;
    let path = uri.path().trim_end_matches('/');
    // In a route, `{` would start a pattern.
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
    (!path.is_empty() && path != MCP && path.bytes().all(plain)).then(|| path.to_owned())
}

fn document(resource: &ResourceConfig) -> Arc<Body> {
    let mut document = json!({
        "resource": resource.resource,
        "authorization_servers": resource.authorization_servers,
        "bearer_methods_supported": ["header"],
        "resource_name": "toolcrib",
    });
    if let Some(document) = document.as_object_mut()
        && !resource.scopes.is_empty()
    {
        document.insert("scopes_supported".to_owned(), json!(resource.scopes));
    }
    Arc::new(Body::new(document.to_string()))
}

fn answer(document: Document, headers: &HeaderMap) -> Result<Response, Refusal> {
    let document = document.0.ok_or(Refusal::NoRoute)?;
    Ok(respond::tagged(headers, &document, "application/json", CACHING))
}

/// Who gives out tokens for this server.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource",
    operation_id = "protectedResource",
    tag = "Operations",
    security(()),
    responses(
        (status = 200, description = "The metadata of RFC 9728", body = Object),
        (status = 304, description = "Not modified"),
        (status = 404, description = "There is no `[auth.resource]`"),
    )
)]
async fn root(
    Extension(document): Extension<Document>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    answer(document, &headers)
}

/// The same, where clients of `/mcp` look first.
#[utoipa::path(
    get,
    path = "/.well-known/oauth-protected-resource/mcp",
    operation_id = "protectedResourceMcp",
    tag = "Operations",
    security(()),
    responses(
        (status = 200, description = "The metadata of RFC 9728", body = Object),
        (status = 304, description = "Not modified"),
        (status = 404, description = "There is no `[auth.resource]`"),
    )
)]
async fn mcp(
    Extension(document): Extension<Document>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    answer(document, &headers)
}
