//! One change of the configuration file, as requests and commands describe it.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use toolcrib_core::id::SourceId;

/// The most changes of one proposal.
pub const MAX_CHANGES: usize = 32;

/// One change of the configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Change {
    /// What to do.
    pub action: EditAction,
    /// The kind of thing to change.
    pub kind: ChangeKind,
    /// The id of the source, the name of the role or toolset, or the glob of the rule.
    pub name: String,
    /// For a rule: the id of its source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The keys of the file with their values. With `set`, other keys stay, `null` removes a key, and
    /// the members of a table are changed one by one.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub settings: Map<String, Value>,
    /// For a role: globs over wire names and tool ids. The role gets the scopes of these tools, in
    /// addition to `scopes` of the settings.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

/// The action of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum EditAction {
    /// Adds something that the file does not have.
    Add,
    /// Changes something that the file has.
    Set,
    /// Removes something that the file has.
    Remove,
}

/// The subject of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChangeKind {
    /// `[[source]]`
    Source,
    /// `[[role]]`
    Role,
    /// `[toolset.NAME]`
    Toolset,
    /// `[source.tools."GLOB"]`
    Rule,
}

/// Why a change does not fit the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
#[non_exhaustive]
pub struct EditError {
    /// The number of the change, from 0.
    pub change: usize,
    /// The member of `settings`, if one is the problem.
    pub key: Option<String>,
    /// The problem and its remedy.
    pub message: String,
}

impl Change {
    /// Creates a change of a source, role or toolset.
    pub fn new(
        action: EditAction,
        kind: ChangeKind,
        name: &str,
        settings: Map<String, Value>,
    ) -> Self {
        Self { action, kind, name: name.to_owned(), source: None, settings, tools: Vec::new() }
    }

    /// Creates a change of a rule of the source `source`.
    pub fn of_rule(
        action: EditAction,
        source: &SourceId,
        glob: &str,
        settings: Map<String, Value>,
    ) -> Self {
        let source = Some(source.to_string());
        Self { source, ..Self::new(action, ChangeKind::Rule, glob, settings) }
    }
}

impl EditError {
    /// A problem of the whole change.
    pub fn new(message: impl Into<String>) -> Self {
        Self { change: 0, key: None, message: message.into() }
    }

    /// A problem of one member of its settings.
    pub fn of_key(key: &str, message: impl Into<String>) -> Self {
        Self { key: Some(key.to_owned()), ..Self::new(message) }
    }

    /// The same problem of the change `number`.
    #[must_use]
    pub fn of_change(self, number: usize) -> Self {
        Self { change: number, ..self }
    }
}

impl ChangeKind {
    /// Returns the word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Role => "role",
            Self::Toolset => "toolset",
            Self::Rule => "rule",
        }
    }
}

impl fmt::Display for ChangeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
