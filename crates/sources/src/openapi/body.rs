//! The request body of an operation.

use std::sync::LazyLock;

use serde::Serialize;
use serde_json::{Value, json};

use super::{
    document::{Document, Node, Unusable},
    form::{Content, Field, Form, FormKind},
    media_type::{BodyKind, essence, kind, rank},
};
use crate::text::tidy;

/// Most files of a form that its description names.
const MAX_NAMED: usize = 20;

/// A request body in its preferred media type.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body {
    pub(super) kind: BodyKind,
    /// As in the document, with parameters.
    pub(super) media_type: String,
    /// Form fields with an explicit encoding.
    pub(super) fields: Vec<Field>,
}

/// A request body and its argument.
pub(super) struct BodyEntry<'d> {
    pub(super) body: Body,
    pub(super) required: bool,
    /// The schema of the argument.
    pub(super) schema: Node<'d>,
    pub(super) description: Option<&'d str>,
    /// A sentence about the argument that the document lacks.
    pub(super) remark: Option<String>,
    /// Parts of the description that requests do not follow.
    pub(super) notes: Vec<String>,
}

static ANY: LazyLock<Value> = LazyLock::new(|| Value::Bool(true));
static TEXT: LazyLock<Value> = LazyLock::new(|| json!({ "type": "string" }));
static FORM: LazyLock<Value> = LazyLock::new(|| json!({ "type": "object" }));
static BASE64: LazyLock<Value> = LazyLock::new(
    || json!({ "type": "string", "contentEncoding": "base64", "description": "base64" }),
);

impl<'d> BodyEntry<'d> {
    /// Reads a `requestBody`. Returns `None` when it has no content.
    pub(super) fn read(document: &'d Document, body: Node<'d>) -> Result<Option<Self>, Unusable> {
        let Some(content) = body.get("content") else { return Ok(None) };
        let content = document.follow(content)?;
        let chosen = content.members().min_by_key(|(media_type, _)| rank(media_type));
        let Some((media_type, media)) = chosen else { return Ok(None) };
        let media = document.follow(media)?;
        let described = media.get("schema");
        let kind = body_kind(document, media_type, described)?;
        let media_type = match (media_type, kind) {
            // For a media type range, a concrete type within it is sent.
            (range, BodyKind::Text) if range.contains('*') => "text/plain",
            (range, BodyKind::Json) if range.contains('*') => "application/json",
            (range, _) if range.contains('*') => "application/octet-stream",
            (one, _) => one,
        };
        if http::HeaderValue::from_str(media_type).is_err() {
            return Err(Unusable::new("its body has no usable media type"));
        }
        let form = match kind {
            BodyKind::Form => Form::read(document, FormKind::Urlencoded, media, described)?,
            BodyKind::Multipart => Form::read(document, FormKind::Multipart, media, described)?,
            BodyKind::Json | BodyKind::Text | BodyKind::Binary => Form::default(),
        };
        let schema = match kind {
            BodyKind::Json => described.unwrap_or(media.with(&ANY)),
            BodyKind::Text => media.with(&TEXT),
            BodyKind::Binary => media.with(&BASE64),
            BodyKind::Form | BodyKind::Multipart => described.unwrap_or(media.with(&FORM)),
        };
        let mut files: Vec<_> =
            form.files().take(MAX_NAMED + 1).map(|name| format!("`{name}`")).collect();
        if files.len() > MAX_NAMED {
            files.truncate(MAX_NAMED);
            files.push("…".to_owned());
        }
        let remark = format!(
            "Base64 of the bytes of files, or `data:TYPE;name=NAME;base64,` and base64: {}.",
            files.join(", ")
        );
        let Form { fields, notes } = form;
        Ok(Some(Self {
            body: Body { kind, media_type: media_type.to_owned(), fields },
            required: body.flag("required").unwrap_or(false),
            schema,
            description: body.text("description"),
            remark: (!files.is_empty()).then_some(remark),
            notes,
        }))
    }
}

/// Returns how the argument of a body with this media type and schema becomes bytes.
fn body_kind(
    document: &Document,
    media_type: &str,
    schema: Option<Node<'_>>,
) -> Result<BodyKind, Unusable> {
    let essence = essence(media_type);
    let kind = kind(&essence);
    if kind != BodyKind::Binary {
        return Ok(kind);
    }
    if essence.starts_with("multipart/") {
        return Err(Unusable::new(format!(
            "its body is `{}`, which is not sent",
            tidy(&essence, 80)
        )));
    }
    let Some(schema) = schema else { return Ok(BodyKind::Binary) };
    let content = Content::of(document, schema)?;
    Ok(match essence.as_str() {
        // A range that includes JSON, with a schema that is not binary.
        "*/*" | "application/*" if !content.is_binary && !content.is_encoded => BodyKind::Json,
        // The schema describes the text that is sent.
        _ if content.is_encoded && !content.is_binary => BodyKind::Text,
        _ => BodyKind::Binary,
    })
}
