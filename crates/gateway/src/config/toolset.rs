//! `[toolset.NAME]`: named parts of the catalog.

use globset::{Glob, GlobMatcher};
use toolcrib_core::catalog::{Entry, Listing, Toolset};

/// A named part of the catalog, as the operator wrote it.
#[derive(Debug, Clone)]
pub struct ToolsetConfig {
    /// Its name: `[a-z0-9_-]`, at most 64 characters, starting and ending with a letter or digit.
    pub name: String,
    /// For people.
    pub title: Option<String>,
    /// What its list is, where a surface has a choice.
    pub listing: Listing,
    /// What is in it: globs over tool ids and wire names.
    pub allow: Vec<ToolPattern>,
    /// What of that is not.
    pub deny: Vec<ToolPattern>,
}

/// A glob over tool ids and wire names.
#[derive(Debug, Clone)]
pub struct ToolPattern {
    /// As typed.
    pub text: String,
    glob: GlobMatcher,
}

impl ToolsetConfig {
    /// The toolset among `entries`. An entry of the allow-list is unresolved when it reaches no tool,
    /// or none that is not denied.
    pub fn resolve<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Toolset {
        let mut toolset = Toolset::new(&self.name);
        toolset.title.clone_from(&self.title);
        toolset.listing = self.listing;
        let mut idle: Vec<&ToolPattern> = self.allow.iter().collect();
        for entry in entries {
            if self.deny.iter().any(|pattern| pattern.matches(entry)) {
                continue;
            }
            if self.allow.iter().any(|pattern| pattern.matches(entry)) {
                idle.retain(|pattern| !pattern.matches(entry));
                toolset.add(entry);
            }
        }
        toolset.unresolved = idle.into_iter().map(|pattern| pattern.text.clone()).collect();
        toolset
    }
}

impl ToolPattern {
    /// The glob `text`.
    ///
    /// # Errors
    /// `text` is not a glob.
    pub fn new(text: &str) -> Result<Self, globset::Error> {
        Ok(Self { text: text.to_owned(), glob: Glob::new(text)?.compile_matcher() })
    }

    fn matches(&self, entry: &Entry) -> bool {
        self.glob.is_match(entry.id.as_str()) || self.glob.is_match(&entry.names.wire)
    }
}

/// What is wrong with a name, if anything is.
pub(super) fn check_name(name: &str) -> Result<(), &'static str> {
    let edge = |byte: Option<&u8>| {
        byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
    };
    let inner =
        |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(byte);
    let bytes = name.as_bytes();
    let legal = name.len() <= 64 && bytes.iter().all(inner);
    match legal && edge(bytes.first()) && edge(bytes.last()) {
        true => Ok(()),
        false => {
            Err("a toolset's name has lower-case letters, digits, `-` and `_`, at most 64, and \
                      starts and ends with a letter or a digit")
        }
    }
}
