//! `sources list|check`: how the sources are doing, here or on a running server.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use toolcrib_core::source::SourceState;
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, SourcesCommand},
    client::Client,
    failure::Exit,
    local::{self, Local},
    printer::Printer,
    settings::Settings,
};

/// What is shown of a source: the members of `GET /v1/sources` that people look for.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct Shown {
    id: String,
    kind: String,
    state: String,
    detail: Option<String>,
    since: String,
    restarts: u64,
    tools: u64,
    #[serde(default)]
    quarantined: u64,
    /// Calls that run, and calls that were refused by limits.
    #[serde(default)]
    load: Load,
    #[serde(default)]
    breaker: Breaker,
    discovered_at: Option<String>,
    problems: Vec<String>,
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
    /// How it stands, in a few words.
    fn words(&self) -> String {
        let state = self.state.replace('_', "-");
        match (self.state.as_str(), self.open_to_callers) {
            ("closed", callers @ 1..) => format!("{state}, open to {callers}"),
            _ => state,
        }
    }
}

pub(crate) async fn run(
    command: &SourcesCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let told = match Client::connect(global, printer)? {
        Some(client) => client.get(&["v1", "sources"], &[]).await?,
        None => here(global).await?,
    };
    let sources = told.get("sources").cloned().unwrap_or(Value::Null);
    let sources: Vec<Shown> = serde_json::from_value(sources)?;
    print(&sources, printer)?;
    let sound = |source: &Shown| {
        source.state == state(SourceState::Ready)
            && source.discovered_at.is_some()
            && source.problems.is_empty()
    };
    match command {
        SourcesCommand::Check if !sources.iter().all(sound) => Ok(Exit::Failed),
        SourcesCommand::Check | SourcesCommand::List => Ok(Exit::Done),
    }
}

/// Over nothing stored: what matters is what the sources say now, not what they said last.
async fn here(global: &Global) -> anyhow::Result<Value> {
    let Settings { config, data_dir, .. } = Settings::load(global)?;
    Local::start_forgetful(config, &data_dir)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway).await;
            Ok(json!({ "sources": gateway.sources() }))
        })
        .await
}

fn print(sources: &[Shown], printer: Printer) -> anyhow::Result<()> {
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
            source.detail.clone().unwrap_or_default(),
        ]
    });
    let head = [
        "source",
        "kind",
        "state",
        "tools",
        "quarantined",
        "running",
        "refused",
        "breaker",
        "problems",
        "detail",
    ];
    printer.table(head, rows)?;
    for source in sources {
        for problem in &source.problems {
            printer.foreign(&format!("{}: {problem}", source.id))?;
        }
    }
    Ok(())
}

/// The state as it stands in JSON.
pub(crate) fn state(state: SourceState) -> &'static str {
    match state {
        SourceState::Starting => "starting",
        SourceState::Ready => "ready",
        SourceState::Degraded => "degraded",
        SourceState::Stopped => "stopped",
    }
}
