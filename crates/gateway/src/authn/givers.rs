//! The callers that can give a role to a new key.
//!
//! A key has only roles of its creator (I-61), so only callers with the scope `*` and the operator
//! of the machine can give a new role first. The right to change the configuration does not include
//! that right.

use serde::Serialize;
use toolcrib_config::scopes::RouteScope;
use toolcrib_core::{
    id::{PrincipalId, TenantId},
    principal::Principal,
    scope::Grant,
};

use super::{Authenticator, manage::is_within};

/// The most principals in a list.
const MOST: usize = 10;

/// The callers that can give a role to keys of the caller's tenant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleGivers {
    /// The name of the role.
    pub role: String,
    /// Whether the caller can.
    pub caller: bool,
    /// Other principals that can, at most ten, sorted; absent unless the caller may list the keys.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub others: Option<Vec<PrincipalId>>,
}

impl Authenticator {
    /// Returns whether `caller` can create a key with the configured role `name`.
    pub fn may_give(&self, caller: &Principal, name: &str) -> bool {
        let policy = self.inner.policy.load();
        policy.roles.get(name).is_some_and(|grants| gives(caller, name, grants))
    }

    /// Returns the callers that can give the role `name` with `grants`; the role may not be
    /// configured yet.
    pub fn givers(&self, caller: &Principal, name: &str, grants: &[Grant]) -> RoleGivers {
        let may_list = RouteScope::KeysManage.is_held_by(caller);
        RoleGivers {
            role: name.to_owned(),
            caller: gives(caller, name, grants),
            others: may_list.then(|| self.others(&caller.tenant, &caller.id, name, grants)),
        }
    }

    fn others(
        &self,
        tenant: &TenantId,
        caller: &PrincipalId,
        name: &str,
        grants: &[Grant],
    ) -> Vec<PrincipalId> {
        let now = self.inner.clock.now();
        let known = self.inner.table.load().all();
        let valid = known.iter().filter(|known| known.is_valid(now) && known.is_key());
        let holders = valid.map(|known| &known.principal);
        let of_tenant = holders.filter(|holder| holder.tenant == *tenant && holder.id != *caller);
        let able = of_tenant.filter(|holder| gives(holder, name, grants));
        let mut others: Vec<PrincipalId> = able.map(|holder| holder.id.clone()).collect();
        others.sort();
        others.dedup();
        others.truncate(MOST);
        others
    }
}

/// Whether `caller` can create keys with the role `name` and its `grants`.
fn gives(caller: &Principal, name: &str, grants: &[Grant]) -> bool {
    RouteScope::KeysManage.is_held_by(caller) && is_within(caller, &[name], &[], grants.iter())
}
