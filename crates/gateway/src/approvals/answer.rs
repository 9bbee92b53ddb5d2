//! Lets approvers list, read and answer requests.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use toolcrib_core::{
    approval::{Approval, ApprovalQuery, ApprovalState, ApprovalStore, Verdict, VoteRefusal},
    id::ApprovalId,
    principal::Principal,
    store::StoreError,
};

use super::Approvals;

/// Page size of a list, and the most pages that it reads. Beyond them, a list has no approvals of
/// others that a reader could answer.
const PAGE: usize = 1_000;
const MAX_PAGES: usize = 10;
/// How often an answer is retried while others answer concurrently.
const MAX_ROUNDS: usize = 16;

/// Why reading or answering an approval failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ApprovalError {
    /// No approval with this id is visible to the caller.
    #[error("approval not found")]
    NotFound,
    /// The caller may not give this answer.
    #[error("{0}")]
    Refused(VoteRefusal),
    /// The store failed, or is missing.
    #[error("approvals cannot be read or changed right now; try again later")]
    Unavailable,
}

/// Inputs of calls that are read concurrently.
const READS: usize = 16;

/// An approval with the input of its call.
#[derive(Debug, Clone)]
pub struct ApprovalDetails {
    /// The approval.
    pub approval: Approval,
    /// The redacted input as JSON text, if the configuration shows it to approvers.
    pub input: Option<String>,
}

impl Approvals {
    /// The newest `limit` approvals in `state` that are visible to `reader`: its own requests, and
    /// those that it could answer. Reads older pages until it has found them, within `MAX_PAGES`.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn list(
        &self,
        reader: &Principal,
        state: Option<ApprovalState>,
        limit: usize,
    ) -> Result<Vec<Approval>, ApprovalError> {
        let store = self.store()?;
        let tenant = Some(reader.tenant.clone());
        let mut query = ApprovalQuery { tenant, state, limit: PAGE, ..ApprovalQuery::default() };
        let mut found = Vec::new();
        let mut is_complete = false;
        for _ in 0..MAX_PAGES {
            let page = store.list(query.clone()).await.map_err(unavailable)?;
            let last = page.last().map(|approval| (approval.created_at, approval.id.clone()));
            is_complete = page.len() < PAGE;
            found.extend(page.into_iter().filter(|approval| approval.is_visible_to(reader)));
            if is_complete || found.len() >= limit {
                break;
            }
            query.older_than = last;
        }
        // The reader's requests are listed even if those of others fill all pages.
        if !is_complete && found.len() < limit {
            let principal = Some(reader.id.clone());
            let own =
                store.list(ApprovalQuery { principal, ..query }).await.map_err(unavailable)?;
            found.extend(own);
        }
        found.truncate(limit);
        Ok(found)
    }

    /// The approval `id` of the tenant of `reader`, if it is visible to `reader`.
    ///
    /// # Errors
    /// [`ApprovalError`].
    pub async fn find(
        &self,
        reader: &Principal,
        id: &ApprovalId,
    ) -> Result<ApprovalDetails, ApprovalError> {
        let found = self.store()?.find(&reader.tenant, id).await.map_err(unavailable)?;
        let (approval, input) = found.ok_or(ApprovalError::NotFound)?;
        if !approval.is_visible_to(reader) {
            return Err(ApprovalError::NotFound);
        }
        let input = input.filter(|_| self.services.config().approvals.show_arguments);
        Ok(ApprovalDetails { approval, input })
    }

    /// Adds the inputs of the calls to approvals of a [`list`](Self::list) for `reader`.
    ///
    /// # Errors
    /// [`ApprovalError::Unavailable`].
    pub async fn details(
        &self,
        reader: &Principal,
        approvals: Vec<Approval>,
    ) -> Result<Vec<ApprovalDetails>, ApprovalError> {
        let store = self.store()?;
        if !self.services.config().approvals.show_arguments {
            let without = |approval| ApprovalDetails { approval, input: None };
            return Ok(approvals.into_iter().map(without).collect());
        }
        let read = async |approval: Approval| {
            let found = store.find(&reader.tenant, &approval.id).await.map_err(unavailable)?;
            Ok(ApprovalDetails { approval, input: found.and_then(|(_, input)| input) })
        };
        stream::iter(approvals).map(read).buffered(READS).try_collect().await
    }

    /// Adds the verdict of `approver` to the request `id`, with an optional comment.
    ///
    /// # Errors
    /// [`ApprovalError`]; in that case the request is unchanged.
    pub async fn respond(
        &self,
        approver: &Principal,
        id: &ApprovalId,
        verdict: Verdict,
        comment: Option<String>,
    ) -> Result<Approval, ApprovalError> {
        let store = self.store()?;
        let config = self.services.config();
        let term = chrono::Duration::from_std(config.approvals.timeout);
        let term = term.unwrap_or(chrono::Duration::days(1));
        for _ in 0..MAX_ROUNDS {
            let mut approval = self.find(approver, id).await?.approval;
            let now = self.services.now();
            if approval.live && approval.is_over(now) {
                self.expire(store, approval).await.map_err(unavailable)?;
                continue;
            }
            let event = approval
                .vote(approver, &config.people, verdict, comment.clone(), now, term)
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

    /// The approvals visible to `reader` that match `query`, and the last change among all matches.
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

    /// Records a rejected answer of an approver as a denial.
    fn record_refused(&self, approver: &Principal, refused: &VoteRefusal) {
        let reason = match refused {
            VoteRefusal::Own => "own",
            VoteRefusal::SameHand => "same_hand",
            VoteRefusal::Anonymous => "unauthenticated",
            VoteRefusal::Scope(_) => "scope",
            VoteRefusal::Role => "role",
            VoteRefusal::NotPending(_)
            | VoteRefusal::NotGranted(_)
            | VoteRefusal::Again
            | VoteRefusal::Comment
            | VoteRefusal::Unexplained => return,
        };
        self.audit.denials().denied(approver, "approvals:respond", "/v1/approvals/{id}", reason);
    }
}

fn unavailable(error: StoreError) -> ApprovalError {
    tracing::error!(%error, "approvals cannot be read or changed");
    ApprovalError::Unavailable
}
