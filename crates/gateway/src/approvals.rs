//! Consent: the step of the pipeline that asks a human, and how humans answer.
//!
//! * A call that needs consent asks for it and ends (or waits for a bounded time) without having run.
//!   The same call made again runs under the grant: the same principal, makers of its key, tool and
//!   arguments, told apart by a keyed hash of the exact arguments.
//! * A grant is spent in the store, on the id of the call, before the call's opening event is stored.
//!   A process that dies in between has spent it: the call ran at most once, and needs a new grant.
//! * The call that asked has taken a token of the bucket; the one that runs under the grant takes none.
//!   Calls that ask again meanwhile take one each.
//! * Who waits holds no lock, no slot of a source and no deadline, and ends when the caller hangs up.
//!
//! Invariant (I-15): without a grant there is no run; what a tool or an upstream says grants nothing.
//! Invariant (I-64): a grant is of exactly one call, by another principal than the caller's, and is
//! used once.
//! Invariant (I-65): a grant is for keys of one ancestry. The hands of the key that calls are in the
//! fingerprint, so nobody who consented can have made the key that uses the grant.

mod answer;
mod follow;
mod listen;
mod pause;
mod webhook;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Map, Value};
use tokio::{sync::watch, time::Instant};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    approval::{
        self, Approval, ApprovalDecision, ApprovalState, ApprovalStore, Argument, Fingerprint,
        Opened,
    },
    authorize::{Authorizer as _, CallContext},
    call::{Asked, CallError},
    canonical,
    catalog::Entry,
    clock::Timestamp,
    event::NewEvent,
    id::{ApprovalId, CallId, PrincipalId},
    principal::{AuthMethod, Principal},
    redact::Redactor,
    store::StoreError,
};

pub use self::{
    answer::{ApprovalError, Shown, told},
    listen::{
        ApprovalListener, MAX_LISTENERS, MAX_LISTENERS_OF_ONE, MAX_LISTENERS_OF_TENANT,
        SHARE_OF_TENANT, TooManyListeners,
    },
};
pub(crate) use self::{
    follow::follow,
    pause::{Deadline, Pauses},
};
use crate::{
    Gateway,
    config::ApprovalsConfig,
    record::{self, CallIdentity},
};

/// When a caller that was told to come again should.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// Longest redacted arguments that are kept to be shown, in bytes.
const MAX_SHOWN: usize = 16 << 10;
/// How often a call looks again when others change the approval it looks at.
const MAX_ROUNDS: usize = 64;

/// Requests for consent, and whoever waits for them.
pub(crate) struct Approvals {
    store: Option<Arc<dyn ApprovalStore>>,
    /// Counts changes, in whichever process, as far as this one has noticed.
    changed: watch::Sender<u64>,
    listeners: listen::Listeners,
    pauses: Pauses,
}

/// What a call brought, and by which surface.
#[derive(Clone, Copy)]
pub(crate) struct CallInput<'a> {
    pub(crate) surface: &'static str,
    pub(crate) arguments: &'a Map<String, Value>,
}

/// What stands between a call and its run.
pub(crate) enum ApprovalGate {
    /// Nothing.
    Open,
    /// A consent to what has this fingerprint, if it has one.
    Closed(Option<Fingerprint>, Option<Box<Approval>>),
}

impl ApprovalGate {
    /// Whether consent is needed.
    pub(crate) fn asks(&self) -> bool {
        matches!(self, Self::Closed(..))
    }

    /// Whether the call that asked for a grant of this one has paid for it.
    pub(crate) fn is_paid(&self) -> bool {
        matches!(self, Self::Closed(_, Some(_)))
    }
}

/// A call that does not pass, and why.
type Stopped = (CallIdentity, CallError);

impl Approvals {
    pub(crate) fn new(store: Option<Arc<dyn ApprovalStore>>) -> Self {
        Self {
            store,
            changed: watch::Sender::new(0),
            listeners: listen::Listeners::default(),
            pauses: Pauses::default(),
        }
    }

    /// Whose deadlines stand still.
    pub(crate) fn pauses(&self) -> &Pauses {
        &self.pauses
    }

    pub(crate) fn store(&self) -> Option<&Arc<dyn ApprovalStore>> {
        self.store.as_ref()
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }
}

impl Gateway {
    /// Whether a call needs consent, and whether there is some that it can use. Costs nothing for tools
    /// that need none.
    pub(crate) async fn gate(
        &self,
        who: &Principal,
        entry: &Entry,
        arguments: &Value,
    ) -> Result<ApprovalGate, CallError> {
        let tool = &entry.tool;
        let decided = approval::decide(tool.approval, &entry.consent, tool.safety_tier, arguments);
        if decided == ApprovalDecision::NotNeeded {
            return Ok(ApprovalGate::Open);
        }
        // What has no canonical form is refused by the next step.
        let Ok(exact) = canonical::canonical_bytes(arguments) else {
            return Ok(ApprovalGate::Closed(None, None));
        };
        let Some(store) = self.approval_gate().store() else {
            return Ok(ApprovalGate::Closed(None, None));
        };
        // Whoever has had the key in hand is part of the call. A grant for a key that the operator
        // made lets no key of the same principal pass that an approver made (I-65).
        let hands: BTreeSet<&str> = who.hands().map(PrincipalId::as_str).collect();
        let parts = [
            b"toolcrib call 2".to_vec(),
            who.tenant.as_str().into(),
            who.id.as_str().into(),
            Vec::from_iter(hands).join(" ").into(),
            entry.id.as_str().into(),
            entry.digest.as_ref().map(ToString::to_string).unwrap_or_default().into(),
            exact,
        ];
        let fingerprint = store.fingerprint(parts.into()).await.map_err(|e| unanswered(&e))?;
        let live = store.live(&who.tenant, &fingerprint).await.map_err(|e| unanswered(&e))?;
        let grant = live.filter(|it| it.is_open(self.clock().now())).map(Box::new);
        Ok(ApprovalGate::Closed(Some(fingerprint), grant))
    }

    /// Lets a call pass that needs no consent or has it; its cause is then what let it pass. Asks for
    /// it otherwise, and waits as long as the operator wants calls to wait; meanwhile the deadlines of
    /// the calls that `parent` is within stand still.
    pub(crate) async fn approve(
        &self,
        mut call: CallIdentity,
        who: &Principal,
        gate: ApprovalGate,
        sent: CallInput<'_>,
        parent: Option<&CallId>,
        hang_up: &CancellationToken,
    ) -> Result<CallIdentity, Stopped> {
        let ApprovalGate::Closed(fingerprint, grant) = gate else { return Ok(call) };
        let tool = call.entry.id.clone();
        let Some((store, fingerprint)) = self.approval_gate().store().zip(fingerprint) else {
            return Err((call, CallError::ApprovalRequired { tool, asked: None }));
        };
        let store = store.as_ref();
        let waiting = Waiting { gateway: self, store, who, fingerprint, sent, parent };
        let mut paid = grant.is_none();
        match waiting.pass(&mut call, grant, &mut paid, hang_up).await {
            Ok(()) => Ok(call),
            Err(error) => Err((call, error)),
        }
    }

    /// Told whenever an approval has changed. It may tell of changes that are none.
    pub fn approval_changes(&self) -> watch::Receiver<u64> {
        self.approval_gate().changed.subscribe()
    }

    /// Ends an approval whose time is over; `false` when somebody else has changed it.
    async fn expire(
        &self,
        store: &dyn ApprovalStore,
        mut approval: Approval,
    ) -> Result<bool, StoreError> {
        let Some(bodies) = approval.expire(self.clock().now()) else { return Ok(false) };
        let events = bodies.into_iter().map(|body| self.caused(&approval, body)).collect();
        let changed = store.change(approval, events).await?;
        self.approval_gate().announce();
        Ok(changed)
    }

    /// An event that follows from the request for `approval`.
    fn caused(&self, approval: &Approval, body: toolcrib_core::event::EventBody) -> NewEvent {
        let cause = Some(approval.event_id.clone());
        self.record().event(approval.tenant.clone(), approval.run_id.clone(), body, cause)
    }
}

/// One call on its way past its gate.
struct Waiting<'a> {
    gateway: &'a Gateway,
    store: &'a dyn ApprovalStore,
    who: &'a Principal,
    fingerprint: Fingerprint,
    sent: CallInput<'a>,
    parent: Option<&'a CallId>,
}

impl Waiting<'_> {
    async fn pass(
        &self,
        call: &mut CallIdentity,
        mut found: Option<Box<Approval>>,
        paid: &mut bool,
        hang_up: &CancellationToken,
    ) -> Result<(), CallError> {
        let config = self.gateway.config();
        let until = Instant::now() + config.approvals.wait;
        let mut changes = self.gateway.approval_changes();
        let mut waited = false;
        for _ in 0..MAX_ROUNDS {
            changes.mark_unchanged();
            let approval = match found.take() {
                Some(approval) => approval,
                None => self.ask(call, &config.approvals).await?,
            };
            let now = self.gateway.clock().now();
            match approval.state {
                _ if approval.is_over(now) => {
                    let ended = self.gateway.expire(self.store, *approval).await;
                    ended.map_err(|error| unanswered(&error))?;
                }
                ApprovalState::Granted | ApprovalState::Overridden => {
                    if waited {
                        self.reauthorize(call)?;
                    }
                    if self.spend(*approval, call, now).await? {
                        return Ok(());
                    }
                    // Another call was faster, so this one is a call of its own.
                    if !*paid {
                        self.gateway.limit(call).await?;
                        *paid = true;
                    }
                }
                ApprovalState::Rejected => {
                    let tool = call.entry.id.clone();
                    call.cause.get_or_insert_with(|| approval.event_id.clone());
                    return Err(CallError::ApprovalRejected { tool, approval: approval.id });
                }
                ApprovalState::Pending => {
                    let ended = self.gateway.ended();
                    let pauses = self.gateway.approval_gate().pauses();
                    let _others = self.parent.map(|parent| pauses.enter(parent));
                    waited = true;
                    let woken = tokio::select! {
                        biased;
                        () = hang_up.cancelled() => return Err(CallError::Cancelled),
                        () = ended.cancelled() => return Err(CallError::Cancelled),
                        woken = tokio::time::timeout_at(until, changes.changed()) => woken,
                    };
                    if woken.is_err() {
                        call.cause.get_or_insert_with(|| approval.event_id.clone());
                        return Err(required(call, &approval, &config.approvals));
                    }
                    let again = self.store.find(&self.who.tenant, &approval.id).await;
                    let again = again.map_err(|error| unanswered(&error))?;
                    found = again.map(|(approval, _)| Box::new(approval));
                }
                ApprovalState::Used | ApprovalState::Expired => {}
            }
        }
        Err(CallError::ApprovalRequired { tool: call.entry.id.clone(), asked: None })
    }

    /// Whether the caller may make the call now, after the wait: it is still known and may use the
    /// tool, which is still the one that was consented to.
    fn reauthorize(&self, call: &CallIdentity) -> Result<(), CallError> {
        let gone = |_| CallError::NoSuchTool;
        let who = Arc::new(self.who.clone());
        let who = self.gateway.authenticator().renew(&who).map_err(gone)?;
        let snapshot = self.gateway.snapshot();
        let entry = snapshot.catalog.by_id(&who.tenant, call.entry.id.as_str());
        let entry = entry.filter(|entry| entry.digest == call.entry.digest);
        let entry = entry.ok_or(CallError::NoSuchTool)?;
        let same = who.id == self.who.id && who.tenant == self.who.tenant;
        let arguments = Value::Object(self.sent.arguments.clone());
        let asked = CallContext { surface: self.sent.surface, arguments: &arguments };
        match snapshot.decider.authorize_call(who.subject(), entry, asked) {
            Ok(_) if same => Ok(()),
            _ => Err(CallError::NoSuchTool),
        }
    }

    /// The request for this call that counts: the one there is, or a new one.
    async fn ask(
        &self,
        call: &CallIdentity,
        config: &ApprovalsConfig,
    ) -> Result<Box<Approval>, CallError> {
        let approval = self.request(call, config);
        let body = approval.requested();
        let cause = call.cause.clone();
        let record = self.gateway.record();
        let mut event = record.event(call.tenant.clone(), call.run.clone(), body, cause);
        event.event_id = approval.event_id.clone();
        let shown = config.show_arguments.then(|| self.shown()).flatten();
        match self.store.open(approval, shown, event).await {
            Ok(Opened::Asked(approval)) => {
                self.gateway.approval_gate().announce();
                Ok(approval)
            }
            Ok(Opened::Known(approval)) => Ok(approval),
            Ok(Opened::Full) => {
                tracing::warn!(tenant = %call.tenant, "too many approvals of one principal wait");
                Err(CallError::ApprovalRequired { tool: call.entry.id.clone(), asked: None })
            }
            Err(error) => Err(unanswered(&error)),
        }
    }

    fn request(&self, call: &CallIdentity, config: &ApprovalsConfig) -> Approval {
        let now = self.gateway.clock().now();
        let consent = &call.entry.consent;
        Approval {
            id: record::new_id(),
            tenant: call.tenant.clone(),
            principal: call.principal.clone(),
            key: match &self.who.auth {
                AuthMethod::ApiKey(key) => Some(key.clone()),
                AuthMethod::Anonymous | AuthMethod::Operator | AuthMethod::Jwt(_) => None,
            },
            makers: self.who.makers.clone(),
            tool_id: call.entry.id.clone(),
            tool_digest: call.entry.digest.as_ref().map(ToString::to_string),
            fingerprint: self.fingerprint.clone(),
            run_id: call.run.clone(),
            event_id: record::new_id(),
            outcome_id: None,
            state: ApprovalState::Pending,
            live: true,
            quorum: consent.quorum.unwrap_or(config.quorum).get(),
            role: consent.role.clone(),
            scope: consent.scope.clone().unwrap_or_else(|| config.respond_scope.clone()),
            votes: Vec::new(),
            arguments: Argument::shape(self.sent.arguments),
            created_at: now,
            expires_at: after(now, config.timeout),
            decided_at: None,
            used_by: None,
            revision: 0,
            change: 0,
        }
    }

    /// The redacted arguments, when they are not too long to be looked at.
    fn shown(&self) -> Option<String> {
        let redacted = Redactor::default().value(&Value::Object(self.sent.arguments.clone()));
        Some(redacted.to_string()).filter(|text| text.len() <= MAX_SHOWN)
    }

    /// Spends a grant on this call. From here on the call runs once or never.
    async fn spend(
        &self,
        mut approval: Approval,
        call: &mut CallIdentity,
        now: Timestamp,
    ) -> Result<bool, CallError> {
        let cause = approval.outcome_id.clone();
        if !approval.spend(&call.call, now) {
            return Ok(false);
        }
        let spent = self.store.change(approval, Vec::new()).await;
        if !spent.map_err(|error| unanswered(&error))? {
            return Ok(false);
        }
        self.gateway.approval_gate().announce();
        if let Some(cause) = cause {
            call.cause.get_or_insert(cause);
        }
        Ok(true)
    }
}

fn after(now: Timestamp, time: Duration) -> Timestamp {
    let time = chrono::Duration::from_std(time).unwrap_or(chrono::Duration::days(1));
    now.checked_add_signed(time).unwrap_or(now)
}

fn required(call: &CallIdentity, approval: &Approval, config: &ApprovalsConfig) -> CallError {
    let asked = Asked {
        approval: approval.id.clone(),
        retry_after: RETRY_AFTER,
        expires_at: approval.expires_at,
        link: config.url.as_ref().map(|base| link(base, &approval.id)),
    };
    CallError::ApprovalRequired { tool: call.entry.id.clone(), asked: Some(Box::new(asked)) }
}

/// Where people look at an approval.
fn link(base: &str, id: &ApprovalId) -> String {
    format!("{base}#approval={id}")
}

/// A store that does not answer grants nothing.
fn unanswered(error: &StoreError) -> CallError {
    tracing::error!(%error, "a call was refused because nobody could be asked for consent");
    CallError::NotAccountable("approved")
}
