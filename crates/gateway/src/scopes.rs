//! The scopes that the routes of the server require.

use toolcrib_core::{
    approval::request::OVERRIDE_SCOPE,
    principal::Principal,
    scope::{Grant, Scope},
};

macro_rules! route_scopes {
    ($($(#[$doc:meta])* $name:ident = $text:expr,)+) => {
        /// A scope that a route requires. Routes require no other scopes, so that
        /// [`ALL`](Self::ALL) is complete.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum RouteScope {
            $($(#[$doc])* $name,)+
        }

        impl RouteScope {
            /// Every one of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The scope as roles and keys contain it.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

route_scopes! {
    /// Approve on one's own authority, bypassing the quorum.
    ApprovalsOverride = OVERRIDE_SCOPE,
    /// Read the record of the tenant.
    AuditRead = "audit:read",
    /// Change the configuration file, for all tenants. Only a grant of exactly this name gives it;
    /// see [`is_held_by`](Self::is_held_by).
    ConfigWrite = "config:write",
    /// Have calls of other principals explained.
    ExplainOthers = "explain:others",
    /// Create and rotate keys of other principals, in addition to managing keys.
    KeysImpersonate = "keys:impersonate",
    /// Create, list, rotate and revoke the keys of the tenant.
    KeysManage = "keys:manage",
    /// Read the metrics and the status of forwarders.
    MetricsRead = "metrics:read",
    /// Approve changed tools.
    PinsApprove = "pins:approve",
    /// Read the roles, and the tools of the tenant that each of them sees.
    RolesRead = "roles:read",
    /// Cancel runs of workflows of other principals.
    RunsCancel = "runs:cancel",
    /// Read what processes of sources wrote to stderr, which may hold arguments of calls.
    SourcesLogs = "sources:logs",
    /// Read the status of sources.
    SourcesRead = "sources:read",
    /// Have the tools of sources discovered again.
    SourcesRefresh = "sources:refresh",
}

impl RouteScope {
    /// Whether only a grant of exactly its name gives it. Who may change the configuration can start
    /// programs as the server does, which no earlier `*` was meant to allow.
    pub fn is_named(self) -> bool {
        self == Self::ConfigWrite
    }

    /// Whether one of `grants` is exactly this scope.
    pub fn is_named_by<'a>(self, grants: impl IntoIterator<Item = &'a Grant>) -> bool {
        grants.into_iter().any(|grant| grant.as_str() == self.as_str())
    }

    /// Whether `principal` holds it.
    pub fn is_held_by(self, principal: &Principal) -> bool {
        if self.is_named() {
            return self.is_named_by(principal.scopes.iter());
        }
        Scope::parse(self.as_str()).is_ok_and(|scope| principal.scopes.covers(&scope))
    }
}
