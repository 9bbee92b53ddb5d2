//! An MCP server as a [`Source`].
//!
//! Invariant: a call waits for the first attempt to connect after the start or a loss. Once an
//! attempt has failed, calls fail at once.

use std::{collections::HashSet, pin::pin, sync::Arc};

use async_trait::async_trait;
use tokio_util::sync::DropGuard;
use toolcrib_core::{
    call::{self, Invocation, Operation, Progress, UpstreamError},
    canonical::Digest,
    catalog::{Entry, Permit},
    credential::{CredentialNeed, ResolvedCredential},
    descriptor::SourceKind,
    id::SourceId,
    source::{Discovered, OmittedOffers, Source, SourceState, SourceStatus, StderrLine},
};
use toolcrib_tasks::{Policy, Task};

use super::{
    failure::Failure,
    result,
    supervise::{Listing, Supervisor, Target},
    tool_call::CallTarget,
};
use crate::context::SourceContext;

/// A supervised MCP server.
pub(crate) struct McpSource {
    supervisor: Arc<Supervisor>,
    task: Task,
    /// Closes the source when it is dropped.
    _close: DropGuard,
}

// === impl McpSource ===

impl McpSource {
    /// Starts a source, which connects in a separate task.
    pub(crate) fn start(context: SourceContext, target: Target, listing: Listing) -> Self {
        let (tasks, name) = (context.tasks.clone(), context.task_name());
        let supervisor = Arc::new(Supervisor::new(context, target, listing));
        let (running, closed) = (Arc::clone(&supervisor), supervisor.calls.closed.clone());
        let task = tasks.spawn(name, Policy::Forever, closed, move || {
            let running = Arc::clone(&running);
            async move { running.run().await }
        });
        let _close = supervisor.calls.closed.clone().drop_guard();
        Self { supervisor, task, _close }
    }

    /// Calls the upstream's tool `name`; `pinned` is its required form, if any.
    pub(crate) async fn call(
        &self,
        name: &str,
        pinned: Option<Digest>,
        permit: &Permit,
        mut call: Invocation,
    ) -> Result<call::Reply, UpstreamError> {
        if let Some((_, credential)) = self.supervisor.credential() {
            credential.present(call.credential.as_deref())?;
            let echoes = credential.echoes();
            call.progress = call.progress.map(|sink| echoes.progress(sink));
        }
        let waits = || {
            if let Some(sink) = &call.progress {
                let message = Some("waiting until the tool's source is connected".to_owned());
                sink.report(Progress { progress: 0.into(), total: None, message });
            }
        };
        self.supervisor.check_link()?;
        let slot = self.supervisor.calls.slot(permit).await?;
        // The call waits while it holds a slot, so that no more calls wait than may run.
        let connection = self.supervisor.connected_now(waits).await?;
        if pinned.is_some() {
            self.supervisor.listed(&connection).await?;
        }
        connection.check(name, pinned)?;
        let schema = permit.entry().tool.input_schema.as_ref();
        let target = CallTarget { name, pinned, schema };
        let mut reply = self.supervisor.call(&connection, &target, &call).await?;
        if let Err(Failure::Denied(denial)) = &reply
            && let Some(renewed) = self.supervisor.after(denial, &call).await?
        {
            call.credential = Some(renewed);
            reply = self.supervisor.call(&connection, &target, &call).await?;
            if let Err(Failure::Denied(denial)) = &reply {
                self.supervisor.after(denial, &call).await?;
            }
        }
        drop(slot);
        let modern = connection.session.era.is_modern();
        let input = call.input.as_ref().filter(|_| modern);
        let context = result::ReplyContext { source: &self.supervisor.context.id, modern, input };
        context.reply(reply, call.max_result_bytes)
    }
}

#[async_trait]
impl Source for McpSource {
    fn id(&self) -> &SourceId {
        &self.supervisor.context.id
    }

    fn kind(&self) -> SourceKind {
        SourceKind::Mcp
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        let connection = self.supervisor.connection()?;
        let mut listed = self.supervisor.list(&connection).await;
        if listed.is_err() && connection.wire.has_ended() {
            // The connection has closed, and another is about to replace it.
            let connection = self.supervisor.connected_now(|| ()).await?;
            listed = self.supervisor.list(&connection).await;
        }
        listed.map_err(|error| self.supervisor.echoes().error(error))
    }

    fn credential_for(&self, _entry: &Entry) -> CredentialNeed {
        match self.supervisor.credential() {
            Some((endpoint, credential)) => credential.need(endpoint.url()),
            None => CredentialNeed::None,
        }
    }

    fn own_list_need(&self) -> CredentialNeed {
        let is_listed = self.supervisor.listing == Listing::Upstream;
        let need = self.supervisor.credential().filter(|_| is_listed);
        let need = need.map(|(endpoint, credential)| credential.need(endpoint.url()));
        need.filter(CredentialNeed::is_own_account).unwrap_or_default()
    }

    async fn own_list(
        &self,
        credential: Arc<ResolvedCredential>,
    ) -> Result<HashSet<String>, UpstreamError> {
        let listed = self.supervisor.own_list(&credential).await;
        listed.map_err(|error| self.supervisor.echoes().error(error))
    }

    fn check_reachable(&self) -> Result<(), UpstreamError> {
        self.supervisor.check_link()
    }

    async fn serve(
        &self,
        permit: &Permit,
        operation: Operation,
    ) -> Result<call::Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        let call = pin!(async {
            let entry = permit.entry();
            let reply = self.call(&entry.upstream_name, entry.pinned, permit, call).await;
            let echoes = self.supervisor.echoes();
            reply.map_err(|error| echoes.error(error)).and_then(|reply| echoes.reply(reply))
        });
        self.supervisor.calls.run(call).await
    }

    fn status(&self) -> SourceStatus {
        self.supervisor.status.get()
    }

    fn not_offered(&self) -> Option<OmittedOffers> {
        self.supervisor.remainder.get()
    }

    fn stderr(&self) -> Vec<StderrLine> {
        self.supervisor.stderr.kept()
    }

    async fn close(&self) {
        self.supervisor.calls.closed.cancel();
        self.task.ended().await;
        self.supervisor.sessions.close().await;
        self.supervisor.status.set(SourceState::Stopped, "closed");
        if let Some((_, credential)) = self.supervisor.credential() {
            credential.wait_for_requests().await;
        }
    }
}
