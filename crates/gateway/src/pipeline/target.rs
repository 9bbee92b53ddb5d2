//! The target of a call, resolved once.

use std::sync::Arc;

use toolcrib_core::{
    call::CallError,
    catalog::Entry,
    credential::{AccountSpec, CredentialNeed},
    principal::Principal,
    quota::{Quota, QuotaKey},
    source::Source,
};

use super::dispatch::not_running;
use crate::{
    breaker::Breaker, limits::quota::quotas_of, snapshot::Snapshot,
    workflow_definition::offer::RunnableWorkflow,
};

/// An offer of one snapshot with everything that a call of it uses (I-23).
pub(crate) struct Target {
    pub(crate) snapshot: Arc<Snapshot>,
    pub(crate) entry: Arc<Entry>,
    /// The source that serves it; `None` if it is not running.
    pub(crate) source: Option<Arc<dyn Source>>,
    pub(crate) breaker: Option<Arc<Breaker>>,
    /// The credential that the source needs for a call.
    pub(crate) need: CredentialNeed,
    /// The quotas that count a call of this principal.
    pub(crate) quotas: Vec<(QuotaKey, Quota)>,
}

impl Target {
    /// Finds the same tool in `snapshot`, the snapshot of the authorization after a wait for
    /// approval.
    pub(crate) fn reloaded(self, snapshot: Arc<Snapshot>, principal: &Principal) -> Self {
        Self::new(snapshot, principal, self.entry)
    }

    /// The parts of `snapshot` for a call of `entry` by `principal`.
    pub(crate) fn new(snapshot: Arc<Snapshot>, principal: &Principal, entry: Arc<Entry>) -> Self {
        let source = snapshot.sources.get(&entry.source).map(Arc::clone);
        let breaker = snapshot.breakers.get(&entry.source).map(Arc::clone);
        let need = need(source.as_deref(), &entry);
        let quotas = quotas_of(&snapshot.gate, principal, &entry);
        Self { snapshot, entry, source, breaker, need, quotas }
    }

    /// Checks that the source can receive a call now, before a person is asked to approve the call or
    /// a grant is used.
    pub(crate) fn check_reachable(&self) -> Result<(), CallError> {
        if self.entry.tool.source.traits().is_in_gateway {
            return Ok(());
        }
        let source = self.source.as_ref().ok_or_else(not_running)?;
        source.check_reachable().map_err(CallError::Upstream)
    }

    /// The account that a call uses, if the source uses accounts.
    pub(crate) fn account(&self) -> Option<&Arc<AccountSpec>> {
        match &self.need {
            CredentialNeed::Account { account, .. } => Some(account),
            CredentialNeed::None | CredentialNeed::Stored { .. } => None,
        }
    }

    /// The workflow that runs as this tool.
    pub(crate) fn runnable(&self) -> Option<Arc<RunnableWorkflow>> {
        let is_workflow = self.entry.tool.source.traits().is_in_gateway;
        self.snapshot.workflows.get(&self.entry).filter(|_| is_workflow).cloned()
    }
}

/// The credential that `source` needs for a call of `entry`.
pub(super) fn need(source: Option<&dyn Source>, entry: &Entry) -> CredentialNeed {
    source.map(|source| source.credential_for(entry)).unwrap_or_default()
}
