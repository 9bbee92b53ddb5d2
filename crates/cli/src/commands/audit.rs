//! `audit tail|export`: the record, for people and for programs.
//!
//! Invariant: events are read in pages, so that an export of any length needs little memory.

use std::time::Duration;

use chrono::SecondsFormat;
use toolcrib_core::{
    event::{CallStatus, EventBody, EventLog, EventQuery, LoggedEvent, RunEvent},
    id::TenantId,
};
use toolcrib_store::SqliteStore;

use crate::{
    args::{AuditCommand, ExportArgs, Global, TailArgs},
    failure::Exit,
    printer::Printer,
    settings::{self, Settings},
    store,
};

/// Events read at once.
const PAGE: usize = 500;
/// How often a following reader looks for news.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) async fn run(
    command: AuditCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    settings::no_url(global, "the record is read")?;
    let store = store::open_existing(&Settings::load(global)?.config)?;
    let result = match command {
        AuditCommand::Tail(args) => tail(args, &store, printer).await,
        AuditCommand::Export(args) => export(args, &store, printer).await,
    };
    store.close().await;
    result.map(|()| Exit::Done)
}

async fn tail(args: TailArgs, store: &SqliteStore, printer: Printer) -> anyhow::Result<()> {
    // Where the log ends now, so that nothing between the two reads is lost.
    let newest = EventQuery { limit: 1, newest: true, ..EventQuery::default() };
    let end = store.read(newest).await?.last().map(|event| event.position);
    let mut after = end;
    if args.lines > 0 {
        let limit = usize::try_from(args.lines)?;
        let query =
            EventQuery { tenant: args.tenant.clone(), limit, newest: true, ..EventQuery::default() };
        for event in store.read(query).await? {
            after = after.max(Some(event.position));
            show(&event, printer)?;
        }
    }
    while args.follow {
        tokio::time::sleep(LOOK).await;
        after = pages(args.tenant.as_ref(), after, store, |event| show(event, printer)).await?.0;
    }
    Ok(())
}

async fn export(args: ExportArgs, store: &SqliteStore, printer: Printer) -> anyhow::Result<()> {
    let line = |event: &LoggedEvent| printer.json_line(&event.event);
    let (end, count) = pages(args.tenant.as_ref(), args.after, store, line).await?;
    match end {
        Some(end) => printer.note(format_args!("{count} events; go on with --after {end}")),
        None => printer.note("no events"),
    }
    Ok(())
}

/// Everything after `after`, page by page: the last position and how many there were.
async fn pages(
    tenant: Option<&TenantId>,
    mut after: Option<u64>,
    store: &SqliteStore,
    each: impl Fn(&LoggedEvent) -> anyhow::Result<()>,
) -> anyhow::Result<(Option<u64>, u64)> {
    let mut count = 0;
    loop {
        let query =
            EventQuery { tenant: tenant.cloned(), after, limit: PAGE, ..EventQuery::default() };
        let page = store.read(query).await?;
        for event in &page {
            each(event)?;
            after = Some(event.position);
            count += 1;
        }
        if page.len() < PAGE {
            return Ok((after, count));
        }
    }
}

fn show(event: &LoggedEvent, printer: Printer) -> anyhow::Result<()> {
    match printer.wants_json() {
        true => printer.json_line(&event.event),
        false => printer.line(for_people(&event.tenant, &event.event)),
    }
}

fn for_people(tenant: &TenantId, event: &RunEvent) -> String {
    let at = event.timestamp.to_rfc3339_opts(SecondsFormat::Millis, true);
    let what = match &event.body {
        EventBody::ToolCalled(called) => {
            format!("{} by {} (call {})", called.tool_name, called.principal, called.call_id)
        }
        EventBody::ToolReturned(returned) => {
            let status = match returned.status {
                CallStatus::Ok => "ok",
                CallStatus::Error => "error",
                CallStatus::Forbidden => "forbidden",
                CallStatus::RateLimited => "rate_limited",
            };
            let code = returned.error.as_ref().map(|error| format!(" {}", error.code));
            let took = returned.duration_ms.map(|ms| format!(" after {ms} ms"));
            format!(
                "{} {status}{}{} (call {})",
                returned.tool_name,
                code.unwrap_or_default(),
                took.unwrap_or_default(),
                returned.call_id
            )
        }
        EventBody::AuthorizationDecided(decided) => format!(
            "{} of {} by {}: {}{}",
            decided.action,
            decided.resource,
            decided.principal,
            if decided.allowed { "allowed" } else { "denied" },
            decided.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
        ),
    };
    format!("{at}  {tenant:<12}  {:<21}  {what}", event.body.kind())
}
