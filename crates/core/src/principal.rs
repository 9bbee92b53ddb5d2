//! Who is calling.

use std::sync::Arc;

use crate::{
    clock::Timestamp,
    id::{KeyId, PrincipalId, TenantId},
    scope::{Grant, ScopeSet},
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
    /// Names of its roles, for the decisions that ask for one by name (approvals).
    pub roles: Vec<String>,
    /// Who else could come as this one: the makers of its key. None for everything but keys.
    pub makers: Vec<PrincipalId>,
    /// How the identity was established.
    pub auth: AuthMethod,
}

impl Principal {
    /// Whoever may stand behind it: itself, and the makers of its key.
    pub fn hands(&self) -> impl Iterator<Item = &PrincipalId> {
        std::iter::once(&self.id).chain(&self.makers)
    }
}

/// How a principal proved who it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuthMethod {
    /// A stored API key.
    ApiKey(KeyId),
    /// A signed token of an issuer that the configuration trusts.
    Jwt(Arc<Token>),
    /// Nobody proved anything; only the scopes of `[anonymous]` apply.
    Anonymous,
    /// The operator at the machine itself (command line with access to the store).
    Operator,
}

/// What is remembered of a token that was verified: enough to tell later whether it still holds,
/// and nothing to present it with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// Who issued it.
    pub issuer: String,
    /// From when on it is worth nothing.
    pub expires_at: Timestamp,
    /// Roles it names; what they give is decided by the configuration in force.
    pub roles: Vec<String>,
    /// Scopes it holds beside those of the roles.
    pub scopes: Vec<Grant>,
    /// Hash of the issuer's settings and of the key that it was verified with. It holds as long as
    /// there is an issuer with these settings and that key.
    pub proof: [u8; 32],
}
