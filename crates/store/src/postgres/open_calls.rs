//! The calls and tool sessions that events open and close.

use deadpool_postgres::Transaction;
use toolcrib_core::event::{EventBody, ToolCalled};

use super::{
    entry::Record,
    failure::Failure,
    row::{execute, rows},
};

/// A call that a record of this batch opened.
struct OpenedCall<'a> {
    index: usize,
    record: &'a Record,
    call: &'a ToolCalled,
    place: i64,
}

/// Notes what `records` open and close; `places` are their positions in the logs of their tenants.
/// Requires the locks of the tenants.
pub(super) async fn apply(
    transaction: &Transaction<'_>,
    records: &[&Record],
    places: &[i64],
    instance: &str,
) -> Result<(), Failure> {
    let mut opened: Vec<OpenedCall<'_>> = Vec::new();
    let mut closing = Vec::new();
    for (index, (record, place)) in records.iter().zip(places).enumerate() {
        let event = record.event();
        let (tenant, run) = (event.tenant.as_str(), event.run_id.as_str());
        match record.body() {
            EventBody::ToolCalled(call) => {
                opened.push(OpenedCall { index, record, call, place: *place });
            }
            EventBody::ToolReturned(returned) => {
                let call = &returned.call_id;
                let cause = event.causation_id.as_ref();
                let own = opened.iter().position(|earlier| {
                    earlier.call.call_id == *call
                        && earlier.is_of(record)
                        && cause == Some(&earlier.record.event().event_id)
                });
                match own {
                    Some(own) => drop(opened.remove(own)),
                    None => closing.push((index, *record, call)),
                }
            }
            // A tool is open in a session at most once: opening it again changes the holder.
            EventBody::ToolSessionOpened(body) => {
                let sql = "INSERT INTO open_sessions (tenant, run_id, session_id, tool_id, \
                           tenant_position, event_id, instance) VALUES ($1, $2, $3, $4, $5, $6, $7) \
                           ON CONFLICT (tenant, run_id, session_id, tool_id) DO UPDATE SET \
                           tenant_position = excluded.tenant_position, \
                           event_id = excluded.event_id, instance = excluded.instance";
                let (session, tool) = (body.session_id.as_str(), body.tool_id.as_str());
                let id = event.event_id.as_str();
                execute(transaction, sql, &[&tenant, &run, &session, &tool, place, &id, &instance])
                    .await?;
            }
            EventBody::ToolSessionClosed(body) => {
                let sql = "DELETE FROM open_sessions WHERE tenant = $1 AND run_id = $2 \
                           AND session_id = $3 AND tool_id = $4";
                let (session, tool) = (body.session_id.as_str(), body.tool_id.as_str());
                execute(transaction, sql, &[&tenant, &run, &session, &tool]).await?;
            }
            _ => {}
        }
    }
    close(transaction, closing, &mut opened).await?;
    open(transaction, &opened, instance).await
}

/// One return closes one call: preferably the open one that it names as its cause, else the oldest.
async fn close(
    transaction: &Transaction<'_>,
    closing: Vec<(usize, &Record, &toolcrib_core::id::CallId)>,
    opened: &mut Vec<OpenedCall<'_>>,
) -> Result<(), Failure> {
    if closing.is_empty() {
        return Ok(());
    }
    let text =
        |of: fn(&Record) -> &str| closing.iter().map(|entry| of(entry.1)).collect::<Vec<_>>();
    let tenants = text(|record| record.event().tenant.as_str());
    let runs = text(|record| record.event().run_id.as_str());
    let causes =
        text(|record| record.event().causation_id.as_ref().map_or("", |cause| cause.as_str()));
    let calls: Vec<&str> = closing.iter().map(|entry| entry.2.as_str()).collect();
    let sql = "DELETE FROM open_calls o USING unnest($1::text[], $2::text[], $3::text[], \
               $4::text[]) WITH ORDINALITY AS c (tenant, run, call, cause, number) \
               WHERE o.tenant = c.tenant AND o.run_id = c.run AND o.call_id = c.call \
               AND o.event_id = c.cause RETURNING c.number";
    let mut done = Vec::new();
    for row in rows(transaction, sql, &[&tenants, &runs, &calls, &causes]).await? {
        done.push(usize::try_from(row.try_get::<_, i64>(0)?).unwrap_or(0));
    }
    for (number, (index, record, call)) in closing.iter().enumerate() {
        if done.contains(&(number + 1)) {
            continue;
        }
        let sql = "DELETE FROM open_calls WHERE (tenant, tenant_position) IN \
                   (SELECT tenant, tenant_position FROM open_calls WHERE tenant = $1 \
                    AND run_id = $2 AND call_id = $3 ORDER BY tenant_position LIMIT 1)";
        let event = record.event();
        let name = [event.tenant.as_str(), event.run_id.as_str(), call.as_str()];
        let [tenant, run, id] = &name;
        if execute(transaction, sql, &[tenant, run, id]).await? == 0 {
            let same = |earlier: &OpenedCall<'_>| {
                earlier.index < *index && earlier.call.call_id == **call && earlier.is_of(record)
            };
            if let Some(own) = opened.iter().position(same) {
                opened.remove(own);
            }
        }
    }
    Ok(())
}

async fn open(
    transaction: &Transaction<'_>,
    opened: &[OpenedCall<'_>],
    instance: &str,
) -> Result<(), Failure> {
    if opened.is_empty() {
        return Ok(());
    }
    let text = |of: fn(&OpenedCall<'_>) -> String| opened.iter().map(of).collect::<Vec<_>>();
    let places: Vec<i64> = opened.iter().map(|entry| entry.place).collect();
    let sql = "INSERT INTO open_calls (tenant, tenant_position, run_id, call_id, event_id, \
               agent_id, tool_name, principal, instance) \
               SELECT n.*, $9 FROM unnest($1::text[], $2::bigint[], $3::text[], $4::text[], \
               $5::text[], $6::text[], $7::text[], $8::text[]) AS n";
    execute(
        transaction,
        sql,
        &[
            &text(|entry| entry.record.event().tenant.to_string()),
            &places,
            &text(|entry| entry.record.event().run_id.to_string()),
            &text(|entry| entry.call.call_id.to_string()),
            &text(|entry| entry.record.event().event_id.to_string()),
            &text(|entry| entry.call.agent_id.to_string()),
            &text(|entry| entry.call.tool_name.clone()),
            &text(|entry| entry.call.principal.to_string()),
            &instance,
        ],
    )
    .await?;
    Ok(())
}

impl OpenedCall<'_> {
    fn is_of(&self, record: &Record) -> bool {
        let (own, event) = (self.record.event(), record.event());
        own.tenant == event.tenant && own.run_id == event.run_id
    }
}
