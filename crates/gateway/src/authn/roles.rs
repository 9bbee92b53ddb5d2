//! Roles and their grants.

use std::collections::BTreeMap;

use toolcrib_core::scope::{Grant, ScopeSet};

/// The grants of each role.
pub type Roles = BTreeMap<String, Vec<Grant>>;

/// The scopes of a caller with `roles` and `scopes`, where `all` are the configured roles.
pub fn granted(all: &Roles, roles: &[String], scopes: &[Grant]) -> ScopeSet {
    let of_roles = roles.iter().filter_map(|role| all.get(role)).flatten();
    ScopeSet::new(of_roles.chain(scopes).cloned())
}
