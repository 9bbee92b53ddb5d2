//! The immutable catalog snapshot, and what each caller sees of it.
//!
//! Invariant: a snapshot never changes; a refresh builds a new one with a higher [`Generation`].
//! Invariant: tools are sorted by id, and every name resolves to exactly one of them.
//! Invariant: what a caller sees is computed once per (generation, tenant, scopes), and the bytes of
//! a list once per (view, format, filter); a request pays for neither.

use std::{collections::HashMap, fmt, sync::Arc};

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};
use sha2::{Digest as _, Sha256};

use crate::{
    arguments::ArgumentCheck,
    authorize::{Authorizer, Subject},
    canonical::Digest,
    descriptor::{SourceKind, ToolDescriptor},
    event::Transport,
    id::{SourceId, TenantId, ToolId},
    limit::Rate,
    names::Names,
    scope::ScopeSet,
};

/// Counts snapshots; higher is newer.
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
    /// What the source calls it.
    pub upstream_name: String,
    /// Who may know of it.
    pub tenants: Tenants,
    /// How it is reached.
    pub transport: Transport,
    /// Calls per time for each principal; none means unlimited.
    pub rate: Option<Rate>,
    /// How long a call may take.
    pub timeout: std::time::Duration,
    /// The upstream's own hints: untrusted, shown where a dialect has a place, never acted upon.
    pub annotations: Option<serde_json::Value>,
    /// The compiled input schema.
    pub arguments: ArgumentCheck,
    /// Hash of the upstream's own description of the tool; `None` when it has no canonical form.
    pub digest: Option<Digest>,
    /// Each dialect's JSON of this tool, made on first use.
    pub wire: WireCache,
}

impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Which tenants a tool exists for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tenants {
    /// Every tenant.
    All,
    /// Only these.
    Only(Vec<TenantId>),
}

impl Tenants {
    /// Whether the tool exists for `tenant`.
    pub fn admits(&self, tenant: &TenantId) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
        }
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
}

impl Body {
    /// Tags `bytes`.
    pub fn new(bytes: impl Into<Bytes>) -> Self {
        let bytes = bytes.into();
        let hash = Sha256::digest(&bytes);
        let mut etag = String::with_capacity(34);
        etag.push('"');
        for byte in hash.iter().take(16) {
            etag.push_str(&format!("{byte:02x}"));
        }
        etag.push('"');
        Self { bytes, etag }
    }
}

/// Each format's JSON of one tool.
#[derive(Default)]
pub struct WireCache(Mutex<Vec<(&'static str, Arc<[u8]>)>>);

impl WireCache {
    /// The tool's JSON in `format`, made once.
    pub fn get(&self, entry: &Entry, format: &ListFormat) -> Arc<[u8]> {
        let mut made = self.0.lock();
        if let Some((_, json)) = made.iter().find(|(key, _)| *key == format.key) {
            return Arc::clone(json);
        }
        let mut json = Vec::new();
        (format.item)(entry, &mut json);
        let json: Arc<[u8]> = json.into();
        made.push((format.key, Arc::clone(&json)));
        json
    }
}

/// Two tools that would share a name; both are left out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} would share the name `{name}`; none of them is offered", .tools.iter().map(ToolId::as_str).collect::<Vec<_>>().join(" and "))]
pub struct Collision {
    /// The shared name.
    pub name: String,
    /// The tools, by id.
    pub tools: Vec<ToolId>,
}

/// The snapshot.
pub struct Catalog {
    generation: Generation,
    entries: Vec<Arc<Entry>>,
    by_id: HashMap<ToolId, usize>,
    by_wire: HashMap<String, usize>,
    by_otc: HashMap<String, usize>,
    views: quick_cache::sync::Cache<ViewKey, Arc<View>>,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct ViewKey {
    tenant: TenantId,
    scopes: ScopeSet,
}

/// Views kept per snapshot. A view of 20 tools costs about 1 KB beside its bodies, which callers
/// with equal scopes share; 1 024 different scope sets at once is more than roles produce.
const MAX_VIEWS: usize = 1024;

// === impl Catalog ===

impl Catalog {
    /// A snapshot without tools.
    pub fn empty() -> Self {
        Self::build(Generation(0), Vec::new()).0
    }

    /// A snapshot of `entries`. Entries that share any name are left out and reported.
    pub fn build(generation: Generation, entries: Vec<Arc<Entry>>) -> (Self, Vec<Collision>) {
        let (mut entries, collisions) = without_collisions(entries);
        entries.sort_by(|a, b| a.id.cmp(&b.id));
        let index = |name: fn(&Entry) -> &str| {
            entries.iter().enumerate().map(|(i, e)| (name(e).to_owned(), i)).collect()
        };
        let catalog = Self {
            generation,
            by_id: entries.iter().enumerate().map(|(i, e)| (e.id.clone(), i)).collect(),
            by_wire: index(|e| &e.names.wire),
            by_otc: index(|e| &e.names.otc),
            views: quick_cache::sync::Cache::new(MAX_VIEWS),
            entries,
        };
        (catalog, collisions)
    }

    /// Which snapshot this is.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Every tool, sorted by id. For operators; callers get a [`View`].
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// By tool id.
    pub fn by_id(&self, id: &str) -> Option<&Arc<Entry>> {
        self.by_id.get(id).and_then(|&i| self.entries.get(i))
    }

    /// By wire name.
    pub fn by_wire(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_wire.get(name).and_then(|&i| self.entries.get(i))
    }

    /// By `Toolkit.Tool`, without a version.
    pub fn by_otc(&self, name: &str) -> Option<&Arc<Entry>> {
        self.by_otc.get(name).and_then(|&i| self.entries.get(i))
    }

    /// What `subject` may see: exactly what it may call.
    pub fn view(&self, authorizer: &dyn Authorizer, subject: Subject<'_>) -> Arc<View> {
        let key = ViewKey { tenant: subject.tenant.clone(), scopes: subject.scopes.clone() };
        if let Some(view) = self.views.get(&key) {
            return view;
        }
        let visible = self
            .entries
            .iter()
            .filter(|entry| authorizer.authorize(subject, entry).is_ok())
            .map(Arc::clone)
            .collect();
        let view = Arc::new(View { entries: visible, bodies: RwLock::default() });
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

fn without_collisions(entries: Vec<Arc<Entry>>) -> (Vec<Arc<Entry>>, Vec<Collision>) {
    let mut holders: HashMap<(&str, &str), Vec<&ToolId>> = HashMap::new();
    for entry in &entries {
        holders.entry(("id", entry.id.as_str())).or_default().push(&entry.id);
        holders.entry(("wire", &entry.names.wire)).or_default().push(&entry.id);
        holders.entry(("otc", &entry.names.otc)).or_default().push(&entry.id);
    }
    let mut collisions: Vec<Collision> = holders
        .into_iter()
        .filter(|(_, tools)| tools.len() > 1)
        .map(|((_, name), tools)| Collision {
            name: name.to_owned(),
            tools: tools.into_iter().cloned().collect(),
        })
        .collect();
    collisions.sort_by(|a, b| a.name.cmp(&b.name));
    collisions.dedup();
    let kept = entries
        .iter()
        .filter(|entry| !collisions.iter().any(|c| c.tools.contains(&entry.id)))
        .map(Arc::clone)
        .collect();
    (kept, collisions)
}

// === impl View ===

/// What one kind of caller sees of one snapshot.
pub struct View {
    entries: Vec<Arc<Entry>>,
    bodies: RwLock<HashMap<(&'static str, Option<SourceKind>), Arc<Body>>>,
}

impl View {
    /// The visible tools, sorted by id.
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The list in `format`, of one kind of source or of all; joined once and kept.
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
        let body = Arc::new(Body::new(bytes));
        self.bodies.write().insert(key, Arc::clone(&body));
        body
    }
}
