//! `GET /.well-known/openwop`: the capabilities of this host. The document is public, so it does
//! not mention tenants, sources or tools. Every claim in it is enforced.

use std::sync::Arc;

use axum::{Extension, response::Response};
use http::HeaderMap;
use serde_json::json;
use toolcrib_config::Config;
use toolcrib_core::{catalog::Body, descriptor::SourceKind};

use crate::{
    protocol_version, respond,
    v1::schemas::{ToolCatalogFamily, ToolHooksFamily},
};

/// Serialises the document, once.
pub(crate) fn document(config: &Config) -> Arc<Body> {
    let document = json!({
        "protocolVersion": "1.0",
        // While a version 1 is listed, it is the preferred one (OpenWOP v2, versioning.md).
        "protocolVersions": protocol_version::listed(config.openwop.v2),
        "preferredVersion": "1.0",
        "supportedEnvelopes": [],
        "schemaVersions": {},
        "limits": {
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": config.server.max_body_bytes,
        },
        "implementation": {
            "name": "toolcrib",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "toolcrib",
        },
        "supportedTransports": ["rest", "mcp"],
        // Capability families are members of the root object (RFC 0073).
        "toolCatalog": ToolCatalogFamily {
            supported: true,
            sources: Some(SourceKind::ALL.to_vec()),
            session_lifecycle: Some(true),
            compact_view: Some(true),
        },
        "toolHooks": ToolHooksFamily {
            supported: true,
            pre_post_events: Some(true),
            per_tool_authorization: Some(true),
            per_tool_rate_limit: Some(true),
        },
    });
    Arc::new(Body::new(document.to_string()))
}

/// Returns the capabilities of this host.
#[utoipa::path(
    get,
    path = "/.well-known/openwop",
    operation_id = "discover",
    security(()),
    responses(
        (status = 200, description = "The discovery document", body = Object),
        (status = 304, description = "Not modified"),
    )
)]
pub(super) async fn discover(
    Extension(document): Extension<Arc<Body>>,
    headers: HeaderMap,
) -> Response {
    respond::tagged(&headers, &document, "application/json", protocol_version::PUBLIC)
}
