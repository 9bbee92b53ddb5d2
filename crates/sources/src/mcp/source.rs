//! An MCP server as a [`Source`].
//!
//! Invariant: a call of a source that is not connected fails at once; it never waits for a connect.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use tokio::{
    runtime::Handle,
    sync::{Notify, Semaphore},
};
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    descriptor::SourceKind,
    id::SourceId,
    redact::Echoes,
    source::{
        Discovered, Source, SourceLimits, SourceListener, SourceState, SourceStatus, StderrLine,
        StderrMode,
    },
};
use toolcrib_tasks::{Policy, Task, TaskName, Tasks};
use url::Url;

use super::{
    Target,
    connection::Connection,
    discover, result,
    supervise::{Shared, Supervisor},
};
use crate::{
    SUPERVISOR, credential::SourceCredential, process::stderr::Lines, status::StatusBoard,
};

/// A supervised MCP server.
pub(crate) struct McpSource {
    shared: Arc<Shared>,
    supervisor: Task,
    /// The credential of its requests, and their address.
    credential: Option<(Arc<SourceCredential>, Url)>,
}

// === impl McpSource ===

impl McpSource {
    /// A source that connects in a task of its own.
    pub(crate) fn start(
        id: SourceId,
        target: Target,
        limits: SourceLimits,
        listener: Arc<dyn SourceListener>,
        clock: Arc<dyn Clock>,
        runtime: &Handle,
        tasks: &Tasks,
    ) -> Self {
        let credential = match &target {
            Target::Http { endpoint, credential: Some(credential), .. } => {
                Some((Arc::clone(credential), endpoint.url().clone()))
            }
            Target::Http { .. } | Target::Stdio(..) => None,
        };
        let mode = match &target {
            Target::Stdio(spec, _) => spec.stderr,
            Target::Http { .. } => StderrMode::Keep,
        };
        let stderr = Arc::new(Lines::new(id.clone(), mode, Arc::clone(&clock)));
        let slots = limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            id,
            limits,
            status: StatusBoard::new(clock),
            stderr,
            connection: RwLock::new(None),
            slots: Semaphore::new(slots),
            stop: CancellationToken::new(),
            list_changed: Arc::new(Notify::new()),
        });
        let supervisor = Arc::new(Supervisor {
            shared: Arc::clone(&shared),
            target,
            listener,
            runtime: runtime.clone(),
        });
        let name = TaskName::of(SUPERVISOR, shared.id.as_str());
        let supervisor = tasks.spawn(name, Policy::Forever, shared.stop.clone(), move || {
            let supervisor = Arc::clone(&supervisor);
            async move { supervisor.run().await }
        });
        Self { shared, supervisor, credential }
    }

    fn connection(&self) -> Result<Arc<Connection>, UpstreamError> {
        let connection = self.shared.connection.read().clone();
        connection.ok_or_else(|| {
            let detail = self.shared.status.get().detail.unwrap_or_default();
            UpstreamError::new(UpstreamErrorKind::Unavailable, format!("not connected: {detail}"))
        })
    }

    /// Returns the filter for echoes of the credential.
    fn echoes(&self) -> Echoes {
        self.credential.as_ref().map(|(credential, _)| credential.echoes()).unwrap_or_default()
    }

    /// Calls the upstream's tool `name` for a tool that may have another name here.
    pub(crate) async fn call_as(
        &self,
        name: &str,
        permit: &Permit,
        mut call: Invocation,
    ) -> Result<Outcome, UpstreamError> {
        if let Some((credential, url)) = &self.credential {
            // Without it there may be no connection; this says why.
            let echoes = credential.check(permit, url, &call.egress).await?;
            call.progress = call.progress.map(|sink| echoes.progress(sink));
        }
        self.connection()?;
        let slot = self.shared.slots.acquire().await.map_err(|_| {
            UpstreamError::new(UpstreamErrorKind::Unavailable, "no calls are taken any more")
        })?;
        // Looked up again: the connection may have ended while this waited for a slot.
        let connection = self.connection()?;
        let schema = permit.entry().tool.input_schema.as_ref();
        let reply = connection.call_tool(name, schema, &call).await?;
        drop(slot);
        let modern = connection.session.era.is_modern();
        let input = call.input.as_ref().filter(|_| modern);
        let context = result::ReplyContext { source: &self.shared.id, modern, input };
        context.outcome(&reply, call.max_result_bytes)
    }
}

#[async_trait]
impl Source for McpSource {
    fn id(&self) -> &SourceId {
        &self.shared.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let connection = self.connection()?;
        let limits = &self.shared.limits;
        let discovery = discover::discover(&connection, limits);
        match tokio::time::timeout(limits.connect_timeout, discovery).await {
            Ok(Ok(discovered)) => Ok(self.echoes().discovered(discovered)),
            Ok(Err(error)) => Err(self.echoes().error(error)),
            Err(_) => {
                let detail = "the tool list was not complete in time";
                Err(UpstreamError::new(UpstreamErrorKind::Timeout, detail))
            }
        }
    }

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        let closed = |kind| Err(UpstreamError::new(kind, "the source is closed"));
        if self.shared.stop.is_cancelled() {
            return closed(UpstreamErrorKind::Unavailable);
        }
        tokio::select! {
            biased;
            outcome = self.call_as(&permit.entry().upstream_name, permit, call) => match outcome {
                Ok(outcome) => Ok(self.echoes().outcome(outcome)),
                Err(error) => Err(self.echoes().error(error)),
            },
            () = self.shared.stop.cancelled() => closed(UpstreamErrorKind::Died),
        }
    }

    fn status(&self) -> SourceStatus {
        self.shared.status.get()
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.shared.stderr.kept()
    }

    async fn close(&self) {
        self.shared.stop.cancel();
        self.supervisor.ended().await;
        self.shared.status.set(SourceState::Stopped, "closed");
        if let Some((credential, _)) = &self.credential {
            credential.settled().await;
        }
    }
}

impl Drop for McpSource {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}
