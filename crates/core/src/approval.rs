//! When a call needs a human's consent first (RFC 0051), and what such a consent is.
//!
//! * [`condition`] decides whether a call has to ask.
//! * [`request`](mod@request) is one request with its votes, and the only place where its state changes.
//! * [`store`] is the seam behind which requests are kept.
//!
//! Invariant (I-15): a tool whose approval is not `never` does not run without a grant; what cannot
//! be decided counts as required.

pub mod condition;
pub mod request;
pub mod store;

use std::num::NonZeroU32;

use serde_json::Value;

pub use self::{
    condition::{ArgumentRule, Condition, Test},
    request::{Approval, ApprovalState, Argument, MAX_COMMENT, Verdict, Vote, VoteRefused},
    store::{ApprovalQuery, ApprovalStore, Fingerprint, Opened},
};
use crate::{
    descriptor::{self, SafetyTier},
    scope::Scope,
};

/// What an operator says about consent to one tool, beside whether it is needed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Consent {
    /// When a `conditional` approval is needed; none means always.
    pub when: Option<Condition>,
    /// How many have to consent; none means what is usual.
    pub quorum: Option<NonZeroU32>,
    /// The role that whoever answers has to have, beside the scope.
    pub role: Option<String>,
    /// The scope that whoever answers has to hold; none means the usual one.
    pub scope: Option<Scope>,
    /// Whether the tool only calls others, each of which asks by itself when it has to.
    pub by_parts: bool,
}

/// What the approval step of the pipeline decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalDecision {
    /// The call may go on.
    NotNeeded,
    /// The call must not run without a grant.
    Required,
}

/// Whether a call with `arguments` of a tool declared as `approval` may run without a grant.
///
/// An undeclared approval means none was asked for; `conditional` counts as required unless its
/// condition says for sure that it is not, because no decision is a denial.
pub fn decide(
    approval: Option<descriptor::Approval>,
    consent: &Consent,
    tier: SafetyTier,
    arguments: &Value,
) -> ApprovalDecision {
    use descriptor::Approval::{Always, Conditional, Never};
    match (approval, &consent.when) {
        (None | Some(Never), _) => ApprovalDecision::NotNeeded,
        _ if consent.by_parts => ApprovalDecision::NotNeeded,
        (Some(Conditional), Some(when)) if !when.may_hold(tier, arguments) => {
            ApprovalDecision::NotNeeded
        }
        (Some(Conditional | Always), _) => ApprovalDecision::Required,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // I-15
    #[test]
    fn only_what_is_sure_goes_on() {
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
            let decided = decide(approval, consent, tier, &arguments);
            assert_eq!(decided == ApprovalDecision::Required, required, "{consent:?} {arguments}");
        }
    }
}
