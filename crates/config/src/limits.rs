//! `[limits]`: rates that several servers share.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{resolver::Resolver, secret::KeyPlace, store::StoreConfig};

/// Rates that [several servers](../guides/scale.md#share-rates) share.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Limits {
    /// The place of the counters: `store` in the PostgreSQL database of `[store]`, or
    /// `redis://HOST:PORT` (with TLS `rediss://HOST:PORT`) in Valkey or Redis.
    #[schemars(extend("x-default" = "each server counts for itself"))]
    shared: Option<String>,
    /// The password of Valkey or Redis.
    password: Option<KeyPlace>,
    /// Calls with a rate while the place in `shared` is unreachable: `refuse` them, or count in
    /// each server (`local`).
    #[schemars(extend("x-default" = "`\"refuse\"`"))]
    on_outage: Option<OnOutage>,
}

/// The rule while the place of shared rates is unreachable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnOutage {
    /// Calls with a rate are refused.
    #[default]
    Refuse,
    /// Each server counts for itself.
    Local,
}

/// Rates that several servers share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SharedLimits {
    /// The place of the counters.
    pub place: LimitPlace,
    /// The rule while the place is unreachable.
    pub on_outage: OnOutage,
}

/// The place of the counters of shared rates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitPlace {
    /// In the database of the store.
    Store,
    /// In Valkey or Redis.
    Redis {
        /// The URL, without a password.
        url: String,
        /// The password.
        password: Option<KeyPlace>,
    },
}

impl Resolver<'_> {
    pub(super) fn limits(&mut self, typed: Limits, store: &StoreConfig) -> Option<SharedLimits> {
        let Some(shared) = typed.shared else {
            for (key, is_set) in [
                ("limits.on_outage", typed.on_outage.is_some()),
                ("limits.password", typed.password.is_some()),
            ] {
                if is_set {
                    self.complain(key, "has no effect without `shared`");
                }
            }
            return None;
        };
        let redis = ["redis://", "rediss://"].iter().find_map(|scheme| shared.strip_prefix(scheme));
        let place = match (shared.as_str(), redis) {
            ("store", _) => {
                if !store.is_shared() {
                    let message = "requires PostgreSQL in `[store] url`; a SQLite file has one \
                                   server, which needs no shared rates";
                    self.complain("limits.shared", message);
                }
                if typed.password.is_some() {
                    self.complain("limits.password", "has no effect on `shared = \"store\"`");
                }
                LimitPlace::Store
            }
            (_, Some(rest)) => {
                if rest.contains('@') {
                    let message = "must not contain a user or password, because errors and logs may \
                                   show it; name its place with `password`";
                    self.complain("limits.shared", message);
                }
                let password = self.key_place(typed.password);
                LimitPlace::Redis { url: shared, password }
            }
            _ => {
                self.complain("limits.shared", "expected \"store\" or \"redis://HOST:PORT\"");
                return None;
            }
        };
        Some(SharedLimits { place, on_outage: typed.on_outage.unwrap_or_default() })
    }
}
