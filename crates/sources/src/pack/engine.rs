//! The engine of a pack's nodes: WebAssembly, or the client of a server.

use std::sync::Arc;

use toolcrib_core::{
    call::{Invocation, Reply, UpstreamError},
    catalog::Permit,
    source::pack::PackGrant,
};

#[cfg(feature = "wasm")]
use super::wasm;
use super::{
    context::PackContext,
    error::PackError,
    load::{Pack, PackNode},
    remote::Remote,
    requirements::unmet,
};

pub(super) enum Engine {
    #[cfg(feature = "wasm")]
    Wasm(wasm::Program),
    Remote(Remote),
}

impl Engine {
    /// Starts the engine of `pack`. Leaves out nodes that its code does not have.
    pub(super) async fn start(
        pack: &mut Pack,
        context: &Arc<PackContext>,
    ) -> Result<Self, PackError> {
        match (pack.manifest.runtime.language.as_str(), &context.egress) {
            ("remote", Some(egress)) => Remote::start(pack, egress, context).map(Self::Remote),
            ("remote", None) => unmet(PackGrant::Http, "the nodes are requests to a server"),
            #[cfg(feature = "wasm")]
            _ => wasm::Program::load(pack, context).await.map(Self::Wasm),
            #[cfg(not(feature = "wasm"))]
            _ => super::requirements::no_engine(),
        }
    }

    pub(super) async fn call(
        &self,
        node: &PackNode,
        permit: &Permit,
        call: &Invocation,
    ) -> Result<Reply, UpstreamError> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Wasm(program) => program.call(&node.type_id, permit, call).await.map(Reply::Done),
            Self::Remote(remote) => remote.call(node, permit, call).await,
        }
    }

    pub(super) fn remote(&self) -> Option<&Remote> {
        match self {
            #[cfg(feature = "wasm")]
            Self::Wasm(_) => None,
            Self::Remote(remote) => Some(remote),
        }
    }
}
