//! The tenants that a tool exists for.

use crate::id::TenantId;

/// Which tenants a tool exists for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tenants {
    /// Every tenant.
    All,
    /// Only these.
    Only(Vec<TenantId>),
    /// Every tenant but these, for which its names are ambiguous. Never configured directly.
    Except(Vec<TenantId>),
}

impl Tenants {
    /// Returns whether the tool exists for `tenant`.
    pub fn admits(&self, tenant: &TenantId) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
            Self::Except(tenants) => !tenants.contains(tenant),
        }
    }

    /// Returns the tenants that both admit.
    #[must_use]
    pub fn common(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::All, other) | (other, Self::All) => other.clone(),
            (Self::Except(a), Self::Except(b)) => {
                let more = b.iter().filter(|tenant| !a.contains(tenant));
                Self::Except(a.iter().chain(more).cloned().collect())
            }
            (Self::Only(only), other) | (other, Self::Only(only)) => {
                Self::Only(only.iter().filter(|tenant| other.admits(tenant)).cloned().collect())
            }
        }
    }

    /// Returns whether it admits no tenant.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(tenants) if tenants.is_empty())
    }
}
