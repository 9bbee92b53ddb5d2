//! Runs of workflows on SQLite.
//!
//! Invariant: the data of a run is sealed where there is a key, and deleted when the run ends.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::{Connection, Row, params};
use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, RunStore, StoreError},
};

use super::{
    SqliteStore,
    failure::Failure,
    log::{parse, time, time_text},
};
use crate::{MAX_READ, seal::SealKeys};

const COLUMNS: &str = "tenant, call_id, run_id, tool_id, digest, principal, key_id, parent, state, \
                       code, durable, started_at, ended_at";

/// The runs of a [`SqliteStore`], with the keys that seal their data.
#[derive(Debug, Clone)]
pub struct SqliteRuns {
    store: SqliteStore,
    keys: Arc<SealKeys>,
}

impl SqliteRuns {
    pub(super) fn new(store: SqliteStore, keys: SealKeys) -> Self {
        Self { store, keys: Arc::new(keys) }
    }

    /// Returns `text` as stored for the call `step` of the run of `call`.
    fn pack(
        &self,
        tenant: &TenantId,
        call: &CallId,
        step: &str,
        text: &str,
    ) -> Result<Vec<u8>, StoreError> {
        if !self.keys.can_seal() {
            let mut plain = vec![PLAIN];
            plain.extend_from_slice(text.as_bytes());
            return Ok(plain);
        }
        self.keys.seal_text(&place(tenant, call, step), text)
    }

    fn unpack(&self, run: &RunRecord, step: &str, stored: &[u8]) -> Result<String, StoreError> {
        let text = match stored.split_first() {
            Some((&PLAIN, plain)) => String::from_utf8(plain.to_vec()).ok(),
            _ => self.keys.open_text(&place(&run.tenant, &run.call_id, step), stored),
        };
        text.ok_or_else(|| {
            StoreError::Corrupt("the data of a run cannot be opened with this seal key".to_owned())
        })
    }
}

/// First byte of unsealed data; a sealed text begins with a version, which is never this.
const PLAIN: u8 = 0;

/// Returns the associated data of a sealed text.
fn place<'a>(tenant: &'a TenantId, call: &'a CallId, step: &'a str) -> [&'a str; 4] {
    ["toolcrib run 1", tenant.as_str(), call.as_str(), step]
}

#[async_trait]
impl RunStore for SqliteRuns {
    fn seals(&self) -> bool {
        self.keys.can_seal()
    }

    async fn begin(&self, run: RunRecord, inputs: Option<String>) -> Result<(), StoreError> {
        let instance = Arc::clone(&self.store.inner.instance);
        let inputs = inputs.map(|inputs| self.pack(&run.tenant, &run.call_id, "", &inputs));
        let inputs = inputs.transpose()?;
        self.store
            .inner
            .writer
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO runs (tenant, call_id, run_id, tool_id, digest, principal, \
                         key_id, parent, state, code, durable, started_at, ended_at, inputs, \
                         instance) \
                         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
                    )?
                    .execute(params![
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
                    ])
                    .map_err(|error| Failure::from(error).conflict_over("a run of this call"))?;
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
        let result = self.pack(tenant, call, step.as_str(), &result)?;
        let (tenant, call, step) = (tenant.clone(), call.clone(), step.clone());
        self.store
            .inner
            .writer
            .write(move |connection| {
                connection
                    .prepare_cached(
                        "INSERT INTO run_results (tenant, call_id, step, result) \
                         VALUES (?1, ?2, ?3, ?4) \
                         ON CONFLICT (tenant, call_id, step) DO UPDATE SET result = ?4",
                    )?
                    .execute(params![tenant.as_str(), call.as_str(), step.as_str(), result])?;
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
        self.store
            .inner
            .writer
            .write(move |connection| {
                let (tenant, call) = (tenant.as_str(), call.as_str());
                let ended = connection
                    .prepare_cached(
                        "UPDATE runs SET state = ?3, code = ?4, ended_at = ?5, inputs = NULL \
                         WHERE tenant = ?1 AND call_id = ?2 AND state = 'running'",
                    )?
                    .execute(params![tenant, call, state.as_str(), code, time_text(at)])?;
                connection
                    .prepare_cached("DELETE FROM run_results WHERE tenant = ?1 AND call_id = ?2")?
                    .execute([tenant, call])?;
                Ok(ended > 0)
            })
            .await
    }

    async fn list(&self, query: RunQuery) -> Result<Vec<RunRecord>, StoreError> {
        self.store.inner.readers.read(move |connection| select(connection, &query)).await
    }

    async fn adopted(&self) -> Result<Vec<KeptRun>, StoreError> {
        let instance = Arc::clone(&self.store.inner.instance);
        let stored =
            self.store.inner.writer.write(move |connection| take_adopted(connection, &instance));
        stored.await?.into_iter().map(|stored| self.kept(stored)).collect()
    }

    async fn request_cancellation(
        &self,
        tenant: &TenantId,
        run: &RunId,
    ) -> Result<usize, StoreError> {
        let (tenant, run) = (tenant.clone(), run.clone());
        self.store
            .inner
            .writer
            .write(move |connection| {
                let cancelled = connection
                    .prepare_cached(
                        "UPDATE runs SET cancelled = 1 \
                         WHERE tenant = ?1 AND run_id = ?2 AND state = 'running'",
                    )?
                    .execute([tenant.as_str(), run.as_str()])?;
                Ok(cancelled)
            })
            .await
    }

    async fn requested_cancellations(&self) -> Result<Vec<CallId>, StoreError> {
        let instance = Arc::clone(&self.store.inner.instance);
        self.store
            .inner
            .readers
            .read(move |connection| {
                let mut statement = connection.prepare_cached(
                    "SELECT call_id FROM runs \
                     WHERE instance = ?1 AND state = 'running' AND cancelled = 1",
                )?;
                let mut rows = statement.query([&*instance])?;
                let mut calls = Vec::new();
                while let Some(row) = rows.next()? {
                    calls.push(parse(row.get(0)?, || Failure::corrupt("a run"))?);
                }
                Ok(calls)
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
    connection.execute(
        "UPDATE runs SET instance = ?2, adopted = 1 \
         WHERE instance = ?1 AND state = 'running' AND inputs IS NOT NULL",
        [dead, own],
    )?;
    connection.execute(
        "UPDATE open_calls SET instance = ?2 WHERE instance = ?1 AND EXISTS \
         (SELECT 1 FROM runs r WHERE r.tenant = open_calls.tenant \
          AND r.call_id = open_calls.call_id AND r.adopted = 1 AND r.state = 'running')",
        [dead, own],
    )?;
    connection.execute(
        "UPDATE open_sessions SET instance = ?2 WHERE instance = ?1 AND EXISTS \
         (SELECT 1 FROM runs r WHERE r.tenant = open_sessions.tenant \
          AND r.run_id = open_sessions.run_id AND r.tool_id = open_sessions.tool_id \
          AND r.adopted = 1 AND r.state = 'running')",
        [dead, own],
    )?;
    connection.execute(
        "UPDATE runs SET state = 'failed', code = 'interrupted', ended_at = ?2 \
         WHERE instance = ?1 AND state = 'running'",
        [dead, &time_text(now)],
    )?;
    Ok(())
}

/// A [`KeptRun`], still sealed.
struct Stored {
    record: RunRecord,
    inputs: Vec<u8>,
    results: Vec<(CallId, Vec<u8>)>,
    cancelled: bool,
}

impl SqliteRuns {
    /// Opens a run. One that cannot be opened is returned without data, so that it can be closed.
    fn kept(&self, stored: Stored) -> Result<KeptRun, StoreError> {
        let Stored { record, inputs, results, cancelled } = stored;
        let opened = self.unpack(&record, "", &inputs).and_then(|inputs| {
            let open = |(step, stored): (CallId, Vec<u8>)| {
                let text = self.unpack(&record, step.as_str(), &stored)?;
                Ok((step, text))
            };
            let results = results.into_iter().map(open).collect::<Result<_, StoreError>>()?;
            Ok((inputs, results))
        });
        let (inputs, results) = opened.unwrap_or_else(|error| {
            tracing::error!(run = %record.run_id, %error, "a run cannot be resumed");
            (String::new(), Vec::new())
        });
        Ok(KeptRun { record, inputs, results, cancelled })
    }
}

fn take_adopted(connection: &Connection, instance: &str) -> Result<Vec<Stored>, Failure> {
    let sql = format!(
        "SELECT {COLUMNS}, inputs, cancelled FROM runs \
         WHERE instance = ?1 AND state = 'running' AND adopted = 1 ORDER BY started_at"
    );
    let mut statement = connection.prepare(&sql)?;
    let mut rows = statement.query([instance])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        let record = record(row)?;
        let results = results(connection, &record)?;
        let (inputs, cancelled) = (row.get(13)?, row.get(14)?);
        runs.push(Stored { record, inputs, results, cancelled });
    }
    connection.execute("UPDATE runs SET adopted = 0 WHERE instance = ?1", [instance])?;
    Ok(runs)
}

fn results(connection: &Connection, run: &RunRecord) -> Result<Vec<(CallId, Vec<u8>)>, Failure> {
    let mut statement = connection.prepare_cached(
        "SELECT step, result FROM run_results WHERE tenant = ?1 AND call_id = ?2",
    )?;
    let mut rows = statement.query([run.tenant.as_str(), run.call_id.as_str()])?;
    let mut results = Vec::new();
    while let Some(row) = rows.next()? {
        let step = parse(row.get(0)?, || Failure::corrupt("a result of a run"))?;
        results.push((step, row.get(1)?));
    }
    Ok(results)
}

fn select(connection: &Connection, query: &RunQuery) -> Result<Vec<RunRecord>, Failure> {
    let limit = match query.limit {
        0 => MAX_READ,
        limit => limit.min(MAX_READ),
    };
    let filter = match &query.tenant {
        Some(_) => "tenant = ?1",
        None => "?1 IS NULL",
    };
    let sql = format!(
        "SELECT {COLUMNS} FROM runs WHERE {filter} AND (?2 IS NULL OR principal = ?2) \
         AND (?3 IS NULL OR run_id = ?3) AND (?4 IS NULL OR state = ?4) \
         ORDER BY started_at DESC, call_id DESC LIMIT ?5"
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let mut rows = statement.query(params![
        query.tenant.as_ref().map(|it| it.as_str()),
        query.principal.as_ref().map(|it| it.as_str()),
        query.run.as_ref().map(|it| it.as_str()),
        query.state.map(RunState::as_str),
        i64::try_from(limit).unwrap_or(i64::MAX),
    ])?;
    let mut runs = Vec::new();
    while let Some(row) = rows.next()? {
        runs.push(record(row)?);
    }
    Ok(runs)
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
        ended_at: maybe(12)?.map(|at| time(&at).ok_or_else(unreadable)).transpose()?,
    })
}
