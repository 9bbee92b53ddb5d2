//! `[toolset.NAME]`: named parts of the catalog.

use globset::{Glob, GlobMatcher};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolcrib_core::catalog::{Entry, Listing, Toolset as Members};

use super::{places::member, resolver::Resolver};

/// A named part of the catalog ([guide](../guides/toolsets.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Toolset {
    /// Title for people and for MCP's `instructions`.
    title: Option<String>,
    /// Globs over tool ids and wire names.
    allow: Vec<String>,
    /// Globs of excluded tools.
    #[serde(default)]
    deny: Vec<String>,
    /// `search` lists `search_tools`, `describe_tool` and `call_tool` in place of the tools.
    #[serde(default)]
    meta: Meta,
    /// Overrides `[mcp] inline_refs` for the URL of this toolset.
    inline_refs: Option<bool>,
}

#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Meta {
    #[default]
    Off,
    Search,
}

/// A named part of the catalog, as configured.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolsetConfig {
    /// Its name: `[a-z0-9_-]`, at most 64 characters, starting and ending with a letter or digit.
    pub name: String,
    /// The title, for people.
    pub title: Option<String>,
    /// Whether its list shows the tools or the meta tools.
    pub listing: Listing,
    /// Whether MCP lists have no references in schemas.
    pub inline_refs: bool,
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
    /// Resolves the toolset among `entries`. An entry of the allow-list is unresolved if it matches
    /// no tool, or only excluded tools.
    pub fn resolve<'a>(&self, entries: impl IntoIterator<Item = &'a Entry>) -> Members {
        let mut toolset = Members::new(&self.name);
        toolset.title.clone_from(&self.title);
        toolset.listing = self.listing;
        toolset.inline_refs = self.inline_refs;
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

    /// Returns whether the glob matches the id or the wire name of a tool.
    pub fn matches(&self, entry: &Entry) -> bool {
        self.glob.is_match(entry.id.as_str()) || self.glob.is_match(&entry.names.wire)
    }
}

impl Resolver<'_> {
    /// Resolves a toolset; `inline_refs` is the setting of the whole catalog.
    pub(super) fn toolset(
        &mut self,
        name: String,
        typed: Toolset,
        inline_refs: bool,
    ) -> Option<ToolsetConfig> {
        let table = member("toolset", &name);
        let key = |name: &str| format!("{table}.{name}");
        self.check(&table, check_name(&name))?;
        if typed.allow.is_empty() {
            self.complain(&key("allow"), "expected at least one glob over tool ids and wire names");
        }
        let allow = self.list(&key("allow"), &typed.allow, pattern);
        let deny = self.list(&key("deny"), &typed.deny, pattern);
        let listing = match typed.meta {
            Meta::Off => Listing::Tools,
            Meta::Search => Listing::Search,
        };
        Some(ToolsetConfig {
            allow: allow?,
            deny: deny?,
            title: typed.title,
            listing,
            inline_refs: typed.inline_refs.unwrap_or(inline_refs),
            name,
        })
    }
}

fn pattern(text: &str) -> Result<ToolPattern, String> {
    match text {
        "" => Err("an empty glob matches no tool".to_owned()),
        text => ToolPattern::new(text).map_err(|error| format!("is not a glob: {}", error.kind())),
    }
}

/// Returns whether a toolset can have this name.
pub fn is_toolset_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-".contains(&b);
    let has_edges =
        !name.is_empty() && !name.starts_with(['_', '-']) && !name.ends_with(['_', '-']);
    has_edges && name.len() <= 64 && name.bytes().all(inner)
}

/// Validates the name of a toolset.
fn check_name(name: &str) -> Result<(), &'static str> {
    match is_toolset_name(name) {
        true => Ok(()),
        false => {
            Err("a toolset's name has lower-case letters, digits, `-` and `_`, at most 64, and \
                      starts and ends with a letter or a digit")
        }
    }
}
