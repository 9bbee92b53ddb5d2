//! Searches of the record by time, principal, tool, source, type, status, run and ids.
//!
//! An index of columns finds the positions (`index`); the events themselves are read from the log.
//! It is derived from the log, so nothing depends on it but the speed and the result of searches:
//! verification and exports without conditions read the log.

mod facts;
mod index;
mod matcher;
mod segment;
mod summary;

use std::collections::HashSet;

use toolcrib_core::{
    event::{EventFilter, EventLog, EventQuery, LoggedEvent},
    id::TenantId,
    store::{Storage, StoreError},
};

pub use self::summary::{Bucket, Group, MAX_BUCKETS, Summary, Totals};
use self::{
    facts::STATUSES,
    index::{Flow, Index, Order, Row, Visitor},
    matcher::Scope,
    segment::{Head, segment_of},
    summary::Counting,
};

/// The most events of one page.
pub const MAX_PAGE: usize = 1_000;
/// Full segments that one step in the background stores. A segment takes about 50 ms.
const MOST_AT_ONCE: u64 = 4;
/// The most events with a wanted id that a summary counts.
const MOST_OF_IDS: usize = 20_000;
/// How often one search reads a page of events in vain.
const MAX_ROUNDS: usize = 32;

/// Searches the record of a store.
pub struct EventSearch {
    index: Index,
    log: std::sync::Arc<dyn EventLog>,
}

/// Which page of the matching events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The newest ones, before this position if there is one.
    Newest(Option<u64>),
    /// The oldest ones after this position.
    After(u64),
}

/// An event that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEvent {
    /// The event. Its position is that in the log of the tenant if a tenant is searched.
    pub logged: LoggedEvent,
    /// Its principal, or that of its cause; empty when there is none.
    pub principal: String,
    /// The id of its tool, or of that of its cause; empty when there is none.
    pub tool: String,
    /// The status of a call that has returned; `denied` for a denial; else empty.
    pub status: &'static str,
}

/// A page of matching events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundPage {
    /// In ascending position.
    pub events: Vec<FoundEvent>,
    /// With [`Page::Newest`]: where the page before this one ends; `None` at the beginning of the
    /// record. The search may stop before it has found as many events as it may return.
    pub before: Option<u64>,
    /// With [`Page::After`]: where the next page begins. Everything up to here was searched.
    pub next: u64,
    /// With [`Page::After`]: whether there may be more.
    pub more: bool,
}

impl EventSearch {
    /// Creates a search of the record of `storage`.
    pub fn new(storage: &dyn Storage) -> Self {
        Self { index: Index::new(storage), log: storage.events() }
    }

    /// Returns a page of the events of `tenant`, or of all tenants, that match `filter`: at most
    /// `limit`, or [`MAX_PAGE`].
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn find(
        &self,
        tenant: Option<&TenantId>,
        filter: &EventFilter,
        page: Page,
        limit: usize,
    ) -> Result<FoundPage, StoreError> {
        let limit = limit.clamp(1, MAX_PAGE);
        let Some(first) = self.first(None).await? else {
            let next = if let Page::After(after) = page { after } else { 0 };
            return Ok(FoundPage { next, ..FoundPage::default() });
        };
        let (order, mut after, mut before) = match page {
            Page::Newest(before) => (Order::NewestFirst, 0, before.unwrap_or(u64::MAX)),
            Page::After(after) => (Order::OldestFirst, after, u64::MAX),
        };
        let of_run = self.positions_of_run(tenant, filter).await?;
        after = after.max(of_run.start);
        if order == Order::NewestFirst {
            // Oldest first, the next page begins behind this one, and the run may go on.
            before = before.min(of_run.end);
        }
        let mut events: Vec<FoundEvent> = Vec::new();
        let mut rounds = 0;
        loop {
            let scope = Scope { tenant: tenant.cloned(), filter: filter.clone(), after, before };
            let most = limit.saturating_sub(events.len());
            let mut hits = Hits { rows: Vec::new(), most };
            let visited = self.index.visit(&scope, order, first.segment, &mut hits).await?;
            let is_full = hits.rows.len() >= most;
            events.extend(self.read(&scope, hits.rows).await?);
            rounds += 1;
            // Rows that only begin like the wanted id are left out, so there may be room for more.
            let again = visited.more && is_full && events.len() < limit && rounds < MAX_ROUNDS;
            match (order, visited.position.filter(|_| again)) {
                (Order::NewestFirst, Some(position)) => before = position,
                (Order::OldestFirst, Some(position)) => after = position,
                (_, None) => {
                    events.sort_by_key(|it| it.logged.position);
                    let newest_first = order == Order::NewestFirst;
                    return Ok(FoundPage {
                        events,
                        before: visited.position.filter(|_| visited.more && newest_first),
                        next: visited.position.map_or(after, |it| it.max(after)),
                        more: visited.more,
                    });
                }
            }
        }
    }

    /// Counts the calls of `tenant` that match `filter`, over time and by tool and principal.
    /// `buckets` is the most parts of time.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn summary(
        &self,
        tenant: &TenantId,
        filter: &EventFilter,
        buckets: usize,
        now: toolcrib_core::clock::Timestamp,
    ) -> Result<Summary, StoreError> {
        let own = self.first(Some(tenant)).await?;
        let oldest = self.first(None).await?;
        let (Some(own), Some(oldest)) = (own, oldest) else {
            return Ok(Summary::empty(filter, buckets, now));
        };
        let mut filter = filter.clone();
        // The parts of the time that was asked for, also before the first event.
        let from = filter.from.unwrap_or(own.at);
        filter.from = Some(from.max(own.at));
        let to = *filter.to.get_or_insert(now + chrono::TimeDelta::seconds(1));
        let of_run = self.positions_of_run(Some(tenant), &filter).await?;
        let mut counting = Counting::new(from, to, buckets);
        let scope = Scope {
            tenant: Some(tenant.clone()),
            filter,
            // Events that retention has removed are not counted, although their segment may remain.
            after: own.position.saturating_sub(1).max(of_run.start),
            before: of_run.end,
        };
        let order = Order::NewestFirst;
        if !scope.needs_ids() {
            let visited = self.index.visit(&scope, order, oldest.segment, &mut counting).await?;
            return Ok(counting.finish(visited.more));
        }
        // The index has keys of ids, which others can share: the events themselves have the ids.
        let mut hits = Hits { rows: Vec::new(), most: MOST_OF_IDS };
        let visited = self.index.visit(&scope, order, oldest.segment, &mut hits).await?;
        let mut wanted = HashSet::new();
        while !hits.rows.is_empty() {
            let page = hits.rows.split_off(hits.rows.len().saturating_sub(MAX_PAGE));
            let found = self.read(&scope, page).await?;
            wanted.extend(found.into_iter().map(|it| it.logged.position));
        }
        let mut counting = Selected { wanted, counting };
        self.index.visit(&scope, order, oldest.segment, &mut counting).await?;
        Ok(counting.counting.finish(visited.more))
    }

    /// Stores the parts of the index that are missing in the store, slowly: call it every few seconds.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn maintain(&self) -> Result<(), StoreError> {
        if !self.index.maintain(MOST_AT_ONCE).await? {
            return Ok(());
        }
        match self.first(None).await? {
            Some(first) => self.index.forget_before(first.segment).await,
            None => Ok(()),
        }
    }

    /// Returns the positions before the first and after the last event of the run of `filter`, so that
    /// only the segments between them are read. The log has an index of runs.
    async fn positions_of_run(
        &self,
        tenant: Option<&TenantId>,
        filter: &EventFilter,
    ) -> Result<std::ops::Range<u64>, StoreError> {
        let Some(run) = &filter.run else { return Ok(0..u64::MAX) };
        let Ok(run) = run.parse() else { return Ok(0..0) };
        let query = EventQuery {
            tenant: tenant.cloned(),
            run: Some(run),
            after: Some(0),
            limit: 1,
            ..EventQuery::default()
        };
        let first = self.log.read(query.clone()).await?;
        let last = self.log.read(EventQuery { newest: true, ..query }).await?;
        let end = |events: &[LoggedEvent]| events.first().map(|it| it.position);
        Ok(match (end(&first), end(&last)) {
            (Some(first), Some(last)) => first.saturating_sub(1)..last.saturating_add(1),
            _ => 0..0,
        })
    }

    /// Returns the oldest event, of the whole log or of a tenant.
    async fn first(&self, tenant: Option<&TenantId>) -> Result<Option<First>, StoreError> {
        let query = EventQuery {
            tenant: tenant.cloned(),
            after: Some(0),
            limit: 1,
            ..EventQuery::default()
        };
        let first = self.log.read(query).await?.into_iter().next();
        Ok(first.map(|it| First {
            position: it.position,
            segment: segment_of(it.position),
            at: it.event.timestamp,
        }))
    }

    /// Reads the events of `rows` from the log. Without those that no longer exist, and those whose
    /// ids differ from the wanted ones after their first 8 bytes.
    async fn read(&self, scope: &Scope, rows: Vec<Hit>) -> Result<Vec<FoundEvent>, StoreError> {
        let positions: Vec<u64> = rows.iter().map(|it| it.global).collect();
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let logged = self.log.at(&positions).await?;
        let mut rows: std::collections::HashMap<u64, Hit> =
            rows.into_iter().map(|it| (it.global, it)).collect();
        let found = logged.into_iter().filter_map(|mut logged| {
            let hit = rows.remove(&logged.position)?;
            logged.position = hit.position;
            (logged.link.position == hit.position || scope.tenant.is_none()).then_some(())?;
            let run = &scope.filter.run;
            run.as_ref().is_none_or(|run| logged.event.run_id.as_str() == run).then_some(())?;
            let start = scope.filter.id.as_deref();
            start.is_none_or(|start| has_id(&logged, start)).then_some(())?;
            let Hit { principal, tool, status, .. } = hit;
            Some(FoundEvent { logged, principal, tool, status })
        });
        Ok(found.collect())
    }
}

/// The oldest event.
struct First {
    position: u64,
    segment: u64,
    at: toolcrib_core::clock::Timestamp,
}

/// A row that was found.
struct Hit {
    position: u64,
    global: u64,
    principal: String,
    tool: String,
    status: &'static str,
}

struct Hits {
    rows: Vec<Hit>,
    most: usize,
}

impl Visitor for Hits {
    fn row(&mut self, row: &Row<'_>) -> Flow {
        let (head, columns) = (row.head, row.columns);
        let text = |list: &[String], column: &[u16]| {
            let place = column.get(row.row).copied().map(usize::from);
            place.and_then(|place| list.get(place)).cloned().unwrap_or_default()
        };
        let status = columns.status.get(row.row).and_then(|it| STATUSES.get(usize::from(*it)));
        self.rows.push(Hit {
            position: row.position,
            global: row.global,
            principal: text(&head.principals, &columns.principal),
            tool: text(&head.tools, &columns.tool),
            status: status.copied().unwrap_or_default(),
        });
        if self.rows.len() < self.most { Flow::Continue } else { Flow::Stop }
    }
}

/// Counts the rows with some positions.
struct Selected {
    wanted: HashSet<u64>,
    counting: Counting,
}

impl Visitor for Selected {
    fn segment(&mut self, head: &Head) {
        self.counting.segment(head);
    }

    fn row(&mut self, row: &Row<'_>) -> Flow {
        match self.wanted.contains(&row.position) {
            true => self.counting.row(row),
            false => Flow::Continue,
        }
    }
}

/// Whether an id of the event starts with `start`, hyphens aside: its own, or that of its run, call,
/// session or approval.
fn has_id(logged: &LoggedEvent, start: &str) -> bool {
    let event = &logged.event;
    let plain = |id: &str| id.replace('-', "");
    let begins = |id: &str| id.starts_with(start) || plain(id).starts_with(&plain(start));
    if begins(event.event_id.as_str()) || begins(event.run_id.as_str()) {
        return true;
    }
    let Ok(payload) = serde_json::to_value(&event.body) else { return false };
    let members = ["callId", "sessionId", "gateId", "key"];
    let ids = members.iter().filter_map(|it| payload.get("payload")?.get(it)?.as_str());
    ids.into_iter().any(begins)
}
