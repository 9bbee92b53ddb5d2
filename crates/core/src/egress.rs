//! The decisions of the egress guard during a call.
//!
//! A source notes each decision in the [`EgressTrail`] of its call. The gateway records them in the
//! call's run, before the call's closing event.
//!
//! Invariant: a destination is a host, and no other part of a URL.

mod allow;

use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::{Host, Url};

pub use allow::{Allow, AllowList, InvalidAllow};

use crate::trace::TraceContext;

/// The most different decisions noted per call; further ones are dropped.
const MAX_DECISIONS: usize = 64;

/// Whether `url` is on this machine, also without a resolver: other names may be resolved to other
/// machines.
pub fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(ip)) => ip.is_loopback(),
        Some(Host::Ipv6(ip)) => ip.is_loopback(),
        None => false,
    }
}

/// Payload of `egress.decided` (RFC 0079).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EgressDecided {
    /// The decision.
    pub decision: EgressDecision,
    /// The host of the request: no port, path, query or user information.
    pub destination: String,
    /// The reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EgressReason>,
    /// The credential that was sent, or would have been.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_id: Option<String>,
}

/// The decision about an outgoing request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EgressDecision {
    /// It was sent.
    Allowed,
    /// It was not sent.
    Denied,
    /// It was sent without the credential.
    Downgraded,
    /// It requires an approval.
    ApprovalRequired,
}

/// The reason of the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EgressReason {
    /// The request is permitted.
    Ok,
    /// The credential is not for this destination.
    OutOfAudience,
    /// The credential has expired.
    Expired,
    /// The destination is, or leads to, an address that must not be reached.
    SsrfBlocked,
    /// The origin of the credential could not be determined.
    ProvenanceUnevaluable,
    /// The credential does not have the scopes.
    ScopeDenied,
    /// A rule of this host forbids it.
    PolicyDenied,
}

/// The requests of one call: the trace that they belong to, and the decisions about them, in order.
/// Clones share the decisions.
#[derive(Debug, Clone, Default)]
pub struct EgressTrail {
    decided: Arc<Mutex<Vec<EgressDecided>>>,
    trace: Option<TraceContext>,
}

impl EgressDecided {
    /// Creates the decision that permits a request to `destination`.
    pub fn allowed(destination: impl Into<String>) -> Self {
        let decision = EgressDecision::Allowed;
        Self { decision, ..Self::denied(destination, EgressReason::Ok) }
    }

    /// Creates the decision that denies a request to `destination`.
    pub fn denied(destination: impl Into<String>, reason: EgressReason) -> Self {
        Self {
            decision: EgressDecision::Denied,
            destination: destination.into(),
            reason: Some(reason),
            credential_id: None,
        }
    }
}

impl EgressTrail {
    /// Creates the trail of a call whose requests belong to `trace`.
    pub fn in_trace(trace: Option<TraceContext>) -> Self {
        Self { trace, ..Self::default() }
    }

    /// The trace that the requests belong to.
    pub fn trace(&self) -> Option<&TraceContext> {
        self.trace.as_ref()
    }

    /// Records a decision once.
    pub fn note(&self, decided: EgressDecided) {
        let mut trail = self.decided.lock();
        if trail.len() < MAX_DECISIONS && !trail.contains(&decided) {
            trail.push(decided);
        }
    }

    /// Takes the decisions since the last call.
    pub fn take(&self) -> Vec<EgressDecided> {
        std::mem::take(&mut *self.decided.lock())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_trail_keeps_each_decision_once_in_order_and_is_bounded() {
        let trail = EgressTrail::default();
        let source = trail.clone();
        source.note(EgressDecided::allowed("api.example"));
        source.note(EgressDecided::denied("169.254.169.254", EgressReason::SsrfBlocked));
        source.note(EgressDecided::allowed("api.example"));
        let noted = trail.take();
        assert_eq!(
            serde_json::to_value(&noted).unwrap(),
            json!([
                { "decision": "allowed", "destination": "api.example", "reason": "ok" },
                { "decision": "denied", "destination": "169.254.169.254", "reason": "ssrf-blocked" },
            ])
        );
        assert!(trail.take().is_empty(), "taken once");
        for n in 0..1000 {
            trail.note(EgressDecided::allowed(format!("h{n}")));
        }
        assert_eq!(trail.take().len(), MAX_DECISIONS);
    }
}
