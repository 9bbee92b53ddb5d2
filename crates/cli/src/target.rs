//! Where a command reads and changes state: on a running server, or in the store of the configuration.

use toolcrib_gateway::config::Config;
use toolcrib_store::SqliteStore;

use crate::{args::Global, client::Client, printer::Printer, settings::Settings, store};

/// A server, or a store without one.
pub(crate) enum Target {
    /// The server of `--url`, as the owner of a key.
    Server(Client),
    /// The store of the configuration, as the operator.
    Store(Box<Config>, SqliteStore),
}

impl Target {
    /// Returns the server of `--url`, if there is one, or opens the store, which has to exist.
    pub(crate) fn open(global: &Global, printer: Printer) -> anyhow::Result<Self> {
        Self::of(Client::connect(global, printer)?, global)
    }

    /// Returns `server`, or opens the store, which has to exist.
    pub(crate) fn of(server: Option<Client>, global: &Global) -> anyhow::Result<Self> {
        match server {
            Some(client) => Ok(Self::Server(client)),
            None => {
                let config = Settings::load(global)?.config;
                let store = store::open_existing(&config)?;
                Ok(Self::Store(Box::new(config), store))
            }
        }
    }

    /// Closes the store, so that what was written is in its file.
    pub(crate) async fn close(self) {
        if let Self::Store(_, store) = self {
            store.close().await;
        }
    }
}
