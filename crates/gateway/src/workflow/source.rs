//! Workflows as a source: discovered from files, called through the gate like everything else.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    authorize::Permit,
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Entry,
    clock::Timestamp,
    descriptor::SourceKind,
    id::{SourceId, ToolId},
    source::{Discovered, Source, SourceState, SourceStatus, WorkflowSpec},
};

use super::{files, offer::Runnable, run};
use crate::{Gateway, gateway::WeakGateway};

/// The workflows of a snapshot, by source and tool: tools of different tenants can have one id.
#[derive(Default)]
pub(crate) struct SnapshotWorkflows(pub(crate) HashMap<(SourceId, ToolId), Arc<Runnable>>);

impl SnapshotWorkflows {
    /// The workflow that `entry` offers.
    pub(super) fn get(&self, entry: &Entry) -> Option<&Arc<Runnable>> {
        self.0.get(&(entry.source.clone(), entry.id.clone()))
    }
}

/// The gateway whose workflows they are, once it exists.
#[derive(Clone, Default)]
pub(crate) struct Home(Arc<OnceLock<WeakGateway>>);

/// The workflows of some files.
pub(crate) struct WorkflowSource {
    id: SourceId,
    spec: WorkflowSpec,
    home: Home,
    since: Timestamp,
    closed: CancellationToken,
}

// === impl Home ===

impl Home {
    /// This is the gateway.
    pub(crate) fn settle(&self, gateway: &Gateway) {
        self.0.get_or_init(|| gateway.downgrade());
    }

    fn gateway(&self) -> Option<Gateway> {
        self.0.get()?.upgrade()
    }
}

// === impl WorkflowSource ===

impl WorkflowSource {
    pub(crate) fn new(id: SourceId, spec: WorkflowSpec, home: Home, since: Timestamp) -> Self {
        Self { id, spec, home, since, closed: CancellationToken::new() }
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

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        let unavailable = |why| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
        if self.closed.is_cancelled() {
            return Err(unavailable("the source is closed"));
        }
        let gateway = self.home.gateway().ok_or_else(|| unavailable("the gateway is gone"))?;
        run::run(gateway, permit, call, self.spec.durable, self.closed.clone()).await
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
