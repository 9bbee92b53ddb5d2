//! `sources list|check|logs`: the status of the sources, in this process or on a running server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::{id::TenantId, source::SourceState, suggest};
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, SourcesCommand},
    client::Client,
    failure::{Exit, advised},
    local::{self, Local},
    printer::Printer,
    settings::Settings,
    table,
};

/// Limit of stderr lines printed for a failed source.
const SHOWN_LINES: usize = 10;

/// The printed members of a source in `GET /v1/sources`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct SourceStatus {
    id: String,
    kind: String,
    state: String,
    detail: Option<String>,
    since: String,
    restarts: u64,
    tools: u64,
    #[serde(default)]
    quarantined: u64,
    /// Running calls, and calls refused by limits.
    #[serde(default)]
    load: Load,
    #[serde(default)]
    breaker: Breaker,
    /// Failures of its background tasks, each of which was restarted.
    #[serde(default)]
    task_failures: u64,
    discovered_at: Option<String>,
    problems: Vec<String>,
}

/// The quota of the caller.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quota {
    used: u64,
    limit: u64,
    resets_at: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Load {
    running: u64,
    max_concurrency: u64,
    rates: Vec<String>,
    refused_by_rate: u64,
    refused_by_quota: u64,
    refused_by_breaker: u64,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
struct Breaker {
    state: String,
    failures: u64,
    opened: u64,
    open_to_callers: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Load {
    fn refused(&self) -> u64 {
        self.refused_by_rate + self.refused_by_quota + self.refused_by_breaker
    }
}

impl Breaker {
    /// Returns its state in a few words.
    fn words(&self) -> String {
        let state = self.state.replace('_', "-");
        match (self.state.as_str(), self.open_to_callers) {
            ("closed", callers @ 1..) => format!("{state}, open to {callers}"),
            _ => state,
        }
    }
}

/// The printed members of a toolset.
#[derive(Debug, Deserialize)]
struct ToolsetStatus {
    name: String,
    title: Option<String>,
    tools: u64,
    unresolved: u64,
    /// The unresolved entries; empty in the response of a server.
    #[serde(default)]
    references: Vec<String>,
}

pub(crate) async fn run(
    command: &SourcesCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    if let SourcesCommand::Logs { id } = command {
        return logs(id, global, printer).await;
    }
    let response = match Client::connect(global, printer)? {
        Some(client) => client.get(&["v1", "sources"], &[]).await?,
        None => here(global, printer).await?,
    };
    let toolsets = response.get("toolsets").cloned().unwrap_or_else(|| json!([]));
    let toolsets: Vec<ToolsetStatus> = serde_json::from_value(toolsets)?;
    let sources = response.get("sources").cloned().unwrap_or(Value::Null);
    let sources: Vec<SourceStatus> = serde_json::from_value(sources)?;
    print(&sources, printer)?;
    for source in sources.iter().filter(|source| source.state == state(SourceState::Degraded)) {
        match response
            .get("lines")
            .map(|lines| Vec::<Line>::deserialize(lines.get(&source.id)?).ok())
        {
            Some(lines) => {
                for Line { line, .. } in lines.into_iter().flatten() {
                    printer.note_foreign(&format!("{} (stderr): {line}", source.id));
                }
            }
            None if !printer.wants_json() => {
                printer
                    .note(format_args!("`toolcrib sources logs {}` shows its stderr", source.id));
            }
            None => {}
        }
    }
    for source in &sources {
        if source.state == state(SourceState::Ready) && source.discovered_at.is_none() {
            printer.warning(format_args!(
                "`{}` is ready but has not listed its tools yet; run the command again",
                source.id
            ));
        }
    }
    for source in sources.iter().filter(|source| source.task_failures > 0) {
        printer.warning(format_args!(
            "`{}`: its background tasks failed {} times and were restarted; see the log",
            source.id, source.task_failures
        ));
    }
    print_toolsets(&toolsets, printer)?;
    if let Some(quota) = response.get("quota")
        && !printer.wants_json()
    {
        let Quota { used, limit, resets_at } = Quota::deserialize(quota)?;
        let text =
            format!("{used} of {limit} calls of this key's principal today, until {resets_at}");
        printer.note_foreign(&text);
    }
    let sound = |source: &SourceStatus| {
        source.state == state(SourceState::Ready)
            && source.discovered_at.is_some()
            && source.problems.is_empty()
            && source.task_failures == 0
    };
    match command {
        SourcesCommand::Check(_)
            if !sources.iter().all(sound) || toolsets.iter().any(|it| it.unresolved > 0) =>
        {
            Ok(Exit::Failed)
        }
        SourcesCommand::Check(_) | SourcesCommand::List(_) | SourcesCommand::Logs { .. } => {
            Ok(Exit::Done)
        }
    }
}

/// A line of stderr of a source's process.
#[derive(Debug, Deserialize, Serialize)]
struct Line {
    at: String,
    line: String,
}

async fn logs(id: &str, global: &Global, printer: Printer) -> anyhow::Result<Exit> {
    let response = match Client::connect(global, printer)? {
        Some(client) => match client.get(&["v1", "sources", id, "logs"], &[]).await {
            Ok(response) => response,
            Err(error) => return Err(refused(error, id, &client).await),
        },
        None => logs_here(id, global, printer).await?,
    };
    let lines: Vec<Line> = Vec::deserialize(response.get("lines").unwrap_or(&Value::Null))?;
    if printer.wants_json() {
        printer.json(&lines)?;
        return Ok(Exit::Done);
    }
    if lines.is_empty() {
        printer.note("the processes of this source have written nothing to stderr");
    }
    for Line { at, line } in lines {
        printer.foreign(&format!("{at} {line}"))?;
    }
    Ok(Exit::Done)
}

/// Refines `error`, the server's refusal to list the lines of source `id`: a source that is missing
/// in the server's list is reported as unknown.
async fn refused(error: anyhow::Error, id: &str, client: &Client) -> anyhow::Error {
    let Ok(response) = client.get(&["v1", "sources"], &[]).await else { return error };
    let known = response.get("sources").and_then(Value::as_array).into_iter().flatten();
    let known: Vec<&str> = known.filter_map(|source| source.get("id")?.as_str()).collect();
    match known.contains(&id) {
        true => error,
        false => unknown(id, known.into_iter()),
    }
}

/// Creates the error for an unknown source id.
fn unknown<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let suggestion = suggest::did_you_mean(id, known);
    advised(format!("no such source{suggestion}"), "`toolcrib sources list` shows the sources")
}

async fn logs_here(id: &str, global: &Global, printer: Printer) -> anyhow::Result<Value> {
    let Settings { config, data_dir, .. } = Settings::load(global)?;
    if !config.sources.iter().any(|source| source.spec.id.as_str() == id) {
        let known = config.sources.iter().map(|source| source.spec.id.as_str());
        return Err(unknown(id, known));
    }
    Local::start_forgetful(config, &data_dir, printer)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway, printer).await;
            let lines = gateway.supply().stderr(None, id).unwrap_or_default();
            Ok(json!({ "lines": lines }))
        })
        .await
}

/// Returns the last stderr lines of each source that is not ready. For a server, `sources logs`
/// requests them.
fn last_lines(gateway: &Gateway) -> Value {
    let sources = gateway.supply().reports();
    let failed = sources.iter().filter(|it| it.status.state != SourceState::Ready);
    let lines = failed.map(|source| {
        let lines = gateway.supply().stderr(None, source.id.as_str()).unwrap_or_default();
        let last: Vec<_> = lines.into_iter().rev().take(SHOWN_LINES).rev().collect();
        (source.id.to_string(), json!(last))
    });
    Value::Object(lines.collect())
}

/// Starts the sources without a stored catalog, and returns their current status.
async fn here(global: &Global, printer: Printer) -> anyhow::Result<Value> {
    let Settings { config, data_dir, .. } = Settings::load(global)?;
    Local::start_forgetful(config, &data_dir, printer)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway, printer).await;
            let operator = local::operator(TenantId::parse("default")?, Vec::new())?;
            let mut toolsets = json!(gateway.snapshot().toolsets(&operator));
            let snapshot = gateway.snapshot();
            for (shown, toolset) in
                toolsets.as_array_mut().into_iter().flatten().zip(snapshot.catalog.toolsets())
            {
                // The operator can read the configuration, so this shows all of its references.
                if let Some(shown) = shown.as_object_mut() {
                    shown.insert("tools".to_owned(), json!(toolset.len()));
                    shown.insert("references".to_owned(), json!(toolset.unresolved));
                }
            }
            let lines = last_lines(gateway);
            Ok(json!({ "sources": gateway.supply().reports(), "toolsets": toolsets, "lines": lines }))
        })
        .await
}

fn print(sources: &[SourceStatus], printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&sources);
    }
    if sources.is_empty() {
        printer.note("there are no sources");
        return Ok(());
    }
    let rows = sources.iter().map(|source| {
        [
            source.id.clone(),
            source.kind.clone(),
            source.state.clone(),
            source.tools.to_string(),
            source.quarantined.to_string(),
            format!("{}/{}", source.load.running, source.load.max_concurrency),
            source.load.refused().to_string(),
            source.breaker.words(),
            source.problems.len().to_string(),
            source.restarts.to_string(),
            source.since.clone(),
            source.detail.clone().unwrap_or_default(),
        ]
    });
    let head = [
        table::name("source"),
        table::text("kind"),
        table::state("state"),
        table::name("tools"),
        table::wide("quarantined"),
        table::wide("running"),
        table::wide("refused"),
        table::state("breaker"),
        table::name("problems"),
        table::wide("restarts"),
        table::wide("since"),
        table::text("detail"),
    ];
    printer.table(head, rows)?;
    for source in sources {
        for problem in &source.problems {
            printer.foreign(&format!("{}: {problem}", source.id))?;
        }
    }
    Ok(())
}

/// Prints the toolsets and warnings about them; with `--json` only the warnings, on stderr.
fn print_toolsets(toolsets: &[ToolsetStatus], printer: Printer) -> anyhow::Result<()> {
    for ToolsetStatus { name, unresolved, references, .. } in toolsets {
        for reference in references {
            printer.warning(format_args!(
                "toolset \"{name}\": {reference} {}",
                local::REACHES_NOTHING
            ));
        }
        if references.is_empty() && *unresolved > 0 {
            printer.warning(format_args!(
                "toolset \"{name}\": entries of its allow-list that reach no tool: {unresolved}"
            ));
        }
    }
    if printer.wants_json() || toolsets.is_empty() {
        return Ok(());
    }
    let rows = toolsets.iter().map(|toolset| {
        [
            toolset.name.clone(),
            toolset.tools.to_string(),
            toolset.unresolved.to_string(),
            toolset.title.clone().unwrap_or_default(),
        ]
    });
    printer.line("")?;
    let head = [
        table::name("toolset"),
        table::name("tools"),
        table::name("unresolved"),
        table::text("title"),
    ];
    printer.table(head, rows)
}

/// Returns the name of `state` in JSON.
pub(crate) fn state(state: SourceState) -> &'static str {
    match state {
        SourceState::Starting => "starting",
        SourceState::Ready => "ready",
        SourceState::Degraded => "degraded",
        SourceState::Stopped => "stopped",
    }
}
