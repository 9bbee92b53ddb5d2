//! A pack as a [`Source`].
//!
//! Invariant: a loaded pack stays in use until its successor has been checked and compiled. Calls
//! never wait for that.

use std::{pin::pin, sync::Arc};

use async_trait::async_trait;
use parking_lot::RwLock;
use tokio_util::sync::DropGuard;
use toolcrib_core::{
    call::{Invocation, Operation, Reply, UpstreamError},
    catalog::{Entry, Permit},
    credential::CredentialNeed,
    descriptor::SourceKind,
    id::SourceId,
    source::{Discovered, FormedOffer, Source, SourceState, SourceStatus, pack::PackOffer},
};
use toolcrib_tasks::Policy;

use super::{
    actions,
    context::PackContext,
    engine::Engine,
    error::{PackCode, PackError},
    library::{self, Library},
    load::{Pack, blocking},
};
use crate::{calls::Calls, error::unavailable, forms::Forms, status::StatusBoard};

/// A node pack.
pub(crate) struct PackSource {
    shared: Arc<Shared>,
    /// Closes the source when it is dropped.
    _close: DropGuard,
}

struct Shared {
    context: Arc<PackContext>,
    library: Option<Library>,
    status: StatusBoard,
    loaded: RwLock<Option<Arc<LoadedPack>>>,
    /// Held during a load, so that loads do not overlap.
    loading: tokio::sync::Mutex<()>,
    calls: Calls,
}

/// A pack ready for calls.
struct LoadedPack {
    fingerprint: [u8; 32],
    pack: Pack,
    tools: Vec<FormedOffer>,
    forms: Forms,
    engine: Engine,
}

// === impl PackSource ===

impl PackSource {
    /// Starts a source that loads its pack in a spawned task.
    pub(crate) fn start(context: PackContext, library: Option<Library>) -> Self {
        let source = context.source.clone();
        let shared = Arc::new(Shared {
            context: Arc::new(context),
            library,
            status: StatusBoard::new(source.clock.clone()),
            loaded: RwLock::new(None),
            loading: tokio::sync::Mutex::new(()),
            calls: Calls::new(&source.limits),
        });
        let (loading, closed) = (Arc::clone(&shared), shared.calls.closed.clone());
        source.tasks.spawn(source.task_name(), Policy::UntilDone, closed, move || {
            let loading = Arc::clone(&loading);
            async move {
                if loading.load().await.is_ok() {
                    loading.context.source.changed();
                }
            }
        });
        let _close = shared.calls.closed.clone().drop_guard();
        Self { shared, _close }
    }
}

#[async_trait]
impl Source for PackSource {
    fn id(&self) -> &SourceId {
        &self.shared.context.source.id
    }

    fn kind(&self) -> SourceKind {
        match self.shared.context.spec.offers {
            PackOffer::Nodes => SourceKind::NodePack,
            PackOffer::Actions => SourceKind::Connector,
        }
    }

    /// Reloads the pack when its files have changed.
    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        self.shared.calls.check_open()?;
        let loaded = self.shared.load().await.map_err(|error| unavailable(error.to_string()))?;
        let Pack { manifest, problems, rates, .. } = &loaded.pack;
        Ok(Discovered {
            version: Some(manifest.version.clone()),
            offers: loaded.tools.clone(),
            problems: problems.clone(),
            rates: rates.clone(),
            ..Discovered::default()
        })
    }

    /// Only nodes that are requests are sent with the credential.
    fn credential_for(&self, entry: &Entry) -> CredentialNeed {
        let Some(credential) = &self.shared.context.credential else {
            return CredentialNeed::None;
        };
        let loaded = self.shared.loaded.read().clone();
        let nodes = loaded.as_ref().map_or(&[][..], |loaded| &loaded.pack.nodes);
        let node = nodes.iter().find(|node| node.tool.name == entry.upstream_name);
        match node.and_then(|node| node.request.as_ref()) {
            Some(request) => credential.need(request.base()),
            None => CredentialNeed::None,
        }
    }

    fn check_reachable(&self) -> Result<(), UpstreamError> {
        self.shared.last_loaded().map(drop)
    }

    async fn serve(&self, permit: &Permit, operation: Operation) -> Result<Reply, UpstreamError> {
        let call = operation.into_tool_call()?;
        self.shared.calls.run(pin!(self.shared.call(permit, &call))).await
    }

    fn status(&self) -> SourceStatus {
        let own = self.shared.status.get();
        let loaded = self.shared.loaded.read().clone();
        let trouble = loaded.filter(|_| own.state == SourceState::Ready);
        trouble.and_then(|loaded| loaded.engine.remote()?.trouble()).unwrap_or(own)
    }

    async fn close(&self) {
        self.shared.calls.closed.cancel();
        let loaded = self.shared.loaded.read().clone();
        if let Some(remote) = loaded.as_ref().and_then(|loaded| loaded.engine.remote()) {
            remote.close().await;
        }
        self.shared.status.set(SourceState::Stopped, "");
    }
}

// === impl Shared ===

impl Shared {
    /// Loads the current files of the pack. A failure appears in the status, and a previously
    /// loaded pack stays in use.
    async fn load(&self) -> Result<Arc<LoadedPack>, PackError> {
        let _alone = self.loading.lock().await;
        let before = self.loaded.read().clone();
        let loaded = self.load_if_changed(before).await;
        let (state, detail) = match &loaded {
            Ok(loaded) => {
                *self.loaded.write() = Some(Arc::clone(loaded));
                (SourceState::Ready, String::new())
            }
            Err(error) => {
                tracing::warn!(source = %self.context.source.id, %error, "the pack cannot be used");
                (SourceState::Degraded, error.to_string())
            }
        };
        if !self.calls.closed.is_cancelled() {
            self.status.set(state, &detail);
        }
        loaded
    }

    async fn load_if_changed(
        &self,
        before: Option<Arc<LoadedPack>>,
    ) -> Result<Arc<LoadedPack>, PackError> {
        let (context, library) = (Arc::clone(&self.context), self.library.clone());
        let known = before.as_ref().map(|before| before.fingerprint);
        let read = blocking(move || {
            let spec = &context.spec;
            let files = library::find(spec, library.as_ref())?;
            let fingerprint = files.fingerprint();
            let assemble = || files.assemble(&spec.verify, &spec.nodes, &spec.grants);
            let pack = (known != Some(fingerprint)).then(assemble).transpose()?;
            Ok((pack, fingerprint))
        });
        let (mut pack, fingerprint) = match (read.await?, before) {
            ((Some(pack), fingerprint), _) => (pack, fingerprint),
            ((None, _), Some(before)) => return Ok(before),
            ((None, _), None) => return PackCode::Unreadable.refuse("the pack was not read"),
        };
        if self.context.credential.is_none() {
            pack.drop_unauthorized();
        } else if pack.manifest.nodes.iter().all(|node| node.request.is_none()) {
            return PackCode::RequirementUnmet.refuse(
                "`credential` is for nodes that are requests, but this pack has only others",
            );
        }
        let engine = Engine::start(&mut pack, &self.context).await?;
        if self.context.spec.offers == PackOffer::Actions {
            actions::offer(&mut pack, self.context.credential.is_some())?;
        }
        let tools: Vec<_> =
            pack.nodes.iter().map(|node| FormedOffer::from(node.tool.clone())).collect();
        let forms = Forms::of(&tools);
        Ok(Arc::new(LoadedPack { fingerprint, pack, tools, forms, engine }))
    }

    fn last_loaded(&self) -> Result<Arc<LoadedPack>, UpstreamError> {
        self.loaded.read().clone().ok_or_else(|| unavailable("the pack is not loaded"))
    }

    async fn call(&self, permit: &Permit, call: &Invocation) -> Result<Reply, UpstreamError> {
        let _slot = self.calls.slot(permit).await?;
        let loaded = self.last_loaded()?;
        let name = permit.entry().upstream_name.as_str();
        let node = loaded.pack.nodes.iter().find(|node| node.tool.name == name);
        let node = node.ok_or_else(|| unavailable("this node was removed from the pack"))?;
        loaded.forms.check(name, permit.entry().pinned)?;
        call.check_again().await?;
        loaded.engine.call(node, permit, call).await
    }
}
