//! `audit export`: the event log in the format of another program.
//!
//! Invariant: events are read in pages, so that an export of any length needs little memory.

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::Value;
use toolcrib_core::{
    canonical::Digest,
    event::RunEvent,
    record::{Checkpoint, RecordFormat, StoredEvent, StoredQuery},
};
use toolcrib_gateway::{
    audit::{
        csv,
        search::{FoundEvent, Page},
    },
    export,
};

use super::log::{Log, PAGE};
use crate::{
    args::{ExportArgs, ExportFormat},
    client::Client,
    failure::usage,
    printer::Printer,
    target::Target,
};

/// Appends events to lines; the result is the number of malformed events.
type WriteEvents = fn(&[StoredEvent], &mut Vec<u8>) -> anyhow::Result<usize>;

pub(super) async fn run(args: &ExportArgs, log: &Log, printer: Printer) -> anyhow::Result<()> {
    let mut after = args.after.unwrap_or(0);
    let (mut count, mut left_out) = (0, 0);
    if args.checkpoints {
        if args.format != ExportFormat::Jsonl {
            return Err(usage("only the format jsonl has checkpoints"));
        }
        if !log.conditions.filter.is_empty() {
            return Err(usage("an export with conditions cannot be verified with checkpoints"));
        }
        log.each_checkpoint(args.until, |checkpoint| printer.json_line(&checkpoint)).await?;
    }
    let write: WriteEvents = match args.format {
        ExportFormat::Jsonl => {
            |events, lines| Ok(export::write(RecordFormat::Jsonl, events, lines))
        }
        ExportFormat::Ocsf => |events, lines| Ok(export::write(RecordFormat::Ocsf, events, lines)),
        ExportFormat::Cloudevents => {
            |events, lines| Ok(export::write(RecordFormat::CloudEvents, events, lines))
        }
        ExportFormat::Events => write_bare,
        ExportFormat::Csv => return table(args, log, printer).await,
    };
    loop {
        let ExportPage { mut events, next } = log.stored(after).await?;
        let ended = next <= after || args.until.is_some_and(|until| next >= until);
        events.retain(|(position, _)| args.until.is_none_or(|until| *position <= until));
        after =
            events.last().map_or(after, |(last, _)| *last).max(if ended { after } else { next });
        count += events.len();
        let events: Vec<StoredEvent> = events.into_iter().map(|(_, event)| event).collect();
        // Writes whole pages, because one write per line takes longer than reading the events.
        let mut lines = Vec::new();
        left_out += write(&events, &mut lines)?;
        printer.bytes(&lines)?;
        if ended {
            break;
        }
    }
    if left_out > 0 {
        printer.warning(format_args!(
            "{left_out} malformed events were skipped; `toolcrib audit verify` shows details"
        ));
    }
    printer.note(format_args!("{count} events; continue with --after {after}"));
    Ok(())
}

/// Prints the events as CSV.
async fn table(args: &ExportArgs, log: &Log, printer: Printer) -> anyhow::Result<()> {
    let store = match &log.target {
        Target::Store(_, store) => store,
        Target::Server(client) => {
            if args.after.is_some() || args.until.is_some() {
                return Err(usage(
                    "a server writes the whole record, or the events of conditions, as csv; leave out \
                     --after and --until",
                ));
            }
            let parameters = log.conditions.parameters.iter();
            let mut query: Vec<_> =
                parameters.map(|(name, value)| (*name, value.as_str())).collect();
            query.push(("format", "csv"));
            let path = ["v1", "events", "export"];
            return client.parts(&path, &query, |rows| printer.bytes(rows)).await;
        }
    };
    let mut rows = Vec::new();
    csv::write_header(&mut rows);
    let mut after = args.after.unwrap_or(0);
    loop {
        let mut found = log.find(&**store, Page::After(after), PAGE).await?;
        let ended = found.next <= after || args.until.is_some_and(|until| found.next >= until);
        found.events.retain(|event| args.until.is_none_or(|until| event.logged.position <= until));
        csv::write(&found.events, &mut rows);
        printer.bytes(&rows)?;
        rows.clear();
        after = found.next;
        if ended {
            return Ok(());
        }
    }
}

/// Appends the events to `lines` as bare RunEvents, one per line; the result is the number of
/// malformed events.
fn write_bare(events: &[StoredEvent], lines: &mut Vec<u8>) -> anyhow::Result<usize> {
    let mut left_out = 0;
    for event in events {
        let mut line = Vec::new();
        export::write(RecordFormat::Jsonl, std::slice::from_ref(event), &mut line);
        let Ok(Value::Object(mut members)) = serde_json::from_slice(&line) else {
            left_out += 1;
            continue;
        };
        members.remove("chain");
        serde_json::to_writer(&mut *lines, &members)?;
        lines.push(b'\n');
    }
    Ok(left_out)
}

/// An event in the response of a server.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListedEvent {
    position: u64,
    prev_hash: String,
    hash: String,
    event: RunEvent,
}

impl Log {
    /// Passes every checkpoint to `each`, tenant by tenant, in order. `to` limits the position, which
    /// requires a single tenant.
    async fn each_checkpoint(
        &self,
        to: Option<u64>,
        mut each: impl FnMut(Checkpoint) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let inside = |checkpoint: &Checkpoint| to.is_none_or(|to| checkpoint.position <= to);
        let store = match &self.target {
            Target::Store(..) if to.is_some() && self.tenant.is_none() => {
                return Err(usage("--checkpoints and --until together need --tenant"));
            }
            Target::Store(_, store) => store.record(),
            Target::Server(client) => {
                let all = checkpoints(client).await?.into_iter();
                return all.take_while(inside).try_for_each(each);
            }
        };
        let mut tenants = match &self.tenant {
            Some(tenant) => vec![tenant.clone()],
            None => store.tenants(None).await?,
        };
        while let Some(last) = tenants.last().cloned() {
            for tenant in &tenants {
                let mut after = 0;
                loop {
                    let page = store.checkpoints(tenant, after).await?;
                    let Some(last) = page.last() else { break };
                    after = last.number;
                    let length = page.len();
                    let page: Vec<_> = page.into_iter().take_while(inside).collect();
                    let ended = page.len() < length;
                    page.into_iter().try_for_each(&mut each)?;
                    if ended {
                        break;
                    }
                }
            }
            tenants = match &self.tenant {
                Some(_) => Vec::new(),
                None => store.tenants(Some(&last)).await?,
            };
        }
        Ok(())
    }

    /// The next page of events after `after`, with their positions.
    async fn stored(&self, after: u64) -> anyhow::Result<ExportPage> {
        match &self.target {
            Target::Store(_, store) if self.conditions.filter.is_empty() => {
                let own = self.tenant.is_some();
                let tenant = self.tenant.clone();
                let query = StoredQuery { tenant, after, limit: PAGE, with_prev: true };
                let place = |event: &StoredEvent| match own {
                    true => event.tenant_position,
                    false => event.position,
                };
                let page = store.record().stored(query).await?;
                let events: Vec<_> = page.into_iter().map(|event| (place(&event), event)).collect();
                let next = events.last().map_or(after, |(last, _)| *last);
                Ok(ExportPage { events, next })
            }
            Target::Store(_, store) => {
                let found = self.find(&**store, Page::After(after), PAGE).await?;
                let stored =
                    |event: &FoundEvent| Ok((event.logged.position, event.logged.stored()?));
                let events = found.events.iter().map(stored).collect::<anyhow::Result<_>>()?;
                Ok(ExportPage { events, next: found.next })
            }
            Target::Server(client) => remote(client, after, &self.conditions.parameters).await,
        }
    }
}

/// A page of events, each with its position.
pub(super) struct ExportPage {
    pub(super) events: Vec<(u64, StoredEvent)>,
    /// Where to continue; everything up to here was read.
    pub(super) next: u64,
}

/// Reads the checkpoints of the key's tenant from a server.
pub(super) async fn checkpoints(client: &Client) -> anyhow::Result<Vec<Checkpoint>> {
    let mut checkpoints: Vec<Checkpoint> = Vec::new();
    loop {
        let after = checkpoints.last().map_or(0, |last| last.number).to_string();
        let path = ["v1", "record", "checkpoints"];
        let query = [("after", after.as_str())];
        let page: Vec<Checkpoint> = client.get_member(&path, &query, "checkpoints").await?;
        if page.is_empty() {
            return Ok(checkpoints);
        }
        checkpoints.extend(page);
    }
}

/// Reads a page of events of the key's tenant from a server, with their hashes.
pub(super) async fn remote(
    client: &Client,
    after: u64,
    conditions: &[(&'static str, String)],
) -> anyhow::Result<ExportPage> {
    let (from, limit) = (after.to_string(), PAGE.to_string());
    let mut query = vec![("after", from.as_str()), ("limit", limit.as_str())];
    query.extend(conditions.iter().map(|(name, value)| (*name, value.as_str())));
    let mut page = client.get(&["v1", "events"], &query).await?;
    let other = "the server returned a response without events and hashes";
    let tenant = page.get("tenant").and_then(Value::as_str).context(other)?.to_owned();
    let next = page.get("next").and_then(Value::as_u64).unwrap_or(after);
    let events = page.get_mut("events").map(Value::take).unwrap_or_default();
    let listed: Vec<ListedEvent> = serde_json::from_value(events).context(other)?;
    let stored = listed.into_iter().map(|listed| {
        let ListedEvent { position, prev_hash, hash, event } = listed;
        let stored = StoredEvent {
            prev: Digest::parse(&prev_hash),
            hash: Digest::parse(&hash),
            ..event.stored(&tenant, position)?
        };
        anyhow::Ok((position, stored))
    });
    Ok(ExportPage { events: stored.collect::<anyhow::Result<_>>()?, next })
}
