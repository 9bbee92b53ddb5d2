//! `tools list|search|lint|show|diff|approve`: the operator's view of everything, or a key's view of a server.

mod diff;
mod lint;
mod pins;

use std::sync::Arc;

use serde_json::{Value, json};
use toolcrib_core::{
    catalog::{Entry, Tenants, View},
    descriptor::ToolDescriptor,
    id::TenantId,
};
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, ToolListArgs, ToolSearchArgs, ToolsCommand},
    client::Client,
    failure::{Exit, advised},
    local::{self, Local},
    printer::Printer,
    settings::Settings,
};

pub(crate) async fn run(
    command: ToolsCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let client = Client::connect(global, printer)?;
    match (command, client) {
        (ToolsCommand::List(args), None) => list(&args, global, printer).await?,
        (ToolsCommand::List(args), Some(client)) => list_remote(&args, &client, printer).await?,
        (ToolsCommand::Search(args), None) => search(&args, global, printer).await?,
        (ToolsCommand::Search(args), Some(client)) => {
            let words = args.words.join(" ");
            let found = remote(&args.of, Some((&words, args.limit)), &client).await?;
            print_remote(&found, "no tool that this key may use has such words", printer)?;
        }
        (ToolsCommand::Lint(args), client) => {
            return lint::run(&args, client, global, printer).await;
        }
        (ToolsCommand::Diff { tool }, client) => {
            let place = pins::Place::new(client, global)?;
            let shown = pins::show(tool.as_deref(), &place, printer).await;
            place.close().await;
            return shown;
        }
        (ToolsCommand::Approve(args), client) => {
            let place = pins::Place::new(client, global)?;
            let approved = pins::approve(&args, &place, printer).await;
            place.close().await;
            return approved;
        }
        (ToolsCommand::Show { tool }, None) => show(&tool, global, printer).await?,
        (ToolsCommand::Show { tool }, Some(client)) => show_remote(&tool, &client, printer).await?,
    }
    Ok(Exit::Done)
}

async fn list(args: &ToolListArgs, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway).await;
            let entries = wanted(gateway, args)?;
            warn_of_silent(gateway, printer);
            print(&entries, printer)
        })
        .await
}

/// As a server does it, over every tool.
async fn search(args: &ToolSearchArgs, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway).await;
            let view = View::new(wanted(gateway, &args.of)?);
            warn_of_silent(gateway, printer);
            let found = view.search(&args.words.join(" "), None, usize::from(args.limit));
            print(&found, printer)
        })
        .await
}

/// Every tool of the kind and the toolset that was asked for.
fn wanted(gateway: &Gateway, args: &ToolListArgs) -> anyhow::Result<Vec<Arc<Entry>>> {
    let snapshot = gateway.snapshot();
    let toolset = match &args.toolset {
        Some(name) => Some(snapshot.catalog.toolset(name).ok_or_else(local::no_toolset)?),
        None => None,
    };
    let wanted = |entry: &&Arc<Entry>| {
        args.source.is_none_or(|kind| entry.tool.source == kind)
            && toolset.is_none_or(|toolset| toolset.holds(entry))
    };
    Ok(snapshot.catalog.entries().iter().filter(wanted).map(Arc::clone).collect())
}

fn print(entries: &[Arc<Entry>], printer: Printer) -> anyhow::Result<()> {
    let entries: Vec<&Entry> = entries.iter().map(|entry| &**entry).collect();
    match printer.wants_json() {
        true => printer.json(&entries.into_iter().map(full).collect::<Vec<_>>()),
        false => table(&entries, printer),
    }
}

fn warn_of_silent(gateway: &Gateway, printer: Printer) {
    for source in gateway.sources().iter().filter(|source| source.discovered_at.is_none()) {
        printer.warning(format_args!(
            "source `{}` did not answer; what it offered last is shown",
            source.id
        ));
    }
}

/// The tools as a table for people.
pub(crate) fn table(entries: &[&Entry], printer: Printer) -> anyhow::Result<()> {
    if entries.is_empty() {
        printer.note("there are no tools");
        return Ok(());
    }
    let rows = entries.iter().map(|entry| {
        let [tier, scopes, approval] = needs(&entry.tool);
        [entry.id.to_string(), entry.names.wire.clone(), tier, scopes, approval]
    });
    printer.table(["tool", "name", "tier", "scopes", "approval"], rows)
}

async fn list_remote(args: &ToolListArgs, client: &Client, printer: Printer) -> anyhow::Result<()> {
    let tools = remote(args, None, client).await?;
    print_remote(&tools, "there are no tools that this key may use", printer)
}

fn print_remote(tools: &[ToolDescriptor], none: &str, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&tools);
    }
    if tools.is_empty() {
        printer.note(none);
        return Ok(());
    }
    let rows = tools.iter().map(|tool| {
        let [tier, scopes, approval] = needs(tool);
        [tool.tool_id.clone(), tool.source.to_string(), tier, scopes, approval]
    });
    printer.table(["tool", "source", "tier", "scopes", "approval"], rows)
}

/// What the key may use of what was asked for; with words, what fits them.
async fn remote(
    args: &ToolListArgs,
    search: Option<(&str, u16)>,
    client: &Client,
) -> anyhow::Result<Vec<ToolDescriptor>> {
    let catalog = client.catalog()?;
    let mut tools = catalog.tools();
    if let Some(kind) = args.source {
        tools = tools.of(kind);
    }
    if let Some(toolset) = &args.toolset {
        tools = tools.within(toolset);
    }
    if let Some((words, limit)) = search {
        tools = tools.search(words, limit);
    }
    let listed = tools.list().await.map_err(|error| client.explained(error))?;
    listed.ok_or_else(|| {
        advised("the server has no catalog", "is this the address of a toolcrib server?")
    })
}

async fn show(tool: &str, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            let entry = local::awaited(gateway, tool).await?;
            if printer.wants_json() {
                return printer.json(&full(&entry));
            }
            let words = |tenants: &[TenantId]| {
                tenants.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(" ")
            };
            let tenants = match &entry.tenants {
                Tenants::All => "all".to_owned(),
                Tenants::Only(tenants) => words(tenants),
                Tenants::Except(tenants) => format!("all but {}", words(tenants)),
            };
            let more = [
                ("name", entry.names.wire.clone()),
                ("otc id", entry.names.otc_id()),
                ("from", format!("{} ({})", entry.source, entry.upstream_name)),
                ("tenants", tenants),
            ];
            details(&entry.tool, &more, printer)
        })
        .await
}

async fn show_remote(tool: &str, client: &Client, printer: Printer) -> anyhow::Result<()> {
    let found = client.catalog()?.tools().get(tool).await;
    let Some(tool) = found.map_err(|error| client.explained(error))? else {
        return Err(advised("no such tool", "`toolcrib tools list` shows what the key may use"));
    };
    match printer.wants_json() {
        true => printer.json(&tool),
        false => details(&tool, &[], printer),
    }
}

fn details(tool: &ToolDescriptor, more: &[(&str, String)], printer: Printer) -> anyhow::Result<()> {
    let [tier, scopes, approval] = needs(tool);
    let own = [
        ("tool", tool.tool_id.clone()),
        ("title", tool.title.clone().unwrap_or_default()),
        ("source", tool.source.to_string()),
        ("tier", tier),
        ("scopes", scopes),
        ("approval", approval),
        ("egress", tool.egress.map(|it| it.to_string()).unwrap_or_default()),
        ("replay", tool.replay_policy.map(|it| it.to_string()).unwrap_or_default()),
    ];
    for (name, value) in own.iter().chain(more).filter(|(_, value)| !value.is_empty()) {
        printer.foreign(&format!("{:<10}{value}", format!("{name}:")))?;
    }
    if let Some(description) = &tool.description {
        printer.foreign(&format!("\n{description}"))?;
    }
    for (name, schema) in [("input", &tool.input_schema), ("output", &tool.output_schema)] {
        if let Some(schema) = schema {
            printer.foreign(&format!("\n{name}: {}", serde_json::to_string_pretty(schema)?))?;
        }
    }
    Ok(())
}

/// Tier, scopes and approval in words.
fn needs(tool: &ToolDescriptor) -> [String; 3] {
    let scopes = match tool.auth.as_ref().and_then(|auth| auth.scopes.as_deref()) {
        None => "(shown to nobody)".to_owned(),
        Some([]) => "(none)".to_owned(),
        Some(scopes) => scopes.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(" "),
    };
    let approval = tool.approval.map(|it| it.to_string()).unwrap_or_default();
    [tool.safety_tier.to_string(), scopes, approval]
}

/// The descriptor with what only the operator may know.
fn full(entry: &Entry) -> Value {
    let mut tool = json!(entry.tool);
    if let Some(tool) = tool.as_object_mut() {
        tool.insert("wireName".to_owned(), json!(entry.names.wire));
        tool.insert("otcId".to_owned(), json!(entry.names.otc_id()));
        tool.insert("sourceId".to_owned(), json!(entry.source));
        tool.insert("digest".to_owned(), json!(entry.digest.map(|digest| digest.to_string())));
    }
    tool
}
