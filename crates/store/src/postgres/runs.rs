//! Runs of workflows.
//!
//! Invariant: the data of a run is sealed where there is a key, and deleted when the run completes.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    statement::{read, run},
};
use crate::rows::runs;

#[async_trait]
impl RunStore for PostgresStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError> {
        let keys = &self.options().call_keys;
        self.run(runs::insert(keys, &run, inputs, self.instance())?).await.map(drop)
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
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let ended = run(&transaction, &runs::end(tenant, call, state, code, at)).await?;
            run(&transaction, &runs::forget_results(tenant, call)).await?;
            transaction.commit().await?;
            Ok(ended > 0)
        })
        .await
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        self.select(runs::select(&query), runs::record).await
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        let stored = within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let select = runs::adopted(self.instance()).then(" FOR UPDATE");
            let mut found = read(&transaction, &select, runs::stored).await?;
            for kept in &mut found {
                kept.results =
                    read(&transaction, &runs::results(&kept.record), runs::result).await?;
            }
            run(&transaction, &runs::leave_adopted(self.instance())).await?;
            transaction.commit().await?;
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
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let cancelled = run(&transaction, &runs::cancel(tenant, of)).await?;
            if cancelled > 0 {
                run(&transaction, &runs::count_cancellations()).await?;
            }
            transaction.commit().await?;
            Ok(cancelled)
        })
        .await
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        self.select(runs::cancelled(self.instance()), runs::call).await
    }
}

/// Takes over the runs of the dead process `dead`; see [`runs::adopt`].
pub(super) async fn adopt(
    client: &impl GenericClient,
    dead: &str,
    own: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    for statement in runs::adopt(dead, own, now) {
        run(client, &statement).await?;
    }
    Ok(())
}
