//! The one decision behind every list and every call. A [`Permit`](crate::catalog::Permit) proves
//! that it was made.

use crate::{
    call::CallInput,
    canonical::Digest,
    descriptor::ToolDescriptor,
    id::{PrincipalId, SourceId, TenantId, ToolId},
    principal::Principal,
    scope::{Scope, ScopeSet},
    tenants::Tenants,
};

/// The part of a principal that decisions may depend on. Views are memoised by exactly this. The
/// principal is part of the key only when the authorizer is principal-specific.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// The principal's tenant.
    pub tenant: &'a TenantId,
    /// The principal's grants.
    pub scopes: &'a ScopeSet,
    /// The principal's id within the tenant. Only principal-specific authorizers may read it.
    pub principal: &'a PrincipalId,
}

/// The part of a tool that decisions may depend on.
#[derive(Debug, Clone, Copy)]
pub struct Resource<'a> {
    /// The description that callers see.
    pub tool: &'a ToolDescriptor,
    /// The tool's id.
    pub id: &'a ToolId,
    /// Its wire name.
    pub name: &'a str,
    /// The source that runs it.
    pub source: &'a SourceId,
    /// The source's own name for it.
    pub upstream_name: &'a str,
    /// The tenants that may know of it.
    pub tenants: &'a Tenants,
}

impl<'a> Resource<'a> {
    /// The scopes that the tool requires; `None` for a tool without a label.
    pub fn required(&self) -> Option<&'a [Scope]> {
        self.tool.required_scopes()
    }
}

/// The part of one call that decisions may depend on, in addition to the caller and the tool.
#[derive(Debug, Clone, Copy)]
pub struct CallContext<'a> {
    /// The surface that received the call.
    pub surface: &'a str,
    /// The input that the caller sent, before any other step reads it.
    pub input: &'a CallInput,
}

impl Principal {
    /// The part of this principal that decisions may depend on.
    pub fn subject(&self) -> Subject<'_> {
        Subject { tenant: &self.tenant, scopes: &self.scopes, principal: &self.id }
    }
}

/// Why a caller may not use a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DenialReason {
    /// The tool belongs to other tenants. Never disclosed.
    Tenant,
    /// The tool has no scope label, so no caller may use it.
    Unlabelled,
    /// The caller does not hold these scopes; never empty.
    MissingScopes(Vec<Scope>),
    /// A policy denies every call, with any arguments.
    Policy,
    /// A policy denies this call. Lists still show the tool.
    Arguments,
    /// The caller's own account at the upstream does not have the tool. Nothing else denies it.
    Account,
    /// The decision could not be made.
    Undecided(String),
}

impl DenialReason {
    /// The scopes that the caller does not hold, if they are the reason.
    pub fn missing(&self) -> &[Scope] {
        match self {
            Self::MissingScopes(missing) => missing,
            Self::Tenant
            | Self::Unlabelled
            | Self::Policy
            | Self::Arguments
            | Self::Account
            | Self::Undecided(_) => &[],
        }
    }

    /// The reason for `authorization.decided`.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Tenant => "tenant",
            Self::Unlabelled => "unlabelled",
            Self::MissingScopes(_) => "scope",
            Self::Policy | Self::Arguments => "policy",
            Self::Account => "account",
            Self::Undecided(_) => "undecided",
        }
    }
}

/// Decides whether a subject may see and call a tool. There is no other decision.
pub trait Authorizer: Send + Sync + 'static {
    /// Only `Ok` leads to a [`Permit`](crate::catalog::Permit); every error is a denial.
    ///
    /// Decides about every list, and about calls as far as they do not depend on the call itself.
    fn authorize(&self, subject: Subject<'_>, resource: Resource<'_>) -> Result<(), DenialReason>;

    /// Decides about one call. Never permits more than [`authorize`](Self::authorize).
    fn authorize_call(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        _call: CallContext<'_>,
    ) -> Result<(), DenialReason> {
        self.authorize(subject, resource)
    }

    /// Whether every tool with these tenants and required scopes is denied to `subject`. Lists then
    /// leave out all of them at once; `false` is always correct.
    fn denies_all(
        &self,
        _subject: Subject<'_>,
        _tenants: &Tenants,
        _required: Option<&[Scope]>,
    ) -> bool {
        false
    }

    /// Whether decisions can differ between principals of one tenant with the same scopes. A view
    /// is then kept for each principal.
    fn is_principal_specific(&self) -> bool {
        false
    }

    /// Identifies the facts that the decisions depend on besides the subject. They are part of this
    /// value, which must not change while it is used. A view is kept for each digest.
    fn facts(&self) -> Option<Digest> {
        None
    }
}

/// Checks the tenant allow-list first, then every required scope.
#[derive(Debug, Clone, Copy, Default)]
pub struct ScopeAuthorizer;

impl Authorizer for ScopeAuthorizer {
    fn authorize(&self, subject: Subject<'_>, resource: Resource<'_>) -> Result<(), DenialReason> {
        by_labels(subject, resource.tenants, resource.required())
    }

    fn denies_all(
        &self,
        subject: Subject<'_>,
        tenants: &Tenants,
        required: Option<&[Scope]>,
    ) -> bool {
        by_labels(subject, tenants, required).is_err()
    }
}

fn by_labels(
    subject: Subject<'_>,
    tenants: &Tenants,
    required: Option<&[Scope]>,
) -> Result<(), DenialReason> {
    if !tenants.admits(subject.tenant) {
        return Err(DenialReason::Tenant);
    }
    match required {
        Some(required) => {
            let missing: Vec<Scope> = subject.scopes.missing(required).cloned().collect();
            if missing.is_empty() { Ok(()) } else { Err(DenialReason::MissingScopes(missing)) }
        }
        None => Err(DenialReason::Unlabelled),
    }
}
