//! The approval of a call that requires one.
//!
//! Invariant (I-113): a grant is used only by a call that can be sent now. A call that waited finds
//! its credential again before it uses the grant.

use std::sync::{Arc, atomic::Ordering};

use toolcrib_core::{approval::Approval, call::CallError};

use super::{
    Pipeline,
    call::{Caller, SendableCall},
};
use crate::{approvals::wait::PendingCall, audit::CallIdentity};

impl Pipeline {
    /// Step 6: waits for a grant, and uses it. Returns the call as it can be sent after the wait, and
    /// the grant.
    pub(super) async fn approve(
        &self,
        caller: Caller<'_>,
        mut sendable: SendableCall,
        identity: &mut CallIdentity,
        mut pending: PendingCall<'_>,
    ) -> Result<(SendableCall, Approval), CallError> {
        let Caller { principal, call, cancellation } = caller;
        let clock = &self.services.clock;
        loop {
            let asked = clock.monotonic_nanos();
            let step = call.span.begin_step("toolcrib.approve");
            let grant = step.close(pending.granted(identity, cancellation).await)?;
            let waited = clock.monotonic_nanos().saturating_sub(asked);
            call.waited.fetch_add(waited, Ordering::Relaxed);
            if let Some(snapshot) = &grant.snapshot {
                let target = sendable.target.reloaded(Arc::clone(snapshot), principal);
                let credential = self.credential(caller, &target).await?;
                target.check_reachable()?;
                sendable = SendableCall { target, credential };
            }
            if let Some(used) = pending.spend(grant, identity).await? {
                return Ok((sendable, used));
            }
        }
    }
}
