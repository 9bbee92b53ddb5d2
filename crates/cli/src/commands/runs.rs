//! `runs list|show|cancel`: workflow runs, in the store or on a running server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{
    event::{EventQuery, RunEvent},
    id::{RunId, TenantId},
    store::{RunQuery, Storage},
};

use super::audit;
use crate::{
    args::{Global, RunListArgs, RunsCommand},
    client::Client,
    failure::{Exit, advised, usage},
    printer::Printer,
    table,
    target::Target,
};

/// A workflow run, with the members of `GET /v1/runs`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct WorkflowRun {
    run_id: String,
    call_id: String,
    tool_id: String,
    principal: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parent: Option<String>,
    state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    code: Option<String>,
    durable: bool,
    started_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended_at: Option<String>,
}

pub(crate) async fn run(
    command: RunsCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let target = Target::open(global, printer)?;
    let result = match &command {
        RunsCommand::List(args) => list(args, &target, printer).await,
        RunsCommand::Show { run } => show(run, &target, printer).await,
        RunsCommand::Cancel { run } => cancel(run, &target, printer).await,
    };
    target.close().await;
    result.map(|()| Exit::Done)
}

async fn list(args: &RunListArgs, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let runs = match target {
        Target::Store(_, store) => {
            let query = RunQuery {
                tenant: args.tenant.clone(),
                state: args.state,
                limit: usize::try_from(args.lines)?,
                ..RunQuery::default()
            };
            read_store(&**store, query).await?
        }
        Target::Server(_) if args.tenant.is_some() => {
            return Err(usage("a server lists only the runs of the key's tenant; omit --tenant"));
        }
        Target::Server(client) => {
            let lines = args.lines.to_string();
            let mut query = vec![("limit", lines.as_str())];
            query.extend(args.state.map(|state| ("state", state.as_str())));
            fetch(client, &query).await?
        }
    };
    if printer.wants_json() {
        return printer.json(&runs);
    }
    if runs.is_empty() {
        printer.note("no runs");
        return Ok(());
    }
    table(&runs, printer)
}

async fn show(run: &RunId, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let (runs, events) = match target {
        Target::Store(_, store) => {
            let query = RunQuery { run: Some(run.clone()), ..RunQuery::default() };
            let query_events = EventQuery { run: Some(run.clone()), ..EventQuery::default() };
            let events = store.events().read(query_events).await?;
            let events = events.into_iter().map(|logged| logged.event).collect();
            (read_store(&**store, query).await?, events)
        }
        Target::Server(client) => {
            let runs = fetch(client, &[("runId", run.as_str())]).await?;
            let mut body = client.get(&["v1", "runs", run.as_str(), "events"], &[]).await?;
            let events = body.get_mut("events").map(Value::take).unwrap_or_default();
            let events: Vec<RunEvent> = serde_json::from_value(events)?;
            (runs, events)
        }
    };
    if runs.is_empty() {
        return Err(unknown());
    }
    if printer.wants_json() {
        return printer.json(&json!({ "runs": runs, "events": events }));
    }
    table(&runs, printer)?;
    printer.line("")?;
    events.iter().try_for_each(|event| printer.line(audit::told(event)))
}

async fn cancel(run: &RunId, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let cancelled = match target {
        Target::Store(_, store) => {
            let runs = store.runs();
            let query = RunQuery { run: Some(run.clone()), ..RunQuery::default() };
            let found = runs.list(query).await?;
            let mut tenants: Vec<&TenantId> = found.iter().map(|run| &run.tenant).collect();
            tenants.dedup();
            if tenants.is_empty() {
                return Err(unknown());
            }
            let mut cancelled = 0;
            for tenant in tenants {
                cancelled += runs.request_cancellation(tenant, run).await?;
            }
            cancelled
        }
        Target::Server(client) => {
            let body = client.post(&["v1", "runs", run.as_str(), "cancel"]).await?;
            let count = body.get("cancelled").and_then(Value::as_u64);
            usize::try_from(count.unwrap_or_default())?
        }
    };
    if printer.wants_json() {
        return printer.json(&json!({ "runId": run, "cancelled": cancelled }));
    }
    match cancelled {
        0 => printer.note("no workflow of this run is running"),
        1 => printer.note("cancelling one workflow"),
        count => printer.note(format_args!("cancelling {count} workflows")),
    }
    Ok(())
}

async fn read_store(store: &dyn Storage, query: RunQuery) -> anyhow::Result<Vec<WorkflowRun>> {
    let found = store.runs().list(query).await?;
    Ok(serde_json::from_value(serde_json::to_value(found)?)?)
}

async fn fetch(client: &Client, query: &[(&str, &str)]) -> anyhow::Result<Vec<WorkflowRun>> {
    let mut body = client.get(&["v1", "runs"], query).await?;
    let runs = body.get_mut("runs").map(Value::take).unwrap_or_default();
    Ok(serde_json::from_value(runs)?)
}

fn unknown() -> anyhow::Error {
    advised("no workflow run with this id", "list the runs with `toolcrib runs list`")
}

fn table(runs: &[WorkflowRun], printer: Printer) -> anyhow::Result<()> {
    let rows = runs.iter().map(|run| {
        let state = match &run.code {
            Some(code) => format!("{} ({code})", run.state),
            None => run.state.clone(),
        };
        [
            run.tool_id.clone(),
            state,
            run.principal.clone(),
            run.started_at.clone(),
            run.ended_at.clone().unwrap_or_default(),
            run.run_id.clone(),
        ]
    });
    let head = [
        table::text("workflow"),
        table::state("state"),
        table::text("principal"),
        table::time("started"),
        table::time("ended"),
        table::name("run"),
    ];
    printer.table(head, rows)
}
