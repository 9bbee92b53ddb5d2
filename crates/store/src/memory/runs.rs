//! Runs of workflows in memory.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::SubsecRound;
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::shared::{ChangeCounter, lock};
use crate::capped;

/// Runs of workflows in memory: they do not survive the process.
#[derive(Debug, Default)]
pub(super) struct MemoryRuns {
    runs: Mutex<Vec<MemoryRun>>,
    changes: Arc<ChangeCounter>,
}

#[derive(Debug)]
struct MemoryRun {
    record: RunRecord,
    cancelled: bool,
}

impl MemoryRuns {
    pub(super) fn new(changes: &Arc<ChangeCounter>) -> Self {
        Self { runs: Mutex::default(), changes: Arc::clone(changes) }
    }
}

#[async_trait]
impl RunStore for MemoryRuns {
    fn seals(&self) -> bool {
        false
    }

    async fn begin(&self, mut run: RunRecord, _inputs: Option<String>) -> Result<(), StoreError> {
        let mut runs = lock(&self.runs);
        let same = |held: &MemoryRun| {
            held.record.tenant == run.tenant && held.record.call_id == run.call_id
        };
        if runs.iter().any(same) {
            return Err(StoreError::Conflict("a run of this call".to_owned()));
        }
        run.started_at = run.started_at.trunc_subsecs(3);
        runs.push(MemoryRun { record: run, cancelled: false });
        Ok(())
    }

    async fn keep(
        &self,
        _tenant: &TenantId,
        _call: &CallId,
        _step: &CallId,
        _result: String,
    ) -> Result<(), StoreError> {
        Ok(())
    }

    async fn end(
        &self,
        tenant: &TenantId,
        call: &CallId,
        state: RunState,
        code: Option<&str>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let mut runs = lock(&self.runs);
        let wanted = |kept: &&mut MemoryRun| {
            kept.record.tenant == *tenant
                && kept.record.call_id == *call
                && kept.record.state == RunState::Running
        };
        let Some(run) = runs.iter_mut().find(wanted) else { return Ok(false) };
        run.record.state = state;
        run.record.code = code.map(str::to_owned);
        run.record.ended_at = Some(at.trunc_subsecs(3));
        Ok(true)
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let wanted = |run: &&RunRecord| {
            query.tenant.as_ref().is_none_or(|tenant| run.tenant == *tenant)
                && query.principal.as_ref().is_none_or(|principal| run.principal == *principal)
                && query.run.as_ref().is_none_or(|id| run.run_id == *id)
                && query.state.is_none_or(|state| run.state == state)
        };
        let runs = lock(&self.runs);
        let place = |run: &RunRecord| (run.started_at, run.call_id.clone());
        let is_newest = |run: &RunRecord| {
            let of_run =
                |other: &&RunRecord| other.tenant == run.tenant && other.run_id == run.run_id;
            let roots =
                runs.iter().map(|kept| &kept.record).filter(|record| record.parent.is_none());
            run.parent.is_none() && roots.filter(of_run).all(|root| place(root) <= place(run))
        };
        let wanted = |run: &&RunRecord| {
            wanted(run)
                && (!query.one_per_run || is_newest(run))
                && query.before.as_ref().is_none_or(|before| place(run) < *before)
        };
        let mut found: Vec<_> =
            runs.iter().map(|kept| &kept.record).filter(wanted).cloned().collect();
        found.sort_by(|a, b| (b.started_at, &b.call_id).cmp(&(a.started_at, &a.call_id)));
        found.truncate(capped(query.limit));
        Ok(found)
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        Ok(Vec::new())
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError> {
        let mut runs = lock(&self.runs);
        let wanted = runs.iter_mut().filter(|kept| {
            kept.record.tenant == *tenant
                && kept.record.run_id == *run
                && kept.record.state == RunState::Running
        });
        let cancelled = wanted.map(|kept| kept.cancelled = true).count();
        if cancelled > 0 {
            self.changes.count(|changes| &mut changes.cancellations);
        }
        Ok(cancelled)
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        let runs = lock(&self.runs);
        let cancelled =
            |kept: &&MemoryRun| kept.cancelled && kept.record.state == RunState::Running;
        Ok(runs.iter().filter(cancelled).map(|kept| kept.record.call_id.clone()).collect())
    }
}
