//! Principals that belong to one person: keys, tokens and clients have a principal each.

use std::collections::BTreeMap;

use crate::id::{PrincipalId, TenantId};

/// Which principals are one person, as the operator declares. Every other principal is a person
/// by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct People {
    /// The number of the group of each principal, by tenant.
    groups: BTreeMap<TenantId, BTreeMap<PrincipalId, usize>>,
    /// The number of the next group.
    next: usize,
}

impl People {
    /// Declares that `principals` of `tenant` are one person.
    ///
    /// # Errors
    /// The first of them that is in a group already. Nothing is changed then.
    pub fn declare(
        &mut self,
        tenant: TenantId,
        principals: &[PrincipalId],
    ) -> Result<(), PrincipalId> {
        let groups = self.groups.entry(tenant).or_default();
        for (at, principal) in principals.iter().enumerate() {
            let is_repeated = principals.iter().take(at).any(|other| other == principal);
            if is_repeated || groups.contains_key(principal) {
                return Err(principal.clone());
            }
        }
        groups.extend(principals.iter().map(|principal| (principal.clone(), self.next)));
        self.next += 1;
        Ok(())
    }

    /// Whether two principals of `tenant` are one person.
    pub fn are_one(&self, tenant: &TenantId, one: &PrincipalId, other: &PrincipalId) -> bool {
        let groups = self.groups.get(tenant);
        let group = |principal: &PrincipalId| groups.and_then(|groups| groups.get(principal));
        one == other || group(one).is_some_and(|number| group(other) == Some(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn principals(names: &[&str]) -> Vec<PrincipalId> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn a_group_is_one_person_in_its_tenant() {
        let mut people = People::default();
        let (acme, other): (TenantId, TenantId) = ("acme".parse().unwrap(), "b".parse().unwrap());
        people.declare(acme.clone(), &principals(&["ada", "id|ada"])).unwrap();
        people.declare(acme.clone(), &principals(&["ben", "id|ben", "ben2"])).unwrap();
        for (tenant, one, two, expected) in [
            (&acme, "ada", "id|ada", true),
            (&acme, "ben2", "id|ben", true),
            (&acme, "ada", "ben", false),
            (&acme, "ada", "eve", false),
            (&acme, "eve", "eve", true),
            (&acme, "eve", "mia", false),
            (&other, "ada", "id|ada", false),
        ] {
            let (one, two) = (one.parse().unwrap(), two.parse().unwrap());
            assert_eq!(people.are_one(tenant, &one, &two), expected, "{one} {two}");
            assert_eq!(people.are_one(tenant, &two, &one), expected, "{two} {one}");
        }
    }

    #[test]
    fn a_principal_is_in_one_group() {
        let mut people = People::default();
        let tenant: TenantId = "acme".parse().unwrap();
        people.declare(tenant.clone(), &principals(&["ada", "id|ada"])).unwrap();
        let before = people.clone();
        for names in [["new", "ada"], ["new", "new"]] {
            let refused = people.declare(tenant.clone(), &principals(&names)).unwrap_err();
            assert_eq!(refused.as_str(), names[1]);
        }
        assert_eq!(people, before);
        people.declare("other".parse().unwrap(), &principals(&["ada", "new"])).unwrap();
    }
}
