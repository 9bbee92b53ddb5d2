//! Who is calling.

use crate::{
    id::{KeyId, PrincipalId, TenantId},
    scope::ScopeSet,
};

/// An authenticated (or explicitly anonymous) caller with everything a decision needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// Stable within the tenant.
    pub id: PrincipalId,
    /// The tenant whose tools, limits and events apply.
    pub tenant: TenantId,
    /// What the caller holds; roles are already resolved into it.
    pub scopes: ScopeSet,
    /// How the identity was established.
    pub auth: AuthMethod,
}

/// How a principal proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthMethod {
    /// A stored API key.
    ApiKey(KeyId),
    /// Nobody proved anything; only the scopes of `[anonymous]` apply.
    Anonymous,
    /// The operator at the machine itself (command line with access to the store).
    Operator,
}
