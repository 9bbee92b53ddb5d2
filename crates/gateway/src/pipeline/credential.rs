//! The credential of a call, resolved before an approval is requested.
//!
//! Invariant (I-113): a call whose credential is missing, expired or refused requests no approval, uses
//! no grant, and does not reach its source.

use std::sync::{Arc, atomic::Ordering};

use toolcrib_core::{
    call::{CallError, UpstreamError, UpstreamErrorKind},
    credential::{CredentialNeed, ResolvedCredential},
    text,
};

use super::{Pipeline, call::Caller, target::Target};

impl Pipeline {
    /// Step 5: resolves the credential that the source of `target` needs for this call. An access
    /// token may be requested for it, within the deadline of the call.
    pub(super) async fn credential(
        &self,
        caller: Caller<'_>,
        target: &Target,
    ) -> Result<Option<Arc<ResolvedCredential>>, CallError> {
        let Caller { principal, call, cancellation } = caller;
        let source = target.source.as_deref();
        let need = source.map(|source| source.credential_for(&target.entry)).unwrap_or_default();
        let CredentialNeed::Stored { reference, .. } = &need else { return Ok(None) };
        let step = call.span.begin_step("toolcrib.credential");
        let clock = &self.services.clock;
        let began = clock.monotonic_nanos();
        let deadline = target.entry.timeout;
        let resolving = self.credentials.resolve(&need, &principal.tenant, &principal.id);
        let resolved = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(CallError::Cancelled),
            resolved = tokio::time::timeout(deadline, resolving) => match resolved {
                Ok(Ok(resolved)) => Ok(resolved),
                Ok(Err(refusal)) => {
                    refusal.decided().into_iter().for_each(|denied| call.egress.note(denied));
                    let error = UpstreamError::without_credential(&reference.name, &refusal);
                    Err(CallError::Upstream(error))
                }
                Err(_late) => Err(CallError::Upstream(UpstreamError::new(
                    UpstreamErrorKind::Timeout,
                    format!("no credential within {}", text::duration(deadline)),
                ))),
            },
        };
        let took = clock.monotonic_nanos().saturating_sub(began);
        call.resolving.fetch_add(took, Ordering::Relaxed);
        step.close(resolved)
    }
}
