//! The arguments of a tool that its clients repeat in `Mcp-Param-*` headers.
//!
//! An HTTP client drops a tool with an invalid annotation. So a schema with an invalid annotation
//! is listed without any, and exactly the listed annotations are checked.

use toolcrib_core::{
    catalog::{Entry, ListFormat},
    descriptor::SchemaObject,
};
use toolcrib_mcp::{
    header::PARAM_PREFIX,
    param_header::{self, AnnotationError, ParamHeader},
};

/// Longest accepted header name after `Mcp-Param-`.
const MAX_NAME: usize = 128;

/// Reads which arguments clients of a tool with `schema` repeat.
pub(super) fn read(schema: &SchemaObject) -> Result<Vec<ParamHeader>, AnnotationError> {
    let found = param_header::read(schema)?;
    match found.iter().all(|param| param.header.len() <= PARAM_PREFIX.len() + MAX_NAME) {
        true => Ok(found),
        false => Err(AnnotationError::Name),
    }
}

/// The arguments that clients of `entry` repeat; computed once and cached with the tool.
pub(super) fn of(entry: &Entry) -> Vec<ParamHeader> {
    let json = entry.wire.get(entry, &KEPT);
    if json.is_empty() {
        return Vec::new();
    }
    serde_json::from_slice(&json).unwrap_or_default()
}

/// Caches the result of [`read`] with the tool, although clients never see this list.
static KEPT: ListFormat =
    ListFormat { key: "mcp-param-headers", open: "", close: "", item: write_found };

fn write_found(entry: &Entry, out: &mut Vec<u8>) {
    let found = entry.tool.input_schema.as_ref().map(|schema| read(&schema.to_object()));
    if let Some(Ok(found)) = found
        && !found.is_empty()
    {
        out.extend(serde_json::to_vec(&found).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_header_name_has_a_largest_size() {
        let annotated = |size: usize| {
            let property = json!({ "type": "string", "x-mcp-header": "x".repeat(size) });
            json!({ "properties": { "a": property } }).as_object().unwrap().clone()
        };
        assert_eq!(read(&annotated(MAX_NAME)).unwrap().len(), 1);
        assert_eq!(read(&annotated(MAX_NAME + 1)), Err(AnnotationError::Name));
    }
}
