//! The tools of a list or a search: all tools for the operator, or those of a key on a server.

use std::{collections::HashMap, sync::Arc};

use toolcrib_core::{
    budget::ByteBudget,
    catalog::{Entry, View},
    descriptor::ToolDescriptor,
    suggest,
};
use toolcrib_gateway::Gateway;

use crate::{
    args::ToolListArgs,
    client::{Client, ListedTool, McpList},
    context::Context,
    failure::advised,
    local, long_lists,
    printer::Printer,
    tool_row::ToolRow,
};

/// The words of a search and the maximum number of results.
pub(super) type Search<'a> = (&'a str, u16);

/// The tools that match `args` and, if given, the search: those of the server of `client`, or those
/// of the sources of the configuration.
pub(super) async fn rows(
    args: &ToolListArgs,
    search: Option<Search<'_>>,
    client: Option<&Client>,
    cx: &Context,
) -> anyhow::Result<Vec<ToolRow>> {
    match client {
        Some(client) => remote(args, search, client, cx.printer).await,
        None => here(args, search, cx).await,
    }
}

async fn here(
    args: &ToolListArgs,
    search: Option<Search<'_>>,
    cx: &Context,
) -> anyhow::Result<Vec<ToolRow>> {
    local::with_catalog(cx, async |gateway: &Gateway| {
        local::settle(gateway, cx.printer).await;
        let mut entries = wanted(gateway, args)?;
        warn_of_silent(gateway, cx.printer);
        if search.is_none() {
            for warning in long_lists::warnings(gateway) {
                cx.printer.warning(warning);
            }
        }
        if let Some((words, limit)) = search {
            entries =
                View::new(entries, &ByteBudget::new(0)).search(words, None, usize::from(limit));
        }
        Ok(entries.iter().map(|entry| ToolRow::from(&**entry)).collect())
    })
    .await
}

/// The tools of the requested source kind and toolset.
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

/// Warns about each source that has not listed its tools.
pub(super) fn warn_of_silent(gateway: &Gateway, printer: Printer) {
    for source in gateway.supply().reports().iter().filter(|source| source.discovered_at.is_none())
    {
        let why = source.status.detail.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        printer.warning(format_args!(
            "source `{}` did not answer{why}; its last known tools are shown",
            source.id
        ));
    }
}

async fn remote(
    args: &ToolListArgs,
    search: Option<Search<'_>>,
    client: &Client,
    printer: Printer,
) -> anyhow::Result<Vec<ToolRow>> {
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
    let listed = match (tools.list().await, &args.toolset) {
        (Ok(listed), _) => listed,
        (Err(error), Some(toolset)) => {
            return Err(refused(client.explained(error), toolset, client).await);
        }
        (Err(error), None) => return Err(client.explained(error)),
    };
    let listed = listed.ok_or_else(|| {
        advised("the server has no catalog", "is this the address of a toolcrib server?")
    })?;
    // The catalog format has no wire names. A host other than toolcrib may serve only the catalog.
    let McpList { tools: names, first_page } = client.mcp_list().await.unwrap_or_else(|error| {
        printer.detail(format_args!("the names of the tools could not be read: {error:#}"));
        McpList::default()
    });
    let long = first_page
        .filter(|_| search.is_none())
        .and_then(|first_page| long_lists::warning("this key", names.len(), first_page));
    if let Some(warning) = long {
        printer.warning(warning);
    }
    let by_id: HashMap<&str, &ListedTool> =
        names.iter().filter_map(|listed| Some((listed.tool_id()?, listed))).collect();
    let row = |tool: ToolDescriptor| {
        let names = by_id.get(tool.tool_id.as_str()).copied();
        ToolRow::listed(tool, names)
    };
    Ok(listed.into_iter().map(row).collect())
}

/// Refines `error`, the server's refusal to list `toolset`: a toolset missing in the server's list
/// is reported as unknown.
async fn refused(error: anyhow::Error, toolset: &str, client: &Client) -> anyhow::Error {
    let known = client.get_names(&["v1", "sources"], "toolsets", "name").await;
    let Ok(known) = known else { return error };
    if known.iter().any(|name| name == toolset) {
        return error;
    }
    let suggestion = suggest::did_you_mean(toolset, known.iter().map(String::as_str));
    advised(format!("no such toolset{suggestion}"), "`toolcrib sources list` shows the toolsets")
}
