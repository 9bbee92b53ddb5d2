//! `conformance`: checks any host and says how it did.

use std::{fs, path::Path, sync::Arc};

use anyhow::Context as _;
use serde_json::json;
use toolcrib_core::credential::Secret;

use crate::{
    args::{ConformanceArgs, Global},
    client,
    conformance::{self, Host, HostKeys, NamedTool, Options, Plan, Report, junit, report::Totals},
    env,
    failure::{Exit, advised, usage},
    printer::Printer,
    settings, table,
};

pub(crate) async fn run(
    args: ConformanceArgs,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    for only in &args.only {
        known(only)?;
    }
    if args.list {
        return list(&args, printer).map(|()| Exit::Done);
    }
    let Some(typed) = &global.url else {
        return Err(usage("name the host with --url, for example --url http://127.0.0.1:8808"));
    };
    let base = client::address(typed)?;
    if base.query().is_some() || base.fragment().is_some() {
        return Err(usage("--url must not have a query"));
    }
    let keys = HostKeys { first: settings::key(global)?, second: second_key(&args)? };
    if keys.first.is_some() && base.scheme() == "http" && !client::is_loopback(&base) {
        printer.warning("the key travels in the open; use https");
    }
    let host = Arc::new(Host::new(&base, keys)?);
    if let Err(why) = host.reach().await {
        return Err(advised(
            format!("the host at {} does not answer: {why}", host.base()),
            "is it running, and is --url its address?",
        ));
    }
    let strict = args.strict;
    let junit = args.junit.clone();
    let report = checked(&host, plan(args), printer).await?;
    if let Some(file) = junit {
        write(&file, &junit::document(&report, strict))?;
    }
    match printer.wants_json() {
        true => printer.json(&report.json())?,
        false => print(&report, printer)?,
    }
    let Totals { failed, missed, .. } = report.totals();
    let bad = failed > 0 || (strict && missed > 0);
    Ok(if bad { Exit::Failed } else { Exit::Done })
}

async fn checked(host: &Arc<Host>, plan: Plan, printer: Printer) -> anyhow::Result<Report> {
    let mut current = None;
    let report = conformance::run(host, &plan, |finding| {
        if current != Some(finding.protocol) {
            current = Some(finding.protocol);
            printer.note(format_args!("checking {} …", finding.protocol));
        }
        printer.detail(format_args!("{} {}", finding.word(), finding.check.id));
    })
    .await;
    for visit in report.visits.iter().filter(|visit| !visit.served) {
        printer.note(format_args!("{} is not served at {}", visit.protocol, place(&visit.path)));
    }
    if report.findings.is_empty() {
        return Err(advised(
            format!("{} serves none of the protocols at their usual paths", host.base()),
            "say where they start with --at, for example --at mcp=/api/mcp",
        ));
    }
    Ok(report)
}

fn print(report: &Report, printer: Printer) -> anyhow::Result<()> {
    let head =
        [table::state("outcome"), table::name("check"), table::name("level"), table::text("note")];
    printer.table(head, report.rows(printer.wants_wide()))?;
    let failures = report.failures();
    if !failures.is_empty() {
        printer.foreign(&failures)?;
    }
    let Totals { passed, failed, missed, skipped } = report.totals();
    let missed = match missed {
        0 => String::new(),
        missed => format!(", {missed} missed that a host should do"),
    };
    printer.line(format_args!("\n{passed} passed, {failed} failed{missed}, {skipped} skipped"))
}

fn list(args: &ConformanceArgs, printer: Printer) -> anyhow::Result<()> {
    let chosen = |check: &&conformance::Check| {
        args.only.is_empty() || args.only.iter().any(|only| conformance::matches(check.id, only))
    };
    let checks = conformance::suites()
        .iter()
        .filter(|suite| args.protocols.is_empty() || args.protocols.contains(&suite.protocol))
        .flat_map(|suite| suite.all())
        .filter(chosen);
    if printer.wants_json() {
        let all: Vec<_> = checks
            .map(|check| {
                json!({
                    "id": check.id,
                    "level": check.level.as_str(),
                    "section": check.section,
                    "sentence": check.sentence,
                })
            })
            .collect();
        return printer.json(&all);
    }
    let rows = checks.map(|check| {
        [check.id, check.level.as_str(), check.section, check.sentence].map(str::to_owned)
    });
    let head = [
        table::name("check"),
        table::name("level"),
        table::text("section"),
        table::text("requirement"),
    ];
    printer.table(head, rows)
}

fn plan(args: ConformanceArgs) -> Plan {
    let named = |name: Option<String>, arguments| name.map(|name| NamedTool { name, arguments });
    let options = Options {
        tool: named(args.tool, args.arguments),
        failing_tool: named(args.failing_tool, args.failing_arguments),
        require_behavior: args.require_behavior,
    };
    Plan { protocols: args.protocols, paths: args.places, only: args.only, options }
}

fn second_key(args: &ConformanceArgs) -> anyhow::Result<Option<Secret>> {
    match &args.second_key_file {
        Some(file) => {
            let read = env::read_secret(file).map_err(anyhow::Error::msg);
            read.map(Some).context("no second key")
        }
        None => Ok(args.second_key.clone()),
    }
}

fn known(only: &str) -> anyhow::Result<()> {
    let mut all = conformance::suites().iter().flat_map(|suite| suite.all());
    match all.any(|check| conformance::matches(check.id, only)) {
        true => Ok(()),
        false => Err(usage("--only names no check; `toolcrib conformance --list` shows them")),
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

fn write(file: &Path, text: &str) -> anyhow::Result<()> {
    fs::write(file, text).with_context(|| format!("{} cannot be written", file.display()))
}
