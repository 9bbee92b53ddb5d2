//! The scopes that the routes of the server require.

use toolcrib_core::{approval::request::OVERRIDE_SCOPE, principal::Principal, scope::Scope};

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
    /// Cancel runs of workflows of other principals.
    RunsCancel = "runs:cancel",
    /// Read what processes of sources wrote to stderr, which may hold arguments of calls.
    SourcesLogs = "sources:logs",
    /// Read the status of sources.
    SourcesRead = "sources:read",
}

impl RouteScope {
    /// Whether `principal` holds it.
    pub fn is_held_by(self, principal: &Principal) -> bool {
        Scope::parse(self.as_str()).is_ok_and(|scope| principal.scopes.covers(&scope))
    }
}
