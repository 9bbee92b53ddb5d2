//! The arguments of `explain`.

use toolcrib_core::{
    id::{KeyId, PrincipalId, TenantId},
    scope::Grant,
};

/// The tool and the principal to explain.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The tool: tool id, wire name or OTC name; without it, why the list is what it is
    #[arg(long, value_name = "TOOL")]
    pub(crate) tool: Option<String>,

    /// The principal; its key says what it holds unless --scope or --role does
    #[arg(long, value_name = "ID")]
    pub(crate) principal: Option<PrincipalId>,

    /// The principal's tenant [default: default, or that of the key]
    #[arg(long, value_name = "ID")]
    pub(crate) tenant: Option<TenantId>,

    /// Which of the principal's keys
    #[arg(long, value_name = "ID", conflicts_with_all = ["scopes", "roles"])]
    pub(crate) key_id: Option<KeyId>,

    /// A scope that it is taken to hold, instead of those of a key; repeatable
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<Grant>,

    /// A role that it is taken to have, instead of those of a key; repeatable
    #[arg(long = "role", value_name = "ROLE")]
    pub(crate) roles: Vec<String>,

    /// Arguments like those of the call, as JSON; policies see their names, types and sizes alone
    #[arg(long, value_name = "JSON", requires = "tool")]
    pub(crate) arguments_shape: Option<String>,

    /// The surface that such a call comes by, which policies may look at
    #[arg(long, default_value = "mcp", requires = "arguments_shape",
        value_parser = ["openwop", "otc", "oxp", "explorer", "mcp", "cli", "workflow"])]
    pub(crate) surface: String,
}
