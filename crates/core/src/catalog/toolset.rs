//! Named parts of a catalog.
//!
//! Invariant (I-76): a toolset narrows. What a caller sees of it is what it sees anyway and the
//! toolset holds; no toolset makes anything visible.

use std::{collections::HashSet, sync::Arc};

use super::{Catalog, Entry, View};
use crate::{
    authorize::{Authorizer, Subject},
    id::{SourceId, ToolId},
};

/// A named part of one snapshot.
#[derive(Debug)]
pub struct Toolset {
    name: Arc<str>,
    /// For people.
    pub title: Option<String>,
    /// What its list is, where a surface has a choice.
    pub listing: Listing,
    /// Entries of its allow-list that reach no tool, as the operator wrote them.
    pub unresolved: Vec<String>,
    /// Tools of different tenants can have the same id.
    members: HashSet<(SourceId, ToolId)>,
}

/// What the list of a toolset is, where a surface has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listing {
    /// Its tools.
    #[default]
    Tools,
    /// Tools to search, to describe and to call them.
    Search,
}

impl Toolset {
    /// An empty one.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            title: None,
            listing: Listing::default(),
            unresolved: Vec::new(),
            members: HashSet::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Takes `entry` in.
    pub fn add(&mut self, entry: &Entry) {
        self.members.insert((entry.source.clone(), entry.id.clone()));
    }

    /// Whether `entry` is in it.
    pub fn holds(&self, entry: &Entry) -> bool {
        self.members.contains(&(entry.source.clone(), entry.id.clone()))
    }

    /// How many tools are in it, whoever sees them.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}

impl Catalog {
    /// The same snapshot with `toolsets`, which are of its entries. Of two of one name the last
    /// counts.
    #[must_use]
    pub fn with_toolsets(mut self, toolsets: impl IntoIterator<Item = Toolset>) -> Self {
        self.toolsets = toolsets
            .into_iter()
            .map(|toolset| (Arc::clone(&toolset.name), Arc::new(toolset)))
            .collect();
        self
    }

    /// Every toolset, by name.
    pub fn toolsets(&self) -> impl Iterator<Item = &Arc<Toolset>> {
        self.toolsets.values()
    }

    /// The toolset called `name`.
    pub fn toolset(&self, name: &str) -> Option<&Arc<Toolset>> {
        self.toolsets.get(name)
    }

    /// What `subject` may see of `toolset`, which is one of this snapshot: exactly what it may call
    /// of it.
    pub fn view_within(
        &self,
        authorizer: &dyn Authorizer,
        subject: Subject<'_>,
        toolset: &Toolset,
    ) -> Arc<View> {
        self.view_of(authorizer, subject, Some(toolset))
    }
}
