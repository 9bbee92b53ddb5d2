//! `tools list|search|lint|show|diff|approve`: all tools for the operator, or the tools of a key on a
//! running server.

mod catalog;
mod diff;
mod lint;
mod pins;

use toolcrib_core::{catalog::Tenants, id::TenantId, suggest};
use toolcrib_gateway::Gateway;

use crate::{
    args::ToolsCommand,
    client::{Client, ListedTool},
    context::Context,
    failure::{Exit, advised},
    local,
    printer::Printer,
    target::Target,
    tool_row::{COLUMNS, ToolRow},
};

pub(crate) async fn run(command: ToolsCommand, cx: &Context) -> anyhow::Result<Exit> {
    let client = Client::connect(cx)?;
    match command {
        ToolsCommand::List(args) => {
            let tools = catalog::rows(&args, None, client.as_ref(), cx).await?;
            let none = match client {
                None => "there are no tools",
                Some(_) => "there are no tools that this key may use",
            };
            cx.printer.list(COLUMNS, &tools, none)?;
        }
        ToolsCommand::Search(args) => {
            let words = args.words.join(" ");
            let search = Some((words.as_str(), args.limit));
            let found = catalog::rows(&args.of, search, client.as_ref(), cx).await?;
            let none = match client {
                None => "no tool matches these words",
                Some(_) => "no tool that this key may use matches these words",
            };
            cx.printer.list(COLUMNS, &found, none)?;
        }
        ToolsCommand::Lint(args) => return lint::run(&args, client.as_ref(), cx).await,
        ToolsCommand::Diff { tool } => {
            let target = Target::of(client, &cx.global).await?;
            let shown = pins::show(tool.as_deref(), &target, cx.printer).await;
            target.close().await;
            shown?;
        }
        ToolsCommand::Approve(args) => {
            let target = Target::of(client, &cx.global).await?;
            let approved = pins::approve(&args, &target, cx.printer).await;
            target.close().await;
            approved?;
        }
        ToolsCommand::Show { tool } => match client {
            None => show(&tool, cx).await?,
            Some(client) => show_remote(&tool, &client, cx.printer).await?,
        },
    }
    Ok(Exit::Done)
}

async fn show(tool: &str, cx: &Context) -> anyhow::Result<()> {
    local::with_catalog(cx, async |gateway: &Gateway| {
        let entry = local::awaited(gateway, tool, cx.printer).await?;
        let words = |tenants: &[TenantId]| {
            tenants.iter().map(|tenant| tenant.as_str()).collect::<Vec<_>>().join(" ")
        };
        let tenants = match &entry.tenants {
            Tenants::All => "all".to_owned(),
            Tenants::Only(tenants) => words(tenants),
            Tenants::Except(tenants) => format!("all but {}", words(tenants)),
        };
        let more = [("upstream", entry.upstream_name.clone()), ("tenants", tenants)];
        print(&ToolRow::from(&*entry), &more, cx.printer)
    })
    .await
}

async fn show_remote(name: &str, client: &Client, printer: Printer) -> anyhow::Result<()> {
    let names = client.mcp_tools().await?;
    let listed = ListedTool::find(&names, name);
    let id = listed.and_then(ListedTool::tool_id).unwrap_or(name);
    let found = client.catalog()?.tools().get(id).await;
    let Some(tool) = found.map_err(|error| client.explained(error))? else {
        return Err(unknown(name, names.iter().map(|other| other.name.as_str())));
    };
    print(&ToolRow::listed(tool, listed), &[], printer)
}

/// Creates the error for a tool name that is unknown for the key.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let suggestion = suggest::did_you_mean(name, known);
    advised(format!("no such tool{suggestion}"), "`toolcrib tools list` shows what the key may use")
}

/// Prints one tool with its schemas; `more` are lines that only the operator sees.
fn print(row: &ToolRow, more: &[(&str, String)], printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(row);
    }
    let tool = &row.tool;
    let own = [
        ("name", row.wire_name.clone()),
        ("title", tool.title.clone().unwrap_or_default()),
        ("source", row.source_id.clone()),
        ("kind", tool.source.to_string()),
        ("tier", tool.safety_tier.to_string()),
        ("scopes", row.scopes()),
        ("approval", row.approval()),
        ("egress", tool.egress.map(|class| class.to_string()).unwrap_or_default()),
        ("replay", tool.replay_policy.map(|policy| policy.to_string()).unwrap_or_default()),
    ];
    let ids = [("otc id", row.otc_id.clone()), ("tool", tool.tool_id.clone())];
    let lines = own.iter().chain(more).chain(&ids);
    for (name, value) in lines.filter(|(_, value)| !value.is_empty()) {
        printer.foreign(&format!("{:<10}{value}", format!("{name}:")))?;
    }
    if let Some(description) = &tool.description {
        printer.foreign(&format!("\n{description}"))?;
    }
    for (name, schema) in [("input", &tool.input_schema), ("output", &tool.output_schema)] {
        if let Some(schema) = schema {
            let text = serde_json::to_string_pretty(&schema.to_object())?;
            printer.foreign(&format!("\n{name}: {text}"))?;
        }
    }
    Ok(())
}
