//! `mcp`: this machine's tools over stdin and stdout.

use std::sync::Arc;

use toolcrib_core::principal::Principal;
use toolcrib_gateway::Gateway;

use crate::{
    args::{Global, McpArgs},
    failure::{Advise as _, Exit},
    local::{self, Local},
    settings::{self, Settings},
};

pub(crate) async fn run(args: McpArgs, global: &Global) -> anyhow::Result<Exit> {
    settings::no_url(global, "`toolcrib mcp` serves")?;
    let key = settings::key(global)?;
    Local::start(Settings::load(global)?)
        .await?
        .run(async |gateway: &Gateway| {
            let principal: Arc<Principal> = match key {
                Some(key) => gateway.authenticator().authenticate(key.expose()).advise(
                    "the key is not accepted",
                    "`toolcrib keys list` shows the keys of this store",
                )?,
                None => Arc::new(local::operator(args.tenant, args.scopes)?),
            };
            // A client lists once, at its start, and calls at once; both want the sources.
            local::settle(gateway).await;
            let (input, output) = (tokio::io::stdin(), tokio::io::stdout());
            toolcrib::serve_stdio(gateway.clone(), principal, input, output).await?;
            Ok(Exit::Done)
        })
        .await
}
