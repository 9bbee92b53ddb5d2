//! `tools lint`: reports problems in the definitions of tools.

use toolcrib_core::{
    descriptor::ToolDescriptor,
    lint::{self, Finding, Severity},
};
use toolcrib_gateway::Gateway;

use super::catalog;
use crate::{
    args::{ToolLintArgs, ToolListArgs},
    client::Client,
    context::Context,
    failure::Exit,
    local,
    printer::Printer,
    table::{Column, Kind},
};

const COLUMNS: &[Column<Finding>] = &[
    Column(Kind::State, "severity", |found| found.severity.as_str().to_owned()),
    Column(Kind::Text, "rule", |found| found.rule.to_owned()),
    Column(Kind::Text, "where", |found| found.pointer.clone()),
    Column(Kind::Text, "problem and advice", |found| {
        format!("{}: {}", found.message, found.advice)
    }),
    Column(Kind::Name, "tool", |found| found.tool.clone()),
];

pub(super) async fn run(
    args: &ToolLintArgs,
    client: Option<&Client>,
    cx: &Context,
) -> anyhow::Result<Exit> {
    let printer = cx.printer;
    let (tools, upstream) = match client {
        None => discovered(args, cx).await?,
        Some(_) => {
            let all = ToolListArgs { source: args.source, toolset: None, output: args.output };
            let listed = catalog::rows(&all, None, client, cx).await?;
            (listed.into_iter().map(|row| row.tool).collect(), Vec::new())
        }
    };
    let mut found: Vec<Finding> = tools.iter().flat_map(lint::lint).collect();
    for finding in upstream {
        let same = |other: &Finding| {
            (&other.tool, &other.pointer, other.rule)
                == (&finding.tool, &finding.pointer, finding.rule)
        };
        if !found.iter().any(same) {
            found.push(finding);
        }
    }
    if printer.wants_json() {
        printer.json(&found)?;
    } else {
        print(&found, tools.len(), printer)?;
    }
    let tolerated = if args.strict { Severity::Advice } else { Severity::Warning };
    match found.iter().any(|found| found.severity > tolerated) {
        true => Ok(Exit::Failed),
        false => Ok(Exit::Done),
    }
}

async fn discovered(
    args: &ToolLintArgs,
    cx: &Context,
) -> anyhow::Result<(Vec<ToolDescriptor>, Vec<Finding>)> {
    local::with_catalog(cx, async |gateway: &Gateway| {
        local::settle(gateway, cx.printer).await;
        catalog::warn_of_silent(gateway, cx.printer);
        let snapshot = gateway.snapshot();
        let entries = snapshot.catalog.entries().iter();
        let wanted =
            entries.filter(|entry| args.source.is_none_or(|kind| entry.tool.source == kind));
        let tools = wanted.map(|entry| entry.tool.clone()).collect();
        Ok((tools, gateway.supply().findings(args.source)))
    })
    .await
}

fn print(found: &[Finding], tools: usize, printer: Printer) -> anyhow::Result<()> {
    if !found.is_empty() {
        printer.table(COLUMNS, found)?;
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
