//! The target of a command: a running server, or the store of the configuration.

use std::sync::Arc;

use toolcrib_config::Config;
use toolcrib_core::store::Storage;

use crate::{args::GlobalOptions, client::Client, context::Context, settings::Settings, store};

/// The place where a command reads and changes state.
pub(crate) enum Target {
    /// The server of `--url`; the caller is the owner of the key.
    Server(Client),
    /// The store of the configuration; the caller is the operator.
    Store(Box<Config>, Arc<dyn Storage>),
}

impl Target {
    /// The server of `--url`. Without `--url`, opens the store and fails if it is missing.
    pub(crate) async fn open(cx: &Context) -> anyhow::Result<Self> {
        Self::of(Client::connect(cx)?, &cx.global).await
    }

    /// Returns `server`. Without a server, opens the store and fails if it is missing.
    pub(crate) async fn of(server: Option<Client>, global: &GlobalOptions) -> anyhow::Result<Self> {
        match server {
            Some(client) => Ok(Self::Server(client)),
            None => {
                let config = Settings::load(global)?.config;
                let store = store::open_existing(&config).await?;
                Ok(Self::Store(Box::new(config), store))
            }
        }
    }

    /// Closes the store, which completes its writes.
    pub(crate) async fn close(self) {
        if let Self::Store(_, store) = self {
            store.close().await;
        }
    }
}
