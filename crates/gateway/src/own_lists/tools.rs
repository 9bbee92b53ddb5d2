//! The tools that accounts have.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use toolcrib_core::{
    authorize::Resource,
    canonical::Digest,
    id::{CredentialId, SourceId},
};

/// The most names of one list. An account with more is offered the list of the tenant.
const MAX_NAMES: usize = 2_000;
/// The most bytes of the names of one list.
const MAX_NAME_BYTES: usize = 64 << 10;
/// The bytes of a list without its names.
const LIST: usize = 256;
/// The bytes of a name without its text.
const NAME: usize = 32;

/// The tools that the accounts of one caller have. It never changes.
pub(crate) struct OwnTools {
    lists: BTreeMap<SourceId, Arc<OwnList>>,
    digest: Digest,
}

/// The tools that one account has.
pub(super) struct OwnList {
    pub(super) grant: CredentialId,
    names: HashSet<Box<str>>,
    digest: Digest,
}

// === impl OwnTools ===

impl OwnTools {
    pub(super) fn new(lists: BTreeMap<SourceId, Arc<OwnList>>) -> Self {
        let parts = lists
            .iter()
            .flat_map(|(source, list)| [Digest::of(source.as_str().as_bytes()).0, list.digest.0]);
        let digest = Digest::of(&parts.collect::<Vec<_>>().concat());
        Self { lists, digest }
    }

    /// Whether the account of the caller has the tool. Accounts whose list is unknown have all.
    pub(crate) fn has(&self, tool: Resource<'_>) -> bool {
        let list = self.lists.get(tool.source);
        list.is_none_or(|list| list.names.contains(tool.upstream_name))
    }

    /// Identifies the tools; callers whose accounts have the same tools share their views.
    pub(crate) fn digest(&self) -> Digest {
        self.digest
    }
}

// === impl OwnList ===

impl OwnList {
    /// `None` if there are too many names to keep.
    pub(super) fn new(grant: CredentialId, names: HashSet<String>) -> Option<Self> {
        let bytes: usize = names.iter().map(String::len).sum();
        if names.len() > MAX_NAMES || bytes > MAX_NAME_BYTES {
            return None;
        }
        let mut sorted: Vec<&String> = names.iter().collect();
        sorted.sort_unstable();
        // A digest per name, because a name may contain any character.
        let parts: Vec<_> = sorted.iter().map(|name| Digest::of(name.as_bytes()).0).collect();
        let digest = Digest::of(&parts.concat());
        Some(Self { grant, names: names.into_iter().map(String::into_boxed_str).collect(), digest })
    }

    /// The bytes that it needs, approximately.
    pub(super) fn cost(&self) -> usize {
        let names = self.names.iter().map(|name| name.len() + NAME);
        names.sum::<usize>() + LIST
    }
}
