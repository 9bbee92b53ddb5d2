//! The tools of one snapshot that a class of callers sees, with their lists.

use std::{
    collections::HashMap,
    hash::Hash,
    num::NonZeroUsize,
    sync::{Arc, OnceLock},
};

use parking_lot::{Mutex, RwLock};

use super::{
    body::Body,
    entry::{Entry, ListFormat},
    pages::{OpenPage, Pages},
    parts::{Overview, Parts},
    search::Index,
};
use crate::{
    budget::{ByteBudget, Reservation},
    descriptor::SourceKind,
    id::SourceId,
};

/// The tools of one snapshot that a class of callers sees.
pub struct View {
    entries: Vec<Arc<Entry>>,
    bodies: RwLock<HashMap<BodyKey, Arc<Body>>>,
    pages: RwLock<HashMap<(&'static str, usize), Arc<Pages>>>,
    parts: RwLock<HashMap<&'static str, Arc<Parts>>>,
    index: OnceLock<Index>,
    /// Runs long work.
    runner: Runner,
    /// The bytes of its lists. All views of a snapshot share the limit.
    kept: Mutex<Reservation>,
}

/// Runs work that takes milliseconds, so that other requests need not wait for the thread.
pub type Runner = fn(&mut dyn FnMut());

/// Work for a view with more tools than this is long.
const MANY: usize = 1_000;

/// A format's key, and the kind of source.
type BodyKey = (&'static str, Option<SourceKind>);

impl View {
    /// Creates a view of `entries`, which are sorted by id. Keeps as many bytes of lists as `room`
    /// permits. Callers get theirs from a [`Catalog`](super::Catalog).
    pub fn new(entries: Vec<Arc<Entry>>, room: &ByteBudget) -> Self {
        Self {
            entries,
            bodies: RwLock::default(),
            pages: RwLock::default(),
            parts: RwLock::default(),
            index: OnceLock::new(),
            runner: |work| work(),
            kept: Mutex::new(room.reservation()),
        }
    }

    /// Sets the runner that writes long lists.
    #[must_use]
    pub fn with_runner(self, runner: Runner) -> Self {
        Self { runner, ..self }
    }

    /// Runs `work`, which is needed only once per view.
    fn once<T>(&self, work: impl Fn() -> T) -> T {
        if self.entries.len() <= MANY {
            return work();
        }
        let mut done = None;
        (self.runner)(&mut || done = Some(work()));
        // A runner may return without running it.
        done.unwrap_or_else(work)
    }

    /// Keeps `made` under `key` if there is room for its `bytes`. The first value stays, so that
    /// all callers get the same one.
    fn keep<K: Eq + Hash, T>(
        &self,
        all: &RwLock<HashMap<K, Arc<T>>>,
        key: K,
        made: Arc<T>,
        bytes: usize,
    ) -> Arc<T> {
        let mut all = all.write();
        if let Some(first) = all.get(&key) {
            return Arc::clone(first);
        }
        if self.kept.lock().grow(bytes) {
            all.insert(key, Arc::clone(&made));
        }
        made
    }

    /// The visible tools, sorted by id.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The visible tool with this id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Entry>> {
        let at = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
        self.entries.get(at)
    }

    /// Returns `entry` if it is visible. Without an entry it takes the same time, and looks up
    /// `name`. Another tenant's tool can have the id of a visible one.
    pub fn check<'e>(&self, entry: Option<&'e Arc<Entry>>, name: &str) -> Option<&'e Arc<Entry>> {
        let found = self.by_id(entry.map_or(name, |entry| entry.id.as_str()));
        entry.filter(|entry| found.is_some_and(|found| Arc::ptr_eq(found, entry)))
    }

    /// The list in `format`, of one kind of source or of all; built once and kept.
    pub fn body(&self, format: &ListFormat, source: Option<SourceKind>) -> Arc<Body> {
        let key = (format.key, source);
        if let Some(body) = self.bodies.read().get(&key) {
            return Arc::clone(body);
        }
        let of_kind = |entry: &&Arc<Entry>| source.is_none_or(|kind| kind == entry.tool.source);
        let body = self.once(|| {
            let bytes = format.list(format.open, &self.written(format, of_kind));
            Arc::new(Body::new(bytes))
        });
        let length = body.bytes.len();
        self.keep(&self.bodies, key, body, length)
    }

    /// The whole list in `format`, in pages of `size`, each with `open` in place of the format's
    /// own start. Built once and kept.
    pub fn pages(&self, format: &ListFormat, size: NonZeroUsize, open: OpenPage) -> Arc<Pages> {
        let key = (format.key, size.get());
        if let Some(pages) = self.pages.read().get(&key) {
            return Arc::clone(pages);
        }
        let written = || self.written(format, |_| true);
        let pages = self.once(|| Arc::new(Pages::of(&written(), format, size, open)));
        let length = pages.bytes();
        self.keep(&self.pages, key, pages, length)
    }

    /// The whole list in `format`, in parts that a client can keep, after `overview`. Built once
    /// and kept.
    pub fn parts(&self, format: &ListFormat, overview: Overview) -> Arc<Parts> {
        if let Some(parts) = self.parts.read().get(format.key) {
            return Arc::clone(parts);
        }
        let parts = self.once(|| {
            let ids = self.entries.iter().map(|entry| entry.id.as_str());
            Arc::new(Parts::of(ids.zip(self.written(format, |_| true)), format, overview))
        });
        let length = parts.bytes();
        self.keep(&self.parts, format.key, parts, length)
    }

    fn written(
        &self,
        format: &ListFormat,
        is_wanted: impl Fn(&&Arc<Entry>) -> bool,
    ) -> Vec<Arc<[u8]>> {
        let wanted = self.entries.iter().filter(is_wanted);
        wanted.map(|entry| entry.wire.get(entry, format)).collect()
    }

    /// Finds at most `most` tools that match `query`, best first, of one kind of source or of all.
    pub fn search(&self, query: &str, source: Option<SourceKind>, most: usize) -> Vec<Arc<Entry>> {
        let found =
            self.index().ranked(query).into_iter().filter_map(|tool| self.entries.get(tool));
        let wanted = found.filter(|entry| source.is_none_or(|kind| entry.tool.source == kind));
        wanted.take(most).map(Arc::clone).collect()
    }

    /// The sources of the visible tools, sorted.
    pub fn sources(&self) -> &[SourceId] {
        &self.index().sources
    }

    fn index(&self) -> &Index {
        if let Some(index) = self.index.get() {
            return index;
        }
        let index = self.once(|| Index::of(&self.entries));
        self.index.get_or_init(|| index)
    }
}
