//! Reads the event log page by page, so that a command needs little memory for a log of any length.

use std::sync::OnceLock;

use anyhow::Context as _;
use serde::Deserialize;
use toolcrib_core::{
    event::{self, EventFilter, EventQuery, RunEvent},
    id::TenantId,
    store::Storage,
};
use toolcrib_gateway::audit::search::{EventSearch, FoundPage, Page};

use crate::{args::FilterArgs, failure::usage, target::Target};

/// Page size for reading events.
pub(super) const PAGE: usize = 500;

/// The event log: of one tenant or all tenants in a store, or of the key's tenant on a server.
pub(super) struct Log {
    pub(super) target: Target,
    pub(super) tenant: Option<TenantId>,
    pub(super) conditions: Conditions,
    /// Keeps the newest events in memory between two pages.
    search: OnceLock<EventSearch>,
}

/// Which events to show.
#[derive(Default)]
pub(super) struct Conditions {
    pub(super) filter: EventFilter,
    /// The same as parameters of a server.
    pub(super) parameters: Vec<(&'static str, String)>,
}

/// An event and, for a store, its tenant.
#[derive(Deserialize)]
pub(super) struct LoggedEvent {
    #[serde(skip)]
    pub(super) tenant: Option<TenantId>,
    pub(super) event: RunEvent,
}

/// Events in ascending position.
#[derive(Deserialize)]
pub(super) struct Events {
    pub(super) events: Vec<LoggedEvent>,
    /// Where to continue; everything up to here was read.
    pub(super) next: u64,
}

/// The start of a page.
#[derive(Clone, Copy)]
pub(super) enum Start {
    /// The oldest events after this position.
    After(u64),
    /// This many of the newest events, in log order.
    Newest(usize),
}

impl Conditions {
    /// Reads the conditions of a command line.
    ///
    /// # Errors
    /// An invalid condition.
    pub(super) fn new(args: &FilterArgs) -> anyhow::Result<Self> {
        let filter = args.filter().map_err(|problem| usage(problem.to_string()))?;
        let parameters = args.parameters().into_iter();
        let parameters = parameters.map(|(name, value)| (name, value.to_owned())).collect();
        Ok(Self { filter, parameters })
    }
}

impl Log {
    pub(super) fn new(target: Target, tenant: Option<TenantId>, conditions: Conditions) -> Self {
        Self { target, tenant, conditions, search: OnceLock::new() }
    }

    /// Finds a page of matching events in `store`, the target of this log.
    pub(super) async fn find(
        &self,
        store: &dyn Storage,
        page: Page,
        limit: usize,
    ) -> anyhow::Result<FoundPage> {
        let search = self.search.get_or_init(|| EventSearch::new(store));
        Ok(search.find(self.tenant.as_ref(), &self.conditions.filter, page, limit).await?)
    }

    pub(super) async fn read(&self, start: Start) -> anyhow::Result<Events> {
        let (after, limit) = match start {
            Start::After(position) => (Some(position), PAGE),
            Start::Newest(limit) => (None, limit),
        };
        match &self.target {
            Target::Store(_, store) if self.conditions.filter.is_empty() => {
                let (tenant, newest) = (self.tenant.clone(), after.is_none());
                let query = EventQuery { tenant, after, limit, newest, ..EventQuery::default() };
                Ok(Events::new(store.events().read(query).await?, after.unwrap_or(0)))
            }
            Target::Store(_, store) => {
                let page = after.map_or(Page::Newest(None), Page::After);
                let found = self.find(&**store, page, limit).await?;
                let events = found.events.into_iter().map(|event| event.logged).collect();
                Ok(Events::new(events, found.next))
            }
            Target::Server(client) => {
                let (limit, after) = (limit.to_string(), after.map(|after| after.to_string()));
                let after = after.as_deref().map(|after| ("after", after));
                let parameters = self.conditions.parameters.iter();
                let query: Vec<_> = after
                    .into_iter()
                    .chain([("limit", limit.as_str())])
                    .chain(parameters.map(|(name, value)| (*name, value.as_str())))
                    .collect();
                let page = client.get(&["v1", "events"], &query).await?;
                serde_json::from_value(page)
                    .context("the server returned a response without events")
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
            each(&page.events)?;
            if page.next <= position {
                return Ok(position);
            }
            position = page.next;
        }
    }
}

impl Events {
    /// `next` is where to continue if `events` is empty.
    fn new(events: Vec<event::LoggedEvent>, next: u64) -> Self {
        let next = events.last().map_or(next, |last| last.position.max(next));
        let events = events
            .into_iter()
            .map(|logged| LoggedEvent { tenant: Some(logged.tenant), event: logged.event });
        Self { events: events.collect(), next }
    }
}
