//! `config`: reports all problems of a configuration file without starting a server, and prints the
//! schema of such files.

use std::{path::Path, time::Duration};

use serde_json::json;
use toolcrib_core::source::SourceState;
use toolcrib_gateway::{
    Gateway,
    config::{Config, ConfigError},
};

use super::sources;
use crate::{
    args::ConfigCommand,
    check::{self, Examined},
    context::Context,
    failure::{Exit, advised},
    local::{self, Local},
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
    let Examined { config, mut problems, missing, warnings, sandbox, data_dir } =
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

/// Returns the JSON Schema of configuration files as text.
pub(super) fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&toolcrib_gateway::config::schema())? + "\n")
}

/// Remarks that do not prevent a start.
struct Remarks {
    warnings: Vec<String>,
    /// The layers of sandboxes that work here; `None` without sandboxes.
    sandbox: Option<Vec<&'static str>>,
}

/// The findings about connected sources.
#[derive(Default)]
struct SourceFindings {
    problems: Vec<String>,
    /// Remarks that need no action.
    notes: Vec<String>,
    warnings: Vec<String>,
}

fn refused(error: &ConfigError, printer: Printer) -> anyhow::Result<Exit> {
    match printer.wants_json() {
        true => {
            let problems: Vec<_> = error
                .problems
                .iter()
                .map(|it| json!({ "line": it.line, "key": it.key, "message": it.message }))
                .collect();
            printer.json(&json!({ "file": error.file, "ok": false, "problems": problems }))?;
        }
        // One problem per line, with its location, in a form that editors can parse.
        false => printer.foreign(&error.to_string())?,
    }
    Ok(Exit::Failed)
}

/// Starts the sources of `config`, and returns their problems and notes.
async fn connected(
    config: Config,
    data_dir: &Path,
    printer: Printer,
) -> anyhow::Result<SourceFindings> {
    let timeout = timeout(&config);
    let local = Local::start_forgetful(config, data_dir, printer).await?;
    local
        .run(async |gateway: &Gateway| {
            local::settle_for(gateway, timeout, printer).await;
            gateway.supply().settle_counts(local::COUNT_PATIENCE).await;
            Ok(findings(gateway))
        })
        .await
}

/// Returns how long to wait until each source has listed its tools or failed.
fn timeout(config: &Config) -> Duration {
    let slowest = config.sources.iter().map(|source| source.spec.limits.connect_timeout).max();
    // Connecting and listing each have this limit.
    local::PATIENCE + slowest.unwrap_or_default() * 2
}

fn findings(gateway: &Gateway) -> SourceFindings {
    let SourceFindings { mut problems, mut notes, .. } = SourceFindings::default();
    for source in gateway.supply().reports() {
        let id = &source.id;
        if source.status.state != SourceState::Ready || source.discovered_at.is_none() {
            let detail = source.status.detail.as_deref().unwrap_or("it has not listed its tools");
            problems.push(format!("source `{id}` is not ready: {detail}"));
        }
        problems.extend(source.problems.iter().map(|problem| format!("source `{id}`: {problem}")));
        notes.extend(sources::remarks(&source).map(|remark| format!("source `{id}`: {remark}")));
    }
    let unmatched = gateway.unmatched_grants();
    problems.extend(unmatched.iter().map(|grant| format!("{grant} {}", local::MATCHES_NOTHING)));
    let unresolved = gateway.supply().unresolved_references();
    problems.extend(unresolved.iter().map(|it| format!("{it} {}", local::REACHES_NOTHING)));
    SourceFindings { problems, notes, warnings: long_lists::warnings(gateway) }
}

fn print(
    file: &Path,
    config: &Config,
    SourceFindings { problems, notes, warnings: found }: &SourceFindings,
    remarks: &Remarks,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let ok = problems.is_empty();
    let Remarks { warnings, sandbox } = remarks;
    let warnings: Vec<_> = warnings.iter().chain(found).collect();
    for warning in &warnings {
        printer.warning(warning);
    }
    if printer.wants_json() {
        let problems: Vec<_> = problems.iter().map(|it| json!({ "message": it })).collect();
        let (sources, roles) = (config.sources.len(), config.roles.len());
        printer.json(&json!({
            "file": file, "ok": ok, "sources": sources, "roles": roles, "problems": problems,
            "notes": notes, "warnings": warnings, "sandbox": sandbox,
        }))?;
        return Ok(if ok { Exit::Done } else { Exit::Failed });
    }
    if ok {
        let sources = counted(config.sources.len() as u64, "source");
        let roles = counted(config.roles.len() as u64, "role");
        printer.line(format_args!("{}: ok ({sources}, {roles})", file.display()))?;
        if let Some(layers) = sandbox {
            let layers = if layers.is_empty() { "none".to_owned() } else { layers.join(", ") };
            printer.line(format_args!("sandbox layers of this system: {layers}"))?;
        }
    } else {
        for problem in problems {
            printer.foreign(&format!("{}: {problem}", file.display()))?;
        }
    }
    for note in notes {
        printer.foreign(&format!("{}: {note}", file.display()))?;
    }
    Ok(if ok { Exit::Done } else { Exit::Failed })
}
