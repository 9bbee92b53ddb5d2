//! Runs of workflows.

use toolcrib_core::{
    clock::Timestamp,
    id::{CallId, RunId, TenantId},
    store::{KeptRun, RunQuery, RunRecord, RunState, StoreError},
};

use super::{Columns, Reader, Statement, values};
use crate::{page::limit, seal::SealKeys, seal_places};

const COLUMNS: &str = "tenant, call_id, run_id, tool_id, digest, principal, key_id, parent, state, \
                       code, durable, started_at, ended_at";

/// A [`KeptRun`], still sealed.
pub(crate) struct SealedRun {
    pub(crate) record: RunRecord,
    inputs: Option<Vec<u8>>,
    cancelled: bool,
    pub(crate) results: Vec<(CallId, Vec<u8>)>,
}

/// Inserts a run with its inputs, sealed where there is a key.
pub(crate) fn insert(
    keys: &SealKeys,
    run: &RunRecord,
    inputs: Option<String>,
    instance: &str,
) -> Result<Statement, StoreError> {
    let place = seal_places::run(&run.tenant, &run.call_id, "");
    let inputs = inputs.map(|inputs| keys.pack(&place, &inputs)).transpose()?;
    let params = values![
        run.tenant.as_str(),
        run.call_id.as_str(),
        run.run_id.as_str(),
        run.tool_id.as_str(),
        run.digest.as_str(),
        run.principal.as_str(),
        run.key.as_ref().map(|key| key.as_str()),
        run.parent.as_ref().map(|call| call.as_str()),
        run.state.as_str(),
        run.code.as_deref(),
        run.durable,
        run.started_at,
        run.ended_at,
        inputs,
        instance,
    ];
    let insert = Statement::insert("runs", &format!("{COLUMNS}, inputs, instance"), params);
    Ok(insert.or_conflict("a run of this call"))
}

/// Keeps the result of a step, sealed where there is a key.
pub(crate) fn keep(
    keys: &SealKeys,
    tenant: &TenantId,
    call: &CallId,
    step: &CallId,
    result: &str,
) -> Result<Statement, StoreError> {
    let result = keys.pack(&seal_places::run(tenant, call, step.as_str()), result)?;
    let params = values![tenant.as_str(), call.as_str(), step.as_str(), result];
    let insert = Statement::insert("run_results", "tenant, call_id, step, result", params);
    Ok(insert.then(" ON CONFLICT (tenant, call_id, step) DO UPDATE SET result = ?4"))
}

pub(crate) fn end(
    tenant: &TenantId,
    call: &CallId,
    state: RunState,
    code: Option<&str>,
    at: Timestamp,
) -> Statement {
    let sql = "UPDATE runs SET state = ?3, code = ?4, ended_at = ?5, inputs = NULL \
               WHERE tenant = ?1 AND call_id = ?2 AND state = 'running'";
    Statement::new(sql, values![tenant.as_str(), call.as_str(), state.as_str(), code, at])
}

pub(crate) fn forget_results(tenant: &TenantId, call: &CallId) -> Statement {
    let sql = "DELETE FROM run_results WHERE tenant = ?1 AND call_id = ?2";
    Statement::new(sql, values![tenant.as_str(), call.as_str()])
}

pub(crate) fn select(query: &RunQuery) -> Statement {
    let before = query.before.as_ref().map(|(at, call)| values![*at, call.as_str()]);
    let newest = match query.one_per_run {
        true => {
            " AND parent IS NULL AND NOT EXISTS (SELECT 1 FROM runs n \
             WHERE n.tenant = runs.tenant AND n.run_id = runs.run_id AND n.parent IS NULL \
             AND (n.started_at, n.call_id) > (runs.started_at, runs.call_id))"
        }
        false => "",
    };
    let most = limit(query.limit);
    Statement::new(format!("SELECT {COLUMNS} FROM runs WHERE TRUE"), Vec::new())
        .and("tenant = ?", query.tenant.as_ref().map(|tenant| tenant.as_str()))
        .and("principal = ?", query.principal.as_ref().map(|principal| principal.as_str()))
        .and("run_id = ?", query.run.as_ref().map(|run| run.as_str()))
        .and("state = ?", query.state.map(RunState::as_str))
        .and_all("(started_at, call_id) < (?, ?)", before)
        .then(&format!("{newest} ORDER BY started_at DESC, call_id DESC LIMIT {most}"))
}

/// Selects the runs that `instance` has taken over, and that [`leave_adopted`] marks as known.
pub(crate) fn adopted(instance: &str) -> Statement {
    let sql = format!(
        "SELECT {COLUMNS}, inputs, cancelled FROM runs \
         WHERE instance = ?1 AND state = 'running' AND adopted ORDER BY started_at"
    );
    Statement::new(sql, values![instance])
}

pub(crate) fn leave_adopted(instance: &str) -> Statement {
    let sql = "UPDATE runs SET adopted = FALSE WHERE instance = ?1 AND adopted";
    Statement::new(sql, values![instance])
}

pub(crate) fn results(run: &RunRecord) -> Statement {
    let sql = "SELECT step, result FROM run_results WHERE tenant = ?1 AND call_id = ?2";
    Statement::new(sql, values![run.tenant.as_str(), run.call_id.as_str()])
}

pub(crate) fn cancel(tenant: &TenantId, run: &RunId) -> Statement {
    let sql = "UPDATE runs SET cancelled = TRUE \
               WHERE tenant = ?1 AND run_id = ?2 AND state = 'running'";
    Statement::new(sql, values![tenant.as_str(), run.as_str()])
}

/// Counts and announces cancellations.
pub(crate) fn count_cancellations() -> Statement {
    let sql = "UPDATE meta SET value = value + 1 WHERE name = 'cancellations'";
    Statement::new(sql, Vec::new())
}

pub(crate) fn cancelled(instance: &str) -> Statement {
    let sql = "SELECT call_id FROM runs WHERE instance = ?1 AND state = 'running' AND cancelled";
    Statement::new(sql, values![instance])
}

/// Takes over the durable runs of the dead process `dead`, with the calls and tool sessions of the
/// workflows themselves. Closes the other runs as failed.
pub(crate) fn adopt(dead: &str, own: &str, now: Timestamp) -> [Statement; 4] {
    let take_over = |sql: &'static str| Statement::new(sql, values![dead, own]);
    [
        take_over(
            "UPDATE runs SET instance = ?2, adopted = TRUE \
             WHERE instance = ?1 AND state = 'running' AND inputs IS NOT NULL",
        ),
        take_over(
            "UPDATE open_calls SET instance = ?2 WHERE instance = ?1 AND EXISTS \
             (SELECT 1 FROM runs r WHERE r.tenant = open_calls.tenant \
              AND r.call_id = open_calls.call_id AND r.adopted AND r.state = 'running')",
        ),
        take_over(
            "UPDATE open_sessions SET instance = ?2 WHERE instance = ?1 AND EXISTS \
             (SELECT 1 FROM runs r WHERE r.tenant = open_sessions.tenant \
              AND r.run_id = open_sessions.run_id AND r.tool_id = open_sessions.tool_id \
              AND r.adopted AND r.state = 'running')",
        ),
        Statement::new(
            "UPDATE runs SET state = 'failed', code = 'interrupted', ended_at = ?2 \
             WHERE instance = ?1 AND state = 'running'",
            values![dead, now],
        ),
    ]
}

/// Reads a row of [`select`].
pub(crate) fn record<R: Columns>(row: &R) -> Result<RunRecord, R::Failure> {
    let row = Reader::new(row, "a run");
    let state = row.text(8)?;
    let state = RunState::ALL.iter().find(|known| known.as_str() == state);
    Ok(RunRecord {
        tenant: row.id(0)?,
        call_id: row.id(1)?,
        run_id: row.id(2)?,
        tool_id: row.id(3)?,
        digest: row.text(4)?,
        principal: row.id(5)?,
        key: row.maybe_id(6)?,
        parent: row.maybe_id(7)?,
        state: *state.ok_or_else(|| row.unreadable())?,
        code: row.maybe_text(9)?,
        durable: row.flag(10)?,
        started_at: row.time(11)?,
        ended_at: row.maybe_time(12)?,
    })
}

/// Reads a row of [`adopted`]; the results are read apart.
pub(crate) fn stored<R: Columns>(row: &R) -> Result<SealedRun, R::Failure> {
    let record = record(row)?;
    let row = Reader::new(row, "a run");
    let (inputs, cancelled) = (row.maybe_bytes(13)?, row.flag(14)?);
    Ok(SealedRun { record, inputs, cancelled, results: Vec::new() })
}

/// Reads a row of [`results`].
pub(crate) fn result<R: Columns>(row: &R) -> Result<(CallId, Vec<u8>), R::Failure> {
    let row = Reader::new(row, "a result of a run");
    Ok((row.id(0)?, row.bytes(1)?))
}

/// Reads a row of [`cancelled`].
pub(crate) fn call<R: Columns>(row: &R) -> Result<CallId, R::Failure> {
    Reader::new(row, "a run").id(0)
}

/// Opens a run. One that cannot be opened is returned without data, so that it can be closed.
pub(crate) fn open(keys: &SealKeys, stored: SealedRun) -> KeptRun {
    let SealedRun { record, inputs, cancelled, results } = stored;
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
