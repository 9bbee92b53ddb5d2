//! `GET /v1/events`: the record of the caller's tenant, by position in that record. Positions count
//! only the tenant's own events: gaps would reveal the activity of other tenants (I-9).

use axum::response::Response;
use http::StatusCode;
use serde::Serialize;
use toolcrib_core::event::{EventQuery, RunEvent};
use toolcrib_gateway::scopes::RouteScope::AuditRead;
use utoipa::ToSchema;

use super::{
    error::{ErrorEnvelope, Failure},
    request::Context,
    schemas,
    values::{Limit, Position},
};
use crate::respond;

#[derive(Serialize, ToSchema)]
pub(super) struct EventPage {
    /// The caller's tenant, which is part of the hashes.
    tenant: String,
    /// In ascending position.
    events: Vec<RecordEntry>,
    /// The `after` of the next page: the position of the last event of this page, or the requested
    /// one if the page is empty.
    next: u64,
}

/// An event with its position in the record of its tenant.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct RecordEntry {
    /// Starts at 1; there are no gaps.
    position: u64,
    /// SHA-256 of the previous event in the record of the tenant; zeros for the first event.
    prev_hash: String,
    /// SHA-256 of this event and of `prevHash`.
    hash: String,
    #[schema(schema_with = schemas::run_event_reference)]
    event: RunEvent,
}

/// Lists the events of the caller's tenant: the oldest first from `after` on, or the newest.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "listEvents",
    params(
        ("after" = inline(Option<Position>), Query, description = "Only events at greater positions. By default the newest `limit` events"),
        ("limit" = inline(Option<Limit>), Query, description = "The maximum number of events; 100 by default"),
    ),
    responses(
        (status = 200, description = "A page of events", body = EventPage),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(AuditRead)?;
    let after = context.parameter("after")?.map(|position: Position| position.0);
    let tenant = context.caller.tenant.clone();
    let wanted = EventQuery {
        tenant: Some(tenant.clone()),
        after,
        limit: context.parameter("limit")?.unwrap_or(Limit::DEFAULT).size(),
        newest: after.is_none(),
        ..EventQuery::default()
    };
    let logged = context.gateway.audit().read(wanted).await?;
    let next = logged.last().map_or(after.unwrap_or(0), |last| last.position);
    let events = logged.into_iter().map(|logged| RecordEntry {
        position: logged.position,
        prev_hash: logged.link.prev.to_string(),
        hash: logged.link.hash.to_string(),
        event: logged.event,
    });
    let page = EventPage { tenant: tenant.to_string(), events: events.collect(), next };
    Ok(respond::json(StatusCode::OK, &page))
}
