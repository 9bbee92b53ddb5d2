//! `[store]`: the place of all state, and the places of the seal keys.

use std::{ffi::OsString, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    resolver::Resolver,
    secret::KeyPlace,
    units::{self as kind, Kind as _},
};

/// The schemes of the URL of a PostgreSQL database.
const POSTGRES: [&str; 2] = ["postgres://", "postgresql://"];
/// The name of the files of a server on PostgreSQL, in its data directory.
const POSTGRES_FILES: &str = ".toolcrib/postgres";

/// The place of all state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    /// Address of the store: `sqlite:PATH` for one server, or `postgres://USER@HOST/DATABASE` for
    /// [several](../guides/scale.md). The default is a SQLite file in the data directory
    /// (`--data-dir`).
    url: String,
    /// The password of the PostgreSQL user.
    password: Option<KeyPlace>,
    /// The key that seals [credentials](../guides/credentials.md#the-seal-key) and stored answers.
    seal_key: Option<KeyPlace>,
    /// The previous seal key, until `toolcrib credentials reseal`.
    old_seal_key: Option<KeyPlace>,
    /// Free disk space below which denials and refused calls are counted instead of recorded, or
    /// `off` ([disk space](../guides/operate.md#disk-space)).
    #[serde(with = "kind::KeepFree")]
    keep_free: u64,
}

/// The place of all state.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreConfig {
    /// The storage engine.
    pub engine: Engine,
    /// The SQLite file. With PostgreSQL, the path from which the names of this server's local files
    /// are derived (lock, signing key, witness).
    pub path: PathBuf,
    /// The key that seals stored credentials. Without it, credentials cannot be stored.
    pub seal_key: Option<KeyPlace>,
    /// The previous seal key, until everything is resealed.
    pub old_seal_key: Option<KeyPlace>,
    /// Free bytes of the file system below which only calls that run are recorded.
    pub keep_free: u64,
}

// === impl StoreConfig ===

impl StoreConfig {
    /// Returns whether several servers can use the store.
    pub fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Postgres { .. })
    }

    /// The URL that opens the store, without a password.
    pub fn url(&self) -> OsString {
        match &self.engine {
            Engine::Postgres { url, .. } => url.into(),
            Engine::Sqlite => {
                let mut url = OsString::from("sqlite:");
                url.push(&self.path);
                url
            }
        }
    }
}

/// The storage engine of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// A SQLite file, for one server.
    Sqlite,
    /// A PostgreSQL database, for any number of servers.
    Postgres {
        /// The URL, without a password.
        url: String,
        /// The password of the user.
        password: Option<KeyPlace>,
    },
}

impl Default for Store {
    fn default() -> Self {
        let url = "sqlite:.toolcrib/toolcrib.db".to_owned();
        Self { url, password: None, seal_key: None, old_seal_key: None, keep_free: 256 << 20 }
    }
}

impl Resolver<'_> {
    pub(super) fn store(&mut self, typed: Store) -> StoreConfig {
        let (engine, path) = self.engine(&typed.url, typed.password);
        if typed.seal_key.is_none() && typed.old_seal_key.is_some() {
            let message = "there is no `seal_key` that follows it; if it is still the key, rename \
                           this to `seal_key`";
            self.complain_of_absence("store.seal_key", "store.old_seal_key", message);
        }
        StoreConfig {
            engine,
            path: self.base.join(path),
            seal_key: self.key_place(typed.seal_key),
            old_seal_key: self.key_place(typed.old_seal_key),
            keep_free: typed.keep_free,
        }
    }
    /// The engine of `url`, and the path of its file or of the local files for it.
    fn engine(&mut self, url: &str, password: Option<KeyPlace>) -> (Engine, PathBuf) {
        if is_postgres(url) {
            if has_password(url) {
                self.complain(
                    "store.url",
                    "must not contain a password, because errors and logs may show it; name its place \
                     with `password`, such as { env = \"TOOLCRIB_DB_PASSWORD\" }",
                );
            }
            let password = self.key_place(password);
            return (Engine::Postgres { url: url.to_owned(), password }, POSTGRES_FILES.into());
        }
        if password.is_some() {
            self.complain("store.password", "has no effect on a SQLite file");
        }
        let path = url.strip_prefix("sqlite:").filter(|path| !path.is_empty());
        let expected = "expected \"sqlite:PATH\" or \"postgres://USER@HOST/DATABASE\"";
        let path = self.check("store.url", path.ok_or(expected));
        (Engine::Sqlite, path.unwrap_or_default().into())
    }
}

fn is_postgres(url: &str) -> bool {
    POSTGRES.iter().any(|scheme| url.starts_with(scheme))
}

/// Whether a PostgreSQL URL has a password, before its host or as a parameter.
pub fn has_password(url: &str) -> bool {
    let rest = POSTGRES.iter().find_map(|scheme| url.strip_prefix(scheme)).unwrap_or_default();
    let (place, parameters) = rest.split_once('?').unwrap_or((rest, ""));
    let user = place.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || parameters.split('&').any(|parameter| parameter.starts_with("password="))
}
