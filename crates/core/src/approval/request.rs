//! One approval request: the call it covers, the caller, and the votes on it.
//!
//! Invariant (I-65): a person cannot approve its own call, with any key or under another principal
//! ([`People`]). A creator of keys counts as one voter together with all of them.
//!
//! Invariant: a request changes only in this module, and a grant is used once.
//!
//! Invariant (I-103): a grant counts only as long as each of its approvers could give it again.

use std::{fmt, sync::Arc};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{
    clock::Timestamp,
    event::{
        ApprovalGranted, ApprovalOverridden, ApprovalRejected, EventBody, GateData, InterruptKind,
        InterruptRequested, QuorumProgress,
    },
    id::{ApprovalId, CallId, EventId, KeyId, PrincipalId, RunId, TenantId, ToolId},
    json,
    people::People,
    principal::{AuthMethod, Principal, Token, hands},
    scope::{Scope, ScopeSet},
    text::{is_blank, visible_line},
    text_types::closed_enum,
};

/// Longest comment, in bytes.
pub const MAX_COMMENT: usize = 1_000;
/// The most votes on one approval, which also bounds its quorum.
pub const MAX_VOTES: usize = 32;
/// The most arguments that are listed, and the longest listed name in bytes.
const MAX_ARGUMENTS: usize = 64;
const MAX_NAME: usize = 128;

/// A request for approval of one call, with its votes and its state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its identifier.
    pub id: ApprovalId,
    /// The caller's tenant.
    pub tenant: TenantId,
    /// The caller.
    pub principal: PrincipalId,
    /// The caller's key; `None` when the caller used no API key.
    pub key: Option<KeyId>,
    /// The principals that created that key.
    #[serde(default)]
    pub makers: Vec<PrincipalId>,
    /// The tool.
    pub tool_id: ToolId,
    /// Hash of the tool's upstream description.
    pub tool_digest: Option<String>,
    /// The call that the approval is bound to.
    pub fingerprint: Fingerprint,
    /// The run in which the approval was requested, and the event that recorded the request.
    pub run_id: RunId,
    /// See `run_id`.
    pub event_id: EventId,
    /// The event that allowed the call.
    pub outcome_id: Option<EventId>,
    /// The state.
    pub state: ApprovalState,
    /// Whether it still applies to the call it is bound to.
    pub live: bool,
    /// The number of approvals required.
    pub quorum: u32,
    /// The role that approvers must have.
    pub role: Option<String>,
    /// The scope that approvers must hold.
    pub scope: Scope,
    /// The votes, oldest first.
    pub votes: Vec<Vote>,
    /// Names and sizes of the arguments.
    pub arguments: Vec<Argument>,
    /// How many further arguments there are.
    #[serde(default)]
    pub more_arguments: usize,
    /// The shape of the answers of a further round; `None` for the first round of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<RoundShape>,
    /// When it was requested.
    pub created_at: Timestamp,
    /// When it expires. A grant starts a new term.
    pub expires_at: Timestamp,
    /// When it entered its current state.
    pub decided_at: Option<Timestamp>,
    /// The call that used the grant.
    pub used_by: Option<CallId>,
    /// Rises by one with every change of this approval.
    pub revision: u64,
    /// Rises with every change of any approval; assigned by the store.
    #[serde(default)]
    pub change: u64,
}

/// Identifies a call: an HMAC-SHA-256, in lower hex, over everything that an approval is bound to.
/// The key is random and belongs to the store.
///
/// The hash of a call in the record (`argsHash`) covers redacted arguments, so two calls that
/// differ only in a secret share it. Their fingerprints differ, and reveal nothing without the key.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint(pub String);

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(..)")
    }
}

closed_enum! {
    /// The state of an approval.
    ApprovalState {
        /// The quorum is not reached yet.
        Pending = "pending",
        /// The call may be made once.
        Granted = "granted",
        /// The call may not be made.
        Rejected = "rejected",
        /// The request, or the grant, was not used in time.
        Expired = "expired",
        /// The call was made.
        Used = "used",
        /// The call may be made once, although the quorum was not reached.
        Overridden = "overridden",
        /// The grant was taken back before it was used, or its approver may no longer approve.
        Withdrawn = "withdrawn",
    }
}

/// The vote of one principal for or against an approval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// The voter.
    pub principal: PrincipalId,
    /// The voter's key; `None` when the voter used no API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// The principals that created that key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<PrincipalId>,
    /// The voter's token, if it used one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Arc<Token>>,
    /// The verdict.
    pub verdict: Verdict,
    /// The voter's reason, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When the vote was cast.
    pub at: Timestamp,
}

/// The possible votes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Approve.
    Grant,
    /// Reject; one rejection is enough.
    Reject,
    /// Approve on one's own authority, bypassing the quorum.
    Override,
    /// Withdraw a grant that has not been used.
    Withdraw,
}

/// The description of an argument: its name, type and size, never its value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Argument {
    /// Its name, shortened.
    pub name: String,
    /// Its JSON type.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its size in bytes of JSON.
    pub bytes: usize,
}

/// The description of the answers and the state of a further round.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundShape {
    /// The answers.
    pub responses: Vec<Argument>,
    /// How many further answers there are.
    #[serde(default)]
    pub more_responses: usize,
    /// The size of the state in bytes; `None` without a state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_bytes: Option<usize>,
}

/// Why a vote was refused. The approval is unchanged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VoteRefusal {
    /// The approval is decided or has expired.
    #[error("the approval is {0} and accepts no more votes")]
    NotPending(&'static str),
    /// There is no grant to withdraw.
    #[error("the approval is {0}, so there is no grant to withdraw")]
    NotGranted(&'static str),
    /// The caller cannot approve its own call, nor can another principal of the same person.
    #[error("you cannot approve your own request, with any key")]
    Own,
    /// One principal created, or could have used, both the voter's key and the caller's or an
    /// approver's.
    #[error(
        "your key and the key of the caller, or of an earlier approver, have a creator in common \
         who could have used both. Vote with a key that the operator created, or with a token"
    )]
    SameHand,
    /// The voter is anonymous.
    #[error("a vote requires credentials")]
    Anonymous,
    /// One person has one vote.
    #[error("this principal, or another one of the same person, has already voted")]
    Again,
    /// The scope is missing.
    #[error("the vote requires the scope {0}")]
    Scope(String),
    /// The role is missing.
    #[error("the vote requires a role that this principal does not have")]
    Role,
    /// The comment is too long.
    #[error("the comment is longer than 1000 bytes")]
    Comment,
    /// An override must be explained.
    #[error("an override requires a comment with the reason")]
    Unexplained,
}

/// The principal of events that this server causes by itself.
const SYSTEM: &str = "core.system";

/// The scope that permits overriding the quorum.
pub const OVERRIDE_SCOPE: &str = "approvals:override";

// === impl Approval ===

impl Approval {
    /// The event that records the request.
    pub fn requested(&self) -> EventBody {
        let timeout = self.expires_at - self.created_at;
        EventBody::InterruptRequested(InterruptRequested {
            kind: InterruptKind::Approval,
            key: self.id.clone(),
            timeout_ms: u64::try_from(timeout.num_milliseconds()).unwrap_or(0),
            data: GateData {
                gate_id: self.id.clone(),
                artifact_id: self.tool_id.clone(),
                artifact_type: "tool-call".to_owned(),
                title: "consent to a tool call".to_owned(),
                actions: vec!["accept".to_owned(), "reject".to_owned()],
                required_role: self.role.clone(),
                required_scope: self.scope.to_string(),
                quorum: self.quorum,
            },
        })
    }

    /// Whether it has expired.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether the call may be made.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let released = matches!(self.state, ApprovalState::Granted | ApprovalState::Overridden);
        self.live && released && !self.is_over(now)
    }

    /// The number of approving votes.
    pub fn granted(&self) -> u32 {
        let granted = self.votes.iter().filter(|vote| vote.verdict == Verdict::Grant);
        u32::try_from(granted.count()).unwrap_or(u32::MAX)
    }

    /// Whether `who` requested it, under any principal of the person.
    fn is_own(&self, who: &Principal, people: &People) -> bool {
        let same_key = self.key.is_some() && who.auth.key() == self.key.as_ref();
        let same_person = people.are_one(&self.tenant, &self.principal, &who.id);
        self.tenant == who.tenant && (same_person || same_key)
    }

    /// Whether a person behind `who`, itself or a creator of its key, is also behind the caller or
    /// an approver.
    fn shares_person_with(&self, who: &Principal, people: &People) -> bool {
        let consented = self.consents().flat_map(Vote::hands);
        let mut known = self.hands().chain(consented);
        known.any(|known| who.hands().any(|hand| people.are_one(&self.tenant, hand, known)))
    }

    /// Whether the caller and its approvers are different people. They were when they voted; the
    /// operator may have declared two of them one person since.
    pub fn is_by_different(&self, people: &People) -> bool {
        let mut known: Vec<&PrincipalId> = self.hands().collect();
        self.consents().all(|vote| {
            let is_known =
                |hand| known.iter().any(|other| people.are_one(&self.tenant, hand, other));
            let is_other = !vote.hands().any(is_known);
            known.extend(vote.hands());
            is_other
        })
    }

    /// The people that could have requested it: the caller, and the creators of its key.
    fn hands(&self) -> impl Iterator<Item = &PrincipalId> {
        hands(&self.principal, &self.makers)
    }

    /// Whether `who` may see it: the caller, everyone who has voted, and every possible approver
    /// may. Other principals of the same people may not, because each has its rights alone.
    pub fn is_visible_to(&self, who: &Principal) -> bool {
        let may = |verdict| self.may_answer(who, verdict).is_ok();
        let has_part =
            self.principal == who.id || self.votes.iter().any(|vote| vote.principal == who.id);
        self.tenant == who.tenant
            && who.auth != AuthMethod::Anonymous
            && (has_part || may(Verdict::Grant) || may(Verdict::Override))
    }

    /// Records the vote of `who` and returns its event. A grant that completes the quorum is valid
    /// for `term`.
    ///
    /// # Errors
    /// Fails with [`VoteRefusal`] and changes nothing.
    pub fn vote(
        &mut self,
        who: &Principal,
        people: &People,
        verdict: Verdict,
        comment: Option<String>,
        now: Timestamp,
        term: chrono::Duration,
    ) -> Result<EventBody, VoteRefusal> {
        let comment = comment.filter(|comment| !is_blank(comment));
        self.admits(who, people, verdict, comment.as_deref(), now)?;
        let (key, token) = match &who.auth {
            AuthMethod::ApiKey(key) => (Some(key.clone()), None),
            AuthMethod::Jwt(token) => (None, Some(Arc::new(token.without_presented()))),
            AuthMethod::Anonymous | AuthMethod::Operator => (None, None),
        };
        let (principal, makers) = (who.id.clone(), who.makers.clone());
        self.votes.push(Vote { principal, key, makers, token, verdict, comment, at: now });
        let (gate_id, principal) = (self.id.clone(), who.id.clone());
        let reached = self.granted() >= self.quorum;
        let (state, event) = match verdict {
            Verdict::Grant => {
                let progress = QuorumProgress { granted: self.granted(), required: self.quorum };
                let quorum_progress = (self.quorum > 1).then_some(progress);
                let granted = ApprovalGranted { gate_id, principal, quorum_progress };
                let state = if reached { ApprovalState::Granted } else { ApprovalState::Pending };
                (state, EventBody::ApprovalGranted(granted))
            }
            Verdict::Reject => {
                let reason = Some("rejected".to_owned());
                let rejected = ApprovalRejected { gate_id, principal, reason };
                (ApprovalState::Rejected, EventBody::ApprovalRejected(rejected))
            }
            Verdict::Override => {
                let reason = "override".to_owned();
                let overridden = ApprovalOverridden { gate_id, principal, reason };
                (ApprovalState::Overridden, EventBody::ApprovalOverridden(overridden))
            }
            Verdict::Withdraw => {
                self.live = false;
                let reason = Some("withdrawn".to_owned());
                let rejected = ApprovalRejected { gate_id, principal, reason };
                (ApprovalState::Withdrawn, EventBody::ApprovalRejected(rejected))
            }
        };
        self.state = state;
        if state != ApprovalState::Pending {
            self.decided_at = Some(now);
        }
        if matches!(state, ApprovalState::Granted | ApprovalState::Overridden) {
            self.expires_at = now.checked_add_signed(term).unwrap_or(now);
        }
        Ok(event)
    }

    /// Checks whether `who` could vote now. `comment` is not blank.
    ///
    /// # Errors
    /// Fails with the reason for which the vote would be refused.
    pub fn admits(
        &self,
        who: &Principal,
        people: &People,
        verdict: Verdict,
        comment: Option<&str>,
        now: Timestamp,
    ) -> Result<(), VoteRefusal> {
        if who.auth == AuthMethod::Anonymous {
            return Err(VoteRefusal::Anonymous);
        }
        if self.is_own(who, people) {
            return Err(VoteRefusal::Own);
        }
        match verdict {
            Verdict::Withdraw => self.admits_withdrawal(who, now)?,
            Verdict::Grant | Verdict::Reject | Verdict::Override => {
                self.admits_answer(who, people, verdict, now)?;
            }
        }
        match comment.map(str::trim) {
            Some(comment) if comment.len() > MAX_COMMENT => Err(VoteRefusal::Comment),
            None if verdict == Verdict::Override => Err(VoteRefusal::Unexplained),
            _ => Ok(()),
        }
    }

    /// Checks whether `who` could answer the pending request.
    fn admits_answer(
        &self,
        who: &Principal,
        people: &People,
        verdict: Verdict,
        now: Timestamp,
    ) -> Result<(), VoteRefusal> {
        self.may_answer(who, verdict)?;
        if self.state != ApprovalState::Pending {
            return Err(VoteRefusal::NotPending(self.state.as_str()));
        }
        if self.is_over(now) {
            return Err(VoteRefusal::NotPending(ApprovalState::Expired.as_str()));
        }
        let same = |vote: &Vote| people.are_one(&self.tenant, &vote.principal, &who.id);
        if self.votes.len() >= MAX_VOTES || self.votes.iter().any(same) {
            return Err(VoteRefusal::Again);
        }
        // A rejection cannot benefit the rejecting person, so shared creators do not matter.
        if verdict != Verdict::Reject && self.shares_person_with(who, people) {
            return Err(VoteRefusal::SameHand);
        }
        Ok(())
    }

    /// Checks whether `who` has the scope and the role for `verdict`. A withdrawal requires those
    /// of a grant or of an override.
    fn may_answer(&self, who: &Principal, verdict: Verdict) -> Result<(), VoteRefusal> {
        let overrides = Scope::declared(OVERRIDE_SCOPE);
        let needed = match verdict {
            Verdict::Override => &overrides,
            Verdict::Withdraw if who.scopes.covers(&overrides) => &overrides,
            Verdict::Grant | Verdict::Reject | Verdict::Withdraw => &self.scope,
        };
        if self.tenant != who.tenant || !who.scopes.covers(needed) {
            return Err(VoteRefusal::Scope(needed.to_string()));
        }
        let has_role = |role: &String| who.roles.contains(role);
        match *needed == overrides || self.role.as_ref().is_none_or(has_role) {
            true => Ok(()),
            false => Err(VoteRefusal::Role),
        }
    }

    /// Checks whether `who` could withdraw the grant: an approver its own vote, and everyone who
    /// could have given the grant. Before the quorum is reached, only the approvers themselves can
    /// withdraw their votes, because others can reject the request.
    fn admits_withdrawal(&self, who: &Principal, now: Timestamp) -> Result<(), VoteRefusal> {
        let has_consented =
            self.tenant == who.tenant && self.consents().any(|vote| vote.principal == who.id);
        if !has_consented {
            self.may_answer(who, Verdict::Withdraw)?;
        }
        match self.state {
            _ if self.is_over(now) => Err(VoteRefusal::NotGranted(ApprovalState::Expired.as_str())),
            ApprovalState::Granted | ApprovalState::Overridden => Ok(()),
            ApprovalState::Pending if has_consented => Ok(()),
            state => Err(VoteRefusal::NotGranted(state.as_str())),
        }
    }

    /// The votes that approve the call.
    pub fn consents(&self) -> impl Iterator<Item = &Vote> {
        let approves = |vote: &&Vote| match vote.verdict {
            Verdict::Grant | Verdict::Override => true,
            Verdict::Reject | Verdict::Withdraw => false,
        };
        self.votes.iter().filter(approves)
    }

    /// Whether `who`, the voter of `vote` with its current scopes and roles, could still give that
    /// vote.
    pub fn upholds(&self, vote: &Vote, who: &Principal) -> bool {
        vote.principal == who.id && self.may_answer(who, vote.verdict).is_ok()
    }

    /// Withdraws a grant whose approvers may not give it any more, and returns the event to record.
    /// `None` without a grant.
    pub fn lapse(&mut self, now: Timestamp) -> Option<EventBody> {
        if !self.is_open(now) {
            return None;
        }
        let principal = PrincipalId::parse(SYSTEM).ok()?;
        (self.state, self.live, self.decided_at) = (ApprovalState::Withdrawn, false, Some(now));
        let reason = Some("approver".to_owned());
        let rejected = ApprovalRejected { gate_id: self.id.clone(), principal, reason };
        Some(EventBody::ApprovalRejected(rejected))
    }

    /// Uses the grant for `call`; returns `false` if there is no valid grant.
    pub fn spend(&mut self, call: &CallId, now: Timestamp) -> bool {
        if !self.is_open(now) {
            return false;
        }
        self.state = ApprovalState::Used;
        self.live = false;
        self.used_by = Some(call.clone());
        self.decided_at = Some(now);
        true
    }

    /// Expires it if its time is over, and returns the events to record. `None` if it has not
    /// expired, or expired before.
    pub fn expire(&mut self, now: Timestamp) -> Option<Vec<EventBody>> {
        if !self.live || !self.is_over(now) {
            return None;
        }
        self.live = false;
        let was_pending = self.state == ApprovalState::Pending;
        if self.state != ApprovalState::Rejected {
            self.state = ApprovalState::Expired;
            self.decided_at = Some(now);
        }
        let system = PrincipalId::parse(SYSTEM).ok().filter(|_| was_pending);
        let reason = Some("timeout".to_owned());
        let gate_id = self.id.clone();
        let event = system.map(|principal| ApprovalRejected { gate_id, principal, reason });
        Some(event.into_iter().map(EventBody::ApprovalRejected).collect())
    }
}

// === impl Vote ===

impl Vote {
    /// The people that could have voted: the voter, and the creators of its key.
    fn hands(&self) -> impl Iterator<Item = &PrincipalId> {
        hands(&self.principal, &self.makers)
    }

    /// The voter as it authenticated in `tenant`, without scopes: its current credentials decide
    /// them. `None` for the operator at the machine, who has no credentials.
    pub fn voter(&self, tenant: &TenantId) -> Option<Principal> {
        let auth = match (&self.key, &self.token) {
            (Some(key), _) => AuthMethod::ApiKey(key.clone()),
            (None, Some(token)) => AuthMethod::Jwt(Arc::clone(token)),
            (None, None) => return None,
        };
        Some(Principal {
            id: self.principal.clone(),
            tenant: tenant.clone(),
            scopes: ScopeSet::default(),
            roles: self.token.as_ref().map(|token| token.roles.clone()).unwrap_or_default(),
            makers: self.makers.clone(),
            auth,
            session: None,
        })
    }
}

// === impl Argument ===

impl Argument {
    /// Names, types and sizes of `arguments`, and the number of further ones. A shortened name has
    /// `…` as its last character.
    pub fn shape(arguments: &serde_json::Map<String, Value>) -> (Vec<Self>, usize) {
        let members = arguments.iter().take(MAX_ARGUMENTS);
        let one = |(name, value): (&String, &Value)| {
            let mut short = visible_line(name).into_owned();
            if short.len() > MAX_NAME {
                short.truncate(short.floor_char_boundary(MAX_NAME));
                short.push('…');
            }
            let kind = json::kind(value).to_owned();
            Self { name: short, kind, bytes: value.to_string().len() }
        };
        (members.map(one).collect(), arguments.len().saturating_sub(MAX_ARGUMENTS))
    }
}
