//! How humans see requests for consent and answer them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalStore, Verdict, VoteRefused, request::OVERRIDE_SCOPE,
    },
    clock::Timestamp,
    id::ApprovalId,
    principal::Principal,
    scope::Scope,
    store::StoreError,
};

use crate::Gateway;

/// How often an answer is tried when others answer at the same time.
const MAX_ROUNDS: usize = 16;

/// An approval as every surface tells it to `who`.
pub fn told(
    approval: &Approval,
    arguments: Option<&str>,
    who: &Principal,
    now: Timestamp,
) -> Value {
    let may = |verdict| approval.admits(who, verdict, Some("-"), now).is_ok();
    let mut told = json!({
        "approvalId": approval.id,
        "state": approval.state,
        "toolId": approval.tool_id,
        "principal": approval.principal,
        "runId": approval.run_id,
        "quorum": approval.quorum,
        "granted": approval.granted(),
        "requiredScope": approval.scope,
        "arguments": approval.arguments,
        "votes": approval.votes,
        "createdAt": approval.created_at,
        "expiresAt": approval.expires_at,
        "mayRespond": may(Verdict::Grant),
        "mayOverride": may(Verdict::Override),
    });
    if let Some(members) = told.as_object_mut() {
        let shown = arguments.and_then(|text| serde_json::from_str(text).ok());
        let more = [
            ("toolDigest", approval.tool_digest.as_ref().map(|it| json!(it))),
            ("keyId", approval.key.as_ref().map(|it| json!(it))),
            ("requiredRole", approval.role.as_ref().map(|it| json!(it))),
            ("redactedArguments", shown),
            ("decidedAt", approval.decided_at.map(|it| json!(it))),
            ("usedBy", approval.used_by.as_ref().map(|it| json!(it))),
        ];
        for (name, value) in more {
            if let Some(value) = value {
                members.insert(name.to_owned(), value);
            }
        }
    }
    told
}

/// Why there is no answer.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApprovalError {
    /// There is none of that id that the caller may know of.
    #[error("no such approval")]
    NotFound,
    /// The answer does not count.
    #[error("{0}")]
    Refused(VoteRefused),
    /// The store does not answer, or there is none.
    #[error("approvals cannot be read or changed right now; try again later")]
    Unavailable,
}

/// An approval as it is told, with what may be shown of its call.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The approval.
    pub approval: Approval,
    /// The redacted arguments, for whoever may answer, where the operator has them shown.
    pub arguments: Option<String>,
}

impl Gateway {
    /// The approvals that `who` may know of, the newest first: its own requests, and those that it
    /// could answer. `query` narrows them down within the tenant of `who`.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn approvals(
        &self,
        who: &Principal,
        query: ApprovalQuery,
    ) -> Result<Vec<Approval>, ApprovalError> {
        let store = self.approval_store()?;
        let ordered_by_change = query.changed_after.is_some();
        let of_tenant = ApprovalQuery { tenant: Some(who.tenant.clone()), ..query.clone() };
        let mut found = store.list(of_tenant.clone()).await.map_err(unavailable)?;
        found.retain(|approval| approval.is_visible_to(who));
        // Its own are not crowded out by those of others.
        if query.principal.is_none() && !self.answers(who) {
            let own = ApprovalQuery { principal: Some(who.id.clone()), ..of_tenant };
            let seen: BTreeSet<ApprovalId> = found.iter().map(|it| it.id.clone()).collect();
            let own = store.list(own).await.map_err(unavailable)?;
            found.extend(own.into_iter().filter(|approval| !seen.contains(&approval.id)));
            match ordered_by_change {
                true => found.sort_by_key(|it| it.change),
                false => found
                    .sort_by(|one, two| (two.created_at, &two.id).cmp(&(one.created_at, &one.id))),
            }
        }
        Ok(found)
    }

    /// One approval.
    ///
    /// # Errors
    /// [`ApprovalError`].
    pub async fn approval(&self, who: &Principal, id: &ApprovalId) -> Result<Shown, ApprovalError> {
        let found = self.approval_store()?.find(&who.tenant, id).await.map_err(unavailable)?;
        let (approval, arguments) = found.ok_or(ApprovalError::NotFound)?;
        if !approval.is_visible_to(who) {
            return Err(ApprovalError::NotFound);
        }
        let arguments = arguments.filter(|_| self.config().approvals.show_arguments);
        Ok(Shown { approval, arguments })
    }

    /// Answers a request for consent.
    ///
    /// # Errors
    /// [`ApprovalError`]: the answer does not count, and nothing has changed.
    pub async fn respond(
        &self,
        who: &Principal,
        id: &ApprovalId,
        verdict: Verdict,
        comment: Option<String>,
    ) -> Result<Approval, ApprovalError> {
        let store = self.approval_store()?;
        let term = chrono::Duration::from_std(self.config().approvals.timeout);
        let term = term.unwrap_or(chrono::Duration::days(1));
        for _ in 0..MAX_ROUNDS {
            let mut approval = self.approval(who, id).await?.approval;
            let now = self.clock().now();
            if approval.live && approval.is_over(now) {
                self.expire(store, approval).await.map_err(unavailable)?;
                continue;
            }
            let event = approval
                .vote(who, verdict, comment.clone(), now, term)
                .inspect_err(|refused| self.note(who, refused))
                .map_err(ApprovalError::Refused)?;
            let event = self.caused(&approval, event);
            if approval.is_open(now) {
                approval.outcome_id = Some(event.event_id.clone());
            }
            let changed = store.change(approval.clone(), vec![event]).await;
            if changed.map_err(unavailable)? {
                self.approval_gate().announce();
                return Ok(Approval { revision: approval.revision + 1, ..approval });
            }
        }
        Err(ApprovalError::Unavailable)
    }

    /// The approvals that `who` may know of and that changed after those of an earlier answer, and the
    /// last change that was looked at.
    pub(super) async fn changed_approvals(
        &self,
        who: &Principal,
        query: ApprovalQuery,
    ) -> Result<(Vec<Approval>, u64), ApprovalError> {
        let of_tenant = ApprovalQuery { tenant: Some(who.tenant.clone()), ..query };
        let mut found = self.approval_store()?.list(of_tenant).await.map_err(unavailable)?;
        let seen = found.last().map_or(0, |last| last.change);
        found.retain(|approval| approval.is_visible_to(who));
        Ok((found, seen))
    }

    /// The last change of any approval, as a place to go on from.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn approval_epoch(&self) -> Result<u64, ApprovalError> {
        self.approval_store()?.epoch().await.map_err(unavailable)
    }

    fn approval_store(&self) -> Result<&dyn ApprovalStore, ApprovalError> {
        self.approval_gate().store().map(|it| &**it).ok_or(ApprovalError::Unavailable)
    }

    /// Whether `who` could answer what no rule says anything else about.
    fn answers(&self, who: &Principal) -> bool {
        let config = self.config();
        let overrides = Scope::parse(OVERRIDE_SCOPE).is_ok_and(|scope| who.scopes.covers(&scope));
        overrides || who.scopes.covers(&config.approvals.respond_scope)
    }

    /// An answer by somebody who may not give it is a denial.
    fn note(&self, who: &Principal, refused: &VoteRefused) {
        let reason = match refused {
            VoteRefused::Own => "own",
            VoteRefused::SameHand => "same_hand",
            VoteRefused::Anonymous => "unauthenticated",
            VoteRefused::Scope(_) => "scope",
            VoteRefused::Role => "role",
            VoteRefused::NotPending(_)
            | VoteRefused::Again
            | VoteRefused::Comment
            | VoteRefused::Unexplained => return,
        };
        self.record().denied(who, "approvals:respond", "/v1/approvals/{id}", reason);
    }
}

fn unavailable(error: StoreError) -> ApprovalError {
    tracing::error!(%error, "approvals cannot be read or changed");
    ApprovalError::Unavailable
}
