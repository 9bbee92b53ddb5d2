//! `[[auth.same_person]]`: principals of keys, tokens and clients that belong to one person.

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;
use toolcrib_core::{
    id::{PrincipalId, TenantId},
    people::People,
};

use super::{JwtConfig, SharedJwtConfig, resolver::Resolver};

/// The most principals of one person.
const MAX_PRINCIPALS: usize = 16;

/// Principals of one tenant that are one person. For approvals they are one caller and one approver
/// ([guide](../guides/approvals.md#one-person-with-several-principals)).
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SamePerson {
    /// Their tenant.
    tenant: TenantId,
    /// 2 to 16 principals, as `GET /v1/whoami` names them, such as `id.example.com|248289`.
    principals: Vec<PrincipalId>,
}

impl Resolver<'_> {
    /// Resolves the groups. `issuers` and `shared` say which principals tokens can have.
    pub(super) fn people(
        &mut self,
        typed: Vec<Spanned<SamePerson>>,
        issuers: &[JwtConfig],
        shared: Option<&SharedJwtConfig>,
    ) -> People {
        let mut people = People::default();
        for typed in typed {
            let key = self.element("auth.same_person", &typed.span());
            let SamePerson { tenant, principals } = typed.into_inner();
            let of_principals = format!("{key}.principals");
            if tenant.as_str() == TenantId::OPERATOR {
                let message = "the tenant `-` is the record's own; it has no approvals";
                self.complain(&format!("{key}.tenant"), message);
            }
            if !(2..=MAX_PRINCIPALS).contains(&principals.len()) {
                self.complain(&of_principals, "expected 2 to 16 principals");
            }
            for principal in &principals {
                if principal.as_str() == "anonymous" || principal.as_str().starts_with("core.") {
                    let message = format!("`{principal}` is not the principal of a person");
                    self.complain(&of_principals, message);
                }
                if !is_possible(principal, &tenant, issuers, shared) {
                    let message = format!(
                        "`{principal}` has the form of a token's principal, but no [[auth.jwt]] \
                         gives this tenant principals with this prefix"
                    );
                    self.complain_of_absence("auth.jwt", &of_principals, message);
                }
            }
            if let Err(repeated) = people.declare(tenant, &principals) {
                let message = format!("`{repeated}` is in a group already; merge the groups");
                self.complain(&of_principals, message);
            }
        }
        people
    }
}

/// Whether a caller could have this principal. Keys can have any, but few of theirs contain `|`.
fn is_possible(
    principal: &PrincipalId,
    tenant: &TenantId,
    issuers: &[JwtConfig],
    shared: Option<&SharedJwtConfig>,
) -> bool {
    let text = principal.as_str();
    let is_issued = |issuer: &JwtConfig| {
        issuer.tenant.as_ref().is_none_or(|of| of == tenant)
            && text.starts_with(issuer.principal_prefix())
    };
    let is_shared = |shared: &SharedJwtConfig| {
        shared.tenant == *tenant
            && (text.starts_with(SharedJwtConfig::PRINCIPAL_PREFIX)
                || shared.principal.as_ref() == Some(principal))
    };
    !text.contains('|') || issuers.iter().any(is_issued) || shared.is_some_and(is_shared)
}
