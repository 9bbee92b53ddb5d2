//! Media types of bodies, parts and parameters.

use http::HeaderValue;
use serde::Serialize;

use crate::text::tidy;

/// The media type of any bytes.
const BYTES: &str = "application/octet-stream";
/// Longest list of media types in a message, in bytes.
const MAX_SHOWN: usize = 160;

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

/// Returns a media type in lower case, without parameters.
pub(super) fn essence(media_type: &str) -> String {
    media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

pub(super) fn kind(media_type: &str) -> BodyKind {
    let essence = essence(media_type);
    match essence.as_str() {
        _ if is_json(&essence) => BodyKind::Json,
        "application/x-www-form-urlencoded" => BodyKind::Form,
        "multipart/form-data" | "multipart/*" => BodyKind::Multipart,
        "*/*" => BodyKind::Binary,
        _ if is_text(&essence) => BodyKind::Text,
        _ => BodyKind::Binary,
    }
}

/// The preference of a media type; the lowest is used.
pub(super) fn rank(media_type: &str) -> u8 {
    match kind(media_type) {
        BodyKind::Json if media_type.trim().eq_ignore_ascii_case("application/json") => 0,
        // A merge patch has the form of the object; a JSON patch is a list of operations.
        BodyKind::Json if essence(media_type) == "application/merge-patch+json" => 1,
        BodyKind::Json if essence(media_type) == "application/json-patch+json" => 3,
        BodyKind::Json => 2,
        BodyKind::Form => 4,
        BodyKind::Multipart => 5,
        BodyKind::Text => 6,
        BodyKind::Binary if essence(media_type).starts_with("multipart/") => 8,
        BodyKind::Binary => 7,
    }
}

pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence.ends_with("+json")
}

/// Whether bodies of a media type, without parameters, are text for people and models.
pub(crate) fn is_readable(essence: &str) -> bool {
    const OTHERS: [&str; 3] =
        ["application/yaml", "application/javascript", "application/x-www-form-urlencoded"];
    is_json(essence) || is_text(essence) || OTHERS.contains(&essence)
}

/// Whether a media type, without parameters, is text, XML or a sequence of JSON texts.
pub(super) fn is_text(essence: &str) -> bool {
    const SEQUENCES: [&str; 4] = [
        "application/json-seq",
        "application/jsonl",
        "application/jsonlines",
        "application/x-ndjson",
    ];
    essence.starts_with("text/")
        || essence.ends_with("/xml")
        || essence.ends_with("+xml")
        || essence.ends_with("+json-seq")
        || SEQUENCES.contains(&essence)
}

/// Whether a media type is written as text.
pub(super) fn is_textual(media_type: &str) -> bool {
    let essence = essence(media_type);
    is_json(&essence)
        || is_text(&essence)
        || ["*/*", "application/*", "application/x-www-form-urlencoded", "application/yaml"]
            .contains(&essence.as_str())
}

/// Whether a media type is a range, such as `image/*`.
pub(super) fn is_range(media_type: &str) -> bool {
    essence(media_type).contains('*')
}

/// Whether a text is a media type or a range that a document can name.
pub(super) fn is_valid(media_type: &str) -> bool {
    let essence = essence(media_type);
    let is_token = |text: &str| {
        let is_legal = |c: char| c.is_ascii_alphanumeric() || "!#$%&'+-.^_`|~".contains(c);
        !text.is_empty() && text.chars().all(is_legal)
    };
    let is_type = match essence.split_once('/') {
        Some(("*", subtype)) => subtype == "*",
        Some((kind, subtype)) => is_token(kind) && (subtype == "*" || is_token(subtype)),
        None => false,
    };
    is_type && HeaderValue::from_str(media_type).is_ok()
}

/// Whether a media type or range includes a media type.
pub(super) fn permits(range: &str, media_type: &str) -> bool {
    let (range, media_type) = (essence(range), essence(media_type));
    match range.split_once('/') {
        Some(("*", "*")) => true,
        Some((kind, "*")) => media_type.split_once('/').is_some_and(|(top, _)| top == kind),
        _ => range == media_type,
    }
}

/// Whether bytes can only be sent if the caller names their media type, one of `permitted`.
pub(super) fn requires_type<T: AsRef<str>>(permitted: &[T]) -> bool {
    bytes_type(permitted, None).is_err()
}

/// Chooses the media type of bytes. The document permits `permitted`, or any type if it is empty.
/// The caller's `named` type comes first, then the first permitted type other than a range. An
/// error describes the argument.
pub(super) fn bytes_type<T: AsRef<str>>(
    permitted: &[T],
    named: Option<&str>,
) -> Result<String, String> {
    let all = || permitted.iter().map(AsRef::as_ref);
    let includes =
        |media_type: &str| permitted.is_empty() || all().any(|range| permits(range, media_type));
    let chosen = match named {
        // The document may add parameters.
        Some(named) if includes(named) => {
            all().find(|candidate| essence(candidate) == named.to_ascii_lowercase()).or(Some(named))
        }
        // `application/octet-stream` includes bytes of every media type.
        Some(_) => all().find(|candidate| essence(candidate) == BYTES),
        None => all().find(|candidate| !is_range(candidate)).or(includes(BYTES).then_some(BYTES)),
    };
    chosen.map(str::to_owned).ok_or_else(|| {
        let permitted = listed(permitted);
        match named {
            Some(_) => format!("has a media type other than {permitted}"),
            None => format!(
                "has no media type; start it with `data:TYPE;base64,` and a TYPE of {permitted}"
            ),
        }
    })
}

/// Lists media types for a message.
pub(super) fn listed<T: AsRef<str>>(media_types: &[T]) -> String {
    let all: Vec<_> =
        media_types.iter().map(|media_type| format!("`{}`", media_type.as_ref())).collect();
    tidy(&all.join(", "), MAX_SHOWN)
}
