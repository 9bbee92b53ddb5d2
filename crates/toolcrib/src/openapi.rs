//! The OpenAPI description of the whole HTTP interface, collected from the handlers.

use serde_json::{Value, json};
use utoipa::openapi::OpenApi;

use crate::DIALECTS;

/// The tag of routes that belong to no dialect.
const OPERATIONS: (&str, &str) = ("Operations", "Probes, metrics and descriptions");

/// Completes the description that the routers collected.
pub(crate) fn document(collected: &OpenApi) -> Value {
    let mut document = match serde_json::to_value(collected) {
        Ok(document) => document,
        Err(error) => {
            tracing::error!(%error, "the OpenAPI description could not be serialised");
            json!({})
        }
    };
    let tags = DIALECTS.iter().flat_map(|dialect| dialect.tags).chain([&OPERATIONS]);
    let tags: Vec<Value> =
        tags.map(|(name, about)| json!({ "name": name, "description": about })).collect();
    let more = json!({
        "openapi": "3.1.0",
        "info": info(),
        "tags": tags,
        "security": [{ "key": [] }],
        "components": {
            "securitySchemes": { "key": {
                "type": "http",
                "scheme": "bearer",
                "description": "An API key. Open Tool Calling accepts it in X-API-Key, OTC-API-Key \
                    or OXP-API-Key too.",
            } },
        },
    });
    put(&mut document, more, DEPTH);
    for dialect in DIALECTS {
        put(&mut document, (dialect.description)(), DEPTH);
    }
    refuses_unknown_parameters(&mut document);
    document
}

/// Adds the refusal of unknown query parameters ([`crate::parameters`]) to every route under `/v1`.
fn refuses_unknown_parameters(document: &mut Value) {
    let refused = json!({
        "description": "A query parameter that this route does not have",
        "content": { "application/json": {
            "schema": { "$ref": "#/components/schemas/ErrorEnvelope" },
        } },
    });
    let paths = document.get_mut("paths").and_then(Value::as_object_mut).into_iter().flatten();
    let v1 = paths.filter(|(path, _)| path.starts_with("/v1/"));
    let operations = v1.filter_map(|(_, item)| item.as_object_mut()).flatten();
    for (_, operation) in operations {
        if let Some(responses) = operation.get_mut("responses").and_then(Value::as_object_mut) {
            responses.entry("400").or_insert_with(|| refused.clone());
        }
    }
}

/// Number of levels whose objects are merged member by member; deeper values are replaced.
const DEPTH: usize = 3;

/// Merges the members of `more` into `document`, down to `depth` levels.
fn put(document: &mut Value, more: Value, depth: usize) {
    match (document, more) {
        (Value::Object(document), Value::Object(more)) if depth > 0 => {
            for (name, value) in more {
                put(document.entry(name).or_insert(Value::Null), value, depth - 1);
            }
        }
        (document, more) => *document = more,
    }
}

fn info() -> Value {
    json!({
        "title": "toolcrib",
        "version": env!("CARGO_PKG_VERSION"),
        "description": "One catalog of every tool, one gate that every call passes, one record of \
            what happened. `GET /v1/tools` answers a bare array, which is what the accepted \
            implementations, SDKs and test suites of RFC 0078 use; its text shows an envelope, \
            which is answered to `Accept: application/vnd.openwop.tools+json`.",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}
