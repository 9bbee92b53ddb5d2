//! Limits the calls in flight at one source, divides them among callers, and cancels them when the
//! source closes.

use std::{pin::Pin, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::UpstreamError,
    catalog::Permit,
    principal::PrincipalKey,
    share::{Shares, Ticket},
    source::SourceLimits,
};

use crate::error::{died, unavailable};

const CLOSED: &str = "the source is closed";

/// Limits the calls of a source, and cancels them when it closes.
pub(crate) struct Calls {
    slots: Arc<Slots>,
    /// Cancelled when the source closes.
    pub(crate) closed: CancellationToken,
}

struct Slots(Mutex<Shares<oneshot::Sender<Slot>>>);

/// Permission for one call in flight, released when it is dropped.
pub(crate) struct Slot {
    slots: Arc<Slots>,
    owner: PrincipalKey,
}

/// A call that waits for a slot. It stops waiting when it is dropped.
struct WaitingCall<'a> {
    slots: &'a Arc<Slots>,
    owner: &'a PrincipalKey,
    ticket: Ticket,
}

impl Calls {
    pub(crate) fn new(limits: &SourceLimits) -> Self {
        let slots = Slots(Mutex::new(Shares::new(limits.max_concurrency.max(1))));
        Self { slots: Arc::new(slots), closed: CancellationToken::new() }
    }

    /// Waits until the caller of `permit` may have one more call in flight.
    pub(crate) async fn slot(&self, permit: &Permit) -> Result<Slot, UpstreamError> {
        let owner = PrincipalKey::of(permit.principal());
        let (sender, receiver) = oneshot::channel();
        let ticket = {
            let mut shares = self.slots.0.lock();
            if shares.take(&owner, 1) {
                return Ok(Slot { slots: Arc::clone(&self.slots), owner });
            }
            shares.wait(&owner, sender)
        };
        let _waiting = WaitingCall { slots: &self.slots, owner: &owner, ticket };
        receiver.await.map_err(|_| unavailable(CLOSED))
    }

    /// Fails if the source is closed.
    pub(crate) fn check_open(&self) -> Result<(), UpstreamError> {
        match self.closed.is_cancelled() {
            true => Err(unavailable(CLOSED)),
            false => Ok(()),
        }
    }

    /// Runs `call` until it completes or the source closes. `call` is borrowed, because passing a
    /// future by value copies it each time.
    pub(crate) async fn run<T>(
        &self,
        call: Pin<&mut (dyn Future<Output = Result<T, UpstreamError>> + Send)>,
    ) -> Result<T, UpstreamError> {
        self.check_open()?;
        tokio::select! {
            biased;
            result = call => result,
            () = self.closed.cancelled() => Err(died(CLOSED)),
        }
    }
}

impl Slots {
    /// Changes the shares, and gives free slots to the calls whose turn it is.
    fn change(self: &Arc<Self>, change: impl FnOnce(&mut Shares<oneshot::Sender<Slot>>)) {
        let mut served = Vec::new();
        {
            let mut shares = self.0.lock();
            change(&mut shares);
            served.extend(std::iter::from_fn(|| shares.serve_next()));
        }
        for (owner, waiter) in served {
            // A call that stopped waiting gives its slot back when it is dropped here.
            drop(waiter.send(Slot { slots: Arc::clone(self), owner }));
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.slots.change(|shares| shares.give_back(&self.owner, 1));
    }
}

impl Drop for WaitingCall<'_> {
    fn drop(&mut self) {
        self.slots.change(|shares| shares.cancel(self.owner, self.ticket));
    }
}

#[cfg(test)]
mod tests {
    use toolcrib_core::{
        authorize::{CallContext, ScopeAuthorizer},
        call::CallInput,
        catalog::{Entry, Generation},
        descriptor::{Auth, SafetyTier, SourceKind},
        principal::{AuthMethod, Principal},
        scope::ScopeSet,
    };

    use super::*;

    fn permit(tenant: &str, principal: &str) -> Permit {
        let source = "crib".parse().unwrap();
        let mut entry = Entry::new(SourceKind::Mcp, &source, "echo", SafetyTier::Read).unwrap();
        entry.tool.auth = Some(Auth { scopes: Some(Vec::new()), credential_ref: None });
        let principal = Principal {
            id: principal.parse().unwrap(),
            tenant: tenant.parse().unwrap(),
            scopes: ScopeSet::parse(["*"]).unwrap(),
            roles: Vec::new(),
            makers: Vec::new(),
            session: None,
            auth: AuthMethod::Operator,
        };
        let input = CallInput::default();
        let call = CallContext { surface: "test", input: &input };
        Permit::new(&ScopeAuthorizer, &principal, &Arc::new(entry), Generation(1), call).unwrap()
    }

    /// I-105: 260 calls of forty principals of one tenant, and then one of another.
    #[tokio::test]
    async fn a_tenant_that_floods_a_source_keeps_no_other_waiting() {
        let calls = Calls::new(&SourceLimits::default());
        let first = calls.slot(&permit("a", "ann")).await.unwrap();
        let crowd: Vec<_> =
            (0..260).map(|number| permit("b", &format!("p{}", number % 40))).collect();
        let mut crowd: Vec<_> = crowd.iter().map(|permit| Box::pin(calls.slot(permit))).collect();
        let mut held = Vec::new();
        for call in &mut crowd {
            if let Some(slot) = futures_util::FutureExt::now_or_never(call.as_mut()) {
                held.push(slot.unwrap());
            }
        }
        assert_eq!(held.len(), 55, "all but an eighth");
        drop(first);
        // Nothing of the crowd ends, and the calls of the other tenant run at once.
        let permit = permit("a", "ann");
        let own: Vec<_> = (0..8)
            .map(|_| futures_util::FutureExt::now_or_never(calls.slot(&permit)).unwrap())
            .collect();
        // A ninth is the next one, before 200 others.
        let mut ninth = Box::pin(calls.slot(&permit));
        assert!(futures_util::FutureExt::now_or_never(ninth.as_mut()).is_none());
        held.pop();
        assert!(futures_util::FutureExt::now_or_never(ninth.as_mut()).is_some());
        drop((own, held, crowd, ninth));
        let shares = calls.slots.0.lock();
        assert_eq!((shares.used(), shares.owners()), (0, 0));
    }
}
