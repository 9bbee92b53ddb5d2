//! Named parts of a catalog.
//!
//! Invariant (I-76): a toolset narrows. A caller's view of it contains only tools that the caller
//! sees anyway; no toolset makes anything visible.

use std::{collections::HashSet, sync::Arc};

use super::entry::Entry;
use crate::id::{SourceId, ToolId};

/// A named part of one snapshot.
#[derive(Debug)]
pub struct Toolset {
    name: Arc<str>,
    /// The configured title, for people.
    pub title: Option<String>,
    /// The content of its list, where a surface has a choice.
    pub listing: Listing,
    /// Whether MCP lists have no references in schemas.
    pub inline_refs: bool,
    /// Entries of its allow-list that match no tool, as the operator wrote them.
    pub unresolved: Vec<String>,
    /// Identified by source and id, because tools of different tenants can have the same id.
    members: HashSet<(SourceId, ToolId)>,
}

/// The content of a toolset's list, where a surface has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Listing {
    /// The tools of the toolset itself.
    #[default]
    Tools,
    /// Tools to search, to describe and to call them.
    Search,
}

impl Toolset {
    /// Creates an empty toolset.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            title: None,
            listing: Listing::default(),
            inline_refs: false,
            unresolved: Vec::new(),
            members: HashSet::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Adds `entry`.
    pub fn add(&mut self, entry: &Entry) {
        self.members.insert((entry.source.clone(), entry.id.clone()));
    }

    /// Whether it contains `entry`.
    pub fn holds(&self, entry: &Entry) -> bool {
        self.members.contains(&(entry.source.clone(), entry.id.clone()))
    }

    /// The number of its tools, visible or not.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether it contains no tool.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }
}
