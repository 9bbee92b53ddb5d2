//! The tenants that a tool exists for.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::id::{InvalidId, TenantId};

/// Which tenants a tool exists for.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Deserialize, JsonSchema)]
#[serde(try_from = "Vec<String>")]
#[schemars(with = "Vec<String>", inline)]
pub enum Tenants {
    /// Every tenant.
    All,
    /// Only these.
    Only(Vec<TenantId>),
    /// Every tenant but these, for which its names are ambiguous. Never configured directly.
    Except(Vec<TenantId>),
}

/// Reads a list of tenants; `*` means all.
impl TryFrom<Vec<String>> for Tenants {
    type Error = InvalidId;

    fn try_from(tenants: Vec<String>) -> Result<Self, InvalidId> {
        if tenants.iter().any(|tenant| tenant == "*") {
            return Ok(Self::All);
        }
        tenants.into_iter().map(TenantId::parse).collect::<Result<_, _>>().map(Self::Only)
    }
}

impl Tenants {
    /// Whether the tool exists for `tenant`.
    pub fn admits(&self, tenant: &TenantId) -> bool {
        match self {
            Self::All => true,
            Self::Only(tenants) => tenants.contains(tenant),
            Self::Except(tenants) => !tenants.contains(tenant),
        }
    }

    /// The tenants that both admit.
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

    /// The tenants that it names.
    pub fn named(&self) -> &[TenantId] {
        match self {
            Self::All => &[],
            Self::Only(tenants) | Self::Except(tenants) => tenants,
        }
    }

    /// Whether it admits no tenant.
    pub fn is_empty(&self) -> bool {
        matches!(self, Self::Only(tenants) if tenants.is_empty())
    }
}
