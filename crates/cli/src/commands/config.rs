//! `config`: reports all problems of a configuration file without starting a server, and prints the
//! schema of such files.
//!
//! Errors are reasons for a server to refuse the file, and sources that are not ready. With `--connect`,
//! warnings have a separate exit code.

use std::{path::Path, time::Duration};

use serde_json::json;
use toolcrib_config::{Config, ConfigError};
use toolcrib_core::source::SourceState;
use toolcrib_gateway::Gateway;

use super::sources;
use crate::{
    args::ConfigCommand,
    check::{self, ExaminedConfig},
    context::Context,
    failure::{Exit, advised},
    local::{self, LocalGateway},
    long_lists,
    printer::Printer,
    settings::{self, Pipe},
    text::counted,
};

pub(crate) async fn run(command: ConfigCommand, cx: &Context) -> anyhow::Result<Exit> {
    let Context { global, printer } = cx;
    let printer = *printer;
    let (file, connect) = match command {
        ConfigCommand::Check { file, connect } => (file, connect),
        ConfigCommand::Schema => {
            printer.bytes(schema_text()?.as_bytes())?;
            return Ok(Exit::Done);
        }
    };
    let file = file.or_else(|| settings::file(global)).ok_or_else(|| {
        advised(
            format!("there is no {} here", settings::DEFAULT_FILE),
            "name the file: `toolcrib config check FILE`",
        )
    })?;
    let text = settings::read(&file, Pipe::Wait)?;
    let ExaminedConfig { config, mut problems, missing, warnings, sandbox, data_dir } =
        check::examine(global, &file, &text).await;
    problems.extend(missing);
    let remarks = Remarks { warnings, sandbox };
    match config {
        Some(config) if problems.is_empty() && connect => {
            let checked = config.clone();
            let found = connected(config, &data_dir, printer).await?;
            print(&file, &checked, &found, &remarks, printer)
        }
        Some(config) if problems.is_empty() => {
            print(&file, &config, &SourceFindings::default(), &remarks, printer)
        }
        _ => refused(&ConfigError::new(file.display().to_string(), problems), printer),
    }
}

pub(super) fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&toolcrib_config::schema())? + "\n")
}

/// Remarks that do not prevent a start.
struct Remarks {
    warnings: Vec<String>,
    /// The layers of sandboxes that work here; `None` without sandboxes.
    sandbox: Option<Vec<&'static str>>,
}

/// The exit code of `--connect` if there are warnings and no errors.
const WARNINGS: u8 = 3;

/// The findings about connected sources.
#[derive(Default)]
struct SourceFindings {
    /// Sources that are not ready.
    errors: Vec<String>,
    /// Problems of ready sources, and grants and lists without a match.
    problems: Vec<String>,
    /// Remarks that need no action.
    notes: Vec<String>,
    warnings: Vec<String>,
    is_connected: bool,
}

fn refused(error: &ConfigError, printer: Printer) -> anyhow::Result<Exit> {
    match printer.wants_json() {
        true => {
            let problems: Vec<_> = error
                .problems
                .iter()
                .map(|problem| {
                    let column = problem.spot.as_ref().map(|spot| spot.column);
                    json!({
                        "line": problem.line, "column": column,
                        "key": problem.key, "message": problem.message,
                    })
                })
                .collect();
            printer.json(&json!({ "file": error.file, "ok": false, "problems": problems }))?;
        }
        // One problem per line, with its location, in a form that editors can parse.
        false => printer.foreign(&error.to_string())?,
    }
    Ok(Exit::Failed)
}

/// Starts the sources of `config`, and collects their problems and notes.
async fn connected(
    config: Config,
    data_dir: &Path,
    printer: Printer,
) -> anyhow::Result<SourceFindings> {
    let timeout = timeout(&config);
    let local = LocalGateway::start_forgetful(config, data_dir, printer).await?;
    local
        .run(async |gateway: &Gateway| {
            local::settle_for(gateway, timeout, printer).await;
            gateway.supply().settle_counts(local::COUNT_PATIENCE).await;
            Ok(findings(gateway))
        })
        .await
}

/// How long to wait until each source has listed its tools or failed.
fn timeout(config: &Config) -> Duration {
    let slowest = config.sources.iter().map(|source| source.spec.limits.connect_timeout).max();
    // Connecting and listing each have this limit.
    local::PATIENCE + slowest.unwrap_or_default() * 2
}

fn findings(gateway: &Gateway) -> SourceFindings {
    let SourceFindings { mut errors, mut problems, mut notes, .. } = SourceFindings::default();
    for source in gateway.supply().reports() {
        let id = &source.id;
        let is_ready = source.status.state == SourceState::Ready && source.discovered_at.is_some();
        if !is_ready {
            let detail = source.status.detail.as_deref().unwrap_or("it has not listed its tools");
            // The operator may see it (I-92).
            let lines = gateway.supply().stderr(None, id.as_str()).unwrap_or_default();
            let last = lines.iter().rev().find(|entry| !entry.line.trim().is_empty());
            let last = last.map(|entry| format!("; the last line of its stderr: {}", entry.line));
            errors
                .push(format!("source `{id}` is not ready: {detail}{}", last.unwrap_or_default()));
        }
        // The problem of a source that is not ready may be its detail.
        let new = |problem: &&String| is_ready || source.status.detail.as_ref() != Some(problem);
        let about = source.problems.iter().filter(new);
        problems.extend(about.map(|problem| format!("source `{id}`: {problem}")));
        notes.extend(sources::remarks(&source).map(|remark| format!("source `{id}`: {remark}")));
    }
    let unmatched = gateway.unmatched_grants();
    problems.extend(unmatched.iter().map(|grant| format!("{grant} {}", local::MATCHES_NOTHING)));
    let unresolved = gateway.supply().unresolved_references();
    problems.extend(
        unresolved.iter().map(|reference| format!("{reference} {}", local::REACHES_NOTHING)),
    );
    let warnings = long_lists::warnings(gateway);
    SourceFindings { errors, problems, notes, warnings, is_connected: true }
}

fn print(
    file: &Path,
    config: &Config,
    found: &SourceFindings,
    remarks: &Remarks,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let SourceFindings { errors, problems, notes, is_connected, .. } = found;
    let Remarks { warnings, sandbox } = remarks;
    let warnings: Vec<_> = warnings.iter().chain(&found.warnings).collect();
    for warning in &warnings {
        printer.warning(warning);
    }
    let doubts = (problems.len() + warnings.len()) as u64;
    let exit = match (errors.is_empty(), doubts) {
        (false, _) => Exit::Failed,
        (true, 1..) if *is_connected => Exit::Code(WARNINGS),
        (true, _) => Exit::Done,
    };
    let (sources, roles) = (config.sources.len(), config.roles.len());
    if printer.wants_json() {
        let leveled =
            |level: &'static str| move |text: &String| json!({ "level": level, "message": text });
        let all = errors.iter().map(leveled("error"));
        let all: Vec<_> = all.chain(problems.iter().map(leveled("warning"))).collect();
        printer.json(&json!({
            "file": file, "ok": errors.is_empty() && problems.is_empty(), "sources": sources,
            "roles": roles, "problems": all, "notes": notes, "warnings": warnings,
            "sandbox": sandbox,
        }))?;
        return Ok(exit);
    }
    let shown = file.display();
    for error in errors {
        printer.foreign(&format!("{shown}: {error}"))?;
    }
    for problem in problems {
        printer.foreign(&format!("{shown}: warning: {problem}"))?;
    }
    if exit != Exit::Failed {
        let (sources, roles) = (counted(sources as u64, "source"), counted(roles as u64, "role"));
        let verdict = match exit {
            Exit::Code(_) => counted(doubts, "warning"),
            _ => "ok".to_owned(),
        };
        printer.line(format_args!("{shown}: {verdict} ({sources}, {roles})"))?;
        if let Some(layers) = sandbox {
            let layers = if layers.is_empty() { "none".to_owned() } else { layers.join(", ") };
            printer.line(format_args!("sandbox layers of this system: {layers}"))?;
        }
    }
    for note in notes {
        printer.foreign(&format!("{shown}: {note}"))?;
    }
    Ok(exit)
}
