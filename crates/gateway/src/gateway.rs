//! The public interface of the gateway: it owns the parts and forwards to them.

use std::sync::{Arc, OnceLock, Weak, atomic::AtomicBool};

use bytes::Bytes;
use tokio::sync::broadcast;
use toolcrib_config::{Config, RecordConfig, edit::ConfigFile};
use toolcrib_core::{
    catalog::{Body, Entry, ListFormat},
    clock::Clock,
    credential::GrantPlace,
    descriptor::SourceKind,
    principal::Principal,
};
use toolcrib_tasks::Tasks;

use crate::{
    approvals::Approvals,
    audit::{self, Audit, AuditTasks},
    authn::{AuthError, Authenticator},
    background::{CLOSING_TIME, Services},
    bridge::Bridge,
    client_sessions::ClientSessions,
    ids::new_id,
    limits::quota::Quotas,
    metrics::Metrics,
    pipeline::{
        CallReport, CallRequest, Interaction, Pipeline,
        idempotency::{ClientKey, IdempotencyError, IdempotentOutcome},
        session::TooManyInteractions,
    },
    snapshot::{Snapshot, Snapshots},
    supply::Supply,
    tool_ref::{CatalogScope, ToolRef},
    trace::Tracer,
    workflow::Workflows,
};

/// Lists and calls tools. Cheap to clone; all clones are the same gateway.
#[derive(Clone)]
pub struct Gateway {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) services: Services,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) audit: Arc<Audit>,
    pub(crate) authenticator: Authenticator,
    pub(crate) bridge: Bridge,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) pipeline: Arc<Pipeline>,
    pub(crate) workflows: Arc<Workflows>,
    pub(crate) client_sessions: Arc<ClientSessions>,
    pub(crate) supply: Arc<Supply>,
    /// The file of the configuration, if callers may change it.
    pub(crate) config_file: Option<ConfigFile>,
    /// Held while the file is changed.
    pub(crate) editing: tokio::sync::Mutex<()>,
    /// Held during the check, the event and the storage of a new key or session.
    pub(crate) making_credentials: tokio::sync::Mutex<()>,
    /// The configuration of the start.
    pub(crate) started: Config,
    /// The tasks of the record, after their start.
    pub(crate) audit_tasks: OnceLock<Weak<AuditTasks>>,
    /// Whether the server is about to stop.
    pub(crate) draining: AtomicBool,
}

impl Drop for Inner {
    /// Stops the background tasks, even if the gateway was not closed.
    fn drop(&mut self) {
        self.services.background.ended().cancel();
        self.snapshots.clear();
    }
}

impl Gateway {
    /// Waits until the pins of the current snapshot have a recent confirmation of the store
    /// (I-110). A request does this before it loads the snapshot; keys are confirmed when its
    /// caller is identified.
    ///
    /// # Errors
    /// [`AuthError::Unavailable`] if the store cannot be read.
    pub async fn confirm(&self) -> Result<(), AuthError> {
        match self.inner.snapshots.pins.wait().await {
            true => Ok(()),
            false => Err(AuthError::Unavailable),
        }
    }

    /// The current snapshot. A request loads it once and passes it on (I-23).
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.inner.snapshots.load()
    }

    /// The tools that `principal` may see now, in `format`, of one kind of source or of all.
    pub fn list(
        &self,
        principal: &Principal,
        format: &ListFormat,
        source: Option<SourceKind>,
    ) -> Arc<Body> {
        self.snapshot().view(principal).body(format, source)
    }

    /// Finds the tool, if `principal` may use it; a refusal is recorded in the background.
    pub fn find(
        &self,
        snapshot: &Arc<Snapshot>,
        principal: &Principal,
        tool: ToolRef<'_>,
        scope: &CatalogScope,
    ) -> Option<Arc<Entry>> {
        let found = snapshot.find(principal, tool, scope);
        found.map_err(|miss| self.audit().denials().missed(principal, audit::READ, miss, None)).ok()
    }

    /// Makes one call. Dropping the future cancels it.
    pub async fn call(&self, principal: &Principal, request: CallRequest<'_>) -> CallReport {
        self.inner.pipeline.call(principal, request).await
    }

    /// Runs `request` unless the same call has run under `key`. `keep` returns the body to store.
    ///
    /// # Errors
    /// [`IdempotencyError`]: the key cannot be used for this call.
    pub async fn call_idempotent(
        &self,
        principal: &Arc<Principal>,
        key: ClientKey<'_>,
        request: CallRequest<'_>,
        keep: impl FnOnce(&CallReport) -> Option<Bytes> + Send + 'static,
    ) -> Result<IdempotentOutcome, IdempotencyError> {
        self.inner.pipeline.call_idempotent(principal, key, request, keep).await
    }

    /// Starts an interaction of `principal`. Its first call is its first record.
    ///
    /// # Errors
    /// [`TooManyInteractions`].
    pub fn interaction(&self, principal: &Principal) -> Result<Interaction, TooManyInteractions> {
        self.inner.pipeline.interaction(new_id(), principal)
    }

    /// The sources and their tools.
    pub fn supply(&self) -> &Arc<Supply> {
        &self.inner.supply
    }

    /// The sessions of clients that any server can continue.
    pub fn client_sessions(&self) -> &ClientSessions {
        &self.inner.client_sessions
    }

    /// The requests for approval.
    pub fn approvals(&self) -> &Arc<Approvals> {
        &self.inner.approvals
    }

    /// The event log.
    pub fn audit(&self) -> &Arc<Audit> {
        &self.inner.audit
    }

    /// Starts a [`AuditTasks`], which signs, anchors, forwards and prunes the record. A gateway has
    /// one.
    ///
    /// # Errors
    /// Fails if a destination can never work.
    pub async fn start_audit(
        &self,
        parts: audit::Parts,
        config: &RecordConfig,
    ) -> Result<Arc<AuditTasks>, String> {
        let tasks = AuditTasks::start(self.audit(), &self.inner.services, parts, config).await?;
        let tasks = Arc::new(tasks);
        self.inner.audit_tasks.get_or_init(|| Arc::downgrade(&tasks));
        Ok(tasks)
    }

    /// The counts of calls under quotas.
    pub fn quotas(&self) -> &Quotas {
        &self.inner.pipeline.quotas
    }

    /// Receives the places of accounts that are connected at this server from now on.
    pub fn connected_accounts(&self) -> broadcast::Receiver<GrantPlace> {
        self.inner.pipeline.connections.news()
    }

    /// The runs of workflows.
    pub fn workflows(&self) -> &Workflows {
        &self.inner.workflows
    }

    /// The time of the gateway's clock.
    pub fn now(&self) -> toolcrib_core::clock::Timestamp {
        self.inner.services.clock.now()
    }

    /// The authenticator of API keys and tokens.
    pub fn authenticator(&self) -> &Authenticator {
        &self.inner.authenticator
    }

    /// The authorization server of MCP clients.
    pub fn bridge(&self) -> &Bridge {
        &self.inner.bridge
    }

    /// The counters for operators.
    pub fn metrics(&self) -> &Metrics {
        &self.inner.services.metrics
    }

    /// The tracer, which starts spans.
    pub fn tracer(&self) -> &Tracer {
        &self.inner.services.tracer
    }

    /// The clock that every part of this gateway reads.
    pub fn clock(&self) -> &dyn Clock {
        &*self.inner.services.clock
    }

    /// The background tasks of this gateway and of its factory of sources.
    pub fn tasks(&self) -> &Tasks {
        self.inner.services.background.tasks()
    }

    /// The current configuration, native sources included.
    pub fn config(&self) -> Arc<Config> {
        self.inner.services.config()
    }

    /// Prepares for interrupting the requests in flight: calls that wait for an approval fail with
    /// "approval required", and durable runs of workflows that are interrupted from now on continue
    /// in another process.
    pub fn begin_end(&self) {
        self.inner.services.background.ending().cancel();
    }

    /// Waits for the start of [`close`](Self::close).
    pub async fn until_closed(&self) {
        self.inner.services.background.ended().cancelled().await;
    }

    /// Closes every source. Calls in flight fail and new ones are rejected. All records are written
    /// before this returns, including closed tool sessions.
    pub async fn close(&self) {
        let Inner { services, authenticator, supply, pipeline, audit, .. } = &*self.inner;
        services.background.ending().cancel();
        services.background.ended().cancel();
        authenticator.stop().await;
        pipeline.connections.close().await;
        supply.close().await;
        pipeline.interactions.close_all().await;
        if !services.background.close(CLOSING_TIME).await {
            tracing::warn!("some calls did not finish; the next start closes them in the record");
        }
        if let Err(error) = pipeline.quotas.close().await {
            tracing::warn!(%error, "unused calls of quotas could not be returned; they count");
        }
        audit.denials().flush().await;
    }
}
