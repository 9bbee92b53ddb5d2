//! The one decision behind every list and every call, and the proof that it was made.

use std::sync::Arc;

use crate::{
    catalog::{Entry, Generation},
    id::TenantId,
    principal::Principal,
    scope::{Scope, ScopeSet},
};

/// The part of a principal that decisions may depend on. Views are memoised by exactly this.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Tenant.
    pub tenant: &'a TenantId,
    /// Grants.
    pub scopes: &'a ScopeSet,
}

impl Principal {
    /// What decisions about this principal may depend on.
    pub fn subject(&self) -> Subject<'_> {
        Subject { tenant: &self.tenant, scopes: &self.scopes }
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
            Self::Undecided(_) => "undecided",
        }
    }
}

/// Decides whether a subject may see and call a tool. There is no other decision.
pub trait Authorizer: Send + Sync + 'static {
    /// `Ok` is the only way to a [`Permit`]; anything else, an error included, is a denial.
    fn authorize(&self, subject: Subject<'_>, entry: &Entry) -> Result<(), Denied>;
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
    /// Asks `authorizer`; the only way to a permit.
    pub fn new(
        authorizer: &dyn Authorizer,
        principal: &Principal,
        entry: &Arc<Entry>,
        generation: Generation,
    ) -> Result<Self, Denied> {
        authorizer.authorize(principal.subject(), entry)?;
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
