//! `GET /v1/events`: the record of the caller's tenant, by position in that record, and its searches.
//! Positions count only the tenant's own events: gaps would reveal the activity of other tenants
//! (I-9).

use std::sync::Arc;

use axum::{body::Body, response::Response};
use futures_util::stream;
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use toolcrib_config::scopes::RouteScope::AuditRead;
use toolcrib_core::{
    clock::Timestamp,
    event::{EventFilter, EventQuery, LoggedEvent, RunEvent},
    principal::Principal,
    record::StoredEvent,
};
use toolcrib_gateway::{
    Gateway,
    audit::{
        csv,
        search::{FoundEvent, Group, MAX_PAGE, Page, Summary, Totals},
    },
    export,
};
use utoipa::{IntoParams, ToSchema};

use crate::{
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        request::Context,
        schemas,
        values::{Buckets, EventSort, ExportFormat, FileFormat, Limit, Position, Sort},
    },
};

/// The parameters that are conditions of a search.
const CONDITIONS: [&str; 11] =
    ["from", "to", "principal", "tool", "source", "kind", "type", "status", "took", "run", "id"];

/// The conditions of a search, as parameters. `EventFilter` reads and checks them.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "it only describes the parameters")]
struct EventConditions {
    /// Conditions in one text, such as `actor:ada tool:files__* -status:ok after:7d`. `OR` joins two alternatives, `-` or `NOT` negates a condition, and a word without a field is searched in principals, tools, statuses, codes and ids
    query: Option<String>,
    /// Only events at this time or later
    from: Option<String>,
    /// Only events before this time
    to: Option<String>,
    /// Only events of these principals
    principal: Option<String>,
    /// Only events of these tools, by id or as `source__name`
    tool: Option<String>,
    /// Only events of tools of these sources
    source: Option<String>,
    /// Only events of tools of these kinds, such as `mcp`
    kind: Option<String>,
    /// Only events of these types
    r#type: Option<String>,
    /// Only events with this status or error code, or `denied` or `failed`
    status: Option<String>,
    /// Only events of this run
    run: Option<String>,
    /// Only calls with this run time, such as `>1s` or `<=250ms`
    took: Option<String>,
    /// Only events with an id that has this prefix: of the event, its run, call, session or approval; at least 8 characters
    id: Option<String>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct EventPage {
    /// The caller's tenant, a part of the hashes.
    tenant: String,
    /// In ascending position; with `sort`, the longest run time first.
    events: Vec<RecordEntry>,
    /// The `after` of the next page: the position up to which the record was read, or the requested
    /// one if no later event exists.
    next: u64,
    /// The `cursor` of the page with older matching events; absent at the start of the record, and
    /// without conditions. A page may have fewer events than `limit` although there are older ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    cursor: Option<String>,
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
    /// In a search: the facts by which the event was found.
    #[serde(skip_serializing_if = "Option::is_none")]
    facts: Option<EventFacts>,
}

/// The facts of an event in a search.
#[derive(Serialize, ToSchema)]
pub(super) struct EventFacts {
    /// The principal of the event, or of the event that caused it.
    #[serde(skip_serializing_if = "String::is_empty")]
    principal: String,
    /// The id of the tool of the event, or of the event that caused it.
    #[serde(skip_serializing_if = "String::is_empty")]
    tool: String,
    /// The status of a finished call, or `denied`.
    #[serde(skip_serializing_if = "str::is_empty")]
    status: &'static str,
}

/// Counts of finished calls and of denials.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct EventSummary {
    /// The start of the counted time.
    from: String,
    /// Its end.
    to: String,
    /// The length of a bucket in seconds.
    step_secs: u64,
    /// All matching events.
    events: u64,
    totals: CallTotals,
    /// In ascending time, without empty ones.
    buckets: Vec<TimeBucket>,
    /// The tools with most calls, at most 10.
    tools: Vec<CallGroup>,
    /// The principals with most calls, at most 10.
    principals: Vec<CallGroup>,
    /// The tools with the longest run times of 95 % of their calls, the longest first, at most 10.
    slowest: Vec<CallGroup>,
    /// Whether older events were not counted, because there are too many.
    partial: bool,
}

#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct CallTotals {
    /// Calls that succeeded.
    ok: u64,
    /// Calls that failed.
    failed: u64,
    /// Refused calls and other denials.
    denied: u64,
    /// Calls that stopped because they require an approval. They count neither as failed nor as
    /// denied.
    approval_required: u64,
    /// The run time in milliseconds that half of the calls did not exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    p50_ms: Option<u32>,
    /// The same for 95 %.
    #[serde(skip_serializing_if = "Option::is_none")]
    p95_ms: Option<u32>,
}

#[derive(Serialize, ToSchema)]
pub(super) struct TimeBucket {
    from: String,
    #[serde(flatten)]
    totals: CallTotals,
}

#[derive(Serialize, ToSchema)]
pub(super) struct CallGroup {
    /// The id of the tool, or the principal.
    name: String,
    #[serde(flatten)]
    totals: CallTotals,
}

/// Lists the events of the caller's tenant: the oldest first from `after` on, or the newest. With
/// conditions, only the events that match all of them. `*` in a condition matches any characters;
/// a time is RFC 3339, a day, an age such as `24h` or `7d`, or `now`.
#[utoipa::path(
    get,
    path = "/v1/events",
    operation_id = "listEvents",
    params(
        ("after" = inline(Option<Position>), Query, description = "Only events at greater positions. By default the newest `limit` events"),
        ("limit" = inline(Option<Limit>), Query, description = "The maximum number of events; 100 by default"),
        ("cursor" = inline(Option<Position>), Query, description = "The `cursor` of the page after the wanted one"),
        ("sort" = inline(Option<Sort>), Query, description = "`slowest`: the calls with the longest run times, the longest first, in one page"),
        EventConditions,
    ),
    responses(
        (status = 200, description = "A page of events", body = EventPage),
        (status = 400, description = "An unknown parameter, or an invalid condition", body = ErrorEnvelope),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn list(context: Context) -> Result<Response, Failure> {
    context.require(AuditRead)?;
    let after = context.parameter("after")?.map(|position: Position| position.0);
    let cursor = context.parameter("cursor")?.map(|position: Position| position.0);
    let limit = context.parameter("limit")?.unwrap_or(Limit::DEFAULT).size();
    let filter = filter(&context)?;
    let sort = context.parameter("sort")?.map(|sort: Sort| sort.0);
    let page = match (after, cursor) {
        (None, None) if sort == Some(EventSort::Slowest) => Page::Slowest,
        (Some(_), _) | (_, Some(_)) if sort.is_some() => {
            let reason = "`sort` cannot be combined with `cursor` or `after`";
            return Err(Failure::parameter("sort", reason));
        }
        (Some(_), Some(_)) => {
            return Err(Failure::parameter("cursor", "`cursor` and `after` cannot be combined"));
        }
        (Some(after), None) => Page::After(after),
        (None, before) => Page::Newest(before),
    };
    let tenant = context.caller.tenant.clone();
    let page = match filter {
        None if cursor.is_none() && sort.is_none() => {
            let wanted = EventQuery {
                tenant: Some(tenant.clone()),
                after,
                limit,
                newest: after.is_none(),
                ..EventQuery::default()
            };
            let logged = context.gateway.audit().read(wanted).await?;
            let next = logged.last().map_or(after.unwrap_or(0), |last| last.position);
            let events = logged.into_iter().map(|logged| entry(logged, None)).collect();
            EventPage { tenant: tenant.to_string(), events, next, cursor: None }
        }
        filter => {
            let filter = filter.unwrap_or_default();
            let search = context.gateway.audit().search().await;
            let found = search.find(Some(&tenant), &filter, page, limit).await?;
            let last = found.events.iter().map(|event| event.logged.position).max().unwrap_or(0);
            let events = found.events.into_iter().map(|found| {
                let FoundEvent { logged, principal, tool, status, .. } = found;
                entry(logged, Some(EventFacts { principal, tool, status }))
            });
            EventPage {
                tenant: tenant.to_string(),
                events: events.collect(),
                next: if after.is_some() { found.next } else { last },
                cursor: found.before.map(|before| before.to_string()),
            }
        }
    };
    Ok(respond::json(StatusCode::OK, &page))
}

/// Counts the calls that match, over time and by tool and principal, and the run times of calls.
#[utoipa::path(
    get,
    path = "/v1/events/summary",
    operation_id = "summarizeEvents",
    params(
        ("buckets" = inline(Option<Buckets>), Query, description = "The maximum number of time buckets; 60 by default"),
        EventConditions,
    ),
    responses(
        (status = 200, description = "The counts", body = EventSummary),
        (status = 400, description = "An unknown parameter, or an invalid condition", body = ErrorEnvelope),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn summary(context: Context) -> Result<Response, Failure> {
    context.require(AuditRead)?;
    let filter = filter(&context)?.unwrap_or_default();
    let buckets = context.parameter("buckets")?.unwrap_or(Buckets::DEFAULT).size();
    let search = context.gateway.audit().search().await;
    let now = context.gateway.now();
    let summary = search.summary(&context.caller.tenant, &filter, buckets, now).await?;
    Ok(respond::json(StatusCode::OK, &EventSummary::from(summary)))
}

/// Exports the events that match, the oldest first, in the format of another program, one per line.
/// The response is complete only if its last chunk arrives.
#[utoipa::path(
    get,
    path = "/v1/events/export",
    operation_id = "exportEvents",
    params(
        ("format" = inline(Option<ExportFormat>), Query, description = "`jsonl` by default: events with the hashes that check them. `csv` is a table for spreadsheets, with the facts by which events are searched"),
        EventConditions,
    ),
    responses(
        (status = 200, description = "The events", content((String = "application/x-ndjson"), (String = "text/csv"))),
        (status = 400, description = "An unknown parameter, or an invalid condition", body = ErrorEnvelope),
        (status = 403, description = "The scope `audit:read` is missing", body = ErrorEnvelope),
    )
)]
pub(super) async fn export(context: Context) -> Result<Response, Failure> {
    context.require(AuditRead)?;
    let filter = filter(&context)?.unwrap_or_default();
    let format =
        context.parameter("format")?.map_or(FileFormat::Jsonl, |value: ExportFormat| value.0);
    let name = format!(
        "record-{}.{}",
        context.gateway.now().format("%Y-%m-%d"),
        match format {
            FileFormat::Csv => "csv",
            FileFormat::Jsonl => "jsonl",
            FileFormat::Ocsf => "ocsf.jsonl",
            FileFormat::CloudEvents => "cloudevents.jsonl",
        }
    );
    let Context { gateway, caller, .. } = context;
    let export = Export { gateway, caller, filter, format, after: Some(0) };
    let body = Body::from_stream(stream::try_unfold(export, Export::next));
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    if let Ok(disposition) = HeaderValue::from_str(&format!("attachment; filename=\"{name}\"")) {
        headers.insert(header::CONTENT_DISPOSITION, disposition);
    }
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// An export in progress.
struct Export {
    gateway: Gateway,
    caller: Arc<Principal>,
    filter: EventFilter,
    format: FileFormat,
    /// `None` after the last page.
    after: Option<u64>,
}

impl Export {
    /// Writes the lines of the next page with any lines.
    async fn next(mut self) -> Result<Option<(Vec<u8>, Self)>, ExportError> {
        while let Some(after) = self.after {
            self.caller = self
                .gateway
                .authenticator()
                .renew(&self.caller)
                .await
                .ok()
                .filter(|caller| AuditRead.is_held_by(caller))
                .ok_or(ExportError)?;
            let search = self.gateway.audit().search().await;
            let (tenant, page) = (&self.caller.tenant, Page::After(after));
            let found = search.find(Some(tenant), &self.filter, page, MAX_PAGE).await;
            let found = found.map_err(|_| ExportError)?;
            self.after = found.more.then_some(found.next);
            let mut lines = Vec::new();
            match self.format.of_record() {
                None => {
                    if after == 0 {
                        csv::write_header(&mut lines);
                    }
                    csv::write(&found.events, &mut lines);
                }
                Some(format) => {
                    let stored = found.events.iter().map(|event| event.logged.stored());
                    let stored: Vec<StoredEvent> =
                        stored.collect::<Result<_, _>>().map_err(|_| ExportError)?;
                    export::write(format, &stored, &mut lines);
                }
            }
            if !lines.is_empty() {
                return Ok(Some((lines, self)));
            }
        }
        Ok(None)
    }
}

/// The export was cut off: the store cannot be read, or the caller may no longer read the record.
#[derive(Debug, thiserror::Error)]
#[error("the export was cut off")]
struct ExportError;

/// Parses the conditions of a request; `None` if it has no conditions.
fn filter(context: &Context) -> Result<Option<EventFilter>, Failure> {
    let now = context.gateway.now();
    let mut filter = EventFilter::default();
    let mut is_search = false;
    if let Some(text) = context.text("query") {
        is_search = true;
        filter
            .add_query(&text, now)
            .map_err(|error| Failure::parameter("query", &error.to_string()))?;
    }
    for name in CONDITIONS {
        let Some(value) = context.text(name) else { continue };
        is_search = true;
        filter
            .set(name, &value, now)
            .map_err(|error| Failure::parameter(name, &error.to_string()))?;
    }
    Ok(is_search.then_some(filter))
}

fn entry(logged: LoggedEvent, facts: Option<EventFacts>) -> RecordEntry {
    RecordEntry {
        position: logged.position,
        prev_hash: logged.link.prev.to_string(),
        hash: logged.link.hash.to_string(),
        event: logged.event,
        facts,
    }
}

impl From<Summary> for EventSummary {
    fn from(summary: Summary) -> Self {
        let groups = |groups: Vec<Group>| {
            groups
                .into_iter()
                .map(|group| CallGroup { name: group.name, totals: group.totals.into() })
                .collect()
        };
        let buckets = summary.buckets.into_iter();
        Self {
            from: time(summary.from),
            to: time(summary.to),
            step_secs: summary.step_secs,
            events: summary.events,
            totals: summary.totals.into(),
            buckets: buckets
                .map(|bucket| TimeBucket { from: time(bucket.from), totals: bucket.totals.into() })
                .collect(),
            tools: groups(summary.tools),
            principals: groups(summary.principals),
            slowest: groups(summary.slowest),
            partial: summary.is_partial,
        }
    }
}

impl From<Totals> for CallTotals {
    fn from(totals: Totals) -> Self {
        let Totals { ok, failed, denied, approval_required, p50_ms, p95_ms } = totals;
        Self { ok, failed, denied, approval_required, p50_ms, p95_ms }
    }
}

fn time(at: Timestamp) -> String {
    at.to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}
