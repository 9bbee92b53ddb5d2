//! Human approval of calls (RFC 0051).
//!
//! * [`condition`] decides whether a `conditional` call requires approval.
//! * [`request`](mod@request) is one approval request with its votes, and the only place where
//!   its state changes.
//! * [`store`] is the storage trait for requests.
//!
//! Invariant (I-15): a tool whose approval is not `never` does not run without a grant. A condition
//! that cannot be evaluated counts as true.

pub mod condition;
pub mod request;
pub mod store;

use std::num::NonZeroU32;

pub use self::{
    condition::{ArgumentRule, Condition, Test},
    request::{
        Approval, ApprovalState, Argument, Fingerprint, MAX_COMMENT, RoundShape, Verdict, Vote,
        VoteRefusal,
    },
    store::{ApprovalQuery, ApprovalStore, OpenOutcome},
};
use crate::{
    call::CallInput,
    descriptor::{self, SafetyTier},
    scope::Scope,
};

/// The approval settings of one tool, in addition to whether approval is required.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Consent {
    /// When a `conditional` approval is required; `None` means always.
    pub when: Option<Condition>,
    /// The number of approvals required; `None` means the default.
    pub quorum: Option<NonZeroU32>,
    /// The role that an approver must have, in addition to the scope.
    pub role: Option<String>,
    /// The scope that an approver must hold; `None` means the default scope.
    pub scope: Option<Scope>,
    /// Whether the tool only calls other tools, each of which requires approval by itself.
    pub by_parts: bool,
}

/// The decision of the approval step of the pipeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The call may continue.
    NotNeeded,
    /// The call must not run without a grant.
    Required,
}

/// Decides whether a call with `input` of a tool declared as `approval` may run without a grant.
///
/// A tool without a declared approval requires no approval. `conditional` counts as required unless
/// its condition is certainly false: an undecided condition never permits a call.
pub fn decide(
    approval: Option<descriptor::Approval>,
    consent: &Consent,
    tier: SafetyTier,
    input: &CallInput,
) -> ApprovalDecision {
    use descriptor::Approval::{Always, Conditional, Never};
    match (approval, &consent.when) {
        (None | Some(Never), _) => ApprovalDecision::NotNeeded,
        _ if consent.by_parts => ApprovalDecision::NotNeeded,
        (Some(Conditional), Some(when)) if !when.may_hold(tier, input) => {
            ApprovalDecision::NotNeeded
        }
        (Some(Conditional | Always), _) => ApprovalDecision::Required,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::call::CallerInput;

    // I-15
    #[test]
    fn only_a_call_that_certainly_needs_no_approval_continues() {
        use descriptor::Approval::{Always, Conditional, Never};
        let large = ArgumentRule { pointer: "/n".to_owned(), test: Test::Above(5.0) };
        let when = |tiers: &[SafetyTier], arguments: Vec<ArgumentRule>| Consent {
            when: Some(Condition { tiers: tiers.to_vec(), arguments }),
            ..Consent::default()
        };
        let plain = Consent::default();
        let writes = when(&[SafetyTier::Write], vec![]);
        let many = when(&[], vec![large.clone()]);
        let both = when(&[SafetyTier::Write], vec![large]);
        for (approval, consent, tier, arguments, required) in [
            (None, &plain, SafetyTier::Write, json!({}), false),
            (Some(Never), &plain, SafetyTier::Write, json!({}), false),
            (Some(Never), &writes, SafetyTier::Write, json!({}), false),
            (Some(Always), &plain, SafetyTier::Read, json!({}), true),
            (Some(Always), &many, SafetyTier::Read, json!({"n": 1}), true),
            (Some(Conditional), &plain, SafetyTier::Read, json!({}), true),
            (Some(Conditional), &writes, SafetyTier::Write, json!({}), true),
            (Some(Conditional), &writes, SafetyTier::Read, json!({}), false),
            (Some(Conditional), &many, SafetyTier::Read, json!({"n": 6}), true),
            (Some(Conditional), &many, SafetyTier::Read, json!({"n": 5}), false),
            (Some(Conditional), &many, SafetyTier::Read, json!({}), true),
            (Some(Conditional), &many, SafetyTier::Read, json!({"n": "6"}), true),
            (Some(Conditional), &both, SafetyTier::Write, json!({"n": 1}), true),
            (Some(Conditional), &both, SafetyTier::Read, json!({"n": 1}), false),
        ] {
            let decided = decide(approval, consent, tier, &arguments.clone().into());
            assert_eq!(decided == ApprovalDecision::Required, required, "{consent:?} {arguments}");
        }
    }

    // I-15, I-102
    #[test]
    fn answers_that_no_condition_can_test_require_approval() {
        let arguments = vec![ArgumentRule { pointer: "/n".to_owned(), test: Test::Above(5.0) }];
        let consent = |condition| Consent { when: Some(condition), ..Consent::default() };
        let of_arguments = consent(Condition { tiers: vec![], arguments });
        let of_tier = consent(Condition { tiers: vec![SafetyTier::Write], arguments: vec![] });
        let round = |responses: Option<serde_json::Value>, state: Option<&str>| CallInput {
            caller: Some(CallerInput {
                responses: responses.and_then(|value| value.as_object().cloned()),
                state: state.map(str::to_owned),
                ..CallerInput::default()
            }),
            ..json!({ "n": 1 }).into()
        };
        for (consent, input, required) in [
            (&of_arguments, round(None, None), false),
            (&of_arguments, round(Some(json!({})), None), true),
            (&of_arguments, round(None, Some("s")), true),
            (&of_tier, round(Some(json!({ "n": 9 })), Some("s")), false),
        ] {
            let declared = Some(descriptor::Approval::Conditional);
            let decided = decide(declared, consent, SafetyTier::Read, &input);
            assert_eq!(decided == ApprovalDecision::Required, required, "{consent:?} {input:?}");
        }
    }
}
