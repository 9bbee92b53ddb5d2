//! `[approvals]`: the approvers of calls, and their time limits.

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

/// Approval of calls.
#[derive(Debug, Clone)]
pub struct ApprovalsConfig {
    /// How long a call waits for an approval before its caller must retry.
    pub wait: Duration,
    /// How long approvers have to respond, and then the lifetime of a grant.
    pub timeout: Duration,
    /// Number of required approvals.
    pub quorum: NonZeroU32,
    /// The scope that an approver must have.
    pub respond_scope: Scope,
    /// Whether approvers see the redacted arguments; requires a seal key.
    pub show_arguments: bool,
    /// The address of the page for approvers; the approval's id is appended.
    pub url: Option<String>,
    /// External receivers of changes.
    pub webhooks: Vec<WebhookConfig>,
}

/// An external receiver of changes of approvals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WebhookConfig {
    /// Its address.
    pub http: HttpSpec,
    /// The secret that signs requests.
    pub secret: SecretValue,
    /// The tenant whose approvals it receives; `None` for all.
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

    /// Returns the name under which the webhook's progress is stored. Another address starts anew;
    /// another secret continues.
    pub(crate) fn reader(&self) -> String {
        let digest = Sha256::digest(self.http.url.as_bytes());
        let short: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let tenant = self.tenant.as_ref().map(TenantId::as_str).unwrap_or_default();
        format!("webhook {short} {tenant}")
    }

    /// Returns the signing key: the decoded Base64 after `whsec_`, or the text itself.
    pub(crate) fn key(&self) -> Vec<u8> {
        key_of(&self.secret.0).unwrap_or_default()
    }
}

/// Decodes the key in `secret`; `None` if its Base64 is invalid.
pub(super) fn key_of(secret: &Secret) -> Option<Vec<u8>> {
    let text = secret.expose();
    match text.strip_prefix("whsec_") {
        Some(encoded) => STANDARD.decode(encoded).ok(),
        None => Some(text.as_bytes().to_vec()),
    }
}
