//! This server as an OAuth 2.0 protected resource (RFC 9728): clients learn here which servers
//! issue tokens for it. The document is public, so it does not name tools, tenants or their scopes.
//! Each name that a toolset can have has a document, so the document does not reveal whether the
//! toolset exists.

use std::sync::Arc;

use axum::{Extension, Router, response::Response, routing::get};
use http::{HeaderMap, Uri};
use serde_json::{Value, json};
use toolcrib_config::{Config, ResourceConfig, is_toolset_name};
use toolcrib_core::catalog::Body;
use utoipa_axum::router::OpenApiRouter;

use crate::{
    middleware::{Access, MCP, Mount, Paths, Refusal, Segment, WELL_KNOWN, mcp_of},
    ops::SURFACE,
    respond::{self, Caching},
    route_set::RouteSet,
    state::AppState,
    v1::error::refuse,
};

/// For a document that changes only with a restart.
const CACHING: Caching = Caching { control: "public, max-age=300", vary: "" };
/// The configured resource, with its document.
#[derive(Clone)]
struct ResourceDocument(Option<Arc<(ResourceConfig, Body)>>);

pub(crate) const ROUTES: RouteSet = RouteSet {
    tags: &[],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts: |_| {
        let paths = Paths::Under(WELL_KNOWN.to_owned());
        vec![Mount::new(SURFACE, paths, Access::Open, refuse)]
    },
    separate: false,
    routes: |setup| routes(setup.config),
    description,
};

fn routes(config: &Config) -> OpenApiRouter<AppState> {
    let resource = config.resource.as_ref();
    let mut routes = Router::new();
    // The usual path is served in addition to a configured one.
    let own = resource.and_then(|protected| own_path(&protected.resource));
    for path in [Some(String::new()), Some(MCP.to_owned()), own].into_iter().flatten() {
        routes = routes.route(&format!("{WELL_KNOWN}{path}"), get(metadata));
    }
    let own = resource.and_then(|protected| own_path(&mcp_of(&protected.resource)));
    for path in [Some(MCP.to_owned()), own].into_iter().flatten() {
        // `/mcp/` and `/mcp/NAME/` are the addresses without the slash, too.
        routes = routes
            .route(&format!("{WELL_KNOWN}{path}/"), get(metadata))
            .route(&format!("{WELL_KNOWN}{path}/{{toolset}}"), get(of_toolset))
            .route(&format!("{WELL_KNOWN}{path}/{{toolset}}/"), get(of_toolset));
    }
    let described = resource
        .map(|protected| Arc::new((protected.clone(), document(protected, &protected.resource))));
    routes.layer(Extension(ResourceDocument(described))).into()
}

/// Describes the fixed paths.
fn description() -> Value {
    let toolset = json!({
        "name": "toolset", "in": "path", "required": true, "schema": { "type": "string" },
    });
    let item = |operation: &str, summary: &str, parameters: &[&Value]| {
        json!({ "get": {
            "tags": ["Operations"],
            "operationId": operation,
            "summary": summary,
            "parameters": parameters,
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
            &[],
        ),
        format!("{WELL_KNOWN}{MCP}"): item(
            "protectedResourceMcp",
            "Returns the same metadata, at the path that MCP clients request first.",
            &[],
        ),
        format!("{WELL_KNOWN}{MCP}/{{toolset}}"): item(
            "protectedResourceToolset",
            "Returns the metadata of the MCP endpoint of one toolset.",
            &[&toolset],
        ),
    } })
}

/// The path of `resource` if it differs from the two fixed ones.
fn own_path(resource: &str) -> Option<String> {
    let uri = Uri::try_from(resource).ok()?;
    let path = uri.path().trim_end_matches('/');
    // In a route, `{` would start a pattern.
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"/-._~".contains(&b);
    (!path.is_empty() && path != MCP && path.bytes().all(plain)).then(|| path.to_owned())
}

/// Builds the document of the part of `config` at the address `resource`.
fn document(config: &ResourceConfig, resource: &str) -> Body {
    let mut document = json!({
        "resource": resource,
        "authorization_servers": config.authorization_servers,
        "bearer_methods_supported": ["header"],
        "resource_name": "toolcrib",
    });
    if let Some(document) = document.as_object_mut()
        && !config.scopes.is_empty()
    {
        document.insert("scopes_supported".to_owned(), json!(config.scopes));
    }
    Body::new(document.to_string())
}

async fn metadata(
    Extension(ResourceDocument(described)): Extension<ResourceDocument>,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let described = described.ok_or(Refusal::NoRoute)?;
    Ok(respond::tagged(&headers, &described.1, "application/json", CACHING))
}

async fn of_toolset(
    Extension(ResourceDocument(described)): Extension<ResourceDocument>,
    name: Segment,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let described = described.filter(|_| is_toolset_name(name.as_str())).ok_or(Refusal::NoRoute)?;
    let (config, _) = &*described;
    let resource = format!("{}/{}", mcp_of(&config.resource), name.as_str());
    let document = document(config, &resource);
    Ok(respond::tagged(&headers, &document, "application/json", CACHING))
}
