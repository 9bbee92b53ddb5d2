//! Runs of workflows.
//!
//! Invariant: the data of a run is sealed where there is a key, and deleted when the run completes.

use async_trait::async_trait;
use deadpool_postgres::GenericClient;
use tokio_postgres::Row;
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::{
    failure::{Failure, within},
    handle::PostgresStore,
    row::{Param, execute, limit, parse, rows, stored_time},
};
use crate::{seal::SealKeys, seal_places};

const COLUMNS: &str = "tenant, call_id, run_id, tool_id, digest, principal, key_id, parent, state, \
                       code, durable, started_at, ended_at";

#[async_trait]
impl RunStore for PostgresStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError> {
        let keys = &self.options().call_keys;
        let inputs = inputs
            .map(|inputs| keys.pack(&seal_places::run(&run.tenant, &run.call_id, ""), &inputs));
        let inputs = inputs.transpose()?;
        within(async {
            let sql = format!(
                "INSERT INTO runs ({COLUMNS}, inputs, instance) \
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"
            );
            let params: [Param<'_>; 15] = [
                &run.tenant.as_str(),
                &run.call_id.as_str(),
                &run.run_id.as_str(),
                &run.tool_id.as_str(),
                &run.digest,
                &run.principal.as_str(),
                &run.key.as_ref().map(|key| key.as_str()),
                &run.parent.as_ref().map(|call| call.as_str()),
                &run.state.as_str(),
                &run.code,
                &run.durable,
                &stored_time(run.started_at),
                &run.ended_at.map(stored_time),
                &inputs,
                &self.instance(),
            ];
            let client = self.client().await?;
            let begun = execute(&client, &sql, &params).await;
            begun.map_err(|failure| failure.conflict_over("a run of this call"))?;
            Ok(())
        })
        .await
    }

    async fn keep(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &CallId,
        result: String,
    ) -> Result<(), StoreError> {
        let result = self
            .options()
            .call_keys
            .pack(&seal_places::run(tenant, call, step.as_str()), &result)?;
        within(async {
            let sql = "INSERT INTO run_results (tenant, call_id, step, result) \
                       VALUES ($1, $2, $3, $4) \
                       ON CONFLICT (tenant, call_id, step) DO UPDATE SET result = $4";
            let params: [Param<'_>; 4] =
                [&tenant.as_str(), &call.as_str(), &step.as_str(), &result];
            execute(&self.client().await?, sql, &params).await?;
            Ok(())
        })
        .await
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
            let (tenant, call) = (tenant.as_str(), call.as_str());
            let sql = "UPDATE runs SET state = $3, code = $4, ended_at = $5, inputs = NULL \
                       WHERE tenant = $1 AND call_id = $2 AND state = 'running'";
            let params: [Param<'_>; 5] = [&tenant, &call, &state.as_str(), &code, &stored_time(at)];
            let ended = execute(&transaction, sql, &params).await?;
            let sql = "DELETE FROM run_results WHERE tenant = $1 AND call_id = $2";
            execute(&transaction, sql, &[&tenant, &call]).await?;
            transaction.commit().await?;
            Ok(ended > 0)
        })
        .await
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        let newest = match query.one_per_run {
            true => {
                "parent IS NULL AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.tenant = runs.tenant \
                 AND n.run_id = runs.run_id AND n.parent IS NULL \
                 AND (n.started_at, n.call_id) > (runs.started_at, runs.call_id))"
            }
            false => "TRUE",
        };
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE ($1::text IS NULL OR tenant = $1) \
             AND ($2::text IS NULL OR principal = $2) AND ($3::text IS NULL OR run_id = $3) \
             AND ($4::text IS NULL OR state = $4) \
             AND ($6::timestamptz IS NULL OR (started_at, call_id) < ($6, $7::text)) AND {newest} \
             ORDER BY started_at DESC, call_id DESC LIMIT $5"
        );
        within(async {
            let params: [Param<'_>; 7] = [
                &query.tenant.as_ref().map(|it| it.as_str()),
                &query.principal.as_ref().map(|it| it.as_str()),
                &query.run.as_ref().map(|it| it.as_str()),
                &query.state.map(RunState::as_str),
                &limit(query.limit),
                &query.before.as_ref().map(|(at, _)| stored_time(*at)),
                &query.before.as_ref().map(|(_, call)| call.as_str()),
            ];
            rows(&self.client().await?, &sql, &params).await?.iter().map(record).collect()
        })
        .await
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        let stored = within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let sql = format!(
                "SELECT {COLUMNS}, inputs, cancelled FROM runs WHERE instance = $1 \
                 AND state = 'running' AND adopted ORDER BY started_at FOR UPDATE"
            );
            let own = self.instance();
            let mut stored = Vec::new();
            for row in rows(&transaction, &sql, &[&own]).await? {
                let record = record(&row)?;
                let results = results(&transaction, &record).await?;
                let (inputs, cancelled) = (row.try_get(13)?, row.try_get(14)?);
                stored.push(Stored { record, inputs, results, cancelled });
            }
            let sql = "UPDATE runs SET adopted = FALSE WHERE instance = $1 AND adopted";
            execute(&transaction, sql, &[&own]).await?;
            transaction.commit().await?;
            Ok(stored)
        });
        let keys = &self.options().call_keys;
        Ok(stored.await?.into_iter().map(|stored| kept(keys, stored)).collect())
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError> {
        within(async {
            let mut client = self.client().await?;
            let transaction = client.transaction().await?;
            let sql = "UPDATE runs SET cancelled = TRUE \
                       WHERE tenant = $1 AND run_id = $2 AND state = 'running'";
            let cancelled = execute(&transaction, sql, &[&tenant.as_str(), &run.as_str()]).await?;
            if cancelled > 0 {
                let sql = "UPDATE meta SET value = value + 1 WHERE name = 'cancellations'";
                execute(&transaction, sql, &[]).await?;
            }
            transaction.commit().await?;
            Ok(usize::try_from(cancelled).unwrap_or(usize::MAX))
        })
        .await
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        within(async {
            let sql = "SELECT call_id FROM runs \
                       WHERE instance = $1 AND state = 'running' AND cancelled";
            let found = rows(&self.client().await?, sql, &[&self.instance()]).await?;
            let call = |row: &Row| parse(row.try_get(0)?, || Failure::corrupt("a run"));
            found.iter().map(call).collect()
        })
        .await
    }
}

/// Takes over the durable runs of the dead process `dead`, with the calls and tool sessions of the
/// workflows themselves. Closes the other runs as failed.
pub(super) async fn adopt(
    client: &impl GenericClient,
    dead: &str,
    own: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    let sql = "UPDATE runs SET instance = $2, adopted = TRUE \
               WHERE instance = $1 AND state = 'running' AND inputs IS NOT NULL";
    execute(client, sql, &[&dead, &own]).await?;
    let sql = "UPDATE open_calls o SET instance = $2 FROM runs r WHERE o.instance = $1 \
               AND r.tenant = o.tenant AND r.call_id = o.call_id AND r.adopted \
               AND r.state = 'running'";
    execute(client, sql, &[&dead, &own]).await?;
    let sql = "UPDATE open_sessions o SET instance = $2 WHERE o.instance = $1 AND EXISTS \
               (SELECT 1 FROM runs r WHERE r.tenant = o.tenant AND r.run_id = o.run_id \
                AND r.tool_id = o.tool_id AND r.adopted AND r.state = 'running')";
    execute(client, sql, &[&dead, &own]).await?;
    let sql = "UPDATE runs SET state = 'failed', code = 'interrupted', ended_at = $2 \
               WHERE instance = $1 AND state = 'running'";
    execute(client, sql, &[&dead, &stored_time(now)]).await?;
    Ok(())
}

/// A [`KeptRun`], still sealed.
struct Stored {
    record: RunRecord,
    inputs: Option<Vec<u8>>,
    results: Vec<(CallId, Vec<u8>)>,
    cancelled: bool,
}

/// Opens a run. One that cannot be opened is returned without data, so that it can be closed.
fn kept(keys: &SealKeys, stored: Stored) -> KeptRun {
    let Stored { record, inputs, results, cancelled } = stored;
    let unpack = |step: &str, stored: &[u8]| {
        keys.unpack(&seal_places::run(&record.tenant, &record.call_id, step), stored)
    };
    let opened = inputs.and_then(|inputs| unpack("", &inputs)).and_then(|inputs| {
        let open = |(step, stored): (CallId, Vec<u8>)| {
            let text = unpack(step.as_str(), &stored)?;
            Some((step, text))
        };
        Some((inputs, results.into_iter().map(open).collect::<Option<_>>()?))
    });
    if opened.is_none() {
        tracing::error!(
            run = %record.run_id,
            "a run cannot be resumed: its data cannot be opened with this seal key"
        );
    }
    let (inputs, results) = opened.unwrap_or_default();
    KeptRun { record, inputs, results, cancelled }
}

async fn results(
    client: &impl GenericClient,
    run: &RunRecord,
) -> Result<Vec<(CallId, Vec<u8>)>, Failure> {
    let sql = "SELECT step, result FROM run_results WHERE tenant = $1 AND call_id = $2";
    let found = rows(client, sql, &[&run.tenant.as_str(), &run.call_id.as_str()]).await?;
    let result = |row: &Row| {
        let step = parse(row.try_get(0)?, || Failure::corrupt("a result of a run"))?;
        Ok((step, row.try_get(1)?))
    };
    found.iter().map(result).collect()
}

fn record(row: &Row) -> Result<RunRecord, Failure> {
    let unreadable = || Failure::corrupt("a run");
    let text = |column: usize| -> Result<String, Failure> { Ok(row.try_get(column)?) };
    let maybe = |column: usize| -> Result<Option<String>, Failure> { Ok(row.try_get(column)?) };
    let state = text(8)?;
    Ok(RunRecord {
        tenant: parse(text(0)?, unreadable)?,
        call_id: parse(text(1)?, unreadable)?,
        run_id: parse(text(2)?, unreadable)?,
        tool_id: parse(text(3)?, unreadable)?,
        digest: text(4)?,
        principal: parse(text(5)?, unreadable)?,
        key: maybe(6)?.map(|key| parse(key, unreadable)).transpose()?,
        parent: maybe(7)?.map(|call| parse(call, unreadable)).transpose()?,
        state: *RunState::ALL.iter().find(|it| it.as_str() == state).ok_or_else(unreadable)?,
        code: maybe(9)?,
        durable: row.try_get(10)?,
        started_at: row.try_get(11)?,
        ended_at: row.try_get(12)?,
    })
}
