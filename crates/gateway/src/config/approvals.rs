//! `[approvals]`: who consents to calls that ask first, and how long that takes.

pub(super) mod typed;

use std::{num::NonZeroU32, time::Duration};

use toolcrib_core::scope::Scope;

/// Consent to calls.
#[derive(Debug, Clone)]
pub struct ApprovalsConfig {
    /// How long a call waits for an answer before it is told to come again.
    pub wait: Duration,
    /// How long somebody has to answer, and then how long a grant may be used.
    pub timeout: Duration,
    /// How many have to consent.
    pub quorum: NonZeroU32,
    /// The scope that whoever answers has to hold.
    pub respond_scope: Scope,
    /// Whether those who answer see the redacted arguments; only with a seal key.
    pub show_arguments: bool,
    /// Where people look at an approval: its id is appended.
    pub url: Option<String>,
}

impl Default for ApprovalsConfig {
    fn default() -> Self {
        Self {
            wait: Duration::ZERO,
            timeout: Duration::from_secs(15 * 60),
            quorum: NonZeroU32::MIN,
            respond_scope: Scope::declared("approvals:respond"),
            show_arguments: false,
            url: None,
        }
    }
}
