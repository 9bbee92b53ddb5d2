//! `runs list|show|cancel`: workflow runs, in the store or on a running server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{
    event::{EventQuery, RunEvent},
    id::{RunId, TenantId},
    store::{RunQuery, Storage},
};

use super::audit::event_line;
use crate::{
    args::{RunListArgs, RunsCommand},
    client::Client,
    context::Context,
    failure::{Exit, advised, usage},
    prefix,
    printer::Printer,
    table::{Column, Kind},
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

/// How many runs are searched for a prefix.
const NEWEST: usize = 1000;

const COLUMNS: &[Column<WorkflowRun>] = &[
    Column(Kind::Text, "workflow", |run| run.tool_id.clone()),
    Column(Kind::State, "state", |run| match &run.code {
        Some(code) => format!("{} ({code})", run.state),
        None => run.state.clone(),
    }),
    Column(Kind::Text, "principal", |run| run.principal.clone()),
    Column(Kind::Time, "started", |run| run.started_at.clone()),
    Column(Kind::Time, "ended", |run| run.ended_at.clone().unwrap_or_default()),
    Column(Kind::Id, "run", |run| run.run_id.clone()),
];

pub(crate) async fn run(command: RunsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let target = Target::open(cx).await?;
    let printer = cx.printer;
    let result = match &command {
        RunsCommand::List(args) => list(args, &target, printer).await,
        RunsCommand::Show { run } => match completed(run, &target).await {
            Ok(run) => show(&run, &target, printer).await,
            Err(error) => Err(error),
        },
        RunsCommand::Cancel { run } => match completed(run, &target).await {
            Ok(run) => cancel(&run, &target, printer).await,
            Err(error) => Err(error),
        },
    };
    target.close().await;
    result.map(|()| Exit::Done)
}

/// Completes `typed` to the id of one of the newest runs that it equals or starts; `typed` if none
/// matches.
async fn completed(typed: &RunId, target: &Target) -> anyhow::Result<RunId> {
    if !prefix::is_short(typed.as_str()) {
        return Ok(typed.clone());
    }
    let runs = match target {
        Target::Store(_, store) => {
            let query = RunQuery { limit: NEWEST, ..RunQuery::default() };
            read_store(&**store, query).await?
        }
        Target::Server(client) => fetch(client, &[("limit", &NEWEST.to_string())]).await?,
    };
    let ids = runs.into_iter().map(|run| run.run_id);
    let found = prefix::resolve(typed.as_str(), "run", ids)?;
    Ok(found.map(RunId::parse).transpose()?.unwrap_or_else(|| typed.clone()))
}

async fn list(args: &RunListArgs, target: &Target, printer: Printer) -> anyhow::Result<()> {
    let runs = match target {
        Target::Store(_, store) => {
            let query = RunQuery {
                tenant: args.page.tenant.clone(),
                state: args.state,
                limit: usize::try_from(args.page.lines)?,
                ..RunQuery::default()
            };
            read_store(&**store, query).await?
        }
        Target::Server(_) if args.page.tenant.is_some() => {
            return Err(usage("a server lists only the runs of the key's tenant; omit --tenant"));
        }
        Target::Server(client) => {
            let lines = args.page.lines.to_string();
            let mut query = vec![("limit", lines.as_str())];
            query.extend(args.state.map(|state| ("state", state.as_str())));
            fetch(client, &query).await?
        }
    };
    printer.list(COLUMNS, &runs, "there are no runs")
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
            let path = ["v1", "runs", run.as_str(), "events"];
            let events: Vec<RunEvent> = client.get_member(&path, &[], "events").await?;
            (runs, events)
        }
    };
    if runs.is_empty() {
        return Err(unknown());
    }
    if printer.wants_json() {
        return printer.json(&json!({ "runs": runs, "events": events }));
    }
    printer.table(COLUMNS, &runs)?;
    printer.line("")?;
    events.iter().try_for_each(|event| printer.line(event_line(event, None)))
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
            let body = client.post(&["v1", "runs", run.as_str(), "cancel"], None).await?;
            let count = body.get("cancelled").and_then(Value::as_u64);
            usize::try_from(count.unwrap_or_default())?
        }
    };
    let note = match cancelled {
        0 => "no workflow of this run is running".to_owned(),
        1 => "cancelling one workflow".to_owned(),
        count => format!("cancelling {count} workflows"),
    };
    printer.json_or_note(&json!({ "runId": run, "cancelled": cancelled }), note)
}

async fn read_store(store: &dyn Storage, query: RunQuery) -> anyhow::Result<Vec<WorkflowRun>> {
    let found = store.runs().list(query).await?;
    Ok(serde_json::from_value(serde_json::to_value(found)?)?)
}

async fn fetch(client: &Client, query: &[(&str, &str)]) -> anyhow::Result<Vec<WorkflowRun>> {
    client.get_member(&["v1", "runs"], query, "runs").await
}

fn unknown() -> anyhow::Error {
    advised("no workflow run with this id", "list the runs with `toolcrib runs list`")
}
