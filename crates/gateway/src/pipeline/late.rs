//! The check of a call that starts late: after a pause of this process, or after it has waited for
//! its turn at its source.
//!
//! Invariant (I-110): a call that starts later than [`MAX_READ_AGE`] after its authorization is
//! authorized again, under the rules of that moment: its tool may require another approval or
//! credential by then.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::Value;
use toolcrib_core::{
    authorize::CallContext,
    call::{CallError, CallInput, Invocation, Recheck, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::MAX_READ_AGE,
    credential::CredentialNeed,
};

use super::target;
use crate::{
    approvals::{Approvals, UsedGrant},
    background::Services,
    metrics::Surface,
    reauthorize::reauthorize,
};

/// What a late call needs to be authorized again.
pub(super) struct LateCheck {
    pub(super) services: Services,
    pub(super) approvals: Arc<Approvals>,
    pub(super) permit: Permit,
    /// The grant that it has used.
    pub(super) grant: Option<UsedGrant>,
    /// The credential with which it is sent.
    pub(super) need: CredentialNeed,
    pub(super) surface: Surface,
    /// The time of its authorization, in monotonic nanoseconds.
    pub(super) authorized_at: u64,
    /// Why its source was told not to send it.
    pub(super) refused: Mutex<Option<CallError>>,
}

// === impl LateCheck ===

impl LateCheck {
    /// Checks a call that starts after the confirmation of its caller has expired: the caller may
    /// still make it under the same rules, and no other server has closed it as a call of a dead
    /// process (I-111).
    pub(super) async fn check_start(&self, invocation: &Invocation) -> Result<(), CallError> {
        let since = self.services.clock.monotonic_nanos().saturating_sub(self.authorized_at);
        if Duration::from_nanos(since) <= MAX_READ_AGE {
            return Ok(());
        }
        let input = CallInput {
            arguments: Value::Object(invocation.arguments.clone()),
            caller: invocation.input.clone(),
            meta: invocation.meta.clone(),
        };
        let context = CallContext { surface: self.surface.as_str(), input: &input };
        let Approvals { authenticator, snapshots, .. } = &*self.approvals;
        let (principal, entry) = (self.permit.principal(), self.permit.entry());
        let renewed = reauthorize(authenticator, snapshots, principal, entry, context).await?;
        let (snapshot, current) = renewed;
        if !self.approvals.permits(&current, &input, self.grant.as_ref())? {
            let tool = entry.id.clone();
            return Err(CallError::ApprovalRequired { tool, pending: None });
        }
        let source = snapshot.sources.get(&current.source).map(|source| &**source);
        if target::need(source, &current) != self.need {
            let detail = "not sent: the source uses another credential by now";
            let error = UpstreamError::new(UpstreamErrorKind::Changed, detail);
            return Err(CallError::Upstream(error));
        }
        match self.services.storage.is_alive().await {
            Ok(true) => Ok(()),
            Ok(false) => Err(CallError::NotAccountable("recorded")),
            Err(error) => {
                tracing::error!(%error, "a call was refused because its record may already be closed");
                Err(CallError::NotAccountable("recorded"))
            }
        }
    }
}

#[async_trait]
impl Recheck for LateCheck {
    async fn check(&self, call: &Invocation) -> Result<(), UpstreamError> {
        let Err(error) = self.check_start(call).await else { return Ok(()) };
        *self.refused.lock() = Some(error);
        let detail = "the caller may not make this call any more";
        Err(UpstreamError::new(UpstreamErrorKind::Changed, detail))
    }
}
