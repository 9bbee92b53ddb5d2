//! The scopes that the routes of the server require, and the reach of each.
//!
//! Invariant (I-100): this is the only list of rights beyond tools. A scope that crosses tenants or
//! reaches the machine requires a grant of its exact name. The claims of a token never give rights
//! beyond the caller and its tenant, neither as a scope nor through a role.

use toolcrib_core::{
    approval::request::OVERRIDE_SCOPE,
    principal::{AuthMethod, Principal},
    scope::{Grant, Scope},
};

/// The reach of a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Data and people of the holder's tenant.
    Tenant,
    /// The identity of other principals of the tenant.
    Principals,
    /// Data or tools of other tenants.
    Tenants,
    /// The machine of the server, and with it everything else.
    Host,
}

macro_rules! route_scopes {
    ($($(#[$doc:meta])* $name:ident = $text:expr, $reach:ident;)+) => {
        /// A scope that a route requires. Routes require no other scopes, so [`ALL`](Self::ALL) is
        /// complete.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RouteScope {
            $($(#[$doc])* $name,)+
        }

        impl RouteScope {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The text in roles and keys.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The reach of the scope.
            pub const fn reach(self) -> Reach {
                match self {
                    $(Self::$name => Reach::$reach,)+
                }
            }
        }
    };
}

route_scopes! {
    /// Approve on one's own authority, bypassing the quorum. Approvals belong to a tenant.
    ApprovalsOverride = OVERRIDE_SCOPE, Tenant;
    /// Read the record of the tenant.
    AuditRead = "audit:read", Tenant;
    /// Change the configuration file, for all tenants. Its holder can start programs as the server
    /// does.
    ConfigWrite = "config:write", Host;
    /// Connect the account of the tenant, and list and disconnect the accounts of its other
    /// principals.
    ConnectionsManage = "connections:manage", Tenant;
    /// Explain calls of other principals of the tenant.
    ExplainOthers = "explain:others", Tenant;
    /// Create and rotate keys of other principals, in addition to managing keys.
    KeysImpersonate = "keys:impersonate", Principals;
    /// Create, list, rotate and revoke the keys of the tenant, within the holder's own rights.
    KeysManage = "keys:manage", Tenant;
    /// Read the metrics of the server and of all tenants, the state of the server, and the status of
    /// forwarders.
    MetricsAll = "metrics:all", Tenants;
    /// Read the metrics of the tenant's own calls.
    MetricsRead = "metrics:read", Tenant;
    /// Approve changed tools. An approval is valid for every tenant of the source.
    PinsApprove = "pins:approve", Tenants;
    /// Read the roles, and the tools of the tenant that each of them sees.
    RolesRead = "roles:read", Tenant;
    /// Cancel runs of workflows of other principals of the tenant.
    RunsCancel = "runs:cancel", Tenant;
    /// Read the stderr of the tenant's sources, which may contain arguments of calls. Lines of a
    /// source that other tenants have called are withheld.
    SourcesLogs = "sources:logs", Tenant;
    /// Read the status of the tenant's sources. Figures of a source that other tenants have called
    /// are withheld.
    SourcesRead = "sources:read", Tenant;
    /// Repeat the discovery of the tenant's sources.
    SourcesRefresh = "sources:refresh", Tenant;
}

impl RouteScope {
    /// Returns the scope with exactly this name.
    pub fn named(text: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|scope| scope.as_str() == text)
    }

    /// Returns whether only a grant of its exact name gives it. A wildcard is written for a tenant,
    /// and has no effect beyond it.
    pub fn is_named(self) -> bool {
        matches!(self.reach(), Reach::Tenants | Reach::Host)
    }

    /// Whether an issuer may give it with a claim, if the configuration names it (I-100).
    pub fn may_be_claimed(self) -> bool {
        self.reach() == Reach::Tenant
    }

    /// Returns whether one of `grants` is exactly this scope.
    pub fn is_named_by<'a>(self, grants: impl IntoIterator<Item = &'a Grant>) -> bool {
        grants.into_iter().any(|grant| grant.as_str() == self.as_str())
    }

    /// Returns whether `grants` give this scope.
    pub fn is_given_by<'a>(self, grants: impl IntoIterator<Item = &'a Grant>) -> bool {
        if self.is_named() {
            return self.is_named_by(grants);
        }
        let scope = Scope::parse(self.as_str());
        scope.is_ok_and(|scope| grants.into_iter().any(|grant| grant.covers(&scope)))
    }

    /// Returns whether `principal` has it. A token only gives rights that claims may give, even
    /// with a role of the configuration.
    pub fn is_held_by(self, principal: &Principal) -> bool {
        match principal.auth {
            AuthMethod::Jwt(_) if !self.may_be_claimed() => false,
            _ => self.is_given_by(principal.scopes.iter()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// I-100: a scope that is added here has to be decided about.
    #[test]
    fn what_extends_beyond_a_tenant_is_named_and_never_claimed() {
        let beyond = |scope: &&RouteScope| !scope.may_be_claimed();
        let beyond: Vec<_> =
            RouteScope::ALL.iter().filter(beyond).map(|scope| scope.as_str()).collect();
        assert_eq!(beyond, ["config:write", "keys:impersonate", "metrics:all", "pins:approve"]);
        let named = RouteScope::ALL.iter().filter(|scope| scope.is_named());
        let named: Vec<_> = named.map(|scope| scope.as_str()).collect();
        assert_eq!(named, ["config:write", "metrics:all", "pins:approve"]);
    }
}
