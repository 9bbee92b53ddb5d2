//! `ToolDefinition`: one tool, in the shape of either dialect.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Map, Value, json};
use toolcrib_core::{
    catalog::{Entry, ListFormat},
    descriptor::ToolDescriptor,
    schema::Schema,
    scope::Scope,
};
use utoipa::ToSchema;

use super::{
    dialect::{Dialect, Marker},
    schema::{described, self_contained},
};
use crate::respond;

/// One tool. The protocol allows no more members; other dialects show more.
#[derive(Serialize, ToSchema)]
pub(super) struct Definition<'a, I> {
    /// `Toolkit.Tool@x.y.z`.
    id: String,
    name: &'a str,
    description: &'a str,
    version: &'a str,
    #[schema(inline)]
    input_schema: I,
    /// JSON Schema without references; `{}` if the tool may return any value, `null` if it returns
    /// no value.
    #[schema(value_type = Option<Object>, required)]
    output_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(inline)]
    requirements: Option<Requirements<'a>>,
}

/// The input schema in Open Tool Calling.
#[derive(Serialize, ToSchema)]
pub(super) struct NestedSchema {
    /// JSON Schema without references; every parameter has a description.
    #[schema(value_type = Object)]
    parameters: Value,
}

/// The input schema in OXP: JSON Schema without references; every parameter has a description.
#[derive(Serialize, ToSchema)]
#[schema(value_type = Object)]
pub(super) struct FlatSchema(Value);

/// The requirements of a tool. The members of the protocol (`authorization`, `secrets`, `user_id`)
/// list what a client must send in `context`. They do not apply, because this server checks the
/// scopes of the caller's key and holds credentials itself. So it has other members.
#[derive(Serialize, ToSchema)]
pub(super) struct Requirements<'a> {
    /// The required scopes of the caller's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Vec<String>>)]
    scopes: Option<&'a [Scope]>,
    /// Whether the server needs a credential for the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    credential: Option<bool>,
}

pub(super) fn format(dialect: Dialect, marker: Marker) -> &'static ListFormat {
    static FORMATS: LazyLock<[[ListFormat; 2]; 5]> = LazyLock::new(|| {
        Marker::ALL.map(|marker| [list(marker, "tools", nested), list(marker, "items", flat)])
    });
    let [otc, oxp, site, repository, first_repository] = &*FORMATS;
    let [tools, items] = match marker {
        Marker::Otc => otc,
        Marker::Oxp => oxp,
        Marker::Site => site,
        Marker::Repository => repository,
        Marker::FirstRepository => first_repository,
    };
    match dialect {
        Dialect::Otc => tools,
        Dialect::Oxp => items,
    }
}

/// Creates the format with the list at `array` and the version of `marker`. Its texts are leaked:
/// there is one for each marker, in use until the program exits.
fn list(marker: Marker, array: &str, item: fn(&Entry, &mut Vec<u8>)) -> ListFormat {
    let schema = marker.as_str();
    ListFormat {
        key: format!("{array} {schema}").leak(),
        open: format!("{{\"$schema\":\"{schema}\",\"{array}\":[").leak(),
        close: "]}",
        item,
    }
}

/// Writes a tool in the shape of Open Tool Calling.
fn nested(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, out, NestedSchema { parameters: parameters(&entry.tool) });
}

/// Writes a tool in the shape of OXP.
fn flat(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, out, FlatSchema(parameters(&entry.tool)));
}

fn parameters(tool: &ToolDescriptor) -> Value {
    described(
        tool.input_schema.as_ref().map_or(json!({}), |schema| self_contained(&schema.to_object())),
    )
}

fn write(entry: &Entry, out: &mut Vec<u8>, input_schema: impl Serialize) {
    let tool = &entry.tool;
    let definition = Definition {
        id: entry.names.otc_id(),
        name: &entry.names.wire,
        description: tool.description.as_deref().or(tool.title.as_deref()).unwrap_or_default(),
        version: &entry.names.version,
        input_schema,
        output_schema: output(tool),
        requirements: requirements(tool),
    };
    respond::write(entry, &definition, out);
}

/// The output schema: `{}` for a tool without one, which may return any value; `None` for a tool
/// that declares no output.
fn output(tool: &ToolDescriptor) -> Option<Value> {
    match tool.output_schema.as_ref().map(Schema::to_object) {
        None => Some(Value::Object(Map::new())),
        Some(schema) if schema.get("type") == Some(&json!("null")) => None,
        Some(schema) => Some(self_contained(&schema)),
    }
}

fn requirements(tool: &ToolDescriptor) -> Option<Requirements<'_>> {
    let auth = tool.auth.as_ref()?;
    let needs = Requirements {
        scopes: auth.scopes.as_deref().filter(|scopes| !scopes.is_empty()),
        credential: auth.credential_ref.filter(|needed| *needed),
    };
    (needs.scopes.is_some() || needs.credential.is_some()).then_some(needs)
}

#[cfg(test)]
mod tests {
    use toolcrib_core::descriptor::{Auth, SafetyTier, SourceKind};

    use super::*;

    #[test]
    fn every_marker_has_lists_of_its_own() {
        let mut keys = std::collections::HashSet::new();
        for (dialect, array) in [(Dialect::Otc, "tools"), (Dialect::Oxp, "items")] {
            for marker in Marker::ALL {
                let format = format(dialect, marker);
                assert!(keys.insert(format.key), "{}", format.key);
                let list: Value =
                    serde_json::from_str(&format!("{}{}", format.open, format.close)).unwrap();
                assert_eq!(list, json!({ "$schema": marker.as_str(), array: [] }));
            }
        }
    }

    #[test]
    fn what_a_tool_needs_and_answers_is_said_where_there_is_something() {
        let mut tool = ToolDescriptor::new("mcp:a.b", SourceKind::Mcp, SafetyTier::Read);
        let shown = |tool: &ToolDescriptor| {
            (serde_json::to_value(requirements(tool)).unwrap(), output(tool))
        };
        assert_eq!(shown(&tool), (Value::Null, Some(json!({}))));
        tool.auth = Some(Auth { scopes: Some(Vec::new()), credential_ref: Some(false) });
        assert_eq!(shown(&tool).0, Value::Null);
        let scopes = vec![Scope::parse("a:b").unwrap()];
        tool.auth = Some(Auth { scopes: Some(scopes), credential_ref: Some(true) });
        tool.output_schema = Schema::try_from(&json!({ "type": "null" })).ok();
        assert_eq!(shown(&tool), (json!({ "scopes": ["a:b"], "credential": true }), None));
        tool.output_schema = Schema::try_from(&json!({ "type": "string" })).ok();
        assert_eq!(shown(&tool).1, Some(json!({ "type": "string" })));
    }
}
