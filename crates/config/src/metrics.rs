//! `[metrics]`: the tools and tenants with separate series.

use std::{collections::BTreeSet, fmt};

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{SeqAccess, Visitor, value::SeqAccessDeserializer},
};
use toolcrib_core::id::{TenantId, ToolId};

use super::resolver::Resolver;

const EXPECTED: &str = "expected a number such as 100, or a list of names";
/// The most tools with separate labels.
const MAX_TOOLS: usize = 10_000;
/// The most tenants with separate labels.
const MAX_TENANTS: usize = 1_000;

/// The tools and tenants that are labels of [metrics](../guides/observe.md#metrics). All others are
/// counted together as `other`.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Metrics {
    /// Tools with a separate label: a number of tools, in the order of their first call, or a list
    /// of tool ids. The number is at most 10 000; 0 turns these labels off.
    tools: Names,
    /// Tenants with a separate label: a number of tenants, in the order of their first call, or a
    /// list. The number is at most 1 000; 0 turns these labels off.
    tenants: Names,
}

/// A number or a list, as the file has it.
#[derive(Debug)]
enum Names {
    First(usize),
    Listed(Vec<String>),
}

/// The labels of metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Tools with a separate label.
    pub tools: LabelValues<ToolId>,
    /// Tenants with a separate label.
    pub tenants: LabelValues<TenantId>,
}

/// The values of a label that are shown; all others are `other`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LabelValues<T> {
    /// The first ones up to this number, in the order of their first use.
    First(usize),
    /// Only these.
    Only(BTreeSet<T>),
}

// === impl LabelValues ===

impl<T> LabelValues<T> {
    /// The most values that are shown.
    pub fn limit(&self) -> usize {
        match self {
            Self::First(count) => *count,
            Self::Only(names) => names.len(),
        }
    }
}

// === impl Names ===

impl<'de> Deserialize<'de> for Names {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NamesVisitor;

        impl<'de> Visitor<'de> for NamesVisitor {
            type Value = Names;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number or a list")
            }

            fn visit_str<E: serde::de::Error>(self, _: &str) -> Result<Names, E> {
                Err(E::custom(EXPECTED))
            }

            fn visit_i64<E: serde::de::Error>(self, count: i64) -> Result<Names, E> {
                let count = usize::try_from(count);
                count.map(Names::First).map_err(|_| E::custom("must be at least 0"))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, names: A) -> Result<Names, A::Error> {
                Vec::deserialize(SeqAccessDeserializer::new(names)).map(Names::Listed)
            }
        }

        deserializer.deserialize_any(NamesVisitor)
    }
}

// For the documented default.
impl Serialize for Names {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::First(count) => count.serialize(serializer),
            Self::Listed(names) => names.serialize(serializer),
        }
    }
}

impl JsonSchema for Names {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Names".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "title": "number or list of texts",
            "anyOf": [
                { "type": "integer", "minimum": 0 },
                { "type": "array", "items": { "type": "string" } },
            ],
        })
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self { tools: Names::First(100), tenants: Names::First(20) }
    }
}

impl Resolver<'_> {
    pub(super) fn metrics(&mut self, typed: Metrics) -> MetricsConfig {
        MetricsConfig {
            tools: self
                .labelled("metrics.tools", typed.tools, MAX_TOOLS, |text| ToolId::parse(text)),
            tenants: self.labelled("metrics.tenants", typed.tenants, MAX_TENANTS, |text| {
                TenantId::parse(text)
            }),
        }
    }

    fn labelled<T: Ord, E: ToString>(
        &mut self,
        key: &str,
        typed: Names,
        most: usize,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> LabelValues<T> {
        let labelled = match typed {
            Names::First(count) => LabelValues::First(count),
            Names::Listed(names) => {
                let names = self.list(key, &names, parse).unwrap_or_default();
                LabelValues::Only(names.into_iter().collect())
            }
        };
        if labelled.limit() > most {
            self.complain(key, format!("must be at most {most}, because each is several series"));
        }
        labelled
    }
}
