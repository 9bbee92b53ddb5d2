//! The OpenAPI description of the whole HTTP interface, collected from the handlers.

use serde_json::{Value, json};
use toolcrib_config::Config;
use utoipa::openapi::{OpenApi, path::Operation};

use crate::{
    middleware::{Mount, SessionPolicy, session},
    route_set::{RouteSet, described_response},
    route_sets,
};

/// Completes the description that the routers of the `included` sets collected.
pub(crate) fn document(
    collected: &OpenApi,
    included: fn(&RouteSet) -> bool,
    config: &Config,
) -> Value {
    let mut document = serde_json::to_value(collected)
        .inspect_err(|error| tracing::error!(%error, "the OpenAPI description is incomplete"))
        .unwrap_or_default();
    // The router of `utoipa-axum` sets its authors as the contact.
    if let Some(info) = document.get_mut("info") {
        *info = json!({});
    }
    let sets = || route_sets().filter(|set| included(set));
    let tags = sets().flat_map(|set| set.tags);
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
                "description": "An API key. Open Tool Calling also accepts it in the headers \
                    X-API-Key, OTC-API-Key and OXP-API-Key.",
            } },
        },
    });
    put(&mut document, more, DEPTH);
    for set in sets() {
        put(&mut document, (set.description)(), DEPTH);
    }
    let mounts: Vec<Mount> = sets().flat_map(|set| (set.mounts)(config)).collect();
    describe_sessions(&mut document, &mounts);
    document
}

/// Marks the operations of `mounts` that also accept a session of the page. The server has no
/// sessions if `[explorer] session_lifetime` is 0.
fn describe_sessions(document: &mut Value, mounts: &[Mount]) {
    let Some(paths) = document.get_mut("paths").and_then(Value::as_object_mut) else { return };
    let mut is_used = false;
    for (path, item) in paths {
        let mount = mounts.iter().find(|mount| mount.paths.hold(path));
        if mount.is_none_or(|mount| mount.credentials.sessions == SessionPolicy::Ignored) {
            continue;
        }
        let operations = item.as_object_mut().into_iter().flat_map(|item| item.values_mut());
        for operation in operations.filter_map(Value::as_object_mut) {
            is_used = true;
            operation.entry("security").or_insert_with(
                || json!([{ "key": [] }, { "sessionCookie": [], "sessionHeader": [] }]),
            );
        }
    }
    if is_used {
        let schemes = json!({
            "sessionCookie": {
                "type": "apiKey",
                "in": "cookie",
                "name": session::COOKIE,
                "description": "One half of a session that `POST /v1/sessions` started. The suffix of \
                    the name is `-` and the port, if the address has one. Over http, which sessions \
                    permit only on the server's machine, the prefix is `toolcrib-session`.",
            },
            "sessionHeader": {
                "type": "apiKey",
                "in": "header",
                "name": session::HEADER.as_str(),
                "description": "The other half, the `secret` of the answer. It is accepted only from \
                    pages of this server, and without any other credential.",
            },
        });
        put(document, json!({ "components": { "securitySchemes": schemes } }), DEPTH);
    }
}

/// Adds the parts that all routes of `set` share: the tag, and the responses of the middleware.
/// A route that describes such a response itself keeps its description.
pub(crate) fn complete(description: &mut OpenApi, set: &RouteSet) {
    for (path, item) in &mut description.paths.paths {
        let operations = [&mut item.get, &mut item.post, &mut item.delete];
        for operation in operations.into_iter().flatten() {
            if operation.tags.as_ref().is_none_or(Vec::is_empty) {
                let first = set.tags.first().map(|(name, _)| (*name).to_owned());
                operation.tags = Some(first.into_iter().collect());
            }
            for (status, description) in shared_errors(path, operation) {
                let response = || described_response(description, set.error).into();
                operation.responses.responses.entry(status.to_owned()).or_insert_with(response);
            }
        }
    }
}

/// The responses of the middleware and of unavailable stores, with their descriptions.
fn shared_errors(path: &str, operation: &Operation) -> Vec<(&'static str, &'static str)> {
    // Routes without a caller declare an empty security requirement.
    let is_open = operation.security.is_some();
    let has_body = operation.request_body.is_some();
    let mut errors = Vec::new();
    if path.starts_with("/v1/") {
        // `crate::parameters` rejects unknown parameters.
        errors.push(("400", "A query parameter is unknown, or a parameter or the body is invalid"));
    }
    if !is_open {
        errors.push(("401", "The API key is missing or invalid"));
        errors.push(("503", "The server cannot process the request at the moment; retry later"));
    }
    if has_body {
        errors.push(("413", "The body is larger than `server.max_body`"));
    }
    errors
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
        "description": "One catalog of all tools, one gate for all calls, and one record of all \
            events. `GET /v1/tools` returns a bare array, like the reference implementations, SDKs \
            and test suites of RFC 0078. The envelope in the text of that RFC is returned for \
            `Accept: application/vnd.openwop.tools+json`.",
        "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
    })
}
