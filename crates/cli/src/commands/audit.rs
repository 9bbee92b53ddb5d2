//! `audit`: reads and verifies the event log.
//!
//! Invariant: events are read in pages, so that an export of any length needs little memory.

mod accept;
mod export;
mod forwarders;
mod verify;

use std::time::Duration;

use anyhow::Context as _;
use chrono::SecondsFormat;
use serde::Deserialize;
use serde_json::Value;
use toolcrib_core::{
    egress::{EgressDecision, EgressReason},
    event::{CallStatus, EventBody, EventQuery, RunEvent, SessionOutcome},
    id::TenantId,
};

use crate::{
    args::{AuditCommand, ExportArgs, Global, TailArgs},
    failure::{Exit, usage},
    printer::Printer,
    target::Target,
};

/// Page size for reading events.
const PAGE: usize = 500;
/// Interval between two reads with `--follow`.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(crate) async fn run(
    command: AuditCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let (command, tenant) = match command {
        AuditCommand::Verify(args) => return verify::run(&args, global, printer).await,
        AuditCommand::Accept(args) => return accept::run(&args, global, printer).await,
        AuditCommand::Key => return verify::key(global, printer).await,
        AuditCommand::Forwarders(_) => return forwarders::run(global, printer).await,
        AuditCommand::Tail(args) => {
            let tenant = args.tenant.clone();
            (Reading::Tail(args), tenant)
        }
        AuditCommand::Export(args) => {
            let tenant = args.tenant.clone();
            (Reading::Export(args), tenant)
        }
    };
    let log = Log { target: Target::open(global, printer)?, tenant };
    if matches!(log.target, Target::Server(_)) && log.tenant.is_some() {
        return Err(usage("a server shows the events of the key's own tenant; leave out --tenant"));
    }
    let result = match command {
        Reading::Tail(args) => tail(&args, &log, printer).await,
        Reading::Export(args) => export::run(&args, &log, printer).await,
    };
    log.target.close().await;
    result.map(|()| Exit::Done)
}

/// A command that reads events.
enum Reading {
    Tail(TailArgs),
    Export(ExportArgs),
}

/// The event log: of one tenant or all tenants in a store, or of the key's tenant on a server.
struct Log {
    target: Target,
    tenant: Option<TenantId>,
}

/// An event with its position and, for a store, its tenant.
#[derive(Deserialize)]
struct Logged {
    position: u64,
    #[serde(skip)]
    tenant: Option<TenantId>,
    event: RunEvent,
}

/// The start of a page.
#[derive(Clone, Copy)]
enum From {
    /// The oldest events after this position.
    After(u64),
    /// This many of the newest events, in log order.
    Newest(usize),
}

impl Log {
    async fn read(&self, from: From) -> anyhow::Result<Vec<Logged>> {
        match &self.target {
            Target::Store(_, store) => {
                let mut query = EventQuery {
                    tenant: self.tenant.clone(),
                    limit: PAGE,
                    ..EventQuery::default()
                };
                match from {
                    From::After(position) => query.after = Some(position),
                    From::Newest(limit) => (query.limit, query.newest) = (limit, true),
                }
                let events = store.events().read(query).await?.into_iter();
                Ok(events
                    .map(|it| Logged {
                        position: it.position,
                        tenant: Some(it.tenant),
                        event: it.event,
                    })
                    .collect())
            }
            Target::Server(client) => {
                let query = match from {
                    From::After(position) => {
                        vec![("after", position.to_string()), ("limit", PAGE.to_string())]
                    }
                    From::Newest(limit) => vec![("limit", limit.to_string())],
                };
                let query: Vec<(&str, &str)> =
                    query.iter().map(|(k, v)| (*k, v.as_str())).collect();
                let mut page = client.get(&["v1", "events"], &query).await?;
                let events = page.get_mut("events").map(Value::take).unwrap_or_default();
                serde_json::from_value(events)
                    .context("the server returned a response without events")
            }
        }
    }

    /// Passes all events after `position` to `each`, page by page. Returns the last position and the
    /// number of events.
    async fn pages(
        &self,
        mut position: u64,
        each: impl Fn(&[Logged]) -> anyhow::Result<()>,
    ) -> anyhow::Result<(u64, usize)> {
        let mut count = 0;
        loop {
            let page = self.read(From::After(position)).await?;
            each(&page)?;
            position = page.last().map_or(position, |logged| logged.position);
            count += page.len();
            if page.len() < PAGE {
                return Ok((position, count));
            }
        }
    }
}

async fn tail(args: &TailArgs, log: &Log, printer: Printer) -> anyhow::Result<()> {
    let lines = usize::try_from(args.lines)?;
    // Reads at least one event, to determine the end of the log.
    let newest = log.read(From::Newest(lines.max(1))).await?;
    let mut position = newest.last().map_or(0, |logged| logged.position);
    let show_all = |page: &[Logged]| page.iter().try_for_each(|logged| show(logged, printer));
    show_all(newest.get(..lines.min(newest.len())).unwrap_or_default())?;
    if !args.follow {
        return Ok(());
    }
    loop {
        tokio::time::sleep(POLL_INTERVAL).await;
        position = log.pages(position, show_all).await?.0;
    }
}

fn show(logged: &Logged, printer: Printer) -> anyhow::Result<()> {
    match printer.wants_json() {
        true => printer.json_line(&logged.event),
        false => printer.line(for_people(logged)),
    }
}

fn for_people(Logged { tenant, event, .. }: &Logged) -> String {
    in_a_line(event, tenant.as_ref())
}

/// Returns an event as one line of text.
pub(super) fn told(event: &RunEvent) -> String {
    in_a_line(event, None)
}

fn in_a_line(event: &RunEvent, tenant: Option<&TenantId>) -> String {
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
            let failed = returned.error.as_ref().filter(|_| returned.status == CallStatus::Error);
            let code = failed.map(|error| format!(" {}", error.code));
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
        EventBody::EgressDecided(decided) => {
            let decision = match decided.decision {
                EgressDecision::Allowed => "allowed",
                EgressDecision::Denied => "denied",
                EgressDecision::Downgraded => "downgraded",
                EgressDecision::ApprovalRequired => "approval required",
            };
            let reason = decided.reason.filter(|reason| *reason != EgressReason::Ok);
            let reason = reason.and_then(|reason| serde_json::to_value(reason).ok());
            let reason = reason.as_ref().and_then(|reason| reason.as_str());
            let credential = decided.credential_id.as_ref();
            format!(
                "{} {decision}{}{}",
                decided.destination,
                reason.map(|why| format!(" ({why})")).unwrap_or_default(),
                credential.map(|id| format!(" with credential {id}")).unwrap_or_default(),
            )
        }
        EventBody::InterruptRequested(asked) => {
            format!("{} is pending (approval {})", asked.data.artifact_id, asked.key)
        }
        EventBody::ApprovalGranted(granted) => {
            let by_now = granted.quorum_progress;
            let by_now = by_now.map(|it| format!(", {} of {}", it.granted, it.required));
            let by_now = by_now.unwrap_or_default();
            format!("by {}{by_now} (approval {})", granted.principal, granted.gate_id)
        }
        EventBody::ApprovalRejected(rejected) => {
            let timeout = rejected.reason.as_deref() == Some("timeout");
            let by = if timeout { "by timeout" } else { "by" };
            let who = if timeout { String::new() } else { format!(" {}", rejected.principal) };
            format!("{by}{who} (approval {})", rejected.gate_id)
        }
        EventBody::ApprovalOverridden(it) => {
            format!("by {} (approval {})", it.principal, it.gate_id)
        }
        EventBody::RecordAccepted(accepted) => {
            let reason = accepted.reason.as_ref().map(|reason| format!(" ({reason})"));
            format!("by {}: {}{}", accepted.principal, accepted.problem, reason.unwrap_or_default())
        }
        EventBody::ToolSessionOpened(opened) => {
            format!("{} (session {})", opened.tool_id, opened.session_id)
        }
        EventBody::ToolSessionClosed(closed) => {
            let outcome = match closed.outcome {
                SessionOutcome::Completed => "completed",
                SessionOutcome::Failed => "failed",
                SessionOutcome::Cancelled => "cancelled",
            };
            format!("{} {outcome} (session {})", closed.tool_id, closed.session_id)
        }
        EventBody::ToolPinDrifted(drifted) => {
            let known = if drifted.approved.is_some() { "changed" } else { "is new" };
            let fate = if drifted.quarantined { "quarantined" } else { "offered" };
            format!("{} {known}, {fate}", drifted.tool_id)
        }
        EventBody::ToolPinApproved(approved) => {
            let by = approved.principal.as_ref().map(|by| format!(" by {by}"));
            format!("{} approved{}", approved.tool_id, by.unwrap_or_default())
        }
    };
    let tenant = tenant.map(|tenant| format!("{tenant:<12}  ")).unwrap_or_default();
    format!("{at}  {tenant}{:<21}  {what}", event.body.kind())
}
