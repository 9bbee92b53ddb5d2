//! What the operator says about the accounts of a source.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClientAuth, Owner, SecretValue};
use crate::id::{PrincipalId, TenantId};

/// How the callers of a source act with accounts at its upstream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccountSpec {
    /// Whose account a call uses.
    pub of: AccountOf,
    /// The tenant whose own account discovers the tools.
    pub tenant: TenantId,
    /// The scopes to request, and the most that a server can require; empty for those of the server.
    pub scopes: Vec<String>,
    /// What scopes mean, in words for people.
    pub scope_texts: BTreeMap<String, String>,
    /// The client that the operator registered.
    pub client: Option<PresetClient>,
    /// The authorization server, for an upstream that does not name it.
    pub issuer: Option<String>,
    /// The endpoints of a provider without metadata.
    pub endpoints: Option<PresetEndpoints>,
    /// The parameter `resource` (RFC 8707).
    pub resource: ResourceParameter,
    /// Whether a provider that does not announce PKCE with S256 is used nevertheless. PKCE is sent
    /// in any case.
    pub trusts_unannounced_pkce: bool,
    /// Further parameters of the authorization request, such as `access_type`.
    pub parameters: Vec<(String, String)>,
    /// The text between scopes; a blank, unless the provider differs.
    pub scope_separator: String,
    /// How tokens of callers are exchanged for tokens of the service. Its accounts are those of
    /// principals, with a configured client and endpoints.
    pub exchange: Option<TokenExchange>,
}

/// The exchange of a caller's token for one of the service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenExchange {
    /// RFC 8693, with the name of the service at the authorization server.
    Standard {
        /// The parameter `audience`.
        audience: Option<String>,
    },
    /// The on-behalf-of flow of Microsoft Entra ID.
    OnBehalfOf,
}

/// Whose account a call uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AccountOf {
    /// The caller's own; never another's, and not that of the tenant.
    Principal,
    /// One account of the tenant, for all its callers.
    Tenant,
}

/// A client that the operator registered at an authorization server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetClient {
    /// Its id.
    pub id: String,
    /// Its secret, if it has one.
    pub secret: Option<SecretValue>,
    /// How it authenticates.
    pub auth: ClientAuth,
}

/// Endpoints that the operator configured: `https`, or `http` to this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PresetEndpoints {
    /// The authorization endpoint, for browsers.
    pub authorization: String,
    /// The token endpoint.
    pub token: String,
    /// The revocation endpoint.
    pub revocation: Option<String>,
}

/// The parameter `resource` of authorization and token requests (RFC 8707).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResourceParameter {
    /// The resource that the upstream names, or else its address.
    OfServer,
    /// This resource.
    Given(String),
    /// None, for providers that refuse it.
    Omitted,
}

// === impl AccountSpec ===

impl AccountSpec {
    /// The owner of the grant for a call by `principal` of `tenant`.
    pub fn owner(&self, tenant: &TenantId, principal: &PrincipalId) -> Owner {
        match self.of {
            AccountOf::Principal => Owner::principal(tenant.clone(), principal.clone()),
            AccountOf::Tenant => self.tenant_owner(),
        }
    }

    /// Whether `principal` can have an account of its own. `anonymous` is every caller without
    /// credentials, and `operator` is the command line on the machine. Neither signs in to a
    /// browser, so an account of theirs would be that of a person with a key of this name.
    pub fn may_have_own(principal: &PrincipalId) -> bool {
        !matches!(principal.as_str(), "anonymous" | "operator" | "core.system" | "-")
    }

    /// The owner of the grant that discovers the tools.
    pub fn tenant_owner(&self) -> Owner {
        Owner::tenant(self.tenant.clone())
    }
}

impl AccountOf {
    /// The word in the configuration and in lists.
    pub fn word(self) -> &'static str {
        match self {
            Self::Principal => "principal",
            Self::Tenant => "tenant",
        }
    }
}
