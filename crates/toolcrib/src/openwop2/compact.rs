//! The compact view, whose schema is stricter than in v1: the schema of the arguments has the members
//! `type` and `properties`, and no others.

use serde_json::{Map, Value};
use toolcrib_core::{compact::CompactToolDescriptor, descriptor::ToolDescriptor};

/// Converts `tool` to its compact form. Rules about several arguments (`required`,
/// `additionalProperties`) have no place in it; a call checks them all the same.
pub(super) fn compact(tool: &ToolDescriptor) -> CompactToolDescriptor {
    let mut compact = CompactToolDescriptor::of(tool);
    if let Some(schema) = &mut compact.input_schema {
        schema.retain(|keyword, _| matches!(keyword.as_str(), "type" | "properties"));
        schema.insert("type".to_owned(), Value::from("object"));
        schema.entry("properties").or_insert_with(|| Map::new().into());
    }
    compact
}
