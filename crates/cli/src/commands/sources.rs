//! `sources list|check|logs`: the status of the sources, in this process or on a running server.

mod edit;

use std::collections::BTreeMap;

use serde::Deserialize;
use toolcrib_core::{
    id::TenantId,
    source::{SourceState, StderrLine},
    suggest,
};
use toolcrib_gateway::{
    BreakerReport, BreakerState, Gateway, QuotaReport, SourceReport, ToolsetReport,
};

use crate::{
    args::SourcesCommand,
    client::Client,
    context::Context,
    failure::{Exit, advised},
    local,
    printer::Printer,
    settings::Settings,
    table::{Column, Kind},
    text::rfc3339,
};

/// Limit of stderr lines printed for a failed source.
const SHOWN_LINES: usize = 10;

/// The response of `GET /v1/sources`, and details for the operator only.
#[derive(Deserialize)]
struct Status {
    sources: Vec<SourceReport>,
    #[serde(default)]
    toolsets: Vec<ToolsetReport>,
    /// The quota of the caller.
    quota: Option<QuotaReport>,
    /// The unresolved entries of each toolset, by its name.
    #[serde(skip)]
    references: BTreeMap<String, Vec<String>>,
    /// The last stderr lines of each source that is not ready. For a server, `sources logs`
    /// requests them.
    #[serde(skip)]
    stderr: Option<BTreeMap<String, Vec<StderrLine>>>,
}

const SOURCE_COLUMNS: &[Column<SourceReport>] = &[
    Column(Kind::Name, "source", |source| source.id.to_string()),
    Column(Kind::Text, "kind", |source| source.kind.to_string()),
    Column(Kind::State, "state", |source| state(source.status.state).to_owned()),
    Column(Kind::Name, "tools", |source| source.tools.to_string()),
    Column(Kind::Wide, "quarantined", |source| source.quarantined.to_string()),
    Column(Kind::Wide, "running", running),
    Column(Kind::Wide, "refused", refused_calls),
    Column(Kind::State, "breaker", |source| breaker(&source.breaker)),
    Column(Kind::Name, "problems", |source| source.problems.len().to_string()),
    Column(Kind::Wide, "restarts", |source| source.status.restarts.to_string()),
    Column(Kind::Wide, "since", |source| rfc3339(source.status.since)),
    Column(Kind::Text, "detail", |source| source.status.detail.clone().unwrap_or_default()),
];

const TOOLSET_COLUMNS: &[Column<ToolsetReport>] = &[
    Column(Kind::Name, "toolset", |toolset| toolset.name.clone()),
    Column(Kind::Name, "tools", |toolset| toolset.tools.to_string()),
    Column(Kind::Name, "unresolved", |toolset| toolset.unresolved.to_string()),
    Column(Kind::Text, "title", |toolset| toolset.title.clone().unwrap_or_default()),
];

pub(crate) async fn run(command: &SourcesCommand, cx: &Context) -> anyhow::Result<Exit> {
    match command {
        SourcesCommand::Logs { id } => return logs(id, cx).await,
        SourcesCommand::Add(args) => return edit::add(args, cx).await,
        SourcesCommand::Set(args) => return edit::set(args, cx).await,
        SourcesCommand::Remove(args) => return edit::remove(args, cx).await,
        SourcesCommand::List(_) | SourcesCommand::Check(_) => {}
    }
    let status = match Client::connect(cx)? {
        Some(client) => serde_json::from_value(client.get(&["v1", "sources"], &[]).await?)?,
        None => here(cx).await?,
    };
    print(&status, cx.printer)?;
    let Status { sources, toolsets, .. } = &status;
    let is_good =
        sources.iter().all(is_sound) && toolsets.iter().all(|toolset| toolset.unresolved == 0);
    match command {
        SourcesCommand::Check(_) if !is_good => Ok(Exit::Failed),
        _ => Ok(Exit::Done),
    }
}

fn is_sound(source: &SourceReport) -> bool {
    source.status.state.is_ready() && source.discovered_at.is_some() && !source.needs_attention
}

async fn logs(id: &str, cx: &Context) -> anyhow::Result<Exit> {
    let lines: Vec<StderrLine> = match Client::connect(cx)? {
        Some(client) => {
            match client.get_member(&["v1", "sources", id, "logs"], &[], "lines").await {
                Ok(lines) => lines,
                Err(error) => return Err(refused(error, id, &client).await),
            }
        }
        None => logs_here(id, cx).await?,
    };
    let printer = cx.printer;
    if printer.wants_json() {
        printer.json(&lines)?;
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        printer.note("the processes of this source have not written to stderr");
    }
    for StderrLine { at, line } in lines {
        printer.foreign(&format!("{} {line}", rfc3339(at)))?;
    }
    Ok(Exit::Done)
}

/// Refines `error`, the server's refusal to list the lines of source `id`: a source missing in the
/// server's list is reported as unknown.
async fn refused(error: anyhow::Error, id: &str, client: &Client) -> anyhow::Error {
    match client.get_names(&["v1", "sources"], "sources", "id").await {
        Ok(known) if !known.iter().any(|name| name == id) => {
            unknown(id, known.iter().map(String::as_str))
        }
        Ok(_) | Err(_) => error,
    }
}

/// Creates the error for an unknown source id.
fn unknown<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let suggestion = suggest::did_you_mean(id, known);
    advised(format!("no such source{suggestion}"), "`toolcrib sources list` shows the sources")
}

async fn logs_here(id: &str, cx: &Context) -> anyhow::Result<Vec<StderrLine>> {
    let Settings { config, data_dir, .. } = Settings::load(&cx.global)?;
    if !config.sources.iter().any(|source| source.spec.id.as_str() == id) {
        let known = config.sources.iter().map(|source| source.spec.id.as_str());
        return Err(unknown(id, known));
    }
    local::with_sources(config, &data_dir, cx.printer, async |gateway| {
        Ok(gateway.supply().stderr(None, id).unwrap_or_default())
    })
    .await
}

/// The last stderr lines of each source that is not ready.
fn last_lines(gateway: &Gateway, sources: &[SourceReport]) -> BTreeMap<String, Vec<StderrLine>> {
    let failed = sources.iter().filter(|source| !source.status.state.is_ready());
    let lines = failed.map(|source| {
        let lines = gateway.supply().stderr(None, source.id.as_str()).unwrap_or_default();
        let last = lines.len().saturating_sub(SHOWN_LINES);
        (source.id.to_string(), lines.into_iter().skip(last).collect())
    });
    lines.collect()
}

/// Starts the sources without a stored catalog, and reads their current status.
async fn here(cx: &Context) -> anyhow::Result<Status> {
    let Settings { config, data_dir, .. } = Settings::load(&cx.global)?;
    local::with_sources(config, &data_dir, cx.printer, async |gateway| {
        gateway.supply().settle_counts(local::COUNT_PATIENCE).await;
        let operator = local::operator(TenantId::parse("default")?, Vec::new())?;
        let snapshot = gateway.snapshot();
        let mut toolsets = snapshot.toolsets(&operator);
        let mut references = BTreeMap::new();
        for (shown, toolset) in toolsets.iter_mut().zip(snapshot.catalog.toolsets()) {
            // The operator can read the configuration, so this shows all of its references.
            shown.tools = toolset.len();
            references.insert(shown.name.clone(), toolset.unresolved.clone());
        }
        let sources = gateway.supply().reports();
        let stderr = Some(last_lines(gateway, &sources));
        Ok(Status { sources, toolsets, quota: None, references, stderr })
    })
    .await
}

fn print(status: &Status, printer: Printer) -> anyhow::Result<()> {
    let sources = &status.sources;
    printer.list(SOURCE_COLUMNS, sources, "there are no sources")?;
    if !printer.wants_json() {
        for source in sources {
            for problem in &source.problems {
                printer.foreign(&format!("{}: {problem}", source.id))?;
            }
            for remark in remarks(source) {
                printer.foreign(&format!("{}: {remark}", source.id))?;
            }
        }
    }
    for SourceReport { id, .. } in
        sources.iter().filter(|source| source.status.state == SourceState::Degraded)
    {
        match &status.stderr {
            Some(lines) => {
                for StderrLine { line, .. } in lines.get(id.as_str()).into_iter().flatten() {
                    printer.note_foreign(&format!("{id} (stderr): {line}"));
                }
            }
            None if !printer.wants_json() => {
                printer.note(format_args!("`toolcrib sources logs {id}` shows its stderr"));
            }
            None => {}
        }
    }
    for SourceReport { id, status, task_failures, discovered_at, .. } in sources {
        if status.state.is_ready() && discovered_at.is_none() {
            printer.warning(format_args!(
                "`{id}` is ready but has not listed its tools yet; run the command again"
            ));
        }
        if *task_failures > 0 {
            printer.warning(format_args!(
                "`{id}`: its background tasks failed {task_failures} times and were restarted; see \
                 the log"
            ));
        }
    }
    print_toolsets(status, printer)?;
    if let (Some(QuotaReport { used, limit, resets_at, .. }), false) =
        (&status.quota, printer.wants_json())
    {
        printer.note(format_args!(
            "{used} of {limit} calls of this key's principal today, until {}",
            rfc3339(*resets_at)
        ));
    }
    Ok(())
}

/// The notes about a source, and its parts that are not offered; they are not problems.
pub(super) fn remarks(source: &SourceReport) -> impl Iterator<Item = String> {
    let notes = source.notes.iter().map(|note| format!("note: {note}"));
    notes.chain(source.not_offered.iter().map(|part| format!("not offered: {part}")))
}

/// Prints the toolsets and warnings about them; with `--json` only the warnings, on stderr.
fn print_toolsets(status: &Status, printer: Printer) -> anyhow::Result<()> {
    for ToolsetReport { name, unresolved, .. } in &status.toolsets {
        let references = status.references.get(name).map(Vec::as_slice).unwrap_or_default();
        for reference in references {
            let problem = local::REACHES_NOTHING;
            printer.warning(format_args!("toolset \"{name}\": {reference} {problem}"));
        }
        if references.is_empty() && *unresolved > 0 {
            printer.warning(format_args!(
                "toolset \"{name}\": entries of its allow-list that reach no tool: {unresolved}"
            ));
        }
    }
    if printer.wants_json() || status.toolsets.is_empty() {
        return Ok(());
    }
    printer.line("")?;
    printer.table(TOOLSET_COLUMNS, &status.toolsets)
}

/// The running calls and their limit. A server does not count calls of other tenants.
fn running(report: &SourceReport) -> String {
    let running = report.load.calls.map_or("-".to_owned(), |calls| calls.running.to_string());
    format!("{running}/{}", report.load.max_concurrency)
}

fn refused_calls(report: &SourceReport) -> String {
    report.load.calls.map_or("-".to_owned(), |calls| {
        (calls.refused_by_rate + calls.refused_by_quota + calls.refused_by_breaker).to_string()
    })
}

/// The state of a breaker as text.
fn breaker(report: &BreakerReport) -> String {
    match (report.state, report.open_to_callers) {
        (BreakerState::Closed, callers @ 1..) => format!("closed, open to {callers}"),
        (BreakerState::Closed, 0) => "closed".to_owned(),
        (BreakerState::Off, _) => "off".to_owned(),
        (BreakerState::HalfOpen, _) => "half-open".to_owned(),
        (BreakerState::Open, _) => "open".to_owned(),
    }
}

/// The name of `state` in JSON.
fn state(state: SourceState) -> &'static str {
    match state {
        SourceState::Starting => "starting",
        SourceState::Ready => "ready",
        SourceState::Degraded => "degraded",
        SourceState::Stopped => "stopped",
    }
}
