//! The fields of a form: `application/x-www-form-urlencoded`, `multipart/form-data`, or a query
//! string described as a form.
//!
//! The fields are the properties of the schema and of all schemas that it is composed of.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::{
    composition::{Composition, Properties},
    document::{Document, Node, OperationProblem},
    encode::Style,
    integers::Integers,
    media_type::{essence, is_json, is_textual, is_valid, listed, permits},
};

/// Most fields of one form.
const MAX_FIELDS: usize = 1_000;

/// How the fields of a form are sent, where the document specifies more than a plain value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Fields {
    named: BTreeMap<String, Field>,
    /// The fields with any other name.
    #[serde(skip_serializing_if = "Option::is_none")]
    others: Option<Field>,
}

/// How a form field is sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Field {
    /// Serialization in a form; `None` when the document does not specify it.
    pub(super) style: Option<(Style, bool)>,
    pub(super) content: FieldContent,
    #[serde(skip_serializing_if = "Integers::is_none")]
    pub(super) integers: Integers,
}

/// How the value of a field becomes bytes, unless it has a style.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FieldContent {
    /// A plain value is its text, and a structure is JSON.
    Text {
        /// The default if it is `None`.
        media_type: Option<String>,
    },
    /// Any value is JSON, also a string.
    Json { media_type: String },
    /// The argument is the bytes in base64.
    File {
        /// The permitted media types and ranges; empty permits all.
        media_types: Vec<String>,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormKind {
    Urlencoded,
    Multipart,
}

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct Form {
    pub(super) fields: Fields,
    /// Parts of the description that requests do not follow.
    pub(super) notes: Vec<String>,
}

/// The properties of a schema that decide how its value is sent.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Content<'d> {
    /// Whether the value is bytes.
    pub(super) is_binary: bool,
    /// Whether the value is text that contains bytes in an encoding, and is sent as that text.
    pub(super) is_encoded: bool,
    /// Whether the value is bytes if no media type is specified.
    is_untyped: bool,
    /// Whether the value can be other than a string.
    is_structured: bool,
    /// Whether the value can be an object.
    is_object: bool,
    media_type: Option<&'d str>,
}

// === impl Fields ===

impl Fields {
    /// How the field `name` is sent; `None` for a plain value.
    pub(super) fn get(&self, name: &str) -> Option<&Field> {
        self.named.get(name).or(self.others.as_ref())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.others.is_none()
    }

    /// The fields with files, as messages name them, with their media types.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, &[String])> {
        let named = self.named.iter().map(|(name, field)| (format!("`{name}`"), field));
        let others = self.others.iter().map(|field| ("all other fields".to_owned(), field));
        named.chain(others).filter_map(|(name, field)| match &field.content {
            FieldContent::File { media_types } => Some((name, media_types.as_slice())),
            FieldContent::Text { .. } | FieldContent::Json { .. } => None,
        })
    }
}

// === impl Field ===

impl Field {
    /// Whether the field is sent in the default way.
    fn is_plain(&self) -> bool {
        self.style.is_none()
            && self.content == FieldContent::Text { media_type: None }
            && self.integers.is_none()
    }
}

// === impl FieldContent ===

impl FieldContent {
    /// Reads how values of the media types and ranges `types` are sent.
    ///
    /// By the specification, a string under a JSON media type is sent as JSON, with its quotes. It
    /// is sent as it is only if its schema has `contentMediaType` or an encoding.
    fn read(kind: FormKind, content: Content<'_>, types: &[&str]) -> Self {
        let is_file = types.first().is_some_and(|kind| !is_textual(kind))
            && !content.is_encoded
            && !content.is_structured;
        let is_untyped =
            content.is_untyped && types.first().is_none_or(|first| essence(first) == "*/*");
        if kind == FormKind::Multipart && (content.is_binary || is_file || is_untyped) {
            let media_types = types.iter().map(|kind| (*kind).to_owned()).collect();
            return Self::File { media_types };
        }
        const JSON: &str = "application/json";
        let json = |kind: &str| match essence(kind).as_str() {
            "application/*" => Some(JSON.to_owned()),
            _ => is_json(kind).then(|| kind.to_owned()),
        };
        let is_content = content.is_encoded || content.media_type.is_some();
        let preferred = match content.is_object {
            true => types.iter().find_map(|kind| json(kind)),
            false => types.first().and_then(|kind| json(kind)),
        };
        if let Some(media_type) = preferred.filter(|_| !is_content) {
            return Self::Json { media_type };
        }
        let concrete = types.iter().find_map(|kind| match essence(kind).as_str() {
            "*/*" => None,
            "text/*" => Some("text/plain"),
            range if range.contains('*') => None,
            _ => Some(kind),
        });
        Self::Text { media_type: concrete.map(str::to_owned) }
    }

    /// Returns the media type of a structure that is sent as JSON. An error describes the argument.
    pub(super) fn of_structure(media_type: Option<&str>) -> Result<&str, String> {
        const OTHERS: [&str; 3] = ["text/plain", "application/octet-stream", "application/yaml"];
        match media_type {
            None => Ok("application/json"),
            Some(kind) if is_json(kind) || OTHERS.iter().any(|other| permits(kind, other)) => {
                Ok(kind)
            }
            Some(kind) => Err(format!("must be a string: it is sent as {}", listed(&[kind]))),
        }
    }
}

// === impl Form ===

impl Form {
    /// Reads the fields that `schema` describes, with the `encoding` of the media type.
    pub(super) fn read(
        document: &Document,
        kind: FormKind,
        media: Node<'_>,
        schema: Option<Node<'_>>,
    ) -> Result<Self, OperationProblem> {
        for word in ["itemSchema", "prefixEncoding", "itemEncoding"] {
            if media.get(word).is_some() {
                let problem = format!("its form has `{word}`, an unsupported keyword");
                return Err(OperationProblem::new(problem));
            }
        }
        let encoding =
            media.get("encoding").map(|encoding| document.follow(encoding)).transpose()?;
        let mut composition = Composition::new(document);
        let Properties { named: mut fields, matching, others } =
            composition.properties(schema.as_slice())?;
        for (name, _) in encoding.into_iter().flat_map(Node::members) {
            // An encoding counts even if no schema names its field.
            fields.entry(name).or_insert_with(|| others.clone());
        }
        if fields.len() > MAX_FIELDS {
            return Err(OperationProblem::new(format!(
                "its form has more than {MAX_FIELDS} fields"
            )));
        }
        let is_multipart = kind == FormKind::Multipart;
        if is_multipart && Content::of_field(&mut composition, kind, &matching)?.is_binary {
            let problem = "its form has files in `patternProperties`, which are not sent";
            return Err(OperationProblem::new(problem));
        }
        let mut form = Self::default();
        let mut named = BTreeMap::new();
        for (name, schemas) in fields {
            let encoding = encoding.and_then(|encoding| encoding.get(name));
            let encoding = encoding.map(|encoding| document.follow(encoding)).transpose()?;
            let field = form.field(&mut composition, kind, name, &schemas, encoding)?;
            if is_multipart {
                form.note_headers(name, encoding);
            }
            named.insert(name.to_owned(), field);
        }
        let others = form.field(&mut composition, kind, "", &others, None)?;
        if others.is_plain() {
            named.retain(|_, field| !field.is_plain());
        }
        let others = (!others.is_plain()).then_some(others);
        form.fields = Fields { named, others };
        Ok(form)
    }

    /// Reads one field.
    fn field<'d>(
        &mut self,
        composition: &mut Composition<'d>,
        kind: FormKind,
        name: &str,
        schemas: &[Node<'d>],
        encoding: Option<Node<'d>>,
    ) -> Result<Field, OperationProblem> {
        let content = Content::of_field(composition, kind, schemas)?;
        let integers = Integers::read(composition, schemas)?;
        let style = match encoding {
            // In 3.0 the parts of a multipart body have no style.
            Some(encoding)
                if kind == FormKind::Multipart && composition.document.is_old(encoding.file) =>
            {
                None
            }
            Some(encoding) => style(encoding)?,
            None => None,
        };
        let types = encoding.and_then(|encoding| encoding.text("contentType"));
        let types = types.or(content.media_type).unwrap_or_default();
        let types: Vec<_> = types.split(',').map(str::trim).filter(|name| is_valid(name)).collect();
        let is_object = content.is_object;
        let content = FieldContent::read(kind, content, &types);
        if let (FieldContent::Text { media_type: Some(kind) }, true) = (&content, is_object)
            && style.is_none()
            && FieldContent::of_structure(Some(kind)).is_err()
        {
            let kind = listed(&[kind]);
            self.notes
                .push(format!("the form field `{name}` is sent only if it is a string, as {kind}"));
        }
        Ok(Field { style, content, integers })
    }

    /// Notes the headers of a part. No argument can set them.
    fn note_headers(&mut self, name: &str, encoding: Option<Node<'_>>) {
        let headers = encoding.and_then(|encoding| encoding.get("headers"));
        let headers = headers.into_iter().flat_map(Node::members).map(|(header, _)| header);
        // The specification says that `Content-Type` is ignored here.
        let headers: Vec<_> =
            headers.filter(|header| !header.eq_ignore_ascii_case("content-type")).collect();
        if !headers.is_empty() {
            let headers = headers.join("`, `");
            self.notes.push(format!("the form field `{name}` is sent without `{headers}`"));
        }
    }
}

// === impl Content ===

impl<'d> Content<'d> {
    /// Reads the schema of a whole body.
    pub(super) fn of(document: &'d Document, schema: Node<'d>) -> Result<Self, OperationProblem> {
        let mut content = Self::default();
        for schema in Composition::new(document).of(schema)? {
            content.include(document, schema, false);
        }
        Ok(content)
    }

    /// Adds the meaning of one schema. As a part of a multipart body, an empty schema of 3.1 or
    /// later describes bytes.
    fn include(&mut self, document: &'d Document, schema: Node<'d>, is_part: bool) {
        if schema.text("format") == Some("binary") {
            self.is_binary = true;
        }
        let is_object = schema.is_type("object") || schema.get("properties").is_some();
        self.is_object |= is_object;
        self.is_structured |= is_object
            || ["integer", "number", "boolean"].into_iter().any(|name| schema.is_type(name));
        self.is_encoded |= is_part && schema.text("format") == Some("byte");
        if document.is_old(schema.file) {
            return;
        }
        self.is_encoded |= schema.text("contentEncoding").is_some();
        if let Some(media_type) = schema.text("contentMediaType") {
            self.media_type = Some(media_type);
            self.is_binary |= !is_textual(media_type) && schema.get("contentEncoding").is_none();
        }
        let is_empty = schema.value.as_object().is_some_and(serde_json::Map::is_empty);
        self.is_untyped |= is_part && (is_empty || schema.value == &Value::Bool(true));
    }

    /// Reads the schemas of a form field, or of the items of the list that it contains.
    fn of_field(
        composition: &mut Composition<'d>,
        kind: FormKind,
        schemas: &[Node<'d>],
    ) -> Result<Self, OperationProblem> {
        let mut content = Self::default();
        for schema in composition.with_items(schemas)? {
            content.include(composition.document, schema, kind == FormKind::Multipart);
        }
        Ok(content)
    }
}

/// Returns the style of a field and whether it is exploded, if the document specifies them.
fn style(encoding: Node<'_>) -> Result<Option<(Style, bool)>, OperationProblem> {
    let explode = encoding.flag("explode");
    Ok(match (encoding.text("style"), explode) {
        (None, None) => None,
        (None | Some("form"), _) => Some((Style::Form, explode.unwrap_or(true))),
        (Some("spaceDelimited"), _) => Some((Style::Spaces, explode.unwrap_or(false))),
        (Some("pipeDelimited"), _) => Some((Style::Pipes, explode.unwrap_or(false))),
        (Some("deepObject"), _) => Some((Style::Deep, true)),
        (Some(_), _) => {
            return Err(OperationProblem::new("a field of its form has an unknown style"));
        }
    })
}
