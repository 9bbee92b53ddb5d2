//! `mcp`: serves MCP over stdin and stdout, with the sources in this process or for a running server.

use std::{pin::pin, sync::Arc};

use toolcrib_config::McpConfig;
use toolcrib_core::{credential::Secret, id::TenantId, principal::Principal};
use toolcrib_gateway::{CatalogScope, Gateway, authn::AcceptedCredentials};

use crate::{
    args::McpArgs,
    client::{Client, bridge},
    context::Context,
    failure::{Advice as _, Exit, usage},
    local::{self, LocalGateway},
    printer::Printer,
    settings::{self, Settings},
};

pub(crate) async fn run(
    args: McpArgs,
    cx @ Context { global, printer }: &Context,
) -> anyhow::Result<Exit> {
    if let Some(client) = Client::connect(cx)? {
        return forward(client, &args).await;
    }
    let printer = *printer;
    let key = settings::key(global)?;
    let settings = Settings::load(global)?;
    let config = settings.config.mcp.clone();
    let local = LocalGateway::start(settings, printer).await?;
    let served = serve(&local.gateway, &config, args, key, printer).await;
    local.end().await;
    served.map(|()| Exit::Done)
}

/// Forwards messages to a running server.
async fn forward(client: Client, args: &McpArgs) -> anyhow::Result<Exit> {
    if args.tenant.is_some() || !args.scopes.is_empty() {
        return Err(usage(
            "--tenant and --scope have no effect on a running server; use a key with fewer scopes",
        ));
    }
    let endpoint = client.endpoint(args.toolset.as_deref())?;
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    bridge::run(endpoint, streams, local::interrupted()).await?;
    Ok(Exit::Done)
}

/// Serves until the input is closed or a termination signal arrives; both are a success.
async fn serve(
    gateway: &Gateway,
    config: &McpConfig,
    args: McpArgs,
    key: Option<Secret>,
    printer: Printer,
) -> anyhow::Result<()> {
    let within = args.toolset.as_deref().map_or_else(CatalogScope::default, CatalogScope::toolset);
    if !gateway.snapshot().has(&within) {
        let name = args.toolset.as_deref().unwrap_or_default();
        return Err(local::no_toolset(name, &gateway.config()));
    }
    let principal: Arc<Principal> = match key {
        Some(key) => gateway
            .authenticator()
            .identify(key.expose(), AcceptedCredentials::Usual)
            .await
            .advise(
                "the key is not accepted",
                "`toolcrib keys list` shows the keys of this store",
            )?,
        None => {
            let tenant = args.tenant.map_or_else(|| TenantId::parse("default"), Ok)?;
            Arc::new(local::operator(tenant, args.scopes)?)
        }
    };
    let mut interrupted = pin!(local::interrupted());
    // Clients list the tools once, at their start, so the sources must be ready.
    tokio::select! {
        () = local::settle(gateway, printer) => {}
        () = &mut interrupted => return Ok(()),
    }
    let streams = (tokio::io::stdin(), tokio::io::stdout());
    let served = (principal, within);
    toolcrib::serve_stdio_within(gateway.clone(), config, served, streams, interrupted).await?;
    Ok(())
}
