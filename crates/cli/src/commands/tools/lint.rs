//! `tools lint`: reports problems in the definitions of tools.

use toolcrib_core::{
    descriptor::ToolDescriptor,
    lint::{self, Finding, Severity},
};
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, ToolLintArgs, ToolListArgs},
    client::Client,
    failure::Exit,
    local::{self, Local},
    printer::Printer,
    settings::Settings,
    table,
};

pub(super) async fn run(
    args: &ToolLintArgs,
    client: Option<Client>,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let (tools, upstream) = match client {
        None => discovered(args, global, printer).await?,
        Some(client) => {
            let all = ToolListArgs { source: args.source, toolset: None, output: args.output };
            let listed = super::remote(&all, None, &client, printer).await?;
            (listed.into_iter().map(|listed| listed.tool).collect(), Vec::new())
        }
    };
    let mut found: Vec<Finding> = tools.iter().flat_map(lint::lint).collect();
    for finding in upstream {
        let same = |it: &Finding| {
            (&it.tool, &it.pointer, it.rule) == (&finding.tool, &finding.pointer, finding.rule)
        };
        if !found.iter().any(same) {
            found.push(finding);
        }
    }
    if printer.wants_json() {
        printer.json(&found)?;
    } else {
        table(&found, tools.len(), printer)?;
    }
    let tolerated = if args.strict { Severity::Advice } else { Severity::Warning };
    match found.iter().any(|found| found.severity > tolerated) {
        true => Ok(Exit::Failed),
        false => Ok(Exit::Done),
    }
}

async fn discovered(
    args: &ToolLintArgs,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<(Vec<ToolDescriptor>, Vec<Finding>)> {
    Local::start(Settings::load(global)?, printer)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway, printer).await;
            super::warn_of_silent(gateway, printer);
            let snapshot = gateway.snapshot();
            let entries = snapshot.catalog.entries().iter();
            let wanted =
                entries.filter(|entry| args.source.is_none_or(|kind| entry.tool.source == kind));
            let tools = wanted.map(|entry| entry.tool.clone()).collect();
            Ok((tools, gateway.supply().findings(args.source)))
        })
        .await
}

fn table(found: &[Finding], tools: usize, printer: Printer) -> anyhow::Result<()> {
    if !found.is_empty() {
        let rows = found.iter().map(|found| {
            [
                found.severity.as_str().to_owned(),
                found.rule.to_owned(),
                found.pointer.clone(),
                format!("{}: {}", found.message, found.advice),
                found.tool.clone(),
            ]
        });
        let head = [
            table::state("severity"),
            table::text("rule"),
            table::text("where"),
            table::text("problem and advice"),
            table::name("tool"),
        ];
        printer.table(head, rows)?;
    }
    let count = |severity| found.iter().filter(|found| found.severity == severity).count();
    printer.note(format_args!(
        "{tools} tools: {} errors, {} warnings, {} pieces of advice",
        count(Severity::Error),
        count(Severity::Warning),
        count(Severity::Advice),
    ));
    Ok(())
}
