//! The content of the record about a denial, and the tenants whose logs get it.

use toolcrib_core::{
    authorize::{Authorizer as _, DenialReason, Subject},
    id::{PrincipalId, TenantId},
    principal::PrincipalKey,
    scope::Scope,
};

use super::refusals::{Refusal, RefusalSubject};

/// The resource and reason of unknown names.
pub(super) const UNKNOWN: &str = "unknown";

/// The contents of a denial in the log of a tenant.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Decision {
    pub(super) tenant: TenantId,
    pub(super) principal: PrincipalId,
    pub(super) action: Box<str>,
    pub(super) resource: Box<str>,
    pub(super) reason: Box<str>,
    pub(super) missing: Vec<Box<str>>,
}

impl Refusal {
    /// The decisions to record, that of the caller's tenant first; and the reason, if the tool
    /// exists in that tenant.
    ///
    /// A request for a tool of another tenant is recorded for the operator alone. In the log of the
    /// caller's tenant it is a request for an unknown name (I-9).
    pub(super) fn decisions(&self) -> (Vec<Decision>, Option<DenialReason>) {
        let of = |resource: &str, reason: &str| Decision {
            tenant: self.tenant.clone(),
            principal: self.principal.clone(),
            action: self.action.clone(),
            resource: resource.into(),
            reason: reason.into(),
            missing: Vec::new(),
        };
        let miss = match &self.subject {
            RefusalSubject::Known { resource, reason, missing } => {
                let missing = missing.iter().cloned().collect();
                return (vec![Decision { missing, ..of(resource, reason) }], None);
            }
            RefusalSubject::Miss(missed) => &missed.0,
        };
        let subject =
            Subject { tenant: &self.tenant, scopes: &miss.scopes, principal: &self.principal };
        let denied = miss.entry.as_ref().and_then(|entry| {
            let denied = miss.decider().authorize(subject, entry.resource()).err()?;
            Some((entry.id.as_str(), denied))
        });
        match denied {
            None => (vec![of(UNKNOWN, UNKNOWN)], None),
            Some((tool, DenialReason::Tenant)) => {
                let mut decisions = vec![of(UNKNOWN, UNKNOWN)];
                let key =
                    PrincipalKey { tenant: self.tenant.clone(), principal: self.principal.clone() };
                if let Ok(tenant) = TenantId::parse(TenantId::OPERATOR)
                    && let Some(principal) = key.in_record_of(&tenant)
                {
                    decisions.push(Decision { tenant, principal, ..of(tool, "tenant") });
                }
                (decisions, None)
            }
            Some((tool, denied)) => {
                let missing = names(denied.missing());
                (vec![Decision { missing, ..of(tool, denied.reason()) }], Some(denied))
            }
        }
    }
}

/// The names of scopes, for decisions.
pub(super) fn names(scopes: &[Scope]) -> Vec<Box<str>> {
    scopes.iter().map(|scope| scope.as_str().into()).collect()
}
