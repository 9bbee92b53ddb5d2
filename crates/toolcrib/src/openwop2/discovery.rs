//! `GET /.well-known/openwop` for v2: a closed document with a record for each family of
//! capabilities. An absent family is not served, so every claim in it is enforced. It is public,
//! and does not mention tenants, sources or tools.

use std::sync::Arc;

use axum::{Extension, response::Response};
use http::HeaderMap;
use serde_json::{Value, json};
use toolcrib_config::Config;
use toolcrib_core::{catalog::Body, descriptor::SourceKind};

use super::runs::{EVENT_LOG_VERSION, MAX_PAGE};
use crate::{protocol_version, respond};

/// Serialises the document, once.
pub(super) fn document(config: &Config) -> Arc<Body> {
    let document = json!({
        "protocolVersion": "1.0",
        "protocolVersions": protocol_version::listed(config.openwop.v2),
        // While a version 1 is listed, it is the preferred one (versioning.md).
        "preferredVersion": "1.0",
        "implementation": {
            "name": "toolcrib",
            "version": env!("CARGO_PKG_VERSION"),
            "vendor": "toolcrib",
        },
        "eventLogSchemaVersion": EVENT_LOG_VERSION,
        "limits": {
            "status": "stable",
            "since": "2.0",
            "witness": "witnessable-gated",
            "clarificationRounds": 0,
            "schemaRounds": 0,
            "envelopesPerTurn": 0,
            "maxRequestBodyBytes": config.server.max_body_bytes,
        },
        "runList": experimental(json!({ "maxPageSize": MAX_PAGE, "filters": ["status"] })),
        "toolCatalog": experimental(json!({
            "sources": SourceKind::ALL,
            "sessionLifecycle": true,
            "compactView": true,
        })),
        "toolHooks": experimental(json!({
            "prePostEvents": true,
            "perToolAuthorization": true,
            "perToolRateLimit": true,
        })),
    });
    Arc::new(Body::new(document.to_string()))
}

/// The record of a family with `facets`, which the corpus does not call stable yet. Its upper bound
/// is above all versions that are served.
fn experimental(facets: Value) -> Value {
    let mut record = json!({
        "status": "experimental",
        "since": "2.0",
        "until": "2.1",
        "witness": "witnessable-gated",
    });
    if let (Some(record), Value::Object(facets)) = (record.as_object_mut(), facets) {
        record.extend(facets);
    }
    record
}

/// Returns the capabilities of this host.
#[utoipa::path(
    get,
    path = "/.well-known/openwop",
    operation_id = "discover",
    security(()),
    responses((status = 200, description = "The discovery document", body = Object))
)]
pub(super) async fn discover(
    Extension(document): Extension<Arc<Body>>,
    headers: HeaderMap,
) -> Response {
    respond::tagged(&headers, &document, "application/json", protocol_version::PUBLIC)
}
