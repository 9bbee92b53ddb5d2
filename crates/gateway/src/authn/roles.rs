//! Roles and their grants.

use std::collections::BTreeMap;

use toolcrib_core::scope::{Grant, ScopeSet};

/// The grants of each role.
pub type Roles = BTreeMap<String, Vec<Grant>>;

/// The rights of a caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rights {
    /// The effective roles.
    pub roles: Vec<String>,
    /// The scopes, those of the roles included.
    pub scopes: ScopeSet,
}

/// Returns the rights of a caller with the roles `names` and `scopes`, where `all` are the
/// configured roles. Unknown roles never count, even where a role is compared by its name (I-101).
pub fn rights(all: &Roles, names: &[String], scopes: &[Grant]) -> Rights {
    let known = names.iter().filter_map(|name| Some((name, all.get(name)?)));
    let (roles, grants): (Vec<String>, Vec<&Vec<Grant>>) =
        known.map(|(name, grants)| (name.clone(), grants)).unzip();
    let scopes = ScopeSet::new(grants.into_iter().flatten().chain(scopes).cloned());
    Rights { roles, scopes }
}
