//! `[approvals]`: who consents to calls that ask first, and how long that takes.

pub(super) mod typed;

use std::{num::NonZeroU32, time::Duration};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use sha2::{Digest as _, Sha256};
use toolcrib_core::{
    credential::Secret,
    id::TenantId,
    scope::Scope,
    source::{HttpSpec, SecretValue},
};

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
    /// Who is told of approvals outside.
    pub webhooks: Vec<WebhookConfig>,
}

/// A receiver outside that is told of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Where it is.
    pub http: HttpSpec,
    /// What requests are signed with.
    pub secret: SecretValue,
    /// The tenant whose approvals it is told of; none means all.
    pub tenant: Option<TenantId>,
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
            webhooks: Vec::new(),
        }
    }
}

impl WebhookConfig {
    /// Shortest key, in bytes.
    pub(crate) const MIN_KEY: usize = 24;

    /// Under which name its place is remembered: it begins anew when it has another address, and goes
    /// on when it has another secret.
    pub(crate) fn reader(&self) -> String {
        let digest = Sha256::digest(self.http.url.as_bytes());
        let short: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tenant = self.tenant.as_ref().map(TenantId::as_str).unwrap_or_default();
        format!("webhook {short} {tenant}")
    }

    /// The key that `secret` stands for: what follows `whsec_` in Base64, or the text itself.
    pub(crate) fn key(&self) -> Vec<u8> {
        key_of(&self.secret.0).unwrap_or_default()
    }
}

/// The key that `secret` stands for; `None`: it is no Base64.
pub(super) fn key_of(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.expose();
    match text.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).ok(),
        None => Some(text.as_bytes().to_vec()),
    }
}
