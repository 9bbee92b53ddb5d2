//! The names of the tools of a snapshot.
//!
//! Invariant (I-16): among the tools that exist for one tenant each name is unique. Tools that
//! would share one are removed for the tenants that would see more than one of them. They are
//! unchanged for every other tenant.
//!
//! Invariant (I-9): a lookup by one tenant does not depend on another tenant's tools.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use super::entry::Entry;
use crate::{
    id::{TenantId, ToolId},
    tenants::Tenants,
};

/// Tools that would share a name, and the tenants for which they are removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{message}{}", For(.tenants), message = self.message())]
pub struct Collision {
    /// The shared name.
    pub name: String,
    /// The tools, by id.
    pub tools: Vec<ToolId>,
    /// The affected tenants.
    pub tenants: Tenants,
}

impl Collision {
    /// Returns the message for a tenant among [`tenants`](Self::tenants); it names no other tenant.
    pub fn message(&self) -> String {
        let tools: Vec<&str> = self.tools.iter().map(ToolId::as_str).collect();
        let tools = tools.join(" and ");
        format!("{tools} would share the name `{}`; none of them is offered", self.name)
    }
}

/// The tenants, as part of a sentence.
struct For<'a>(&'a Tenants);

impl fmt::Display for For<'_> {
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

/// Every name of every tool.
pub(super) struct NameIndex {
    pub(super) ids: HashMap<String, Holders>,
    pub(super) wires: HashMap<String, Holders>,
    /// All versions of a name, highest first, of all tenants. A name begins with its source's id,
    /// so only sources whose ids differ in `-` and `_` can share one.
    pub(super) otc: HashMap<String, Vec<usize>>,
}

/// The tools of one name.
pub(super) enum Holders {
    One(usize),
    Several(Box<Several>),
}

pub(super) struct Several {
    /// The tool of every tenant, or of all but some.
    every: Option<usize>,
    /// The tools of single tenants.
    single: HashMap<TenantId, usize>,
    /// Any of them.
    first: usize,
}

impl NameIndex {
    /// Builds the index of `entries`, which must be free of collisions.
    pub(super) fn of(entries: &[Arc<Entry>]) -> Self {
        let mut otc: HashMap<String, Vec<usize>> = HashMap::new();
        for (i, entry) in entries.iter().enumerate() {
            otc.entry(entry.names.otc.clone()).or_default().push(i);
        }
        let version = |i: &usize| entries.get(*i).map(|entry| entry.names.version_numbers());
        for versions in otc.values_mut() {
            versions.sort_by_key(|i| std::cmp::Reverse(version(i)));
        }
        let index = |name: fn(&Entry) -> &str| {
            let mut held: HashMap<String, Vec<usize>> = HashMap::new();
            for (i, entry) in entries.iter().enumerate() {
                held.entry(name(entry).to_owned()).or_default().push(i);
            }
            let held = held.into_iter();
            held.filter_map(|(name, held)| Some((name, Holders::of(entries, &held)?))).collect()
        };
        Self { ids: index(|entry| entry.id.as_str()), wires: index(|entry| &entry.names.wire), otc }
    }
}

impl Holders {
    fn of(entries: &[Arc<Entry>], held: &[usize]) -> Option<Self> {
        let first = match held {
            [] => return None,
            [only] => return Some(Self::One(*only)),
            [first, ..] => *first,
        };
        let mut several = Several { every: None, single: HashMap::new(), first };
        for &i in held {
            match &entries.get(i)?.tenants {
                Tenants::All | Tenants::Except(_) => several.every = Some(i),
                Tenants::Only(tenants) => {
                    several.single.extend(tenants.iter().map(|tenant| (tenant.clone(), i)));
                }
            }
        }
        Some(Self::Several(Box::new(several)))
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

/// The tenants that an entry loses because it shares a name.
#[derive(Default, Clone)]
struct Loss {
    /// All tenants that no other reason applies to.
    every: bool,
    tenants: BTreeSet<TenantId>,
}

/// Removes from `entries` the tenants for which a name would be ambiguous.
pub(super) fn without_collisions(entries: Vec<Arc<Entry>>) -> (Vec<Arc<Entry>>, Vec<Collision>) {
    let mut held: HashMap<(&str, Cow<'_, str>), Vec<usize>> = HashMap::new();
    for (i, entry) in entries.iter().enumerate() {
        for (kind, name) in [
            ("id", entry.id.as_str().into()),
            ("wire", entry.names.wire.as_str().into()),
            ("otc", entry.names.otc_id().into()),
        ] {
            held.entry((kind, name)).or_default().push(i);
        }
    }
    let mut collisions = BTreeSet::new();
    let mut losses: HashMap<usize, Loss> = HashMap::new();
    for ((_, name), holders) in held.into_iter().filter(|(_, holders)| holders.len() > 1) {
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

/// Returns which of `holders`, which share one name, exist together for which tenants.
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
        // Tenants that see more of these tools get a report of their own.
        let apart: Vec<TenantId> = groups.values().flatten().cloned().collect();
        let tenants = if apart.is_empty() { Tenants::All } else { Tenants::Except(apart) };
        all.push((every, tenants));
    }
    all.extend(groups.into_iter().map(|(tools, tenants)| (tools, Tenants::Only(tenants))));
    all
}
