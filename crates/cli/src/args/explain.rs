//! The arguments of `explain`.

use clap::builder::PossibleValuesParser;
use toolcrib_core::{
    id::{KeyId, PrincipalId, TenantId},
    scope::Grant,
};

/// The tool and the principal to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// Explain this tool, by tool id, wire name or OTC name [default: the tool list]
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// Explain for this principal, with the scopes and roles of its key unless --scope or --role is
    /// given
    #[arg(long, value_name = "ID")]
    pub(crate) principal: Option<PrincipalId>,

    /// Set the tenant of the principal [default: default, or that of the key]
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<TenantId>,

    /// Explain for this key of the principal
    #[arg(long, value_name = "ID", conflicts_with_all = ["scopes", "roles"])]
    pub(crate) key_id: Option<KeyId>,

    /// Assume this scope instead of those of a key; may be repeated
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Grant>,

    /// Assume this role instead of those of a key; may be repeated
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// Assume arguments like this JSON; policies see only their names, types and sizes
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) arguments_shape: Option<String>,

    /// Assume a call on this surface, for policies
    #[arg(long, default_value = "mcp", requires = "arguments_shape",
        value_parser = PossibleValuesParser::new(toolcrib::surfaces()))]
    pub(crate) surface: String,
}
