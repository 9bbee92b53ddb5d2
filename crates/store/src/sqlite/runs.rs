//! Runs of workflows on SQLite.
//!
//! Invariant: the data of a run is sealed where there is a key, and deleted when the run completes.

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::{
    failure::Failure,
    handle::SqliteStore,
    row::{all, execute, limit, moment, parse, time, time_text},
};
use crate::{seal::SealKeys, seal_places};

const COLUMNS: &str = "tenant, call_id, run_id, tool_id, digest, principal, key_id, parent, state, \
                       code, durable, started_at, ended_at";

#[async_trait]
impl RunStore for SqliteStore {
    fn seals(&self) -> bool {
        self.options().call_keys.can_seal()
    }

    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError> {
        let instance = self.instance();
        let keys = &self.options().call_keys;
        let inputs = inputs
            .map(|inputs| keys.pack(&seal_places::run(&run.tenant, &run.call_id, ""), &inputs));
        let inputs = inputs.transpose()?;
        self.on_writer(move |connection| {
            let sql = "INSERT INTO runs (tenant, call_id, run_id, tool_id, digest, principal, \
                         key_id, parent, state, code, durable, started_at, ended_at, inputs, \
                         instance) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)";
            execute(
                connection,
                sql,
                params![
                    run.tenant.as_str(),
                    run.call_id.as_str(),
                    run.run_id.as_str(),
                    run.tool_id.as_str(),
                    run.digest,
                    run.principal.as_str(),
                    run.key.as_ref().map(|key| key.as_str()),
                    run.parent.as_ref().map(|call| call.as_str()),
                    run.state.as_str(),
                    run.code,
                    run.durable,
                    time_text(run.started_at),
                    run.ended_at.map(time_text),
                    inputs,
                    &*instance,
                ],
            )
            .map_err(|failure| failure.conflict_over("a run of this call"))?;
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
        let place = seal_places::run(tenant, call, step.as_str());
        let result = self.options().call_keys.pack(&place, &result)?;
        let (tenant, call, step) = (tenant.clone(), call.clone(), step.clone());
        self.on_writer(move |connection| {
            let sql = "INSERT INTO run_results (tenant, call_id, step, result) \
                         VALUES (?1, ?2, ?3, ?4) \
                         ON CONFLICT (tenant, call_id, step) DO UPDATE SET result = ?4";
            execute(
                connection,
                sql,
                params![tenant.as_str(), call.as_str(), step.as_str(), result],
            )?;
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
        let (tenant, call, code) = (tenant.clone(), call.clone(), code.map(str::to_owned));
        self.on_writer(move |connection| {
            let (tenant, call) = (tenant.as_str(), call.as_str());
            let sql = "UPDATE runs SET state = ?3, code = ?4, ended_at = ?5, inputs = NULL \
                         WHERE tenant = ?1 AND call_id = ?2 AND state = 'running'";
            let ended = execute(
                connection,
                sql,
                params![tenant, call, state.as_str(), code, time_text(at)],
            )?;
            let sql = "DELETE FROM run_results WHERE tenant = ?1 AND call_id = ?2";
            execute(connection, sql, [tenant, call])?;
            Ok(ended > 0)
        })
        .await
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        self.on_reader(move |connection| select(connection, &query)).await
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        let instance = self.instance();
        let stored = self.on_writer(move |connection| take_adopted(connection, &instance));
        let keys = &self.options().call_keys;
        Ok(stored.await?.into_iter().map(|stored| kept(keys, stored)).collect())
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError> {
        let (tenant, run) = (tenant.clone(), run.clone());
        self.on_writer(move |connection| {
            let sql = "UPDATE runs SET cancelled = 1 \
                         WHERE tenant = ?1 AND run_id = ?2 AND state = 'running'";
            let cancelled = execute(connection, sql, [tenant.as_str(), run.as_str()])?;
            if cancelled > 0 {
                let sql = "UPDATE meta SET value = value + 1 WHERE name = 'cancellations'";
                execute(connection, sql, [])?;
            }
            Ok(cancelled)
        })
        .await
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        let instance = self.instance();
        self.on_reader(move |connection| {
            let sql = "SELECT call_id FROM runs \
                     WHERE instance = ?1 AND state = 'running' AND cancelled = 1";
            let call = |row: &Row<'_>| parse(row.get(0)?, || Failure::corrupt("a run"));
            all(connection, sql, [&*instance], call)
        })
        .await
    }
}

/// Takes over the durable runs of the dead process `dead`, with the calls and tool sessions of the
/// workflows themselves. Closes the other runs as failed.
pub(super) fn adopt(
    connection: &Connection,
    dead: &str,
    own: &str,
    now: Timestamp,
) -> Result<(), Failure> {
    let sql = "UPDATE runs SET instance = ?2, adopted = 1 \
         WHERE instance = ?1 AND state = 'running' AND inputs IS NOT NULL";
    execute(connection, sql, [dead, own])?;
    let sql = "UPDATE open_calls SET instance = ?2 WHERE instance = ?1 AND EXISTS \
         (SELECT 1 FROM runs r WHERE r.tenant = open_calls.tenant \
          AND r.call_id = open_calls.call_id AND r.adopted = 1 AND r.state = 'running')";
    execute(connection, sql, [dead, own])?;
    let sql = "UPDATE open_sessions SET instance = ?2 WHERE instance = ?1 AND EXISTS \
         (SELECT 1 FROM runs r WHERE r.tenant = open_sessions.tenant \
          AND r.run_id = open_sessions.run_id AND r.tool_id = open_sessions.tool_id \
          AND r.adopted = 1 AND r.state = 'running')";
    execute(connection, sql, [dead, own])?;
    let sql = "UPDATE runs SET state = 'failed', code = 'interrupted', ended_at = ?2 \
         WHERE instance = ?1 AND state = 'running'";
    execute(connection, sql, [dead, &time_text(now)])?;
    Ok(())
}

/// A [`KeptRun`], still sealed.
struct Stored {
    record: RunRecord,
    inputs: Vec<u8>,
    results: Vec<(CallId, Vec<u8>)>,
    cancelled: bool,
}

/// Opens a run. One that cannot be opened is returned without data, so that it can be closed.
fn kept(keys: &SealKeys, stored: Stored) -> KeptRun {
    let Stored { record, inputs, results, cancelled } = stored;
    let unpack = |step: &str, stored: &[u8]| {
        keys.unpack(&seal_places::run(&record.tenant, &record.call_id, step), stored)
    };
    let opened = unpack("", &inputs).and_then(|inputs| {
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

fn take_adopted(connection: &Connection, instance: &str) -> Result<Vec<Stored>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS}, inputs, cancelled FROM runs \
         WHERE instance = ?1 AND state = 'running' AND adopted = 1 ORDER BY started_at"
    );
    let runs = all(connection, &sql, [instance], |row| {
        let record = record(row)?;
        let results = results(connection, &record)?;
        Ok(Stored { record, inputs: row.get(13)?, results, cancelled: row.get(14)? })
    })?;
    let sql = "UPDATE runs SET adopted = 0 WHERE instance = ?1";
    execute(connection, sql, [instance])?;
    Ok(runs)
}

fn results(connection: &Connection, run: &RunRecord) -> Result<Vec<(CallId, Vec<u8>)>, Failure> {
    let sql = "SELECT step, result FROM run_results WHERE tenant = ?1 AND call_id = ?2";
    let result = |row: &Row<'_>| {
        let step = parse(row.get(0)?, || Failure::corrupt("a result of a run"))?;
        Ok((step, row.get(1)?))
    };
    all(connection, sql, [run.tenant.as_str(), run.call_id.as_str()], result)
}

fn select(connection: &Connection, query: &RunQuery) -> Result<Vec<RunRecord>, Failure> {
    let filter = match &query.tenant {
        Some(_) => "tenant = ?1",
        None => "?1 IS NULL",
    };
    let newest = match query.one_per_run {
        true => {
            "parent IS NULL AND NOT EXISTS (SELECT 1 FROM runs n WHERE n.tenant = runs.tenant \
             AND n.run_id = runs.run_id AND n.parent IS NULL \
             AND (n.started_at, n.call_id) > (runs.started_at, runs.call_id))"
        }
        false => "1",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM runs WHERE {filter} AND (?2 IS NULL OR principal = ?2) \
         AND (?3 IS NULL OR run_id = ?3) AND (?4 IS NULL OR state = ?4) \
         AND (?6 IS NULL OR (started_at, call_id) < (?6, ?7)) AND {newest} \
         ORDER BY started_at DESC, call_id DESC LIMIT ?5"
    );
    let params = params![
        query.tenant.as_ref().map(|it| it.as_str()),
        query.principal.as_ref().map(|it| it.as_str()),
        query.run.as_ref().map(|it| it.as_str()),
        query.state.map(RunState::as_str),
        limit(query.limit),
        query.before.as_ref().map(|(at, _)| time_text(*at)),
        query.before.as_ref().map(|(_, call)| call.as_str()),
    ];
    all(connection, &sql, params, record)
}

fn record(row: &Row<'_>) -> Result<RunRecord, Failure> {
    let unreadable = || Failure::corrupt("a run");
    let text = |column: usize| -> Result<String, Failure> { Ok(row.get(column)?) };
    let maybe = |column: usize| -> Result<Option<String>, Failure> { Ok(row.get(column)?) };
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
        durable: row.get(10)?,
        started_at: time(&text(11)?).ok_or_else(unreadable)?,
        ended_at: moment(row, 12, unreadable)?,
    })
}
