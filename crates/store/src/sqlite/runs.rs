//! Runs of workflows on SQLite.
//!
//! Invariant: the data of a run is sealed where there is a key, and deleted when the run completes.

use async_trait::async_trait;
use rusqlite::Connection;
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    statement::{read, run},
};
use crate::rows::runs;

#[async_trait]
impl RunStore for SqliteStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError> {
        let keys = &self.options().call_keys;
        self.run(runs::insert(keys, &run, inputs, &self.instance())?).await.map(drop)
    }

    async fn keep(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &CallId,
        result: String,
    ) -> Result<(), StoreError> {
        let keys = &self.options().call_keys;
        self.run(runs::keep(keys, tenant, call, step, &result)?).await.map(drop)
    }

    async fn end(
        &self,
        tenant: &TenantId,
        call: &CallId,
        state: RunState,
        code: Option<&str>,
        at: Timestamp,
    ) -> Result<bool, StoreError> {
        let end = runs::end(tenant, call, state, code, at);
        let forget = runs::forget_results(tenant, call);
        self.on_writer(move |connection| {
            let ended = run(connection, &end)?;
            run(connection, &forget)?;
            Ok(ended > 0)
        })
        .await
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        self.select(runs::select(&query), |row| runs::record(row)).await
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        let instance = self.instance();
        let (select, leave) = (runs::adopted(&instance), runs::leave_adopted(&instance));
        let stored = self.on_writer(move |connection| {
            let mut found = read(connection, &select, |row| runs::stored(row))?;
            for kept in &mut found {
                let results = runs::results(&kept.record);
                kept.results = read(connection, &results, |row| runs::result(row))?;
            }
            run(connection, &leave)?;
            Ok(found)
        });
        let keys = &self.options().call_keys;
        Ok(stored.await?.into_iter().map(|stored| runs::open(keys, stored)).collect())
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        of: &RunId,
    ) -> Result<usize, StoreError> {
        let cancel = runs::cancel(tenant, of);
        self.on_writer(move |connection| {
            let cancelled = run(connection, &cancel)?;
            if cancelled > 0 {
                run(connection, &runs::count_cancellations())?;
            }
            Ok(cancelled)
        })
        .await
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        self.select(runs::cancelled(&self.instance()), |row| runs::call(row)).await
    }
}

/// Takes over the runs of the dead process `dead`; see [`runs::adopt`].
pub(super) fn adopt(
    connection: &Connection,
    dead: &str,
    own: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    runs::adopt(dead, own, now)
        .iter()
        .try_for_each(|statement| run(connection, statement).map(drop))
}
