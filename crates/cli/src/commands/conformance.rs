//! `conformance`: checks a host and prints the report.

use std::{fs, sync::Arc};

use anyhow::Context as _;
use toolcrib_conformance::{
    Check, Finding, Host, HostKeys, NamedTool, Options, Plan, Report, Totals, junit, suites,
};

use crate::{
    args::ConformanceArgs,
    client,
    context::Context,
    failure::{Exit, advised, usage},
    printer::Printer,
    settings,
    table::{Column, Kind},
};

/// Length limit of a note in the default table.
const MAX_NOTE: usize = 160;

const FINDING_COLUMNS: [Column<Finding>; 4] = [
    Column(Kind::State, "outcome", |finding| finding.outcome.as_str().to_uppercase()),
    Column(Kind::Name, "check", |finding| finding.check.id.to_owned()),
    Column(Kind::Name, "level", |finding| finding.check.level.as_str().to_owned()),
    Column(Kind::Text, "note", |finding| shortened(&finding.note())),
];

const CHECK_COLUMNS: &[Column<Check>] = &[
    Column(Kind::Name, "check", |check| check.id.to_owned()),
    Column(Kind::Name, "level", |check| check.level.as_str().to_owned()),
    Column(Kind::Text, "section", |check| check.section.to_owned()),
    Column(Kind::Text, "requirement", |check| check.requirement.to_owned()),
];

pub(crate) async fn run(args: ConformanceArgs, cx: &Context) -> anyhow::Result<Exit> {
    let Context { global, printer } = cx;
    let printer = *printer;
    args.only.iter().try_for_each(|group| require_group(group))?;
    let second = settings::key_of(args.second_key_file.as_deref(), args.second_key.as_ref())?;
    let (is_strict, junit_file, is_list) = (args.strict, args.junit.clone(), args.list);
    let plan = plan(args);
    if is_list {
        return list(&plan, printer).map(|()| Exit::Done);
    }
    let Some(url) = &global.url else {
        return Err(usage("name the host with --url, for example --url http://127.0.0.1:8808"));
    };
    let base = client::address(url)?;
    if base.query().is_some() || base.fragment().is_some() {
        return Err(usage("--url must not have a query"));
    }
    let keys = HostKeys { first: settings::key(global)?, second };
    let is_exposed = keys.first.is_some() && base.scheme() == "http";
    let tls = client::ClientTls::read(global)?;
    let host = Arc::new(Host::with_options(&base, keys, |builder| tls.apply(builder))?);
    if is_exposed && !host.is_loopback() {
        printer.warning("the key is sent unencrypted; use https");
    }
    if let Err(reason) = host.connect().await {
        return Err(advised(
            format!("the host at {} does not answer: {reason}", host.base()),
            "is it running, and is --url its address?",
        ));
    }
    let report = check(&host, &plan, printer).await?;
    if let Some(file) = junit_file {
        let document = junit::document(&report, is_strict)?;
        fs::write(&file, document)
            .with_context(|| format!("{} cannot be written", file.display()))?;
    }
    match printer.wants_json() {
        true => printer.json(&report.to_json())?,
        false => print(&report, printer)?,
    }
    let Totals { failed, missed, .. } = report.totals();
    let is_failure = failed > 0 || (is_strict && missed > 0);
    Ok(if is_failure { Exit::Failed } else { Exit::Done })
}

async fn check(host: &Arc<Host>, plan: &Plan, printer: Printer) -> anyhow::Result<Report> {
    let mut current = None;
    let report = toolcrib_conformance::run(host, plan, |finding| {
        if current != Some(finding.protocol) {
            current = Some(finding.protocol);
            printer.note(format_args!("checking {} …", finding.protocol));
        }
        printer.detail(format_args!("{} {}", finding.outcome.as_str(), finding.check.id));
    })
    .await;
    for probe in report.probes.iter().filter(|probe| !probe.is_served) {
        let path = if probe.path.is_empty() { "/" } else { &probe.path };
        printer.note(format_args!("{} is not served at {path}", probe.protocol));
    }
    if report.findings.is_empty() {
        return Err(advised(
            format!("{} serves no protocol at its usual path", host.base()),
            "give the path of a protocol with --at, for example --at mcp=/api/mcp",
        ));
    }
    Ok(report)
}

fn print(report: &Report, printer: Printer) -> anyhow::Result<()> {
    let mut columns = FINDING_COLUMNS;
    if let (true, Some(note)) = (printer.wants_wide(), columns.last_mut()) {
        note.2 = Finding::note;
    }
    printer.table(&columns, &report.findings)?;
    let failures = report.failures();
    if !failures.is_empty() {
        printer.foreign(&failures)?;
    }
    let Totals { passed, failed, missed, skipped } = report.totals();
    let missed = match missed {
        0 => String::new(),
        missed => format!(", {missed} failed with level should"),
    };
    printer.line(format_args!("\n{passed} passed, {failed} failed{missed}, {skipped} skipped"))
}

fn list(plan: &Plan, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&plan.checks().collect::<Vec<_>>());
    }
    printer.table(CHECK_COLUMNS, plan.checks())
}

fn plan(args: ConformanceArgs) -> Plan {
    let named = |name: Option<String>, arguments| name.map(|name| NamedTool { name, arguments });
    let options = Options {
        tool: named(args.tool, args.arguments),
        failing_tool: named(args.failing_tool, args.failing_arguments),
        origin: args.origin,
        require_behavior: args.require_behavior,
    };
    Plan { protocols: args.protocols, paths: args.paths, only: args.only, options }
}

fn require_group(group: &str) -> anyhow::Result<()> {
    let is_known = suites().iter().flat_map(|suite| suite.all()).any(|check| check.is_in(group));
    match is_known {
        true => Ok(()),
        false => Err(usage(format!(
            "--only {group}: unknown check or group; list them with `toolcrib conformance --list`"
        ))),
    }
}

fn shortened(note: &str) -> String {
    match note.char_indices().nth(MAX_NOTE) {
        Some((end, _)) => format!("{}…", note.get(..end).unwrap_or_default()),
        None => note.to_owned(),
    }
}
