//! `sources list|check`: how the sources are doing.

use toolcrib_core::source::SourceState;
use toolcrib_gateway::{Gateway, SourceReport};

use crate::{
    args::{Global, SourcesCommand},
    failure::Exit,
    local::{self, Local},
    printer::Printer,
    settings::{self, Settings},
};

pub(crate) async fn run(
    command: &SourcesCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    settings::no_url(global, "sources are shown")?;
    let config = Settings::load(global)?.config;
    // Over nothing stored: what matters is what the sources say now, not what they said last.
    let reports = Local::start_forgetful(config)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway).await;
            Ok(gateway.sources())
        })
        .await?;
    print(&reports, printer)?;
    let sound = |report: &SourceReport| {
        report.status.state == SourceState::Ready
            && report.discovered_at.is_some()
            && report.problems.is_empty()
    };
    match command {
        SourcesCommand::Check if !reports.iter().all(sound) => Ok(Exit::Failed),
        SourcesCommand::Check | SourcesCommand::List => Ok(Exit::Done),
    }
}

fn print(reports: &[SourceReport], printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&reports);
    }
    if reports.is_empty() {
        printer.note("there are no sources in the configuration");
        return Ok(());
    }
    let rows = reports.iter().map(|report| {
        [
            report.id.to_string(),
            report.kind.to_string(),
            state(report.status.state).to_owned(),
            report.tools.to_string(),
            report.problems.len().to_string(),
            report.status.detail.clone().unwrap_or_default(),
        ]
    });
    printer.table(["source", "kind", "state", "tools", "problems", "detail"], rows)?;
    for report in reports {
        for problem in &report.problems {
            printer.foreign(&format!("{}: {problem}", report.id))?;
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
