//! The one decision behind every list and every call, and the proof that it was made.

use std::sync::Arc;

use serde_json::Value;

use crate::{
    catalog::{Entry, Generation},
    id::{PrincipalId, TenantId},
    principal::Principal,
    scope::{Scope, ScopeSet},
};

/// The part of a principal that decisions may depend on. Views are memoised by exactly this, and by
/// the principal only where an authorizer tells principals apart.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Tenant.
    pub tenant: &'a TenantId,
    /// Grants.
    pub scopes: &'a ScopeSet,
    /// Who, within the tenant. Only authorizers that tell principals apart may look at it.
    pub principal: &'a PrincipalId,
}

/// What of one call decisions may depend on, beside who calls what.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The surface that the call came by.
    pub surface: &'a str,
    /// The arguments as they were sent, before anything else looked at them.
    pub arguments: &'a Value,
}

impl Principal {
    /// What decisions about this principal may depend on.
    pub fn subject(&self) -> Subject<'_> {
        Subject { tenant: &self.tenant, scopes: &self.scopes, principal: &self.id }
    }
}

/// Why a caller may not use a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The tool belongs to other tenants. Never disclosed.
    Tenant,
    /// Nobody said what the tool requires, so nobody may use it.
    Unlabelled,
    /// This scope is not held.
    MissingScope(Scope),
    /// A policy lets no call pass, whatever its arguments.
    Policy,
    /// A policy does not let this call pass. Lists show the tool all the same.
    Arguments,
    /// The decision could not be made.
    Undecided(String),
}

impl Denied {
    /// The word for `authorization.decided`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Unlabelled => "unlabelled",
            Self::MissingScope(_) => "scope",
            Self::Policy | Self::Arguments => "policy",
            Self::Undecided(_) => "undecided",
        }
    }
}

/// Decides whether a subject may see and call a tool. There is no other decision.
pub trait Authorizer: Send + Sync + 'static {
    /// `Ok` is the only way to a [`Permit`]; anything else, an error included, is a denial.
    ///
    /// Decides about every list, and about calls as far as they are all alike.
    fn authorize(&self, subject: Subject<'_>, entry: &Entry) -> Result<(), Denied>;

    /// The decision about one call. Never more than [`authorize`](Self::authorize) lets pass.
    fn authorize_call(
        &self,
        subject: Subject<'_>,
        entry: &Entry,
        _call: CallContext<'_>,
    ) -> Result<(), Denied> {
        self.authorize(subject, entry)
    }

    /// Whether decisions can differ between principals of one tenant with the same scopes. A view is
    /// then kept for each of them.
    fn is_principal_specific(&self) -> bool {
        false
    }
}

/// Tenant allow-list first, then every required scope.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeAuthorizer;

impl Authorizer for ScopeAuthorizer {
    fn authorize(&self, subject: Subject<'_>, entry: &Entry) -> Result<(), Denied> {
        if !entry.tenants.admits(subject.tenant) {
            return Err(Denied::Tenant);
        }
        match entry.tool.auth.as_ref().and_then(|auth| auth.scopes.as_deref()) {
            Some(required) => match subject.scopes.first_missing(required) {
                None => Ok(()),
                Some(scope) => Err(Denied::MissingScope(scope.clone())),
            },
            None => Err(Denied::Unlabelled),
        }
    }
}

/// Proof that a principal may call an entry of a catalog generation. Only [`Permit::new`] makes one.
#[derive(Debug, Clone)]
pub struct Permit {
    principal: Principal,
    entry: Arc<Entry>,
    generation: Generation,
}

impl Permit {
    /// Asks `authorizer` about `call`; the only way to a permit.
    pub fn new(
        authorizer: &dyn Authorizer,
        principal: &Principal,
        entry: &Arc<Entry>,
        generation: Generation,
        call: CallContext<'_>,
    ) -> Result<Self, Denied> {
        authorizer.authorize_call(principal.subject(), entry, call)?;
        Ok(Self { principal: principal.clone(), entry: Arc::clone(entry), generation })
    }

    /// Who may call.
    pub fn principal(&self) -> &Principal {
        &self.principal
    }

    /// What may be called.
    pub fn entry(&self) -> &Arc<Entry> {
        &self.entry
    }

    /// The catalog generation the decision was made in.
    pub fn generation(&self) -> Generation {
        self.generation
    }
}
