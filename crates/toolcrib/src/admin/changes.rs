//! `GET /v1/changes`: one stream of all changes after which a page of the caller must refresh.
//!
//! Invariant (I-9): an event is sent only for a change of data that the caller itself can read: its own
//! list of tools, the approvals that are visible to it, and the record of its tenant with
//! `audit:read`.

use std::{sync::Arc, time::Duration};

use axum::response::{Response, sse::Event};
use futures_util::stream;
use http::StatusCode;
use serde_json::json;
use tokio::{sync::watch, time::interval};
use toolcrib_config::scopes::RouteScope::AuditRead;
use toolcrib_core::{
    catalog::{Body, Generation},
    event::EventQuery,
    principal::Principal,
};
use toolcrib_gateway::{Gateway, approvals::ApprovalListener};

use crate::{
    respond,
    v1::{
        error::{ErrorEnvelope, Failure},
        list,
        request::Context,
    },
};

/// How often the record and the caller's list are compared with the last ones.
const LOOK: Duration = Duration::from_secs(1);

/// The state of one stream: the data that it has sent.
struct Watch {
    gateway: Gateway,
    caller: Arc<Principal>,
    approvals: ApprovalListener,
    lists: watch::Receiver<Generation>,
    callers: watch::Receiver<u64>,
    /// The last list of the caller.
    list: Arc<Body>,
    /// Whether the list may have changed since then.
    is_stale: bool,
    /// The last position in the record of the tenant.
    position: u64,
    ready: Vec<Event>,
    tick: tokio::time::Interval,
}

/// Streams changes as server-sent events: `catalog` when the caller's list of tools has changed,
/// `approval` with each new or changed approval that is visible to the caller, and, with the scope
/// `audit:read`, `record` with the last position in the record of the tenant. The stream ends when
/// the caller's credentials become invalid.
#[utoipa::path(
    get,
    path = "/v1/changes",
    operation_id = "watchChanges",
    responses(
        (status = 200, description = "A stream of events", content_type = "text/event-stream", body = String),
        (status = 429, description = "The limit on open streams is reached", body = ErrorEnvelope),
    )
)]
pub(super) async fn watch(context: Context) -> Result<Response, Failure> {
    let Context { gateway, caller, .. } = context;
    let approvals = gateway.approvals().listen(&caller).await.map_err(|too_many| {
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "rate_limited", too_many, None)
    })?;
    let mut watch = Watch {
        // Subscribes before reading, so that no change is missed.
        lists: gateway.supply().changes(),
        callers: gateway.authenticator().changes(),
        list: list::list_of(&gateway, &caller),
        is_stale: false,
        position: 0,
        ready: Vec::new(),
        tick: interval(LOOK),
        gateway,
        caller,
        approvals,
    };
    watch.position = watch.last_position().await.unwrap_or_default();
    Ok(respond::endless_event_stream(stream::unfold(watch, async |mut watch| {
        let event = watch.next().await?;
        Some((event, watch))
    })))
}

impl Watch {
    /// The next event; `None` when the gateway closes or the credentials are invalid.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop() {
                return Some(event);
            }
            tokio::select! {
                () = self.gateway.until_closed() => return None,
                found = self.approvals.next() => {
                    let approval = |value: serde_json::Value| named("approval", &value);
                    self.ready = found?.into_iter().rev().map(approval).collect();
                }
                changed = self.lists.changed() => {
                    changed.ok()?;
                    self.is_stale = true;
                }
                changed = self.callers.changed() => {
                    changed.ok()?;
                    self.is_stale = true;
                }
                _ = self.tick.tick() => self.look().await?,
            }
        }
    }

    /// Adds events for changes of the caller's list and record; `None` if the caller's credentials
    /// have become invalid.
    async fn look(&mut self) -> Option<()> {
        self.caller = self.gateway.authenticator().renew(&self.caller).await.ok()?;
        if std::mem::take(&mut self.is_stale) {
            let list = list::list_of(&self.gateway, &self.caller);
            if list.etag != self.list.etag {
                self.list = list;
                self.ready.push(named("catalog", &json!({})));
            }
        }
        if let Some(position) = self.last_position().await
            && position != self.position
        {
            self.position = position;
            self.ready.push(named("record", &json!({ "position": position })));
        }
        Some(())
    }

    /// The last position of the tenant's record; `None` without access to it, and if the store does
    /// not answer.
    async fn last_position(&self) -> Option<u64> {
        if !AuditRead.is_held_by(&self.caller) {
            return None;
        }
        let tenant = Some(self.caller.tenant.clone());
        let last = EventQuery { tenant, limit: 1, newest: true, ..EventQuery::default() };
        let found = self.gateway.audit().read(last).await.ok()?;
        Some(found.last().map_or(0, |event| event.position))
    }
}

fn named(name: &str, data: &serde_json::Value) -> Event {
    Event::default().event(name).data(data.to_string())
}
