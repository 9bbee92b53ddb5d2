//! The arguments of `explain`.

use toolcrib_core::{
    id::{KeyId, PrincipalId, TenantId},
    scope::Grant,
};

/// The tool and the principal to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The tool: tool id, wire name or OTC name; without it, the tool list is explained
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// The principal; it has the scopes and roles of its key unless --scope or --role is given
    #[arg(long, value_name = "ID")]
    pub(crate) principal: Option<PrincipalId>,

    /// The principal's tenant [default: default, or that of the key]
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<TenantId>,

    /// The key of the principal
    #[arg(long, value_name = "ID", conflicts_with_all = ["scopes", "roles"])]
    pub(crate) key_id: Option<KeyId>,

    /// A scope to assume instead of those of a key; repeatable
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Grant>,

    /// A role to assume instead of those of a key; repeatable
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// Arguments like those of the call, as JSON; policies see only their names, types and sizes
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) arguments_shape: Option<String>,

    /// The surface of the call, for policies
    #[arg(long, default_value = "mcp", requires = "arguments_shape",
        value_parser = ["openwop", "otc", "oxp", "explorer", "mcp", "cli", "workflow"])]
    pub(crate) surface: String,
}
