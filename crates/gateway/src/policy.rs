//! Policies that restrict calls further than scopes do (`[policy]`), and the lists of callers'
//! accounts, which restrict them last.
//!
//! Invariant (I-83): a policy never widens access. Tenants and scopes are checked first; then the
//! policies must permit the call without forbidding it. A failed evaluation is a denial.
//! Invariant (I-84): a list leaves out a tool if, and only if, policies deny it for all arguments
//! and surfaces.

use std::sync::Arc;

use toolcrib_config::policy_set::PolicySet;
use toolcrib_core::{
    authorize::{Authorizer, CallContext, DenialReason, Resource, Subject},
    canonical::Digest,
    catalog::Tenants,
    scope::Scope,
};

use crate::own_lists::OwnTools;

/// The decision of a snapshot: first the base decision, and then the policies.
#[derive(Clone)]
pub(crate) struct Decider {
    pub(crate) base: Arc<dyn Authorizer>,
    pub(crate) policies: Option<Arc<PolicySet>>,
}

/// The decision of a snapshot for one caller, with the tools that its accounts have at the moment.
pub(crate) struct CallerDecider {
    pub(crate) decider: Decider,
    pub(crate) own: Option<Arc<OwnTools>>,
}

impl Authorizer for Decider {
    fn authorize(&self, subject: Subject<'_>, resource: Resource<'_>) -> Result<(), DenialReason> {
        self.base.authorize(subject, resource)?;
        let Some(policies) = &self.policies else { return Ok(()) };
        match policies.judge(subject, resource, None).allowed {
            Some(true) | None => Ok(()),
            Some(false) => Err(DenialReason::Policy),
        }
    }

    fn authorize_call(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        call: CallContext<'_>,
    ) -> Result<(), DenialReason> {
        self.base.authorize_call(subject, resource, call)?;
        let Some(policies) = &self.policies else { return Ok(()) };
        if policies.judge(subject, resource, Some(call)).allowed == Some(true) {
            return Ok(());
        }
        // The denial must not disclose a tool that lists leave out.
        match policies.judge(subject, resource, None).allowed {
            Some(false) => Err(DenialReason::Policy),
            Some(true) | None => Err(DenialReason::Arguments),
        }
    }

    fn denies_all(
        &self,
        subject: Subject<'_>,
        tenants: &Tenants,
        required: Option<&[Scope]>,
    ) -> bool {
        // Policies only restrict (I-83).
        self.base.denies_all(subject, tenants, required)
    }

    fn is_principal_specific(&self) -> bool {
        self.base.is_principal_specific()
            || self.policies.as_ref().is_some_and(|policies| policies.is_principal_specific())
    }
}

// === impl CallerDecider ===

impl CallerDecider {
    fn check(&self, resource: Resource<'_>) -> Result<(), DenialReason> {
        match &self.own {
            Some(own) if !own.has(resource) => Err(DenialReason::Account),
            Some(_) | None => Ok(()),
        }
    }
}

impl Authorizer for CallerDecider {
    fn authorize(&self, subject: Subject<'_>, resource: Resource<'_>) -> Result<(), DenialReason> {
        self.decider.authorize(subject, resource)?;
        self.check(resource)
    }

    fn authorize_call(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        call: CallContext<'_>,
    ) -> Result<(), DenialReason> {
        let decided = self.decider.authorize_call(subject, resource, call);
        match decided {
            // A denial because of arguments would disclose a tool that lists leave out.
            Ok(()) | Err(DenialReason::Arguments) => self.check(resource).and(decided),
            Err(_) => decided,
        }
    }

    fn denies_all(
        &self,
        subject: Subject<'_>,
        tenants: &Tenants,
        required: Option<&[Scope]>,
    ) -> bool {
        self.decider.denies_all(subject, tenants, required)
    }

    fn is_principal_specific(&self) -> bool {
        self.decider.is_principal_specific()
    }

    fn facts(&self) -> Option<Digest> {
        self.own.as_ref().map(|own| own.digest())
    }
}
