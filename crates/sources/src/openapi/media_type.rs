//! Media types of bodies, parts and parameters.

use serde::Serialize;

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

/// Returns how a body of a media type is sent.
pub(super) fn kind(media_type: &str) -> BodyKind {
    let essence = essence(media_type);
    match essence.as_str() {
        _ if is_json(&essence) => BodyKind::Json,
        "application/x-www-form-urlencoded" => BodyKind::Form,
        "multipart/form-data" => BodyKind::Multipart,
        "*/*" => BodyKind::Binary,
        _ if is_text(&essence) => BodyKind::Text,
        _ => BodyKind::Binary,
    }
}

/// Returns the preference of a media type; the lowest is used.
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

/// Returns whether a media type is JSON.
pub(super) fn is_json(media_type: &str) -> bool {
    let essence = essence(media_type);
    essence == "application/json" || essence.ends_with("+json")
}

/// Returns whether a media type, without parameters, is text, XML or a sequence of JSON texts.
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

/// Returns whether a media type is written as text.
pub(super) fn is_textual(media_type: &str) -> bool {
    let essence = essence(media_type);
    is_json(&essence)
        || is_text(&essence)
        || ["*/*", "application/*", "application/x-www-form-urlencoded", "application/yaml"]
            .contains(&essence.as_str())
}
