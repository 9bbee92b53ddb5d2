//! The immutable catalog snapshot, and each caller's view of it.
//!
//! Invariant: a snapshot never changes; a refresh builds a new one with a higher [`Generation`].
//! Invariant: tools are sorted by id. For each tenant every name resolves to at most one of the
//! tools that exist for it. Tools of different tenants may share names (`names.rs`).
//!
//! Invariant: a view is computed once per (generation, tenant, scopes, toolset, facts of the
//! authorizer), and per principal when the authorizer is principal-specific. The bytes of a list are computed once per (view,
//! format, filter), never per request.

mod body;
mod entry;
mod lookup;
mod names;
mod pages;
mod parts;
mod search;
mod toolset;
mod view;
mod words;

use std::{collections::BTreeMap, fmt, hash::Hash, sync::Arc};

use crate::{
    authorize::{Authorizer, Subject},
    budget::ByteBudget,
    canonical::Digest,
    id::{PrincipalId, TenantId},
    scope::{Scope, ScopeSet},
};

use self::names::NameIndex;
pub use self::{
    body::{Body, EncodedForm, EncodedForms},
    entry::{Entry, Generation, ListFormat, Permit, WireCache},
    names::Collision,
    pages::{OpenPage, Pages},
    parts::{Overview, Part, Parts},
    toolset::{Listing, Toolset},
    view::{Runner, View},
};
pub use crate::tenants::Tenants;

/// The snapshot.
pub struct Catalog {
    generation: Generation,
    entries: Vec<Arc<Entry>>,
    names: NameIndex,
    groups: Vec<Group>,
    toolsets: BTreeMap<Arc<str>, Arc<Toolset>>,
    views: quick_cache::sync::Cache<ViewKey, Arc<View>>,
    /// Bounds the bytes of the lists kept in its views.
    room: ByteBudget,
    /// Runs long work.
    runner: Runner,
}

/// The tools with the same tenants and required scopes. A view leaves out groups before it decides
/// about tools, so that its cost does not grow with tools that its caller cannot see.
struct Group {
    tenants: Tenants,
    required: Option<Vec<Scope>>,
    positions: Vec<usize>,
}

#[derive(PartialEq, Eq, Hash)]
struct ViewKey {
    tenant: TenantId,
    scopes: ScopeSet,
    toolset: Option<Arc<str>>,
    /// Set when the authorizer is principal-specific.
    principal: Option<PrincipalId>,
    facts: Option<Digest>,
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
/// are shorter, and there are at most three. Beyond this bound, each request builds its list anew.
/// Without it, callers with individual scopes could multiply all lists by [`MAX_VIEWS`].
const MAX_LISTS: usize = 128 << 20;

// === impl Catalog ===

impl Catalog {
    /// Creates a snapshot without tools.
    pub fn empty() -> Self {
        Self::build(Generation(0), Vec::new()).0
    }

    /// Creates a snapshot of `entries`. Reports entries that share a name, and removes them for the
    /// tenants that would see more than one of them.
    pub fn build(generation: Generation, entries: Vec<Arc<Entry>>) -> (Self, Vec<Collision>) {
        let (mut entries, collisions) = names::without_collisions(entries);
        entries.sort_by(|a, b| (&a.id, &a.source).cmp(&(&b.id, &b.source)));
        let catalog = Self {
            generation,
            names: NameIndex::of(&entries),
            groups: groups(&entries),
            toolsets: BTreeMap::new(),
            views: quick_cache::sync::Cache::new(
                (MAX_VIEWED / entries.len().max(1)).clamp(MIN_VIEWS, MAX_VIEWS),
            ),
            room: ByteBudget::new(MAX_LISTS),
            runner: |work| work(),
            entries,
        };
        (catalog, collisions)
    }

    /// The generation of the snapshot.
    pub fn generation(&self) -> Generation {
        self.generation
    }

    /// Every tool, sorted by id. For operators; callers get a [`View`].
    pub fn entries(&self) -> &[Arc<Entry>] {
        &self.entries
    }

    /// The view of `subject`: exactly the tools that it may call.
    pub fn view(&self, authorizer: &dyn Authorizer, subject: Subject<'_>) -> Arc<View> {
        self.view_within(authorizer, subject, None)
    }

    /// The view of `subject`, within `toolset` if given: exactly its tools that `subject` may call.
    /// The toolset must belong to this snapshot.
    pub fn view_within(
        &self,
        authorizer: &dyn Authorizer,
        subject: Subject<'_>,
        toolset: Option<&Toolset>,
    ) -> Arc<View> {
        let principal = authorizer.is_principal_specific().then_some(subject.principal);
        let key = ViewKey {
            tenant: subject.tenant.clone(),
            scopes: subject.scopes.clone(),
            toolset: toolset.map(|toolset| Arc::clone(toolset.name())),
            principal: principal.cloned(),
            facts: authorizer.facts(),
        };
        if let Some(view) = self.views.get(&key) {
            return view;
        }
        // Two parallel requests may compute the same view twice, which is cheaper than waiting.
        let groups = self.groups.iter().filter(|group| {
            !authorizer.denies_all(subject, &group.tenants, group.required.as_deref())
        });
        let mut positions: Vec<usize> =
            groups.flat_map(|group| &group.positions).copied().collect();
        positions.sort_unstable();
        let visible = positions
            .iter()
            .filter_map(|position| self.entries.get(*position))
            .filter(|entry| toolset.is_none_or(|toolset| toolset.holds(entry)))
            .filter(|entry| authorizer.authorize(subject, entry.resource()).is_ok())
            .map(Arc::clone)
            .collect();
        let view = View::new(visible, &self.room).with_runner(self.runner);
        let view = Arc::new(view);
        self.views.insert(key, Arc::clone(&view));
        view
    }

    /// Adds `toolsets`, which must be of its entries. If a name is repeated, the last one is used.
    #[must_use]
    pub fn with_toolsets(mut self, toolsets: impl IntoIterator<Item = Toolset>) -> Self {
        self.toolsets = toolsets
            .into_iter()
            .map(|toolset| (Arc::clone(toolset.name()), Arc::new(toolset)))
            .collect();
        self
    }

    /// Sets the runner that writes long lists.
    #[must_use]
    pub fn with_runner(self, runner: Runner) -> Self {
        Self { runner, ..self }
    }

    /// Every toolset, by name.
    pub fn toolsets(&self) -> impl Iterator<Item = &Arc<Toolset>> {
        self.toolsets.values()
    }

    /// The toolset called `name`.
    pub fn toolset(&self, name: &str) -> Option<&Arc<Toolset>> {
        self.toolsets.get(name)
    }
}

fn groups(entries: &[Arc<Entry>]) -> Vec<Group> {
    let mut groups: BTreeMap<(&Tenants, Option<&[Scope]>), Vec<usize>> = BTreeMap::new();
    for (position, entry) in entries.iter().enumerate() {
        let label = (&entry.tenants, entry.resource().required());
        groups.entry(label).or_default().push(position);
    }
    let group = |((tenants, required), positions): ((&Tenants, Option<&[Scope]>), _)| Group {
        tenants: tenants.clone(),
        required: required.map(<[Scope]>::to_vec),
        positions,
    };
    groups.into_iter().map(group).collect()
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog")
            .field("generation", &self.generation)
            .field("tools", &self.entries.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
