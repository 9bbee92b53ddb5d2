//! The description of a tool (RFC 0078 §C).
//!
//! [`ToolDescriptor`] accepts exactly the documents that the published JSON Schema accepts. Unknown
//! keys, `null` members, a missing `safetyTier` and an `exec` tool outside `host-extension` are
//! parse errors.

use std::{borrow::Cow, fmt, marker::PhantomData};

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{MapAccess, Visitor, value::MapAccessDeserializer},
};
use serde_json::Value;

use crate::{schema::Schema, scope::Scope, text_types::closed_enum};

pub use crate::{schema::SchemaObject, text_types::UnknownValue};

closed_enum! {
    /// Which surface backs a tool (RFC 0078 §C `source`).
    SourceKind {
        /// A node of an installed pack.
        NodePack = "node-pack",
        /// A workflow run as one tool.
        Workflow = "workflow",
        /// A tool of an MCP server.
        Mcp = "mcp",
        /// An operation of an OpenAPI document or an action of a connector pack.
        Connector = "connector",
        /// A command of this host.
        HostExtension = "host-extension",
    }
}
closed_enum! {
    /// What running the tool does to data (RFC 0078 §C `safetyTier`). Assigned by the operator.
    SafetyTier {
        /// No external side effects.
        Pure = "pure",
        /// Reads external state.
        Read = "read",
        /// Changes external state.
        Write = "write",
        /// Runs arbitrary commands; only with [`SourceKind::HostExtension`].
        Exec = "exec",
    }
}
closed_enum! {
    /// Outbound network posture (RFC 0078 §C `egress`).
    Egress {
        /// No egress.
        None = "none",
        /// Through the host's guarded fetch.
        SafeFetch = "safe-fetch",
        /// Through the host, but not its guarded fetch.
        HostMediated = "host-mediated",
        /// The host's own business.
        HostOwned = "host-owned",
    }
}
closed_enum! {
    /// Whether a call needs a human's consent (RFC 0051).
    Approval {
        /// Never.
        Never = "never",
        /// Decided per call.
        Conditional = "conditional",
        /// Always.
        Always = "always",
    }
}
closed_enum! {
    /// The meaning of a repeated call (RFC 0078 §C `replayPolicy`).
    ReplayPolicy {
        /// Same input, same output, no effect.
        Deterministic = "deterministic",
        /// Safe to repeat under the idempotency key.
        Idempotent = "idempotent",
        /// Every call counts.
        NonDeterministic = "non-deterministic",
    }
}
closed_enum! {
    /// Advisory magnitude.
    Hint {
        /// Low.
        Low = "low",
        /// Medium.
        Medium = "medium",
        /// High.
        High = "high",
    }
}

/// The scopes and credentials that a tool requires. Never carries credential material (SR-1).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", remote = "Self")]
#[schemars(inline)]
pub struct Auth {
    /// Scopes the principal must hold, all of them. With an explicit empty list, no scope is
    /// required.
    #[serde(default, deserialize_with = "unique_scopes", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "std::collections::BTreeSet<String>")]
    pub scopes: Option<Vec<Scope>>,
    /// Whether the host must hold a stored credential for the tool.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub credential_ref: Option<bool>,
}

/// A portable, read-only description of one tool (RFC 0078 §C).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase", remote = "Self")]
#[schemars(transform = exec_rule)]
pub struct ToolDescriptor {
    /// Stable, host-unique identifier whose prefix names the source.
    #[schemars(length(min = 1))]
    pub tool_id: String,
    /// The surface that backs the tool.
    pub source: SourceKind,
    /// Name for people.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub title: Option<String>,
    /// One-line summary for a tool picker.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub description: Option<String>,
    /// JSON Schema of the arguments; absent means opaque arguments.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SchemaObject")]
    pub input_schema: Option<Schema>,
    /// JSON Schema of the result.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "SchemaObject")]
    pub output_schema: Option<Schema>,
    /// The requirements on the caller. A tool without this block is invisible to every caller.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Auth")]
    pub auth: Option<Auth>,
    /// Outbound network posture.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Egress")]
    pub egress: Option<Egress>,
    /// Whether invocation needs an approval interrupt.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Approval")]
    pub approval: Option<Approval>,
    /// Replay posture.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ReplayPolicy")]
    pub replay_policy: Option<ReplayPolicy>,
    /// Data-effect classification, assigned by the operator.
    pub safety_tier: SafetyTier,
    /// Advisory cost.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Hint")]
    pub cost_hint: Option<Hint>,
    /// Advisory latency.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Hint")]
    pub latency_hint: Option<Hint>,
}

impl ToolDescriptor {
    /// Creates a descriptor of `tool_id` with every optional member absent.
    pub fn new(tool_id: &str, source: SourceKind, safety_tier: SafetyTier) -> Self {
        Self {
            tool_id: tool_id.to_owned(),
            source,
            title: None,
            description: None,
            input_schema: None,
            output_schema: None,
            auth: None,
            egress: None,
            approval: None,
            replay_policy: None,
            safety_tier,
            cost_hint: None,
            latency_hint: None,
        }
    }

    /// The scopes that a caller needs; `None` if the tool has no scopes configured, so every call
    /// is denied.
    pub fn required_scopes(&self) -> Option<&[Scope]> {
        self.auth.as_ref()?.scopes.as_deref()
    }

    /// Checks the rules across members (RFC 0078 §C-1, §F-4) and the minimum length of the id.
    pub fn check(&self) -> Result<(), InvalidDescriptor> {
        if self.tool_id.is_empty() {
            return Err(InvalidDescriptor::EmptyToolId);
        }
        if self.safety_tier == SafetyTier::Exec && !self.source.traits().runs_commands {
            return Err(InvalidDescriptor::ExecOutsideHostExtension);
        }
        Ok(())
    }
}

/// Why a descriptor breaks a rule that its members' types cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidDescriptor {
    /// `toolId` is empty.
    #[error("toolId is empty")]
    EmptyToolId,
    /// RFC 0069: exec is never protocol-tier.
    #[error("safetyTier \"exec\" needs source \"host-extension\"")]
    ExecOutsideHostExtension,
}

// The derived implementations use `Self` as "remote". Parsing can then start with a check for an
// object (a derived reader alone also accepts a list of the members' values) and finish with
// `check`.
impl<'de> Deserialize<'de> for ToolDescriptor {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let descriptor: Self = deserializer.deserialize_map(ObjectVisitor(PhantomData))?;
        descriptor.check().map_err(serde::de::Error::custom)?;
        Ok(descriptor)
    }
}

impl Serialize for ToolDescriptor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Auth {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl Serialize for Auth {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Self::serialize(self, serializer)
    }
}

/// A type whose derived reader is an inherent method.
trait DerivedReader<'de>: Sized {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error>;
}

impl<'de> DerivedReader<'de> for ToolDescriptor {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

impl<'de> DerivedReader<'de> for Auth {
    fn read<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::deserialize(deserializer)
    }
}

/// Passes only objects to the derived reader.
struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: DerivedReader<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        T::read(MapAccessDeserializer::new(members))
    }
}

/// Reads an optional member that must not be `null` when present.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(d: D) -> Result<Option<T>, D::Error> {
    T::deserialize(d).map(Some)
}

fn unique_scopes<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Vec<Scope>>, D::Error> {
    let texts = Vec::<Cow<'de, str>>::deserialize(d)?;
    let scopes: Vec<Scope> = texts.iter().map(|text| Scope::declared(text)).collect();
    let mut seen = std::collections::HashSet::new();
    if scopes.iter().all(|scope| seen.insert(scope)) {
        Ok(Some(scopes))
    } else {
        Err(serde::de::Error::custom("auth.scopes repeats a scope"))
    }
}

/// Adds "exec needs host-extension" to the generated schema.
fn exec_rule(schema: &mut schemars::Schema) {
    schema.insert(
        "allOf".to_owned(),
        serde_json::json!([{
            "if": { "properties": { "safetyTier": { "const": "exec" } }, "required": ["safetyTier"] },
            "then": { "properties": { "source": { "const": "host-extension" } }, "required": ["source"] }
        }]),
    );
}

/// The published JSON Schema of [`ToolDescriptor`].
pub fn json_schema() -> Value {
    let mut schema = schemars::schema_for!(ToolDescriptor);
    schema.insert(
        "$id".to_owned(),
        "https://toolcrib.dev/schemas/tool-descriptor.schema.json".into(),
    );
    schema.to_value()
}
