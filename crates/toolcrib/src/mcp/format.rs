//! Serialises tools for MCP.
//!
//! Invariant (I-13): the four hints are derived from the operator's classification. Upstream
//! annotations are not passed on, except for the title.

use serde_json::{Map, Value, json};
use toolcrib_core::{
    catalog::{Entry, ListFormat},
    descriptor::{Egress, ReplayPolicy, SafetyTier, SchemaObject},
    schema::{self, Schema},
    text::has_hidden,
};
use toolcrib_mcp::{meta::toolcrib as key, param_header, revision::Era};

use super::{host::Client, param_headers};

/// The member of `_meta` that names this server.
macro_rules! server_info {
    () => {
        concat!(
            "\"",
            toolcrib_mcp::server_info!(),
            r#"":{"name":"toolcrib","title":"toolcrib","version":""#,
            env!("CARGO_PKG_VERSION"),
            r#""}"#
        )
    };
}
pub(super) use server_info;

/// The format of `tools/list` in the handshake revisions.
pub(super) static LEGACY: ListFormat =
    ListFormat { key: "mcp-legacy", open: "{\"tools\":[", close: "]}", item: write_legacy };

/// The format of `tools/list` in the stateless revision. `ttlMs` is 0, because a client without a
/// subscription is not notified of changes. The list is private, because it depends on the caller.
pub(super) static MODERN: ListFormat = ListFormat {
    key: "mcp-modern",
    open: concat!(
        r#"{"resultType":"complete","ttlMs":0,"cacheScope":"private","_meta":{"#,
        server_info!(),
        r#"},"tools":["#
    ),
    close: "]}",
    item: write_modern,
};

/// [`LEGACY`] without references in schemas.
static LEGACY_INLINE: ListFormat = ListFormat {
    key: "mcp-legacy-inline",
    open: LEGACY.open,
    close: LEGACY.close,
    item: |entry, out| write_legacy(&inlined(entry), out),
};

/// [`MODERN`] without references in schemas.
static MODERN_INLINE: ListFormat = ListFormat {
    key: "mcp-modern-inline",
    open: MODERN.open,
    close: MODERN.close,
    item: |entry, out| write_modern(&inlined(entry), out),
};

/// The format of lists for `client` in `era`.
pub(super) fn format(client: &Client, era: Era) -> &'static ListFormat {
    let toolset = client.host.gateway.snapshot().toolset(&client.within);
    let inline = toolset.map_or(client.host.config.inline_refs, |toolset| toolset.inline_refs);
    match (era, inline) {
        (Era::Legacy, false) => &LEGACY,
        (Era::Legacy, true) => &LEGACY_INLINE,
        (Era::Modern, false) => &MODERN,
        (Era::Modern, true) => &MODERN_INLINE,
    }
}

/// Replaces every `$ref` in the schemas of `entry`. A schema that would then mark other arguments
/// for headers stays as it is.
fn inlined(entry: &Entry) -> Entry {
    let mut entry = entry.clone();
    let marks = |schema: &SchemaObject| param_headers::read(schema).ok();
    for schema in [&mut entry.tool.input_schema, &mut entry.tool.output_schema] {
        let Some(declared) = schema.as_ref().filter(|object| object.as_str().contains("$ref"))
        else {
            continue;
        };
        let declared = declared.to_object();
        let inlined = schema::inline(&declared);
        if marks(&inlined) == marks(&declared)
            && let Ok(inlined) = Schema::new(&inlined)
        {
            *schema = Some(inlined);
        }
    }
    entry
}

/// Longest title to pass on, in characters.
const MAX_TITLE: usize = 200;

fn write_legacy(entry: &Entry, out: &mut Vec<u8>) {
    // Until 2025-11-25, an output schema must describe an object. Clients reject the whole list
    // if one schema does not.
    let output = output_schema(entry)
        .filter(|schema| schema.get("type").and_then(Value::as_str) == Some("object"));
    write(entry, output, out);
}

fn write_modern(entry: &Entry, out: &mut Vec<u8>) {
    write(entry, output_schema(entry), out);
}

/// Derives a schema that every result of the tool fits. Clients treat a success that does not fit
/// as a failure, and the responses of services can differ from their documents.
fn output_schema(entry: &Entry) -> Option<SchemaObject> {
    let schema = entry.tool.output_schema.as_ref();
    schema.filter(|_| entry.tool.source.traits().fits_output_schema).map(Schema::to_object)
}

fn write(entry: &Entry, output: Option<SchemaObject>, out: &mut Vec<u8>) {
    let mut tool = Map::new();
    tool.insert("name".to_owned(), json!(entry.names.wire));
    if let Some(title) = &entry.tool.title {
        tool.insert("title".to_owned(), json!(title));
    }
    if let Some(description) = &entry.tool.description {
        tool.insert("description".to_owned(), json!(description));
    }
    tool.insert("inputSchema".to_owned(), Value::Object(input_schema(entry)));
    if let Some(output) = output {
        tool.insert("outputSchema".to_owned(), Value::Object(output));
    }
    tool.insert("annotations".to_owned(), annotations(entry));
    tool.insert(
        "_meta".to_owned(),
        json!({
            key::TOOL_ID: entry.id.as_str(),
            key::SOURCE_ID: entry.source.as_str(),
            key::OTC_ID: entry.names.otc_id(),
        }),
    );
    // A tool that fails to serialise would leave a gap in the list; a map of JSON never fails.
    out.extend(serde_json::to_vec(&tool).unwrap_or_else(|_| b"{}".to_vec()));
}

/// Converts the input schema to the form that every client reads: type `object`, with objects as
/// properties.
fn input_schema(entry: &Entry) -> SchemaObject {
    let declared = entry.tool.input_schema.as_ref();
    let mut schema = declared.map(Schema::to_object).unwrap_or_default();
    if schema.get("type").and_then(Value::as_str) != Some("object") {
        // Arguments are always an object, so this adds no restriction.
        schema.shift_remove("type");
        schema.shift_insert(0, "type".to_owned(), json!("object"));
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut() {
            match property {
                Value::Bool(true) => *property = json!({}),
                Value::Bool(false) => *property = json!({ "not": {} }),
                _ => {}
            }
        }
    }
    if param_headers::read(&schema).is_err() {
        param_header::strip(&mut schema);
    }
    schema
}

fn annotations(entry: &Entry) -> Value {
    let tool = &entry.tool;
    let mut hints = Map::new();
    if let Some(title) = upstream_title(entry) {
        hints.insert("title".to_owned(), json!(title));
    }
    let reads = matches!(tool.safety_tier, SafetyTier::Pure | SafetyTier::Read);
    let repeatable =
        matches!(tool.replay_policy, Some(ReplayPolicy::Deterministic | ReplayPolicy::Idempotent));
    hints.insert("readOnlyHint".to_owned(), json!(reads));
    hints.insert("destructiveHint".to_owned(), json!(!reads));
    hints.insert("idempotentHint".to_owned(), json!(repeatable));
    hints.insert("openWorldHint".to_owned(), json!(tool.egress != Some(Egress::None)));
    Value::Object(hints)
}

/// The title in the upstream's annotations, if it is plain text.
fn upstream_title(entry: &Entry) -> Option<&str> {
    let title = entry.annotations.as_ref()?.get("title")?.as_str()?;
    (!has_hidden(title) && title.chars().count() <= MAX_TITLE).then_some(title)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use toolcrib_core::{descriptor::SourceKind, id::SourceId};

    use super::*;

    fn entry(change: impl FnOnce(&mut Entry)) -> Entry {
        let source = SourceId::parse("files").unwrap();
        let mut entry = Entry::new(SourceKind::Mcp, &source, "read", SafetyTier::Write).unwrap();
        entry.timeout = Duration::from_secs(1);
        change(&mut entry);
        entry
    }

    fn written(format: &ListFormat, change: impl FnOnce(&mut Entry)) -> Value {
        let mut json = Vec::new();
        (format.item)(&entry(change), &mut json);
        serde_json::from_slice(&json).unwrap()
    }

    fn object(value: Value) -> Option<Schema> {
        Schema::try_from(&value).ok()
    }

    #[test]
    fn a_bare_tool_has_everything_that_clients_ask_for() {
        let expected = json!({
            "name": "files__read",
            "inputSchema": { "type": "object" },
            "annotations": {
                "readOnlyHint": false, "destructiveHint": true,
                "idempotentHint": false, "openWorldHint": true,
            },
            "_meta": {
                "dev.toolcrib/toolId": "mcp:files.read",
                "dev.toolcrib/sourceId": "files",
                "dev.toolcrib/otcId": "files.read@1.0.0",
            },
        });
        assert_eq!(written(&LEGACY, |_| {}), expected);
        assert_eq!(written(&MODERN, |_| {}), expected);
    }

    /// I-13: the upstream claims to be read-only; the operator has not classified it so.
    #[test]
    fn hints_come_from_the_operator() {
        let claims = json!({ "readOnlyHint": true, "openWorldHint": false, "title": "Read it" });
        let hints = |change: fn(&mut Entry)| {
            written(&MODERN, |entry| {
                entry.annotations = Some(claims.clone());
                change(entry);
            })["annotations"]
                .clone()
        };
        assert_eq!(
            hints(|_| {}),
            json!({
                "title": "Read it", "readOnlyHint": false, "destructiveHint": true,
                "idempotentHint": false, "openWorldHint": true,
            })
        );
        let classified = hints(|entry| {
            entry.tool.safety_tier = SafetyTier::Read;
            entry.tool.replay_policy = Some(ReplayPolicy::Idempotent);
            entry.tool.egress = Some(Egress::None);
        });
        assert_eq!(
            classified,
            json!({
                "title": "Read it", "readOnlyHint": true, "destructiveHint": false,
                "idempotentHint": true, "openWorldHint": false,
            })
        );
    }

    #[test]
    fn a_title_with_hidden_characters_is_left_out() {
        let tool = written(&MODERN, |entry| {
            entry.annotations = Some(json!({ "title": "Read\u{202e} it" }));
        });
        assert_eq!(tool["annotations"]["title"], Value::Null);
    }

    #[test]
    fn schemas_take_the_form_that_every_client_reads() {
        let shown = |schema: Value| {
            written(&LEGACY, |entry| entry.tool.input_schema = object(schema))["inputSchema"]
                .clone()
        };
        assert_eq!(
            shown(json!({ "required": ["a"] })),
            json!({ "type": "object", "required": ["a"] })
        );
        assert_eq!(shown(json!({ "type": ["object", "null"] })), json!({ "type": "object" }));
        assert_eq!(
            shown(json!({ "type": "object", "properties": { "a": true, "b": false } })),
            json!({ "type": "object", "properties": { "a": {}, "b": { "not": {} } } })
        );
        let annotated = |header: &str| {
            json!({ "type": "object",
                    "properties": { "a": { "type": "string", "x-mcp-header": header } } })
        };
        assert_eq!(shown(annotated("Region")), annotated("Region"));
        assert_eq!(
            shown(annotated("no token")),
            json!({ "type": "object", "properties": { "a": { "type": "string" } } })
        );
    }

    #[test]
    fn older_clients_get_output_schemas_of_objects_only() {
        let shown = |format, schema: Value| {
            written(format, |entry| entry.tool.output_schema = object(schema))["outputSchema"]
                .clone()
        };
        let (list, record) = (json!({ "type": "array" }), json!({ "type": "object" }));
        assert_eq!(shown(&LEGACY, list.clone()), Value::Null);
        assert_eq!(shown(&LEGACY, record.clone()), record);
        assert_eq!(shown(&MODERN, list.clone()), list);
    }

    #[test]
    fn inlined_schemas_have_no_references() {
        let place = json!({ "type": "object", "properties": { "zip": { "type": "string" } } });
        let input = json!({ "type": "object", "properties": { "to": { "$ref": "#/$defs/Place" } },
            "$defs": { "Place": place } });
        let change = |entry: &mut Entry| {
            entry.tool.input_schema = object(input.clone());
            entry.tool.output_schema = object(input.clone());
        };
        for (format, plain) in [(&LEGACY_INLINE, &LEGACY), (&MODERN_INLINE, &MODERN)] {
            let tool = written(format, change);
            let expected = json!({ "type": "object", "properties": { "to": place } });
            assert_eq!(tool["inputSchema"], expected);
            assert_eq!(tool["outputSchema"], expected);
            assert_eq!(written(plain, change)["inputSchema"], input);
        }
        // The gate expects the header of one argument.
        let marked = json!({ "type": "object", "properties": {
            "a": { "type": "string", "x-mcp-header": "A" }, "b": { "$ref": "#/properties/a" } } });
        let tool =
            written(&MODERN_INLINE, |entry| entry.tool.input_schema = object(marked.clone()));
        assert_eq!(tool["inputSchema"], marked);
    }

    #[test]
    fn the_frames_are_json() {
        for format in [&LEGACY, &MODERN, &LEGACY_INLINE, &MODERN_INLINE] {
            let text = format!("{}{}", format.open, format.close);
            let frame: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(frame["tools"], json!([]));
        }
    }
}
