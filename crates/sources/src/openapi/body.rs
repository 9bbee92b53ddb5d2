//! The request body of an operation.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{
    document::{Document, Unusable, flag, text},
    encode::Style,
};

/// A request body in its preferred media type.
#[derive(Debug, Clone)]
pub(super) struct Body {
    pub(super) kind: BodyKind,
    /// As in the document, with parameters.
    pub(super) media_type: String,
    pub(super) required: bool,
    pub(super) description: Option<String>,
    /// The schema of the argument.
    pub(super) schema: Value,
    /// Form fields with an explicit encoding.
    pub(super) fields: Vec<Field>,
}

/// How the argument becomes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum BodyKind {
    Json,
    /// `application/x-www-form-urlencoded`.
    Form,
    Multipart,
    /// The text itself.
    Text,
    /// Base64 of the bytes.
    Binary,
}

/// A form field for which the document specifies more than a schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Field {
    pub(super) name: String,
    /// Serialization in a form; `None` when the document specifies none.
    pub(super) style: Option<(Style, bool)>,
    /// The media type of its part.
    pub(super) media_type: Option<String>,
    /// Whether the argument is the bytes in base64.
    pub(super) binary: bool,
}

impl Body {
    /// Reads a `requestBody`. Returns `None` when it has no content.
    pub(super) fn read(document: &Document, body: &Value) -> Result<Option<Self>, Unusable> {
        let Some(content) = body.get("content").and_then(Value::as_object) else { return Ok(None) };
        let chosen = content.iter().min_by_key(|(media_type, _)| rank(media_type));
        let Some((media_type, media)) = chosen else { return Ok(None) };
        let media = document.follow(media)?;
        let described = media.get("schema");
        let kind = match kind(media_type) {
            // A range that includes JSON, with a schema that is not binary.
            BodyKind::Binary if matches!(essence(media_type).as_str(), "*/*" | "application/*") => {
                match described.map(|schema| document.follow(schema)).transpose()? {
                    Some(schema) if !is_binary(schema) => BodyKind::Json,
                    _ => BodyKind::Binary,
                }
            }
            kind => kind,
        };
        let media_type = match (media_type.as_str(), kind) {
            // For a media type range, a concrete type within it is sent.
            (range, BodyKind::Text) if range.contains('*') => "text/plain",
            (range, BodyKind::Json) if range.contains('*') => "application/json",
            (range, _) if range.contains('*') => "application/octet-stream",
            (one, _) => one,
        };
        if http::HeaderValue::from_str(media_type).is_err() {
            return Err(Unusable::new("its body has no usable media type"));
        }
        let mut fields = Vec::new();
        let schema = match kind {
            BodyKind::Json => described.cloned().unwrap_or(Value::Bool(true)),
            BodyKind::Text => json!({ "type": "string" }),
            BodyKind::Binary => {
                json!({ "type": "string", "contentEncoding": "base64", "description": "base64" })
            }
            BodyKind::Form | BodyKind::Multipart => {
                let mut schema = described.cloned().unwrap_or_else(|| json!({ "type": "object" }));
                // The fields are needed here, so the outermost reference is followed.
                if schema.get("$ref").is_some() {
                    schema = document.follow(&schema)?.clone();
                }
                let encoding = media.get("encoding").and_then(Value::as_object);
                fields = read_fields(document, kind, &mut schema, encoding)?;
                schema
            }
        };
        Ok(Some(Self {
            kind,
            media_type: media_type.to_owned(),
            required: flag(body, "required").unwrap_or(false),
            description: text(body, "description").map(str::to_owned),
            schema,
            fields,
        }))
    }
}

fn read_fields(
    document: &Document,
    kind: BodyKind,
    schema: &mut Value,
    encoding: Option<&Map<String, Value>>,
) -> Result<Vec<Field>, Unusable> {
    let mut fields = Vec::new();
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else {
        return Ok(fields);
    };
    for (name, property) in properties {
        let encoding = encoding.and_then(|encoding| encoding.get(name)).unwrap_or(&Value::Null);
        let explode = flag(encoding, "explode");
        let style = match (text(encoding, "style"), explode) {
            (None, None) => None,
            (None | Some("form"), _) => Some((Style::Form, explode.unwrap_or(true))),
            (Some("spaceDelimited"), _) => Some((Style::Spaces, explode.unwrap_or(false))),
            (Some("pipeDelimited"), _) => Some((Style::Pipes, explode.unwrap_or(false))),
            (Some("deepObject"), _) => Some((Style::Deep, true)),
            (Some(_), _) => return Err(Unusable::new("a field of its form has an unknown style")),
        };
        let media_type = text(encoding, "contentType").and_then(|types| types.split(',').next());
        let media_type = media_type.map(str::trim).filter(|kind| !kind.contains('*'));
        let followed = document.follow(property)?;
        let each = followed.get("items").filter(|_| followed.get("type") == Some(&json!("array")));
        let each = each.map_or(Ok(followed), |items| document.follow(items))?;
        let binary = kind == BodyKind::Multipart && is_binary(each);
        if binary && let Some(members) = property.as_object_mut() {
            describe_base64(members);
        }
        if style.is_some() || media_type.is_some() || binary {
            let media_type = media_type.map(str::to_owned);
            fields.push(Field { name: name.clone(), style, media_type, binary });
        }
    }
    Ok(fields)
}

/// Adds a note for callers that the bytes must be base64.
fn describe_base64(property: &mut Map<String, Value>) {
    let note = "base64 of the file's bytes";
    let text = match property.get("description").and_then(Value::as_str) {
        Some(text) => format!("{text} ({note})"),
        None => note.to_owned(),
    };
    property.insert("description".to_owned(), Value::String(text));
}

/// Returns whether a schema is for bytes: `format: binary` in 3.0, a content media type without
/// text in 3.1.
fn is_binary(schema: &Value) -> bool {
    text(schema, "format") == Some("binary")
        || text(schema, "contentMediaType") == Some("application/octet-stream")
        || text(schema, "contentEncoding") == Some("base64")
}

/// Returns a media type in lower case, without parameters.
fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

fn kind(media_type: &str) -> BodyKind {
    let essence = essence(media_type);
    match essence.as_str() {
        _ if is_json(&essence) => BodyKind::Json,
        "application/x-www-form-urlencoded" => BodyKind::Form,
        "multipart/form-data" => BodyKind::Multipart,
        "*/*" => BodyKind::Binary,
        text if text.starts_with("text/") || text.ends_with("/xml") || text.ends_with("+xml") => {
            BodyKind::Text
        }
        _ => BodyKind::Binary,
    }
}

/// Returns the preference of a media type; the lowest is used.
fn rank(media_type: &str) -> u8 {
    match kind(media_type) {
        BodyKind::Json if media_type.trim().eq_ignore_ascii_case("application/json") => 0,
        // A merge patch has the form of the object; a JSON patch is a list of operations.
        BodyKind::Json if essence(media_type) == "application/merge-patch+json" => 1,
        BodyKind::Json if essence(media_type) == "application/json-patch+json" => 3,
        BodyKind::Json => 2,
        BodyKind::Form => 4,
        BodyKind::Multipart => 5,
        BodyKind::Text => 6,
        BodyKind::Binary => 7,
    }
}

/// Returns whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence.ends_with("+json")
}
