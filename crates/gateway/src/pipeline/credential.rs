//! The credential of a call, resolved before an approval is requested.
//!
//! Invariant (I-113): a call whose credential is missing, expired or refused requests no approval, uses
//! no grant, and does not reach its source.

use std::sync::{Arc, atomic::Ordering};

use toolcrib_core::{
    call::CallError,
    credential::{
        CredentialNeed, CredentialProblem, CredentialRefusal, RefusalCause, ResolvedCredential,
    },
    principal::Principal,
};

use super::{
    Pipeline,
    call::Caller,
    connection::{refused, too_late},
    target::Target,
};

impl Pipeline {
    /// Step 5: resolves the credential that the source of `target` needs for this call. An access
    /// token may be requested for it, within the deadline of the call.
    pub(super) async fn credential(
        &self,
        caller: Caller<'_>,
        target: &Target,
    ) -> Result<Option<Arc<ResolvedCredential>>, CallError> {
        let Caller { principal, call, cancellation } = caller;
        let need = &target.need;
        if *need == CredentialNeed::None {
            return Ok(None);
        }
        let step = call.span.begin_step("toolcrib.credential");
        let clock = &self.services.clock;
        let began = clock.monotonic_nanos();
        let deadline = target.entry.timeout;
        let resolving = self.credentials.resolve(need, principal.credential_caller());
        let resolved = tokio::select! {
            biased;
            () = cancellation.cancelled() => Err(CallError::Cancelled),
            resolved = tokio::time::timeout(deadline, resolving) => match resolved {
                Ok(Ok(resolved)) => Ok(resolved),
                Ok(Err(refusal)) => {
                    refusal.decided().into_iter().for_each(|denied| call.egress.note(denied));
                    self.note_refused_account(principal, target, &refusal).await;
                    Err(refused(need, &target.entry, &refusal, clock.now()))
                }
                Err(_late) => Err(too_late(deadline)),
            },
        };
        let took = clock.monotonic_nanos().saturating_sub(began);
        call.resolving.fetch_add(took, Ordering::Relaxed);
        step.close(resolved)
    }

    /// Records that an account is refused. It was found before step 3, so it has just happened.
    async fn note_refused_account(
        &self,
        principal: &Principal,
        target: &Target,
        refusal: &CredentialRefusal,
    ) {
        if let (
            Some(account),
            Some(id),
            RefusalCause::Credential(CredentialProblem::NeedsConsent),
        ) = (target.account(), &refusal.id, &refusal.cause)
        {
            self.connections.note_refused(principal, &target.entry.source, account, id).await;
        }
    }
}
