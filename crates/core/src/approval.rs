//! When a call needs a human's consent first (RFC 0051).

use crate::descriptor::Approval;

/// What the approval step of the pipeline decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The call may go on.
    NotNeeded,
    /// The call must not run without a grant.
    Required,
}

/// Whether a tool declared as `approval` may run without a grant.
///
/// An undeclared approval means none was asked for; `conditional` counts as required until a
/// condition is evaluated, because no decision is a denial.
pub fn decide(approval: Option<Approval>) -> ApprovalDecision {
    match approval {
        None | Some(Approval::Never) => ApprovalDecision::NotNeeded,
        Some(Approval::Conditional | Approval::Always) => ApprovalDecision::Required,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_explicit_or_absent_never_goes_on() {
        assert_eq!(decide(None), ApprovalDecision::NotNeeded);
        assert_eq!(decide(Some(Approval::Never)), ApprovalDecision::NotNeeded);
        assert_eq!(decide(Some(Approval::Conditional)), ApprovalDecision::Required);
        assert_eq!(decide(Some(Approval::Always)), ApprovalDecision::Required);
    }
}
