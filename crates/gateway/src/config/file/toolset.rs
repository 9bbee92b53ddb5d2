//! `[toolset.NAME]`, as typed.

use serde::Deserialize;
use toml::Spanned;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::config) struct Toolset {
    pub(in crate::config) title: Option<String>,
    pub(in crate::config) allow: Spanned<Vec<String>>,
    pub(in crate::config) deny: Option<Spanned<Vec<String>>>,
    pub(in crate::config) meta: Option<Meta>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in crate::config) enum Meta {
    Off,
    Search,
}
