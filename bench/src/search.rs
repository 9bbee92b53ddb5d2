//! Searches of a large record: how long each takes when the index is only stored, and when its
//! segments are in memory.

use std::{
    io::{Write as _, stdout},
    path::PathBuf,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use chrono::{DateTime, TimeDelta, Utc};
use toolcrib_core::{
    event::{
        CallStatus, EventBody, EventError, EventFilter, EventLog, NewEvent, ToolCalled,
        ToolReturned, Transport,
    },
    id::{AgentId, EventId, RunId, TenantId},
    record::RecordStore,
    store::Storage,
};
use toolcrib_gateway::audit::search::{EventSearch, Page};
use toolcrib_store::{Durability, Options, PostgresStore, SqliteStore};
use toolcrib_testkit::postgres::PostgresServer;

use crate::machine::Machine;

/// Events of one append.
const BATCH: usize = 2_000;
/// The time that the events cover.
const DAYS: i64 = 14;
const PRINCIPALS: usize = 40;
const TOOLS: usize = 60;
/// Measurements of each search in memory.
const REPEATS: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct SearchOptions {
    /// Events to write, if the store is empty
    #[arg(long, default_value_t = 1_000_000)]
    events: usize,
    /// The file of a SQLite store, which is created if it is missing; by default a temporary one
    #[arg(long)]
    file: Option<PathBuf>,
    /// The URL of a PostgreSQL database to use instead; without a URL, a server is started for it
    #[arg(long, value_name = "URL", num_args = 0..=1, conflicts_with = "file")]
    postgres: Option<Option<String>>,
    /// The tenant of the events
    #[arg(long, default_value = "default")]
    tenant: TenantId,
}

const QUERIES: &[&str] = &[
    "",
    "actor:user-7",
    "actor:user-7 tool:files__tool-3 status:failed",
    "status:denied after:24h",
    "tool:files__* source:files type:agent.toolReturned status:timeout",
    "actor:no-such-user",
    "after:14d before:13d status:failed",
];

pub(crate) async fn run(options: SearchOptions) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let settings = Options { durability: Durability::Relaxed, ..Options::default() };
    let Machine { date, processor, cores, .. } = Machine::read();
    writeln!(stdout(), "{date}, {processor}, {cores} cores")?;
    match &options.postgres {
        Some(Some(url)) => measure(&PostgresStore::open(url, settings).await?, &options).await,
        Some(None) => {
            let missing = "PostgreSQL is not installed; `cargo xtask setup` installs it";
            let server = PostgresServer::own_synced().context(missing)?;
            let store = PostgresStore::open(&server.database(), settings).await?;
            measure(&store, &options).await
        }
        None => {
            let file = options.file.clone().unwrap_or_else(|| directory.path().join("store.db"));
            measure(&SqliteStore::open(&file, settings)?, &options).await
        }
    }
}

async fn measure<S: Storage + EventLog + RecordStore>(
    store: &S,
    options: &SearchOptions,
) -> Result<()> {
    if store.last_position().await? == 0 {
        let begun = Instant::now();
        fill(store, options).await?;
        writeln!(stdout(), "{} events written in {:.1?}", options.events, begun.elapsed())?;
    }
    let search = EventSearch::new(store);
    let begun = Instant::now();
    search.find(Some(&options.tenant), &EventFilter::default(), Page::Newest(None), 1).await?;
    writeln!(stdout(), "the index was brought up to date in {:.1?}", begun.elapsed())?;
    writeln!(
        stdout(),
        "{:<72} {:>8} {:>10} {:>10}",
        "100 newest matches of",
        "found",
        "stored",
        "in memory"
    )?;
    let now = Utc::now();
    let (event, run) = first(store).await?;
    let of_ids = [format!("run:{run}"), format!("id:{event}")];
    for query in QUERIES.iter().map(|text| (*text).to_owned()).chain(of_ids) {
        let filter = EventFilter::parse(&query, now)?;
        let find = async |search: &EventSearch| {
            let begun = Instant::now();
            let tenant = Some(&options.tenant);
            let page = search.find(tenant, &filter, Page::Newest(None), 100).await?;
            anyhow::Ok((page.events.len(), begun.elapsed()))
        };
        let (found, stored) = find(&EventSearch::new(store)).await?;
        find(&search).await?;
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            times.push(find(&search).await?.1);
        }
        line(&query, &found.to_string(), stored, &mut times)?;
    }
    for query in ["", "after:24h", "actor:user-7"] {
        let filter = EventFilter::parse(query, now)?;
        let count = async |search: &EventSearch| {
            let begun = Instant::now();
            let summary = search.summary(&options.tenant, &filter, 60, now).await?;
            anyhow::Ok((summary.events, begun.elapsed()))
        };
        let (events, stored) = count(&EventSearch::new(store)).await?;
        let mut times = Vec::new();
        for _ in 0..REPEATS {
            times.push(count(&search).await?.1);
        }
        line(&format!("summary of {query:?}"), &events.to_string(), stored, &mut times)?;
    }
    Storage::close(store).await;
    Ok(())
}

fn line(name: &str, found: &str, stored: Duration, times: &mut [Duration]) -> Result<()> {
    times.sort_unstable();
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    let millis = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
    writeln!(stdout(), "{name:<72} {found:>8} {:>10} {:>10}", millis(stored), millis(median))?;
    Ok(())
}

/// The first event and its run. A search from the end finds it last.
async fn first(store: &impl EventLog) -> Result<(EventId, RunId)> {
    let first = store.at(&[1]).await?.into_iter().next().context("the store has no event")?;
    Ok((first.event.event_id, first.event.run_id))
}

async fn fill(store: &impl EventLog, options: &SearchOptions) -> Result<()> {
    let calls = options.events / 2;
    let step = TimeDelta::days(DAYS) / i32::try_from(calls.max(1))?;
    let mut at = Utc::now() - TimeDelta::days(DAYS);
    let mut batch = Vec::with_capacity(BATCH);
    for number in 0..calls {
        at += step;
        batch.extend(call(number, at, &options.tenant)?);
        if batch.len() >= BATCH {
            store.append(&batch).await?;
            batch.clear();
        }
    }
    store.append(&batch).await?;
    Ok(())
}

fn call(number: usize, at: DateTime<Utc>, tenant: &TenantId) -> Result<[NewEvent; 2]> {
    let id = || uuid::Uuid::now_v7().to_string();
    // Mixed, so that principals, tools and results are independent of one another.
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
    let source = ["files", "tickets", "search"].get(mixed % 3).copied().unwrap_or_default();
    let tool = format!("mcp:{source}.tool-{}", mixed / 3 % (TOOLS / 3));
    let call_id = id().parse()?;
    let opened = NewEvent {
        event_id: id().parse::<EventId>()?,
        tenant: tenant.clone(),
        run_id: id().parse()?,
        body: EventBody::ToolCalled(ToolCalled {
            agent_id: AgentId::system(),
            tool_name: tool.clone(),
            call_id,
            args_hash: Some("ab".repeat(32)),
            principal: format!("user-{}", mixed / 64 % PRINCIPALS).parse()?,
            transport: Transport::Mcp,
            actors: Vec::new(),
        }),
        timestamp: at,
        causation_id: None,
    };
    let EventBody::ToolCalled(called) = &opened.body else { anyhow::bail!("not a call") };
    let (status, code) = match mixed / 4_096 % 100 {
        0..3 => (CallStatus::Error, Some("timeout")),
        3 => (CallStatus::Error, Some("upstream_error")),
        4 => (CallStatus::Forbidden, Some("forbidden")),
        _ => (CallStatus::Ok, None),
    };
    let returned = ToolReturned {
        duration_ms: (status != CallStatus::Forbidden).then_some(u64::try_from(mixed / 128 % 400)?),
        error: code.map(|code| EventError::new(code, "fixed text")),
        principal: Some(called.principal.clone()),
        ..ToolReturned::new(AgentId::system(), tool, called.call_id.clone(), status)
    };
    let returned = NewEvent {
        event_id: id().parse()?,
        body: EventBody::ToolReturned(returned),
        timestamp: at + TimeDelta::milliseconds(20),
        causation_id: Some(opened.event_id.clone()),
        ..opened.clone()
    };
    Ok([opened, returned])
}
