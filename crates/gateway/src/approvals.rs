//! Approvals: the step of the pipeline that requires a human decision, and the responses of
//! approvers.
//!
//! * A call that requires approval creates a request for it and returns (or waits for a bounded
//!   time) without having run. The same call, repeated, runs under the grant: the same principal,
//!   makers of its key, tool and input, identified by a keyed hash of the exact input.
//! * A grant is spent in the store, on the id of the call, before the call's opening event is
//!   stored. If the process dies in between, the call ran at most once and needs a new grant.
//! * The call that created the request has taken a token of the bucket; the call under the grant
//!   takes no token. Repeated calls in the meantime take one each.
//! * A waiting call holds no lock, no slot of a source and no deadline, and is cancelled if its
//!   caller disconnects.
//!
//! * A grant expires early if it is withdrawn, or if one of its approvers has lost the right to
//!   give it. The latter is checked when the grant is used (I-103).
//!
//! Invariant (I-15): a call that requires approval never runs without a grant, and text of a tool
//! or an upstream is never a grant.
//! Invariant (I-64): a grant is for exactly one call, comes from another principal than the caller,
//! and is used once.
//! Invariant (I-65): a grant is for keys of one ancestry. The makers of the caller's key are part
//! of the fingerprint, so an approver cannot use the grant with a key that it created.

mod answer;
mod listen;
pub(crate) mod pause;
mod poll;
mod render;
pub(crate) mod wait;
mod webhook;

use std::{num::NonZeroU32, sync::Arc};

use tokio::sync::watch;
use toolcrib_core::{
    approval::{self, Approval, ApprovalDecision, ApprovalStore, Fingerprint},
    call::{CallError, CallInput},
    canonical::Digest,
    catalog::Entry,
    event::{EventBody, NewEvent},
    id::ApprovalId,
    principal::Principal,
    scope::Scope,
    store::StoreError,
};

use self::pause::Pauses;
pub use self::{
    answer::{ApprovalDetails, ApprovalError},
    listen::ApprovalListener,
    render::to_json,
};
use crate::{
    audit::Audit,
    authn::{AuthError, Authenticator},
    background::Services,
    input_forms::InputForms,
    limits::rate_limit::RateLimits,
    listeners::Listeners,
    snapshot::Snapshots,
};

/// The requests for approval of a gateway, and the calls that wait for them.
pub struct Approvals {
    store: Option<Arc<dyn ApprovalStore>>,
    services: Services,
    audit: Arc<Audit>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) authenticator: Authenticator,
    limits: Arc<RateLimits>,
    /// Counts changes by all processes, as far as this one knows.
    changed: watch::Sender<u64>,
    listeners: Listeners,
    pauses: Pauses,
}

/// Whether a call may run without a human decision.
pub(crate) enum ApprovalGate {
    /// The call may run.
    Open,
    /// The call requires an approval.
    Closed {
        required: RequiredApproval,
        /// Identifies the call; `None` without a store of approvals.
        fingerprint: Option<Fingerprint>,
        /// The live approval, if one exists.
        found: Option<Box<Approval>>,
    },
}

/// The approval that a call requires under the rules of one configuration.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct RequiredApproval {
    scope: Scope,
    quorum: NonZeroU32,
    role: Option<String>,
}

/// A grant that a call has used.
pub(crate) struct UsedGrant {
    /// What the call required then.
    pub(crate) required: RequiredApproval,
    pub(crate) approval: Approval,
}

impl ApprovalGate {
    /// The approval that the call requires, if it requires one.
    pub(crate) fn required(&self) -> Option<&RequiredApproval> {
        match self {
            Self::Open => None,
            Self::Closed { required, .. } => Some(required),
        }
    }

    /// Whether the call that created the request took the token of the bucket.
    pub(crate) fn is_paid(&self) -> bool {
        matches!(self, Self::Closed { found: Some(_), .. })
    }
}

impl Approvals {
    pub(crate) fn new(
        store: Option<Arc<dyn ApprovalStore>>,
        services: Services,
        audit: Arc<Audit>,
        snapshots: Arc<Snapshots>,
        authenticator: Authenticator,
        limits: Arc<RateLimits>,
    ) -> Self {
        Self {
            store,
            services,
            audit,
            snapshots,
            authenticator,
            limits,
            changed: watch::Sender::new(0),
            listeners: Listeners::default(),
            pauses: Pauses::default(),
        }
    }

    /// The deadlines that pause while a call waits for approval.
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    /// Whether a call requires approval, and the live approval that it can use. Free for tools that
    /// never require approval.
    ///
    /// # Errors
    /// [`CallError::NotAccountable`] if the store fails.
    pub(crate) async fn gate(
        &self,
        principal: &Principal,
        entry: &Entry,
        input: &InputForms,
    ) -> Result<ApprovalGate, CallError> {
        let Some(required) = self.required(entry, input.sent()) else {
            return Ok(ApprovalGate::Open);
        };
        let Some(store) = &self.store else {
            return Ok(ApprovalGate::Closed { required, fingerprint: None, found: None });
        };
        // The makers of the key are part of the call. A grant for a key created by the operator is
        // not valid for a key of the same principal created by an approver (I-65).
        let makers = principal.hand_names();
        let parts = [
            b"toolcrib call 5".to_vec(),
            principal.tenant.as_str().into(),
            principal.id.as_str().into(),
            Vec::from_iter(makers).join(" ").into(),
            entry.id.as_str().into(),
            digest(entry.digest),
            digest(entry.program),
            // A grant under other rules is not valid under these.
            required.scope.as_str().into(),
            required.quorum.get().to_be_bytes().into(),
            required.role.as_deref().unwrap_or_default().into(),
            input.exact().to_vec(),
        ];
        let fingerprint = store.fingerprint(parts.into()).await.map_err(unavailable)?;
        let live = store.live(&principal.tenant, &fingerprint).await;
        let live = live.map_err(unavailable)?;
        let found = live.filter(|approval| approval.is_open(self.services.now())).map(Box::new);
        Ok(ApprovalGate::Closed { required, fingerprint: Some(fingerprint), found })
    }

    /// Whether a call of `entry` with `input` may still be sent: it requires no approval, or `used` is
    /// a grant under these rules whose approvers could give it again now.
    ///
    /// # Errors
    /// [`CallError::NotAccountable`] if this is unknown.
    pub(crate) fn permits(
        &self,
        entry: &Entry,
        input: &CallInput,
        used: Option<&UsedGrant>,
    ) -> Result<bool, CallError> {
        match (self.required(entry, input), used) {
            (None, _) => Ok(true),
            (Some(required), Some(used)) if required == used.required => {
                self.is_upheld(&used.approval)
            }
            (Some(_), _) => Ok(false),
        }
    }

    /// The approval that a call of `entry` with `input` requires; `None` if it requires none.
    fn required(&self, entry: &Entry, input: &CallInput) -> Option<RequiredApproval> {
        let (tool, consent) = (&entry.tool, &entry.consent);
        let decided = approval::decide(tool.approval, consent, tool.safety_tier, input);
        if decided == ApprovalDecision::NotNeeded {
            return None;
        }
        let config = self.services.config();
        Some(RequiredApproval {
            scope: config.approvals.required_scope(consent).clone(),
            quorum: config.approvals.required_quorum(consent),
            role: consent.role.clone(),
        })
    }

    pub(crate) async fn pending(&self) -> Result<u64, StoreError> {
        match &self.store {
            Some(store) => store.pending().await,
            None => Ok(0),
        }
    }

    /// Notifies after changes of approvals; there may be extra notifications.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Closes an expired approval; `false` if it was changed meanwhile.
    async fn expire(
        &self,
        store: &dyn ApprovalStore,
        mut approval: Approval,
    ) -> Result<bool, StoreError> {
        let Some(bodies) = approval.expire(self.services.now()) else { return Ok(false) };
        let events = bodies.into_iter().map(|body| self.caused(&approval, body)).collect();
        let changed = store.change(approval, events).await?;
        self.announce();
        Ok(changed)
    }

    /// Whether each approver of a grant could give it again now: its key or token is valid, has the
    /// scope and the role, and belongs to another person than the caller and the other approvers
    /// (I-65, I-103).
    ///
    /// # Errors
    /// [`CallError::NotAccountable`] if this is unknown.
    fn is_upheld(&self, approval: &Approval) -> Result<bool, CallError> {
        if !approval.is_by_different(&self.services.config().people) {
            return Ok(false);
        }
        for vote in approval.consents() {
            let Some(voter) = vote.voter(&approval.tenant) else { continue };
            match self.authenticator.confirm(&Arc::new(voter)) {
                Ok(now) if now.tenant == approval.tenant && approval.upholds(vote, &now) => {}
                Ok(_) | Err(AuthError::Invalid | AuthError::Missing | AuthError::Ambiguous) => {
                    return Ok(false);
                }
                Err(AuthError::Unavailable) => return Err(CallError::NotAccountable("approved")),
            }
        }
        Ok(true)
    }

    /// Closes a grant whose approvers may not give it any more.
    async fn lapse(
        &self,
        store: &dyn ApprovalStore,
        mut approval: Approval,
    ) -> Result<(), StoreError> {
        let Some(body) = approval.lapse(self.services.now()) else { return Ok(()) };
        let event = self.caused(&approval, body);
        store.change(approval, vec![event]).await?;
        self.announce();
        Ok(())
    }

    /// Creates an event that the request for `approval` caused.
    fn caused(&self, approval: &Approval, body: EventBody) -> NewEvent {
        let cause = Some(approval.event_id.clone());
        self.audit.event(approval.tenant.clone(), approval.run_id.clone(), body, cause)
    }
}

/// A part of a fingerprint; empty without a digest.
fn digest(digest: Option<Digest>) -> Vec<u8> {
    digest.map(|digest| digest.to_string()).unwrap_or_default().into()
}

/// The address of the page that shows an approval.
fn link(base: &str, id: &ApprovalId) -> String {
    format!("{base}#approval={id}")
}

/// If the store fails, the call is refused.
fn unavailable(error: StoreError) -> CallError {
    tracing::error!(%error, "a call was refused because its approval could not be read or stored");
    CallError::NotAccountable("approved")
}
