//! Workflows: files that name tools to call, in an order that follows from what needs what.
//!
//! * `definition` is the file format, `files` finds and reads the files, and `plan` is the meaning of one
//!   file, checked as far as one file can be checked alone.
//! * `offer` decides for each snapshot which workflows can be offered: every tool of a step must be in
//!   that snapshot, and a workflow requires every scope that its steps require.
//! * `source` is a [`Source`](toolcrib_core::source::Source) like any other, and `run` calls the steps
//!   through a [`Caller`], which is the pipeline.
//! * `live` knows the runs of this process, and `resume` continues those of a dead one.
//!
//! Invariant (I-7): who may call a workflow may call each of its steps, in the same snapshot.
//! Invariant (I-49): every step is a call of the workflow's caller, through the pipeline.

pub(crate) mod caller;
mod compat;
mod definition;
mod drive;
mod failure;
mod files;
pub(crate) mod live;
pub(crate) mod offer;
mod past;
mod plan;
mod resume;
mod run;
pub(crate) mod source;
mod template;
mod value;

use std::sync::Arc;

use toolcrib_core::{
    id::{RunId, TenantId},
    store::{RunQuery, RunRecord, RunStore, StoreError},
};

use self::{caller::Caller, live::LiveRuns};
use crate::{
    approvals::Approvals, audit::Audit, authn::Authenticator, background::Services,
    pipeline::session::Interactions, snapshot::Snapshots,
};

/// Runs workflows, and knows their runs.
pub struct Workflows {
    pub(crate) services: Services,
    pub(crate) audit: Arc<Audit>,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) authenticator: Authenticator,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) interactions: Arc<Interactions>,
    pub(crate) caller: Arc<dyn Caller>,
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

    /// Requests cancellation of the workflows in `run` of `tenant`, in whichever process they run.
    /// Returns their number.
    ///
    /// # Errors
    /// [`StoreError`].
    pub async fn cancel(&self, tenant: &TenantId, run: &RunId) -> Result<usize, StoreError> {
        let here = self.live.cancel(tenant, run);
        Ok(self.store.request_cancellation(tenant, run).await?.max(here))
    }
}
