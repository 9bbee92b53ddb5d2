//! Policies of a build without a policy engine.

use toolcrib_core::authorize::{CallContext, Resource, Subject};

use super::{PolicyDecision, PolicyFile, PolicyProblem};

/// An empty type: this build does not have the feature `cedar`.
#[derive(Debug)]
pub enum PolicySet {}

impl PolicySet {
    /// Rejects every file: policies without an engine would be ignored.
    ///
    /// # Errors
    /// Always.
    pub fn parse(files: &[PolicyFile], _: Option<&PolicyFile>) -> Result<Self, Vec<PolicyProblem>> {
        let message = "this program was built without policies (feature `cedar`)";
        let file = files.first().map_or("", |file| &file.name);
        Err(vec![PolicyProblem::new(file, None, message)])
    }

    /// The number of policies.
    pub fn len(&self) -> usize {
        match *self {}
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        match *self {}
    }

    /// Evaluates the policies for a call, or for every call without one.
    pub fn judge(
        &self,
        _: Subject<'_>,
        _: Resource<'_>,
        _: Option<CallContext<'_>>,
    ) -> PolicyDecision {
        match *self {}
    }

    /// Whether a policy names principals.
    pub fn is_principal_specific(&self) -> bool {
        match *self {}
    }
}
