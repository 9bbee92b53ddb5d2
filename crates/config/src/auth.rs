//! `[auth]`: who may call, by tokens and in other ways.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::{
    bridge::Bridge,
    mcp::ResourceConfig,
    people::SamePerson,
    tokens::{JwtConfig, OneOrMore},
};

/// Identity providers.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Authentication {
    /// Information for OAuth clients.
    pub(super) resource: Option<ResourceConfig>,
    /// The authorization server for MCP clients.
    pub(super) bridge: Option<Bridge>,
    /// Issuers of tokens; one table or several.
    #[schemars(with = "Vec<JwtConfig>")]
    pub(super) jwt: OneOrMore<JwtConfig>,
    /// Principals that are one person.
    #[schemars(with = "Vec<SamePerson>")]
    pub(super) same_person: Vec<Spanned<SamePerson>>,
}
