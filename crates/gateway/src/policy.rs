//! Policies that restrict calls further than scopes do (`[policy]`).
//!
//! Invariant (I-83): a policy never widens access. Tenants and scopes are checked first; then the
//! policies must permit the call without forbidding it. A failed evaluation is a denial.
//! Invariant (I-82): policies see the shape of arguments and never a value.
//! Invariant (I-84): a list leaves out a tool if, and only if, policies deny it for all arguments
//! and surfaces.

#[cfg(feature = "cedar")]
mod cedar;
#[cfg(not(feature = "cedar"))]
mod none;
#[cfg(feature = "cedar")]
mod shape;
#[cfg(feature = "cedar")]
#[cfg(test)]
mod tests;

use std::{fmt, sync::Arc};

use toolcrib_core::{
    authorize::{Authorizer, CallContext, Denied, Resource, Subject},
    catalog::Tenants,
    scope::Scope,
};

#[cfg(feature = "cedar")]
pub use self::cedar::PolicySet;
#[cfg(not(feature = "cedar"))]
pub use self::none::PolicySet;

/// One file of policies, or of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyFile {
    /// The name for the operator.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// A problem of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PolicyProblem {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: Option<usize>,
    /// The text of the problem.
    pub message: String,
}

impl PolicyProblem {
    fn new(file: &str, line: Option<usize>, message: impl Into<String>) -> Self {
        Self { file: file.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for PolicyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file, self.message),
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

/// The decision of the policies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Judgement {
    /// Whether they permit the call; `None` if that depends on unknown facts.
    pub allowed: Option<bool>,
    /// The deciding policies: their `@id`, or file and line.
    pub by: Vec<String>,
    /// Why some of them could not be evaluated.
    pub errors: Vec<String>,
}

/// The decision of a snapshot: first the base decision, and then the policies.
#[derive(Clone)]
pub(crate) struct Decider {
    pub(crate) base: Arc<dyn Authorizer>,
    pub(crate) policies: Option<Arc<PolicySet>>,
}

impl Authorizer for Decider {
    fn authorize(&self, subject: Subject<'_>, resource: Resource<'_>) -> Result<(), Denied> {
        self.base.authorize(subject, resource)?;
        let Some(policies) = &self.policies else { return Ok(()) };
        match policies.judge(subject, resource, None).allowed {
            Some(true) | None => Ok(()),
            Some(false) => Err(Denied::Policy),
        }
    }

    fn authorize_call(
        &self,
        subject: Subject<'_>,
        resource: Resource<'_>,
        call: CallContext<'_>,
    ) -> Result<(), Denied> {
        self.base.authorize_call(subject, resource, call)?;
        let Some(policies) = &self.policies else { return Ok(()) };
        if policies.judge(subject, resource, Some(call)).allowed == Some(true) {
            return Ok(());
        }
        // The denial must not disclose a tool that lists leave out.
        match policies.judge(subject, resource, None).allowed {
            Some(false) => Err(Denied::Policy),
            Some(true) | None => Err(Denied::Arguments),
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
            || self.policies.as_ref().is_some_and(|it| it.is_principal_specific())
    }
}
