//! A pack as a [`Source`].
//!
//! Invariant: a loaded pack stays in use until its successor has been checked and compiled. Calls
//! never wait for that.

use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::RwLock;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Clock,
    descriptor::SourceKind,
    id::SourceId,
    source::{
        Discovered, Source, SourceLimits, SourceListener, SourceState, SourceStatus,
        pack::{PackOffer, PackSpec},
    },
};
use toolcrib_tasks::{Policy, TaskName, Tasks};

use super::{
    actions,
    error::{PackCode, PackError},
    library::Library,
    load::{self, Fingerprint, Pack},
    remote::{Remote, RemoteContext},
};
use crate::{SUPERVISOR, credential::SourceCredential, egress::Egress, status::StatusBoard};

/// The environment of a pack source.
pub(crate) struct PackContext {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) listener: Arc<dyn SourceListener>,
    pub(crate) library: Option<Library>,
    pub(crate) runtime: tokio::runtime::Handle,
    /// The HTTP client, when `http` is granted.
    pub(crate) egress: Option<Egress>,
    /// The credential for requests that the manifest declares.
    pub(crate) credential: Option<Arc<SourceCredential>>,
    pub(crate) tasks: Tasks,
}

/// A node pack.
pub(crate) struct PackSource {
    shared: Arc<Shared>,
}

struct Shared {
    id: SourceId,
    spec: PackSpec,
    library: Option<Library>,
    clock: Arc<dyn Clock>,
    status: StatusBoard,
    loaded: RwLock<Option<Arc<Loaded>>>,
    /// Held during a load, so that loads do not overlap.
    loading: tokio::sync::Mutex<()>,
    slots: Semaphore,
    stop: CancellationToken,
    limits: SourceLimits,
    runtime: tokio::runtime::Handle,
    egress: Option<Egress>,
    credential: Option<Arc<SourceCredential>>,
    tasks: Tasks,
}

/// A loaded pack, ready for calls.
struct Loaded {
    fingerprint: Fingerprint,
    pack: Pack,
    runner: Runner,
}

/// The engine of the nodes.
enum Runner {
    #[cfg(feature = "wasm")]
    Code(super::wasm::Program),
    Remote(Remote),
    Nothing,
}

// === impl PackSource ===

impl PackSource {
    /// Starts a source that loads its pack in a spawned task.
    pub(crate) fn start(
        id: SourceId,
        spec: PackSpec,
        limits: SourceLimits,
        around: PackContext,
    ) -> Self {
        let PackContext { clock, listener, library, runtime, egress, credential, tasks } = around;
        let shared = Arc::new(Shared {
            id,
            spec,
            library,
            status: StatusBoard::new(Arc::clone(&clock)),
            clock,
            loaded: RwLock::new(None),
            loading: tokio::sync::Mutex::new(()),
            slots: Semaphore::new(limits.max_concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            stop: CancellationToken::new(),
            limits,
            runtime: runtime.clone(),
            egress,
            credential,
            tasks: tasks.clone(),
        });
        let loading = Arc::clone(&shared);
        let name = TaskName::of(SUPERVISOR, shared.id.as_str());
        tasks.spawn(name, Policy::UntilDone, shared.stop.clone(), move || {
            let (loading, listener) = (Arc::clone(&loading), Arc::clone(&listener));
            async move {
                if loading.load().await.is_ok() {
                    listener.changed(&loading.id);
                }
            }
        });
        Self { shared }
    }
}

#[async_trait]
impl Source for PackSource {
    fn id(&self) -> &SourceId {
        &self.shared.id
    }

    fn kind(&self) -> SourceKind {
        match self.shared.spec.offers {
            PackOffer::Nodes => SourceKind::NodePack,
            PackOffer::Actions => SourceKind::Connector,
        }
    }

    /// Reloads the pack when its files have changed.
    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        if self.shared.stop.is_cancelled() {
            return Err(UpstreamError::new(UpstreamErrorKind::Unavailable, "the source is closed"));
        }
        let loaded = self.shared.load().await.map_err(|error| {
            UpstreamError::new(UpstreamErrorKind::Unavailable, error.to_string())
        })?;
        let Pack { manifest, nodes, problems, rates, .. } = &loaded.pack;
        Ok(Discovered {
            version: Some(manifest.version.to_string()),
            tools: nodes.iter().map(|node| node.tool.clone()).collect(),
            problems: problems.clone(),
            rates: rates.clone(),
        })
    }

    async fn invoke(&self, permit: &Permit, call: Invocation) -> Result<Outcome, UpstreamError> {
        let closed = |kind| Err(UpstreamError::new(kind, "the source is closed"));
        if self.shared.stop.is_cancelled() {
            return closed(UpstreamErrorKind::Unavailable);
        }
        tokio::select! {
            biased;
            outcome = self.shared.call(permit, &call) => outcome,
            () = self.shared.stop.cancelled() => closed(UpstreamErrorKind::Died),
        }
    }

    fn status(&self) -> SourceStatus {
        let own = self.shared.status.get();
        let loaded = self.shared.loaded.read().clone();
        match loaded.as_deref() {
            Some(Loaded { runner: Runner::Remote(remote), .. })
                if own.state == SourceState::Ready =>
            {
                remote.trouble().unwrap_or(own)
            }
            _ => own,
        }
    }

    async fn close(&self) {
        self.shared.stop.cancel();
        let loaded = self.shared.loaded.read().clone();
        if let Some(Loaded { runner: Runner::Remote(remote), .. }) = loaded.as_deref() {
            remote.close().await;
        }
        self.shared.status.set(SourceState::Stopped, "");
    }
}

impl Drop for PackSource {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

// === impl Shared ===

impl Shared {
    /// Loads the current files of the pack. A failure appears in the status, and a previously
    /// loaded pack stays in use.
    async fn load(&self) -> Result<Arc<Loaded>, PackError> {
        let _alone = self.loading.lock().await;
        let before = self.loaded.read().clone();
        match self.load_if_changed(before.as_ref()).await {
            Ok(loaded) => {
                *self.loaded.write() = Some(Arc::clone(&loaded));
                if !self.stop.is_cancelled() {
                    self.status.set(SourceState::Ready, "");
                }
                Ok(loaded)
            }
            Err(error) => {
                tracing::warn!(source = %self.id, %error, "the pack cannot be used");
                if !self.stop.is_cancelled() {
                    self.status.set(SourceState::Degraded, &error.to_string());
                }
                Err(error)
            }
        }
    }

    async fn load_if_changed(
        &self,
        before: Option<&Arc<Loaded>>,
    ) -> Result<Arc<Loaded>, PackError> {
        let (spec, library) = (self.spec.clone(), self.library.clone());
        let known = before.map(|loaded| loaded.fingerprint);
        let found = blocking(move || {
            let found = load::find(&spec, library.as_ref())?;
            let fingerprint = found.fingerprint;
            match known == Some(fingerprint) {
                true => Ok(None),
                false => found.load(&spec).map(|pack| Some((fingerprint, pack))),
            }
        })
        .await?;
        match (found, before) {
            (None, Some(before)) => Ok(Arc::clone(before)),
            (None, None) => PackCode::Unreadable.refuse("the pack was not read"),
            (Some((fingerprint, pack)), _) => {
                let (mut pack, runner) = self.runner(pack).await?;
                if self.spec.offers == PackOffer::Actions {
                    actions::offer(&mut pack, self.credential.is_some())?;
                }
                Ok(Arc::new(Loaded { fingerprint, pack, runner }))
            }
        }
    }

    async fn runner(&self, mut pack: Pack) -> Result<(Pack, Runner), PackError> {
        if self.credential.is_some()
            && pack.manifest.nodes.iter().all(|node| node.request.is_none())
        {
            return PackCode::RequirementUnmet
                .refuse("`credential` is for nodes that are requests, and this pack has none");
        }
        if self.credential.is_none() {
            pack.drop_unauthorized();
        }
        match (pack.manifest.runtime.language.as_str(), &self.egress) {
            ("remote", Some(egress)) => {
                let around = RemoteContext {
                    id: &self.id,
                    spec: &self.spec,
                    egress,
                    limits: &self.limits,
                    clock: &self.clock,
                    runtime: &self.runtime,
                    credential: self.credential.as_ref(),
                    tasks: &self.tasks,
                };
                let remote = Remote::start(&pack, &around)?;
                Ok((pack, Runner::Remote(remote)))
            }
            ("remote", None) => Ok((pack, Runner::Nothing)),
            _ => self.code(pack).await,
        }
    }

    #[cfg(feature = "wasm")]
    async fn code(&self, pack: Pack) -> Result<(Pack, Runner), PackError> {
        let host = super::wasm::Host {
            source: self.id.clone(),
            clock: Arc::clone(&self.clock),
            grants: self.spec.grants.clone(),
            memory: self.spec.memory,
            web: self
                .egress
                .clone()
                .map(|egress| super::wasm::Web { egress, runtime: self.runtime.clone() }),
        };
        let patience = self.limits.connect_timeout;
        let (pack, program) = super::wasm::Program::load(pack, host, patience).await?;
        Ok((pack, Runner::Code(program)))
    }

    #[cfg(not(feature = "wasm"))]
    async fn code(&self, pack: Pack) -> Result<(Pack, Runner), PackError> {
        Ok((pack, Runner::Nothing))
    }

    async fn call(&self, permit: &Permit, call: &Invocation) -> Result<Outcome, UpstreamError> {
        let unavailable = |why| UpstreamError::new(UpstreamErrorKind::Unavailable, why);
        let slot =
            self.slots.acquire().await.map_err(|_| unavailable("the source accepts no calls"))?;
        let loaded = self.loaded.read().clone();
        let loaded = loaded.ok_or_else(|| unavailable("the pack is not loaded"))?;
        let node = permit.entry().upstream_name.as_str();
        let Some(known) = loaded.pack.nodes.iter().find(|known| known.tool.name == node) else {
            return Err(unavailable("the pack no longer has this node"));
        };
        let outcome = match &loaded.runner {
            #[cfg(feature = "wasm")]
            Runner::Code(program) => program.call(&known.type_id, permit, call).await,
            Runner::Remote(remote) => remote.call(known, permit, call).await,
            Runner::Nothing => Err(unavailable("this node has no runtime")),
        };
        drop(slot);
        outcome
    }
}

/// Runs `work` on a thread that may block.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, PackError> + Send + 'static,
) -> Result<T, PackError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(_) => PackCode::Unreadable.refuse("reading the pack was interrupted"),
    }
}
