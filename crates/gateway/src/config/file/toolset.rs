//! `[toolset.NAME]`, as in the file.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

/// A named part of the catalog ([guide](../guides/toolsets.md)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Toolset {
    /// Title for people and for MCP's `instructions`.
    #[schemars(with = "Option<String>", extend("x-default" = "none"))]
    pub(in crate::config) title: Option<String>,
    /// Globs over tool ids and wire names.
    #[schemars(with = "Vec<String>")]
    pub(in crate::config) allow: Spanned<Vec<String>>,
    /// Globs of excluded tools.
    #[schemars(with = "Option<Vec<String>>", extend("x-default" = "none"))]
    pub(in crate::config) deny: Option<Spanned<Vec<String>>>,
    /// `search` lists `search_tools`, `describe_tool` and `call_tool` in place of the tools.
    #[schemars(with = "Option<Meta>", extend("default" = "off"))]
    pub(in crate::config) meta: Option<Meta>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum Meta {
    Off,
    Search,
}
