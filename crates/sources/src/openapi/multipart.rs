//! Encodes `multipart/form-data`.
//!
//! Invariant: a value cannot extend beyond its part. The boundary is random, and names and media
//! types of the caller cannot end a line.

use std::borrow::Cow;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::HeaderValue;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value};

use super::{
    encode::{self, Escape, is_plain, unfit},
    form::Field,
};

/// One part.
enum Part {
    Text(String),
    Json(String),
    File(File),
}

/// A file of the caller.
struct File {
    bytes: Vec<u8>,
    name: Option<String>,
    media_type: Option<String>,
}

/// The parts so far.
struct Parts<'b> {
    boundary: &'b str,
    bytes: Vec<u8>,
}

/// Returns a body with one part per field, per item of a list, or per pair of a style.
pub(super) fn encode(
    fields: &[Field],
    members: &Map<String, Value>,
    boundary: &str,
) -> Result<Vec<u8>, String> {
    let mut parts = Parts { boundary, bytes: Vec::new() };
    for (name, value) in members {
        let field = Field::find(fields, name);
        let value = field.map_or(Cow::Borrowed(value), |it| it.integers.in_plain_digits(value));
        let items = match (&*value, field) {
            (Value::Null, _) => continue,
            (value, Some(Field { style: Some((style, explode)), binary: false, .. })) => {
                encode::check_separators(name, value, *style, *explode, Escape::None)?;
                for (name, value) in encode::pairs(name, value, *style, *explode) {
                    parts.add(&name, Part::Text(value.into_text()), None);
                }
                continue;
            }
            (Value::Array(items), _) => items.as_slice(),
            (one, _) => std::slice::from_ref(one),
        };
        for item in items {
            let part = match item {
                item if field.is_some_and(|field| field.binary) => {
                    Part::File(File::read(item).map_err(|problem| unfit(name, problem))?)
                }
                item if is_plain(item) => Part::Text(encode::plain(item)),
                item => Part::Json(item.to_string()),
            };
            parts.add(name, part, field.and_then(|field| field.media_type.as_deref()));
        }
    }
    Ok(parts.finish())
}

/// Returns the bytes of an argument in base64.
pub(super) fn decode(argument: &str, value: &Value) -> Result<Vec<u8>, String> {
    let bytes = value.as_str().and_then(base64);
    bytes.ok_or_else(|| unfit(argument, "must be base64"))
}

fn base64(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text.trim()).ok()
}

/// Returns a field name, quoted as browsers do.
fn quoted(name: &str) -> String {
    name.replace('"', "%22").replace('\r', "%0D").replace('\n', "%0A")
}

// === impl File ===

impl File {
    /// Reads base64, or a data URL that also has a name: `data:audio/mpeg;name=a.mp3;base64,…`.
    fn read(value: &Value) -> Result<Self, &'static str> {
        const PROBLEM: &str = "must be base64, or `data:TYPE;name=NAME;base64,` and base64";
        let text = value.as_str().ok_or(PROBLEM)?.trim();
        let Some(rest) = text.strip_prefix("data:") else {
            let bytes = base64(text).ok_or(PROBLEM)?;
            return Ok(Self { bytes, name: None, media_type: None });
        };
        let (head, data) = rest.split_once(";base64,").ok_or(PROBLEM)?;
        let mut parts = head.split(';').map(str::trim);
        let media_type = parts.next().filter(|kind| !kind.is_empty()).map(str::to_owned);
        let name = parts.find_map(|part| part.strip_prefix("name="));
        let name = name.map(|name| percent_decode_str(name).decode_utf8_lossy().into_owned());
        Ok(Self { bytes: base64(data).ok_or(PROBLEM)?, name, media_type })
    }
}

// === impl Parts ===

impl Parts<'_> {
    /// Adds a part of the media type that the document has, or else of its usual one.
    fn add(&mut self, name: &str, part: Part, media_type: Option<&str>) {
        let (name, boundary) = (quoted(name), self.boundary);
        let mut head = format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"");
        let (usual, bytes) = match part {
            Part::Text(text) => (None, text.into_bytes()),
            Part::Json(text) => (Some("application/json".to_owned()), text.into_bytes()),
            Part::File(file) => {
                // Services recognise files by the name.
                let name = file.name.map_or(name, |name| quoted(&name));
                head.push_str(&format!("; filename=\"{name}\""));
                let bytes = || "application/octet-stream".to_owned();
                (Some(file.media_type.unwrap_or_else(bytes)), file.bytes)
            }
        };
        let kind = media_type.map(str::to_owned).or(usual);
        if let Some(kind) = kind.filter(|kind| HeaderValue::from_str(kind).is_ok()) {
            head.push_str(&format!("\r\nContent-Type: {kind}"));
        }
        self.bytes.extend_from_slice(head.as_bytes());
        self.bytes.extend_from_slice(b"\r\n\r\n");
        self.bytes.extend_from_slice(&bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn finish(mut self) -> Vec<u8> {
        self.bytes.extend_from_slice(format!("--{}--\r\n", self.boundary).as_bytes());
        self.bytes
    }
}
