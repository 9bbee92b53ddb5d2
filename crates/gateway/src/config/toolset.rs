//! `[toolset.NAME]`: named parts of the catalog.

use globset::{Glob, GlobMatcher};
use toolcrib_core::catalog::{Entry, Listing, Toolset};

/// A named part of the catalog, as configured.
#[derive(Debug, Clone)]
pub struct ToolsetConfig {
    /// Its name: `[a-z0-9_-]`, at most 64 characters, starting and ending with a letter or digit.
    pub name: String,
    /// The title, for people.
    pub title: Option<String>,
    /// Whether its list shows the tools or the meta tools.
    pub listing: Listing,
    /// Globs over tool ids and wire names of its tools.
    pub allow: Vec<ToolPattern>,
    /// Globs of excluded tools.
    pub deny: Vec<ToolPattern>,
}

/// A glob over tool ids and wire names.
#[derive(Debug, Clone)]
pub struct ToolPattern {
    /// The text of the glob.
    pub text: String,
    glob: GlobMatcher,
}

impl ToolsetConfig {
    /// Resolves the toolset among `entries`. An entry of the allow-list is unresolved when it
    /// matches no tool, or only excluded ones.
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
    /// Creates a pattern from a glob.
    ///
    /// # Errors
    /// Fails when `text` is not a valid glob.
    pub fn new(text: &str) -> Result<Self, globset::Error> {
        Ok(Self { text: text.to_owned(), glob: Glob::new(text)?.compile_matcher() })
    }

    fn matches(&self, entry: &Entry) -> bool {
        self.glob.is_match(entry.id.as_str()) || self.glob.is_match(&entry.names.wire)
    }
}

/// Validates the name of a toolset.
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
