//! `audit`: reads and verifies the event log.

mod accept;
mod export;
mod forwarders;
mod line;
mod log;
mod verify;

use std::time::Duration;

use crate::{
    args::{AuditCommand, TailArgs},
    context::Context,
    failure::{Exit, usage},
    printer::Printer,
    target::Target,
};

pub(super) use line::event_line;
use log::{Conditions, Log, LoggedEvent, Start};

/// Interval between two reads with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(command: AuditCommand, cx: &Context) -> anyhow::Result<Exit> {
    let (tenant, conditions) = match &command {
        AuditCommand::Verify(args) => return verify::run(args, cx).await,
        AuditCommand::Accept(args) => return accept::run(args, cx).await,
        AuditCommand::Key => return verify::key(cx).await,
        AuditCommand::Forwarders(_) => return forwarders::run(cx).await,
        AuditCommand::Tail(args) => (args.tenant.clone(), Conditions::new(&args.filter)?),
        AuditCommand::Export(args) => (args.tenant.clone(), Conditions::new(&args.filter)?),
    };
    let log = Log::new(Target::open(cx).await?, tenant, conditions);
    if matches!(log.target, Target::Server(_)) && log.tenant.is_some() {
        return Err(usage("a server shows the events of the key's own tenant; leave out --tenant"));
    }
    let result = match &command {
        AuditCommand::Tail(args) => tail(args, &log, cx.printer).await,
        AuditCommand::Export(args) => export::run(args, &log, cx.printer).await,
        _ => Ok(()),
    };
    log.target.close().await;
    result.map(|()| Exit::Done)
}

async fn tail(args: &TailArgs, log: &Log, printer: Printer) -> anyhow::Result<()> {
    let lines = usize::try_from(args.lines)?;
    // Reads at least one event, to determine the end of the log.
    let newest = log.read(Start::Newest(lines.max(1))).await?;
    let mut position = newest.next;
    let show_all = |page: &[LoggedEvent]| page.iter().try_for_each(|logged| show(logged, printer));
    show_all(newest.events.get(..lines.min(newest.events.len())).unwrap_or_default())?;
    if !args.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        position = log.pages(position, show_all).await?;
    }
}

fn show(LoggedEvent { tenant, event, .. }: &LoggedEvent, printer: Printer) -> anyhow::Result<()> {
    match printer.wants_json() {
        true => printer.json_line(event),
        false => printer.line(event_line(event, tenant.as_ref())),
    }
}
