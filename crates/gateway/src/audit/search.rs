//! Searches of the record by time, principal, tool, source, type, status, run and ids.
//!
//! An index of columns finds the positions (`index`); the events themselves are read from the log.
//! It is derived from the log, and only searches depend on it: verification and exports without
//! conditions read the log.

mod facts;
mod index;
mod matcher;
mod segment;
mod summary;

use std::{
    cmp::Reverse,
    collections::{HashMap, HashSet},
};

use toolcrib_core::{
    event::{Condition, EventFilter, EventLog, EventQuery, Fact, LoggedEvent, Term},
    id::TenantId,
    store::{Storage, StoreError},
};

pub use self::summary::{Bucket, Group, MAX_BUCKETS, Summary, Totals};
use self::{
    facts::STATUSES,
    index::{Flow, Index, Order, Row, Visitor},
    matcher::Scope,
    segment::{Head, segment_of},
    summary::SummaryBuilder,
};

/// The most events of one page.
pub const MAX_PAGE: usize = 1_000;
/// Full segments that one background step stores. A segment takes about 50 ms.
const MOST_AT_ONCE: u64 = 4;
/// The most events with a wanted id that a summary counts.
const MOST_OF_IDS: usize = 20_000;
/// How often one search may read a page of events without a result.
const MAX_ROUNDS: usize = 32;

/// Searches the record of a store.
pub struct EventSearch {
    index: Index,
    log: std::sync::Arc<dyn EventLog>,
}

/// Selects a page of the matching events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The newest ones, before this position if there is one.
    Newest(Option<u64>),
    /// The oldest ones after this position.
    After(u64),
    /// The calls that ran longest. It is the only page.
    Slowest,
}

/// An event in a search result.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundEvent {
    /// The event. If a tenant is searched, its position is that in the log of the tenant.
    pub logged: LoggedEvent,
    /// Its principal, or that of its cause; may be empty.
    pub principal: String,
    /// The id of its tool, or of that of its cause; may be empty.
    pub tool: String,
    /// The status of a completed call; `denied` for a denial; otherwise empty.
    pub status: &'static str,
    /// The run time of a completed call, in milliseconds.
    pub run_time: Option<u32>,
}

/// A page of matching events.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct FoundPage {
    /// In ascending position; with [`Page::Slowest`] the longest run time first.
    pub events: Vec<FoundEvent>,
    /// With [`Page::Newest`]: the end of the previous page; `None` at the start of the record. The
    /// search may stop before it has found as many events as it may return.
    pub before: Option<u64>,
    /// With [`Page::After`]: the start of the next page. Everything up to here was searched.
    pub next: u64,
    /// With [`Page::After`]: whether there may be more. With [`Page::Slowest`]: whether the search
    /// was incomplete, because there are too many events.
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
            Page::Slowest => return self.slowest(tenant, filter, first.segment, limit).await,
        };
        let of_run = self.positions_of_run(tenant, filter).await?;
        after = after.max(of_run.start);
        if order == Order::NewestFirst {
            // Oldest first, the next page starts here, and the run may continue.
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
            // Rows that only share the start of the wanted id are left out, so there may be room
            // for more.
            let again = visited.more && is_full && events.len() < limit && rounds < MAX_ROUNDS;
            match (order, visited.position.filter(|_| again)) {
                (Order::NewestFirst, Some(position)) => before = position,
                (Order::OldestFirst, Some(position)) => after = position,
                (_, None) => {
                    events.sort_by_key(|event| event.logged.position);
                    let newest_first = order == Order::NewestFirst;
                    return Ok(FoundPage {
                        events,
                        before: visited.position.filter(|_| visited.more && newest_first),
                        next: visited.position.map_or(after, |position| position.max(after)),
                        more: visited.more,
                    });
                }
            }
        }
    }

    /// Finds the `limit` matching calls with the longest run times.
    async fn slowest(
        &self,
        tenant: Option<&TenantId>,
        filter: &EventFilter,
        first: u64,
        limit: usize,
    ) -> Result<FoundPage, StoreError> {
        let of_run = self.positions_of_run(tenant, filter).await?;
        let scope = Scope {
            tenant: tenant.cloned(),
            filter: filter.clone(),
            after: of_run.start,
            before: of_run.end,
        };
        let mut longest = LongestCalls { most: limit, hits: Vec::new(), least: 0 };
        let order = Order::NewestFirst;
        let more = if scope.needs_ids() {
            let (wanted, more) = self.decided_by_ids(&scope, first).await?;
            let mut selected = RowSelector { wanted, visitor: longest };
            self.index.visit(&scope, order, first, &mut selected).await?;
            longest = selected.visitor;
            more
        } else {
            self.index.visit(&scope, order, first, &mut longest).await?.more
        };
        longest.cut();
        let mut events = self.read(&scope, longest.hits).await?;
        events.sort_by_key(|event| Reverse((event.run_time, event.logged.position)));
        Ok(FoundPage { events, more, ..FoundPage::default() })
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
        // The parts of the requested time, even before the first event.
        let from = filter.from.unwrap_or(own.at);
        filter.from = Some(from.max(own.at));
        let to = *filter.to.get_or_insert(now + chrono::TimeDelta::seconds(1));
        let of_run = self.positions_of_run(Some(tenant), &filter).await?;
        let mut counting = SummaryBuilder::new(from, to, buckets);
        let scope = Scope {
            tenant: Some(tenant.clone()),
            filter,
            // Events removed by retention are not counted, although their segment may remain.
            after: own.position.saturating_sub(1).max(of_run.start),
            before: of_run.end,
        };
        let order = Order::NewestFirst;
        if !scope.needs_ids() {
            let visited = self.index.visit(&scope, order, oldest.segment, &mut counting).await?;
            return Ok(counting.finish(visited.more));
        }
        let (wanted, more) = self.decided_by_ids(&scope, oldest.segment).await?;
        let mut counting = RowSelector { wanted, visitor: counting };
        self.index.visit(&scope, order, oldest.segment, &mut counting).await?;
        Ok(counting.visitor.finish(more))
    }

    /// Finds the positions of the events of `scope` that match by their ids: different ids may
    /// share a key of the index, so the events are read. Also returns whether there may be more.
    async fn decided_by_ids(
        &self,
        scope: &Scope,
        first: u64,
    ) -> Result<(HashSet<u64>, bool), StoreError> {
        let mut hits = UndecidedRows(Hits { rows: Vec::new(), most: MOST_OF_IDS });
        let visited = self.index.visit(scope, Order::NewestFirst, first, &mut hits).await?;
        let (mut wanted, mut hits) = (HashSet::new(), hits.0);
        while !hits.rows.is_empty() {
            let page = hits.rows.split_off(hits.rows.len().saturating_sub(MAX_PAGE));
            let found = self.read(scope, page).await?;
            wanted.extend(found.into_iter().map(|event| event.logged.position));
        }
        Ok((wanted, visited.more))
    }

    /// Stores missing parts of the index slowly: call it every few seconds.
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

    /// The positions before the first and after the last event of the run of `filter`, so that only
    /// the segments between them are read. The log has an index of runs.
    async fn positions_of_run(
        &self,
        tenant: Option<&TenantId>,
        filter: &EventFilter,
    ) -> Result<std::ops::Range<u64>, StoreError> {
        let Some(run) = filter.run() else { return Ok(0..u64::MAX) };
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
        let end = |events: &[LoggedEvent]| events.first().map(|event| event.position);
        Ok(match (end(&first), end(&last)) {
            (Some(first), Some(last)) => first.saturating_sub(1)..last.saturating_add(1),
            _ => 0..0,
        })
    }

    /// The oldest event, of the whole log or of a tenant.
    async fn first(&self, tenant: Option<&TenantId>) -> Result<Option<OldestEvent>, StoreError> {
        let query = EventQuery {
            tenant: tenant.cloned(),
            after: Some(0),
            limit: 1,
            ..EventQuery::default()
        };
        let first = self.log.read(query).await?.into_iter().next();
        Ok(first.map(|logged| OldestEvent {
            position: logged.position,
            segment: segment_of(logged.position),
            at: logged.event.timestamp,
        }))
    }

    /// Reads the events of `rows` from the log. Leaves out events that were removed, and events
    /// whose ids only share their keys with the wanted ones.
    async fn read(&self, scope: &Scope, rows: Vec<Hit>) -> Result<Vec<FoundEvent>, StoreError> {
        let positions: Vec<u64> = rows.iter().map(|hit| hit.global).collect();
        if positions.is_empty() {
            return Ok(Vec::new());
        }
        let logged = self.log.at(&positions).await?;
        let mut rows: HashMap<u64, Hit> = rows.into_iter().map(|hit| (hit.global, hit)).collect();
        let found = logged.into_iter().filter_map(|mut logged| {
            let hit = rows.remove(&logged.position)?;
            logged.position = hit.position;
            (logged.link.position == hit.position || scope.tenant.is_none()).then_some(())?;
            let terms = scope.filter.terms.iter().zip(0_u32..);
            let mut undecided = terms.filter(|(_, bit)| hit.undecided & 1 << bit != 0);
            undecided.all(|(term, _)| is_fulfilled_by_ids(term, &logged)).then_some(())?;
            let Hit { principal, tool, status, run_time, .. } = hit;
            Some(FoundEvent { logged, principal, tool, status, run_time })
        });
        Ok(found.collect())
    }
}

/// Whether the ids of an event fulfil one of the conditions of a term whose other conditions
/// failed.
fn is_fulfilled_by_ids(term: &Term, logged: &LoggedEvent) -> bool {
    term.0.iter().any(|Condition { fact, is_negated }| {
        let found = match fact {
            Fact::Run(run) => logged.event.run_id.as_str() == run,
            Fact::Id(start) => has_id(logged, start),
            Fact::Text(word) => word.id.as_deref().is_some_and(|start| has_id(logged, start)),
            Fact::Principal(_)
            | Fact::Tool(_)
            | Fact::Source(_)
            | Fact::Kind(_)
            | Fact::Type(_)
            | Fact::Status(_)
            | Fact::Took(_) => return false,
        };
        found != *is_negated
    })
}

struct OldestEvent {
    position: u64,
    segment: u64,
    at: toolcrib_core::clock::Timestamp,
}

/// A matching row.
struct Hit {
    position: u64,
    global: u64,
    principal: String,
    tool: String,
    status: &'static str,
    run_time: Option<u32>,
    undecided: u32,
}

struct Hits {
    rows: Vec<Hit>,
    most: usize,
}

/// The calls that ran longest.
struct LongestCalls {
    most: usize,
    hits: Vec<Hit>,
    /// Calls with a shorter run time are not among them.
    least: u32,
}

impl LongestCalls {
    /// Keeps only the longest ones, in order.
    fn cut(&mut self) {
        self.hits.sort_by_key(|hit| Reverse((hit.run_time, hit.global)));
        self.hits.truncate(self.most);
        if self.hits.len() == self.most {
            self.least = self.hits.last().and_then(|hit| hit.run_time).unwrap_or_default();
        }
    }
}

impl Visitor for LongestCalls {
    fn row(&mut self, row: &Row<'_>) -> Flow {
        if row.run_time().is_some_and(|time| time >= self.least) {
            self.hits.push(Hit::of(row));
            if self.hits.len() >= self.most * 2 {
                self.cut();
            }
        }
        Flow::Continue
    }
}

impl Hit {
    fn of(row: &Row<'_>) -> Self {
        let (head, columns) = (row.head, row.columns);
        let text = |list: &[String], column: &[u16]| {
            let place = column.get(row.row).copied().map(usize::from);
            place.and_then(|place| list.get(place)).cloned().unwrap_or_default()
        };
        let status =
            columns.status.get(row.row).and_then(|status| STATUSES.get(usize::from(*status)));
        Self {
            position: row.position,
            global: row.global,
            principal: text(&head.principals, &columns.principal),
            tool: text(&head.tools, &columns.tool),
            status: status.copied().unwrap_or_default(),
            run_time: row.run_time(),
            undecided: row.undecided,
        }
    }
}

impl Visitor for Hits {
    fn row(&mut self, row: &Row<'_>) -> Flow {
        self.rows.push(Hit::of(row));
        if self.rows.len() < self.most { Flow::Continue } else { Flow::Stop }
    }
}

/// Collects only the rows that depend on their ids.
struct UndecidedRows(Hits);

impl Visitor for UndecidedRows {
    fn row(&mut self, row: &Row<'_>) -> Flow {
        if row.undecided == 0 { Flow::Continue } else { self.0.row(row) }
    }
}

/// Passes on the decided rows, and of the others those with selected positions.
struct RowSelector<V> {
    wanted: HashSet<u64>,
    visitor: V,
}

impl<V: Visitor> Visitor for RowSelector<V> {
    fn segment(&mut self, head: &Head) {
        self.visitor.segment(head);
    }

    fn row(&mut self, row: &Row<'_>) -> Flow {
        match row.undecided == 0 || self.wanted.contains(&row.position) {
            true => self.visitor.row(row),
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
    let ids = members.iter().filter_map(|member| payload.get("payload")?.get(member)?.as_str());
    ids.into_iter().any(begins)
}
