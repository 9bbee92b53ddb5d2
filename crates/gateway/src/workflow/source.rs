//! Workflows as a source: discovered from files, called through the gate like everything else.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{Operation, Reply, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Timestamp,
    descriptor::SourceKind,
    id::SourceId,
    source::{Discovered, Source, SourceState, SourceStatus, WorkflowSpec},
};

use super::{Workflows, run};
use crate::workflow_definition::files;

/// The workflows of some files.
pub(crate) struct WorkflowSource {
    id: SourceId,
    spec: WorkflowSpec,
    workflows: Arc<Workflows>,
    since: Timestamp,
    closed: CancellationToken,
}

// === impl WorkflowSource ===

impl WorkflowSource {
    pub(crate) fn new(
        id: SourceId,
        spec: WorkflowSpec,
        workflows: Arc<Workflows>,
        since: Timestamp,
    ) -> Self {
        Self { id, spec, workflows, since, closed: CancellationToken::new() }
    }
}

#[async_trait]
impl Source for WorkflowSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Workflow
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let files = self.spec.files.clone();
        tokio::task::spawn_blocking(move || files::discover(&files)).await.map_err(|_panic| {
            UpstreamError::new(UpstreamErrorKind::Protocol, "the files could not be read")
        })
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        let unavailable = |why| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
        if self.closed.is_cancelled() {
            return Err(unavailable("the source is closed"));
        }
        let closed = self.closed.clone();
        let outcome = run::run(&self.workflows, permit, call, self.spec.durable, closed).await;
        outcome.map(Reply::Done)
    }

    fn status(&self) -> SourceStatus {
        let state = match self.closed.is_cancelled() {
            true => SourceState::Stopped,
            false => SourceState::Ready,
        };
        SourceStatus { state, detail: None, since: self.since, restarts: 0 }
    }

    async fn close(&self) {
        self.closed.cancel();
    }
}
