//! Reads the event log page by page, so that a command needs little memory for a log of any length.

use serde::Deserialize;
use toolcrib_core::{
    event::{EventQuery, RunEvent},
    id::TenantId,
};

use crate::target::Target;

/// Page size for reading events.
pub(super) const PAGE: usize = 500;

/// The event log: of one tenant or all tenants in a store, or of the key's tenant on a server.
pub(super) struct Log {
    pub(super) target: Target,
    pub(super) tenant: Option<TenantId>,
}

/// An event with its position and, for a store, its tenant.
#[derive(Deserialize)]
pub(super) struct LoggedEvent {
    pub(super) position: u64,
    #[serde(skip)]
    pub(super) tenant: Option<TenantId>,
    pub(super) event: RunEvent,
}

/// The start of a page.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// The oldest events after this position.
    After(u64),
    /// This many of the newest events, in log order.
    Newest(usize),
}

impl Log {
    pub(super) async fn read(&self, start: Start) -> anyhow::Result<Vec<LoggedEvent>> {
        let (after, limit) = match start {
            Start::After(position) => (Some(position), PAGE),
            Start::Newest(limit) => (None, limit),
        };
        match &self.target {
            Target::Store(_, store) => {
                let (tenant, newest) = (self.tenant.clone(), after.is_none());
                let query = EventQuery { tenant, after, limit, newest, ..EventQuery::default() };
                let events = store.events().read(query).await?.into_iter();
                Ok(events
                    .map(|it| LoggedEvent {
                        position: it.position,
                        tenant: Some(it.tenant),
                        event: it.event,
                    })
                    .collect())
            }
            Target::Server(client) => {
                let (limit, after) = (limit.to_string(), after.map(|after| after.to_string()));
                let after = after.as_deref().map(|after| ("after", after));
                let query: Vec<_> = after.into_iter().chain([("limit", limit.as_str())]).collect();
                client.get_member(&["v1", "events"], &query, "events").await
            }
        }
    }

    /// Passes all events after `position` to `each`, page by page. Returns the last position.
    pub(super) async fn pages(
        &self,
        mut position: u64,
        each: impl Fn(&[LoggedEvent]) -> anyhow::Result<()>,
    ) -> anyhow::Result<u64> {
        loop {
            let page = self.read(Start::After(position)).await?;
            each(&page)?;
            position = page.last().map_or(position, |logged| logged.position);
            if page.len() < PAGE {
                return Ok(position);
            }
        }
    }
}
