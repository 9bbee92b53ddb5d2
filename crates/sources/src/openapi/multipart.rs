//! Encodes `multipart/form-data`.
//!
//! Invariant: a value cannot extend beyond its part. The boundary is random, and names and media
//! types of the caller cannot break a line.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{
    encode::{self, Escape, is_plain, unfit},
    form::{Field, FieldContent, Fields},
    media_type::{bytes_type, is_range, is_valid},
};

/// A file of the caller.
pub(super) struct File {
    pub(super) bytes: Vec<u8>,
    name: Option<String>,
    pub(super) media_type: Option<String>,
}

struct Part {
    bytes: Vec<u8>,
    file_name: Option<String>,
    media_type: Option<String>,
}

/// The parts so far.
struct Parts<'b> {
    boundary: &'b str,
    bytes: Vec<u8>,
}

/// Encodes a body with one part per field, per item of a list, or per pair of a style. Files are
/// last, because services that store a file as it arrives first read the fields that belong to it.
pub(super) fn encode(
    fields: &Fields,
    members: &Map<String, Value>,
    boundary: &str,
) -> Result<Vec<u8>, String> {
    const PLAIN: &FieldContent = &FieldContent::Text { media_type: None };
    let mut parts = Parts { boundary, bytes: Vec::new() };
    let is_file = |name: &str| {
        fields.get(name).is_some_and(|field| matches!(field.content, FieldContent::File { .. }))
    };
    let (files, others): (Vec<_>, Vec<_>) = members.iter().partition(|(name, _)| is_file(name));
    for (name, value) in others.into_iter().chain(files) {
        let field = fields.get(name);
        let value =
            field.map_or(Cow::Borrowed(value), |field| field.integers.in_plain_digits(value));
        let content = field.map_or(PLAIN, |field| &field.content);
        let items = match (&*value, field, content) {
            (Value::Null, ..) => continue,
            (
                value,
                Some(Field { style: Some((style, explode)), .. }),
                FieldContent::Text { .. } | FieldContent::Json { .. },
            ) => {
                encode::check_separators(name, value, *style, *explode, Escape::None)?;
                for (name, value) in encode::pairs(name, value, *style, *explode) {
                    parts.add(&name, &Part::text(value.into_text(), None));
                }
                continue;
            }
            (Value::Array(items), ..) => items.as_slice(),
            (one, ..) => std::slice::from_ref(one),
        };
        for item in items {
            let part = Part::of(name, content, item).map_err(|problem| unfit(name, &problem))?;
            parts.add(name, &part);
        }
    }
    Ok(parts.finish())
}

fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim()).ok()
}

/// Quotes a field name as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

// === impl File ===

impl File {
    /// Reads base64, or a data URL that also has a name: `data:audio/mpeg;name=a.mp3;base64,…`. An
    /// error describes the argument.
    pub(super) fn read(value: &Value) -> Result<Self, &'static str> {
        const PROBLEM: &str = "must be base64, or `data:TYPE;name=NAME;base64,` and base64";
        let text = value.as_str().ok_or(PROBLEM)?.trim();
        let Some(rest) = text.strip_prefix("data:") else {
            let bytes = base64(text).ok_or(PROBLEM)?;
            return Ok(Self { bytes, name: None, media_type: None });
        };
        let (head, data) = rest.split_once(";base64,").ok_or(PROBLEM)?;
        let (names, rest): (Vec<_>, Vec<_>) =
            head.split(';').map(str::trim).partition(|part| part.starts_with("name="));
        let name = names.into_iter().find_map(|part| part.strip_prefix("name="));
        let name = name.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
        let media_type = Some(rest.join(";")).filter(|kind| !kind.is_empty());
        if media_type.as_ref().is_some_and(|kind| !is_valid(kind) || is_range(kind)) {
            return Err("has an invalid media type after `data:`");
        }
        Ok(Self { bytes: base64(data).ok_or(PROBLEM)?, name, media_type })
    }
}

// === impl Part ===

impl Part {
    fn text(text: String, media_type: Option<&str>) -> Self {
        let media_type = media_type.map(str::to_owned);
        Self { bytes: text.into_bytes(), file_name: None, media_type }
    }

    /// Creates the part of a field, or of one item of it. An error describes the argument.
    fn of(name: &str, content: &FieldContent, item: &Value) -> Result<Self, String> {
        Ok(match content {
            FieldContent::File { media_types } => {
                let file = File::read(item)?;
                let media_type = bytes_type(media_types, file.media_type.as_deref())?;
                // Services recognise files by the name.
                let file_name = file.name.unwrap_or_else(|| name.to_owned());
                let (file_name, media_type) = (Some(file_name), Some(media_type));
                Self { bytes: file.bytes, file_name, media_type }
            }
            FieldContent::Json { media_type } => Self::text(item.to_string(), Some(media_type)),
            FieldContent::Text { media_type } if is_plain(item) => {
                Self::text(encode::plain(item), media_type.as_deref())
            }
            FieldContent::Text { media_type } => {
                let media_type = FieldContent::of_structure(media_type.as_deref())?;
                Self::text(item.to_string(), Some(media_type))
            }
        })
    }
}

// === impl Parts ===

impl Parts<'_> {
    fn add(&mut self, name: &str, part: &Part) {
        let (name, boundary) = (quoted(name), self.boundary);
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        if let Some(file_name) = &part.file_name {
            head.push_str(&format!("; filename=\"{}\"", quoted(file_name)));
        }
        if let Some(media_type) = &part.media_type {
            head.push_str(&format!("\r\nContent-Type: {media_type}"));
        }
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(b"\r\n\r\n");
        self.bytes.extend_from_slice(&part.bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        self.bytes
    }
}
