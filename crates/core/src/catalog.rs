//! The immutable catalog snapshot, and each caller's view of it.
//!
//! Invariant: a snapshot never changes; a refresh builds a new one with a higher [`Generation`].
//! Invariant: tools are sorted by id. For each tenant every name resolves to at most one of the
//! tools that exist for it. Tools of different tenants may share names (`names.rs`).
//!
//! Invariant: a view is computed once per (generation, tenant, scopes, toolset), and per principal
//! when the authorizer is principal-specific. The bytes of a list are computed once per (view,
//! format, filter), never per request.

mod names;
mod pages;
mod search;
mod toolset;

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    hash::Hash,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    approval::Consent,
    arguments::ArgumentCheck,
    authorize::{Authorizer, Subject},
    canonical::Digest,
    descriptor::{SafetyTier, SourceKind, ToolDescriptor},
    event::Transport,
    id::{InvalidId, PrincipalId, SourceId, TenantId, ToolId},
    limit::Rate,
    names::Names,
    quota::Quota,
    scope::ScopeSet,
};

pub use self::{
    names::Collision,
    pages::{OpenPage, Pages},
    toolset::{Listing, Toolset},
};
use self::{
    names::NameIndex,
    search::{Index, Words},
};

/// Counts snapshots; a higher number is newer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Generation(pub u64);

/// One tool with everything a request needs, computed when the snapshot is built.
pub struct Entry {
    /// The description that callers see.
    pub tool: ToolDescriptor,
    /// The tool's identity, parsed.
    pub id: ToolId,
    /// Its other names.
    pub names: Names,
    /// The source that runs it.
    pub source: SourceId,
    /// The source's own name for the tool.
    pub upstream_name: String,
    /// The tenants that may know of it.
    pub tenants: Tenants,
    /// How it is reached (RFC 0064 §B `transport`).
    pub transport: Transport,
    /// Rate limit of each principal; `None` means unlimited.
    pub rate: Option<Rate>,
    /// Daily calls of each principal; `None` means no quota of its own.
    pub quota: Option<Quota>,
    /// The longest duration of a call.
    pub timeout: Duration,
    /// The upstream's own hints: untrusted, shown where a dialect has a place for them, never acted
    /// upon.
    pub annotations: Option<serde_json::Value>,
    /// The approval settings.
    pub consent: Consent,
    /// The compiled input schema.
    pub arguments: ArgumentCheck,
    /// Hash of the upstream's own description of the tool; `None` when it has no canonical form.
    pub digest: Option<Digest>,
    /// Each dialect's JSON of this tool, computed on first use.
    pub wire: WireCache,
}

impl Entry {
    /// Creates tool `upstream_name` of `source` with its names and defaults: any arguments, any
    /// tenant, no limit and a timeout of one minute. It has no scope label, so no caller may use it
    /// until one is set.
    pub fn new(
        kind: SourceKind,
        source: &SourceId,
        upstream_name: &str,
        tier: SafetyTier,
    ) -> Result<Self, InvalidId> {
        let id = crate::names::tool_id(kind, source, upstream_name)?;
        Ok(Self {
            tool: ToolDescriptor::new(id.as_str(), kind, tier),
            names: crate::names::names(source, upstream_name, None),
            id,
            source: source.clone(),
            upstream_name: upstream_name.to_owned(),
            tenants: Tenants::All,
            transport: match kind {
                SourceKind::Mcp => Transport::Mcp,
                SourceKind::Connector => Transport::Http,
                SourceKind::NodePack | SourceKind::Workflow | SourceKind::HostExtension => {
                    Transport::Native
                }
            },
            rate: None,
            quota: None,
            timeout: Duration::from_secs(60),
            annotations: None,
            consent: Consent::default(),
            arguments: ArgumentCheck::anything(),
            digest: None,
            wire: WireCache::default(),
        })
    }
}

impl Entry {
    /// Returns the same tool for `tenants` only.
    fn narrowed(&self, tenants: Tenants) -> Self {
        Self {
            tool: self.tool.clone(),
            id: self.id.clone(),
            names: self.names.clone(),
            source: self.source.clone(),
            upstream_name: self.upstream_name.clone(),
            tenants,
            transport: self.transport,
            rate: self.rate,
            quota: self.quota,
            timeout: self.timeout,
            annotations: self.annotations.clone(),
            consent: self.consent.clone(),
            arguments: self.arguments.clone(),
            digest: self.digest,
            wire: WireCache::default(),
        }
    }
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Which tenants a tool exists for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>")]
#[schemars(with = "Vec<String>", inline)]
pub enum Tenants {
    /// Every tenant.
    All,
    /// Only these.
    Only(Vec<TenantId>),
    /// Every tenant but these, for which its names are ambiguous. Never configured directly.
    Except(Vec<TenantId>),
}

/// Reads a list of tenants; `*` means all.
impl TryFrom<Vec<String>> for Tenants {
    type Error = InvalidId;

    fn try_from(tenants: Vec<String>) -> Result<Self, InvalidId> {
        if tenants.iter().any(|tenant| tenant == "*") {
            return Ok(Self::All);
        }
        tenants.into_iter().map(TenantId::parse).collect::<Result<_, _>>().map(Self::Only)
    }
}

impl Tenants {
    /// Returns whether the tool exists for `tenant`.
    pub fn admits(&self, tenant: &TenantId) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
            Self::Except(tenants) => !tenants.contains(tenant),
        }
    }

    /// Returns the tenants that both admit.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, other) | (other, Self::All) => other.clone(),
            (Self::Except(a), Self::Except(b)) => {
                let more = b.iter().filter(|tenant| !a.contains(tenant));
                Self::Except(a.iter().chain(more).cloned().collect())
            }
            (Self::Only(only), other) | (other, Self::Only(only)) => {
                Self::Only(only.iter().filter(|tenant| other.admits(tenant)).cloned().collect())
            }
        }
    }

    /// Returns whether it admits no tenant.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(tenants) if tenants.is_empty())
    }
}

/// How a dialect writes a list. A dialect has one constant of this type per list it serves.
#[derive(Debug)]
pub struct ListFormat {
    /// Unique among formats.
    pub key: &'static str,
    /// Written before the first tool.
    pub open: &'static str,
    /// Written after the last tool.
    pub close: &'static str,
    /// Appends one tool's JSON.
    pub item: fn(&Entry, &mut Vec<u8>),
}

/// A finished list: bytes and their strong entity tag.
#[derive(Debug, Clone)]
pub struct Body {
    /// The JSON.
    pub bytes: Bytes,
    /// `"…"` with quotes, from the bytes.
    pub etag: String,
    /// The same in content encodings; `None` for a body that is sent only once.
    pub encoded: Option<Encoded>,
}

/// The forms of a kept body in content encodings, each computed on first use.
#[derive(Debug, Clone, Default)]
pub struct Encoded([OnceLock<Option<EncodedForm>>; 3]);

/// A body in a content encoding, and the tag of that form.
#[derive(Debug, Clone)]
pub struct EncodedForm {
    /// The bytes.
    pub bytes: Bytes,
    /// `"…"` with quotes.
    pub etag: String,
}

impl Body {
    /// Tags `bytes`, which are kept and sent many times.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        Self { encoded: Some(Encoded::default()), ..Self::once(bytes) }
    }

    /// Tags `bytes`, which are sent once.
    pub fn once(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = Digest::of(&bytes).to_string();
        let etag = format!("\"{}\"", hash.get(..32).unwrap_or(&hash));
        Self { bytes, etag, encoded: None }
    }
}

impl Encoded {
    /// Returns form number `index` (0, 1 or 2), creating it with `make` on first use. Returns
    /// `None` when that encoding brings no benefit.
    pub fn get(
        &self,
        index: usize,
        make: impl FnOnce() -> Option<EncodedForm>,
    ) -> Option<&EncodedForm> {
        self.0.get(index)?.get_or_init(make).as_ref()
    }
}

/// Values computed once per tool: each format's JSON, and its search words.
#[derive(Default)]
pub struct WireCache {
    written: Mutex<Vec<Written>>,
    words: OnceLock<Arc<Words>>,
}

/// A format's key and one tool's JSON in it.
type Written = (&'static str, Arc<[u8]>);

impl WireCache {
    /// Returns the tool's JSON in `format`, computed once.
    pub fn get(&self, entry: &Entry, format: &ListFormat) -> Arc<[u8]> {
        if let Some(json) = self.made(format) {
            return json;
        }
        // Computed without the lock, because `item` may need another format of the same tool.
        let mut json = Vec::new();
        (format.item)(entry, &mut json);
        let mut made = self.written.lock();
        if let Some((_, first)) = made.iter().find(|(key, _)| *key == format.key) {
            return Arc::clone(first);
        }
        let json: Arc<[u8]> = json.into();
        made.push((format.key, Arc::clone(&json)));
        json
    }

    fn made(&self, format: &ListFormat) -> Option<Arc<[u8]>> {
        let made = self.written.lock();
        made.iter().find(|(key, _)| *key == format.key).map(|(_, json)| Arc::clone(json))
    }

    fn words(&self, entry: &Entry) -> Arc<Words> {
        Arc::clone(self.words.get_or_init(|| Arc::new(Words::of(entry))))
    }
}

/// The snapshot.
pub struct Catalog {
    generation: Generation,
    entries: Vec<Arc<Entry>>,
    names: NameIndex,
    toolsets: BTreeMap<Arc<str>, Arc<Toolset>>,
    views: quick_cache::sync::Cache<ViewKey, Arc<View>>,
    /// Bounds the bytes of the lists kept in its views.
    room: Arc<Room>,
}

#[derive(PartialEq, Eq, Hash)]
struct ViewKey {
    tenant: TenantId,
    scopes: ScopeSet,
    toolset: Option<Arc<str>>,
    /// Set when the authorizer is principal-specific.
    principal: Option<PrincipalId>,
}

/// A [`ViewKey`] for lookups that clones nothing; hashes like one.
#[derive(Hash)]
struct ViewQuery<'a> {
    tenant: &'a TenantId,
    scopes: &'a ScopeSet,
    toolset: Option<&'a str>,
    principal: Option<&'a PrincipalId>,
}

impl quick_cache::Equivalent<ViewKey> for ViewQuery<'_> {
    fn equivalent(&self, key: &ViewKey) -> bool {
        *self.tenant == key.tenant
            && *self.scopes == key.scopes
            && self.toolset == key.toolset.as_deref()
            && self.principal == key.principal.as_ref()
    }
}

/// The most views per snapshot. Roles produce fewer, so only callers with individual scopes can
/// evict one.
const MAX_VIEWS: usize = 1024;

/// The most tools in all views together. A view holds a pointer per tool and, once used, the tool's
/// JSON per format, so a large catalog keeps fewer views.
const MAX_VIEWED: usize = 4_000_000;

/// The fewest views kept, for a catalog of any size.
const MIN_VIEWS: usize = 32;

/// The most bytes of lists kept with the views of one snapshot. Encoded forms are not counted: they
/// are shorter, and there are at most three. Beyond this bound a list is built anew for each
/// request. Without it, callers with individual scopes could multiply all lists by [`MAX_VIEWS`].
const MAX_LISTS: usize = 128 << 20;

// === impl Catalog ===

impl Catalog {
    /// Creates a snapshot without tools.
    pub fn empty() -> Self {
        Self::build(Generation(0), Vec::new()).0
    }

    /// Creates a snapshot of `entries`. Entries that share a name are removed for the tenants that
    /// would see more than one of them, and are reported.
    pub fn build(generation: Generation, entries: Vec<Arc<Entry>>) -> (Self, Vec<Collision>) {
        let (mut entries, collisions) = names::without_collisions(entries);
        entries.sort_by(|a, b| (&a.id, &a.source).cmp(&(&b.id, &b.source)));
        let catalog = Self {
            generation,
            names: NameIndex::of(&entries),
            toolsets: BTreeMap::new(),
            views: quick_cache::sync::Cache::new(
                (MAX_VIEWED / entries.len().max(1)).clamp(MIN_VIEWS, MAX_VIEWS),
            ),
            room: Arc::new(Room::new(MAX_LISTS)),
            entries,
        };
        (catalog, collisions)
    }

    /// Returns the snapshot's generation.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Returns every tool, sorted by id. For operators; callers get a [`View`].
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Returns the view of `subject`: exactly the tools that it may call.
    pub fn view(&self, authorizer: &dyn Authorizer, subject: Subject<'_>) -> Arc<View> {
        self.view_of(authorizer, subject, None)
    }

    /// Returns the view of `subject`, limited to `toolset` if given.
    fn view_of(
        &self,
        authorizer: &dyn Authorizer,
        subject: Subject<'_>,
        toolset: Option<&Toolset>,
    ) -> Arc<View> {
        let principal = authorizer.is_principal_specific().then_some(subject.principal);
        let Subject { tenant, scopes, .. } = subject;
        let name = toolset.map(Toolset::name);
        let query = ViewQuery { tenant, scopes, toolset: name.map(|name| &**name), principal };
        if let Some(view) = self.views.get(&query) {
            return view;
        }
        // Two parallel requests may compute the same view twice, which is cheaper than waiting.
        let visible = self
            .entries
            .iter()
            .filter(|entry| toolset.is_none_or(|toolset| toolset.holds(entry)))
            .filter(|entry| authorizer.authorize(subject, entry).is_ok())
            .map(Arc::clone)
            .collect();
        let view = Arc::new(View::within(visible, Arc::clone(&self.room)));
        let key = ViewKey {
            tenant: tenant.clone(),
            scopes: scopes.clone(),
            toolset: name.map(Arc::clone),
            principal: principal.cloned(),
        };
        self.views.insert(key, Arc::clone(&view));
        view
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("generation", &self.generation)
            .field("tools", &self.entries.len())
            .finish_non_exhaustive()
    }
}

// === impl View ===

/// The tools of one snapshot that a class of callers sees.
pub struct View {
    entries: Vec<Arc<Entry>>,
    bodies: RwLock<HashMap<BodyKey, Arc<Body>>>,
    pages: RwLock<HashMap<(&'static str, usize), Arc<Pages>>>,
    index: OnceLock<Index>,
    room: Arc<Room>,
    /// The bytes of `room` that this view uses.
    kept: AtomicUsize,
}

/// The remaining bytes that may be kept.
#[derive(Debug)]
struct Room(AtomicUsize);

impl Room {
    fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// Takes `bytes` if they are available.
    fn take(&self, bytes: usize) -> bool {
        let less = |left: usize| left.checked_sub(bytes);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for View {
    fn drop(&mut self) {
        self.room.give_back(*self.kept.get_mut());
    }
}

/// A format's key, and the kind of source.
type BodyKey = (&'static str, Option<SourceKind>);

impl View {
    /// Creates a view of `entries`. Callers get theirs from a [`Catalog`].
    pub fn new(entries: Vec<Arc<Entry>>) -> Self {
        Self::within(entries, Arc::new(Room::new(MAX_LISTS)))
    }

    /// Creates a view of `entries` that keeps as much as `room` permits.
    fn within(entries: Vec<Arc<Entry>>, room: Arc<Room>) -> Self {
        Self {
            entries,
            bodies: RwLock::default(),
            pages: RwLock::default(),
            index: OnceLock::new(),
            room,
            kept: AtomicUsize::new(0),
        }
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
        if self.room.take(bytes) {
            self.kept.fetch_add(bytes, Ordering::Relaxed);
            all.insert(key, Arc::clone(&made));
        }
        made
    }

    /// Returns the visible tools, sorted by id.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// Returns the visible tool with this id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Entry>> {
        let at = self.entries.binary_search_by(|entry| entry.id.as_str().cmp(id)).ok()?;
        self.entries.get(at)
    }

    /// Returns `entry` if it is visible. Takes the same time without an entry, for which it looks
    /// up `name`. Another tenant's tool can have the id of a visible one.
    pub fn check<'e>(&self, entry: Option<&'e Arc<Entry>>, name: &str) -> Option<&'e Arc<Entry>> {
        let found = self.by_id(entry.map_or(name, |entry| entry.id.as_str()));
        entry.filter(|entry| found.is_some_and(|found| Arc::ptr_eq(found, entry)))
    }

    /// Returns the list in `format`, of one kind of source or of all; built once and kept.
    pub fn body(&self, format: &ListFormat, source: Option<SourceKind>) -> Arc<Body> {
        let key = (format.key, source);
        if let Some(body) = self.bodies.read().get(&key) {
            return Arc::clone(body);
        }
        let mut bytes = format.open.as_bytes().to_vec();
        let mut first = true;
        for entry in &self.entries {
            if source.is_some_and(|kind| kind != entry.tool.source) {
                continue;
            }
            if !std::mem::take(&mut first) {
                bytes.push(b',');
            }
            bytes.extend_from_slice(&entry.wire.get(entry, format));
        }
        bytes.extend_from_slice(format.close.as_bytes());
        let length = bytes.len();
        self.keep(&self.bodies, key, Arc::new(Body::new(bytes)), length)
    }
}

#[cfg(test)]
mod tests;
