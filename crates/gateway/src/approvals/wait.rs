//! A call that requires approval, until it is approved or rejected, or its waiting time is over.

use std::{sync::Arc, time::Duration};

use serde_json::json;
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use toolcrib_config::{ApprovalsConfig, Config};
use toolcrib_core::{
    approval::{Approval, ApprovalState, ApprovalStore, Fingerprint, OpenOutcome},
    authorize::CallContext,
    call::{CallError, PendingApproval},
    catalog::Entry,
    id::CallId,
    principal::Principal,
};

use super::{ApprovalGate, Approvals, link, unavailable};
use crate::{
    audit::CallIdentity, clock::after, ids::new_id, input_forms::InputForms,
    reauthorize::reauthorize, snapshot::Snapshot,
};

/// Time after which the caller of an undecided call should retry.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Longest redacted input for approvers, in bytes.
const MAX_SHOWN: usize = 16 << 10;
/// How often a call reads its approval again while others change it.
const MAX_ROUNDS: usize = 64;

/// The input of a call, and its surface.
#[derive(Clone, Copy)]
pub(crate) struct SurfaceInput<'a> {
    pub(crate) surface: &'static str,
    pub(crate) input: &'a InputForms,
}

/// A call that requires an approval, until its grant is used.
pub(crate) struct PendingCall<'a> {
    approvals: &'a Approvals,
    store: &'a dyn ApprovalStore,
    principal: &'a Principal,
    fingerprint: Fingerprint,
    input: SurfaceInput<'a>,
    parent: Option<&'a CallId>,
    config: Arc<Config>,
    /// When the wait for an answer ends.
    until: Instant,
    changes: watch::Receiver<u64>,
    found: Option<Box<Approval>>,
    /// Whether the limits have counted the call.
    paid: bool,
    waited: bool,
    /// How often the approval was read.
    rounds: usize,
}

/// A grant for a call that has not been used.
pub(crate) struct UsableGrant {
    approval: Approval,
    /// The snapshot of the second authorization, after a wait.
    pub(crate) snapshot: Option<Arc<Snapshot>>,
}

impl Approvals {
    /// Begins the approval of a call; `None` if the call requires none.
    ///
    /// # Errors
    /// Nothing can approve the call.
    pub(crate) fn begin<'a>(
        &'a self,
        call: &CallIdentity,
        principal: &'a Principal,
        gate: ApprovalGate,
        input: SurfaceInput<'a>,
        parent: Option<&'a CallId>,
    ) -> Result<Option<PendingCall<'a>>, CallError> {
        let ApprovalGate::Closed { fingerprint, found, .. } = gate else { return Ok(None) };
        let Some((store, fingerprint)) = self.store.as_deref().zip(fingerprint) else {
            let tool = call.entry.id.clone();
            return Err(CallError::ApprovalRequired { tool, pending: None });
        };
        let config = self.services.config();
        let is_repeated =
            input.input.sent().caller.as_ref().is_some_and(|caller| caller.is_repeated);
        let least = if is_repeated { RETRY_AFTER } else { Duration::ZERO };
        Ok(Some(PendingCall {
            approvals: self,
            store,
            principal,
            fingerprint,
            input,
            parent,
            until: Instant::now() + config.approvals.wait.max(least),
            config,
            changes: self.changes(),
            paid: found.is_none(),
            found,
            waited: false,
            rounds: 0,
        }))
    }
}

impl PendingCall<'_> {
    /// Waits until a grant for the call exists. If there is no approval, this opens a request and
    /// waits as long as the configuration permits; meanwhile the deadlines of the workflow calls
    /// around it are paused. The grant is not used yet.
    ///
    /// # Errors
    /// The reason why the call does not run.
    pub(crate) async fn granted(
        &mut self,
        call: &mut CallIdentity,
        cancellation: &CancellationToken,
    ) -> Result<UsableGrant, CallError> {
        while self.rounds < MAX_ROUNDS {
            self.rounds += 1;
            self.changes.mark_unchanged();
            let approval = match self.found.take() {
                Some(approval) => approval,
                None => self.open(call, &self.config.approvals).await?,
            };
            match approval.state {
                _ if approval.is_over(self.approvals.services.now()) => {
                    let ended = self.approvals.expire(self.store, *approval).await;
                    ended.map_err(unavailable)?;
                }
                ApprovalState::Granted | ApprovalState::Overridden => {
                    let snapshot = match self.waited {
                        true => Some(self.authorize_again(call).await?),
                        false => None,
                    };
                    if self.approvals.is_upheld(&approval)? {
                        return Ok(UsableGrant { approval: *approval, snapshot });
                    }
                    self.approvals.lapse(self.store, *approval).await.map_err(unavailable)?;
                    self.pay(call).await?;
                }
                ApprovalState::Rejected => {
                    let tool = call.entry.id.clone();
                    call.cause.get_or_insert_with(|| approval.event_id.clone());
                    let until = approval.expires_at;
                    return Err(CallError::ApprovalRejected { tool, approval: approval.id, until });
                }
                ApprovalState::Pending => {
                    self.waited = true;
                    if !self.answered(cancellation).await? {
                        call.cause.get_or_insert_with(|| approval.event_id.clone());
                        return Err(required(call, &approval, &self.config.approvals));
                    }
                    let again = self.store.find(&self.principal.tenant, &approval.id).await;
                    let again = again.map_err(unavailable)?;
                    self.found = again.map(|(approval, _)| Box::new(approval));
                }
                ApprovalState::Used | ApprovalState::Expired | ApprovalState::Withdrawn => {}
            }
        }
        Err(CallError::ApprovalRequired { tool: call.entry.id.clone(), pending: None })
    }

    /// Uses a grant for this call, which then runs at most once, and returns it; `None` if another
    /// call has used it. The cause of the call becomes the event that approved it.
    ///
    /// # Errors
    /// The store does not respond, or the call is over its limits.
    pub(crate) async fn spend(
        &mut self,
        grant: UsableGrant,
        call: &mut CallIdentity,
    ) -> Result<Option<Approval>, CallError> {
        let UsableGrant { mut approval, .. } = grant;
        let cause = approval.outcome_id.clone();
        let spent = approval.spend(&call.call, self.approvals.services.now())
            && self.store.change(approval.clone(), Vec::new()).await.map_err(unavailable)?;
        if !spent {
            self.pay(call).await?;
            return Ok(None);
        }
        self.approvals.announce();
        if let Some(cause) = cause {
            call.cause.get_or_insert(cause);
        }
        Ok(Some(approval))
    }

    /// Lets the limits count the call: the grant that was counted with its request is gone.
    async fn pay(&mut self, call: &CallIdentity) -> Result<(), CallError> {
        if !self.paid {
            self.approvals.limits.take(call).await?;
            self.paid = true;
        }
        Ok(())
    }

    /// Waits for a change of approvals; `false` if the waiting time is over.
    async fn answered(&mut self, cancellation: &CancellationToken) -> Result<bool, CallError> {
        let background = &self.approvals.services.background;
        let pauses = &self.approvals.pauses;
        let _others = self.parent.map(|parent| pauses.enter(parent));
        let woken = tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(CallError::Cancelled),
            // The caller can repeat a call, even at another server; a step cannot.
            () = background.ending().cancelled(), if self.parent.is_none() => None,
            () = background.ended().cancelled() => return Err(CallError::Cancelled),
            woken = tokio::time::timeout_at(self.until, self.changes.changed()) => woken.ok(),
        };
        Ok(woken.is_some())
    }

    /// Authorizes the call after a wait: the rules must still require this approval, or none.
    async fn authorize_again(&self, call: &CallIdentity) -> Result<Arc<Snapshot>, CallError> {
        let (snapshot, current) = self.reauthorize(call).await?;
        if !self.is_under(&current).await? {
            let tool = call.entry.id.clone();
            return Err(CallError::ApprovalRequired { tool, pending: None });
        }
        Ok(snapshot)
    }

    /// Authorizes the call again in the current snapshot after a wait, and returns the snapshot and
    /// its entry. Only here does a request load a second snapshot (I-23).
    async fn reauthorize(
        &self,
        call: &CallIdentity,
    ) -> Result<(Arc<Snapshot>, Arc<Entry>), CallError> {
        let Approvals { authenticator, snapshots, .. } = self.approvals;
        let SurfaceInput { surface, input } = self.input;
        let context = CallContext { surface, input: input.sent() };
        reauthorize(authenticator, snapshots, self.principal, &call.entry, context).await
    }

    /// Whether the rules of `current` require this very approval, or no approval: with the same
    /// scope, role and quorum.
    async fn is_under(&self, current: &Entry) -> Result<bool, CallError> {
        let gate = self.approvals.gate(self.principal, current, self.input.input).await?;
        Ok(match gate {
            ApprovalGate::Open => true,
            ApprovalGate::Closed { fingerprint, .. } => {
                fingerprint.as_ref() == Some(&self.fingerprint)
            }
        })
    }

    /// Opens a request for this call, or returns the open one.
    async fn open(
        &self,
        call: &CallIdentity,
        config: &ApprovalsConfig,
    ) -> Result<Box<Approval>, CallError> {
        let approval = self.request(call, config);
        let body = approval.requested();
        let cause = call.cause.clone();
        let audit = &self.approvals.audit;
        let mut event = audit.event(call.tenant.clone(), call.run.clone(), body, cause);
        event.event_id = approval.event_id.clone();
        let shown = config.show_arguments.then(|| self.shown());
        match self.store.open(approval, shown, event).await {
            Ok(OpenOutcome::Opened(approval)) => {
                self.approvals.announce();
                Ok(approval)
            }
            Ok(OpenOutcome::Existing(approval)) => Ok(approval),
            Ok(OpenOutcome::LimitReached) => {
                tracing::warn!(tenant = %call.tenant, "too many approvals of one principal are pending");
                Err(CallError::ApprovalRequired { tool: call.entry.id.clone(), pending: None })
            }
            Err(error) => Err(unavailable(error)),
        }
    }

    fn request(&self, call: &CallIdentity, config: &ApprovalsConfig) -> Approval {
        let now = self.approvals.services.now();
        let consent = &call.entry.consent;
        let (arguments, more_arguments, round) = self.input.input.shape();
        Approval {
            id: new_id(),
            tenant: call.tenant.clone(),
            principal: call.principal.clone(),
            key: self.principal.auth.key().cloned(),
            makers: self.principal.makers.clone(),
            tool_id: call.entry.id.clone(),
            tool_digest: call.entry.digest.as_ref().map(ToString::to_string),
            fingerprint: self.fingerprint.clone(),
            run_id: call.run.clone(),
            event_id: new_id(),
            outcome_id: None,
            state: ApprovalState::Pending,
            live: true,
            quorum: config.required_quorum(consent).get(),
            role: consent.role.clone(),
            scope: config.required_scope(consent).clone(),
            votes: Vec::new(),
            arguments,
            more_arguments,
            round,
            created_at: now,
            expires_at: after(now, config.timeout),
            decided_at: None,
            used_by: None,
            revision: 0,
            change: 0,
        }
    }

    /// The redacted input, or its size in bytes if it is too long for a person to read.
    fn shown(&self) -> String {
        let text = self.input.input.shown().to_string();
        if text.len() <= MAX_SHOWN { text } else { json!({ "tooLarge": text.len() }).to_string() }
    }
}

fn required(call: &CallIdentity, approval: &Approval, config: &ApprovalsConfig) -> CallError {
    let pending = PendingApproval {
        approval: approval.id.clone(),
        retry_after: RETRY_AFTER,
        expires_at: approval.expires_at,
        link: config.url.as_ref().map(|base| link(base, &approval.id)),
    };
    CallError::ApprovalRequired { tool: call.entry.id.clone(), pending: Some(Box::new(pending)) }
}
