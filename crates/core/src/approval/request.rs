//! One request for consent: to what, by whom, and what was answered.
//!
//! Invariant (I-65): nobody consents to a call of their own, whichever key they come with; and who makes
//! keys has one voice with all of them.
//! Invariant: a request changes only here, and a grant is used once.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::store::Fingerprint;
use crate::{
    clock::Timestamp,
    event::{
        ApprovalGranted, ApprovalOverridden, ApprovalRejected, EventBody, GateData, InterruptKind,
        InterruptRequested, QuorumProgress,
    },
    id::{ApprovalId, CallId, EventId, KeyId, PrincipalId, RunId, TenantId, ToolId},
    principal::{AuthMethod, Principal},
    scope::Scope,
    text::is_hidden,
};

/// Longest comment, in bytes.
pub const MAX_COMMENT: usize = 1_000;
/// Votes on one approval at most, which bounds its quorum.
pub const MAX_VOTES: usize = 32;
/// Arguments that are named, and bytes of a name.
const MAX_ARGUMENTS: usize = 64;
const MAX_NAME: usize = 128;

/// A request for consent to one call, and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approval {
    /// Its identifier.
    pub id: ApprovalId,
    /// Whose.
    pub tenant: TenantId,
    /// Who wants to call.
    pub principal: PrincipalId,
    /// With which key; none when it was none.
    pub key: Option<KeyId>,
    /// Who made that key.
    #[serde(default)]
    pub makers: Vec<PrincipalId>,
    /// The tool.
    pub tool_id: ToolId,
    /// Hash of the tool as its upstream described it.
    pub tool_digest: Option<String>,
    /// What it is bound to.
    pub fingerprint: Fingerprint,
    /// The run in which it was asked for, and the event that says so.
    pub run_id: RunId,
    /// See `run_id`.
    pub event_id: EventId,
    /// The event that let the call pass.
    pub outcome_id: Option<EventId>,
    /// How it is doing.
    pub state: ApprovalState,
    /// Whether it still says something about the call it is bound to.
    pub live: bool,
    /// How many have to consent.
    pub quorum: u32,
    /// The role that they have to have.
    pub role: Option<String>,
    /// The scope that they have to hold.
    pub scope: Scope,
    /// What was answered, in order.
    pub votes: Vec<Vote>,
    /// Names and sizes of the arguments.
    pub arguments: Vec<Argument>,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// Until when it counts. A grant begins a new term.
    pub expires_at: Timestamp,
    /// When it came to its present state.
    pub decided_at: Option<Timestamp>,
    /// The call that used the grant.
    pub used_by: Option<CallId>,
    /// Counts changes of this one.
    pub revision: u64,
    /// Counts changes of all of them; the store's.
    #[serde(default)]
    pub change: u64,
}

/// How an approval is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalState {
    /// Somebody has yet to answer.
    Pending,
    /// The call may be made once.
    Granted,
    /// It may not.
    Rejected,
    /// Nobody answered in time, or nobody called.
    Expired,
    /// The call was made.
    Used,
    /// The call may be made once, whoever else would have had to consent.
    Overridden,
}

/// One answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Vote {
    /// Who.
    pub principal: PrincipalId,
    /// With which key; none when it was none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyId>,
    /// Who made that key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub makers: Vec<PrincipalId>,
    /// What.
    pub verdict: Verdict,
    /// Why, in words for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// When.
    pub at: Timestamp,
}

/// What can be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Consent.
    Grant,
    /// None; one is enough.
    Reject,
    /// Let it pass, whoever else would have to consent.
    Override,
}

/// What is told of an argument: never its value.
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

/// Why an answer does not count. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VoteRefused {
    /// It has been decided, or its time is over.
    #[error("the approval is {0} and takes no answer any more")]
    NotPending(&'static str),
    /// Whoever wants to call cannot consent to it.
    #[error("you cannot answer your own request, whichever key you use")]
    Own,
    /// One principal made, or could have used, the keys of both; or of this and of one that consented.
    #[error(
        "the key that answers and the one that asks, or another that answered, come from one hand: \
         whoever made a key could use it. Answer with a key that the operator made, or a token"
    )]
    SameHand,
    /// Nobody knows who that is.
    #[error("an answer needs credentials")]
    Anonymous,
    /// One principal has one voice.
    #[error("this principal has answered already")]
    Again,
    /// The scope is missing.
    #[error("the answer needs the scope {0}")]
    Scope(String),
    /// The role is missing.
    #[error("the answer needs a role that this principal does not have")]
    Role,
    /// Too long.
    #[error("the comment is longer than 1000 bytes")]
    Comment,
    /// What is passed over is explained.
    #[error("an override needs a comment that says why")]
    Unexplained,
}

/// Scope that lets its holder pass over everybody else who would have to consent.
pub const OVERRIDE_SCOPE: &str = "approvals:override";

// === impl Approval ===

impl Approval {
    /// What is recorded when it is asked for.
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

    /// Whether its time is over.
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.expires_at <= now
    }

    /// Whether the call may be made.
    pub fn is_open(&self, now: Timestamp) -> bool {
        let released = matches!(self.state, ApprovalState::Granted | ApprovalState::Overridden);
        self.live && released && !self.is_over(now)
    }

    /// How many have consented.
    pub fn granted(&self) -> u32 {
        let granted = self.votes.iter().filter(|vote| vote.verdict == Verdict::Grant);
        u32::try_from(granted.count()).unwrap_or(u32::MAX)
    }

    /// Whether `who` asked for it.
    pub fn is_own(&self, who: &Principal) -> bool {
        let same_key = match (&who.auth, &self.key) {
            (AuthMethod::ApiKey(key), Some(asking)) => key == asking,
            _ => false,
        };
        self.tenant == who.tenant && (self.principal == who.id || same_key)
    }

    /// Whether whoever asked, or has consented, could stand behind `who` or the other way round.
    fn has_a_hand_of(&self, who: &Principal) -> bool {
        let consented = self.votes.iter().filter(|vote| vote.verdict != Verdict::Reject);
        let consented =
            consented.flat_map(|vote| std::iter::once(&vote.principal).chain(&vote.makers));
        let mut known = std::iter::once(&self.principal).chain(&self.makers).chain(consented);
        known.any(|known| who.hands().any(|hand| hand == known))
    }

    /// Whether `who` may know of it: whoever asked, and whoever could answer.
    pub fn is_visible_to(&self, who: &Principal) -> bool {
        let holds = |scope: &Scope| who.scopes.covers(scope);
        let overrides = Scope::parse(OVERRIDE_SCOPE).is_ok_and(|scope| holds(&scope));
        self.tenant == who.tenant
            && who.auth != AuthMethod::Anonymous
            && (self.principal == who.id || holds(&self.scope) || overrides)
    }

    /// Takes the answer of `who`, and gives what is recorded of it. A grant that completes the quorum
    /// holds for `term`.
    ///
    /// # Errors
    /// [`VoteRefused`]: nothing has changed.
    pub fn vote(
        &mut self,
        who: &Principal,
        verdict: Verdict,
        comment: Option<String>,
        now: Timestamp,
        term: chrono::Duration,
    ) -> Result<EventBody, VoteRefused> {
        self.admits(who, verdict, comment.as_deref(), now)?;
        let key = match &who.auth {
            AuthMethod::ApiKey(key) => Some(key.clone()),
            AuthMethod::Anonymous | AuthMethod::Operator | AuthMethod::Jwt(_) => None,
        };
        let (principal, makers) = (who.id.clone(), who.makers.clone());
        self.votes.push(Vote { principal, key, makers, verdict, comment, at: now });
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

    /// Whether `who` could answer this now.
    ///
    /// # Errors
    /// [`VoteRefused`] says why not.
    pub fn admits(
        &self,
        who: &Principal,
        verdict: Verdict,
        comment: Option<&str>,
        now: Timestamp,
    ) -> Result<(), VoteRefused> {
        if who.auth == AuthMethod::Anonymous {
            return Err(VoteRefused::Anonymous);
        }
        if self.is_own(who) {
            return Err(VoteRefused::Own);
        }
        let needed = match verdict {
            Verdict::Override => Scope::declared(OVERRIDE_SCOPE),
            Verdict::Grant | Verdict::Reject => self.scope.clone(),
        };
        if self.tenant != who.tenant || !who.scopes.covers(&needed) {
            return Err(VoteRefused::Scope(needed.to_string()));
        }
        let has_role = |role: &String| who.roles.contains(role);
        if verdict != Verdict::Override && !self.role.as_ref().is_none_or(has_role) {
            return Err(VoteRefused::Role);
        }
        if self.state != ApprovalState::Pending {
            return Err(VoteRefused::NotPending(self.state.as_str()));
        }
        if self.is_over(now) {
            return Err(VoteRefused::NotPending(ApprovalState::Expired.as_str()));
        }
        if self.votes.len() >= MAX_VOTES || self.votes.iter().any(|vote| vote.principal == who.id) {
            return Err(VoteRefused::Again);
        }
        // To refuse is open to every hand.
        if verdict != Verdict::Reject && self.has_a_hand_of(who) {
            return Err(VoteRefused::SameHand);
        }
        match comment.map(str::trim) {
            Some(comment) if comment.len() > MAX_COMMENT => Err(VoteRefused::Comment),
            None | Some("") if verdict == Verdict::Override => Err(VoteRefused::Unexplained),
            _ => Ok(()),
        }
    }

    /// Spends it on `call`; `false` when it lets no call pass.
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

    /// Ends it when its time is over, and gives what is recorded of that. `None`: it is not, or was.
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
        let nobody = PrincipalId::parse("core.system").ok().filter(|_| was_pending);
        let reason = Some("timeout".to_owned());
        let gate_id = self.id.clone();
        let event = nobody.map(|principal| ApprovalRejected { gate_id, principal, reason });
        Some(event.into_iter().map(EventBody::ApprovalRejected).collect())
    }
}

// === impl ApprovalState ===

impl ApprovalState {
    /// Every state.
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Granted, Self::Rejected, Self::Expired, Self::Used, Self::Overridden];

    /// The state as it stands on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Granted => "granted",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
            Self::Used => "used",
            Self::Overridden => "overridden",
        }
    }
}

// === impl Argument ===

impl Argument {
    /// Names, types and sizes of `arguments`.
    pub fn shape(arguments: &serde_json::Map<String, Value>) -> Vec<Self> {
        let members = arguments.iter().take(MAX_ARGUMENTS);
        let one = |(name, value): (&String, &Value)| {
            let visible = name.chars().filter(|c| !c.is_control() && !is_hidden(*c));
            let mut short = String::new();
            for character in visible {
                if short.len() + character.len_utf8() > MAX_NAME {
                    break;
                }
                short.push(character);
            }
            let kind = match value {
                Value::Null => "null",
                Value::Bool(_) => "boolean",
                Value::Number(_) => "number",
                Value::String(_) => "string",
                Value::Array(_) => "array",
                Value::Object(_) => "object",
            };
            Self { name: short, kind: kind.to_owned(), bytes: value.to_string().len() }
        };
        members.map(one).collect()
    }
}
