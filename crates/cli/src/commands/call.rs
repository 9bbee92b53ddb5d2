//! `call`: one call through the gate, here or on a running server.

mod answer;
mod remote;

use std::sync::Arc;

use serde_json::Value;
use toolcrib_core::{
    call::{Progress, ProgressSink},
    id::TenantId,
};
use toolcrib_gateway::{Gateway, call::CallRequest, list::ToolRef, metrics::Surface};

use super::input;
use crate::{
    args::{CallArgs, Global},
    client::Client,
    failure::{Exit, usage},
    local::{self, Local},
    printer::Printer,
    settings::Settings,
};

pub(crate) async fn run(args: CallArgs, global: &Global, printer: Printer) -> anyhow::Result<Exit> {
    let arguments = input::document(&args.arguments)?;
    if !arguments.is_object() {
        return Err(usage("the arguments must be a JSON object such as '{\"path\": \"a.md\"}'"));
    }
    match Client::connect(global, printer)? {
        Some(client) => remote::run(&args.tool, &arguments, &client, printer).await,
        None => here(&args.tool, arguments, global, printer).await,
    }
}

async fn here(
    tool: &str,
    arguments: Value,
    global: &Global,
    printer: Printer,
) -> anyhow::Result<Exit> {
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            let entry = local::awaited(gateway, tool).await?;
            // The operator stands in whatever tenant the tool exists for.
            let tenant = match &entry.tenants {
                toolcrib_core::catalog::Tenants::Only(tenants) => tenants.first().cloned(),
                toolcrib_core::catalog::Tenants::All
                | toolcrib_core::catalog::Tenants::Except(_) => None,
            };
            let tenant = tenant.map_or_else(|| TenantId::parse("default"), Ok)?;
            let operator = local::operator(tenant, Vec::new())?;
            let mut request =
                CallRequest::new(Surface::Cli, ToolRef::Id(entry.id.as_str()), arguments);
            request.progress = Some(Arc::new(ProgressLines(printer)));
            answer::called(gateway.call(&operator, request).await, printer)
        })
        .await
}

/// Prints progress as it comes.
struct ProgressLines(Printer);

impl ProgressSink for ProgressLines {
    fn report(&self, progress: Progress) {
        answer::progress(progress, self.0);
    }
}
