//! A source that must not be contacted, because one of its secrets cannot be read.
//!
//! Invariant: it sends nothing and starts nothing.

use async_trait::async_trait;
use toolcrib_core::{
    call::{Invocation, Outcome, UpstreamError, UpstreamErrorKind},
    catalog::Permit,
    clock::Timestamp,
    descriptor::SourceKind,
    id::SourceId,
    source::{Discovered, Source, SourceState, SourceStatus},
};

pub(crate) struct UnusableSource {
    id: SourceId,
    kind: SourceKind,
    reason: String,
    since: Timestamp,
}

impl UnusableSource {
    pub(crate) fn new(id: SourceId, kind: SourceKind, reason: String, since: Timestamp) -> Self {
        Self { id, kind, reason, since }
    }

    fn unavailable(&self) -> UpstreamError {
        UpstreamError::new(UpstreamErrorKind::Unavailable, self.reason.clone())
    }
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
        Err(self.unavailable())
    }

    async fn invoke(&self, _: &Permit, _: Invocation) -> Result<Outcome, UpstreamError> {
        Err(self.unavailable())
    }

    fn status(&self) -> SourceStatus {
        let detail = Some(self.reason.clone());
        SourceStatus { state: SourceState::Degraded, detail, since: self.since, restarts: 0 }
    }

    async fn close(&self) {}
}
