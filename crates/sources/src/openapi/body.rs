//! The request body of an operation.

use std::sync::LazyLock;

use http::HeaderValue;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    document::{Document, Node, OperationProblem},
    form::{Content, Fields, Form, FormKind},
    media_type::{
        BodyKind, essence, is_range, is_valid, kind, listed, permits, rank, requires_type,
    },
};
use crate::text::tidy;

/// Most files of a form to name in its description.
const MAX_NAMED: usize = 20;

/// A request body in its preferred media type.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body {
    pub(super) kind: BodyKind,
    /// As in the document, with parameters. For bytes it can be a range.
    pub(super) media_type: String,
    pub(super) fields: Fields,
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
static BYTES: LazyLock<Value> =
    LazyLock::new(|| json!({ "type": "string", "contentEncoding": "base64" }));

impl<'d> BodyEntry<'d> {
    /// Reads a `requestBody`; `None` if it has no content.
    pub(super) fn read(
        document: &'d Document,
        body: Node<'d>,
    ) -> Result<Option<Self>, OperationProblem> {
        let Some(content) = body.get("content") else { return Ok(None) };
        let content = document.follow(content)?;
        let chosen = content.members().min_by_key(|(media_type, _)| rank(media_type));
        let Some((media_type, media)) = chosen else { return Ok(None) };
        let media = document.follow(media)?;
        let described = media.get("schema");
        let kind = body_kind(document, media_type, described)?;
        let media_type = sent_type(media_type, kind)?;
        let form = match kind {
            BodyKind::Form => Form::read(document, FormKind::Urlencoded, media, described)?,
            BodyKind::Multipart => Form::read(document, FormKind::Multipart, media, described)?,
            BodyKind::Json | BodyKind::Text | BodyKind::Binary => Form::default(),
        };
        let schema = match kind {
            BodyKind::Json => described.unwrap_or(media.with(&ANY)),
            BodyKind::Binary if !is_range(media_type) => media.with(&BYTES),
            BodyKind::Text | BodyKind::Binary => media.with(&TEXT),
            BodyKind::Form | BodyKind::Multipart => described.unwrap_or(media.with(&FORM)),
        };
        let remark = match kind {
            BodyKind::Binary => Some(bytes_remark(media_type)),
            _ => files_remark(&form.fields),
        };
        let Form { fields, notes } = form;
        Ok(Some(Self {
            body: Body { kind, media_type: media_type.to_owned(), fields },
            required: body.flag("required").unwrap_or(false),
            schema,
            description: body.text("description"),
            remark,
            notes,
        }))
    }
}

/// Returns the media type with which a body is sent. Of a range, it is one within the range; for
/// bytes it stays the range, because the caller names the type.
fn sent_type(media_type: &str, kind: BodyKind) -> Result<&str, OperationProblem> {
    let within = |types: &[&'static str]| {
        types.iter().copied().find(|candidate| permits(media_type, candidate))
    };
    let sent = match kind {
        _ if !is_range(media_type) => Some(media_type),
        BodyKind::Json => Some("application/json"),
        BodyKind::Text => within(&["text/plain", "application/octet-stream"]),
        BodyKind::Binary | BodyKind::Form | BodyKind::Multipart => Some(media_type),
    };
    let is_usable = |candidate: &&str| match is_range(candidate) {
        true => is_valid(candidate),
        false => HeaderValue::from_str(candidate).is_ok(),
    };
    sent.filter(is_usable).ok_or_else(|| {
        let named = listed(&[media_type]);
        OperationProblem::new(format!("its body is {named}, a range without a usable media type"))
    })
}

/// A sentence about a body of bytes.
fn bytes_remark(media_type: &str) -> String {
    match (is_range(media_type), requires_type(&[media_type])) {
        (false, _) => "Base64 of the bytes.".to_owned(),
        (true, false) => "Base64 of the bytes, or `data:TYPE;base64,` and base64.".to_owned(),
        (true, true) => {
            let permitted = listed(&[media_type]);
            format!("`data:TYPE;base64,` and base64 of the bytes; TYPE is {permitted}.")
        }
    }
}

/// A sentence about the files of a form.
fn files_remark(fields: &Fields) -> Option<String> {
    let files: Vec<_> = fields.files().take(MAX_NAMED + 1).collect();
    let named = |(name, media_types): &(String, &[String])| match media_types.len() > 1
        || requires_type(media_types)
    {
        true => format!("{name} (TYPE is {})", listed(media_types)),
        false => name.clone(),
    };
    let mut names: Vec<_> = files.iter().take(MAX_NAMED).map(named).collect();
    if files.len() > MAX_NAMED {
        names.push("…".to_owned());
    }
    (!names.is_empty()).then(|| {
        format!(
            "Base64 of the bytes of files, or `data:TYPE;name=NAME;base64,` and base64: {}.",
            names.join(", ")
        )
    })
}

/// How the argument of a body with this media type and schema becomes bytes.
fn body_kind(
    document: &Document,
    media_type: &str,
    schema: Option<Node<'_>>,
) -> Result<BodyKind, OperationProblem> {
    let essence = essence(media_type);
    let kind = kind(&essence);
    if kind != BodyKind::Binary {
        return Ok(kind);
    }
    if essence.starts_with("multipart/") {
        return Err(OperationProblem::new(format!(
            "its body is `{}`, an unsupported media type",
            tidy(&essence, 80)
        )));
    }
    let Some(schema) = schema else { return Ok(BodyKind::Binary) };
    let content = Content::of(document, schema)?;
    Ok(match essence.as_str() {
        // A range that includes JSON, with a schema that is not binary.
        "*/*" | "application/*" if !content.is_binary && !content.is_encoded => BodyKind::Json,
        // The schema describes the text to send.
        _ if content.is_encoded && !content.is_binary => BodyKind::Text,
        _ => BodyKind::Binary,
    })
}
