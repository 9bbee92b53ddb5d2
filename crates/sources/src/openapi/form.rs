//! The fields of a form: `application/x-www-form-urlencoded`, `multipart/form-data`, or a query
//! string that is described as a form.
//!
//! The fields are the properties of the schema and of all schemas that it is composed of.

use serde::Serialize;
use serde_json::Value;

use super::{
    composition::Composition,
    document::{Document, Node, Unusable},
    encode::Style,
    integers::Integers,
    media_type::is_textual,
};

/// Most fields of one form.
const MAX_FIELDS: usize = 1_000;

/// A form field for which the document specifies more than a plain value.
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
    #[serde(skip_serializing_if = "Integers::is_none")]
    pub(super) integers: Integers,
}

/// The kinds of forms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FormKind {
    Urlencoded,
    Multipart,
}

/// The fields of a form.
#[derive(Debug, Default)]
pub(super) struct Form {
    pub(super) fields: Vec<Field>,
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
    /// Whether the value can be other than a string.
    is_structured: bool,
    media_type: Option<&'d str>,
}

// === impl Field ===

impl Field {
    /// Finds the field `name` among `fields`.
    pub(super) fn find<'f>(fields: &'f [Self], name: &str) -> Option<&'f Self> {
        fields.iter().find(|field| field.name == name)
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
    ) -> Result<Self, Unusable> {
        for word in ["itemSchema", "prefixEncoding", "itemEncoding"] {
            if media.get(word).is_some() {
                let problem = format!("its form has `{word}`, which is not followed");
                return Err(Unusable::new(problem));
            }
        }
        let encoding =
            media.get("encoding").map(|encoding| document.follow(encoding)).transpose()?;
        let mut composition = Composition::new(document);
        let mut fields = composition.properties(schema.as_slice())?;
        for (name, _) in encoding.into_iter().flat_map(Node::members) {
            // An encoding counts even if no schema names its field.
            fields.entry(name).or_default();
        }
        if fields.len() > MAX_FIELDS {
            return Err(Unusable::new(format!("its form has more than {MAX_FIELDS} fields")));
        }
        let mut form = Self::default();
        for (name, properties) in fields {
            let content = Content::of_field(&mut composition, kind, &properties)?;
            let integers = Integers::read(&mut composition, &properties)?;
            let encoding = encoding.and_then(|encoding| encoding.get(name));
            let encoding = encoding.map(|encoding| document.follow(encoding)).transpose()?;
            form.add(document, kind, name, content, integers, encoding)?;
        }
        Ok(form)
    }

    /// Adds a field.
    fn add(
        &mut self,
        document: &Document,
        kind: FormKind,
        name: &str,
        content: Content<'_>,
        integers: Integers,
        encoding: Option<Node<'_>>,
    ) -> Result<(), Unusable> {
        let style = match encoding {
            // In 3.0 the parts of a multipart body have no style.
            Some(encoding) if kind == FormKind::Multipart && document.is_old(encoding.file) => None,
            Some(encoding) => style(encoding)?,
            None => None,
        };
        let types = encoding.and_then(|encoding| encoding.text("contentType"));
        let types = types.or(content.media_type).unwrap_or_default();
        let types = || types.split(',').map(str::trim).filter(|kind| !kind.is_empty());
        let is_file = types().next().is_some_and(|kind| !is_textual(kind))
            && !content.is_encoded
            && !content.is_structured;
        let binary = kind == FormKind::Multipart && (content.is_binary || is_file);
        let media_type = types().find(|kind| !kind.contains('*')).map(str::to_owned);
        if kind == FormKind::Multipart {
            self.note_headers(name, encoding);
        }
        if style.is_some() || media_type.is_some() || binary || !integers.is_none() {
            let name = name.to_owned();
            self.fields.push(Field { name, style, media_type, binary, integers });
        }
        Ok(())
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

    /// Returns the names of the fields that are files.
    pub(super) fn files(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().filter(|field| field.binary).map(|field| field.name.as_str())
    }
}

// === impl Content ===

impl<'d> Content<'d> {
    /// Reads the schema of a whole body.
    pub(super) fn of(document: &'d Document, schema: Node<'d>) -> Result<Self, Unusable> {
        let mut content = Self::default();
        for schema in Composition::new(document).of(schema)? {
            content.include(document, schema, false);
        }
        Ok(content)
    }

    /// Adds the meaning of one schema. As a part of a multipart body, an empty schema of 3.1 or later
    /// describes bytes.
    fn include(&mut self, document: &'d Document, schema: Node<'d>, is_part: bool) {
        if schema.text("format") == Some("binary") {
            self.is_binary = true;
        }
        let structured = ["object", "integer", "number", "boolean"];
        self.is_structured |= structured.into_iter().any(|name| schema.is_type(name))
            || schema.get("properties").is_some();
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
        self.is_binary |= is_part && (is_empty || schema.value == &Value::Bool(true));
    }

    /// Reads the schemas of a form field, or of the items of the list that it contains.
    fn of_field(
        composition: &mut Composition<'d>,
        kind: FormKind,
        schemas: &[Node<'d>],
    ) -> Result<Self, Unusable> {
        let mut content = Self::default();
        for schema in composition.with_items(schemas)? {
            content.include(composition.document, schema, kind == FormKind::Multipart);
        }
        Ok(content)
    }
}

/// Returns the style of a field and whether it is exploded, if the document specifies them.
fn style(encoding: Node<'_>) -> Result<Option<(Style, bool)>, Unusable> {
    let explode = encoding.flag("explode");
    Ok(match (encoding.text("style"), explode) {
        (None, None) => None,
        (None | Some("form"), _) => Some((Style::Form, explode.unwrap_or(true))),
        (Some("spaceDelimited"), _) => Some((Style::Spaces, explode.unwrap_or(false))),
        (Some("pipeDelimited"), _) => Some((Style::Pipes, explode.unwrap_or(false))),
        (Some("deepObject"), _) => Some((Style::Deep, true)),
        (Some(_), _) => return Err(Unusable::new("a field of its form has an unknown style")),
    })
}
