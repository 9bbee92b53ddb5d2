//! How approvers list, read and answer requests.

use std::collections::BTreeSet;

use toolcrib_core::{
    approval::{
        Approval, ApprovalQuery, ApprovalStore, Verdict, VoteRefused, request::OVERRIDE_SCOPE,
    },
    id::ApprovalId,
    principal::Principal,
    scope::Scope,
    store::StoreError,
};

use super::Approvals;

/// How often an answer is retried while others answer at the same time.
const MAX_ROUNDS: usize = 16;

/// Why an approval was not read or answered.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApprovalError {
    /// No approval with this id is visible to the caller.
    #[error("no such approval")]
    NotFound,
    /// The caller may not give this answer.
    #[error("{0}")]
    Refused(VoteRefused),
    /// The store does not answer, or is missing.
    #[error("approvals cannot be read or changed right now; try again later")]
    Unavailable,
}

/// An approval with the arguments of its call.
#[derive(Debug, Clone)]
pub struct ApprovalDetails {
    /// The approval.
    pub approval: Approval,
    /// The redacted arguments, if the configuration shows them to approvers.
    pub arguments: Option<String>,
}

impl Approvals {
    /// The approvals that are visible to `reader`, the newest first: its own requests, and those
    /// that it could answer. `query` narrows them down within the reader's tenant.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn list(
        &self,
        reader: &Principal,
        query: ApprovalQuery,
    ) -> Result<Vec<Approval>, ApprovalError> {
        let store = self.store()?;
        let ordered_by_change = query.changed_after.is_some();
        let of_tenant = ApprovalQuery { tenant: Some(reader.tenant.clone()), ..query.clone() };
        let mut found = store.list(of_tenant.clone()).await.map_err(unavailable)?;
        found.retain(|approval| approval.is_visible_to(reader));
        // The reader's own requests are listed even when those of others fill the page.
        if query.principal.is_none() && !self.is_approver(reader) {
            let own = ApprovalQuery { principal: Some(reader.id.clone()), ..of_tenant };
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
    pub async fn find(
        &self,
        reader: &Principal,
        id: &ApprovalId,
    ) -> Result<ApprovalDetails, ApprovalError> {
        let found = self.store()?.find(&reader.tenant, id).await.map_err(unavailable)?;
        let (approval, arguments) = found.ok_or(ApprovalError::NotFound)?;
        if !approval.is_visible_to(reader) {
            return Err(ApprovalError::NotFound);
        }
        let arguments = arguments.filter(|_| self.services.config().approvals.show_arguments);
        Ok(ApprovalDetails { approval, arguments })
    }

    /// Answers a request.
    ///
    /// # Errors
    /// [`ApprovalError`]: nothing has changed.
    pub async fn respond(
        &self,
        approver: &Principal,
        id: &ApprovalId,
        verdict: Verdict,
        comment: Option<String>,
    ) -> Result<Approval, ApprovalError> {
        let store = self.store()?;
        let term = chrono::Duration::from_std(self.services.config().approvals.timeout);
        let term = term.unwrap_or(chrono::Duration::days(1));
        for _ in 0..MAX_ROUNDS {
            let mut approval = self.find(approver, id).await?.approval;
            let now = self.services.now();
            if approval.live && approval.is_over(now) {
                self.expire(store, approval).await.map_err(unavailable)?;
                continue;
            }
            let event = approval
                .vote(approver, verdict, comment.clone(), now, term)
                .inspect_err(|refused| self.record_refused(approver, refused))
                .map_err(ApprovalError::Refused)?;
            let event = self.caused(&approval, event);
            if approval.is_open(now) {
                approval.outcome_id = Some(event.event_id.clone());
            }
            let changed = store.change(approval.clone(), vec![event]).await;
            if changed.map_err(unavailable)? {
                self.announce();
                return Ok(Approval { revision: approval.revision + 1, ..approval });
            }
        }
        Err(ApprovalError::Unavailable)
    }

    /// The approvals visible to `reader` that match `query`, and the last change among all that
    /// match.
    pub(super) async fn changed(
        &self,
        reader: &Principal,
        query: ApprovalQuery,
    ) -> Result<(Vec<Approval>, u64), ApprovalError> {
        let of_tenant = ApprovalQuery { tenant: Some(reader.tenant.clone()), ..query };
        let mut found = self.store()?.list(of_tenant).await.map_err(unavailable)?;
        let seen = found.last().map_or(0, |last| last.change);
        found.retain(|approval| approval.is_visible_to(reader));
        Ok((found, seen))
    }

    /// The number of the last change of any approval.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn epoch(&self) -> Result<u64, ApprovalError> {
        Ok(self.services.storage.changes(None).await.map_err(unavailable)?.approvals)
    }

    fn store(&self) -> Result<&dyn ApprovalStore, ApprovalError> {
        self.store.as_deref().ok_or(ApprovalError::Unavailable)
    }

    /// Whether `reader` could answer requests that follow the default rule.
    fn is_approver(&self, reader: &Principal) -> bool {
        let config = self.services.config();
        let scopes = [&Scope::declared(OVERRIDE_SCOPE), &config.approvals.respond_scope];
        scopes.iter().any(|scope| reader.scopes.covers(scope))
    }

    /// Records an answer that its approver may not give as a denial.
    fn record_refused(&self, approver: &Principal, refused: &VoteRefused) {
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
        self.audit.denied(approver, "approvals:respond", "/v1/approvals/{id}", reason);
    }
}

fn unavailable(error: StoreError) -> ApprovalError {
    tracing::error!(%error, "approvals cannot be read or changed");
    ApprovalError::Unavailable
}
