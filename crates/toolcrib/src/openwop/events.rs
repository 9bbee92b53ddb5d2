//! `GET /v1/events`: the record of the caller's tenant, by position in that record. Positions count
//! only the tenant's own events: gaps would reveal the activity of other tenants (I-9).

use axum::{
    extract::{RawQuery, State},
    response::{IntoResponse as _, Response},
};
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::event::{EventQuery, RunEvent};
use toolcrib_gateway::scopes::RouteScope;
use utoipa::{PartialSchema, ToSchema, openapi};

use super::{
    error::ErrorEnvelope,
    values::{self, BadParameter, Limit, Position},
};
use crate::{
    middleware::{Caller, Refusal, require},
    respond,
    state::AppState,
};

/// One event of a run (RFC 0064 §B, `run-event.schema.json`). Closed.
pub(crate) struct RunEventSchema;

impl PartialSchema for RunEventSchema {
    fn schema() -> openapi::RefOr<openapi::Schema> {
        // A placeholder until the document is finished, as for `Descriptor`.
        openapi::ObjectBuilder::new().build().into()
    }
}

impl ToSchema for RunEventSchema {
    fn name() -> std::borrow::Cow<'static, str> {
        "RunEvent".into()
    }
}

#[derive(Serialize, ToSchema)]
pub(super) struct EventPage {
    /// The caller's tenant, which the hashes cover.
    tenant: String,
    /// In ascending position.
    events: Vec<Positioned>,
    /// The `after` of the next page: the position of the last event here, or the requested one.
    next: u64,
}

/// An event with its position in the record of its tenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct Positioned {
    /// From 1, without gaps.
    position: u64,
    /// SHA-256 of the event before it in the record of the tenant; zeros before the first one.
    prev_hash: String,
    /// SHA-256 of this event and of `prevHash`.
    hash: String,
    #[schema(value_type = RunEventSchema)]
    event: RunEvent,
}

/// The events of the caller's tenant, oldest first from `after` on, or the newest.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "listEvents",
    tag = "OpenWOP",
    params(
        ("after" = inline(Option<Position>), Query, description = "Only events at greater positions. Without it: the newest `limit` events"),
        ("limit" = inline(Option<Limit>), Query, description = "At most this many; 100 when absent"),
    ),
    responses(
        (status = 200, description = "A page of events", body = EventPage),
        (status = 400, description = "A parameter is not a number in its range", body = ErrorEnvelope),
        (status = 401, description = "No valid key", body = ErrorEnvelope),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
        (status = 503, description = "The record cannot be read right now", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Caller(caller): Caller,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    require(&state.gateway, &caller, RouteScope::AuditRead, "/v1/events")?;
    let read = || -> Result<_, BadParameter> {
        let after = values::read(query.as_deref(), "after")?.map(|Position(after)| after);
        Ok((after, values::read(query.as_deref(), "limit")?.unwrap_or(Limit::DEFAULT)))
    };
    let (after, Limit(limit)) = match read() {
        Ok(read) => read,
        Err(bad) => return Ok(bad.into_response()),
    };
    let wanted = EventQuery {
        tenant: Some(caller.tenant.clone()),
        run: None,
        after,
        limit,
        newest: after.is_none(),
    };
    match state.gateway.audit().read(wanted).await {
        Ok(logged) => {
            let next = logged.last().map_or(after.unwrap_or(0), |last| last.position);
            let events = logged
                .into_iter()
                .map(|logged| Positioned {
                    position: logged.position,
                    prev_hash: logged.link.prev.to_string(),
                    hash: logged.link.hash.to_string(),
                    event: logged.event,
                })
                .collect();
            Ok(respond::json(
                StatusCode::OK,
                &EventPage { tenant: caller.tenant.to_string(), events, next },
            ))
        }
        Err(error) => {
            tracing::error!(%error, "the record could not be read");
            Ok(Refusal::Unavailable.into_response())
        }
    }
}
