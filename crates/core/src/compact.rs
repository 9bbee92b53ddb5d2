//! The compact view of a tool (RFC 0112): a closed descriptor for small models, whose schema uses no
//! `$ref`, `oneOf`, `allOf`, `anyOf`, `not`, `patternProperties` or `dependentSchemas` at any depth.
//!
//! A schema is rewritten only where the result accepts the same arguments. Local references are
//! inlined, conjunctions are merged, and "this or null" becomes a type with `null`. A schema that
//! cannot be expressed exactly is omitted: the descriptor then has no schema, and [`CompactError`]
//! gives the reason.
//!
//! It is in this crate because three others need it: the server for its lists, the client for
//! reading them, and [`lint`](crate::lint) for explaining why a tool has no compact schema.
//!
//! Invariant: the work is bounded for every schema ([`MAX_NODES`], [`MAX_DEPTH`], [`MAX_BYTES`]).

mod irreducible;
mod merge;
mod reduce;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::descriptor::{SafetyTier, SchemaObject, SourceKind, ToolDescriptor};

pub(crate) use self::reduce::is_plain_keyword;
pub use self::{irreducible::CompactError, reduce::reduce};

/// Keywords that no schema in a compact descriptor has, at any depth.
pub const BANNED: [&str; 7] =
    ["$ref", "oneOf", "allOf", "anyOf", "not", "patternProperties", "dependentSchemas"];

/// The most schemas visited for one tool, inlined references included.
pub const MAX_NODES: usize = 2_000;

/// The deepest nesting of schemas.
pub const MAX_DEPTH: usize = 32;

/// The most bytes of plain values (enumerations, descriptions) in one schema, inlined references
/// included.
pub const MAX_BYTES: usize = 256 << 10;

/// Longest description, in characters.
pub const MAX_DESCRIPTION: usize = 200;

/// A tool in the compact view (RFC 0112 `compact-tool-descriptor.schema.json`). The format is
/// closed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct CompactToolDescriptor {
    /// Equals the member of the standard view.
    pub tool_id: String,
    /// Equals the member of the standard view.
    pub source: SourceKind,
    /// Equals the member of the standard view.
    pub safety_tier: SafetyTier,
    /// Equals the member of the standard view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// At most [`MAX_DESCRIPTION`] characters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The arguments: `type` is `object`, and `properties` is present. Absent if they cannot be
    /// expressed without the banned keywords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<SchemaObject>,
}

impl CompactToolDescriptor {
    /// Creates the compact form of `tool`.
    pub fn of(tool: &ToolDescriptor) -> Self {
        Self {
            tool_id: tool.tool_id.clone(),
            source: tool.source,
            safety_tier: tool.safety_tier,
            title: tool.title.clone(),
            description: tool.description.as_deref().map(shorten),
            input_schema: tool
                .input_schema
                .as_ref()
                .and_then(|schema| reduce(&schema.to_object()).ok()),
        }
    }

    /// The published JSON Schema of this type.
    pub fn json_schema() -> Value {
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://openwop.dev/spec/v1/compact-tool-descriptor.schema.json",
            "title": "CompactToolDescriptor",
            "description": "A tool for small models: no keyword that combines schemas, at any depth.",
            "type": "object",
            "additionalProperties": false,
            "required": ["toolId", "source", "safetyTier"],
            "properties": {
                "toolId": { "type": "string", "minLength": 1 },
                "source": { "enum": names(SourceKind::ALL, SourceKind::as_str) },
                "title": { "type": "string" },
                "description": { "type": "string" },
                "inputSchema": {
                    "type": "object",
                    "required": ["type", "properties"],
                    "properties": {
                        "type": { "const": "object" },
                        "properties": { "type": "object" },
                    },
                    "not": {
                        "anyOf": BANNED.map(|keyword| json!({ "required": [keyword] })),
                    },
                },
                "safetyTier": { "enum": names(SafetyTier::ALL, SafetyTier::as_str) },
            },
            "allOf": [{
                "if": { "properties": { "safetyTier": { "const": "exec" } }, "required": ["safetyTier"] },
                "then": { "properties": { "source": { "const": "host-extension" } } },
            }],
        })
    }
}

fn names<T: Copy>(all: &[T], name: fn(T) -> &'static str) -> Vec<&'static str> {
    all.iter().copied().map(name).collect()
}

/// The first words of `text`, cut between characters.
fn shorten(text: &str) -> String {
    if text.chars().count() <= MAX_DESCRIPTION {
        return text.to_owned();
    }
    let mut short: String = text.chars().take(MAX_DESCRIPTION - 1).collect();
    // Cuts at the end of a word, unless that would lose more than half of the text.
    if let Some(space) = short.rfind(char::is_whitespace)
        && space > short.len() / 2
    {
        short.truncate(space);
    }
    short.truncate(short.trim_end().len());
    short.push('…');
    short
}

#[cfg(test)]
mod tests;
