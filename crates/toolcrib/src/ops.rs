//! Endpoints for operators: probes, metrics, the published schemas and the OpenAPI description.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
};

use axum::{
    Extension,
    extract::State,
    response::{IntoResponse as _, Response},
};
use http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use serde_json::{Value, json};
use toolcrib_config::{Config, MountAuth, scopes::RouteScope};
use toolcrib_core::catalog::Body;
use toolcrib_gateway::{CheckState, metrics::Surface, tasks::TaskReport};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    middleware::{
        Access, Caller, Credentials, Hosts, Mount, Paths, Refusal, Segment, authenticate::caller,
        require,
    },
    parameters,
    respond::{self, Caching},
    route_set::RouteSet,
    state::AppState,
    v1::{
        error::{ErrorEnvelope, invalid_query, refuse},
        schemas,
    },
};

/// For documents that change only with the program's version.
const CACHING: Caching = Caching { control: "public, max-age=300", vary: "Accept-Encoding" };

pub(crate) const SURFACE: Surface = Surface::new("ops", "Ops");

pub(crate) const ROUTES: RouteSet = RouteSet {
    tags: &[("Operations", "Health, metrics, schemas and this description")],
    surfaces: &[],
    error: "ErrorEnvelope",
    mounts,
    separate: false,
    routes: |_| routes(),
    description: || json!({}),
};

/// Errors have the form of OpenWOP, the plainest of the dialects.
fn mounts(config: &Config) -> Vec<Mount> {
    let open = |paths| Mount::new(SURFACE, paths, Access::Open, refuse);
    // A scraper uses the address of a container. If a key is required, a web page that reaches this
    // server under a foreign name learns no metrics, because it has no key.
    let (metrics, hosts) = match config.server.public_metrics {
        true => (Access::Open, Hosts::Known),
        false => (Access::Keyed(MountAuth::Required), Hosts::AnyHost),
    };
    vec![
        Mount { hosts: Hosts::Any, ..open(Paths::exactly(["/livez", "/readyz"])) },
        Mount { access: metrics, hosts, ..open(Paths::exactly(["/metrics"])) },
        open(Paths::Under("/schemas".to_owned())),
    ]
}

/// The mount of all other paths.
pub(crate) fn elsewhere() -> Mount {
    Mount::new(SURFACE, Paths::All, Access::Open, refuse)
}

/// Builds the routes; `crate::router` adds the OpenAPI document itself.
fn routes() -> OpenApiRouter<AppState> {
    let written = schemas::all().into_iter();
    let schemas = written.map(|(name, schema)| (name, Body::new(schema.to_string()))).collect();
    let v1 = OpenApiRouter::new().routes(routes!(openapi));
    parameters::checked(v1, invalid_query)
        .routes(routes!(schema))
        .layer(Extension(Schemas(schemas)))
        .routes(routes!(livez))
        .routes(routes!(readyz))
        .routes(routes!(metrics))
}

/// Returns 200 as long as the process is running.
#[utoipa::path(
    get,
    path = "/livez",
    security(()),
    responses((status = 200, description = "The process is running", body = Object))
)]
async fn livez() -> Response {
    respond::json_bytes(StatusCode::OK, &b"{\"status\":\"ok\"}"[..])
}

/// Returns whether the server can serve callers: keys can be checked, all required background tasks
/// are running, and the record matches its signatures. Unavailable sources do not count, because
/// they affect only their own tools. Low disk space of the store is reported as `warning`.
#[utoipa::path(
    get,
    path = "/readyz",
    security(()),
    params(("verbose" = Option<String>, Query, description =
        "Adds the individual checks. A caller with the scope `metrics:all` also gets the background tasks and the state of the program, its configuration, catalog, sources, store, record and approvals, without any name")),
    responses(
        (status = 200, description = "Ready", body = Object),
        (status = 503, description = "Not ready", body = Object),
    )
)]
async fn readyz(State(state): State<AppState>, uri: Uri, headers: HeaderMap) -> Response {
    let checks = state.gateway.health();
    let failed = checks.iter().find(|check| check.state == CheckState::Failed);
    let (status, mut body) = match failed {
        None => (StatusCode::OK, json!({ "status": "ready" })),
        Some(check) => (
            StatusCode::SERVICE_UNAVAILABLE,
            json!({ "status": "unavailable", "reason": check.reason }),
        ),
    };
    let mut insert = |name: &str, value: Value| {
        if let Some(body) = body.as_object_mut() {
            body.insert(name.to_owned(), value);
        }
    };
    if failed.is_none() && state.gateway.audit().is_low_on_space() {
        insert("warning", json!("the store is low on disk space"));
    }
    if respond::query(uri.query(), "verbose").is_some() {
        let shown = checks.iter().map(|check| {
            json!({ "name": check.name, "state": check.state.as_str(), "reason": check.reason })
        });
        insert("checks", shown.collect());
        if may_see_state(&state, &uri, &headers).await {
            insert("tasks", tasks(&state));
            let diagnosis = serde_json::to_value(state.gateway.diagnose().await);
            if let Ok(Value::Object(members)) = diagnosis {
                for (name, value) in members {
                    insert(&name, value);
                }
            }
        }
    }
    respond::json(status, &body)
}

/// A probe needs no key, so invalid credentials are no reason to refuse it.
async fn may_see_state(state: &AppState, uri: &Uri, headers: &HeaderMap) -> bool {
    let required = MountAuth::Required;
    let caller = caller(&state.gateway, uri, headers, required, Credentials::BEARER).await;
    caller.is_ok_and(|Caller(caller)| RouteScope::MetricsAll.is_held_by(&caller))
}

/// The background tasks by kind. The names of their sources, anchors and forwarders are hidden,
/// because a source may belong to another tenant.
fn tasks(state: &AppState) -> Value {
    let mut kinds: BTreeMap<&'static str, TaskReport> = BTreeMap::new();
    for report in state.gateway.tasks().reports() {
        match kinds.entry(report.name.kind) {
            Entry::Vacant(place) => drop(place.insert(report)),
            Entry::Occupied(mut sum) => {
                let sum = sum.get_mut();
                sum.state = sum.state.max(report.state);
                sum.running += report.running;
                sum.failures += report.failures;
            }
        }
    }
    let shown = kinds.into_iter().map(|(task, report)| {
        json!({
            "task": task, "state": report.state.as_str(), "running": report.running,
            "failures": report.failures,
        })
    });
    shown.collect()
}

/// Returns the metrics as OpenMetrics text: all of them with the scope `metrics:all`, and those of
/// the calls of the caller's tenant with `metrics:read`.
#[utoipa::path(
    get,
    path = "/metrics",
    responses(
        (status = 200, description = "The metrics", body = String, content_type = "application/openmetrics-text"),
        (status = 401, description = "The API key is missing or invalid, and `server.public_metrics` is off"),
        (status = 403, description = "The scope `metrics:read` or `metrics:all` is missing"),
    )
)]
async fn metrics(
    State(state): State<AppState>,
    caller: Option<Extension<Caller>>,
) -> Result<Response, Refusal> {
    // Without a caller the mount is open, which only the operator's configuration allows.
    let text = match caller {
        Some(Extension(Caller(caller))) if !RouteScope::MetricsAll.is_held_by(&caller) => {
            require(&state.gateway, &caller, RouteScope::MetricsRead, "/metrics")?;
            state.gateway.metrics().encode_tenant(&caller.tenant)
        }
        Some(_) | None => {
            state.gateway.metrics().request_bytes(state.host.memory.held());
            state.gateway.metrics_text().await
        }
    };
    let mut response = respond::json_bytes(StatusCode::OK, text);
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

/// Returns a published JSON Schema: tool-descriptor, compact-tool-descriptor, tool-catalog, tool-hooks,
/// run-event, agent-tool-called, agent-tool-returned, tool-session-opened, tool-session-closed or
/// error-envelope, each followed by `.schema.json`.
#[utoipa::path(
    get,
    path = "/schemas/{file}",
    security(()),
    params(("file" = String, Path, description = "`NAME.schema.json`")),
    responses(
        (status = 200, description = "The schema", body = Object, content_type = "application/schema+json"),
        (status = 304, description = "Not modified"),
        (status = 404, description = "Unknown schema", body = ErrorEnvelope),
    )
)]
async fn schema(
    Extension(Schemas(schemas)): Extension<Schemas>,
    file: Segment,
    headers: HeaderMap,
) -> Response {
    let name = file.as_str().strip_suffix(".schema.json");
    match schemas.iter().find(|(known, _)| Some(*known) == name) {
        Some((_, body)) => respond::tagged(&headers, body, "application/schema+json", CACHING),
        None => Refusal::NoRoute.into_response(),
    }
}

/// The published schemas, serialised once.
#[derive(Clone)]
struct Schemas(Arc<[(&'static str, Body)]>);

/// Returns this interface as OpenAPI 3.1.
#[utoipa::path(
    get,
    path = "/v1/openapi.json",
    security(()),
    responses(
        (status = 200, description = "This document", body = Object),
        (status = 304, description = "Not modified"),
    )
)]
async fn openapi(State(state): State<AppState>, headers: HeaderMap) -> Response {
    respond::tagged(&headers, &state.description, "application/json", CACHING)
}
