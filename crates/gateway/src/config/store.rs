//! `[store]`: the place of all state, and the places of the seal keys.

use std::{ffi::OsString, path::PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::{
    resolver::Resolver,
    secret::KeyPlace,
    units::{self as kind, Kind as _},
};

/// The place of all state.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Store {
    /// The SQLite file, as `sqlite:PATH`. The default is in the data directory (`--data-dir`).
    url: String,
    /// The key that seals [credentials](../guides/credentials.md#the-seal-key) and stored answers.
    seal_key: Option<KeyPlace>,
    /// The previous seal key, until `toolcrib credentials reseal`.
    old_seal_key: Option<KeyPlace>,
    /// Free disk space below which only calls that run are recorded, or `off` ([disk
    /// space](../guides/operate.md#disk-space)).
    #[serde(with = "kind::KeepFree")]
    keep_free: u64,
}

/// The place of all state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The SQLite file.
    pub path: PathBuf,
    /// The key that seals stored credentials. Without it, none can be stored.
    pub seal_key: Option<KeyPlace>,
    /// The previous seal key, until everything is resealed.
    pub old_seal_key: Option<KeyPlace>,
    /// Free bytes of the file system below which only calls that run are recorded.
    pub keep_free: u64,
}

impl StoreConfig {
    /// Returns the URL of the store.
    pub fn url(&self) -> OsString {
        let mut url = OsString::from("sqlite:");
        url.push(&self.path);
        url
    }
}

impl Default for Store {
    fn default() -> Self {
        let url = "sqlite:.toolcrib/toolcrib.db".to_owned();
        Self { url, seal_key: None, old_seal_key: None, keep_free: 256 << 20 }
    }
}

impl Resolver<'_> {
    pub(super) fn store(&mut self, typed: Store) -> StoreConfig {
        let path = typed.url.strip_prefix("sqlite:").filter(|path| !path.is_empty());
        let path = self.check("store.url", path.ok_or("expected \"sqlite:PATH\""));
        if typed.seal_key.is_none() && typed.old_seal_key.is_some() {
            let message = "there is no `seal_key` that follows it; if it is still the key, rename \
                           this to `seal_key`";
            self.complain_of_absence("store.seal_key", "store.old_seal_key", message);
        }
        StoreConfig {
            path: self.base.join(path.unwrap_or_default()),
            seal_key: self.key_place(typed.seal_key),
            old_seal_key: self.key_place(typed.old_seal_key),
            keep_free: typed.keep_free,
        }
    }
}
