//! The index of the event log: stored segments, and the newest events in memory.
//!
//! Invariants:
//! - The index is derived: a missing or damaged segment is computed again from the log.
//! - Appends never wait for it. Searches update it, and a slow background task.

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use quick_cache::{Weighter, sync::Cache};
use toolcrib_core::{
    event::{EventLog, EventQuery},
    record::{RecordStore, StoredEvent, StoredQuery},
    store::{SegmentPart, SegmentStore, Storage, StoreError},
};

use super::{
    facts::{Causes, Facts, RETURNED},
    matcher::{MatchedRow, Matcher, Scope},
    segment::{Builder, Columns, Head, Ids, NONE, SIZE, segment_of},
};

/// Events per read of the log.
const PAGE: usize = 1_000;
/// Runs that are read for the causes of the events of one page.
const MOST_RUNS: usize = 32;
/// Segments per batch.
const BATCH: u64 = 32;
/// Most segments whose columns one search reads: 8 million events.
const MAX_SEGMENTS: usize = 512;
/// Most segments in memory that the store could not write. More are an error.
const MAX_HELD: usize = 64;
/// Size of the segments in memory between searches, in bytes.
const CACHE: u64 = 64 * 1024 * 1024;
/// The expected segments in the cache. A cache of more items is divided into parts, which fill up
/// before the whole does.
const EXPECTED: usize = 16;
/// How long segments are kept in memory after the last search.
const IDLE: Duration = Duration::from_secs(60);

/// The index of an event log.
pub(super) struct Index {
    log: Arc<dyn EventLog>,
    record: Arc<dyn RecordStore>,
    segments: Arc<dyn SegmentStore>,
    newest: tokio::sync::Mutex<IncompleteSegment>,
    loaded: Cache<u64, Arc<Segment>, Bytes>,
    last_search: Mutex<Instant>,
    /// Segments before this one were removed.
    forgotten: AtomicU64,
}

/// The incomplete segment, and its inputs.
#[derive(Default)]
struct IncompleteSegment {
    builder: Builder,
    /// The position of the last event read; `None` before the first one.
    last: Option<u64>,
    /// Segments that the store could not write.
    held: BTreeMap<u64, Arc<Segment>>,
}

/// A full segment. Its parts are read on use.
#[derive(Debug, Default, Clone)]
struct Segment {
    head: Arc<Head>,
    columns: Option<Arc<Columns>>,
    ids: Option<Arc<Ids>>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<u64, Arc<Segment>> for Bytes {
    fn weight(&self, _: &u64, segment: &Arc<Segment>) -> u64 {
        let rows = segment.head.rows as u64;
        let columns = segment.columns.as_ref().map_or(0, |_| rows * 28);
        let ids = segment.ids.as_ref().map_or(0, |_| rows * 24);
        4_096 + columns + ids
    }
}

/// Whether a visit continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Continue,
    Stop,
}

/// One row that matches.
pub(super) struct Row<'a> {
    /// The position in the numbering of the scope.
    pub(super) position: u64,
    /// The position in the whole log.
    pub(super) global: u64,
    pub(super) head: &'a Head,
    pub(super) columns: &'a Columns,
    pub(super) row: usize,
    /// A bit for each term of the filter that only the ids of the event decide.
    pub(super) undecided: u32,
}

impl Row<'_> {
    /// The run time of a completed call, in milliseconds.
    pub(super) fn run_time(&self) -> Option<u32> {
        let is_call = self.columns.kind.get(self.row) == Some(&RETURNED);
        let number = self.columns.number.get(self.row).filter(|number| is_call && **number != NONE);
        number.copied()
    }
}

/// Receives the rows that match.
pub(super) trait Visitor: Send {
    /// Called at the start of a segment.
    fn segment(&mut self, _head: &Head) {}
    fn row(&mut self, row: &Row<'_>) -> Flow;
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct VisitResult {
    /// Whether there may be more in the direction of the visit.
    pub(super) more: bool,
    /// The last visited position, in the numbering of the scope. Oldest first: the end of the log,
    /// unless there is more.
    pub(super) position: Option<u64>,
}

/// The order of a visit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    NewestFirst,
    OldestFirst,
}

impl Index {
    pub(super) fn new(storage: &dyn Storage) -> Self {
        Self {
            log: storage.events(),
            record: storage.record(),
            segments: storage.segments(),
            newest: tokio::sync::Mutex::default(),
            loaded: Cache::with_weighter(EXPECTED, CACHE, Bytes),
            last_search: Mutex::new(Instant::now()),
            forgotten: AtomicU64::new(0),
        }
    }

    /// Visits the rows of `scope`. `first` is the segment with the oldest event.
    pub(super) async fn visit(
        &self,
        scope: &Scope,
        order: Order,
        first: u64,
        visitor: &mut dyn Visitor,
    ) -> Result<VisitResult, StoreError> {
        *self.last_search.lock() = Instant::now();
        let mut walk = Walk { scope, order, visitor, position: None, budget: MAX_SEGMENTS };
        let mut newest = self.newest.lock().await;
        self.catch_up(&mut newest, u64::MAX).await?;
        if order == Order::NewestFirst {
            let flow = walk.builder(&newest.builder);
            let mut to = newest.builder.number;
            drop(newest);
            if flow == Flow::Stop {
                return Ok(walk.stopped());
            }
            while to > first {
                let from = to.saturating_sub(BATCH).max(first);
                if self.batch(from, to, &mut walk).await? == Flow::Stop {
                    return Ok(walk.stopped());
                }
                to = from;
            }
            return Ok(walk.ended());
        }
        let mut from = first;
        while from < newest.builder.number {
            let to = (from + BATCH).min(newest.builder.number);
            drop(newest);
            if self.batch(from, to, &mut walk).await? == Flow::Stop {
                return Ok(walk.stopped());
            }
            from = to;
            newest = self.newest.lock().await;
            self.catch_up(&mut newest, u64::MAX).await?;
        }
        match walk.builder(&newest.builder) {
            Flow::Stop => Ok(walk.stopped()),
            Flow::Continue => Ok(walk.ended()),
        }
    }

    /// Visits the segments from `from` on and before `to`.
    async fn batch(&self, from: u64, to: u64, walk: &mut Walk<'_>) -> Result<Flow, StoreError> {
        let mut numbers: Vec<u64> = (from..to).collect();
        let mut segments = self.load(&numbers, SegmentPart::Head, &BTreeMap::new()).await?;
        numbers.retain(|number| {
            let head =
                segments.get(number).map(|segment| Arc::clone(&segment.head)).unwrap_or_default();
            Matcher::new(walk.scope, *number, &head).is_some()
        });
        segments.extend(self.load(&numbers, SegmentPart::Facts, &segments).await?);
        if walk.scope.needs_ids() {
            segments.extend(self.load(&numbers, SegmentPart::Ids, &segments).await?);
        }
        let mut order: Vec<u64> = (from..to).collect();
        if walk.order == Order::NewestFirst {
            order.reverse();
        }
        for number in order {
            let Some(segment) = segments.get(&number) else { continue };
            if !numbers.contains(&number) {
                walk.passed(&segment.head);
                continue;
            }
            let none = (Arc::default(), Arc::default());
            let columns = segment.columns.as_ref().unwrap_or(&none.0);
            let ids = segment.ids.as_ref().unwrap_or(&none.1);
            if walk.segment(number, &segment.head, columns, ids) == Flow::Stop {
                return Ok(Flow::Stop);
            }
            tokio::task::yield_now().await;
        }
        Ok(Flow::Continue)
    }

    /// Loads these segments with their head and with `part`. `known` has the parts that the caller
    /// has loaded, because the cache may have dropped them.
    async fn load(
        &self,
        numbers: &[u64],
        part: SegmentPart,
        known: &BTreeMap<u64, Arc<Segment>>,
    ) -> Result<BTreeMap<u64, Arc<Segment>>, StoreError> {
        let mut found = BTreeMap::new();
        let mut missing = Vec::new();
        for number in numbers {
            match self.loaded.get(number) {
                Some(segment) if segment.has(part) => {
                    found.insert(*number, segment);
                }
                _ => missing.push(*number),
            }
        }
        if missing.is_empty() {
            return Ok(found);
        }
        let held = {
            let newest = self.newest.lock().await;
            newest.held.clone()
        };
        missing.retain(|number| match held.get(number) {
            Some(segment) => {
                found.insert(*number, Arc::clone(segment));
                false
            }
            None => true,
        });
        let stored = self.segments.read(part, &missing).await?;
        let mut stored: BTreeMap<u64, Vec<u8>> = stored.into_iter().collect();
        for number in missing {
            let loaded = self.loaded.get(&number);
            let known = loaded.as_ref().or_else(|| known.get(&number)).map(|segment| &**segment);
            let read = stored.remove(&number).and_then(|bytes| match (part, known) {
                (SegmentPart::Head, _) => {
                    Some(Segment { head: Arc::new(Head::read(&bytes)?), ..Segment::default() })
                }
                (SegmentPart::Facts, Some(known)) => {
                    let columns = Columns::read(&bytes, &known.head)?;
                    Some(Segment { columns: Some(Arc::new(columns)), ..known.clone() })
                }
                (SegmentPart::Ids, Some(known)) => {
                    let ids = Ids::read(&bytes, &known.head)?;
                    Some(Segment { ids: Some(Arc::new(ids)), ..known.clone() })
                }
                (SegmentPart::Facts | SegmentPart::Ids, None) => None,
            });
            let segment = match read {
                Some(segment) => Arc::new(segment),
                None => Arc::new(Segment::of(self.compute(number).await?)),
            };
            self.loaded.insert(number, Arc::clone(&segment));
            found.insert(number, segment);
        }
        Ok(found)
    }

    /// Starts a segment, with the causes among the events before it.
    async fn builder(&self, number: u64) -> Result<Builder, StoreError> {
        let mut builder = Builder::new(number);
        let after = (number * SIZE).saturating_sub(PAGE as u64);
        let query = StoredQuery { after, limit: PAGE, ..StoredQuery::default() };
        if number > 0 {
            for event in self
                .record
                .stored(query)
                .await?
                .iter()
                .filter(|event| event.position <= number * SIZE)
            {
                Facts::new(event, &mut builder.causes);
            }
        }
        Ok(builder)
    }

    /// Computes a segment from the log if it is missing in the store or damaged there.
    async fn compute(&self, number: u64) -> Result<Builder, StoreError> {
        let mut builder = self.builder(number).await?;
        let (mut after, last) = (number * SIZE, (number + 1) * SIZE);
        while after < last {
            let query = StoredQuery { after, limit: PAGE, ..StoredQuery::default() };
            let page = self.record.stored(query).await?;
            let Some(end) = page.last().map(|event| event.position) else { break };
            self.find_causes(&page, &mut builder.causes).await?;
            for event in page.iter().filter(|event| event.position <= last) {
                let facts = Facts::new(event, &mut builder.causes);
                builder.add(facts);
            }
            after = end;
        }
        if builder.head.rows > 0
            && let Some(segment) = builder.stored()
        {
            // Without it, the next search computes it again.
            self.segments.put(segment).await.ok();
        }
        Ok(builder)
    }

    /// Reads the events since the last time, and stores at most `most` full segments.
    async fn catch_up(&self, newest: &mut IncompleteSegment, most: u64) -> Result<(), StoreError> {
        let mut after = match newest.last {
            Some(last) => last,
            None => {
                let next = self.segments.last().await?.map_or(0, |last| last + 1);
                newest.builder = self.builder(next).await?;
                next * SIZE
            }
        };
        let mut stored = 0;
        loop {
            let query = StoredQuery { after, limit: PAGE, ..StoredQuery::default() };
            let page = self.record.stored(query).await?;
            self.find_causes(&page, &mut newest.builder.causes).await?;
            for event in &page {
                let number = segment_of(event.position);
                if number != newest.builder.number {
                    self.finish(newest, number).await?;
                    stored += 1;
                }
                let facts = Facts::new(event, &mut newest.builder.causes);
                newest.builder.add(facts);
                after = event.position;
                newest.last = Some(after);
            }
            if page.len() < PAGE || stored >= most {
                return Ok(());
            }
        }
    }

    /// Reads the causes of events that are neither known nor in the same page, such as those of an
    /// approval hours after its request. A cause is an event of the same run.
    async fn find_causes(
        &self,
        page: &[StoredEvent],
        causes: &mut Causes,
    ) -> Result<(), StoreError> {
        let own: HashSet<&str> = page.iter().map(|event| event.event_id.as_str()).collect();
        let mut runs = HashSet::new();
        for event in page {
            let Some(cause) = event.causation_id.as_deref() else { continue };
            if own.contains(cause) || causes.has(cause) || runs.len() >= MOST_RUNS {
                continue;
            }
            let (Ok(tenant), Ok(run)) = (event.tenant.parse(), event.run_id.parse()) else {
                continue;
            };
            if !runs.insert(event.run_id.as_str()) {
                continue;
            }
            let query = EventQuery {
                tenant: Some(tenant),
                run: Some(run),
                newest: true,
                ..EventQuery::default()
            };
            // An unreadable event cannot be a cause; `audit verify` reports it.
            for logged in self.log.read(query).await.unwrap_or_default() {
                let before = logged.link.position < event.tenant_position;
                if let (true, Ok(stored)) =
                    (before, logged.event.stored(&event.tenant, logged.link.position))
                {
                    Facts::new(&stored, causes);
                }
            }
        }
        Ok(())
    }

    /// Stores the full segment, and starts the segment `next`.
    async fn finish(&self, newest: &mut IncompleteSegment, next: u64) -> Result<(), StoreError> {
        let mut full = std::mem::replace(&mut newest.builder, Builder::new(next));
        newest.builder.causes = std::mem::take(&mut full.causes).next_segment();
        let Some(segment) = full.stored().filter(|_| full.head.rows > 0) else { return Ok(()) };
        let number = full.number;
        if let Err(error) = self.segments.put(segment).await {
            if newest.held.len() >= MAX_HELD {
                newest.builder = full;
                return Err(error);
            }
            newest.held.insert(number, Arc::new(Segment::of(full)));
        }
        Ok(())
    }

    /// Stores at most `most` full segments. Drops segments in memory after a while without
    /// searches. Returns whether the store has segments.
    pub(super) async fn maintain(&self, most: u64) -> Result<bool, StoreError> {
        let is_idle = self.last_search.lock().elapsed() > IDLE;
        if is_idle {
            self.loaded.clear();
        }
        let mut newest = self.newest.lock().await;
        while let Some(entry) = newest.held.first_entry() {
            let Some(segment) = entry.get().stored(*entry.key()) else { break };
            self.segments.put(segment).await?;
            entry.remove();
        }
        let next = self.segments.last().await?.map_or(0, |last| last + 1);
        if next > newest.builder.number {
            // Another process has stored the segment.
            newest.builder = self.builder(next).await?;
            newest.last = Some(next * SIZE);
        }
        let known = newest.last.unwrap_or(next * SIZE);
        if self.record.last_position().await? < known.saturating_add(SIZE) {
            if is_idle {
                // The rest is read again by the next search, within milliseconds.
                *newest = IncompleteSegment {
                    held: std::mem::take(&mut newest.held),
                    ..IncompleteSegment::default()
                };
            }
            return Ok(next > 0);
        }
        self.catch_up(&mut newest, most).await?;
        Ok(true)
    }

    /// Removes the segments before `first`, that of the oldest event.
    pub(super) async fn forget_before(&self, first: u64) -> Result<(), StoreError> {
        if self.forgotten.load(Ordering::Relaxed) < first {
            self.segments.remove_before(first).await?;
            self.forgotten.store(first, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Segment {
    fn of(builder: Builder) -> Self {
        Self {
            head: Arc::new(builder.head),
            columns: Some(Arc::new(builder.columns)),
            ids: Some(Arc::new(builder.ids)),
        }
    }

    fn has(&self, part: SegmentPart) -> bool {
        match part {
            SegmentPart::Head => true,
            SegmentPart::Facts => self.columns.is_some(),
            SegmentPart::Ids => self.ids.is_some(),
        }
    }

    fn stored(&self, number: u64) -> Option<toolcrib_core::store::NewSegment> {
        let (columns, ids) = (self.columns.as_deref()?, self.ids.as_deref()?);
        super::segment::stored(number, &self.head, columns, ids)
    }
}

/// A visit in progress.
struct Walk<'a> {
    scope: &'a Scope,
    order: Order,
    visitor: &'a mut dyn Visitor,
    position: Option<u64>,
    budget: usize,
}

impl Walk<'_> {
    fn builder(&mut self, builder: &Builder) -> Flow {
        let Builder { number, head, columns, ids, .. } = builder;
        self.segment(*number, head, columns, ids)
    }

    fn segment(&mut self, number: u64, head: &Head, columns: &Columns, ids: &Ids) -> Flow {
        let Some(matcher) = Matcher::new(self.scope, number, head) else {
            self.passed(head);
            return Flow::Continue;
        };
        if self.budget == 0 {
            return Flow::Stop;
        }
        self.budget -= 1;
        self.visitor.segment(head);
        let first = number * SIZE + 1;
        let mut visit = |row: usize| {
            let MatchedRow { position, undecided } =
                matcher.matched(self.scope, columns, ids, row)?;
            let global = first + u64::from(*columns.position.get(row)?);
            let row = Row { position, global, head, columns, row, undecided };
            let flow = self.visitor.row(&row);
            (flow == Flow::Stop).then_some(position)
        };
        let stop = match self.order {
            Order::NewestFirst => (0..head.rows).rev().find_map(&mut visit),
            Order::OldestFirst => (0..head.rows).find_map(&mut visit),
        };
        match stop {
            Some(position) => {
                self.position = Some(position);
                Flow::Stop
            }
            None => {
                self.passed(head);
                Flow::Continue
            }
        }
    }

    /// Notes that the whole segment was visited.
    fn passed(&mut self, head: &Head) {
        let Some((first, last)) = self.scope.positions(head) else { return };
        self.position = Some(match self.order {
            Order::NewestFirst => self.position.map_or(first, |position| position.min(first)),
            Order::OldestFirst => self.position.map_or(last, |position| position.max(last)),
        });
    }

    fn stopped(&self) -> VisitResult {
        VisitResult { more: true, position: self.position }
    }

    fn ended(&self) -> VisitResult {
        VisitResult { more: false, position: self.position }
    }
}
