//! This server as an OAuth 2.0 protected resource (RFC 9728): clients learn here which servers
//! issue tokens for it. The document is public, so it names no tool, no tenant and none of their
//! scopes.

use std::sync::Arc;

use axum::{Extension, Router, response::Response, routing::get};
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use toolcrib_core::catalog::Body;
use toolcrib_gateway::config::{Config, ResourceConfig};
use utoipa_axum::router::OpenApiRouter;

use crate::{
    dialect::Dialect,
    middleware::{Access, Mount, Paths, Refusal, WELL_KNOWN},
    openwop,
    ops::SURFACE,
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

pub(crate) const DIALECT: Dialect = Dialect {
    tags: &[],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts: |_| {
        let paths = Paths::Under(WELL_KNOWN.to_owned());
        vec![Mount::new(SURFACE, paths, Access::Open, openwop::refuse)]
    },
    separate: false,
    routes: |setup| routes(setup.config),
    description,
};

fn routes(config: &Config) -> OpenApiRouter<AppState> {
    let resource = config.resource.as_ref();
    let paths = [Some(String::new()), Some(MCP.to_owned()), resource.and_then(own_path)];
    let routes = paths.into_iter().flatten().fold(Router::new(), |routes, path| {
        routes.route(&format!("{WELL_KNOWN}{path}"), get(metadata))
    });
    routes.layer(Extension(Document(resource.map(document)))).into()
}

/// Returns the description of the two fixed paths, which differ in their operation id.
fn description() -> Value {
    let item = |operation: &str, summary: &str| {
        json!({ "get": {
            "tags": ["Operations"],
            "operationId": operation,
            "summary": summary,
            "security": [{}],
            "responses": {
                "200": {
                    "description": "The metadata of RFC 9728",
                    "content": { "application/json": { "schema": { "type": "object" } } },
                },
                "304": { "description": "Not modified" },
                "404": { "description": "`[auth.resource]` is not configured" },
            },
        } })
    };
    json!({ "paths": {
        WELL_KNOWN: item(
            "protectedResource",
            "Returns the metadata of this server as an OAuth 2.0 protected resource.",
        ),
        format!("{WELL_KNOWN}{MCP}"): item(
            "protectedResourceMcp",
            "Returns the same metadata, at the path that MCP clients request first.",
        ),
    } })
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

async fn metadata(
    Extension(Document(document)): Extension<Document>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let document = document.ok_or(Refusal::NoRoute)?;
    Ok(respond::tagged(&headers, &document, "application/json", CACHING))
}
