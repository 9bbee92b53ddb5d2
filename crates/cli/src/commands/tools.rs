//! `tools list|search|lint|show|diff|approve`: all tools for the operator, or the tools of a key on a
//! running server.

mod diff;
mod lint;
mod pins;

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use toolcrib_core::{
    budget::ByteBudget,
    catalog::{Entry, Tenants, View},
    descriptor::ToolDescriptor,
    id::TenantId,
    suggest,
};
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, ToolListArgs, ToolSearchArgs, ToolsCommand},
    client::{Client, Listed},
    failure::{Exit, advised},
    local::{self, Local},
    printer::Printer,
    settings::Settings,
    table,
    target::Target,
};

/// A tool to print, from this process or from a server.
pub(crate) struct Shown {
    /// The wire name.
    name: String,
    /// The id of the source.
    source: String,
    otc_id: String,
    /// The digest, visible only to the operator.
    digest: Option<String>,
    tool: ToolDescriptor,
}

pub(crate) async fn run(
    command: ToolsCommand,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    let client = Client::connect(global, printer)?;
    match (command, client) {
        (ToolsCommand::List(args), None) => list(&args, global, printer).await?,
        (ToolsCommand::List(args), Some(client)) => {
            let tools = remote(&args, None, &client, printer).await?;
            print(&tools, "there are no tools that this key may use", printer)?;
        }
        (ToolsCommand::Search(args), None) => search(&args, global, printer).await?,
        (ToolsCommand::Search(args), Some(client)) => {
            let words = args.words.join(" ");
            let found = remote(&args.of, Some((&words, args.limit)), &client, printer).await?;
            print(&found, "no tool that this key may use matches these words", printer)?;
        }
        (ToolsCommand::Lint(args), client) => {
            return lint::run(&args, client, global, printer).await;
        }
        (ToolsCommand::Diff { tool }, client) => {
            let target = Target::of(client, global)?;
            let shown = pins::show(tool.as_deref(), &target, printer).await;
            target.close().await;
            return shown;
        }
        (ToolsCommand::Approve(args), client) => {
            let target = Target::of(client, global)?;
            let approved = pins::approve(&args, &target, printer).await;
            target.close().await;
            return approved;
        }
        (ToolsCommand::Show { tool }, None) => show(&tool, global, printer).await?,
        (ToolsCommand::Show { tool }, Some(client)) => show_remote(&tool, &client, printer).await?,
    }
    Ok(Exit::Done)
}

async fn list(args: &ToolListArgs, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?, printer)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway, printer).await;
            let entries = wanted(gateway, args)?;
            warn_of_silent(gateway, printer);
            print(&shown(&entries), "there are no tools", printer)
        })
        .await
}

/// Searches all tools, with the search of a server.
async fn search(args: &ToolSearchArgs, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?, printer)
        .await?
        .run(async |gateway: &Gateway| {
            local::settle(gateway, printer).await;
            let view = View::new(wanted(gateway, &args.of)?, &ByteBudget::new(0));
            warn_of_silent(gateway, printer);
            let found = view.search(&args.words.join(" "), None, usize::from(args.limit));
            print(&shown(&found), "no tool matches these words", printer)
        })
        .await
}

/// Returns the tools of the requested source kind and toolset.
fn wanted(gateway: &Gateway, args: &ToolListArgs) -> anyhow::Result<Vec<Arc<Entry>>> {
    let snapshot = gateway.snapshot();
    let toolset = match &args.toolset {
        Some(name) => {
            let unknown = || local::no_toolset(name, &gateway.config());
            Some(snapshot.catalog.toolset(name).ok_or_else(unknown)?)
        }
        None => None,
    };
    let wanted = |entry: &&Arc<Entry>| {
        args.source.is_none_or(|kind| entry.tool.source == kind)
            && toolset.is_none_or(|toolset| toolset.holds(entry))
    };
    Ok(snapshot.catalog.entries().iter().filter(wanted).map(Arc::clone).collect())
}

fn shown(entries: &[Arc<Entry>]) -> Vec<Shown> {
    entries.iter().map(|entry| Shown::of(entry)).collect()
}

fn print(tools: &[Shown], none: &str, printer: Printer) -> anyhow::Result<()> {
    if printer.wants_json() {
        return printer.json(&tools.iter().map(Shown::json).collect::<Vec<_>>());
    }
    if tools.is_empty() {
        printer.note(none);
        return Ok(());
    }
    table(tools, printer)
}

/// Prints the tools as a table.
pub(crate) fn table(tools: &[Shown], printer: Printer) -> anyhow::Result<()> {
    let rows = tools.iter().map(|shown| {
        let tool = &shown.tool;
        let [tier, scopes, approval] = needs(tool);
        let (name, source) = (shown.name.clone(), shown.source.clone());
        [name, source, tool.source.to_string(), tier, approval, scopes, tool.tool_id.clone()]
    });
    let head = [
        table::name("name"),
        table::text("source"),
        table::text("kind"),
        table::tier("tier"),
        table::text("approval"),
        table::text("scopes"),
        table::name("tool"),
    ];
    printer.table(head, rows)
}

fn warn_of_silent(gateway: &Gateway, printer: Printer) {
    for source in gateway.supply().reports().iter().filter(|source| source.discovered_at.is_none())
    {
        let why = source.status.detail.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        printer.warning(format_args!(
            "source `{}` did not answer{why}; its last known tools are shown",
            source.id
        ));
    }
}

/// Returns the tools that the key may use and that match `args` and, if given, the search words.
async fn remote(
    args: &ToolListArgs,
    search: Option<(&str, u16)>,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<Vec<Shown>> {
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
    let listed = match tools.list().await {
        Ok(listed) => listed,
        Err(error) => {
            let error = client.explained(error);
            return Err(match &args.toolset {
                Some(toolset) => refused(error, toolset, client).await,
                None => error,
            });
        }
    };
    let listed = listed.ok_or_else(|| {
        advised("the server has no catalog", "is this the address of a toolcrib server?")
    })?;
    // The catalog format has no wire names. A host other than toolcrib may serve only the catalog.
    let names = client.mcp_tools().await.unwrap_or_else(|error| {
        printer.detail(format_args!("the names of the tools could not be read: {error:#}"));
        Vec::new()
    });
    let by_id: HashMap<&str, &Listed> =
        names.iter().filter_map(|it| Some((it.tool_id()?, it))).collect();
    let shown = |tool: ToolDescriptor| {
        let names = by_id.get(tool.tool_id.as_str()).copied();
        Shown::listed(tool, names)
    };
    Ok(listed.into_iter().map(shown).collect())
}

async fn show(tool: &str, global: &Global, printer: Printer) -> anyhow::Result<()> {
    Local::start(Settings::load(global)?, printer)
        .await?
        .run(async |gateway: &Gateway| {
            let entry = local::awaited(gateway, tool, printer).await?;
            let shown = Shown::of(&entry);
            if printer.wants_json() {
                return printer.json(&shown.json());
            }
            let words = |tenants: &[TenantId]| {
                tenants.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(" ")
            };
            let tenants = match &entry.tenants {
                Tenants::All => "all".to_owned(),
                Tenants::Only(tenants) => words(tenants),
                Tenants::Except(tenants) => format!("all but {}", words(tenants)),
            };
            let more = [("upstream", entry.upstream_name.clone()), ("tenants", tenants)];
            details(&shown, &more, printer)
        })
        .await
}

async fn show_remote(name: &str, client: &Client, printer: Printer) -> anyhow::Result<()> {
    let names = client.mcp_tools().await?;
    let listed = Listed::find(&names, name);
    let id = listed.and_then(Listed::tool_id).unwrap_or(name);
    let found = client.catalog()?.tools().get(id).await;
    let Some(tool) = found.map_err(|error| client.explained(error))? else {
        return Err(unknown(name, names.iter().map(|it| it.name.as_str())));
    };
    let shown = Shown::listed(tool, listed);
    match printer.wants_json() {
        true => printer.json(&shown.json()),
        false => details(&shown, &[], printer),
    }
}

/// Refines `error`, the server's refusal to list `toolset`: a toolset that is missing in the server's
/// list is reported as unknown.
async fn refused(error: anyhow::Error, toolset: &str, client: &Client) -> anyhow::Error {
    let Ok(response) = client.get(&["v1", "sources"], &[]).await else { return error };
    let known = response.get("toolsets").and_then(Value::as_array).into_iter().flatten();
    let known: Vec<&str> = known.filter_map(|toolset| toolset.get("name")?.as_str()).collect();
    if known.contains(&toolset) {
        return error;
    }
    let suggestion = suggest::did_you_mean(toolset, known);
    advised(format!("no such toolset{suggestion}"), "`toolcrib sources list` shows the toolsets")
}

/// Creates the error for a tool name that is unknown for the key.
pub(crate) fn unknown<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> anyhow::Error {
    let suggestion = suggest::did_you_mean(name, known);
    advised(format!("no such tool{suggestion}"), "`toolcrib tools list` shows what the key may use")
}

fn details(shown: &Shown, more: &[(&str, String)], printer: Printer) -> anyhow::Result<()> {
    let tool = &shown.tool;
    let [tier, scopes, approval] = needs(tool);
    let own = [
        ("name", shown.name.clone()),
        ("title", tool.title.clone().unwrap_or_default()),
        ("source", shown.source.clone()),
        ("kind", tool.source.to_string()),
        ("tier", tier),
        ("scopes", scopes),
        ("approval", approval),
        ("egress", tool.egress.map(|it| it.to_string()).unwrap_or_default()),
        ("replay", tool.replay_policy.map(|it| it.to_string()).unwrap_or_default()),
    ];
    let ids = [("otc id", shown.otc_id.clone()), ("tool", tool.tool_id.clone())];
    let lines = own.iter().chain(more).chain(&ids);
    for (name, value) in lines.filter(|(_, value)| !value.is_empty()) {
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

/// Returns tier, scopes and approval as text.
fn needs(tool: &ToolDescriptor) -> [String; 3] {
    let scopes = match tool.auth.as_ref().and_then(|auth| auth.scopes.as_deref()) {
        None => "(hidden from all)".to_owned(),
        Some([]) => "(none)".to_owned(),
        Some(scopes) => scopes.iter().map(|it| it.as_str()).collect::<Vec<_>>().join(" "),
    };
    let approval = tool.approval.map(|it| it.to_string()).unwrap_or_default();
    [tool.safety_tier.to_string(), scopes, approval]
}

impl Shown {
    pub(crate) fn of(entry: &Entry) -> Self {
        Self {
            name: entry.names.wire.clone(),
            source: entry.source.to_string(),
            otc_id: entry.names.otc_id(),
            digest: entry.digest.map(|digest| digest.to_string()),
            tool: entry.tool.clone(),
        }
    }

    /// Combines `tool` with its names in the server's MCP list.
    fn listed(tool: ToolDescriptor, names: Option<&Listed>) -> Self {
        let text = |of: fn(&Listed) -> Option<&str>| {
            names.and_then(of).map(str::to_owned).unwrap_or_default()
        };
        Self {
            name: names.map(|it| it.name.clone()).unwrap_or_default(),
            source: text(Listed::source_id),
            otc_id: text(Listed::otc_id),
            digest: None,
            tool,
        }
    }

    /// Returns the descriptor with the other names of the tool.
    fn json(&self) -> Value {
        let mut tool = json!(self.tool);
        if let Some(members) = tool.as_object_mut() {
            for (member, value) in
                [("wireName", &self.name), ("otcId", &self.otc_id), ("sourceId", &self.source)]
            {
                if !value.is_empty() {
                    members.insert(member.to_owned(), json!(value));
                }
            }
            if let Some(digest) = &self.digest {
                members.insert("digest".to_owned(), json!(digest));
            }
        }
        tool
    }
}
