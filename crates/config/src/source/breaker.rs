//! `[source.breaker]`: when calls of a source fail immediately.

use std::{fmt, time::Duration};

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, de};

use crate::{
    resolver::Resolver,
    units::{self as kind, Kind as _},
};

/// After repeated failures, calls of a source fail immediately for a time. Workflows have no
/// breaker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct BreakerConfig {
    /// Consecutive failures that open the breaker, 2 to 100.
    pub failures: usize,
    /// Longest time from the first to the last of these failures.
    #[serde(with = "kind::Duration")]
    pub window: Duration,
    /// Time until the next trial call.
    #[serde(with = "kind::Duration")]
    pub open: Duration,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self { failures: 5, window: Duration::from_secs(30), open: Duration::from_secs(15) }
    }
}

/// Deserializes `"off"`, or the settings of a breaker.
pub(super) fn choice<'de, D>(deserializer: D) -> Result<Option<Option<BreakerConfig>>, D::Error>
where
    D: Deserializer<'de>,
{
    struct Visitor;
    impl<'de> de::Visitor<'de> for Visitor {
        type Value = Option<Option<BreakerConfig>>;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("\"off\", or a table of `failures`, `window` and `open`")
        }
        fn visit_str<E: de::Error>(self, word: &str) -> Result<Self::Value, E> {
            match word {
                "off" => Ok(Some(None)),
                _ => Err(E::custom(
                    "expected \"off\", or a table of `failures`, `window` and `open`",
                )),
            }
        }
        fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            let set = BreakerConfig::deserialize(de::value::MapAccessDeserializer::new(map))?;
            Ok(Some(Some(set)))
        }
    }
    deserializer.deserialize_any(Visitor)
}

impl Resolver<'_> {
    pub(super) fn breaker(&mut self, key: &str, breaker: Option<&BreakerConfig>) {
        // A single failure is not enough to block a source for all callers.
        if breaker.is_some_and(|breaker| !(2..=100).contains(&breaker.failures)) {
            self.complain(&format!("{key}.breaker.failures"), "must be from 2 to 100");
        }
    }
}
