//! The names of the tools of a snapshot.
//!
//! Invariant (I-16): among the tools that exist for one tenant each name is unique. Tools that
//! would share one are removed for the tenants that would see more than one of them. They are
//! unchanged for every other tenant.
//!
//! Invariant (I-9): a lookup by one tenant does not depend on another tenant's tools.

use std::{
    borrow::Borrow,
    collections::{BTreeMap, BTreeSet, HashMap, hash_map::Entry as Slot},
    fmt,
    hash::{Hash, Hasher},
    sync::Arc,
};

use super::entry::Entry;
use crate::{
    id::{TenantId, ToolId},
    names::Names,
    tenants::Tenants,
};

/// Tools that would share a name, and the tenants for which they are removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{message}{}", TenantsPhrase(.tenants), message = self.message())]
pub struct Collision {
    /// The shared name.
    pub name: String,
    /// The tools, by id.
    pub tools: Vec<ToolId>,
    /// The affected tenants.
    pub tenants: Tenants,
}

impl Collision {
    /// The message for a tenant among [`tenants`](Self::tenants); it names no other tenant.
    pub fn message(&self) -> String {
        let tools: Vec<&str> = self.tools.iter().map(ToolId::as_str).collect();
        let tools = tools.join(" and ");
        format!("{tools} would share the name `{}` and are not offered", self.name)
    }
}

/// The tenants, as part of a sentence.
struct TenantsPhrase<'a>(&'a Tenants);

impl fmt::Display for TenantsPhrase<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, tenants) = match self.0 {
            Tenants::All => return Ok(()),
            Tenants::Only(tenants) => (" to", tenants),
            Tenants::Except(tenants) => (" to tenants other than", tenants),
        };
        let tenants: Vec<&str> = tenants.iter().map(|tenant| tenant.as_str()).collect();
        write!(f, "{before} {}", tenants.join(", "))
    }
}

/// Every name of every tool. The keys are the tools themselves, so no name is stored twice.
pub(super) struct NameIndex {
    pub(super) ids: HashMap<ById, Holders>,
    pub(super) wires: HashMap<ByWire, Holders>,
    /// All versions of a name, highest first, of all tenants. A name starts with its source's id,
    /// so only sources whose ids differ in `-` and `_` can share one.
    pub(super) otc: HashMap<ByOtc, Versions>,
}

/// Defines a key equal to one of the names of its tool.
macro_rules! name_key {
    ($key:ident, $name:expr) => {
        pub(super) struct $key(Arc<Entry>);

        impl From<&Arc<Entry>> for $key {
            fn from(entry: &Arc<Entry>) -> Self {
                Self(Arc::clone(entry))
            }
        }

        impl Borrow<str> for $key {
            fn borrow(&self) -> &str {
                let name: fn(&Entry) -> &str = $name;
                name(&self.0)
            }
        }

        impl PartialEq for $key {
            fn eq(&self, other: &Self) -> bool {
                Borrow::<str>::borrow(self) == Borrow::<str>::borrow(other)
            }
        }

        impl Eq for $key {}

        impl Hash for $key {
            fn hash<H: Hasher>(&self, state: &mut H) {
                Borrow::<str>::borrow(self).hash(state);
            }
        }
    };
}

name_key!(ById, |entry| entry.id.as_str());
name_key!(ByWire, |entry| &entry.names.wire);
name_key!(ByOtc, |entry| &entry.names.otc);

/// The tools of one name.
pub(super) enum Holders {
    One(usize),
    Several(Box<TenantHolders>),
}

#[derive(Default)]
pub(super) struct TenantHolders {
    /// The tool of every tenant, or of all but some.
    every: Option<usize>,
    /// The tools of single tenants.
    single: HashMap<TenantId, usize>,
    /// The tool that was added first.
    first: usize,
}

/// The versions of one name.
pub(super) enum Versions {
    One(usize),
    Several(Vec<usize>),
}

impl NameIndex {
    /// Builds the index of `entries`, which must be free of collisions.
    #[expect(clippy::mutable_key_type, reason = "the names of an entry never change")]
    pub(super) fn of(entries: &[Arc<Entry>]) -> Self {
        let mut otc: HashMap<ByOtc, Versions> = HashMap::with_capacity(entries.len());
        for (i, entry) in entries.iter().enumerate() {
            match otc.entry(entry.into()) {
                Slot::Vacant(slot) => {
                    slot.insert(Versions::One(i));
                }
                Slot::Occupied(mut slot) => slot.get_mut().add(i),
            }
        }
        let version = |i: &usize| entries.get(*i).map(|entry| entry.names.version_numbers());
        for versions in otc.values_mut() {
            if let Versions::Several(versions) = versions {
                versions.sort_by_key(|i| std::cmp::Reverse(version(i)));
            }
        }
        Self { ids: index(entries), wires: index(entries), otc }
    }
}

fn index<'e, K: Eq + Hash + From<&'e Arc<Entry>>>(
    entries: &'e [Arc<Entry>],
) -> HashMap<K, Holders> {
    let mut index: HashMap<K, Holders> = HashMap::with_capacity(entries.len());
    for (i, entry) in entries.iter().enumerate() {
        match index.entry(entry.into()) {
            Slot::Vacant(slot) => {
                slot.insert(Holders::One(i));
            }
            Slot::Occupied(mut slot) => slot.get_mut().add(i, entries),
        }
    }
    index
}

impl Versions {
    fn add(&mut self, i: usize) {
        match self {
            Self::One(first) => *self = Self::Several(vec![*first, i]),
            Self::Several(versions) => versions.push(i),
        }
    }

    pub(super) fn positions(&self) -> &[usize] {
        match self {
            Self::One(i) => std::slice::from_ref(i),
            Self::Several(versions) => versions,
        }
    }
}

impl Holders {
    fn add(&mut self, i: usize, entries: &[Arc<Entry>]) {
        if let Self::One(first) = *self {
            let mut several = TenantHolders { first, ..TenantHolders::default() };
            several.add(first, entries);
            *self = Self::Several(Box::new(several));
        }
        if let Self::Several(several) = self {
            several.add(i, entries);
        }
    }

    pub(super) fn of_tenant(&self, tenant: &TenantId) -> usize {
        match self {
            Self::One(i) => *i,
            Self::Several(several) => {
                let single = several.single.get(tenant);
                *single.or(several.every.as_ref()).unwrap_or(&several.first)
            }
        }
    }

    pub(super) fn all(&self) -> Vec<usize> {
        match self {
            Self::One(i) => vec![*i],
            Self::Several(several) => {
                several.every.iter().chain(several.single.values()).copied().collect()
            }
        }
    }
}

impl TenantHolders {
    fn add(&mut self, i: usize, entries: &[Arc<Entry>]) {
        match entries.get(i).map(|entry| &entry.tenants) {
            Some(Tenants::All | Tenants::Except(_)) => self.every = Some(i),
            Some(Tenants::Only(tenants)) => {
                self.single.extend(tenants.iter().map(|tenant| (tenant.clone(), i)));
            }
            None => {}
        }
    }
}

/// The tenants that an entry loses because it shares a name.
#[derive(Default, Clone)]
struct Loss {
    /// All tenants that no other reason applies to.
    every: bool,
    tenants: BTreeSet<TenantId>,
}

/// A name, of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Name<'a> {
    Id(&'a str),
    Wire(&'a str),
    /// The OTC id and its version.
    Otc(&'a str, &'a str),
}

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(name) | Self::Wire(name) => f.write_str(name),
            Self::Otc(name, version) => write!(f, "{name}@{version}"),
        }
    }
}

/// Removes from `entries` the tenants for which a name would be ambiguous.
pub(super) fn without_collisions(entries: Vec<Arc<Entry>>) -> (Vec<Arc<Entry>>, Vec<Collision>) {
    let mut holders: HashMap<Name<'_>, usize> = HashMap::with_capacity(3 * entries.len());
    let mut shared: HashMap<Name<'_>, Vec<usize>> = HashMap::new();
    for (i, entry) in entries.iter().enumerate() {
        let Names { wire, otc, version } = &entry.names;
        for name in [Name::Id(entry.id.as_str()), Name::Wire(wire), Name::Otc(otc, version)] {
            match holders.entry(name) {
                Slot::Vacant(slot) => {
                    slot.insert(i);
                }
                Slot::Occupied(slot) => {
                    shared.entry(name).or_insert_with(|| vec![*slot.get()]).push(i);
                }
            }
        }
    }
    if shared.is_empty() {
        return (entries, Vec::new());
    }
    let mut collisions = BTreeSet::new();
    let mut losses: HashMap<usize, Loss> = HashMap::new();
    for (name, holders) in shared {
        for (tools, tenants) in ambiguities(&entries, &holders) {
            for i in &tools {
                let loss = losses.entry(*i).or_default();
                match &tenants {
                    Tenants::Only(only) => loss.tenants.extend(only.iter().cloned()),
                    Tenants::All | Tenants::Except(_) => loss.every = true,
                }
            }
            let tools = tools.iter().filter_map(|i| Some(entries.get(*i)?.id.clone())).collect();
            collisions.insert(Collision { name: name.to_string(), tools, tenants });
        }
    }
    let kept = entries.iter().enumerate().filter_map(|(i, entry)| match losses.get(&i) {
        None => Some(Arc::clone(entry)),
        Some(loss) => {
            let tenants = loss.left_of(&entry.tenants);
            (!tenants.is_empty()).then(|| Arc::new(Entry { tenants, ..entry.as_ref().clone() }))
        }
    });
    (kept.collect(), collisions.into_iter().collect())
}

impl Loss {
    fn left_of(&self, tenants: &Tenants) -> Tenants {
        let lost = Tenants::Except(self.tenants.iter().cloned().collect());
        match self.every {
            // Two tools of every tenant share the name, for single tenants too.
            true => Tenants::Only(Vec::new()),
            false => tenants.common(&lost),
        }
    }
}

/// Finds which of `holders`, which share one name, exist together for which tenants.
fn ambiguities(entries: &[Arc<Entry>], holders: &[usize]) -> Vec<(Vec<usize>, Tenants)> {
    let tenants = |i: &usize| entries.get(*i).map(|entry| &entry.tenants);
    let is_single = |i: &&usize| matches!(tenants(i), Some(Tenants::Only(_)));
    let every: Vec<usize> = holders.iter().filter(|i| !is_single(i)).copied().collect();
    let mut of_tenant: BTreeMap<&TenantId, Vec<usize>> = BTreeMap::new();
    for i in holders {
        if let Some(Tenants::Only(only)) = tenants(i) {
            for tenant in only.iter().collect::<BTreeSet<_>>() {
                of_tenant.entry(tenant).or_default().push(*i);
            }
        }
    }
    let mut groups: BTreeMap<Vec<usize>, Vec<TenantId>> = BTreeMap::new();
    for (tenant, single) in of_tenant {
        let mut together: Vec<usize> = single.into_iter().chain(every.iter().copied()).collect();
        together.sort_unstable();
        if together.len() > 1 {
            groups.entry(together).or_default().push(tenant.clone());
        }
    }
    let mut all = Vec::new();
    if every.len() > 1 {
        // Tenants that see more of these tools get a separate report.
        let apart: Vec<TenantId> = groups.values().flatten().cloned().collect();
        let tenants = if apart.is_empty() { Tenants::All } else { Tenants::Except(apart) };
        all.push((every, tenants));
    }
    all.extend(groups.into_iter().map(|(tools, tenants)| (tools, Tenants::Only(tenants))));
    all
}
