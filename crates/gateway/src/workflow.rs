//! Runs of [workflows](crate::workflow_definition).
//!
//! `source` is a [`Source`](toolcrib_core::source::Source) like any other, and `run` calls the
//! steps through a [`StepCaller`], the pipeline. `resume` continues the runs of a dead process.
//!
//! Invariant (I-7): a caller of a workflow may call each of its steps, in the same snapshot.
//! Invariant (I-49): every step is a call of the workflow's caller, through the pipeline.

mod drive;
mod failure;
mod past;
mod resume;
mod run;
pub(crate) mod source;

use std::sync::Arc;

use toolcrib_core::{
    id::{RunId, TenantId},
    store::{RunQuery, RunRecord, RunStore, StoreError},
};

use crate::{
    approvals::Approvals,
    audit::Audit,
    authn::Authenticator,
    background::Services,
    live_runs::LiveRuns,
    pipeline::{session::Interactions, step_caller::StepCaller},
    snapshot::Snapshots,
};

/// Runs workflows, and lists their runs.
pub struct Workflows {
    pub(crate) services: Services,
    pub(crate) audit: Arc<Audit>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) authenticator: Authenticator,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) interactions: Arc<Interactions>,
    pub(crate) caller: Arc<dyn StepCaller>,
    pub(crate) live: Arc<LiveRuns>,
    pub(crate) store: Arc<dyn RunStore>,
}

impl Workflows {
    /// The known runs, the newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn runs(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        self.store.list(query).await
    }

    /// Requests cancellation of the workflows in `run` of `tenant`, in all processes. Returns their
    /// number.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn cancel(&self, tenant: &TenantId, run: &RunId) -> Result<usize, StoreError> {
        let here = self.live.cancel(tenant, run);
        Ok(self.store.request_cancellation(tenant, run).await?.max(here))
    }
}
