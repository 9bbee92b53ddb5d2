//! A source that must not be contacted, because one of its secrets cannot be read.
//!
//! Invariant: it sends no requests and starts no processes.

use async_trait::async_trait;
use toolcrib_core::{
    call::{Operation, Reply, UpstreamError},
    catalog::Permit,
    clock::Timestamp,
    descriptor::SourceKind,
    id::SourceId,
    source::{Discovered, Source, SourceState, SourceStatus},
};

use crate::error::unavailable;

pub(crate) struct UnusableSource {
    pub(crate) id: SourceId,
    pub(crate) kind: SourceKind,
    pub(crate) reason: String,
    pub(crate) since: Timestamp,
}

#[async_trait]
impl Source for UnusableSource {
    fn id(&self) -> &SourceId {
        &self.id
    }

    fn kind(&self) -> SourceKind {
        self.kind
    }

    async fn discover(&self) -> Result<Discovered, UpstreamError> {
        Err(unavailable(self.reason.as_str()))
    }

    fn check_reachable(&self) -> Result<(), UpstreamError> {
        Err(unavailable(self.reason.as_str()))
    }

    async fn serve(&self, _: &Permit, _: Operation) -> Result<Reply, UpstreamError> {
        Err(unavailable(self.reason.as_str()))
    }

    fn status(&self) -> SourceStatus {
        let detail = Some(self.reason.clone());
        SourceStatus { state: SourceState::Degraded, detail, since: self.since, restarts: 0 }
    }

    async fn close(&self) {}
}
